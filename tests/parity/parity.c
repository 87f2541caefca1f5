/* See parity.h. */
#include "parity.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SAMPLES = 8, SUMS = 4, NUMBERS = 1 + SAMPLES + SUMS };

/* ---- the generator of vectors.py ------------------------------------ */

static uint32_t draw(uint64_t *state)
{
    *state =
        *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 40);
}

void fill(ls_tensor *tensor, uint64_t seed, float scale)
{
    float *data = tensor_data(tensor);
    for (int64_t i = 0; i < ls_tensor_count(tensor); i++)
        data[i] = ((float)draw(&seed) - 0x1p23F) / 0x1p23F * scale;
}

ls_tensor *values(uint64_t seed, int ndim, const int64_t *shape, float scale)
{
    ls_tensor *tensor = NULL;
    assert_ok(ls_tensor_new(&tensor, LS_F32, ndim, shape));
    fill(tensor, seed, scale);
    return tensor;
}

ls_tensor *labels(uint64_t seed, int64_t n, int64_t classes)
{
    ls_tensor *tensor = NULL;
    assert_ok(ls_tensor_new(&tensor, LS_I64, 1, &n));
    int64_t *data = tensor_data(tensor);
    for (int64_t i = 0; i < n; i++)
        data[i] = draw(&seed) % classes;
    return tensor;
}

/* ---- the file ------------------------------------------------------------ */

static const char *file_name;
static FILE *file;
static int lines_read;

void choose_vectors(const char *name)
{
    file_name = name;
}

int open_vectors(void **state)
{
    (void)state;
    file = fopen(file_name, "r");
    return file != NULL ? 0 : -1;
}

int close_vectors(void **state)
{
    (void)state;
    return fclose(file);
}

/* Goes to behind `name`, which begins a line. */
static void seek(const char *name)
{
    char word[128];
    rewind(file);
    do {
        if (fscanf(file, "%127s", word) != 1)
            fail_msg("vectors.txt has no line '%s'", name);
    } while (strcmp(word, name) != 0);
    lines_read++;
}

uint64_t read_seed(const char *name)
{
    unsigned long long seed = 0;
    seek(name);
    assert_int_equal(fscanf(file, "%llu", &seed), 1);
    return seed;
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
void check_cancelling(const char *name, const ls_tensor *tensor, double length,
                      double magnitude)
{
    double numbers[NUMBERS];
    assert_non_null(tensor);
    const int64_t n = read_line(name, numbers);
    assert_int_equal(ls_tensor_count(tensor), n);
    const float *v = tensor_data(tensor);
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
void check(const char *name, const ls_tensor *tensor, double length)
{
    check_cancelling(name, tensor, length, 0.0);
}

/* ---- one operation ------------------------------------------------------- */

static const char *const input_names[] = {"x", "weight", "bias", "residual"};

operation begin(const char *name)
{
    operation op = {.name = name};
    assert_ok(ls_tape_new(&op.tape));
    return op;
}

void add_input(operation *op, int ndim, const int64_t *shape, float scale)
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
void finish(operation *op, ls_tensor *y, const double *lengths)
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

void end(operation *op)
{
    ls_tape_free(&op->tape);
    for (int i = 0; i < op->n; i++)
        ls_tensor_free(&op->in[i]);
}

void every_line_was_read(void **state)
{
    (void)state;
    int lines = 0;
    rewind(file);
    for (int c = getc(file); c != EOF; c = getc(file))
        lines += c == '\n';
    assert_int_equal(lines_read, lines);
}
