/*
 * The module for NVIDIA's GPUs, over a driver that stands in for theirs: what
 * moves is equal to the bit, streams wait for each other where they are told
 * to, errors are sentences, and nothing is left behind. After each test the
 * caller's own context is as current as it was.
 */
#include "testing.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_device.h"

static const standin_settings quiet = {.devices = 2};

/* Another user of CUDA in this process, whose context is current. */
static int with_another_user(void **state)
{
    (void)state;
    driver->set(quiet);
    driver->make_current(1);
    return driver->current() == 1 ? 0 : -1;
}

static int leaves_nothing(void **state)
{
    (void)state;
    const int still = driver->current();
    driver->make_current(-1);
    const standin_counts none = {0}, left = driver->count();
    return still == 1 && memcmp(&left, &none, sizeof(none)) == 0 ? 0 : -1;
}

/* ---- devices ------------------------------------------------------------- */

static void test_two_devices(void **state)
{
    lsi_device_entry entries[4];
    const lsi_device_table *table = NULL;
    int n = 0, index = -1;
    (void)state;
    assert_ok(lsi_device_list(entries, 4, &n));
    assert_int_equal(n, 2);
    for (int i = 0; i < n; i++) {
        char name[32], detail[64];
        snprintf(name, sizeof(name), "Stand-in %d", i);
        snprintf(detail, sizeof(detail),
                 "compute capability 9.%d, driver of CUDA 13.1", i);
        assert_string_equal(entries[i].facts.name, name);
        assert_string_equal(entries[i].facts.detail, detail);
        assert_true(entries[i].facts.memory == (size_t)(i + 1) << 30);
    }
    assert_error(lsi_device_find("cuda:2", &table, &index), LS_ERR_UNSUPPORTED,
                 "there is no cuda:2 here (devices there: 2, the last is "
                 "cuda:1)");
    assert_ok(lsi_device_find("cuda:1", &table, &index));
    assert_int_equal(index, 1);
    lsi_device_context *context = NULL;
    assert_int_equal(table->open(2, &context), -1);
    assert_string_equal(
        table->error(NULL),
        "cuDeviceGet: CUDA_ERROR_INVALID_DEVICE (invalid device ordinal)");
    assert_null(context);
}

/* Of one device, memory of the other is none. */
static void test_devices_are_apart(void **state)
{
    (void)state;
    opened a = open_device("cuda:0", slow), b = open_device("cuda:1", slow);
    void *of_a = take(&a, 64), *of_b = take(&b, 64);
    assert_done(&a, a.table->fill(a.stream, of_a, 1, 64));
    assert_done(&b, b.table->fill(b.stream, of_b, 2, 64));
    assert_says(&a, a.table->fill(a.stream, of_b, 1, 64), -1,
                "cuMemsetD8Async of 64 bytes: CUDA_ERROR_INVALID_VALUE "
                "(invalid argument)");
    assert_done(&a, a.table->wait(a.stream)); /* that did no harm */
    assert_done(&b, b.table->wait(b.stream));
    a.table->release(a.stream, of_a);
    b.table->release(b.stream, of_b);
    close_device(&a);
    close_device(&b);
}

/* ---- memory -------------------------------------------------------------- */

static void round_trip(standin_settings settings)
{
    static const size_t sizes[] = {1, 7, 4096, 70001};
    opened o = open_device("cuda:0", settings);
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        const size_t n = sizes[i];
        unsigned char *const sent = random_bytes(n, (unsigned)i);
        unsigned char *const got = random_bytes(n, 99);
        void *first = take(&o, n), *second = take(&o, n);
        copy(&o, first, sent, n, LSI_TRANSFER_TO_DEVICE);
        copy(&o, second, first, n, LSI_TRANSFER_ON_DEVICE);
        o.table->release(o.stream, first);
        copy(&o, got, second, n, LSI_TRANSFER_FROM_DEVICE);
        assert_done(&o, o.table->wait(o.stream));
        assert_memory_equal(sent, got, n);
        assert_done(&o, o.table->fill(o.stream, second, 0x1C3, n - n / 2));
        copy(&o, got, second, n, LSI_TRANSFER_FROM_DEVICE);
        assert_done(&o, o.table->wait(o.stream));
        for (size_t k = 0; k < n; k++)
            assert_int_equal(got[k], k < n - n / 2 ? 0xC3 : sent[k]);
        o.table->release(o.stream, second);
        free(sent);
        free(got);
    }
    close_device(&o);
}

