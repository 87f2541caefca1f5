/*
 * Weights and gradients in memory of the program's own, a backward written by
 * hand, and any strategy of data parallelism: a linear model learns to map rows
 * of a table. The library steps the weights where they lie.
 *
 *     lockstep run -n 3 -- adopted_memory zero1
 *
 * Each rank then trains the same model alone, in double, and checks that all
 * ranks have the same bits and are no further from that than rounding explains.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/lockstep.h>

enum { IN = 8, OUT = 3, ROWS = 101, STEPS = 60 };

static const double LR = 0.2;

static void check(ls_status status)
{
    if (status == LS_OK)
        return;
    fprintf(stderr, "adopted_memory: %s\n", ls_last_error());
    exit(1);
}

/* ---- the data ------------------------------------------------------------ */

static float x[ROWS][IN], y[ROWS][OUT];

/* Numbers in [-1, 1) that depend on `seed` only. */
static float noise(unsigned *seed)
{
    *seed = *seed * 1664525U + 1013904223U;
    return (float)(*seed >> 8) / (float)(1 << 23) - 1;
}

static void make_table(void)
{
    unsigned seed = 1; /* the same on all ranks */
    for (int r = 0; r < ROWS; r++) {
        for (int i = 0; i < IN; i++)
            x[r][i] = noise(&seed);
        for (int o = 0; o < OUT; o++)
            y[r][o] = x[r][o] - 0.5F * x[r][o + 1] + 0.1F * noise(&seed);
    }
}

/* ---- the program's memory ------------------------------------------------ */

typedef struct model {
    float weight[OUT][IN], bias[OUT];
} model;

enum { WEIGHT, BIAS }; /* the order in which they are adopted */

static void adopt(ls_params *params, model *w, model *grad)
{
    const int64_t shape[] = {OUT, IN};
    const ls_param_memory weight = {.struct_size = sizeof(weight),
                                    .data = w->weight,
                                    .dtype = LS_F32,
                                    .grad = grad->weight,
                                    .grad_dtype = LS_F32};
    const ls_param_memory bias = {.struct_size = sizeof(bias),
                                  .data = w->bias,
                                  .dtype = LS_F32,
                                  .grad = grad->bias,
                                  .grad_dtype = LS_F32};
    check(ls_params_adopt(params, "weight", 2, shape, &weight, NULL));
    check(ls_params_adopt(params, "bias", 1, shape, &bias, NULL));
}

/* Sums over rows begin..end-1 of the gradients of half the squared error. */
static void backward(const model *w, model *grad, ls_ddp *ddp, int begin,
                     int end)
{
    float d[ROWS][OUT];
    memset(grad, 0, sizeof(*grad));
    for (int r = begin; r < end; r++) {
        for (int o = 0; o < OUT; o++) {
            d[r][o] = w->bias[o] - y[r][o];
            for (int i = 0; i < IN; i++)
                d[r][o] += w->weight[o][i] * x[r][i];
            grad->bias[o] += d[r][o];
        }
    }
    check(ls_ddp_ready(ddp, BIAS)); /* travels while the rest is computed */
    for (int r = begin; r < end; r++)
        for (int o = 0; o < OUT; o++)
            for (int i = 0; i < IN; i++)
                grad->weight[o][i] += d[r][o] * x[r][i];
    check(ls_ddp_ready(ddp, WEIGHT));
}

static void train(ls_group *group, ls_ddp *ddp, ls_optimizer *sgd, model *w,
                  model *grad)
{
    const int rank = ls_group_rank(group), size = ls_group_size(group);
    const int begin = ROWS * rank / size, end = ROWS * (rank + 1) / size;
    for (int step = 0; step < STEPS; step++) {
        check(ls_ddp_begin(ddp, end - begin)); /* 0 rows are allowed, too */
        backward(w, grad, ddp, begin, end);
        check(ls_ddp_finish(ddp));
        check(ls_optimizer_step(sgd, 1)); /* writes to *w */
    }
}

/* ---- the same in double -------------------------------------------------- */

/* One output: IN weights and, behind them, the bias, whose input is 1. */
typedef struct output {
    double w[IN + 1];
    double error; /* an upper bound of how far f32 is from w, as a vector */
} output;

static double input(int r, int i)
{
    return i < IN ? (double)x[r][i] : 1;
}

