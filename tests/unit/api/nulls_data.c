/* Datasets, samplers, loaders and tokens. */
#include <stdlib.h>
#include <unistd.h>

#include "unit/api/nulls.h"

static void nulls_of_tokens(const char *path)
{
    const ls_token_batch batch = {.end = 50, .rows = 1, .length = 4};
    int64_t inputs[4], targets[4];
    ls_tokens *tokens = NULL, *none = NULL;
    REFUSES(ls_tokens_new, "out path", P(out, &tokens), P(path, path),
            LS_TOKENS_TEXT);
    assert_ok(ls_tokens_new_builtin(&tokens, 100, 1));
    REFUSES(ls_tokens_read, "tokens out", P(tokens, tokens), 0, P(out, inputs),
            4);
    REFUSES(ls_tokens_batch, "tokens batch inputs targets", P(tokens, tokens),
            P(batch, &batch), P(inputs, inputs), P(targets, targets));
    ls_tokens_free(&none);
    ls_tokens_free(&tokens);
}

static void nulls_of_loaders(const ls_dataset *dataset)
{
    const int64_t indices[] = {0, 1};
    ls_loader *loader = NULL, *none = NULL;
    ls_batch batch;
    const ls_loader_options options = {.batch_size = 2};
    ls_loader_stats stats;
    REFUSES(ls_loader_new, "out dataset options", P(out, &loader),
            P(dataset, dataset), P(options, &options));
    assert_ok(ls_loader_new(&loader, dataset, &options));
    REFUSES(ls_loader_begin, "loader indices", P(loader, loader), 0,
            P(indices, indices), 2);
    assert_ok(ls_loader_begin(loader, 0, NULL, 0));
    BEARS(ls_loader_get_stats, "loader stats", P(loader, loader),
          P(stats, &stats));
    assert_int_equal(stats.batches, 0);
    REFUSES(ls_loader_next, "loader batch", P(loader, loader),
            P(batch, &batch));
    ls_loader_free(&none);
    ls_loader_free(&loader);
}

static ls_status read_nothing(void *context, int64_t index, uint64_t epoch,
                              void *const *fields)
{
    (void)context, (void)index, (void)epoch, (void)fields;
    return LS_OK;
}

static void nulls_of_sources(void)
{
    const ls_field field = {"x", LS_F32, 0, {0}};
    const ls_dataset_source source = {
        .count = 1, .n_fields = 1, .fields = &field, .read = read_nothing};
    ls_dataset *dataset = NULL;
    REFUSES(ls_dataset_new, "out source", P(out, &dataset), P(source, &source));
    assert_ok(ls_dataset_new(&dataset, &source));
    assert_null(ls_dataset_field(dataset, 1));
    assert_null(ls_dataset_class_name(dataset, 0));
    ls_dataset_free(&dataset);
}

void nulls_of_data(void **state)
{
    static float images[3 * 32 * 32];
    const ls_sampler sampler = {.count = 2, .size = 1};
    int64_t indices[2] = {0, 1}, labels[1];
    void *const fields[] = {images, labels};
    char path[] = "/tmp/lockstep-nulls-XXXXXX";
    ls_dataset *dataset = NULL, *none = NULL;
    (void)state;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    REFUSES(ls_dataset_new_cifar100, "out path", P(out, &dataset),
            P(path, path), LS_SUBSET_TRAIN);
    REFUSES(ls_dataset_new_arrays, "out path", P(out, &dataset), P(path, path),
            NULL);
    GIVES(LS_ERR_FORMAT, ls_dataset_new_arrays, "options", &dataset, path,
          NULL);
    REFUSES(ls_dataset_new_csv, "out path", P(out, &dataset), P(path, path),
            NULL, NULL);
    GIVES(LS_ERR_FORMAT, ls_dataset_new_csv, "label options", &dataset, path,
          NULL, NULL);
    REFUSES(ls_dataset_new_images, "out path", P(out, &dataset), P(path, path),
            LS_SUBSET_TRAIN, NULL);
    /* The file is empty: options may be NULL, and it is looked at. */
    GIVES(LS_ERR_FORMAT, ls_dataset_new_images, "options", &dataset, path,
          LS_SUBSET_TRAIN, NULL);
    assert_ok(ls_dataset_new_synthetic(&dataset, 2, 1, LS_SUBSET_TRAIN));
    REFUSES(ls_dataset_read, "dataset indices fields", P(dataset, dataset), 0,
            P(indices, indices), 1, P(fields, fields));
    assert_int_equal(ls_dataset_label(NULL, 0), -1);
    assert_int_equal(ls_dataset_label(dataset, 2), -1);
    assert_int_equal(ls_dataset_label(dataset, -1), -1);
    REFUSES(ls_sampler_fill, "sampler indices", P(sampler, &sampler),
            P(indices, indices));
    nulls_of_sources();
    nulls_of_loaders(dataset);
    nulls_of_tokens(path);
    unlink(path);
    ls_dataset_free(&none);
    ls_dataset_free(&dataset);
}
