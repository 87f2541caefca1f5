/*
 * What is done on the host only says so of a device before anything is touched,
 * and where ranks do it together, to all of them.
 */
#include <unistd.h>

#include "comm/ranks.h"
#include "fake_device.h"
#include "lockstep/checkpoint.h"
#include "lockstep/parallel.h"
#include "lockstep/transformer.h"
#include "model/autograd/params.h"
#include "model/autograd/tape.h"
#include "testing.h"

static const ls_init zero = {LS_INIT_CONSTANT, 0, 0};

static lsi_device *open_device(void)
{
    lsi_device *device = NULL;
    fake_next = (fake_settings){0};
    CHECK_OK(lsi_device_open(&device, &fake_device, 0));
    return device;
}

static ls_params *params_on(lsi_device *device)
{
    ls_params *params = NULL;
    ls_tensor *p = NULL;
    const int64_t n = 4;
    CHECK_OK(ls_params_new(&params));
    if (device != NULL)
        CHECK_OK(lsi_params_set_device(params, device));
    CHECK_OK(ls_params_add(params, "p", 1, &n, zero, &p));
    return params;
}

static bool says(const char *part)
{
    return strstr(ls_last_error(), part) != NULL;
}

/* ---- ranks --------------------------------------------------------------- */

/* A rank whose parameters lie elsewhere than those of the others. */
static void allocate(ls_group *group, void *unused)
{
    (void)unused;
    lsi_device *device = ls_group_rank(group) == 1 ? open_device() : NULL;
    ls_params *params = params_on(device);
    CHECK(ls_params_allocate(params, group, 0) == LS_ERR_UNSUPPORTED);
    CHECK(says("fake:0; allocate them without a group"));
    ls_params_free(&params);
    lsi_device_close(&device);
}

static void average(ls_group *group, void *unused)
{
    (void)unused;
    lsi_device *device = open_device();
    ls_params *params = params_on(device);
    ls_ddp *ddp = NULL;
    CHECK_OK(ls_params_allocate(params, NULL, 0));
    CHECK(ls_ddp_new(&ddp, group, params, NULL) == LS_ERR_UNSUPPORTED);
    CHECK(says("ls_ddp_new: the parameters are on fake:0"));
    ls_params_free(&params);
    lsi_device_close(&device);
}

static void normalise(ls_group *group, void *unused)
{
    (void)unused;
    lsi_device *device = open_device();
    ls_params *there = params_on(device), *here = params_on(NULL);
    ls_sync_bn *bn = NULL;
    ls_tape *tape = NULL;
    ls_tensor *x = NULL;
    const ls_sync_bn_options options = {.eps = 1e-5, .momentum = 0.1};
    CHECK(ls_sync_bn_new(&bn, group, there, "bn", 3, options) ==
          LS_ERR_UNSUPPORTED);
    CHECK(says("ls_sync_bn_new: the parameters are on fake:0"));
    CHECK_OK(ls_sync_bn_new(&bn, group, here, "bn", 3, options));
    CHECK_OK(ls_params_allocate(here, NULL, 0));
    CHECK_OK(ls_tape_new(&tape));
    CHECK_OK(lsi_tape_set_device(tape, device));
    CHECK_OK(ls_tensor_zeros(&x, LS_F32, 2, (const int64_t[]){2, 3}));
    CHECK(ls_sync_bn_forward(bn, tape, x) == NULL);
    CHECK(says("sync_batch_norm: the tape computes on fake:0"));
    ls_tensor_free(&x);
    ls_tape_free(&tape);
    ls_sync_bn_free(&bn);
    ls_params_free(&here);
    ls_params_free(&there);
    lsi_device_close(&device);
}

static void save(ls_group *group, void *folder)
{
    lsi_device *device = open_device();
    ls_params *params = params_on(device);
    CHECK_OK(ls_params_allocate(params, NULL, 0));
    const ls_checkpoint_parts parts = {.params = params};
    CHECK(ls_checkpoint_save(group, folder, 1, &parts, 0) ==
          LS_ERR_UNSUPPORTED);
    CHECK(says("ls_checkpoint_save: the parameters are on fake:0"));
    ls_params_free(&params);
    lsi_device_close(&device);
}

static void test_ranks(void **state)
{
    (void)state;
    static rank_fn *const all[] = {allocate, average, normalise};
    for (size_t i = 0; i < TEST_COUNT(all); i++)
        for (int size = 2; size <= 3; size++)
            run_threads(size, all[i], NULL);
}

