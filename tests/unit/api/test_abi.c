/*
 * The rules of docs/reference/abi.md for structs that may grow: what the
 * library makes of smaller, larger and wrong structs. abi_offsets.c has where
 * members are.
 */
#include <stdlib.h>
#include <string.h>

#include "lockstep/lockstep.h"
#include "testing.h"

/* How many bytes more a newer program's structs have. */
enum { LARGER = 64 };

/* ---- calls --------------------------------------------------------------- */

static ls_group *group;

static ls_status set(void *context, const char *key, const void *data,
                     size_t bytes)
{
    (void)context, (void)key, (void)data, (void)bytes;
    return LS_OK;
}

static ls_status get(void *context, const char *key, void *data, size_t *bytes,
                     double seconds)
{
    (void)context, (void)key, (void)data, (void)bytes, (void)seconds;
    return LS_ERR_TIMEOUT;
}

static ls_status open_by_store(const void *store)
{
    ls_group *made = NULL;
    const ls_status status = ls_group_open(&made, "test-abi", 0, 1, store, 10);
    ls_group_close(&made);
    return status;
}

static ls_status wrap_memory(const void *options)
{
    float data[4] = {0};
    const int64_t n = 4;
    ls_tensor *tensor = NULL;
    const ls_status status =
        ls_tensor_wrap(&tensor, data, LS_F32, 1, &n, options);
    ls_tensor_free(&tensor);
    return status;
}

static ls_status adopt(const void *memory)
{
    const int64_t n = 4;
    ls_params *params = NULL;
    assert_ok(ls_params_new(&params));
    const ls_status status = ls_params_adopt(params, "p", 1, &n, memory, NULL);
    ls_params_free(&params);
    return status;
}

static ls_params *make_params(void)
{
    const int64_t n = 4;
    ls_params *params = NULL;
    assert_ok(ls_params_new(&params));
    assert_ok(ls_params_add(params, "p", 1, &n, (ls_init){0}, NULL));
    assert_ok(ls_params_allocate(params, group, 1));
    return params;
}

static ls_status wrap_params(const void *options)
{
    ls_params *params = make_params();
    ls_ddp *ddp = NULL;
    const ls_status status = ls_ddp_new(&ddp, group, params, options);
    ls_ddp_free(&ddp);
    ls_params_free(&params);
    return status;
}

static ls_status wrap_ranges(const void *options)
{
    float data[4] = {0};
    const ls_ddp_range range = {data, 4};
    ls_ddp *ddp = NULL;
    const ls_status status = ls_ddp_new_ranges(&ddp, group, &range, 1, options);
    ls_ddp_free(&ddp);
    return status;
}

static ls_status optimize(const ls_optimizer_spec *spec)
{
    ls_params *params = make_params();
    ls_optimizer *optimizer = NULL;
    const ls_status status = ls_optimizer_new(&optimizer, params, spec);
    ls_optimizer_free(&optimizer);
    ls_params_free(&params);
    return status;
}

static ls_status by_spec(const void *spec)
{
    return optimize(spec);
}

static ls_status by_sgd(const void *options)
{
    return optimize(&(ls_optimizer_spec){.sgd = options});
}

static ls_status by_adamw(const void *options)
{
    return optimize(&(ls_optimizer_spec){.adamw = options});
}

static ls_status by_lion(const void *options)
{
    return optimize(&(ls_optimizer_spec){.lion = options});
}

static ls_status save(const void *parts)
{
    return ls_checkpoint_save(group, "/dev/null/nowhere", 1, parts, 1);
}

static ls_status read_nothing(void *context, int64_t index, uint64_t epoch,
                              void *const *fields)
{
    (void)context, (void)index, (void)epoch, (void)fields;
    return LS_OK;
}

static ls_status make_dataset(const void *source)
{
    ls_dataset *dataset = NULL;
    const ls_status status = ls_dataset_new(&dataset, source);
    ls_dataset_free(&dataset);
    return status;
}

static ls_status open_images(const void *options)
{
    ls_dataset *dataset = NULL;
    return ls_dataset_new_images(&dataset, "/dev/null/nowhere", LS_SUBSET_TRAIN,
                                 options);
}

static ls_status open_arrays(const void *options)
{
    ls_dataset *dataset = NULL;
    return ls_dataset_new_arrays(&dataset, "/dev/null/nowhere", options);
}

