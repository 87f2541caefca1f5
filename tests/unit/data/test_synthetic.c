/* The made-up set: repeatable, balanced, learnable, and not for free. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "array/compute/threads.h"
#include "input/data/dataset.h"
#include "lockstep/profile.h"

/* All samples of a dataset, for the caller to free. */
static float *read_all(const ls_dataset *dataset, int64_t *labels)
{
    const int64_t n = ls_dataset_count(dataset);
    float *images = malloc((size_t)n * LSI_IMAGE_BYTES * sizeof *images);
    assert_non_null(images);
    for (int64_t i = 0; i < n; i++)
        assert_int_equal(
            ls_dataset_read(
                dataset, 0, &i, 1,
                (void *[]){images + i * LSI_IMAGE_BYTES, &labels[i]}),
            LS_OK);
    return images;
}

static ls_dataset *open_set(int64_t count, uint64_t seed, ls_subset split)
{
    ls_dataset *dataset = NULL;
    assert_int_equal(ls_dataset_new_synthetic(&dataset, count, seed, split),
                     LS_OK);
    return dataset;
}

static bool same(int64_t count, uint64_t seed_a, ls_subset split_a,
                 uint64_t seed_b, ls_subset split_b)
{
    int64_t labels[2][256];
    ls_dataset *a = open_set(count, seed_a, split_a);
    ls_dataset *b = open_set(count, seed_b, split_b);
    float *x = read_all(a, labels[0]), *y = read_all(b, labels[1]);
    const size_t n = (size_t)count;
    const bool equal =
        memcmp(labels[0], labels[1], n * sizeof labels[0][0]) == 0 &&
        memcmp(x, y, n * LSI_IMAGE_BYTES * sizeof *x) == 0;
    free(x);
    free(y);
    ls_dataset_free(&a);
    ls_dataset_free(&b);
    return equal;
}

static void test_is_a_function_of_seed_and_split(void **state)
{
    (void)state;
    assert_true(same(250, 1, LS_SUBSET_TRAIN, 1, LS_SUBSET_TRAIN));
    assert_false(same(250, 1, LS_SUBSET_TRAIN, 2, LS_SUBSET_TRAIN));
    assert_false(same(250, 1, LS_SUBSET_TRAIN, 1, LS_SUBSET_TEST));
}

/* A hash of all pixels, for any number of threads and from run to run. */
static uint64_t checksum(const ls_dataset *dataset)
{
    int64_t *labels = malloc((size_t)ls_dataset_count(dataset) * 8);
    float *images = read_all(dataset, labels);
    uint64_t hash = 14695981039346656037U;
    for (int64_t i = 0; i < ls_dataset_count(dataset) * LSI_IMAGE_BYTES; i++) {
        uint32_t bits;
        memcpy(&bits, &images[i], sizeof bits);
        hash = (hash ^ bits) * 1099511628211U;
    }
    free(images);
    free(labels);
    return hash;
}

static void test_does_not_depend_on_threads(void **state)
{
    (void)state;
    const int before = lsi_threads();
    uint64_t sums[5];
    for (int threads = 1; threads <= 5; threads++) {
        lsi_threads_set(threads);
        ls_dataset *dataset = open_set(333, 7, LS_SUBSET_TRAIN);
        sums[threads - 1] = checksum(dataset);
        ls_dataset_free(&dataset);
        assert_true(sums[threads - 1] == sums[0]);
    }
    lsi_threads_set(before);
}

static void test_classes_are_balanced_and_mixed(void **state)
{
    (void)state;
    enum { COUNT = 1050 };
    ls_dataset *dataset = open_set(COUNT, 3, LS_SUBSET_TRAIN);
    int hits[LSI_FINE_CLASSES] = {0}, in_order = 0;
    for (int64_t i = 0; i < COUNT; i++) {
        hits[ls_dataset_label(dataset, i)]++;
        in_order += ls_dataset_label(dataset, i) == i % LSI_FINE_CLASSES;
    }
    for (int c = 0; c < LSI_FINE_CLASSES; c++)
        assert_in_range(hits[c], COUNT / 100, COUNT / 100 + 1);
    assert_true(in_order < COUNT / 10);
    ls_dataset_free(&dataset);
}

