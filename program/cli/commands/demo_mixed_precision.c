/*
 * lockstep demo mixed-precision: why sums stay in f32, and which types a small
 * model meets when its products are rounded.
 */
#include <stdio.h>

#include "base/error.h"
#include "base/half.h"
#include "cli/frame/command.h"
#include "lockstep/nn.h"
#include "report/table.h"

enum { ADDITIONS = 1000, BATCH = 8, IN = 16, HIDDEN = 10, CLASSES = 5 };

typedef struct args {
    const char *dtype;
} args;

#define ROW(...) LSI_OPTION(args, __VA_ARGS__)
static const lsi_option options[] = {
    ROW(dtype, DTYPE, "dtype", 0, "TYPE", "f16",
        "data type of the inputs of the model's matrix products",
        .choices = "f16|bf16"),
};

/* ---- sums ---------------------------------------------------------------- */

static float sum_f32(float term)
{
    float total = 0.0F;
    for (int i = 0; i < ADDITIONS; i++)
        total += term;
    return total;
}

/*
 * An f32 has 24 bits, two more than twice the 11 of an f16: the second rounding
 * of the sum is the only one that shows.
 */
static float sum_f16(uint16_t term)
{
    uint16_t total = 0;
    for (int i = 0; i < ADDITIONS; i++)
        total = lsi_f16_from_f32(lsi_f16_to_f32(total) + lsi_f16_to_f32(term));
    return lsi_f16_to_f32(total);
}

/* Each addition widens its term. */
static float sum_f32_of_f16(uint16_t term)
{
    float total = 0.0F;
    for (int i = 0; i < ADDITIONS; i++)
        total += lsi_f16_to_f32(term);
    return total;
}

static void add_sum(lsi_table *table, const char *sum, const char *term,
                    float result)
{
    lsi_table_row(table);
    lsi_table_text(table, "sum", sum);
    lsi_table_text(table, "term", term);
    lsi_table_real(table, "result", (double)result);
}

static void add_sums(lsi_table *table)
{
    const float term = 0.01F;
    const uint16_t half = lsi_f16_from_f32(term);
    add_sum(table, "f32", "f32", sum_f32(term));
    add_sum(table, "f16", "f16", sum_f16(half));
    add_sum(table, "f32", "f16", sum_f32_of_f16(half));
    add_sum(table, "f32", "f16 made f32", sum_f32(lsi_f16_to_f32(half)));
}

static ls_status print_sums(void)
{
    static const lsi_column columns[] = {
        LSI_COLUMN(TEXT, "sum"), LSI_COLUMN(TEXT, "term"),
        LSI_COLUMN(REAL, "result", .decimals = 4)};
    lsi_table *table = NULL;
    LS_TRY(LSI_TABLE_NEW(&table, columns));
    add_sums(table);
    printf("0.01 added %d times\n\n", ADDITIONS);
    const ls_status status = lsi_table_print(table, stdout);
    lsi_table_free(&table);
    return status;
}

/* ---- a model ------------------------------------------------------------- */

typedef struct toy {
    ls_params *params;
    ls_linear_layer fc1, fc2;
    ls_tensor *ln_weight, *ln_bias;
    ls_tape *tape;
    ls_tensor *hidden, *activated, *normalised, *logits, *loss;
} toy;

static ls_status make_toy(toy *t)
{
    const int64_t features[] = {HIDDEN};
    const ls_init one = {.kind = LS_INIT_CONSTANT, .a = 1};
    const ls_init zero = {.kind = LS_INIT_CONSTANT};
    LS_TRY(ls_params_new(&t->params));
    LS_TRY(ls_linear_layer_init(&t->fc1, t->params, "fc1", IN, HIDDEN,
                                LS_LAYER_NO_BIAS));
    LS_TRY(
        ls_params_add(t->params, "ln.weight", 1, features, one, &t->ln_weight));
    LS_TRY(ls_params_add(t->params, "ln.bias", 1, features, zero, &t->ln_bias));
    LS_TRY(ls_linear_layer_init(&t->fc2, t->params, "fc2", HIDDEN, CLASSES,
                                LS_LAYER_NO_BIAS));
    LS_TRY(ls_params_allocate(t->params, NULL, 0));
    return ls_tape_new(&t->tape);
}

