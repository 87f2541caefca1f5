/*
 * Our results against PyTorch's in double precision (make_vectors.py).
 *
 * Bounds. A value that is a sum of n products, rounded to f32 at each step, is
 * off by about sqrt(n) 2^-24 of the magnitudes that it is made of, roundings
 * being as good as independent; the magnitudes are at most a few times the
 * largest element of the tensor. Where a result comes out of several sums in a
 * row their lengths add up. Each check names that length; 8 sqrt(n) 2^-24 of
 * the largest element is allowed, and sqrt(count) times that for a sum of
 * elements with random signs.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lockstep/autograd.h"
#include "testing.h"

enum { SAMPLES = 8, SUMS = 4, NUMBERS = 1 + SAMPLES + SUMS };

/* ---- the generator of make_vectors.py ------------------------------------ */

static uint32_t draw(uint64_t *state)
{
    *state =
        *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 40);
}

static void fill(ls_tensor *tensor, uint64_t seed, float scale)
{
    float *data = ls_tensor_data(tensor);
    for (int64_t i = 0; i < ls_tensor_count(tensor); i++)
        data[i] = ((float)draw(&seed) - 0x1p23F) / 0x1p23F * scale;
}

static ls_tensor *values(uint64_t seed, int ndim, const int64_t *shape,
                         float scale)
{
    ls_tensor *tensor = NULL;
    assert_ok(ls_tensor_new(&tensor, LS_F32, ndim, shape));
    fill(tensor, seed, scale);
    return tensor;
}

static ls_tensor *labels(uint64_t seed, int64_t n, int64_t classes)
{
    ls_tensor *tensor = NULL;
    assert_ok(ls_tensor_new(&tensor, LS_I64, 1, &n));
    int64_t *data = ls_tensor_data(tensor);
    for (int64_t i = 0; i < n; i++)
        data[i] = draw(&seed) % classes;
    return tensor;
}

/* ---- the file ------------------------------------------------------------ */

static FILE *file;
static int lines_read;

static int open_file(void **state)
{
    (void)state;
    file = fopen(PARITY_VECTORS, "r");
    return file != NULL ? 0 : -1;
}

static int close_file(void **state)
{
    (void)state;
    return fclose(file);
}

/* Goes to behind `name`, which begins a line. */
static void seek(const char *name)
{
    char word[64];
    rewind(file);
    do {
        if (fscanf(file, "%63s", word) != 1)
            fail_msg("vectors.txt has no line '%s'", name);
    } while (strcmp(word, name) != 0);
    lines_read++;
}

static int64_t read_line(const char *name, double numbers[NUMBERS])
{
    long long count = 0;
    seek(name);
    assert_int_equal(fscanf(file, "%lld", &count), 1);
    for (int i = 0; i < NUMBERS; i++)
        assert_int_equal(fscanf(file, "%lf", &numbers[i]), 1);
    return count;
}

/* ---- comparing ----------------------------------------------------------- */

static double signed_sum(const float *v, int64_t n, uint64_t seed)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += draw(&seed) >> 23 ? -(double)v[i] : (double)v[i];
    return sum;
}

static void compare(const char *name, const char *what, int i, double got,
                    double want, double bound)
{
    if (!(fabs(got - want) <= bound))
        fail_msg("%s: %s %d is %.9g, PyTorch's is %.9g, bound %.3g", name, what,
                 i, got, want, bound);
}

/* As check, for a tensor whose elements cancel to less than `magnitude`. */
static void check_cancelling(const char *name, const ls_tensor *tensor,
                             double length, double magnitude)
{
    double numbers[NUMBERS];
    assert_non_null(tensor);
    const int64_t n = read_line(name, numbers);
    assert_int_equal(ls_tensor_count(tensor), n);
    const float *v = ls_tensor_data(tensor);
    const double bound =
        8.0 * sqrt(length) * 0x1p-24 * fmax(numbers[0], magnitude);
    for (int j = 0; j < SAMPLES; j++)
        compare(name, "element", j, (double)v[j * (n - 1) / (SAMPLES - 1)],
                numbers[1 + j], bound);
    for (int j = 0; j < SUMS; j++)
        compare(name, "sum", j, signed_sum(v, n, 1000 + (uint64_t)j),
                numbers[1 + SAMPLES + j], bound * sqrt((double)n));
}

