/* Batches of images: every sample once, the same number of steps everywhere. */
#include "testing.h"

#include <stdlib.h>

#include "train/jobs/images.h"

enum { MOST = 64 };

static lsi_images *make(const ls_dataset *set, int rank, int size,
                        int64_t count, int64_t batch_size)
{
    lsi_images *images = NULL;
    const lsi_images_options options = {.count = count,
                                        .batch_size = batch_size,
                                        .prefetch = rank % 2,
                                        .seed = 3,
                                        .rank = rank,
                                        .size = size};
    assert_ok(lsi_images_new(&images, set, &options));
    return images;
}

/* The index of the sample that an image was read from. */
static int64_t find(const float *image, const float *all, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (memcmp(image, all + i * 3072, 3072 * sizeof(float)) == 0)
            return i;
    }
    fail_msg("a batch holds an image that is none of the set's");
    return -1;
}

/* Takes a rank's epoch and counts each sample; returns the number of steps. */
static int64_t take_epoch(lsi_images *images, int64_t epoch, int64_t batch_size,
                          const float *all, int *seen)
{
    const lsi_source source = lsi_images_source(images);
    int64_t steps;
    assert_ok(source.begin(source.self, epoch, 0, &steps));
    for (int64_t step = 0; step < steps; step++) {
        ls_batch batch;
        assert_ok(source.next(source.self, &batch));
        assert_true(batch.count >= 0 && batch.count <= batch_size);
        assert_int_equal(ls_tensor_shape(batch.fields[LS_FIELD_IMAGES])[0],
                         batch.count);
        assert_int_equal(ls_tensor_shape(batch.fields[LS_FIELD_IMAGES])[1], 3);
        assert_int_equal(ls_tensor_shape(batch.fields[LS_FIELD_LABELS])[0],
                         batch.count);
        const float *const pixels = tensor_data(batch.fields[LS_FIELD_IMAGES]);
        for (int64_t i = 0; i < batch.count; i++)
            seen[find(pixels + i * 3072, all, MOST)]++;
    }
    ls_batch batch;
    assert_ok(source.next(source.self, &batch));
    assert_int_equal(batch.count, 0);
    return steps;
}

static void check(const ls_dataset *set, const float *all, int size,
                  int64_t count, int64_t batch_size)
{
    for (int64_t epoch = 0; epoch < 2; epoch++) {
        int seen[MOST] = {0};
        const int64_t most = (count + size - 1) / size;
        for (int rank = 0; rank < size; rank++) {
            lsi_images *images = make(set, rank, size, count, batch_size);
            const int64_t steps =
                take_epoch(images, epoch, batch_size, all, seen);
            assert_int_equal(steps, (most + batch_size - 1) / batch_size);
            lsi_images_free(&images);
        }
        for (int64_t i = 0; i < MOST; i++)
            assert_int_equal(seen[i], i < count ? 1 : 0);
    }
}

static float *read_all(const ls_dataset *set)
{
    static int64_t labels[MOST];
    int64_t indices[MOST];
    float *const all = malloc(MOST * 3072 * sizeof(float));
    assert_non_null(all);
    for (int64_t i = 0; i < MOST; i++)
        indices[i] = i;
    assert_ok(ls_dataset_read(set, 0, indices, MOST, (void *[]){all, labels}));
    return all;
}

static void test_every_sample_once(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 5, 8};
    static const int64_t counts[] = {64, 37, 3, 1};
    ls_dataset *set = NULL;
    assert_ok(ls_dataset_new_synthetic(&set, MOST, 1, LS_SUBSET_TRAIN));
    float *const all = read_all(set);
    for (size_t s = 0; s < TEST_COUNT(sizes); s++)
        for (size_t c = 0; c < TEST_COUNT(counts); c++)
            check(set, all, sizes[s], counts[c], c % 2 == 0 ? 4 : 5);
    free(all);
    ls_dataset_free(&set);
}

static void test_limit_above_the_set(void **state)
{
    (void)state;
    ls_dataset *set = NULL;
    int64_t steps;
    assert_ok(ls_dataset_new_synthetic(&set, 10, 1, LS_SUBSET_TRAIN));
    static const int64_t limits[] = {0, 10, 1000};
    for (size_t i = 0; i < TEST_COUNT(limits); i++) {
        lsi_images *images = make(set, 0, 1, limits[i], 3);
        const lsi_source source = lsi_images_source(images);
        assert_ok(source.begin(source.self, 0, 0, &steps));
        assert_int_equal(steps, 4);
        lsi_images_free(&images);
    }
    ls_dataset_free(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_sample_once),
        cmocka_unit_test(test_limit_above_the_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
