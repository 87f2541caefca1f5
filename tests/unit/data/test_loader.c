/* The loader: order, ends, errors, and stopping at any moment. */
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "input/data/dataset.h"
#include "lockstep/profile.h"
#include "testing.h"

enum { COUNT = 64, MAX_N = 20 };

static ls_dataset *dataset;

static int open_dataset(void **state)
{
    (void)state;
    return ls_dataset_new_synthetic(&dataset, COUNT, 5, LS_SUBSET_TRAIN);
}

static int close_dataset(void **state)
{
    (void)state;
    ls_dataset_free(&dataset);
    return 0;
}

static int threads; /* of the loaders that are made */

static ls_status new_loader(ls_loader **out, int64_t batch_size, int prefetch)
{
    const ls_loader_options options = {.batch_size = batch_size,
                                       .prefetch = prefetch,
                                       .threads = prefetch > 0 ? threads : 0};
    return ls_loader_new(out, dataset, &options);
}

static ls_loader *make_loader(int64_t batch_size, int prefetch)
{
    ls_loader *loader = NULL;
    assert_int_equal(new_loader(&loader, batch_size, prefetch), LS_OK);
    return loader;
}

/* Some indices, with repeats. */
static void choose(int64_t *indices, int64_t n, uint64_t salt)
{
    for (int64_t i = 0; i < n; i++)
        indices[i] = (int64_t)((salt * 7 + (uint64_t)i * 11) % COUNT);
}

/* The batch holds exactly these samples. */
static void check_batch(const ls_batch *batch, const int64_t *indices,
                        int64_t n)
{
    static float images[MAX_N * LSI_IMAGE_BYTES];
    int64_t labels[MAX_N];
    assert_int_equal(batch->count, n);
    assert_int_equal(ls_tensor_ndim(batch->fields[LS_FIELD_IMAGES]), 4);
    const int64_t shape[] = {n, 3, 32, 32};
    assert_memory_equal(ls_tensor_shape(batch->fields[LS_FIELD_IMAGES]), shape,
                        sizeof shape);
    assert_int_equal(ls_tensor_ndim(batch->fields[LS_FIELD_LABELS]), 1);
    assert_int_equal(ls_tensor_shape(batch->fields[LS_FIELD_LABELS])[0], n);
    assert_int_equal(ls_tensor_dtype(batch->fields[LS_FIELD_LABELS]), LS_I64);
    assert_int_equal(
        (uintptr_t)tensor_data(batch->fields[LS_FIELD_IMAGES]) % 64, 0);
    assert_int_equal(
        ls_dataset_read(dataset, 0, indices, n, (void *[]){images, labels}),
        LS_OK);
    assert_memory_equal(tensor_data(batch->fields[LS_FIELD_IMAGES]), images,
                        (size_t)n * LSI_IMAGE_BYTES * sizeof(float));
    assert_memory_equal(tensor_data(batch->fields[LS_FIELD_LABELS]), labels,
                        (size_t)n * sizeof(int64_t));
}

static void check_ended(ls_loader *loader)
{
    for (int i = 0; i < 2; i++) {
        ls_batch batch = {.count = 99};
        assert_int_equal(ls_loader_next(loader, &batch), LS_OK);
        assert_int_equal(batch.count, 0);
        assert_null(batch.fields[LS_FIELD_IMAGES]);
        assert_null(batch.fields[LS_FIELD_LABELS]);
    }
}

static void check_epoch(ls_loader *loader, int64_t n, int64_t batch_size,
                        uint64_t salt)
{
    int64_t indices[MAX_N] = {0};
    choose(indices, n, salt);
    assert_int_equal(ls_loader_begin(loader, 0, indices, n), LS_OK);
    const int64_t *at = indices;
    for (int64_t left = n; left > 0;) {
        const int64_t expected = left < batch_size ? left : batch_size;
        ls_batch batch;
        assert_int_equal(ls_loader_next(loader, &batch), LS_OK);
        check_batch(&batch, at, expected);
        at += expected;
        left -= expected;
    }
    check_ended(loader);
}

static void test_batches_come_in_order(void **state)
{
    (void)state;
    for (int prefetch = 0; prefetch <= 4; prefetch++) {
        for (int64_t batch_size = 1; batch_size <= 7; batch_size += 2) {
            ls_loader *loader = make_loader(batch_size, prefetch);
            for (int64_t n = 0; n <= MAX_N; n += n < 3 ? 1 : 4)
                check_epoch(loader, n, batch_size, (uint64_t)n);
            ls_loader_free(&loader);
            assert_null(loader);
        }
    }
}

/* A batch stays as it is while later ones are read ahead. */
static void test_a_batch_is_valid_until_the_next_call(void **state)
{
    (void)state;
    int64_t indices[MAX_N] = {0};
    choose(indices, MAX_N, 1);
    ls_loader *loader = make_loader(2, 3);
    assert_int_equal(ls_loader_begin(loader, 0, indices, MAX_N), LS_OK);
    for (int64_t i = 0; i < MAX_N; i += 2) {
        ls_batch batch;
        assert_int_equal(ls_loader_next(loader, &batch), LS_OK);
        for (int again = 0; again < 20; again++)
            check_batch(&batch, indices + i, 2);
    }
    ls_loader_free(&loader);
}

static void test_indices_are_copied(void **state)
{
    (void)state;
    int64_t given[4] = {1, 2, 3, 4};
    const int64_t kept[4] = {1, 2, 3, 4};
    ls_loader *loader = make_loader(4, 1);
    assert_int_equal(ls_loader_begin(loader, 0, given, 4), LS_OK);
    memset(given, 0xff, sizeof given);
    ls_batch batch;
    assert_int_equal(ls_loader_next(loader, &batch), LS_OK);
    check_batch(&batch, kept, 4);
    ls_loader_free(&loader);
}