/* The line is about this tensor, whose elements are sums of `length`. */
static void check(const char *name, const ls_tensor *tensor, double length)
{
    check_cancelling(name, tensor, length, 0.0);
}

/* ---- one operation ------------------------------------------------------- */

enum { MAX_INPUTS = 3 };
static const char *const input_names[] = {"x", "weight", "bias"};

typedef struct operation {
    const char *name;
    ls_tape *tape;
    ls_tensor *in[MAX_INPUTS];
    int n;
} operation;

static operation begin(const char *name)
{
    operation op = {.name = name};
    assert_ok(ls_tape_new(&op.tape));
    return op;
}

static void add_input(operation *op, int ndim, const int64_t *shape,
                      float scale)
{
    op->in[op->n] = values((uint64_t)op->n + 1, ndim, shape, scale);
    assert_ok(ls_tape_watch(op->tape, op->in[op->n]));
    op->n++;
}

static void check_part(const operation *op, const char *part,
                       const ls_tensor *tensor, double length)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%s", op->name, part);
    check(name, tensor, length);
}

/* Values, then gradients of their weighted sum. lengths: y, then the inputs. */
static void finish(operation *op, ls_tensor *y, const double *lengths)
{
    assert_ok(ls_tape_status(op->tape));
    ls_tensor *weights =
        values(99, ls_tensor_ndim(y), ls_tensor_shape(y), 1.0F);
    ls_tensor *loss = ls_sum(op->tape, ls_mul(op->tape, weights, y));
    assert_ok(ls_backward(op->tape, loss, 1.0));
    check_part(op, "y", y, lengths[0]);
    for (int i = 0; i < op->n; i++) {
        char part[16];
        snprintf(part, sizeof part, "d%s", input_names[i]);
        check_part(op, part, ls_tape_grad(op->tape, op->in[i]), lengths[1 + i]);
    }
    ls_tensor_free(&weights);
}

static void end(operation *op)
{
    ls_tape_free(&op->tape);
    for (int i = 0; i < op->n; i++)
        ls_tensor_free(&op->in[i]);
}

static void conv2d(const char *name, const int64_t *x, const int64_t *weight,
                   ls_conv2d_options options)
{
    operation op = begin(name);
    add_input(&op, 4, x, 1.0F);
    add_input(&op, 4, weight, 0.125F);
    add_input(&op, 1, weight, 0.125F);
    ls_tensor *y = ls_conv2d(op.tape, op.in[0], op.in[1], op.in[2], options);
    const int64_t *out = ls_tensor_shape(y);
    const double taps = (double)(weight[2] * weight[3]);
    const double pixels = (double)(out[0] * out[2] * out[3]);
    finish(&op, y,
           (const double[]){taps * (double)x[1], taps * (double)weight[0],
                            pixels, pixels});
    end(&op);
}

static void convolutions(void **state)
{
    (void)state;
    conv2d("conv2d_strided", (const int64_t[]){2, 3, 8, 9},
           (const int64_t[]){5, 3, 3, 3},
           (ls_conv2d_options){.stride = 2, .padding = 1});
    conv2d("conv2d_first", (const int64_t[]){2, 3, 12, 12},
           (const int64_t[]){32, 3, 3, 3}, (ls_conv2d_options){.relu = true});
    conv2d("conv2d_middle", (const int64_t[]){4, 32, 14, 14},
           (const int64_t[]){32, 32, 3, 3}, (ls_conv2d_options){0});
}

static void linear(void **state)
{
    (void)state;
    operation op = begin("linear");
    add_input(&op, 2, (const int64_t[]){6, 19}, 1.0F);
    add_input(&op, 2, (const int64_t[]){11, 19}, 0.25F);
    add_input(&op, 1, (const int64_t[]){11}, 1.0F);
    ls_tensor *y = ls_linear(op.tape, op.in[0], op.in[1], op.in[2]);
    finish(&op, y, (const double[]){20, 11, 6, 6});
    end(&op);
}