/* Inputs of some size, labels of every class. */
static ls_tensor *make_batch(ls_tape *tape, ls_tensor **labels)
{
    const int64_t rows = BATCH, shape[] = {BATCH, IN};
    float *values;
    int64_t *classes;
    ls_tensor *x = ls_tape_output(tape, LS_F32, 2, shape);
    *labels = ls_tape_output(tape, LS_I64, 1, &rows);
    if (ls_tensor_map_f32(x, &values) != LS_OK ||
        ls_tensor_map_i64(*labels, &classes) != LS_OK)
        return NULL;
    for (int i = 0; i < BATCH * IN; i++)
        values[i] = (float)(i * 7 % 19 - 9) / 9.0F;
    for (int i = 0; i < BATCH; i++)
        classes[i] = i % CLASSES;
    return x;
}

static ls_status run_toy(toy *t, ls_dtype dtype)
{
    ls_tensor *labels = NULL;
    ls_tensor *x = make_batch(t->tape, &labels);
    LS_TRY(ls_tape_set_autocast(t->tape, dtype));
    t->hidden = ls_linear_layer_forward(&t->fc1, t->tape, x);
    t->activated = ls_relu(t->tape, t->hidden);
    t->normalised =
        ls_layer_norm(t->tape, t->activated, t->ln_weight, t->ln_bias, 1e-5);
    t->logits = ls_linear_layer_forward(&t->fc2, t->tape, t->normalised);
    t->loss = ls_cross_entropy(t->tape, t->logits, labels, NULL);
    return ls_backward(t->tape, t->loss, 1.0);
}

static void add_type(lsi_table *table, const char *what,
                     const ls_tensor *tensor)
{
    lsi_table_row(table);
    lsi_table_text(table, "tensor", what);
    lsi_table_text(table, "type", ls_dtype_name(ls_tensor_dtype(tensor)));
}

static void add_types(lsi_table *table, const toy *t)
{
    char what[64];
    for (size_t i = 0; i < ls_params_count(t->params); i++)
        add_type(table, ls_params_name(t->params, i),
                 ls_params_get(t->params, i));
    add_type(table, "output of fc1", t->hidden);
    add_type(table, "output of relu", t->activated);
    add_type(table, "output of ln", t->normalised);
    add_type(table, "output of fc2 (logits)", t->logits);
    add_type(table, "loss", t->loss);
    for (size_t i = 0; i < ls_params_count(t->params); i++) {
        snprintf(what, sizeof(what), "gradient of %s",
                 ls_params_name(t->params, i));
        add_type(table, what, ls_grad(ls_params_get(t->params, i)));
    }
}

static ls_status print_types(const toy *t, ls_dtype dtype)
{
    static const lsi_column columns[] = {LSI_COLUMN(TEXT, "tensor"),
                                         LSI_COLUMN(TEXT, "type")};
    lsi_table *table = NULL;
    LS_TRY(LSI_TABLE_NEW(&table, columns));
    add_types(table, t);
    printf("\nA model with matrix products in %s\n\n", ls_dtype_name(dtype));
    const ls_status status = lsi_table_print(table, stdout);
    lsi_table_free(&table);
    return status;
}

static ls_status show_types(const char *name)
{
    toy t = {0};
    ls_dtype dtype;
    LS_TRY(ls_dtype_parse(name, &dtype));
    ls_status status = make_toy(&t);
    if (status == LS_OK)
        status = run_toy(&t, dtype);
    if (status == LS_OK)
        status = print_types(&t, dtype);
    ls_tape_free(&t.tape);
    ls_params_free(&t.params);
    return status;
}

static int run_mixed_precision(const lsi_invocation *call)
{
    args a;
    int exit_status;
    if (!lsi_cli_parse(call, &a, NULL, &exit_status))
        return exit_status;
    ls_status status = print_sums();
    if (status == LS_OK)
        status = show_types(a.dtype);
    return status == LS_OK ? 0 : lsi_cli_error();
}

const lsi_command lsi_command_demo_mixed_precision = {
    .name = "mixed-precision",
    .summary = "Show sums and tensor types in half precision",
    .text = "First, the demo adds 0.01 a thousand times. The f16 sum is too "
            "small. The f32 sum of f16 terms contains only the rounding errors "
            "of the terms. Then a small model (linear layer, relu, LayerNorm, "
            "linear layer) runs forward and backward with half-precision "
            "matrix products. The demo prints the type of each tensor.",
    LSI_COMMAND_OPTIONS(options),
    .run = run_mixed_precision,
};
