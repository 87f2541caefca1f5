/* Datasets of the caller's own: what is passed on, and what is refused. */
#include <stdlib.h>
#include <string.h>

#include "testing.h"

#include "lockstep/data.h"

enum { COUNT = 101, BAD = 77 };

/* Fields of ranks 0, 1 and 5, of three types. */
static const ls_field fields[] = {
    {"number", LS_I64, 0, {0}},
    {"bytes", LS_U8, 1, {7}},
    {"block", LS_F32, 5, {2, 1, 3, 1, 2}},
};

static const char *const names[] = {"even", "odd"};

static float block_value(int64_t index, uint64_t epoch, int place)
{
    return (float)(index * 1000 + (int64_t)epoch * 100 + place);
}

static ls_status read_item(void *context, int64_t index, uint64_t epoch,
                           void *const *out)
{
    if (context != NULL && index == BAD)
        return LS_ERR_IO;
    memcpy(out[0], &index, sizeof(index));
    memset(out[1], (int)index, 7);
    for (int i = 0; i < 12; i++)
        ((float *)out[2])[i] = block_value(index, epoch, i);
    return LS_OK;
}

static int64_t label_of(void *context, int64_t index)
{
    (void)context;
    return index % 2;
}

static int frees;

static void count_free(void *context)
{
    (void)context;
    frees++;
}

static ls_dataset_source source_of(void *context)
{
    return (ls_dataset_source){.count = COUNT,
                               .n_fields = 3,
                               .fields = fields,
                               .read = read_item,
                               .classes = 2,
                               .label = label_of,
                               .class_names = names,
                               .context = context,
                               .free = count_free};
}

static ls_dataset *make(void *context)
{
    const ls_dataset_source source = source_of(context);
    ls_dataset *set = NULL;
    assert_ok(ls_dataset_new(&set, &source));
    return set;
}

static void test_says_what_it_is(void **state)
{
    (void)state;
    ls_dataset *set = make(NULL);
    frees = 0;
    assert_int_equal(ls_dataset_count(set), COUNT);
    assert_int_equal(ls_dataset_classes(set), 2);
    assert_int_equal(ls_dataset_field_count(set), 3);
    assert_string_equal(ls_dataset_field(set, 2)->name, "block");
    assert_int_equal(ls_dataset_field(set, 2)->ndim, 5);
    assert_null(ls_dataset_field(set, 3));
    assert_null(ls_dataset_field(set, -1));
    assert_int_equal(ls_dataset_label(set, 7), 1);
    assert_int_equal(ls_dataset_label(set, COUNT), -1);
    assert_string_equal(ls_dataset_class_name(set, 1), "odd");
    assert_null(ls_dataset_class_name(set, 2));
    ls_dataset_free(&set);
    assert_int_equal(frees, 1);
}

static void check_row(const ls_batch *batch, int64_t row, int64_t index,
                      uint64_t epoch)
{
    const int64_t *numbers = tensor_data(batch->fields[0]);
    const uint8_t *bytes = tensor_data(batch->fields[1]);
    const float *blocks = tensor_data(batch->fields[2]);
    assert_int_equal(numbers[row], index);
    assert_int_equal(bytes[row * 7 + 6], (uint8_t)index);
    for (int i = 0; i < 12; i++)
        assert_true(blocks[row * 12 + i] == block_value(index, epoch, i));
}

/* Shuffled, in pieces, by any number of threads: always the same batches. */
static void check_epoch(ls_loader *loader, uint64_t epoch, int64_t size)
{
    const ls_sampler sampler = {
        .count = COUNT, .seed = 3, .epoch = epoch, .size = 1, .shuffle = true};
    int64_t order[COUNT];
    assert_ok(ls_sampler_fill(&sampler, order));
    assert_ok(ls_loader_begin(loader, epoch, order, COUNT));
    ls_loader_stats stats;
    int64_t done = 0;
    ls_batch batch;
    for (int64_t n = 1;; n++) {
        assert_ok(ls_loader_next(loader, &batch));
        if (batch.count == 0)
            break;
        assert_int_equal(batch.count,
                         COUNT - done < size ? COUNT - done : size);
        assert_int_equal(ls_tensor_ndim(batch.fields[2]), 6);
        assert_int_equal(ls_tensor_shape(batch.fields[2])[0], batch.count);
        assert_int_equal(ls_tensor_shape(batch.fields[2])[3], 3);
        assert_null(batch.fields[3]);
        for (int64_t i = 0; i < batch.count; i++)
            check_row(&batch, i, order[done + i], epoch);
        done += batch.count;
        ls_loader_get_stats(loader, &stats);
        assert_int_equal(stats.batches, n);
        assert_true(stats.wait_seconds >= 0);
    }
    assert_int_equal(done, COUNT);
}