static void max_pool(void **state)
{
    (void)state;
    operation op = begin("max_pool2d");
    add_input(&op, 4, (const int64_t[]){2, 5, 9, 7}, 1.0F);
    finish(&op, ls_max_pool2d(op.tape, op.in[0], 2), (const double[]){1, 1});
    end(&op);
}

/* Mean, variance, normalisation: three sums over the 13 rows in a row. */
static void batch_norm(void **state)
{
    (void)state;
    const int64_t columns = 10;
    operation op = begin("batch_norm");
    add_input(&op, 2, (const int64_t[]){13, 10}, 1.0F);
    add_input(&op, 1, &columns, 1.0F);
    add_input(&op, 1, &columns, 1.0F);
    ls_tensor *mean = values(4, 1, &columns, 1.0F);
    ls_tensor *var = values(5, 1, &columns, 1.0F);
    float *v = ls_tensor_data(var);
    for (int i = 0; i < 10; i++)
        v[i] = fabsf(v[i]);
    const ls_batch_norm_args args = {.weight = op.in[1],
                                     .bias = op.in[2],
                                     .running_mean = mean,
                                     .running_var = var,
                                     .eps = 1e-5,
                                     .momentum = 0.1};
    ls_tensor *y = ls_batch_norm(op.tape, op.in[0], &args);
    finish(&op, y, (const double[]){26, 52, 39, 13});
    check("batch_norm.mean", mean, 13);
    check("batch_norm.var", var, 26);
    ls_tape_reset(op.tape);
    ls_tape_set_training(op.tape, false);
    check("batch_norm.eval", ls_batch_norm(op.tape, op.in[0], &args), 26);
    ls_tensor_free(&mean);
    ls_tensor_free(&var);
    end(&op);
}

static void cross_entropy(void **state)
{
    (void)state;
    operation op = begin("cross_entropy");
    add_input(&op, 2, (const int64_t[]){12, 10}, 4.0F);
    ls_tensor *classes = labels(2, 12, 10);
    ls_tensor *loss = ls_cross_entropy(op.tape, op.in[0], classes);
    assert_ok(ls_backward(op.tape, loss, 1.0));
    check("cross_entropy.y", loss, 22);
    check("cross_entropy.dx", ls_tape_grad(op.tape, op.in[0]), 22);
    ls_tensor_free(&classes);
    end(&op);
}

/* ---- the CIFAR-100 network, without dropout ------------------------------ */

enum { BATCH = 4, PARAMETERS = 10 };

typedef struct parameter {
    const char *name;
    int ndim;
    int64_t shape[4];
    float scale;
} parameter;

static const parameter parameters[PARAMETERS] = {
    {"conv1.weight", 4, {32, 3, 3, 3}, 0.25F},
    {"conv1.bias", 1, {32}, 0.25F},
    {"conv2.weight", 4, {32, 32, 3, 3}, 0.0625F},
    {"conv2.bias", 1, {32}, 0.0625F},
    {"fc1.weight", 2, {128, 6272}, 0x1p-6F},
    {"fc1.bias", 1, {128}, 0x1p-6F},
    {"bn.weight", 1, {128}, 1.0F},
    {"bn.bias", 1, {128}, 1.0F},
    {"fc2.weight", 2, {100, 128}, 0.125F},
    {"fc2.bias", 1, {100}, 0.125F},
};

typedef struct network {
    ls_params *params;
    ls_tensor *p[PARAMETERS];
    ls_tensor *running_mean, *running_var;
} network;

