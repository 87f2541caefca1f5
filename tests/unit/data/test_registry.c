/* Every row of datasets.def opens and keeps the promises of a dataset. */
#include "cifar_files.h"
#include "data/registry.h"

enum { COUNT = 40 };

static void check_promises(const ls_dataset *dataset)
{
    enum { FLOATS = 3 * 32 * 32 };
    static float one[FLOATS], all[COUNT * FLOATS];
    int64_t indices[COUNT], labels[COUNT], label;
    assert_int_equal(ls_dataset_count(dataset), COUNT);
    for (int64_t i = 0; i < COUNT; i++)
        indices[i] = COUNT - 1 - i;
    assert_int_equal(ls_dataset_read(dataset, indices, COUNT, all, labels),
                     LS_OK);
    for (int64_t i = 0; i < COUNT; i++) {
        assert_in_range(labels[i], 0, ls_dataset_classes(dataset) - 1);
        assert_int_equal(ls_dataset_label(dataset, indices[i]), labels[i]);
        assert_int_equal(ls_dataset_read(dataset, &indices[i], 1, one, &label),
                         LS_OK);
        assert_int_equal(label, labels[i]);
        assert_memory_equal(one, all + i * FLOATS, sizeof one);
    }
}

static void test_every_row(void **state)
{
    (void)state;
    write_records(in_folder("train.bin"), COUNT);
    write_records(in_folder("test.bin"), COUNT);
    const lsi_dataset_source source = {
        .path = folder, .count = COUNT, .seed = 1};
    size_t n = 0;
    const lsi_dataset_kind *kinds = lsi_dataset_kinds(&n);
    assert_true(n >= 2);
    for (size_t i = 0; i < n; i++) {
        for (int split = LS_TRAIN; split <= LS_TEST; split++) {
            ls_dataset *dataset = NULL;
            assert_true(strlen(kinds[i].text) > 0);
            assert_int_equal(lsi_dataset_open(&dataset, kinds[i].name, &source,
                                              (ls_split)split),
                             LS_OK);
            check_promises(dataset);
            ls_dataset_free(&dataset);
        }
    }
}

static void test_unknown_name(void **state)
{
    (void)state;
    const lsi_dataset_source source = {.count = 1};
    ls_dataset *dataset = NULL;
    assert_int_equal(lsi_dataset_open(&dataset, "mnist", &source, LS_TRAIN),
                     LS_ERR_ARGUMENT);
    assert_null(dataset);
    assert_string_equal(ls_last_error(),
                        "no dataset 'mnist'; there are: cifar100 synthetic");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row),
        cmocka_unit_test(test_unknown_name),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
