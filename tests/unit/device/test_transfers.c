/*
 * Tensors on a device that the host cannot reach: what moves between the two is
 * equal to the bit and counted, and what the host computes refuses such a
 * tensor before it touches its memory.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "fake_device.h"
#include "lockstep/autograd.h"
#include "lockstep/nn.h"
#include "model/tensor/tensor.h"
#include "testing.h"

static lsi_device *open_device(fake_settings settings)
{
    lsi_device *device = NULL;
    fake_next = settings;
    assert_ok(lsi_device_open(&device, &fake_device, 0));
    fake_next = (fake_settings){0};
    return device;
}

static lsi_device *slow_device(void)
{
    return open_device((fake_settings){.longest_nap = 3000});
}

static ls_tensor *on(lsi_device *device, ls_dtype dtype, int64_t n)
{
    ls_tensor *t = NULL;
    assert_ok(lsi_tensor_make_on(&t, device, dtype, 1, &n));
    return t;
}

static ls_tensor *on_host(ls_dtype dtype, int64_t n, unsigned seed)
{
    ls_tensor *t = NULL;
    assert_ok(ls_tensor_new(&t, dtype, 1, &n));
    unsigned char *bytes = tensor_data(t);
    for (size_t i = 0; i < (size_t)n * ls_dtype_size(dtype); i++) {
        seed = seed * 1664525U + 1013904223U;
        bytes[i] = (unsigned char)(seed >> 24);
    }
    return t;
}

static void assert_same_bytes(const ls_tensor *a, const ls_tensor *b)
{
    const size_t bytes = (size_t)a->count * ls_dtype_size(a->dtype);
    assert_int_equal(a->count, b->count);
    if (bytes > 0)
        assert_memory_equal(tensor_data(a), tensor_data(b), bytes);
}

static void free_all(ls_tensor **tensors, int n)
{
    for (int i = 0; i < n; i++)
        ls_tensor_free(&tensors[i]);
}

static const ls_dtype dtypes[] = {LS_F32, LS_BF16, LS_F16,
                                  LS_I32, LS_I64,  LS_U8};

/* Host, device, another block of it, host: the bytes of the beginning. */
static void test_round_trip(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0, 1, 7, 4096, 70001};
    lsi_device *device = slow_device();
    for (size_t d = 0; d < TEST_COUNT(dtypes); d++) {
        for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
            const int64_t n = sizes[i];
            ls_tensor *t[] = {on_host(dtypes[d], n, (unsigned)(d + i)),
                              on(device, dtypes[d], n),
                              on(device, dtypes[d], n),
                              on_host(dtypes[d], n, 99)};
            for (int k = 0; k < 3; k++)
                assert_ok(ls_tensor_copy(t[k + 1], t[k]));
            assert_same_bytes(t[0], t[3]);
            free_all(t, 4);
        }
    }
    lsi_device_close(&device);
}

/* The source may be overwritten as soon as the copy has returned. */
static void test_source_is_free_after_a_copy(void **state)
{
    (void)state;
    lsi_device *device = slow_device();
    for (unsigned round = 0; round < 20; round++) {
        ls_tensor *t[] = {on_host(LS_F32, 1000, round),
                          on_host(LS_F32, 1000, 5), on(device, LS_F32, 1000),
                          on_host(LS_F32, 1000, round)};
        assert_ok(ls_tensor_copy(t[2], t[0]));
        assert_ok(ls_tensor_fill(t[0], 1.0));
        assert_ok(ls_tensor_copy(t[1], t[2]));
        assert_same_bytes(t[1], t[3]);
        free_all(t, 4);
    }
    lsi_device_close(&device);
}

/* A block that is given back is there for what was asked before. */
static void test_freed_before_its_copy_is_done(void **state)
{
    (void)state;
    lsi_device *device = slow_device();
    for (unsigned round = 0; round < 20; round++) {
        ls_tensor *t[] = {on_host(LS_I64, 333, round), on(device, LS_I64, 333),
                          on(device, LS_I64, 333), on_host(LS_I64, 333, 1)};
        assert_ok(ls_tensor_copy(t[1], t[0]));
        assert_ok(ls_tensor_copy(t[2], t[1]));
        ls_tensor_free(&t[1]);
        assert_ok(ls_tensor_copy(t[3], t[2]));
        assert_same_bytes(t[0], t[3]);
        free_all(t, 4);
    }
    assert_ok(lsi_device_wait(device));
    assert_int_equal(fake_blocks(), 0);
    lsi_device_close(&device);
}