static void open_network(network *net, uint64_t seed)
{
    const ls_init zero = {LS_INIT_CONSTANT, 0.0, 0.0};
    const ls_init one = {LS_INIT_CONSTANT, 1.0, 0.0};
    const int64_t features = 128;
    assert_ok(ls_params_new(&net->params));
    for (int i = 0; i < PARAMETERS; i++)
        assert_ok(ls_params_add(net->params, parameters[i].name,
                                parameters[i].ndim, parameters[i].shape, zero,
                                &net->p[i]));
    assert_ok(ls_params_add_buffer(net->params, "mean", 1, &features, zero,
                                   &net->running_mean));
    assert_ok(ls_params_add_buffer(net->params, "var", 1, &features, one,
                                   &net->running_var));
    assert_ok(ls_params_allocate(net->params, NULL, 0));
    for (int i = 0; i < PARAMETERS; i++)
        fill(net->p[i], seed + (uint64_t)i, parameters[i].scale);
}

static ls_tensor *forward(const network *net, ls_tape *tape, ls_tensor *x)
{
    ls_tensor *const *p = net->p;
    const ls_conv2d_options relu = {.relu = true};
    const ls_batch_norm_args bn = {.weight = p[6],
                                   .bias = p[7],
                                   .running_mean = net->running_mean,
                                   .running_var = net->running_var,
                                   .eps = 1e-5,
                                   .momentum = 0.1};
    ls_tensor *h = ls_conv2d(tape, x, p[0], p[1], relu);
    h = ls_max_pool2d(tape, ls_conv2d(tape, h, p[2], p[3], relu), 2);
    h = ls_linear(tape, ls_flatten(tape, h), p[4], p[5]);
    h = ls_relu(tape, ls_batch_norm(tape, h, &bn));
    return ls_linear(tape, h, p[8], p[9]);
}

/*
 * Forward: sums of 27, 288 and 6272 products, statistics of 4, sums of 128.
 * Backward adds 100, 128, 4, 128, 288 and the pixels of the last one.
 */
static void cifar_network(void **state)
{
    (void)state;
    unsigned long long seed = 0;
    seek("network.seed");
    assert_int_equal(fscanf(file, "%llu", &seed), 1);
    network net;
    ls_tape *tape = NULL;
    open_network(&net, seed);
    assert_ok(ls_tape_new(&tape));
    ls_tensor *x =
        values(seed + 50, 4, (const int64_t[]){BATCH, 3, 32, 32}, 1.0F);
    ls_tensor *y = labels(seed + 51, BATCH, 100);
    assert_ok(ls_tape_watch(tape, x));
    ls_tensor *logits = forward(&net, tape, x);
    ls_tensor *loss = ls_cross_entropy(tape, logits, y);
    assert_ok(ls_backward(tape, loss, 1.0));
    const double deep = 27 + 288 + 6272 + 4 + 128;
    const double back = deep + 100 + 128 + 4 + 128 + 288;
    check("network.logits", logits, deep);
    check("network.loss", loss, deep + 100);
    check("network.dx", ls_tape_grad(tape, x), back);
    for (int i = 0; i < PARAMETERS; i++) {
        char name[32];
        snprintf(name, sizeof name, "network.d%s", parameters[i].name);
        /* What is added before a normalisation has gradient 0, made of terms
         * as large as those of the normalisation's own bias. */
        const bool cancels = strcmp(parameters[i].name, "fc1.bias") == 0;
        check_cancelling(name, ls_grad(net.p[i]), back + BATCH * 30 * 30,
                         cancels ? 1.0 : 0.0);
    }
    ls_tape_free(&tape);
    ls_params_free(&net.params);
    ls_tensor_free(&x);
    ls_tensor_free(&y);
}

static void every_line_was_read(void **state)
{
    (void)state;
    int lines = 0;
    rewind(file);
    for (int c = getc(file); c != EOF; c = getc(file))
        lines += c == '\n';
    assert_int_equal(lines_read, lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions),
        cmocka_unit_test(linear),
        cmocka_unit_test(max_pool),
        cmocka_unit_test(batch_norm),
        cmocka_unit_test(cross_entropy),
        cmocka_unit_test(cifar_network),
        cmocka_unit_test(every_line_was_read),
    };
    return cmocka_run_group_tests(tests, open_file, close_file);
}
