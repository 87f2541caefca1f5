/* The pool: free lists by size class; see pool.h. */
#include "tensor/pool.h"

#include <pthread.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/memory.h"

enum {
    UNIT = 64,      /* bytes; the smallest class and the alignment */
    STEP_BITS = 4,  /* 2^4 classes to each doubling */
    CLASSES = 1024, /* more than any 64-bit size needs */
};

/* A block that nobody uses holds the link to the next one. */
typedef struct free_block {
    struct free_block *next;
} free_block;

struct lsi_pool {
    pthread_mutex_t lock;
    bool closed;
    size_t out; /* blocks in use */
    free_block *kept[CLASSES];
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
    void *block = NULL;
    LS_TRY(lsi_alloc_zeroed(&block, sizeof(lsi_pool), LS_MEMORY_OTHER, "pool"));
    lsi_pool *pool = block;
    pthread_mutex_init(&pool->lock, NULL);
    *out = pool;
    return LS_OK;
}

static void destroy(lsi_pool *pool)
{
    pthread_mutex_destroy(&pool->lock);
    lsi_free(pool);
}

static void free_kept(lsi_pool *pool)
{
    for (unsigned c = 0; c < CLASSES; c++) {
        while (pool->kept[c] != NULL) {
            free_block *block = pool->kept[c];
            pool->kept[c] = block->next;
            lsi_free(block);
        }
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
    const ls_status status = lsi_alloc(out, bytes, LS_MEMORY_ACTIVATIONS, what);
    if (status != LS_ERR_MEMORY && status != LS_ERR_BUDGET)
        return status;
    lsi_pool_trim(pool);
    return lsi_alloc(out, bytes, LS_MEMORY_ACTIVATIONS, what);
}

ls_status lsi_pool_take(lsi_pool *pool, size_t bytes, const char *what,
                        void **out)
{
    size_t rounded = 0;
    const unsigned class = class_of(bytes, &rounded);
    pthread_mutex_lock(&pool->lock);
    free_block *block = pool->kept[class];
    if (block != NULL)
        pool->kept[class] = block->next;
    pool->out++; /* before the lock is left, so that a close waits for us */
    pthread_mutex_unlock(&pool->lock);
    if (block != NULL) {
        *out = block;
        return LS_OK;
    }
    const ls_status status = allocate(pool, rounded, what, out);
    if (status != LS_OK) {
        pthread_mutex_lock(&pool->lock);
        pool->out--;
        pthread_mutex_unlock(&pool->lock);
    }
    return status;
}

void lsi_pool_give(lsi_pool *pool, void *block, size_t bytes)
{
    size_t rounded = 0;
    const unsigned class = class_of(bytes, &rounded);
    pthread_mutex_lock(&pool->lock);
    pool->out--;
    const bool closed = pool->closed;
    const bool last = closed && pool->out == 0;
    if (!closed) {
        free_block *kept = block;
        kept->next = pool->kept[class];
        pool->kept[class] = kept;
    }
    pthread_mutex_unlock(&pool->lock);
    if (closed)
        lsi_free(block);
    if (last)
        destroy(pool);
}
