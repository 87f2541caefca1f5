/*
 * An allocator of the program: the library takes every block from it and gives
 * each back. Each case is a child process, as it is set once a process.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "lockstep/lockstep.h"
#include "testing.h"

enum { MIB = 1 << 20, HUGE_BLOCK = 4 * MIB };

typedef struct counts {
    atomic_size_t allocated, released, live; /* blocks, blocks, bytes */
    atomic_size_t wrong;                     /* of an alignment or size */
    size_t most; /* bytes of the largest block that it has; 0: any */
} counts;

static void *allocate(void *context, size_t alignment, size_t bytes)
{
    counts *const c = context;
    if (c->most != 0 && bytes > c->most)
        return NULL;
    if (bytes % 64 != 0 || alignment != (bytes > HUGE_BLOCK ? 2 * MIB : 64))
        atomic_fetch_add(&c->wrong, 1);
    void *block = NULL;
    if (posix_memalign(&block, alignment, bytes) != 0)
        return NULL;
    atomic_fetch_add(&c->allocated, 1);
    atomic_fetch_add(&c->live, bytes);
    return block;
}

static void release(void *context, void *block, size_t bytes)
{
    counts *const c = context;
    atomic_fetch_add(&c->released, 1);
    atomic_fetch_sub(&c->live, bytes);
    free(block);
}

static ls_allocator allocator_of(counts *c)
{
    return (ls_allocator){.struct_size = sizeof(ls_allocator),
                          .context = c,
                          .allocate = allocate,
                          .release = release};
}

/* Of the child: the first line at which something is not true. */
#define EXPECT(condition)                                                      \
    do {                                                                       \
        if (!(condition))                                                      \
            return __LINE__;                                                   \
    } while (0)

static void in_child(int (*body)(void))
{
    int status = 0, line = 0, ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        line = body();
        _exit(write(ends[1], &line, sizeof(line)) != sizeof(line));
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &line, sizeof(line)), sizeof(line));
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    if (line != 0)
        fail_msg("%s:%d: not true (last error: %s)", __FILE__, line,
                 ls_last_error());
}

/* Sizes at the borders of a unit and of huge blocks. */
static int allocate_blocks(void)
{
    static const size_t sizes[] = {
        0, 1, 63, 64, 65, 4095, HUGE_BLOCK - 1, HUGE_BLOCK, HUGE_BLOCK + 1};
    enum { N = sizeof(sizes) / sizeof(sizes[0]) };
    counts c = {0};
    const ls_allocator own = allocator_of(&c);
    void *blocks[N];
    EXPECT(ls_set_allocator(&own) == LS_OK);
    size_t bytes = 0;
    for (int i = 0; i < N; i++) {
        EXPECT(lsi_alloc(&blocks[i], sizes[i], LS_MEMORY_OTHER, "x") == LS_OK);
        EXPECT((uintptr_t)blocks[i] % 64 == 0);
        memset(blocks[i], 1, sizes[i]);
        bytes += sizes[i];
        EXPECT(c.allocated == (size_t)i + 1 && c.live > bytes);
    }
    ls_memory_stats total;
    ls_memory_total(&total);
    EXPECT(total.live_bytes == bytes); /* without headers */
    for (int i = 0; i < N; i++)
        lsi_free(blocks[i]);
    EXPECT(c.released == N && c.live == 0 && c.wrong == 0);
    return 0;
}

static void every_block_comes_from_it(void **state)
{
    (void)state;
    in_child(allocate_blocks);
}

/* A step of training: all that is counted as allocated is the program's. */
static int train(void)
{
    counts c = {0};
    const ls_allocator own = allocator_of(&c);
    EXPECT(ls_set_allocator(&own) == LS_OK);
    ls_group *group = NULL;
    ls_params *params = NULL;
    ls_optimizer *optimizer = NULL;
    ls_linear_layer layer;
    EXPECT(ls_group_open_threads(&group, 1) == LS_OK);
    EXPECT(ls_params_new(&params) == LS_OK);
    EXPECT(ls_linear_layer_init(&layer, params, "l", 300, 70,
                                LS_LAYER_DEFAULT) == LS_OK);
    EXPECT(ls_params_allocate(params, group, 1) == LS_OK);
    EXPECT(ls_optimizer_new(&optimizer, params, NULL) == LS_OK);
    EXPECT(ls_optimizer_step(optimizer, 1.0) == LS_OK);
    ls_memory_stats total, shared;
    ls_memory_total(&total);
    ls_memory_of(LS_MEMORY_COMM, &shared);
    EXPECT(c.allocated > 5);
    EXPECT(c.live > total.live_bytes - shared.live_bytes);
    ls_optimizer_free(&optimizer);
    ls_params_free(&params);
    ls_group_close(&group);
    EXPECT(c.released == c.allocated && c.live == 0 && c.wrong == 0);
    return 0;
}