static void test_round_trip(void **state)
{
    (void)state;
    round_trip(slow);
}

static void test_round_trip_without_pools(void **state)
{
    standin_settings settings = slow;
    (void)state;
    settings.has_no_pools = true;
    round_trip(settings);
}

/* What the stand-in promises of its memory. */
static void test_the_host_cannot_reach_it(void **state)
{
    int ends[2];
    (void)state;
    opened o = open_device("cuda:0", quiet);
    void *block = take(&o, 8);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], block, 8), -1);
    assert_int_equal(errno, EFAULT);
    close(ends[0]);
    close(ends[1]);
    o.table->release(o.stream, block);
    close_device(&o);
}

static void test_pinned(void **state)
{
    (void)state;
    opened o = open_device("cuda:0", slow);
    unsigned char *pinned = NULL;
    void *got = NULL, *block = take(&o, 1000);
    assert_done(&o, o.table->pin(o.context, 1000, &got));
    pinned = got;
    assert_int_equal(driver->count().pinned, 1);
    memset(pinned, 3, 1000);
    copy(&o, block, pinned, 1000, LSI_TRANSFER_TO_DEVICE);
    assert_done(&o, o.table->wait(o.stream));
    memset(pinned, 4, 1000);
    copy(&o, pinned, block, 1000, LSI_TRANSFER_FROM_DEVICE);
    assert_done(&o, o.table->wait(o.stream));
    for (int i = 0; i < 1000; i++)
        assert_int_equal(pinned[i], 3);
    o.table->unpin(o.context, pinned);
    o.table->release(o.stream, block);
    close_device(&o);
}

static void full(standin_settings settings, const char *sentence)
{
    void *more = NULL;
    settings.room = (size_t)1 << 20;
    opened o = open_device("cuda:0", settings);
    for (int round = 0; round < 3; round++) {
        void *block = take(&o, 600000);
        assert_done(&o, o.table->fill(o.stream, block, 1, 600000));
        assert_says(&o, o.table->allocate(o.stream, 500000, &more),
                    LSI_DEVICE_FULL, sentence);
        assert_done(&o, o.table->wait(o.stream));
        void *rest = take(&o, 400000);
        o.table->release(o.stream, block);
        o.table->release(o.stream, rest);
    }
    assert_says(&o, o.table->share_allocate(o.context, 1, &more),
                LSI_DEVICE_FULL,
                "cuMemAlloc of 2097152 bytes: CUDA_ERROR_OUT_OF_MEMORY (out of "
                "memory)");
    assert_int_equal(o.table->share_allocate(o.context, SIZE_MAX, &more),
                     LSI_DEVICE_FULL);
    assert_null(more);
    close_device(&o);
}

static void test_full(void **state)
{
    standin_settings settings = slow;
    (void)state;
    full(settings, "cuMemAllocAsync of 500000 bytes: CUDA_ERROR_OUT_OF_MEMORY "
                   "(out of memory)");
    settings.has_no_pools = true;
    full(settings, "cuMemAlloc of 500000 bytes: CUDA_ERROR_OUT_OF_MEMORY (out "
                   "of memory)");
}

/* ---- streams and events -------------------------------------------------- */