static ls_status open_csv(const void *options)
{
    ls_dataset *dataset = NULL;
    return ls_dataset_new_csv(&dataset, "/dev/null/nowhere", NULL, options);
}

static ls_status fill_sampler(const void *sampler)
{
    int64_t index;
    const ls_status status = ls_sampler_fill(sampler, &index);
    assert_int_equal(ls_sampler_count(sampler), status == LS_OK);
    return status;
}

static ls_status set_samples(const void *given)
{
    ls_tape *tape;
    assert_ok(ls_tape_new(&tape));
    const ls_status status = ls_tape_set_samples(tape, given);
    ls_tape_free(&tape);
    return status;
}

static ls_status read_batch(const void *batch)
{
    int64_t inputs[2], targets[2];
    ls_tokens *tokens = NULL;
    assert_ok(ls_tokens_new_builtin(&tokens, 100, 1));
    const ls_status status = ls_tokens_batch(tokens, batch, inputs, targets);
    ls_tokens_free(&tokens);
    return status;
}

/* 1 if the schedule is read; else the sentence says why. */
static ls_status follow(const void *schedule)
{
    return ls_lr_at(schedule, 0) == 1 ? LS_OK : LS_ERR_ARGUMENT;
}

static ls_status load(const void *options)
{
    ls_dataset *dataset = NULL;
    ls_loader *loader = NULL;
    assert_ok(ls_dataset_new_synthetic(&dataset, 4, 1, LS_SUBSET_TRAIN));
    const ls_status status = ls_loader_new(&loader, dataset, options);
    ls_loader_free(&loader);
    ls_dataset_free(&dataset);
    return status;
}

static ls_status make_net(const void *options)
{
    ls_image_net *net = NULL;
    const ls_status status = ls_image_net_new(&net, group, options);
    ls_image_net_free(&net);
    return status;
}

static ls_status train_tokenizer(const void *training)
{
    static const char *const paths[] = {"/dev/null/nowhere"};
    ls_tokenizer *tokenizer = NULL;
    return ls_tokenizer_new_trained(&tokenizer, group, paths, 1, training);
}

static ls_status check_config(const void *config)
{
    return ls_transformer_check(config);
}

static ls_status make_bn(const void *options)
{
    ls_params *params = NULL;
    ls_sync_bn *bn = NULL;
    assert_ok(ls_params_new(&params));
    const ls_status status =
        ls_sync_bn_new(&bn, group, params, "bn", 4, options);
    ls_sync_bn_free(&bn);
    ls_params_free(&params);
    return status;
}

/* The layer of a newer program has room for its options. */
static ls_status init_conv2d(const void *options)
{
    union {
        ls_conv2d_layer layer;
        unsigned char room[sizeof(ls_conv2d_layer) + LARGER];
    } newer;
    ls_params *params = NULL;
    assert_ok(ls_params_new(&params));
    const ls_status status =
        ls_conv2d_layer_init(&newer.layer, params, "c", 1, 1, 1, options);
    ls_params_free(&params);
    return status;
}

static ls_status count_saved(const void *shape)
{
    size_t bytes;
    return ls_attention_saved_bytes(shape, LS_ATTENTION_FLASH, &bytes);
}

/* The status of an operation on an image of one pixel. */
typedef ls_tensor *operation_fn(ls_tape *tape, ls_tensor *x,
                                const void *options);

static ls_status operate(operation_fn *operation, const void *options)
{
    ls_tape *tape = NULL;
    ls_tensor *x = NULL;
    assert_ok(ls_tensor_zeros(&x, LS_F32, 4, (const int64_t[]){1, 1, 1, 1}));
    assert_ok(ls_tape_new(&tape));
    (void)operation(tape, x, options);
    const ls_status status = ls_tape_status(tape);
    ls_tape_free(&tape);
    ls_tensor_free(&x);
    return status;
}

static ls_tensor *conv2d(ls_tape *tape, ls_tensor *x, const void *options)
{
    return ls_conv2d(tape, x, x, NULL, options);
}

static ls_tensor *max_pool2d(ls_tape *tape, ls_tensor *x, const void *options)
{
    return ls_max_pool2d(tape, x, 1, options);
}