static void the_library_trains_in_it(void **state)
{
    (void)state;
    in_child(train);
}

static int run_out(void)
{
    counts c = {.most = MIB};
    const ls_allocator own = allocator_of(&c);
    void *block = NULL;
    EXPECT(ls_set_allocator(&own) == LS_OK);
    EXPECT(lsi_alloc(&block, 2 * MIB, LS_MEMORY_DATA, "a thing") ==
           LS_ERR_MEMORY);
    EXPECT(strstr(ls_last_error(), "a thing: the program's allocator cannot "
                                   "provide 2097152 bytes (data)") != NULL);
    ls_memory_stats total;
    ls_memory_total(&total);
    EXPECT(total.live_bytes == 0 && total.peak_bytes == 0);
    EXPECT(lsi_alloc(&block, 100, LS_MEMORY_DATA, "a thing") == LS_OK);
    lsi_free(block);
    return 0;
}

static void it_may_have_no_memory(void **state)
{
    (void)state;
    in_child(run_out);
}

static int set_late(void)
{
    counts c = {0};
    const ls_allocator own = allocator_of(&c);
    void *block = NULL;
    EXPECT(lsi_alloc(&block, 1, LS_MEMORY_OTHER, "x") == LS_OK);
    EXPECT(ls_set_allocator(&own) == LS_ERR_STATE);
    EXPECT(strstr(ls_last_error(), "the library has already allocated memory"));
    lsi_free(block);
    EXPECT(ls_set_allocator(&own) == LS_ERR_STATE);
    EXPECT(c.allocated == 0 && c.released == 0);
    return 0;
}

static int set_twice(void)
{
    counts c = {0};
    const ls_allocator own = allocator_of(&c);
    EXPECT(ls_set_allocator(&own) == LS_OK);
    EXPECT(ls_set_allocator(&own) == LS_ERR_STATE);
    EXPECT(strstr(ls_last_error(), "an allocator has already been set") !=
           NULL);
    return 0;
}

static int set_wrongly(void)
{
    counts c = {0};
    ls_allocator own = allocator_of(&c);
    own.release = NULL;
    EXPECT(ls_set_allocator(&own) == LS_ERR_ARGUMENT);
    EXPECT(strstr(ls_last_error(), "release is NULL") != NULL);
    own = (ls_allocator){.release = release};
    EXPECT(ls_set_allocator(&own) == LS_ERR_ARGUMENT);
    EXPECT(strstr(ls_last_error(), "allocate is NULL") != NULL);
    own = (ls_allocator){.struct_size = 3};
    EXPECT(ls_set_allocator(&own) == LS_ERR_ARGUMENT);
    EXPECT(strstr(ls_last_error(), "ls_allocator.struct_size is 3") != NULL);
    return 0;
}

/* Of a newer version, and of the first. */
static int set_of_other_sizes(void)
{
    counts c = {0};
    struct {
        ls_allocator own;
        void *later;
    } newer = {allocator_of(&c), &c};
    newer.own.struct_size = sizeof(newer);
    EXPECT(ls_set_allocator(&newer.own) == LS_ERR_ARGUMENT);
    EXPECT(strstr(ls_last_error(), "needs a newer library") != NULL);
    newer.own.struct_size = 0;
    EXPECT(ls_set_allocator(&newer.own) == LS_OK);
    return 0;
}

static void it_is_set_once_and_first(void **state)
{
    (void)state;
    in_child(set_late);
    in_child(set_twice);
    in_child(set_wrongly);
    in_child(set_of_other_sizes);
}

enum { THREADS = 4 };

typedef struct race {
    const ls_allocator *own;
    atomic_int set, failed;
} race;

static void *set_or_allocate(void *context)
{
    race *const r = context;
    void *block = NULL;
    if (ls_set_allocator(r->own) == LS_OK)
        atomic_fetch_add(&r->set, 1);
    if (lsi_alloc(&block, 64, LS_MEMORY_OTHER, "x") != LS_OK)
        atomic_fetch_add(&r->failed, 1);
    lsi_free(block);
    return NULL;
}

/* One of the threads sets it, and then all allocate by it. */
static int set_from_threads(void)
{
    counts c = {0};
    const ls_allocator own = allocator_of(&c);
    race r = {.own = &own};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, set_or_allocate, &r) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    EXPECT(r.set == 1 && r.failed == 0);
    EXPECT(c.allocated == THREADS && c.released == THREADS && c.live == 0);
    return 0;
}

static void threads_set_it_at_once(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++)
        in_child(set_from_threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_block_comes_from_it),
        cmocka_unit_test(the_library_trains_in_it),
        cmocka_unit_test(it_may_have_no_memory),
        cmocka_unit_test(it_is_set_once_and_first),
        cmocka_unit_test(threads_set_it_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
