/*
 * A block of the module for NVIDIA's GPUs that two processes use, over a driver
 * that stands in for theirs. The second is forked before the first has used the
 * driver, which would not work in it any more.
 */
#include "testing.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_device.h"

enum { SHARED_BYTES = 10000, FILLED = 77 };

static void send_all(int end, const void *what, size_t bytes)
{
    assert_int_equal(write(end, what, bytes), (ssize_t)bytes);
}

static bool finds(const opened *o, const void *block, unsigned seed)
{
    unsigned char *const sent = random_bytes(SHARED_BYTES, seed);
    unsigned char *const got = calloc(1, SHARED_BYTES);
    const bool same = o->table->copy(o->stream, got, block, SHARED_BYTES,
                                     LSI_TRANSFER_FROM_DEVICE) == 0 &&
                      o->table->wait(o->stream) == 0 &&
                      memcmp(sent, got, SHARED_BYTES) == 0;
    free(sent);
    free(got);
    return same;
}

/* The exit status of a process that attaches what it is told of. */
static int attach(int end)
{
    lsi_device_share share;
    void *block = NULL;
    int index = 0;
    opened o = {NULL, NULL, NULL};
    if (read(end, &share, sizeof(share)) != (ssize_t)sizeof(share) ||
        lsi_device_find("cuda", &o.table, &index) != LS_OK ||
        o.table->open(index, &o.context) != 0 ||
        o.table->stream_open(o.context, &o.stream) != 0)
        return 1;
    if (o.table->attach(o.context, &share, &block) != 0)
        return 2;
    if (!finds(&o, block, 5))
        return 3;
    if (o.table->fill(o.stream, block, FILLED, SHARED_BYTES) != 0 ||
        o.table->wait(o.stream) != 0)
        return 4;
    o.table->detach(o.context, block);
    close_device(&o);
    const standin_counts none = {0}, left = driver->count();
    return memcmp(&left, &none, sizeof(none)) == 0 ? 0 : 5;
}

static void test_sharing(void **state)
{
    int ends[2], status = -1;
    (void)state;
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        close(ends[1]); /* a parent that fails is heard of */
        _exit(attach(ends[0]));
    }
    opened o = open_device("cuda:0", slow);
    lsi_device_share share;
    void *block = NULL;
    unsigned char *const sent = random_bytes(SHARED_BYTES, 5);
    assert_done(&o, o.table->share_allocate(o.context, SHARED_BYTES, &block));
    copy(&o, block, sent, SHARED_BYTES, LSI_TRANSFER_TO_DEVICE);
    assert_done(&o, o.table->wait(o.stream));
    assert_done(&o, o.table->share(o.context, block, &share));
    send_all(ends[1], &share, sizeof(share));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    copy(&o, sent, block, SHARED_BYTES, LSI_TRANSFER_FROM_DEVICE);
    assert_done(&o, o.table->wait(o.stream));
    for (int i = 0; i < SHARED_BYTES; i++)
        assert_int_equal(sent[i], FILLED);
    void *again = NULL;
    assert_says(&o, o.table->attach(o.context, &share, &again), -1,
                "cuIpcOpenMemHandle: CUDA_ERROR_INVALID_CONTEXT (invalid "
                "device context)");
    o.table->share_release(o.context, block);
    close_device(&o);
    free(sent);
    close(ends[0]);
    close(ends[1]);
    const standin_counts none = {0}, left = driver->count();
    assert_memory_equal(&left, &none, sizeof(none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sharing),
    };
    return load_driver() ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
