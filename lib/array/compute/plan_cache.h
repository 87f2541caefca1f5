/*
 * A map from keys (plain bytes) to plans, one for each thread: a plan has
 * scratch memory and may be used by one thread at a time. A thread's plans are
 * freed when it ends.
 *
 * Plans of a kind that is `limited` come in ever new shapes. All threads of the
 * process together keep at most LSI_PLAN_LIMIT of them. A new plan replaces the
 * one least recently used by any thread, with time counted in plans made.
 */
#ifndef LS_ARRAY_COMPUTE_PLAN_CACHE_H
#define LS_ARRAY_COMPUTE_PLAN_CACHE_H

#include <stdbool.h>
#include <stddef.h>

#include "lockstep/status.h"

enum { LSI_PLAN_LIMIT = 256 };

/*
 * Properties that all plans of one kind share. The address is part of the key.
 */
typedef struct lsi_plan_kind {
    const char *name; /* in errors */
    size_t key_bytes;
    ls_status (*make)(const void *key, void **plan);
    void (*destroy)(void *plan); /* by any thread */
    bool limited;
    /* Of limited plans: bytes that each has outside of lsi_alloc, about. */
    size_t (*hidden_bytes)(void); /* always the same */
} lsi_plan_kind;

/*
 * The calling thread's plan for the key, made on first use. Padding inside the
 * key must be zero. A limited plan stays until the thread asks for another
 * limited one, or calls lsi_plan_cache_done.
 */
ls_status lsi_plan_cache_get(const lsi_plan_kind *kind, const void *key,
                             void **plan);

/*
 * The kind of a plan that is memory for the next call of its kind, too; its key
 * is "". lsi_workspace_get makes it at least that large, for `what`.
 */
#define LSI_WORKSPACE_KIND(text)                                               \
    {                                                                          \
        .name = (text), .key_bytes = 1, .make = lsi_workspace_make,            \
        .destroy = lsi_workspace_destroy                                       \
    }
ls_status lsi_workspace_make(const void *key, void **out);
void lsi_workspace_destroy(void *argument);
ls_status lsi_workspace_get(const lsi_plan_kind *kind, size_t bytes,
                            const char *what, void **out);

/* The calling thread has done with the limited plan that it got last. */
void lsi_plan_cache_done(void);

/* Frees the calling thread's plans now; they are made again when needed. */
void lsi_plan_cache_drop(void);

#endif
