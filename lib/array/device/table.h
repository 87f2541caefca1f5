/*
 * What the library needs of devices whose memory the host does not reach:
 * memory, streams that do one thing after another, events between them, and
 * operations on whole arrays. A module implements it over the runtime of such
 * devices; it includes this file, and links nothing of the library.
 *
 * Functions that return an int return 0, or -1 and leave a sentence for
 * `error`. What a stream has been given may fail long after: then `wait` says
 * so, and from then on the device does nothing more. Calls for one device come
 * from one thread at a time.
 */
#ifndef LS_ARRAY_DEVICE_TABLE_H
#define LS_ARRAY_DEVICE_TABLE_H

#include <stddef.h>

enum {
    LSI_DEVICE_VERSION = 2, /* changes with this file and compute/operations */
    LSI_DEVICE_FULL = -2    /* a result of allocate: there is too little left */
};

/* What a module's library exports: const lsi_device_table *(void). */
#define LSI_DEVICE_SYMBOL "lockstep_device"

typedef enum lsi_transfer {
    LSI_TRANSFER_TO_DEVICE,
    LSI_TRANSFER_FROM_DEVICE,
    LSI_TRANSFER_ON_DEVICE
} lsi_transfer;

/* The module's own. */
typedef struct lsi_device_context lsi_device_context;
typedef struct lsi_device_stream lsi_device_stream;
typedef struct lsi_device_event lsi_device_event;

/* What another process needs to map a block. */
typedef struct lsi_device_share {
    unsigned char bytes[64];
} lsi_device_share;

typedef struct lsi_device_facts {
    char name[128];   /* "NVIDIA H100 80GB HBM3" */
    char detail[128]; /* what else tells devices apart; or empty */
    size_t memory;    /* bytes */
} lsi_device_facts;

struct lsi_operations; /* compute/operations.h */

typedef struct lsi_device_table {
    int version;
    const char *kind; /* "cuda": devices are cuda:0, cuda:1, ... */

    /* ---- devices --------------------------------------------------------- */
    /* *n = how many there are; -1 if that kind cannot be used here. */
    int (*count)(int *n);
    int (*describe)(int index, lsi_device_facts *out);
    int (*open)(int index, lsi_device_context **out);
    /* Its streams have been closed, and its memory given back. */
    void (*close)(lsi_device_context *context);
    /* The last failure; with NULL that of count, describe or open. */
    const char *(*error)(const lsi_device_context *context);

    /* ---- streams and events ---------------------------------------------- */
    int (*stream_open)(lsi_device_context *context, lsi_device_stream **out);
    /* Waits for what the stream still does. */
    void (*stream_close)(lsi_device_stream *stream);
    /* Until all is done that the stream has been given. */
    int (*wait)(lsi_device_stream *stream);
    int (*event_make)(lsi_device_context *context, lsi_device_event **out);
    void (*event_free)(lsi_device_event *event);
    /* Happens when the stream has done what it has been given so far. */
    int (*event_record)(lsi_device_event *event, lsi_device_stream *stream);
    /* What the stream is given from now on waits for the event. */
    int (*event_await)(lsi_device_event *event, lsi_device_stream *stream);
    /* *ms = time from one event to a later one; waits for both. */
    int (*event_elapsed)(lsi_device_event *from, lsi_device_event *to,
                         double *ms);

    /* ---- memory ---------------------------------------------------------- */
    /* At least 64-byte aligned; `bytes` is not 0. */
    int (*allocate)(lsi_device_stream *stream, size_t bytes, void **out);
    /* Takes effect behind what the stream has been given before. */
    void (*release)(lsi_device_stream *stream, void *block);
    /* The host's memory that the device copies without a detour. */
    int (*pin)(lsi_device_context *context, size_t bytes, void **out);
    void (*unpin)(lsi_device_context *context, void *block);
    /*
     * Both return at once. The host's memory stays as it is, and where it is,
     * until `wait` has returned.
     */
    int (*copy)(lsi_device_stream *stream, void *dst, const void *src,
                size_t bytes, lsi_transfer way);
    int (*fill)(lsi_device_stream *stream, void *dst, int byte, size_t bytes);
    /*
     * A block of `share_allocate`, for which processes that share a device can
     * ask: the one that has it gives `share`, the others attach and detach.
     */
    int (*share_allocate)(lsi_device_context *context, size_t bytes,
                          void **out);
    void (*share_release)(lsi_device_context *context, void *block);
    int (*share)(lsi_device_context *context, const void *block,
                 lsi_device_share *out);
    int (*attach)(lsi_device_context *context, const lsi_device_share *share,
                  void **out);
    void (*detach)(lsi_device_context *context, void *block);

    /* ---- operations ------------------------------------------------------ */
    /* On whole arrays; NULL: none yet. */
    const struct lsi_operations *operations;
} lsi_device_table;

#endif
