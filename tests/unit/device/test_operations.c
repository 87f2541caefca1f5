/*
 * Computing on a device: what goes wrong there is told, later or at once, and
 * training takes the same steps as on the host, without a transfer that nobody
 * asked for.
 */
#include "array/compute/operations.h"
#include "fake_device.h"
#include "flat.h"
#include "lockstep/attention.h"
#include "lockstep/nn.h"
#include "lockstep/optim.h"
#include "model/autograd/tape.h"
#include "testing.h"

static lsi_device *open_with(const lsi_device_table *table)
{
    lsi_device *device = NULL;
    fake_next = (fake_settings){.longest_nap = 200};
    assert_ok(lsi_device_open(&device, table, 0));
    fake_next = (fake_settings){0};
    return device;
}

static ls_tape *tape_on(lsi_device *device)
{
    ls_tape *tape = NULL;
    assert_ok(ls_tape_new(&tape));
    if (device != NULL)
        assert_ok(lsi_tape_set_device(tape, device));
    return tape;
}

/* A tensor with these numbers, on the device or the host. */
static ls_tensor *floats_on(lsi_device *device, const float *values, int64_t n)
{
    ls_tensor *tensor = NULL;
    assert_ok(ls_tensor_new(&tensor, LS_F32, 1, &n));
    memcpy(tensor_data(tensor), values, (size_t)n * sizeof *values);
    assert_ok(lsi_tensor_move_to(device, &tensor));
    return tensor;
}

static ls_tensor *indices_on(lsi_device *device, const int64_t *values,
                             int64_t n)
{
    ls_tensor *tensor = NULL;
    assert_ok(ls_tensor_new(&tensor, LS_I64, 1, &n));
    memcpy(tensor_data(tensor), values, (size_t)n * sizeof *values);
    assert_ok(lsi_tensor_move_to(device, &tensor));
    return tensor;
}

/* ---- errors -------------------------------------------------------------- */

/* The host cannot look at indices: who reads the result hears of them. */
static void test_data_is_checked_later(void **state)
{
    (void)state;
    lsi_device *device = open_with(&fake_device);
    ls_tape *tape = tape_on(device);
    ls_tensor *table = floats_on(device, (const float[]){1, 2, 3}, 3);
    ls_tensor *rows = NULL;
    assert_ok(ls_tensor_view(table, 2, (const int64_t[]){3, 1}, &rows));
    ls_tensor *bad = indices_on(device, (const int64_t[]){0, 3}, 2);
    double item = 0.0;
    ls_tensor *sum = ls_sum(tape, ls_embedding(tape, rows, bad));
    assert_ok(ls_tape_status(tape));
    assert_error(ls_tensor_item(sum, &item), LS_ERR_STATE,
                 "embedding: index 1 is 3; it must be at least 0 and below 3");
    assert_error(ls_tensor_item(sum, &item), LS_ERR_STATE, "fake:0: command");
    ls_tape_free(&tape);
    ls_tensor_free(&bad);
    ls_tensor_free(&rows);
    ls_tensor_free(&table);
    lsi_device_close(&device);
}

/* That the module lacks one is said at once, and harms nothing else. */
static void test_missing_operations(void **state)
{
    (void)state;
    lsi_operations fewer = fake_operations;
    lsi_device_table table = fake_device;
    fewer.array_scale = NULL;
    fewer.gemm_run = NULL;
    table.operations = &fewer;
    lsi_device *device = open_with(&table);
    ls_tape *tape = tape_on(device);
    ls_tensor *x = floats_on(device, (const float[]){1, 2}, 2), *row = NULL;
    assert_ok(ls_tensor_view(x, 2, (const int64_t[]){1, 2}, &row));
    double item = 0.0;
    assert_null(ls_linear(tape, row, row, NULL));
    assert_error(ls_tape_status(tape), LS_ERR_UNSUPPORTED,
                 "fake:0 has no operation gemm_run");
    ls_tape_reset(tape);
    ls_tensor *y = ls_sum(tape, x);
    assert_ok(ls_tensor_item(y, &item));
    assert_true(item == 3.0);
    assert_null(ls_scale(tape, x, 2.0));
    assert_error(ls_tape_status(tape), LS_ERR_UNSUPPORTED,
                 "fake:0 has no operation array_scale");
    ls_tape_reset(tape);
    y = ls_sum(tape, x);
    assert_ok(ls_tensor_item(y, &item));
    assert_true(item == 3.0);
    ls_tape_free(&tape);
    ls_tensor_free(&row);
    ls_tensor_free(&x);
    lsi_device_close(&device);
}