static void test_zeros(void **state)
{
    (void)state;
    lsi_device *device = slow_device();
    ls_tensor *t[] = {on(device, LS_F32, 77), on_host(LS_F32, 77, 3)};
    assert_ok(ls_tensor_fill(t[0], 0.0));
    assert_ok(ls_tensor_copy(t[1], t[0]));
    const float *data = tensor_data(t[1]);
    for (int i = 0; i < 77; i++)
        assert_true(data[i] == 0.0F);
    free_all(t, 2);
    lsi_device_close(&device);
}

/* Any number and type, also with gaps. */
static void test_fills(void **state)
{
    (void)state;
    lsi_device *device = slow_device();
    for (size_t d = 0; d < TEST_COUNT(dtypes); d++) {
        const int64_t shape[] = {5, 3};
        ls_tensor *there = NULL, *column = NULL, *here = NULL;
        assert_ok(lsi_tensor_make_on(&there, device, dtypes[d], 2, shape));
        assert_ok(ls_tensor_narrow(there, 1, 1, 2, &column));
        assert_ok(ls_tensor_fill(there, 7.0));
        assert_ok(ls_tensor_fill(column, 3.0));
        assert_ok(ls_tensor_new(&here, dtypes[d], 2, shape));
        assert_ok(ls_tensor_copy(here, there));
        for (int64_t i = 0; i < 15; i++) {
            ls_tensor *row = NULL, *one = NULL;
            double item = 0.0;
            assert_ok(ls_tensor_narrow(here, 0, i / 3, i / 3 + 1, &row));
            assert_ok(ls_tensor_narrow(row, 1, i % 3, i % 3 + 1, &one));
            assert_ok(ls_tensor_item(one, &item));
            assert_true(item == (i % 3 == 1 ? 3.0 : 7.0));
            ls_tensor_free(&one);
            ls_tensor_free(&row);
        }
        ls_tensor *t[] = {there, column, here};
        free_all(t, 3);
    }
    ls_tensor *bytes = on(device, LS_U8, 4);
    assert_error(ls_tensor_fill(bytes, 256.0), LS_ERR_ARGUMENT,
                 "256 does not fit a tensor of u8");
    ls_tensor_free(&bytes);
    lsi_device_close(&device);
}

/* Views are on the device, too, and copies between them may overlap. */
static void test_views(void **state)
{
    (void)state;
    lsi_device *device = slow_device();
    ls_tensor *all = on(device, LS_F32, 12), *low = NULL, *high = NULL;
    ls_tensor *start = on_host(LS_F32, 12, 8), *end = on_host(LS_F32, 12, 9);
    assert_ok(ls_tensor_copy(all, start));
    assert_ok(ls_tensor_narrow(all, 0, 0, 9, &low));
    assert_ok(ls_tensor_narrow(all, 0, 3, 12, &high));
    assert_ok(ls_tensor_copy(high, low));
    assert_ok(ls_tensor_copy(end, all));
    const float *from = tensor_data(start), *to = tensor_data(end);
    for (int i = 0; i < 12; i++)
        assert_memory_equal(&to[i], &from[i < 3 ? i : i - 3], sizeof *to);

    ls_tensor *square = NULL, *turned = NULL, *host = NULL;
    assert_ok(ls_tensor_view(all, 2, (int64_t[]){3, 4}, &square));
    assert_ok(ls_tensor_transpose(square, 0, 1, &turned));
    assert_ok(ls_tensor_new(&host, LS_F32, 2, (int64_t[]){4, 3}));
    assert_ok(ls_tensor_copy(host, turned));
    const float *across = tensor_data(host);
    for (int i = 0; i < 12; i++)
        assert_memory_equal(&across[i], &to[i % 3 * 4 + i / 3], sizeof *to);
    assert_ok(ls_tensor_fill(all, 0.0));
    assert_ok(ls_tensor_copy(turned, host)); /* and back into the gaps */
    ls_tensor *again = on_host(LS_F32, 12, 1);
    assert_ok(ls_tensor_copy(again, all));
    assert_same_bytes(again, end);
    ls_tensor_free(&again);
    ls_tensor *t[] = {all, low, high, start, end, square, turned, host};
    free_all(t, TEST_COUNT(t));
    lsi_device_close(&device);
}

/* Types are converted on the side that they come from. */
static void test_conversions(void **state)
{
    (void)state;
    lsi_device *device = slow_device();
    ls_tensor *t[] = {on_host(LS_F32, 5, 1), on(device, LS_BF16, 5),
                      on(device, LS_F32, 5), on_host(LS_F32, 5, 2)};
    float *from = tensor_data(t[0]), *to = tensor_data(t[3]);
    for (int i = 0; i < 5; i++)
        from[i] = (float)i - 1.5F; /* exact in bf16 */
    assert_ok(ls_tensor_copy(t[1], t[0]));
    assert_ok(ls_tensor_copy(t[2], t[1]));
    assert_ok(ls_tensor_copy(t[3], t[2]));
    assert_same_bytes(t[0], t[3]);
    memset(to, 0, 5 * sizeof *to);
    assert_ok(ls_tensor_copy(t[3], t[1]));
    assert_same_bytes(t[0], t[3]);
    free_all(t, 4);
    lsi_device_close(&device);
}