static void test_streams_wait_for_events(void **state)
{
    enum { N = 5000, ROUNDS = 20 };
    (void)state;
    opened a = open_device("cuda:0", slow), b = a;
    lsi_device_event *written = NULL, *read_from = NULL;
    assert_done(&a, a.table->stream_open(a.context, &b.stream));
    assert_done(&a, a.table->event_make(a.context, &written));
    assert_done(&a, a.table->event_make(a.context, &read_from));
    void *block = take(&a, N), *other = take(&b, N);
    unsigned char *got = malloc(N);
    for (int round = 0; round < ROUNDS; round++) {
        unsigned char *const sent = random_bytes(N, (unsigned)round);
        copy(&a, block, sent, N, LSI_TRANSFER_TO_DEVICE);
        assert_done(&a, a.table->event_record(written, a.stream));
        assert_done(&b, b.table->event_await(written, b.stream));
        copy(&b, other, block, N, LSI_TRANSFER_ON_DEVICE);
        assert_done(&b, b.table->event_record(read_from, b.stream));
        assert_done(&a, a.table->event_await(read_from, a.stream));
        assert_done(&a, a.table->fill(a.stream, block, 0, N));
        copy(&b, got, other, N, LSI_TRANSFER_FROM_DEVICE);
        assert_done(&b, b.table->wait(b.stream));
        assert_memory_equal(sent, got, N);
        assert_done(&a, a.table->wait(a.stream));
        free(sent);
    }
    free(got);
    a.table->release(a.stream, block);
    b.table->release(b.stream, other);
    a.table->event_free(written);
    a.table->event_free(read_from);
    b.table->stream_close(b.stream);
    close_device(&a);
}

static void test_closing_waits(void **state)
{
    enum { N = 3000, COPIES = 10 };
    (void)state;
    opened o = open_device("cuda:0", slow);
    unsigned char *const sent = random_bytes(N, 1), *const got = malloc(N);
    void *block = NULL;
    assert_done(&o, o.table->share_allocate(o.context, N, &block));
    for (int i = 0; i < COPIES; i++)
        copy(&o, block, sent, N, LSI_TRANSFER_TO_DEVICE);
    copy(&o, got, block, N, LSI_TRANSFER_FROM_DEVICE);
    o.table->stream_close(o.stream);
    assert_memory_equal(sent, got, N);
    o.table->share_release(o.context, block);
    o.table->close(o.context);
    free(sent);
    free(got);
}

static void test_elapsed(void **state)
{
    (void)state;
    opened o = open_device("cuda:0", slow);
    lsi_device_event *from = NULL, *to = NULL;
    double ms = -1.0, back = -1.0;
    void *block = take(&o, 100);
    assert_done(&o, o.table->event_make(o.context, &from));
    assert_done(&o, o.table->event_make(o.context, &to));
    assert_says(&o, o.table->event_elapsed(from, to, &ms), -1,
                "cuEventElapsedTime: CUDA_ERROR_INVALID_HANDLE (invalid "
                "resource handle)");
    assert_true(ms == -1.0);
    assert_done(&o, o.table->event_record(from, o.stream));
    for (int i = 0; i < 20; i++)
        assert_done(&o, o.table->fill(o.stream, block, i, 100));
    assert_done(&o, o.table->event_record(to, o.stream));
    assert_done(&o, o.table->event_elapsed(from, to, &ms));
    assert_done(&o, o.table->event_elapsed(to, from, &back));
    assert_true(ms > 1.0 && back == -ms); /* of naps of 1 ms, on average */
    o.table->event_free(from);
    o.table->event_free(to);
    o.table->release(o.stream, block);
    close_device(&o);
}

/* ---- failures ------------------------------------------------------------ */