static void test_batches_of_any_fields(void **state)
{
    (void)state;
    ls_dataset *set = make(NULL);
    const ls_loader_options options[] = {{0, 1, 0, 0}, {0, 7, 0, 1},
                                         {0, 8, 1, 1}, {0, 16, 3, 2},
                                         {0, 5, 4, 5}, {0, 3, 2, 9}};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        ls_loader *loader = NULL;
        assert_ok(ls_loader_new(&loader, set, &options[i]));
        for (uint64_t epoch = 0; epoch < 3; epoch++)
            check_epoch(loader, epoch, options[i].batch_size);
        ls_loader_free(&loader);
    }
    ls_dataset_free(&set);
}

/* The error is that of the first item that fails, whoever read it when. */
static void test_a_read_function_that_fails(void **state)
{
    (void)state;
    int context = 0;
    ls_dataset *set = make(&context);
    for (int threads = 1; threads <= 4; threads++) {
        const ls_loader_options options = {.batch_size = 8,
                                           .prefetch = threads == 1 ? 0 : 3,
                                           .threads = threads};
        const int64_t order[] = {1, 2,   3, 4, 5, 6, 7, 8, 9,
                                 0, BAD, 2, 3, 4, 5, 6, 7, 8};
        ls_loader *loader = NULL;
        ls_batch batch;
        assert_ok(ls_loader_new(&loader, set, &options));
        assert_ok(ls_loader_begin(loader, 0, order, 18));
        assert_ok(ls_loader_next(loader, &batch));
        for (int again = 0; again < 2; again++)
            assert_error(ls_loader_next(loader, &batch), LS_ERR_IO,
                         "read function returned LS_ERR_IO for item 77");
        assert_ok(ls_loader_begin(loader, 0, order, 3));
        assert_ok(ls_loader_next(loader, &batch));
        check_row(&batch, 2, 3, 0);
        ls_loader_free(&loader);
    }
    ls_dataset_free(&set);
}

static void refuse(ls_dataset_source source, const char *part)
{
    ls_dataset *set = NULL;
    assert_error(ls_dataset_new(&set, &source), LS_ERR_ARGUMENT, part);
    assert_null(set);
}

static void test_bad_sources(void **state)
{
    (void)state;
    ls_dataset_source s = source_of(NULL);
    ls_field field = fields[1];
    s.read = NULL;
    refuse(s, "fields or read is NULL");
    s = source_of(NULL);
    s.count = -1;
    refuse(s, "count is -1");
    s = source_of(NULL);
    s.n_fields = 9;
    refuse(s, "n_fields is 9; expected 1 to 8");
    s = source_of(NULL);
    s.fields = &field;
    s.n_fields = 1;
    field.shape[0] = 0;
    refuse(s, "'bytes' has an unknown dtype, an extent below 1");
    field.ndim = LS_MAX_DIMS;
    refuse(s, "'bytes' has 6 dimensions; expected 0 to 5");
    field.name = NULL;
    refuse(s, "field 0 has no name");
}

static void test_threads_need_prefetch(void **state)
{
    (void)state;
    ls_dataset *set = make(NULL);
    ls_loader *loader = NULL;
    assert_error(ls_loader_new(&loader, set, &(ls_loader_options){0, 8, 0, 2}),
                 LS_ERR_ARGUMENT, "threads is 2, but prefetch is 0");
    assert_error(ls_loader_new(&loader, set, &(ls_loader_options){0, 8, 1, 65}),
                 LS_ERR_ARGUMENT, "threads is 65; expected 0 to 64");
    ls_dataset_free(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_says_what_it_is),
        cmocka_unit_test(test_batches_of_any_fields),
        cmocka_unit_test(test_a_read_function_that_fails),
        cmocka_unit_test(test_bad_sources),
        cmocka_unit_test(test_threads_need_prefetch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
