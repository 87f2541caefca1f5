/*
 * A set of parameters as a file: what comes back, and what is refused.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lockstep/nn.h"
#include "testing.h"

static char path[] = "/tmp/lockstep-params-XXXXXX";

/* A matrix, and a normalisation with its buffers. */
static ls_params *make(int64_t width, bool norm, uint64_t seed)
{
    ls_params *params = NULL;
    ls_linear_layer linear;
    ls_batch_norm_layer bn;
    assert_ok(ls_params_new(&params));
    assert_ok(ls_linear_layer_init(&linear, params, "fc", width, 3,
                                   LS_LAYER_DEFAULT));
    if (norm)
        assert_ok(
            ls_batch_norm_layer_init(&bn, params, "bn", 3, LS_LAYER_DEFAULT));
    assert_ok(ls_params_allocate(params, NULL, seed));
    for (size_t i = 0; i < ls_params_buffer_count(params); i++)
        assert_ok(ls_tensor_fill(ls_params_buffer(params, i),
                                 (double)(seed + i) / 3));
    return params;
}

static void assert_equal(const ls_tensor *a, const ls_tensor *b, bool equal)
{
    const size_t bytes = (size_t)ls_tensor_count(a) * sizeof(float);
    assert_true((memcmp(tensor_data(a), tensor_data(b), bytes) == 0) == equal);
}

/* Of fc.weight and bn.running_mean, which seeds tell apart. */
static void compare(ls_params *a, ls_params *b, bool equal)
{
    assert_equal(ls_params_get(a, 0), ls_params_get(b, 0), equal);
    assert_equal(ls_params_buffer(a, 0), ls_params_buffer(b, 0), equal);
}

static void the_same_bits_come_back(void **state)
{
    const char *const metadata[] = {"run", "7", NULL};
    ls_params *a = make(4, true, 1), *b = make(4, true, 2);
    ls_safetensors *file = NULL;
    (void)state;
    compare(a, b, false);
    assert_ok(ls_params_save(a, path, metadata));
    assert_ok(ls_params_load(b, path));
    compare(a, b, true);
    assert_ok(ls_safetensors_open(&file, path));
    assert_int_equal(ls_safetensors_count(file), 6);
    assert_string_equal(ls_safetensors_metadata(file)[1], "7");
    ls_safetensors_close(&file);
    ls_params_free(&a);
    ls_params_free(&b);
}

static void another_model_is_refused_whole(void **state)
{
    ls_params *saved = make(4, true, 1), *small = make(4, false, 1);
    ls_params *wide = make(5, true, 2), *other = make(4, true, 2);
    ls_params *before = make(4, true, 2);
    (void)state;
    assert_ok(ls_params_save(saved, path, NULL));
    assert_error(ls_params_load(wide, path), LS_ERR_SHAPE,
                 "'fc.weight' has shape (3, 4), expected (3, 5)");
    assert_error(
        ls_params_load(small, path), LS_ERR_FORMAT,
        "a tensor 'bn.weight', but the model has no tensor of this name");
    assert_ok(ls_params_save(small, path, NULL));
    assert_error(ls_params_load(other, path), LS_ERR_FORMAT,
                 "has no tensor 'bn.weight'");
    compare(other, before, true);
    ls_params_free(&saved);
    ls_params_free(&small);
    ls_params_free(&wide);
    ls_params_free(&other);
    ls_params_free(&before);
}

/* The surplus alone: all that is asked for would fit. */
static void a_surplus_changes_nothing(void **state)
{
    ls_params *saved = make(4, true, 1), *small = make(4, false, 2);
    ls_params *before = make(4, false, 2);
    (void)state;
    assert_ok(ls_params_save(saved, path, NULL));
    assert_error(ls_params_load(small, path), LS_ERR_FORMAT,
                 "the model has no tensor");
    assert_equal(ls_params_get(small, 0), ls_params_get(before, 0), true);
    ls_params_free(&saved);
    ls_params_free(&small);
    ls_params_free(&before);
}

static void what_is_not_allocated_is_refused(void **state)
{
    ls_params *params = NULL;
    ls_linear_layer linear;
    (void)state;
    assert_ok(ls_params_new(&params));
    assert_ok(
        ls_linear_layer_init(&linear, params, "fc", 4, 3, LS_LAYER_DEFAULT));
    assert_error(ls_params_save(params, path, NULL), LS_ERR_STATE,
                 "ls_params_allocate");
    ls_params_free(&params);
}

static int make_file(void **state)
{
    (void)state;
    const int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_bits_come_back),
        cmocka_unit_test(another_model_is_refused_whole),
        cmocka_unit_test(a_surplus_changes_nothing),
        cmocka_unit_test(what_is_not_allocated_is_refused),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
