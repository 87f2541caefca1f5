/*
 * The cache is a hash table with linear probing in thread-specific storage.
 *
 * Limited plans are also in a list of the process. Another thread may free one
 * that its owner does not hold: a hold and a drop each take the plan from IDLE,
 * so that only one of them gets it. The owner alone touches its table, and
 * finds a dropped plan as GONE. No lock is taken to find a plan.
 */
#include "array/compute/plan_cache.h"

#include <assert.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/held.h"
#include "base/memory.h"

enum { IDLE, HELD, GONE };

typedef struct limited_plan {
    _Atomic int state;
    _Atomic uint64_t used; /* plans that had been made at the last use */
    const lsi_plan_kind *kind;
    void *plan;
    struct limited_plan *next; /* in the list of all, unless GONE */
} limited_plan;

typedef struct entry {
    const lsi_plan_kind *kind; /* NULL: free */
    void *key;
    void *plan; /* a limited_plan if the kind is */
} entry;

typedef struct cache {
    entry *entries;
    size_t capacity; /* a power of two */
    size_t used;
    limited_plan *held; /* by the thread */
} cache;

enum { FIRST_CAPACITY = 64 };

static pthread_once_t make_slot_once = PTHREAD_ONCE_INIT;
static pthread_key_t slot;
static int slot_error = -1; /* 0: the slot exists */

/* ---- limited plans ------------------------------------------------------- */

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static limited_plan *all; /* list of existing plans */
static size_t n_all;      /* existing plans and plans being made */
static _Atomic uint64_t made;

static bool claim_idle(limited_plan *p, int state)
{
    int idle = IDLE;
    return atomic_compare_exchange_strong_explicit(
        &p->state, &idle, state, memory_order_acquire, memory_order_relaxed);
}

static void release(cache *c)
{
    if (c->held != NULL)
        atomic_store_explicit(&c->held->state, IDLE, memory_order_release);
    c->held = NULL;
}

static void unlink_plan(const limited_plan *p)
{
    limited_plan **at = &all;
    assert(lsi_mutex_held(&all_lock) && n_all > 0);
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    n_all--;
}

/* NULL if all are held. */
static limited_plan *least_recent(void)
{
    limited_plan *oldest = NULL;
    uint64_t least = UINT64_MAX;
    assert(lsi_mutex_held(&all_lock));
    for (limited_plan *p = all; p != NULL; p = p->next) {
        const uint64_t used =
            atomic_load_explicit(&p->used, memory_order_relaxed);
        if (used <= least &&
            atomic_load_explicit(&p->state, memory_order_relaxed) == IDLE) {
            oldest = p;
            least = used;
        }
    }
    return oldest;
}

static void destroy_plan(const lsi_plan_kind *kind, void *plan)
{
    assert(lsi_mutex_held(&all_lock));
    kind->destroy(plan);
    lsi_memory_discharge(kind->hidden_bytes(), LS_MEMORY_OTHER);
}

/* Books a place for one more; above the limit only if all plans are held. */
static void make_room(void)
{
    pthread_mutex_lock(&all_lock);
    while (n_all >= LSI_PLAN_LIMIT) {
        limited_plan *const p = least_recent();
        if (p == NULL)
            break;
        if (!claim_idle(p, GONE))
            continue; /* its owner was quicker, and it is the newest now */
        unlink_plan(p);
        destroy_plan(p->kind, p->plan);
    }
    n_all++;
    pthread_mutex_unlock(&all_lock);
}

static void give_up_room(void)
{
    pthread_mutex_lock(&all_lock);
    assert(n_all > 0);
    n_all--;
    pthread_mutex_unlock(&all_lock);
}

/*
 * The memory of a plan is between arrays of the same step, and each hole that
 * an array leaves is a little too small for the next, longer one. So the holes
 * are given back now and then. Without this, 1,000 lengths took ten times as
 * much memory.
 */
static void give_back_holes(uint64_t n)
{
    const uint64_t often = 32;
#ifdef __GLIBC__
    if (n % often == 0)
        (void)malloc_trim(0);
#else
    (void)n, (void)often;
#endif
}

/* Counted before it is made, so that a budget refuses it in time. */
static ls_status make_limited(const lsi_plan_kind *kind, const void *key,
                              limited_plan *p)
{
    void *plan;
    make_room();
    ls_status status =
        lsi_memory_charge(kind->hidden_bytes(), LS_MEMORY_OTHER, kind->name);
    if (status == LS_OK) {
        status = kind->make(key, &plan);
        if (status != LS_OK)
            lsi_memory_discharge(kind->hidden_bytes(), LS_MEMORY_OTHER);
    }
    if (status != LS_OK) {
        give_up_room();
        return status;
    }
    p->kind = kind;
    p->plan = plan;
    atomic_store_explicit(&p->state, HELD, memory_order_relaxed);
    pthread_mutex_lock(&all_lock);
    p->next = all;
    all = p;
    const uint64_t n =
        atomic_fetch_add_explicit(&made, 1, memory_order_relaxed) + 1;
    atomic_store_explicit(&p->used, n, memory_order_relaxed);
    pthread_mutex_unlock(&all_lock);
    give_back_holes(n);
    return LS_OK;
}