static ls_tensor *avg_pool2d(ls_tape *tape, ls_tensor *x, const void *options)
{
    return ls_avg_pool2d(tape, x, 1, options);
}

static ls_tensor *cross_entropy(ls_tape *tape, ls_tensor *x,
                                const void *options)
{
    const int64_t one = 1;
    ls_tensor *labels = ls_tape_output(tape, LS_I64, 1, &one);
    assert_ok(ls_tensor_fill(labels, 0));
    return ls_cross_entropy(tape, ls_flatten(tape, x), labels, options);
}

static ls_tensor *attention(ls_tape *tape, ls_tensor *x, const void *options)
{
    return ls_attention(tape, x, x, x, options);
}

static ls_status run_conv2d(const void *options)
{
    return operate(conv2d, options);
}

static ls_status run_max_pool2d(const void *options)
{
    return operate(max_pool2d, options);
}

static ls_status run_avg_pool2d(const void *options)
{
    return operate(avg_pool2d, options);
}

static ls_status run_cross_entropy(const void *options)
{
    return operate(cross_entropy, options);
}

static ls_status run_attention(const void *options)
{
    return operate(attention, options);
}

static ls_tensor *batch_norm(ls_tape *tape, ls_tensor *x, const void *args)
{
    return ls_batch_norm(tape, x, args);
}

static ls_status run_batch_norm(const void *args)
{
    return operate(batch_norm, args);
}

/* ---- all of them --------------------------------------------------------- */

static const struct row {
    const char *type;
    size_t first; /* bytes of its members in 0.1.0 */
    size_t size;  /* and with padding behind them */
    ls_status (*call)(const void *given);
    const void *good;
} rows[] = {
/* clang-format off */
#define ROW(type, last, call, ...)                                             \
    {#type, offsetof(type, last) + sizeof(((type *)0)->last), sizeof(type),    \
     call, &(const type){__VA_ARGS__}}
    /* clang-format on */
    ROW(ls_store, get, open_by_store, .set = set, .get = get),
    ROW(ls_wrap_options, context, wrap_memory, .struct_size = 0),
    ROW(ls_param_memory, grad_dtype, adopt, .data = (float[4]){0}),
    ROW(ls_ddp_options, unused_as_zero, wrap_params, .struct_size = 0),
    ROW(ls_ddp_options, unused_as_zero, wrap_ranges, .struct_size = 0),
    ROW(ls_optimizer_spec, n, by_spec, .struct_size = 0),
    ROW(ls_sgd_options, weight_decay, by_sgd, .struct_size = 0),
    ROW(ls_adamw_options, order, by_adamw, .struct_size = 0),
    ROW(ls_lion_options, weight_decay, by_lion, .struct_size = 0),
    ROW(ls_dataset_source, free, make_dataset, .count = 1, .n_fields = 1,
        .fields = &(const ls_field){.name = "x"}, .read = read_nothing),
    ROW(ls_image_options, seed, open_images, .struct_size = 0),
    ROW(ls_array_options, skip_checksums, open_arrays, .struct_size = 0),
    ROW(ls_csv_options, header, open_csv, .struct_size = 0),
    ROW(ls_sampler, pad, fill_sampler, .count = 1, .size = 1),
    ROW(ls_tape_samples, slices, set_samples, .count = 1),
    ROW(ls_token_batch, rank, read_batch, .end = 9, .rows = 1, .length = 2),
    ROW(ls_lr_schedule, decay_steps, follow, .max_lr = 1),
    ROW(ls_loader_options, threads, load, .batch_size = 1),
    ROW(ls_image_net_options, seed, make_net, .name = "cifar-net", .classes = 2,
        .channels = 1, .height = 8, .width = 8),
    ROW(ls_tokenizer_training, n_special, train_tokenizer, .struct_size = 0),
    ROW(ls_transformer_config, rope_scaling, check_config, .vocabulary = 1,
        .context = 1, .d_model = 2, .d_ff = 1, .layers = 1, .heads = 1),
    ROW(ls_sync_bn_options, momentum, make_bn, .struct_size = 0),
    ROW(ls_conv2d_options, no_bias, init_conv2d, .struct_size = 0),
    ROW(ls_conv2d_options, no_bias, run_conv2d, .struct_size = 0),
    ROW(ls_pool2d_options, padding, run_max_pool2d, .struct_size = 0),
    ROW(ls_pool2d_options, padding, run_avg_pool2d, .struct_size = 0),
    ROW(ls_cross_entropy_options, smoothing, run_cross_entropy,
        .struct_size = 0),
    ROW(ls_attention_options, rows_outside, run_attention, .struct_size = 0),
    ROW(ls_attention_shape, o_strides, count_saved, .d = 1),
#undef ROW
};