/*
 * With H = mean of x x^T and an error e, a step makes (I - lr H) e plus what it
 * rounds itself. I - lr H shortens e as long as lr times the trace of H is at
 * most 1, so the roundings of all steps add up. Those of a step: IN + 2
 * operations for a difference, one for its product and ROWS for the sum in any
 * order; then the mean and the update.
 */
static void step_in_double(output *m, int o)
{
    const double eps = 0x1p-24;
    double grad[IN + 1] = {0}, rounding[IN + 1] = {0}, squares = 0;
    for (int r = 0; r < ROWS; r++) {
        double d = -(double)y[r][o], size = fabs(d);
        for (int i = 0; i <= IN; i++) {
            d += m->w[i] * input(r, i);
            size += fabs(m->w[i] * input(r, i));
        }
        for (int i = 0; i <= IN; i++) {
            grad[i] += d * input(r, i) / ROWS;
            rounding[i] += fabs(input(r, i)) / ROWS * eps *
                           ((IN + 2) * size + (ROWS + 1) * fabs(d));
        }
    }
    for (int i = 0; i <= IN; i++) {
        const double moved = LR * fabs(grad[i]);
        const double more =
            LR * rounding[i] + eps * (4 * moved + 2 * (fabs(m->w[i]) + moved));
        m->w[i] -= LR * grad[i];
        squares += more * more;
    }
    m->error += sqrt(squares);
}

static bool lr_is_small(void)
{
    double trace = 0;
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i <= IN; i++)
            trace += input(r, i) * input(r, i) / ROWS;
    return LR * trace <= 1;
}

/* The largest error as a part of what it may be. */
static double compare(const model *w)
{
    double worst = 0;
    for (int o = 0; o < OUT; o++) {
        output m = {{0}, 0};
        double squares = 0;
        for (int step = 0; step < STEPS; step++)
            step_in_double(&m, o);
        for (int i = 0; i <= IN; i++) {
            const float got = i < IN ? w->weight[o][i] : w->bias[o];
            squares += ((double)got - m.w[i]) * ((double)got - m.w[i]);
        }
        /* 1%: the bound is of numbers in double, which differ a little. */
        worst = fmax(worst, sqrt(squares) / (1.01 * m.error));
    }
    return worst;
}

static bool same_on_all(ls_group *group, const model *w)
{
    int32_t bits[sizeof(model) / sizeof(int32_t)];
    int32_t least[sizeof(model) / sizeof(int32_t)];
    const size_t n = sizeof(model) / sizeof(int32_t);
    memcpy(bits, w, sizeof(bits));
    check(ls_all_reduce(group, bits, least, n, LS_I32, LS_REDUCE_MIN));
    check(ls_all_reduce(group, bits, bits, n, LS_I32, LS_REDUCE_MAX));
    return memcmp(bits, least, sizeof(bits)) == 0;
}

int main(int argc, char **argv)
{
    ls_group *group = NULL;
    ls_params *params = NULL;
    ls_optimizer *sgd = NULL;
    ls_ddp *ddp = NULL;
    ls_ddp_options how = LS_DDP_OPTIONS_INIT;
    model *const w = calloc(2, sizeof(model)), *const grad = w + 1;
    if (w == NULL)
        return 1;
    make_table();
    check(ls_ddp_strategy_parse(argc > 1 ? argv[1] : "overlap", &how.strategy));
    check(ls_group_from_env(&group));
    check(ls_params_new(&params));
    adopt(params, w, grad);
    check(ls_params_allocate(params, group, 0));
    check(ls_ddp_new(&ddp, group, params, &how));
    check(ls_optimizer_new(
        &sgd, params,
        &(ls_optimizer_spec){.sgd = &(ls_sgd_options){.lr = LR}}));

    train(group, ddp, sgd, w, grad);
    const double part = compare(w);
    const bool good = lr_is_small() && part <= 1 && same_on_all(group, w);
    printf("rank %d of %d, %s: error / largest rounding error = %.3f\n",
           ls_group_rank(group), ls_group_size(group),
           ls_ddp_strategy_name(how.strategy), part);

    ls_optimizer_free(&sgd);
    ls_ddp_free(&ddp);
    ls_params_free(&params); /* from here on *w is the program's alone */
    ls_group_close(&group);
    free(w);
    return good ? 0 : 1;
}