/* The batches before a bad index arrive; then the error, until it is begun. */
static void test_errors_reach_the_consumer(void **state)
{
    (void)state;
    for (int prefetch = 0; prefetch <= 3; prefetch++) {
        int64_t indices[6] = {0, 1, 2, 3, COUNT, 5};
        ls_loader *loader = make_loader(2, prefetch);
        assert_int_equal(ls_loader_begin(loader, 0, indices, 6), LS_OK);
        ls_batch batch = {.count = 0};
        for (int i = 0; i < 4; i += 2) {
            assert_int_equal(ls_loader_next(loader, &batch), LS_OK);
            check_batch(&batch, indices + i, 2);
        }
        for (int again = 0; again < 2; again++) {
            assert_int_equal(ls_loader_next(loader, &batch), LS_ERR_ARGUMENT);
            assert_non_null(strstr(ls_last_error(), "indices[0] is 64"));
        }
        check_epoch(loader, 5, 2, 3);
        ls_loader_free(&loader);
    }
}

static void test_next_before_begin(void **state)
{
    (void)state;
    ls_loader *loader = make_loader(2, 1);
    ls_batch batch;
    assert_int_equal(ls_loader_next(loader, &batch), LS_ERR_STATE);
    assert_non_null(strstr(ls_last_error(), "ls_loader_begin"));
    ls_loader_free(&loader);
}

/* Begins, takes some batches or none, and begins again or frees. */
static void test_stops_at_any_moment(void **state)
{
    (void)state;
    const lsi_rng_key key = {8, 8};
    for (uint64_t round = 0; round < 150; round++) {
        const int prefetch = (int)lsi_rng_below(key, 0, round, 4);
        ls_loader *loader = make_loader(3, prefetch);
        const uint64_t epochs = lsi_rng_below(key, 1, round, 4);
        for (uint64_t epoch = 0; epoch < epochs; epoch++) {
            int64_t indices[MAX_N] = {0};
            choose(indices, MAX_N, round + epoch);
            assert_int_equal(ls_loader_begin(loader, 0, indices, MAX_N), LS_OK);
            const uint64_t place = round * 4 + epoch;
            const int64_t taken = (int64_t)lsi_rng_below(key, 2, place, 8);
            for (int64_t b = 0; b < taken; b++) {
                const int64_t left = MAX_N - 3 * b;
                ls_batch batch;
                assert_int_equal(ls_loader_next(loader, &batch), LS_OK);
                check_batch(&batch, indices + 3 * b, left < 3 ? left : 3);
            }
        }
        ls_loader_free(&loader);
    }
}

static void test_memory_is_counted(void **state)
{
    (void)state;
    ls_memory_stats before, during, after;
    ls_memory_of(LS_MEMORY_DATA, &before);
    ls_loader *loader = make_loader(5, 3);
    ls_memory_of(LS_MEMORY_DATA, &during);
    check_epoch(loader, 13, 5, 0);
    ls_loader_free(&loader);
    ls_memory_of(LS_MEMORY_DATA, &after);
    const size_t batch = 5 * (LSI_IMAGE_BYTES * sizeof(float) + 8);
    assert_true(during.live_bytes >= before.live_bytes + 4 * batch);
    assert_int_equal(after.live_bytes, before.live_bytes);
}

/* Whatever allocation the budget stops, everything is given back. */
static void test_over_budget(void **state)
{
    (void)state;
    ls_memory_stats before, after;
    ls_memory_total(&before);
    for (size_t room = 0; room < 400000; room += 20000) {
        ls_loader *loader = NULL;
        ls_memory_set_budget(before.live_bytes + room + 1);
        const ls_status status = new_loader(&loader, 8, 3);
        ls_memory_set_budget(0);
        if (status != LS_OK)
            assert_null(loader);
        assert_true(status == LS_OK || status == LS_ERR_BUDGET);
        assert_int_equal(status == LS_OK, room >= 4 * 8 * 12300);
        ls_loader_free(&loader);
        ls_memory_total(&after);
        assert_int_equal(after.live_bytes, before.live_bytes);
    }
}

static void test_bad_arguments(void **state)
{
    (void)state;
    ls_loader *loader = NULL;
    static const struct {
        int64_t batch_size;
        int prefetch;
    } bad[] = {{0, 1}, {-3, 1}, {INT64_MAX, 1}, {4, -1}, {4, 1025}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(
            new_loader(&loader, bad[i].batch_size, bad[i].prefetch),
            LS_ERR_ARGUMENT);
        assert_null(loader);
    }
    ls_loader_free(&loader);
    ls_loader_free(NULL);
    loader = make_loader(4, 1);
    assert_int_equal(ls_loader_begin(loader, 0, &(int64_t){0}, SIZE_MAX),
                     LS_ERR_ARGUMENT);
    ls_loader_free(&loader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batches_come_in_order),
        cmocka_unit_test(test_a_batch_is_valid_until_the_next_call),
        cmocka_unit_test(test_indices_are_copied),
        cmocka_unit_test(test_errors_reach_the_consumer),
        cmocka_unit_test(test_next_before_begin),
        cmocka_unit_test(test_stops_at_any_moment),
        cmocka_unit_test(test_memory_is_counted),
        cmocka_unit_test(test_over_budget),
        cmocka_unit_test(test_bad_arguments),
    };
    for (threads = 0; threads <= 3; threads += 3) {
        const int failed =
            cmocka_run_group_tests(tests, open_dataset, close_dataset);
        if (failed != 0)
            return failed;
    }
    return 0;
}