static void test_counts(void **state)
{
    (void)state;
    lsi_device *device = open_device((fake_settings){0});
    ls_tensor *t[] = {on_host(LS_F32, 10, 1), on(device, LS_F32, 10),
                      on(device, LS_F32, 10), on(device, LS_F32, 0)};
    assert_ok(ls_tensor_copy(t[1], t[0]));
    assert_ok(ls_tensor_copy(t[2], t[1]));
    assert_ok(ls_tensor_copy(t[0], t[2]));
    assert_ok(ls_tensor_copy(t[0], t[1]));
    lsi_device_counts counts = lsi_device_counted(device);
    static const uint64_t transfers[] = {1, 2, 1};
    for (int way = 0; way < 3; way++) {
        assert_int_equal(counts.transfers[way], transfers[way]);
        assert_int_equal(counts.bytes[way], 40 * transfers[way]);
    }
    assert_int_equal(counts.live_bytes, 80);
    assert_int_equal(counts.blocks, 2);
    free_all(t, 4);
    counts = lsi_device_counted(device);
    assert_int_equal(counts.live_bytes, 0);
    assert_int_equal(counts.peak_bytes, 80);
    lsi_device_close(&device);
}

static void test_too_much(void **state)
{
    (void)state;
    lsi_device *device = open_device((fake_settings){.room = 1000});
    const int64_t n = 150;
    ls_tensor *held = on(device, LS_F32, n), *more = NULL;
    assert_error(lsi_tensor_make_on(&more, device, LS_F32, 1, &n),
                 LS_ERR_MEMORY,
                 "fake:0 has no memory for a tensor: 600 bytes, besides 600");
    ls_tensor_free(&held);
    assert_ok(lsi_device_wait(device));
    lsi_device_set_budget(device, 599);
    assert_error(lsi_tensor_make_on(&more, device, LS_F32, 1, &n),
                 LS_ERR_BUDGET,
                 "fake:0: 600 bytes for a tensor exceed the memory budget");
    lsi_device_set_budget(device, 600);
    assert_ok(lsi_tensor_make_on(&more, device, LS_F32, 1, &n));
    ls_tensor_free(&more);
    lsi_device_close(&device);
}

/* A copy on the device returns at once; who asks for its result hears of it. */
static void test_late_error(void **state)
{
    (void)state;
    lsi_device *device =
        open_device((fake_settings){.failing = 2, .longest_nap = 2000});
    ls_tensor *t[] = {on_host(LS_F32, 8, 1), on(device, LS_F32, 8),
                      on(device, LS_F32, 8)};
    assert_ok(ls_tensor_copy(t[1], t[0]));
    assert_ok(ls_tensor_copy(t[2], t[1]));
    assert_error(ls_tensor_copy(t[0], t[2]), LS_ERR_STATE,
                 "fake:0: command 2 was told to fail");
    assert_error(lsi_device_wait(device), LS_ERR_STATE, "command 2");
    ls_tensor *more = NULL;
    assert_error(lsi_tensor_make_on(&more, device, LS_F32, 1, (int64_t[]){8}),
                 LS_ERR_STATE, "command 2");
    free_all(t, 3);
    lsi_device_close(&device);
}

static void test_refused_pairs(void **state)
{
    (void)state;
    lsi_device *device = open_device((fake_settings){0});
    lsi_device *other = open_device((fake_settings){0});
    ls_tensor *t[] = {on(device, LS_F32, 8), on(other, LS_F32, 8),
                      on_host(LS_F32, 9, 1)};
    assert_error(ls_tensor_copy(t[1], t[0]), LS_ERR_UNSUPPORTED,
                 "copy to the host between them");
    assert_error(ls_tensor_copy(t[0], t[2]), LS_ERR_SHAPE, "(9)");
    free_all(t, 3);
    lsi_device_close(&other);
    lsi_device_close(&device);
}

static void test_opening(void **state)
{
    (void)state;
    lsi_device *device = NULL;
    lsi_device_table older = fake_device;
    older.version--;
    assert_error(lsi_device_open(&device, &older, 0), LS_ERR_UNSUPPORTED,
                 "the module for fake devices belongs to another version");
    fake_next.refuses = "there is no driver";
    assert_error(lsi_device_open(&device, &fake_device, 0), LS_ERR_UNSUPPORTED,
                 "fake:0 cannot be used: there is no driver");
    fake_next.refuses = NULL;
    assert_null(device);
    lsi_device_close(&device);
    lsi_device_close(NULL);
}

