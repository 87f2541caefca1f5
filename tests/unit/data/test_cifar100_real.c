/*
 * The real set, if LOCKSTEP_CIFAR100 names a folder or archive of it: its known
 * size, balance and channel statistics.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "input/data/dataset.h"

static void check_labels(const ls_dataset *dataset, int64_t of_each)
{
    int64_t hits[LSI_FINE_CLASSES] = {0};
    for (int64_t i = 0; i < ls_dataset_count(dataset); i++)
        hits[ls_dataset_label(dataset, i)]++;
    for (int c = 0; c < LSI_FINE_CLASSES; c++)
        assert_int_equal(hits[c], of_each);
}

/* Normalised by the training set's own numbers: mean 0, deviation 1. */
static void check_statistics(const ls_dataset *dataset)
{
    double sum = 0, squares = 0;
    float *image = malloc(LSI_IMAGE_BYTES * sizeof *image);
    for (int64_t i = 0; i < ls_dataset_count(dataset); i++) {
        int64_t label;
        assert_int_equal(
            ls_dataset_read(dataset, 0, &i, 1, (void *[]){image, &label}),
            LS_OK);
        for (int p = 0; p < LSI_IMAGE_BYTES; p++) {
            sum += image[p];
            squares += (double)image[p] * image[p];
        }
    }
    free(image);
    const double n = (double)ls_dataset_count(dataset) * LSI_IMAGE_BYTES;
    assert_true(fabs(sum / n) < 1e-3);
    assert_true(fabs(squares / n - 1) < 2e-3);
}

static void test_real_set(void **state)
{
    (void)state;
    const char *path = getenv("LOCKSTEP_CIFAR100");
    if (path == NULL) {
        print_message("LOCKSTEP_CIFAR100 is not set\n");
        skip();
    }
    ls_dataset *train = NULL, *test = NULL;
    assert_int_equal(ls_dataset_new_cifar100(&train, path, LS_SUBSET_TRAIN),
                     LS_OK);
    assert_int_equal(ls_dataset_new_cifar100(&test, path, LS_SUBSET_TEST),
                     LS_OK);
    assert_int_equal(ls_dataset_count(train), 50000);
    assert_int_equal(ls_dataset_count(test), 10000);
    check_labels(train, 500);
    check_labels(test, 100);
    check_statistics(train);
    ls_dataset_free(&train);
    ls_dataset_free(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_real_set)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
