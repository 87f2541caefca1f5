/*
 * The pool: lists by size class; see pool.h. Each block of data has a record:
 * on the list of its class while the block is kept, and on `spare` while the
 * block is in use. So giving a block back cannot fail. Headers are kept in a
 * list that runs through the headers themselves.
 */
#include "model/tensor/pool.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/held.h"
#include "base/memory.h"

enum {
    UNIT = 64,      /* bytes; the smallest class and the alignment */
    STEP_BITS = 4,  /* 2^4 classes to each doubling */
    CLASSES = 1024, /* more than any 64-bit size needs */
    HEADER_CLASSES = 16
};

typedef struct record {
    struct record *next;
    void *block;
} record;

struct lsi_pool {
    pthread_mutex_t lock;
    bool closed;
    size_t out; /* blocks and headers in use */
    record *kept[CLASSES];
    record *spare;
    record *headers[HEADER_CLASSES]; /* each its own record */
};

/* The class of a size, and the size that all blocks of that class have. */
static unsigned class_of(size_t bytes, size_t *rounded)
{
    const size_t last = (bytes > 0 ? bytes - 1 : 0) / UNIT; /* units - 1 */
    const unsigned log2 = last > 0 ? 63U - (unsigned)__builtin_clzll(last) : 0U;
    const unsigned shift = log2 > STEP_BITS ? log2 - STEP_BITS : 0U;
    const size_t mantissa = last >> shift;
    *rounded = ((mantissa + 1) << shift) * UNIT;
    return (shift << STEP_BITS) + (unsigned)mantissa;
}

ls_status lsi_pool_new(lsi_pool **out)
{
    lsi_pool *pool;
    LS_TRY(lsi_alloc_zeroed(&pool, sizeof(lsi_pool), LS_MEMORY_OTHER, "pool"));
    pthread_mutex_init(&pool->lock, NULL);
    *out = pool;
    return LS_OK;
}

static void destroy(lsi_pool *pool)
{
    pthread_mutex_destroy(&pool->lock);
    lsi_free(pool);
}

static record *pop(record **list)
{
    record *const first = *list;
    if (first != NULL)
        *list = first->next;
    return first;
}

static void push(record **list, record *r)
{
    r->next = *list;
    *list = r;
}

static void free_kept(lsi_pool *pool)
{
    record *r;
    assert(lsi_mutex_held(&pool->lock));
    for (unsigned c = 0; c < CLASSES; c++) {
        while ((r = pop(&pool->kept[c])) != NULL) {
            lsi_free(r->block);
            lsi_free(r);
        }
    }
    for (unsigned c = 0; c < HEADER_CLASSES; c++) {
        while ((r = pop(&pool->headers[c])) != NULL)
            lsi_free(r);
    }
}

void lsi_pool_close(lsi_pool **pool)
{
    if (pool == NULL || *pool == NULL)
        return;
    lsi_pool *closing = *pool;
    *pool = NULL;
    pthread_mutex_lock(&closing->lock);
    free_kept(closing);
    closing->closed = true;
    const bool last = closing->out == 0;
    pthread_mutex_unlock(&closing->lock);
    if (last)
        destroy(closing);
}

void lsi_pool_trim(lsi_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    free_kept(pool);
    pthread_mutex_unlock(&pool->lock);
}

static ls_status allocate(lsi_pool *pool, size_t bytes, const char *what,
                          void **out)
{
    const ls_status status = lsi_alloc_kept(out, bytes, what);
    if (status != LS_ERR_MEMORY && status != LS_ERR_BUDGET)
        return status;
    lsi_pool_trim(pool);
    return lsi_alloc_kept(out, bytes, what);
}

/* A block and the record that it has from then on. */
static ls_status allocate_both(lsi_pool *pool, size_t bytes, const char *what,
                               void **out)
{
    void *r = NULL, *block = NULL;
    LS_TRY(allocate(pool, sizeof(record), what, &r));
    const ls_status status = allocate(pool, bytes, what, &block);
    if (status != LS_OK) {
        lsi_free(r);
        return status;
    }
    pthread_mutex_lock(&pool->lock);
    push(&pool->spare, r);
    pthread_mutex_unlock(&pool->lock);
    *out = block;
    return LS_OK;
}

/* After an allocation; a failed one is not in use. */
static ls_status uncount_failure(lsi_pool *pool, ls_status status)
{
    if (status != LS_OK) {
        pthread_mutex_lock(&pool->lock);
        pool->out--;
        pthread_mutex_unlock(&pool->lock);
    }
    return status;
}

/* Counts the block before it unlocks, so that a close waits for this call. */
ls_status lsi_pool_take(lsi_pool *pool, size_t bytes, const char *what,
                        void **out)
{
    size_t rounded = 0;
    const unsigned class = class_of(bytes, &rounded);
    pthread_mutex_lock(&pool->lock);
    record *const r = pop(&pool->kept[class]);
    if (r != NULL) {
        *out = r->block;
        push(&pool->spare, r);
    }
    pool->out++;
    pthread_mutex_unlock(&pool->lock);
    if (r == NULL)
        LS_TRY(uncount_failure(pool, allocate_both(pool, rounded, what, out)));
    const lsi_memory_hook *const hook = lsi_memory_get_hook();
    if (hook != NULL)
        hook->taken(*out, bytes, LS_MEMORY_ACTIVATIONS, what, true);
    return LS_OK;
}

ls_status lsi_pool_take_header(lsi_pool *pool, size_t bytes, const char *what,
                               void **out)
{
    if (pool == NULL)
        return lsi_alloc(out, bytes, LS_MEMORY_OTHER, what);
    size_t rounded = 0;
    const unsigned class = class_of(bytes, &rounded);
    assert(class < HEADER_CLASSES);
    pthread_mutex_lock(&pool->lock);
    record *const r = pop(&pool->headers[class]);
    if (r != NULL)
        *out = r;
    pool->out++;
    pthread_mutex_unlock(&pool->lock);
    return r != NULL
               ? LS_OK
               : uncount_failure(pool, allocate(pool, rounded, what, out));
}

/* Unlocks; frees memory that a closed pool does not keep. */
static void unlock_and_free(lsi_pool *pool, void *held)
{
    assert(lsi_mutex_held(&pool->lock) && pool->out > 0);
    const bool closed = pool->closed;
    const bool last = --pool->out == 0 && closed;
    pthread_mutex_unlock(&pool->lock);
    if (closed)
        lsi_free(held);
    if (last)
        destroy(pool);
}

void lsi_pool_give(lsi_pool *pool, void *block, size_t bytes)
{
    size_t rounded = 0;
    const unsigned class = class_of(bytes, &rounded);
    const lsi_memory_hook *const hook = lsi_memory_get_hook();
    if (hook != NULL)
        hook->given(block, 0, LS_MEMORY_ACTIVATIONS);
    pthread_mutex_lock(&pool->lock);
    record *const r = pop(&pool->spare);
    r->block = block;
    if (!pool->closed)
        push(&pool->kept[class], r);
    else
        lsi_free(block);
    unlock_and_free(pool, r);
}

void lsi_pool_give_header(lsi_pool *pool, void *header, size_t bytes)
{
    if (pool == NULL) {
        lsi_free(header);
        return;
    }
    size_t rounded = 0;
    const unsigned class = class_of(bytes, &rounded);
    pthread_mutex_lock(&pool->lock);
    if (!pool->closed)
        push(&pool->headers[class], header);
    unlock_and_free(pool, header);
}