static void test_checkpoint(void **state)
{
    (void)state;
    char folder[] = "/tmp/device_refusals_XXXXXX";
    assert_non_null(mkdtemp(folder));
    run_threads(2, save, folder);
    char lock[64];
    snprintf(lock, sizeof lock, "%s/.lock", folder);
    assert_int_equal(unlink(lock), 0);
    assert_int_equal(rmdir(folder), 0); /* nothing half written */
}

/* ---- models -------------------------------------------------------------- */

static const ls_transformer_config small = {.kind = LS_TRANSFORMER_LLAMA,
                                            .vocabulary = 7,
                                            .context = 4,
                                            .d_model = 4,
                                            .d_ff = 4,
                                            .layers = 1,
                                            .heads = 1};

static void test_cache(void **state)
{
    (void)state;
    lsi_device *device = open_device();
    ls_params *here = NULL, *there = NULL;
    ls_transformer *near = NULL, *far = NULL;
    ls_transformer_cache *cache = NULL;
    ls_tape *tape = NULL;
    ls_tensor *tokens = NULL;
    assert_ok(ls_params_new(&here));
    assert_ok(ls_params_new(&there));
    assert_ok(lsi_params_set_device(there, device));
    assert_ok(ls_transformer_new(&near, here, &small));
    assert_ok(ls_transformer_new(&far, there, &small));
    assert_error(ls_transformer_cache_new(&cache, far, 1, 0),
                 LS_ERR_UNSUPPORTED, "the parameters are on fake:0");
    assert_ok(ls_params_allocate(here, NULL, 0));
    assert_ok(ls_transformer_cache_new(&cache, near, 1, 0));
    assert_ok(ls_tape_new(&tape));
    assert_ok(lsi_tape_set_device(tape, device));
    ls_tape_set_training(tape, false);
    assert_ok(ls_tensor_zeros(&tokens, LS_I64, 2, (const int64_t[]){1, 2}));
    assert_ok(lsi_tensor_move_to(device, &tokens));
    assert_null(ls_transformer_extend(near, tape, cache, 0, tokens));
    assert_error(ls_tape_status(tape), LS_ERR_UNSUPPORTED,
                 "ls_transformer_extend: the tape computes on fake:0");
    ls_tensor_free(&tokens);
    ls_tape_free(&tape);
    ls_transformer_cache_free(&cache);
    ls_transformer_free(&far);
    ls_transformer_free(&near);
    ls_params_free(&there);
    ls_params_free(&here);
    lsi_device_close(&device);
}

/* ---- a module that computes nothing -------------------------------------- */

static void test_no_operations(void **state)
{
    (void)state;
    lsi_device_table table = fake_device;
    table.operations = NULL;
    lsi_device *device = NULL;
    ls_tensor *square = NULL, *half = NULL, *turned = NULL, *host = NULL;
    const int64_t shape[] = {3, 3};
    assert_ok(lsi_device_open(&device, &table, 0));
    assert_ok(lsi_tensor_make_on(&square, device, LS_F32, 2, shape));
    assert_ok(lsi_tensor_make_on(&half, device, LS_BF16, 2, shape));
    assert_ok(ls_tensor_new(&host, LS_F32, 2, shape));
    assert_ok(ls_tensor_transpose(square, 0, 1, &turned));
    assert_ok(ls_tensor_fill(square, 0.0));
    assert_error(ls_tensor_fill(square, 1.0), LS_ERR_UNSUPPORTED,
                 "fake:0 has no operation array_fill");
    assert_error(ls_tensor_fill(half, 1.0), LS_ERR_UNSUPPORTED,
                 "fake:0 has no operation copy_strided");
    assert_error(ls_tensor_copy(half, square), LS_ERR_UNSUPPORTED,
                 "fake:0 has no operation copy_strided");
    assert_error(ls_tensor_copy(host, turned), LS_ERR_UNSUPPORTED,
                 "fake:0 has no operation copy_strided");
    assert_ok(ls_tensor_copy(host, square)); /* which harmed nothing else */
    assert_true(((const float *)tensor_data(host))[8] == 0.0F);
    ls_tensor_free(&host);
    ls_tensor_free(&turned);
    ls_tensor_free(&half);
    ls_tensor_free(&square);
    lsi_device_close(&device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_checkpoint),
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_no_operations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