static void all_fail(const opened *o, void *block, const char *late)
{
    const lsi_device_table *const t = o->table;
    unsigned char bytes[8];
    void *out = NULL;
    lsi_device_stream *stream = NULL;
    lsi_device_event *event = NULL;
    lsi_device_share share;
    assert_says(o, t->wait(o->stream), -1, late);
    assert_says(o, t->allocate(o->stream, 8, &out), -1, late);
    assert_says(o, t->share_allocate(o->context, 8, &out), -1, late);
    assert_says(o, t->share(o->context, block, &share), -1, late);
    assert_says(o, t->pin(o->context, 8, &out), -1, late);
    assert_says(o, t->fill(o->stream, block, 0, 8), -1, late);
    assert_says(o,
                t->copy(o->stream, bytes, block, 8, LSI_TRANSFER_FROM_DEVICE),
                -1, late);
    assert_says(o, t->stream_open(o->context, &stream), -1, late);
    assert_says(o, t->event_make(o->context, &event), -1, late);
    assert_true(out == NULL && stream == NULL && event == NULL);
}

/* A failure is heard of late, and stays; the device can be opened anew. */
static void fail_late(int failure, const char *late)
{
    standin_settings settings = slow;
    settings.failing = 2;
    settings.failure = failure;
    opened o = open_device("cuda:0", settings);
    unsigned char bytes[8] = {0};
    lsi_device_event *event = NULL;
    void *pinned = NULL, *shared = NULL, *block = take(&o, 8);
    assert_done(&o, o.table->event_make(o.context, &event));
    assert_done(&o, o.table->pin(o.context, 8, &pinned));
    assert_done(&o, o.table->share_allocate(o.context, 8, &shared));
    copy(&o, block, bytes, 8, LSI_TRANSFER_TO_DEVICE);
    assert_done(&o, o.table->fill(o.stream, block, 0, 8));
    assert_says(&o, o.table->wait(o.stream), -1, late);
    all_fail(&o, block, late);
    o.table->event_free(event);
    o.table->unpin(o.context, pinned);
    o.table->share_release(o.context, shared);
    o.table->release(o.stream, block);
    assert_string_equal(o.table->error(o.context), late);
    close_device(&o);
    round_trip(slow);
}

static void test_late_failure(void **state)
{
    (void)state;
    fail_late(0, "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal "
                 "memory access was encountered)");
    fail_late(999, "cuStreamSynchronize: CUDA_ERROR_UNKNOWN (unknown error)");
}

/* CUDA does not survive a fork; the child is told, and may clean up. */
static int use_after_fork(opened *o, void *block)
{
    static const char *const forked =
        "this process has been forked, and CUDA works in its parent only";
    lsi_device_context *context = NULL;
    if (o->table->fill(o->stream, block, 1, 8) != -1 ||
        strcmp(o->table->error(o->context), forked) != 0 ||
        o->table->wait(o->stream) != -1)
        return 1;
    if (o->table->open(0, &context) != -1 ||
        strcmp(o->table->error(NULL),
               "a process that has used CUDA has forked this one, in which "
               "CUDA does not work") != 0)
        return 2;
    o->table->release(o->stream, block);
    close_device(o);
    return 0;
}

static void test_forked(void **state)
{
    int status = -1;
    (void)state;
    opened o = open_device("cuda:0", quiet);
    void *block = take(&o, 8);
    const pid_t pid = fork();
    if (pid == 0)
        _exit(use_after_fork(&o, block));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_done(&o, o.table->fill(o.stream, block, 1, 8));
    assert_done(&o, o.table->wait(o.stream));
    o.table->release(o.stream, block);
    close_device(&o);
}

#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, with_another_user, leaves_nothing)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_two_devices),
        TEST(test_devices_are_apart),
        TEST(test_round_trip),
        TEST(test_round_trip_without_pools),
        TEST(test_the_host_cannot_reach_it),
        TEST(test_pinned),
        TEST(test_full),
        TEST(test_streams_wait_for_events),
        TEST(test_closing_waits),
        TEST(test_elapsed),
        TEST(test_late_failure),
        TEST(test_forked),
    };
    return load_driver() ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