/* ---- what does not reach a device ---------------------------------------- */

static const char *const says = "(8) is on fake:0";

static void test_contents_are_refused(void **state)
{
    (void)state;
    lsi_device *device = open_device((fake_settings){0});
    ls_tensor *t = on(device, LS_F32, 8);
    void *data = NULL;
    float *floats = NULL;
    assert_error(ls_tensor_map(t, &data), LS_ERR_STATE, says);
    assert_error(ls_tensor_map_f32(t, &floats), LS_ERR_STATE, says);
    ls_tensor_free(&t);
    lsi_device_close(&device);
}

typedef ls_tensor *(*operation)(ls_tape *, ls_tensor *);

static ls_tensor *reshape(ls_tape *tape, ls_tensor *x)
{
    return ls_reshape(tape, x, 2, (int64_t[]){2, 4});
}

static ls_tensor *plus_itself(ls_tape *tape, ls_tensor *x)
{
    return ls_add(tape, x, x);
}

static void test_operations_are_refused(void **state)
{
    (void)state;
    static const operation operations[] = {ls_relu, ls_gelu, reshape,
                                           plus_itself};
    lsi_device *device = open_device((fake_settings){0});
    ls_tensor *t = on(device, LS_F32, 8);
    ls_tape *tape = NULL;
    assert_ok(ls_tape_new(&tape));
    for (size_t i = 0; i < TEST_COUNT(operations); i++) {
        assert_null(operations[i](tape, t));
        assert_error(ls_tape_status(tape), LS_ERR_STATE, says);
        ls_tape_reset(tape);
    }
    ls_tape_free(&tape);
    ls_tensor_free(&t);
    lsi_device_close(&device);
}

/* Nor is what operations read beside their first input. */
static void test_other_inputs_are_refused(void **state)
{
    (void)state;
    lsi_device *device = open_device((fake_settings){0});
    ls_tensor *far = on(device, LS_F32, 8), *labels = on(device, LS_I64, 8);
    ls_tensor *x = NULL, *near = on_host(LS_F32, 8, 1);
    assert_ok(ls_tensor_zeros(&x, LS_F32, 2, (int64_t[]){8, 8}));
    ls_tape *tape = NULL;
    assert_ok(ls_tape_new(&tape));
    const ls_batch_norm_args norm = {
        .running_mean = near, .running_var = far, .eps = 1e-5};
    for (int i = 0; i < 4; i++) {
        const ls_tensor *y = i == 0   ? ls_batch_norm(tape, x, &norm)
                             : i == 1 ? ls_cross_entropy(tape, x, labels)
                             : i == 2 ? ls_embedding(tape, x, labels)
                                      : ls_layer_norm(tape, x, near, far, 1e-5);
        assert_null(y);
        assert_error(ls_tape_status(tape), LS_ERR_STATE, says);
        ls_tape_reset(tape);
    }
    int64_t correct = 0;
    assert_error(ls_count_correct(x, labels, &correct), LS_ERR_STATE, says);
    ls_tape_free(&tape);
    ls_tensor *all[] = {far, labels, x, near};
    free_all(all, 4);
    lsi_device_close(&device);
}

/* Without the checks above the host would end by a signal: so the kernel says.
 */
static void test_the_host_cannot_reach_it(void **state)
{
    (void)state;
    lsi_device *device = open_device((fake_settings){0});
    ls_tensor *t = on(device, LS_U8, 8);
    int ends[2];
    assert_ok(
        lsi_device_wait(device)); /* its stream opens the memory to work */
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "12345678", 8), 8);
    assert_int_equal(read(ends[0], lsi_tensor_raw(t), 8), -1);
    assert_int_equal(errno, EFAULT);
    assert_int_equal(write(ends[1], lsi_tensor_raw(t), 8), -1);
    assert_int_equal(errno, EFAULT);
    close(ends[0]);
    close(ends[1]);
    ls_tensor_free(&t);
    lsi_device_close(&device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_source_is_free_after_a_copy),
        cmocka_unit_test(test_freed_before_its_copy_is_done),
        cmocka_unit_test(test_zeros),
        cmocka_unit_test(test_fills),
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_conversions),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_too_much),
        cmocka_unit_test(test_late_error),
        cmocka_unit_test(test_refused_pairs),
        cmocka_unit_test(test_opening),
        cmocka_unit_test(test_contents_are_refused),
        cmocka_unit_test(test_operations_are_refused),
        cmocka_unit_test(test_other_inputs_are_refused),
        cmocka_unit_test(test_the_host_cannot_reach_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