/* A copy of that many bytes, zeros behind the struct's, for the caller. */
static void *copy_of(const struct row *r, size_t bytes)
{
    unsigned char *const copy = calloc(1, bytes);
    assert_non_null(copy);
    memcpy(copy, r->good, bytes < r->size ? bytes : r->size);
    memcpy(copy, &bytes, sizeof(bytes));
    return copy;
}

/* The status of the call itself, with all members valid. */
static ls_status usual(const struct row *r)
{
    return r->call(r->good);
}

static void check_taken(const struct row *r, void *given, size_t size)
{
    const ls_status expected = usual(r);
    memcpy(given, &size, sizeof(size));
    const ls_status status = r->call(given);
    if (status != expected || status == LS_ERR_ARGUMENT)
        fail_msg("%s of struct_size %zu: %s, \"%s\"", r->type, size,
                 ls_status_name(status), ls_last_error());
    free(given);
}

static void check_refused(const struct row *r, void *given, size_t size)
{
    memcpy(given, &size, sizeof(size));
    const ls_status status = r->call(given);
    if (status != LS_ERR_ARGUMENT || strstr(ls_last_error(), r->type) == NULL)
        fail_msg("%s of struct_size %zu: %s, \"%s\"", r->type, size,
                 ls_status_name(status), ls_last_error());
    free(given);
}

/* Of an older program, of one that knows no size, and of this version. */
static void check_older(const struct row *r)
{
    check_taken(r, copy_of(r, r->first), r->first);
    check_taken(r, copy_of(r, r->first), 0);
    check_taken(r, copy_of(r, r->size), r->size);
}

/* A newer program may ask for nothing that this library does not know. */
static void check_newer(const struct row *r)
{
    const size_t size = r->size + LARGER;
    check_taken(r, copy_of(r, size), size);
    unsigned char *const asks = copy_of(r, size);
    asks[size - 1] = 1;
    check_refused(r, asks, size);
}

static void check_wrong(const struct row *r)
{
    check_refused(r, copy_of(r, r->size), 3);
    check_refused(r, copy_of(r, r->size), r->first - 1);
    check_refused(r, copy_of(r, r->size), (size_t)1 << 20);
}

static void structs_that_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        check_older(&rows[i]);
        check_newer(&rows[i]);
        check_wrong(&rows[i]);
    }
}

/* Its tensors cannot be in a table of constants. */
static void arguments_of_batch_norm(void **state)
{
    const int64_t one = 1;
    ls_batch_norm_args good = {.struct_size = 0};
    (void)state;
    assert_ok(ls_tensor_zeros(&good.running_mean, LS_F32, 1, &one));
    assert_ok(ls_tensor_zeros(&good.running_var, LS_F32, 1, &one));
    const struct row row = {"ls_batch_norm_args",
                            offsetof(ls_batch_norm_args, residual) +
                                sizeof(good.residual),
                            sizeof(good), run_batch_norm, &good};
    check_older(&row);
    check_newer(&row);
    check_wrong(&row);
    ls_tensor_free(&good.running_mean);
    ls_tensor_free(&good.running_var);
}

static void parts_of_checkpoints(void **state)
{
    ls_params *params = make_params();
    const ls_checkpoint_parts good = {.params = params};
    const struct row row = {"ls_checkpoint_parts",
                            offsetof(ls_checkpoint_parts, metadata) +
                                sizeof(good.metadata),
                            sizeof(good), save, &good};
    (void)state;
    check_older(&row);
    check_newer(&row);
    check_wrong(&row);
    ls_params_free(&params);
}

static ls_status open_audit(const void *setup)
{
    ls_audit *audit = NULL;
    return ls_audit_open(&audit, group, "/dev/null/nowhere", setup);
}

