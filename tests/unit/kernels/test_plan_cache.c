/* How many limited plans there are, which one goes, and that none in use does.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "array/compute/plan_cache.h"
#include "base/error.h"
#include "base/memory.h"
#include "testing.h"

enum { KEYS = 1000, HIDDEN = 1000 };

typedef struct fake {
    int32_t key;
    _Atomic int in_use;
} fake;

static _Atomic int there[KEYS]; /* plans of a key, of all threads */
static _Atomic int total, made_of[KEYS];

static ls_status make(const void *key, void **plan)
{
    void *block;
    LS_TRY(lsi_alloc_zeroed(&block, sizeof(fake), LS_MEMORY_OTHER, "fake"));
    fake *f = block;
    memcpy(&f->key, key, sizeof f->key);
    atomic_fetch_add(&there[f->key], 1);
    atomic_fetch_add(&made_of[f->key], 1);
    atomic_fetch_add(&total, 1);
    *plan = f;
    return LS_OK;
}

static void destroy(void *plan)
{
    fake *f = plan;
    assert_int_equal(atomic_load(&f->in_use), 0);
    atomic_fetch_sub(&there[f->key], 1);
    atomic_fetch_sub(&total, 1);
    f->key = -1;
    lsi_free(f);
}

static size_t hidden(void)
{
    return HIDDEN;
}

static const lsi_plan_kind limited = {.name = "fake",
                                      .key_bytes = sizeof(int32_t),
                                      .make = make,
                                      .destroy = destroy,
                                      .limited = true,
                                      .hidden_bytes = hidden};
static const lsi_plan_kind unlimited = {.name = "fake",
                                        .key_bytes = sizeof(int32_t),
                                        .make = make,
                                        .destroy = destroy};

static fake *get(const lsi_plan_kind *kind, int32_t key)
{
    void *plan = NULL;
    assert_ok(lsi_plan_cache_get(kind, &key, &plan));
    fake *f = plan;
    assert_int_equal(f->key, key);
    return f;
}

static void use(int32_t from, int32_t to)
{
    for (int32_t key = from; key < to; key++)
        get(&limited, key);
    lsi_plan_cache_done();
}

static void the_least_recent_goes(void **state)
{
    (void)state;
    use(0, LSI_PLAN_LIMIT);
    assert_int_equal(atomic_load(&total), LSI_PLAN_LIMIT);
    use(0, 1);
    use(LSI_PLAN_LIMIT, LSI_PLAN_LIMIT + 1);
    assert_int_equal(atomic_load(&total), LSI_PLAN_LIMIT);
    assert_int_equal(there[0], 1);
    assert_int_equal(there[1], 0);
    assert_int_equal(there[2], 1);
    use(1, 2); /* made again, in the place of 2 */
    assert_int_equal(made_of[1], 2);
    assert_int_equal(there[2], 0);
    lsi_plan_cache_drop();
    assert_int_equal(atomic_load(&total), 0);
}

static void others_stay(void **state)
{
    (void)state;
    for (int32_t key = KEYS - 300; key < KEYS; key++)
        get(&unlimited, key);
    use(0, KEYS - 300);
    for (int32_t key = KEYS - 300; key < KEYS; key++)
        assert_int_equal(there[key], 1);
    assert_int_equal(atomic_load(&total), 300 + LSI_PLAN_LIMIT);
    lsi_plan_cache_drop();
}

static void bytes_are_counted(void **state)
{
    (void)state;
    ls_memory_stats before, after;
    ls_memory_of(LS_MEMORY_OTHER, &before);
    use(0, KEYS);
    ls_memory_of(LS_MEMORY_OTHER, &after);
    const size_t bytes = after.live_bytes - before.live_bytes;
    assert_true(bytes >= LSI_PLAN_LIMIT * HIDDEN);
    assert_true(bytes <= LSI_PLAN_LIMIT * (HIDDEN + 1000));
    lsi_plan_cache_drop();
    ls_memory_of(LS_MEMORY_OTHER, &after);
    assert_int_equal(after.live_bytes, before.live_bytes);
}

static void a_budget_refuses(void **state)
{
    (void)state;
    ls_memory_stats now;
    void *plan = NULL;
    const int32_t key = 7;
    use(0, 1);
    ls_memory_total(&now);
    ls_memory_set_budget(now.live_bytes + HIDDEN / 2);
    const ls_status status = lsi_plan_cache_get(&limited, &key, &plan);
    ls_memory_set_budget(0);
    assert_int_equal(status, LS_ERR_BUDGET);
    assert_int_equal(atomic_load(&total), 1);
    assert_int_equal(get(&limited, key)->key, key);
    lsi_plan_cache_drop();
}

/* ---- threads ------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 20000 };

/* A plan in use is marked: who destroys it then would see that. */
static void *work(void *argument)
{
    uint32_t random = (uint32_t)(uintptr_t)argument;
    for (int i = 0; i < ROUNDS; i++) {
        random = random * 1664525 + 1013904223;
        const int32_t key = (int32_t)(random >> 8) % (KEYS / 2);
        fake *f = get(&limited, key);
        atomic_store(&f->in_use, 1);
        assert_int_equal(f->key, key);
        atomic_store(&f->in_use, 0);
        if (random >> 31)
            lsi_plan_cache_done();
    }
    return NULL;
}

static void none_in_use_goes(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, work, (void *)(i + 1)), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&total), 0);
}

static void *fill(void *argument)
{
    (void)argument;
    use(0, LSI_PLAN_LIMIT);
    return NULL;
}

/* A thread that is idle gives its plans to others, but not the one it holds. */
static void threads_share_the_limit(void **state)
{
    (void)state;
    pthread_t thread;
    use(KEYS - 100, KEYS - 1);
    fake *held = get(&limited, KEYS - 1);
    atomic_store(&held->in_use, 1);
    assert_int_equal(pthread_create(&thread, NULL, fill, NULL), 0);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&total), 1);
    atomic_store(&held->in_use, 0);
    assert_ptr_equal(get(&limited, KEYS - 1), held);
    use(KEYS - 100, KEYS);
    lsi_plan_cache_drop();
    assert_int_equal(atomic_load(&total), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_least_recent_goes),
        cmocka_unit_test(others_stay),
        cmocka_unit_test(bytes_are_counted),
        cmocka_unit_test(a_budget_refuses),
        cmocka_unit_test(none_in_use_goes),
        cmocka_unit_test(threads_share_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
