/*
 * The cache is a hash table with linear probing in thread-specific storage.
 */
#include "compute/plan_cache.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"

typedef struct entry {
    const lsi_plan_kind *kind; /* NULL: free */
    void *key;
    void *plan;
} entry;

typedef struct cache {
    entry *entries;
    size_t capacity; /* a power of two */
    size_t used;
} cache;

enum { FIRST_CAPACITY = 64 };

static pthread_once_t make_slot_once = PTHREAD_ONCE_INIT;
static pthread_key_t slot;
static bool have_slot;

static void free_cache(void *argument)
{
    cache *c = argument;
    for (size_t i = 0; i < c->capacity; i++) {
        entry *e = &c->entries[i];
        if (e->kind == NULL)
            continue;
        e->kind->destroy(e->plan);
        lsi_free(e->key);
    }
    lsi_free(c->entries);
    lsi_free(c);
}

static void make_slot(void)
{
    have_slot = pthread_key_create(&slot, free_cache) == 0;
}

static ls_status new_cache(cache **out)
{
    void *block, *entries;
    LS_TRY(lsi_alloc_zeroed(&entries, FIRST_CAPACITY * sizeof(entry),
                            LS_MEMORY_OTHER, "plan cache"));
    const ls_status status =
        lsi_alloc(&block, sizeof(cache), LS_MEMORY_OTHER, "plan cache");
    if (status != LS_OK) {
        lsi_free(entries);
        return status;
    }
    *out = block;
    **out = (cache){.entries = entries, .capacity = FIRST_CAPACITY};
    return LS_OK;
}

static ls_status thread_cache(cache **out)
{
    pthread_once(&make_slot_once, make_slot);
    if (!have_slot)
        return lsi_fail(LS_ERR_SYSTEM,
                        "no thread-specific storage is left for plans");
    *out = pthread_getspecific(slot);
    if (*out != NULL)
        return LS_OK;
    LS_TRY(new_cache(out));
    if (pthread_setspecific(slot, *out) == 0)
        return LS_OK;
    free_cache(*out);
    return lsi_fail(LS_ERR_MEMORY, "thread-specific storage for plans");
}

static uint64_t hash(const lsi_plan_kind *kind, const void *key)
{
    const uint64_t h = lsi_hash(LSI_HASH_START ^ (uint64_t)(uintptr_t)kind, key,
                                kind->key_bytes);
    return h ^ (h >> 32);
}

/* The entry of the key, or the free one where it would go. */
static entry *find(const cache *c, const lsi_plan_kind *kind, const void *key)
{
    for (size_t i = hash(kind, key);; i++) {
        entry *e = &c->entries[i & (c->capacity - 1)];
        if (e->kind == NULL ||
            (e->kind == kind && memcmp(e->key, key, kind->key_bytes) == 0))
            return e;
    }
}

static ls_status grow(cache *c)
{
    cache bigger = {.capacity = 2 * c->capacity, .used = c->used};
    void *entries;
    LS_TRY(lsi_alloc_zeroed(&entries, bigger.capacity * sizeof(entry),
                            LS_MEMORY_OTHER, "plan cache"));
    bigger.entries = entries;
    for (size_t i = 0; i < c->capacity; i++) {
        const entry *e = &c->entries[i];
        if (e->kind != NULL)
            *find(&bigger, e->kind, e->key) = *e;
    }
    lsi_free(c->entries);
    *c = bigger;
    return LS_OK;
}

static ls_status insert(cache *c, const lsi_plan_kind *kind, const void *key,
                        void **plan)
{
    if (4 * (c->used + 1) > 3 * c->capacity)
        LS_TRY(grow(c));
    void *copy, *made;
    LS_TRY(lsi_alloc(&copy, kind->key_bytes, LS_MEMORY_OTHER, kind->name));
    memcpy(copy, key, kind->key_bytes);
    const ls_status status = kind->make(copy, &made);
    if (status != LS_OK) {
        lsi_free(copy);
        return status;
    }
    *find(c, kind, key) = (entry){.kind = kind, .key = copy, .plan = made};
    c->used++;
    *plan = made;
    return LS_OK;
}

ls_status lsi_plan_cache_get(const lsi_plan_kind *kind, const void *key,
                             void **plan)
{
    cache *c = NULL;
    LS_TRY(thread_cache(&c));
    const entry *e = find(c, kind, key);
    if (e->kind == NULL)
        return insert(c, kind, key, plan);
    *plan = e->plan;
    return LS_OK;
}

void lsi_plan_cache_drop(void)
{
    pthread_once(&make_slot_once, make_slot);
    cache *const c = have_slot ? pthread_getspecific(slot) : NULL;
    if (c == NULL || pthread_setspecific(slot, NULL) != 0)
        return;
    free_cache(c);
}