static void setups_of_audits(void **state)
{
    ls_params *params = make_params();
    const ls_audit_setup good = {.params = params};
    const struct row row = {"ls_audit_setup",
                            offsetof(ls_audit_setup, step) + sizeof(good.step),
                            sizeof(good), open_audit, &good};
    (void)state;
    check_older(&row);
    check_newer(&row);
    check_wrong(&row);
    ls_params_free(&params);
}

/* ---- structs that the library fills -------------------------------------- */

static void a_configuration_is_filled(void **state)
{
    static const size_t first =
        offsetof(ls_transformer_config, rope_scaling) + sizeof(ls_rope_scaling);
    static const size_t sizes[] = {0, first, sizeof(ls_transformer_config) + 8};
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        const size_t bytes = sizes[i] > 0 ? sizes[i] : first;
        ls_transformer_config *const config = malloc(bytes);
        assert_non_null(config);
        memset(config, 0x5a, bytes);
        memcpy(config, &sizes[i], sizeof(size_t));
        assert_ok(ls_transformer_size("tiny", config));
        assert_int_equal(config->struct_size, sizes[i]);
        assert_int_equal(config->layers, 4);
        assert_true(bytes == first ||
                    ((unsigned char *)config)[bytes - 1] == 0);
        free(config);
    }
    ls_transformer_config wrong = {.struct_size = 3, .layers = 9};
    assert_error(ls_transformer_size("tiny", &wrong), LS_ERR_ARGUMENT,
                 "ls_transformer_config.struct_size is 3");
    assert_int_equal(wrong.layers, 9);
}

/* A layer has room for as many options as its program knows. */
static void a_layer_keeps_its_options(void **state)
{
    ls_conv2d_options given = {.stride = 2, .padding = 1};
    static const size_t sizes[] = {0, sizeof(ls_conv2d_options)};
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        ls_params *params = NULL;
        ls_conv2d_layer layer;
        given.struct_size = sizes[i];
        assert_ok(ls_params_new(&params));
        assert_ok(ls_conv2d_layer_init(&layer, params, "c", 1, 1, 3, &given));
        assert_int_equal(layer.options.struct_size, sizes[i]);
        assert_int_equal(layer.options.stride, 2);
        assert_int_equal(layer.options.padding, 1);
        assert_int_equal(layer.options.groups, 1);
        ls_params_free(&params);
    }
    _Static_assert(offsetof(ls_conv2d_layer, options) +
                           sizeof(ls_conv2d_options) ==
                       sizeof(ls_conv2d_layer),
                   "options that may grow are the last member of a layer");
    _Static_assert(offsetof(ls_batch_norm_layer, args) +
                           sizeof(ls_batch_norm_args) ==
                       sizeof(ls_batch_norm_layer),
                   "arguments that may grow are the last member of a layer");
}

static int open_group(void **state)
{
    (void)state;
    return ls_group_open_threads(&group, 1) == LS_OK ? 0 : -1;
}

/* LS_..._INIT has 0 for a required member, which is refused by its name. */
static void inits_without_what_is_required(void **state)
{
    const ls_loader_options loading = LS_LOADER_OPTIONS_INIT;
    ls_image_net_options net = LS_IMAGE_NET_OPTIONS_INIT;
    (void)state;
    assert_error(load(&loading), LS_ERR_ARGUMENT, "batch_size is 0");
    assert_error(make_net(&net), LS_ERR_ARGUMENT, "name is NULL");
    net.name = "vit";
    const struct {
        const char *message;
        int64_t *member;
    } rest[] = {{"classes is 0", &net.classes},
                {"channels is 0", &net.channels},
                {"height is 0", &net.height},
                {"width is 0", &net.width}};
    for (size_t i = 0; i < sizeof rest / sizeof rest[0]; i++) {
        assert_error(make_net(&net), LS_ERR_ARGUMENT, rest[i].message);
        *rest[i].member = 32;
    }
}

static int close_group(void **state)
{
    (void)state;
    ls_group_close(&group);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structs_that_are_read),
        cmocka_unit_test(arguments_of_batch_norm),
        cmocka_unit_test(parts_of_checkpoints),
        cmocka_unit_test(setups_of_audits),
        cmocka_unit_test(a_configuration_is_filled),
        cmocka_unit_test(a_layer_keeps_its_options),
        cmocka_unit_test(inits_without_what_is_required),
    };
    return cmocka_run_group_tests(tests, open_group, close_group);
}
