/*
 * What the library needs of a device whose memory the host does not reach:
 * memory, and copies that a stream makes in their order. A module implements it
 * over the runtime of such devices; it includes this file and links nothing of
 * the library.
 *
 * Functions that return an int return 0, or -1 and leave a sentence for
 * `error`. What a stream has been given may fail long after: then `wait` says
 * so, and from then on the stream does nothing more. Calls for one stream come
 * from one thread at a time.
 */
#ifndef LS_DEVICE_TABLE_H
#define LS_DEVICE_TABLE_H

#include <stddef.h>

enum {
    LSI_DEVICE_VERSION = 1, /* changes with this file */
    LSI_DEVICE_FULL = -2    /* a result of allocate: there is too little left */
};

typedef enum lsi_transfer {
    LSI_TRANSFER_TO_DEVICE,
    LSI_TRANSFER_FROM_DEVICE,
    LSI_TRANSFER_ON_DEVICE
} lsi_transfer;

/* The module's own. */
typedef struct lsi_stream lsi_stream;

typedef struct lsi_device_table {
    int version;
    const char *name; /* "cuda:0" */
    int (*open)(lsi_stream **out);
    /* Waits for what the stream still does. */
    void (*close)(lsi_stream *stream);
    /* At least 64-byte aligned; `bytes` is not 0. */
    int (*allocate)(lsi_stream *stream, size_t bytes, void **out);
    /* Takes effect behind what the stream has been given before. */
    void (*release)(lsi_stream *stream, void *block);
    /*
     * Both return at once. The host's memory stays as it is, and where it is,
     * until `wait` has returned.
     */
    int (*copy)(lsi_stream *stream, void *dst, const void *src, size_t bytes,
                lsi_transfer way);
    int (*fill)(lsi_stream *stream, void *dst, int byte, size_t bytes);
    /* Until all is done that the stream has been given. */
    int (*wait)(lsi_stream *stream);
    const char *(*error)(lsi_stream *stream);
} lsi_device_table;

#endif