static ls_status new_limited(const lsi_plan_kind *kind, const void *key,
                             void **out)
{
    void *block;
    LS_TRY(lsi_alloc_zeroed(&block, sizeof(limited_plan), LS_MEMORY_OTHER,
                            kind->name));
    const ls_status status = make_limited(kind, key, block);
    if (status == LS_OK)
        *out = block;
    else
        lsi_free(block);
    return status;
}

/* By its owner. If another thread drops it just now, that has the lock. */
static void free_limited(limited_plan *p)
{
    pthread_mutex_lock(&all_lock);
    if (atomic_load_explicit(&p->state, memory_order_relaxed) != GONE) {
        unlink_plan(p);
        destroy_plan(p->kind, p->plan);
    }
    pthread_mutex_unlock(&all_lock);
    lsi_free(p);
}

/* The plan, made again if it is gone; held from here on. */
static ls_status hold(cache *c, limited_plan *p, const void *key, void **plan)
{
    if (!claim_idle(p, HELD))
        LS_TRY(make_limited(p->kind, key, p));
    atomic_store_explicit(&p->used,
                          atomic_load_explicit(&made, memory_order_relaxed),
                          memory_order_relaxed);
    c->held = p;
    *plan = p->plan;
    return LS_OK;
}

static bool is_gone(const entry *e)
{
    const limited_plan *const p = e->plan;
    return e->kind->limited &&
           atomic_load_explicit(&p->state, memory_order_acquire) == GONE;
}

/* ---- of a thread --------------------------------------------------------- */

static void free_entry(const entry *e)
{
    if (e->kind->limited)
        free_limited(e->plan);
    else
        e->kind->destroy(e->plan);
    lsi_free(e->key);
}

static void free_cache(void *argument)
{
    cache *c = argument;
    release(c);
    for (size_t i = 0; i < c->capacity; i++)
        if (c->entries[i].kind != NULL)
            free_entry(&c->entries[i]);
    lsi_free(c->entries);
    lsi_free(c);
}

static void make_slot(void)
{
    slot_error = pthread_key_create(&slot, free_cache);
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
    if (slot_error != 0) {
        errno = slot_error;
        return lsi_fail_errno(LS_ERR_SYSTEM,
                              "cannot create a pthread key for compute plans");
    }
    *out = pthread_getspecific(slot);
    if (*out != NULL)
        return LS_OK;
    LS_TRY(new_cache(out));
    if (pthread_setspecific(slot, *out) == 0)
        return LS_OK;
    free_cache(*out);
    return lsi_fail(
        LS_ERR_MEMORY,
        "not enough memory for thread-specific storage of compute plans");
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

/* To a table without plans that are gone, larger if need be. */
static ls_status grow(cache *c)
{
    cache bigger = {.capacity = c->capacity};
    void *entries;
    size_t there = 0;
    for (size_t i = 0; i < c->capacity; i++)
        there += c->entries[i].kind != NULL && !is_gone(&c->entries[i]);
    while (2 * (there + 1) > bigger.capacity)
        bigger.capacity *= 2;
    LS_TRY(lsi_alloc_zeroed(&entries, bigger.capacity * sizeof(entry),
                            LS_MEMORY_OTHER, "plan cache"));
    bigger.entries = entries;
    for (size_t i = 0; i < c->capacity; i++) {
        const entry *e = &c->entries[i];
        if (e->kind == NULL)
            continue;
        if (is_gone(e)) {
            free_entry(e);
            continue;
        }
        *find(&bigger, e->kind, e->key) = *e;
        bigger.used++;
    }
    lsi_free(c->entries);
    c->entries = bigger.entries;
    c->capacity = bigger.capacity;
    c->used = bigger.used;
    return LS_OK;
}

static ls_status insert(cache *c, const lsi_plan_kind *kind, const void *key,
                        void **out)
{
    if (4 * (c->used + 1) > 3 * c->capacity)
        LS_TRY(grow(c));
    void *copy, *plan = NULL;
    LS_TRY(lsi_alloc(&copy, kind->key_bytes, LS_MEMORY_OTHER, kind->name));
    memcpy(copy, key, kind->key_bytes);
    const ls_status status = kind->limited ? new_limited(kind, copy, &plan)
                                           : kind->make(copy, &plan);
    if (status != LS_OK) {
        lsi_free(copy);
        return status;
    }
    assert(c->used < c->capacity);
    *find(c, kind, key) = (entry){.kind = kind, .key = copy, .plan = plan};
    c->used++;
    if (kind->limited) {
        c->held = plan;
        plan = c->held->plan;
    }
    *out = plan;
    return LS_OK;
}

ls_status lsi_plan_cache_get(const lsi_plan_kind *kind, const void *key,
                             void **plan)
{
    cache *c = NULL;
    LS_TRY(thread_cache(&c));
    if (kind->limited)
        release(c);
    const entry *e = find(c, kind, key);
    if (e->kind == NULL)
        return insert(c, kind, key, plan);
    if (kind->limited)
        return hold(c, e->plan, key, plan);
    *plan = e->plan;
    return LS_OK;
}

void lsi_plan_cache_done(void)
{
    cache *const c = slot_error == 0 ? pthread_getspecific(slot) : NULL;
    if (c != NULL)
        release(c);
}

void lsi_plan_cache_drop(void)
{
    pthread_once(&make_slot_once, make_slot);
    cache *const c = slot_error == 0 ? pthread_getspecific(slot) : NULL;
    if (c == NULL || pthread_setspecific(slot, NULL) != 0)
        return;
    free_cache(c);
}