/* Nothing is moved behind the program's back. */
static void test_places_are_not_mixed(void **state)
{
    (void)state;
    lsi_device *device = open_with(&fake_device);
    lsi_device *other = open_with(&fake_device);
    ls_tape *tape = tape_on(device);
    const float one = 1;
    ls_tensor *here = floats_on(NULL, &one, 1);
    ls_tensor *there = floats_on(device, &one, 1);
    ls_tensor *elsewhere = floats_on(other, &one, 1);
    assert_null(ls_add(tape, there, here));
    assert_error(ls_tape_status(tape), LS_ERR_STATE,
                 "add: the tensor of shape (1) is on the host, the tape "
                 "computes on fake:0; copy it to one there first");
    ls_tape_reset(tape);
    assert_null(ls_add(tape, there, elsewhere));
    assert_error(ls_tape_status(tape), LS_ERR_STATE, "is on fake:0, the tape");
    ls_tape_reset(tape);
    assert_non_null(ls_add(tape, there, there));
    assert_error(lsi_tape_set_device(tape, NULL), LS_ERR_STATE, "used");
    ls_tape_free(&tape);
    ls_tensor_free(&here);
    ls_tensor_free(&there);
    ls_tensor_free(&elsewhere);
    lsi_device_close(&other);
    lsi_device_close(&device);
}

/* A list of the host's that a device would read after it has gone. */
static void test_key_counts(void **state)
{
    (void)state;
    lsi_device *device = open_with(&fake_device);
    static const int64_t counts[] = {1};
    const ls_attention_shape shape = {.batch = 1,
                                      .heads = 1,
                                      .queries = 1,
                                      .keys = 2,
                                      .d = 2,
                                      .key_counts = counts};
    ls_tensor *t = floats_on(device, (const float[8]){0}, 8);
    float *const at = lsi_tensor_raw(t);
    assert_error(ls_attention_forward(&shape, LS_ATTENTION_FLASH, at, at + 2,
                                      at, at, at),
                 LS_ERR_UNSUPPORTED, "these are on fake:0");
    assert_error(ls_attention_backward(&shape, LS_ATTENTION_FLASH, at, at, at,
                                       at, at, at, at, at, at),
                 LS_ERR_UNSUPPORTED, "key_counts are for arrays on the host");
    ls_tensor_free(&t);
    lsi_device_close(&device);
}

/* ---- training ------------------------------------------------------------ */

enum { ROWS = 6, IN = 5, HIDDEN = 9, OUT = 3, STEPS = 5 };

typedef struct net {
    lsi_device *device;
    ls_params *params;
    ls_linear_layer first, second;
    ls_tape *tape;
    ls_optimizer *optimizer;
    ls_clip *clip;
    ls_tensor *x, *labels; /* on the device */
} net;

static net make_net(lsi_device *device)
{
    net n = {.device = device, .tape = tape_on(device)};
    float x[ROWS * IN];
    int64_t labels[ROWS];
    for (int i = 0; i < ROWS * IN; i++)
        x[i] = (float)(i * 37 % 23) / 11.0F - 1.0F;
    for (int i = 0; i < ROWS; i++)
        labels[i] = i % OUT;
    assert_ok(ls_params_new(&n.params));
    if (device != NULL)
        assert_ok(lsi_params_set_device(n.params, device));
    assert_ok(ls_linear_layer_init(&n.first, n.params, "a", IN, HIDDEN, true));
    assert_ok(
        ls_linear_layer_init(&n.second, n.params, "b", HIDDEN, OUT, true));
    assert_ok(ls_params_allocate(n.params, NULL, 3));
    assert_ok(ls_adamw_new(&n.optimizer, n.params, ls_adamw_defaults()));
    assert_ok(ls_ema_start(n.optimizer, 0.9));
    assert_ok(ls_clip_new(&n.clip, n.params, 0.05));
    ls_tape_set_random(n.tape, 1, 2, 3);
    n.x = floats_on(device, x, ROWS * IN);
    n.labels = indices_on(device, labels, ROWS);
    return n;
}

static void free_net(net *n)
{
    ls_tensor_free(&n->x);
    ls_tensor_free(&n->labels);
    ls_clip_free(&n->clip);
    ls_optimizer_free(&n->optimizer);
    ls_tape_free(&n->tape);
    ls_params_free(&n->params);
}

static double train_step(net *n)
{
    double loss = 0.0, scale = 1.0, norm = 0.0;
    ls_tape_reset(n->tape);
    ls_params_zero_grad(n->params);
    ls_tensor *x = ls_reshape(n->tape, n->x, 2, (const int64_t[]){ROWS, IN});
    ls_tensor *h = ls_linear_layer_forward(&n->first, n->tape, x);
    h = ls_dropout(n->tape, ls_gelu(n->tape, h), 0.25);
    ls_tensor *y = ls_linear_layer_forward(&n->second, n->tape, h);
    ls_tensor *ce = ls_cross_entropy(n->tape, y, n->labels);
    assert_ok(ls_backward(n->tape, ce, 1.0));
    assert_ok(ls_clip_grad(n->clip, &scale, &norm));
    assert_ok(ls_optimizer_step(n->optimizer, scale));
    assert_ok(ls_tensor_item(ce, &loss));
    return loss;
}