static void add_to(float *sum, const float *image)
{
    for (int i = 0; i < LSI_IMAGE_BYTES; i++)
        sum[i] += image[i];
}

static double distance(const float *a, const float *b)
{
    double d = 0;
    for (int i = 0; i < LSI_IMAGE_BYTES; i++)
        d += (double)(a[i] - b[i]) * (a[i] - b[i]);
    return d;
}

static int nearest(const float *centres, const float *image)
{
    int best = 0;
    double least = 1e30;
    for (int c = 0; c < LSI_FINE_CLASSES; c++) {
        const double d = distance(centres + c * LSI_IMAGE_BYTES, image);
        if (d < least) {
            least = d;
            best = c;
        }
    }
    return best;
}

/*
 * Train and test have the same classes. The mean of 20 images of each
 * class finds the class of unseen images far better than chance (1 in 100), but
 * not always.
 */
static void test_generalises(void **state)
{
    (void)state;
    enum { TRAIN = 2000, TEST = 300 };
    static int64_t labels[TRAIN];
    static float centres[LSI_FINE_CLASSES * LSI_IMAGE_BYTES];
    ls_dataset *set = open_set(TRAIN, 0, LS_SUBSET_TRAIN);
    float *images = read_all(set, labels);
    for (int i = 0; i < TRAIN; i++)
        add_to(centres + labels[i] * LSI_IMAGE_BYTES,
               images + (size_t)i * LSI_IMAGE_BYTES);
    for (size_t i = 0; i < sizeof centres / sizeof *centres; i++)
        centres[i] /= TRAIN / LSI_FINE_CLASSES;
    free(images);
    ls_dataset_free(&set);

    set = open_set(TEST, 0, LS_SUBSET_TEST);
    images = read_all(set, labels);
    int hits = 0;
    for (int i = 0; i < TEST; i++)
        hits +=
            nearest(centres, images + (size_t)i * LSI_IMAGE_BYTES) == labels[i];
    print_message("nearest mean: %d of %d\n", hits, TEST);
    assert_in_range(hits, TEST * 3 / 10, TEST * 99 / 100);
    free(images);
    ls_dataset_free(&set);
}

static void test_memory_is_counted(void **state)
{
    (void)state;
    ls_memory_stats before, during, after;
    ls_memory_of(LS_MEMORY_DATA, &before);
    ls_dataset *dataset = open_set(100, 0, LS_SUBSET_TRAIN);
    ls_memory_of(LS_MEMORY_DATA, &during);
    ls_dataset_free(&dataset);
    ls_memory_of(LS_MEMORY_DATA, &after);
    assert_true(during.live_bytes >= before.live_bytes + 307400);
    assert_int_equal(after.live_bytes, before.live_bytes);
}

static void test_bad_arguments(void **state)
{
    (void)state;
    ls_dataset *dataset = NULL;
    static const int64_t bad[] = {0, -1, INT64_MIN, INT64_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(
            ls_dataset_new_synthetic(&dataset, bad[i], 0, LS_SUBSET_TRAIN),
            LS_ERR_ARGUMENT);
    assert_int_equal(ls_dataset_new_synthetic(&dataset, 1, 0, (ls_subset)-1),
                     LS_ERR_ARGUMENT);
    ls_memory_set_budget(300000);
    const ls_status status =
        ls_dataset_new_synthetic(&dataset, 100, 0, LS_SUBSET_TRAIN);
    ls_memory_set_budget(0);
    assert_int_equal(status, LS_ERR_BUDGET);
    assert_null(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_is_a_function_of_seed_and_split),
        cmocka_unit_test(test_does_not_depend_on_threads),
        cmocka_unit_test(test_classes_are_balanced_and_mixed),
        cmocka_unit_test(test_generalises),
        cmocka_unit_test(test_memory_is_counted),
        cmocka_unit_test(test_bad_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
