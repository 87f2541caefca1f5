/*
 * A map from keys (plain bytes) to plans, one for each thread: a plan has
 * scratch memory and may be used by one thread at a time. A thread's plans are
 * freed when it ends.
 */
#ifndef LS_COMPUTE_PLAN_CACHE_H
#define LS_COMPUTE_PLAN_CACHE_H

#include <stddef.h>

#include "lockstep/status.h"

/* What all plans of one kind share. Its address is part of the key. */
typedef struct lsi_plan_kind {
    const char *name; /* in errors */
    size_t key_bytes;
    ls_status (*make)(const void *key, void **plan);
    void (*destroy)(void *plan);
} lsi_plan_kind;

/*
 * The calling thread's plan for the key, made if there is none. Padding inside
 * the key must be zero.
 */
ls_status lsi_plan_cache_get(const lsi_plan_kind *kind, const void *key,
                             void **plan);

/* Frees the calling thread's plans now; what needs them makes them anew. */
void lsi_plan_cache_drop(void);

#endif