static void assert_same_params(const net *a, const net *b)
{
    for (size_t i = 0; i < ls_params_count(a->params); i++) {
        ls_tensor *copies[2] = {NULL, NULL};
        const net *nets[] = {a, b};
        for (int k = 0; k < 2; k++) {
            const ls_tensor *p = ls_params_get(nets[k]->params, i);
            assert_ok(ls_tensor_new(&copies[k], p->dtype, p->ndim, p->shape));
            assert_ok(ls_tensor_copy(copies[k], p));
        }
        assert_memory_equal(tensor_data(copies[0]), tensor_data(copies[1]),
                            (size_t)copies[0]->count * sizeof(float));
        ls_tensor_free(&copies[0]);
        ls_tensor_free(&copies[1]);
    }
}

/* A step of a planned net takes no memory and makes two transfers: the sums of
 * the gradients' norm, and the loss. */
static void test_training_is_that_of_the_host(void **state)
{
    (void)state;
    lsi_device *device = open_with(&fake_device);
    net here = make_net(NULL), there = make_net(device);
    lsi_device_counts first = {0};
    for (int step = 0; step < STEPS; step++) {
        assert_true(train_step(&here) == train_step(&there));
        if (step == 0)
            first = lsi_device_counted(device);
    }
    const lsi_device_counts last = lsi_device_counted(device);
    assert_int_equal(last.blocks, first.blocks);
    assert_int_equal(last.live_bytes, first.live_bytes);
    assert_int_equal(last.transfers[LSI_TRANSFER_TO_DEVICE],
                     first.transfers[LSI_TRANSFER_TO_DEVICE]);
    assert_int_equal(last.transfers[LSI_TRANSFER_FROM_DEVICE],
                     first.transfers[LSI_TRANSFER_FROM_DEVICE] +
                         2 * (STEPS - 1));
    assert_same_params(&here, &there);
    assert_ok(ls_ema_swap(here.optimizer));
    assert_ok(ls_ema_swap(there.optimizer));
    assert_same_params(&here, &there);
    free_net(&here);
    free_net(&there);
    assert_int_equal(lsi_device_counted(device).live_bytes, 0);
    assert_ok(lsi_device_wait(device));
    assert_int_equal(fake_blocks(), 0);
    lsi_device_close(&device);
}

/* What is not there says so, and leaves nothing half made. */
static void test_refused_parameters(void **state)
{
    (void)state;
    lsi_device *device = open_with(&fake_device);
    ls_params *params = NULL;
    ls_tensor *p = NULL;
    const int64_t n = 1000;
    assert_ok(ls_params_new(&params));
    assert_ok(lsi_params_set_device(params, device));
    assert_ok(ls_params_add(params, "p", 1, &n,
                            (ls_init){LS_INIT_CONSTANT, 1, 0}, &p));
    lsi_device_set_budget(device, 5000); /* two of these are 8,000 bytes */
    assert_error(ls_params_allocate(params, NULL, 0), LS_ERR_BUDGET,
                 "for the gradients exceed the memory budget");
    assert_int_equal(lsi_device_counted(device).live_bytes, 0);
    lsi_device_set_budget(device, 0);
    assert_ok(ls_params_allocate(params, NULL, 0));
    assert_null(ls_params_flat(params, NULL));
    assert_null(ls_params_flat_grad(params, NULL));
    assert_error(lsi_params_set_device(params, NULL), LS_ERR_STATE,
                 "before any is added");
    ls_params_free(&params);

    static float memory[4];
    const int64_t four = 4;
    assert_ok(ls_params_new(&params));
    assert_ok(lsi_params_set_device(params, device));
    assert_ok(ls_params_adopt(params, "q", 1, &four,
                              &(ls_param_memory){.data = memory}, &p));
    assert_error(ls_params_allocate(params, NULL, 0), LS_ERR_UNSUPPORTED,
                 "'q' has memory of the program's, and cannot lie on fake:0");
    ls_params_free(&params);
    lsi_device_close(&device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_data_is_checked_later),
        cmocka_unit_test(test_missing_operations),
        cmocka_unit_test(test_places_are_not_mixed),
        cmocka_unit_test(test_key_counts),
        cmocka_unit_test(test_training_is_that_of_the_host),
        cmocka_unit_test(test_refused_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
