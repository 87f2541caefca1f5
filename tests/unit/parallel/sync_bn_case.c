#include "sync_bn_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "model/autograd/params.h"
#include "testing.h"
#include "unit/comm/ranks.h"

static const double eps = 1e-5, momentum = 0.1;

int bn_total_rows(const bn_case *test)
{
    int total = 0;
    for (int r = 0; r < test->ranks; r++)
        total += test->rows[r];
    return total;
}

static int first_row(const bn_case *test, int rank)
{
    int first = 0;
    for (int r = 0; r < rank; r++)
        first += test->rows[r];
    return first;
}

/* ---- the inputs ------------------------------------------------------------
 */

static float input(const bn_case *test, int rank, int row, int feature)
{
    const lsi_rng_key key = {42, (uint64_t)rank};
    const int i = row * test->features + feature;
    return (float)(test->offset + lsi_rng_normal(key, 0, (uint64_t)i));
}

static float loss_weight(const bn_case *test, int rank, int row, int feature)
{
    const lsi_rng_key key = {43, (uint64_t)rank};
    const int i = row * test->features + feature;
    if (test->loss == BN_WEIGHTED)
        return (float)(2 * lsi_rng_uniform(key, 0, (uint64_t)i) - 1);
    if (test->loss == BN_HALF_OF_EACH)
        return row < test->rows[rank] / 2 ? 1 : 0;
    return first_row(test, rank) + row < bn_total_rows(test) / 2 ? 1 : 0;
}

static float affine_weight(const bn_case *test, int feature)
{
    return test->affine ? 0.5F + (float)(feature % 3) * 0.25F : 1;
}

static float affine_bias(const bn_case *test, int feature)
{
    return test->affine ? (float)(feature % 5) * 0.125F - 0.25F : 0;
}

/* ---- what should come out ----------------------------------------------- */

/* Sums over all rows of one feature. */
typedef struct column {
    double mean, variance, inv_std, sum_dy, sum_dy_xhat;
} column;

#define FOR_ROWS(test, r, i)                                                   \
    for (int r = 0; r < (test)->ranks; r++)                                    \
        for (int i = 0; i < (test)->rows[r]; i++)

static column sum_column(const bn_case *test, int f)
{
    column c = {0};
    const int n = bn_total_rows(test);
    FOR_ROWS(test, r, i)
    c.mean += (double)input(test, r, i, f) / n;
    FOR_ROWS(test, r, i)
    c.variance += pow((double)input(test, r, i, f) - c.mean, 2) / n;
    c.inv_std = 1 / sqrt(c.variance + eps);
    FOR_ROWS(test, r, i)
    {
        const double dy = (double)loss_weight(test, r, i, f);
        c.sum_dy += dy;
        c.sum_dy_xhat +=
            dy * ((double)input(test, r, i, f) - c.mean) * c.inv_std;
    }
    return c;
}

static void expect_column(bn_run *run, int f)
{
    const bn_case *const test = run->test;
    bn_values *const out = &run->expected;
    const column c = sum_column(test, f);
    const int n = bn_total_rows(test);
    FOR_ROWS(test, r, i)
    {
        const int at = (first_row(test, r) + i) * test->features + f;
        const double xhat = ((double)input(test, r, i, f) - c.mean) * c.inv_std;
        const double dy = (double)loss_weight(test, r, i, f);
        const double w = (double)affine_weight(test, f);
        out->y[at] = xhat * w + (double)affine_bias(test, f);
        out->dx[at] =
            c.inv_std * w * (dy - c.sum_dy / n - xhat * c.sum_dy_xhat / n);
        out->dweight[r * test->features + f] += dy * xhat;
        out->dbias[r * test->features + f] += dy;
    }
    out->running_mean[f] = n > 0 ? momentum * c.mean : 0;
    out->running_var[f] =
        n > 1 ? 1 - momentum + momentum * c.variance * n / (n - 1) : 1;
}

static double *zeros(int n)
{
    double *const block = calloc((size_t)n + 1, sizeof(double));
    CHECK(block != NULL);
    return block;
}

static bn_values make_values(const bn_case *test)
{
    const int all = bn_total_rows(test) * test->features;
    const int of_ranks = test->ranks * test->features;
    return (bn_values){.y = zeros(all),
                       .dx = zeros(all),
                       .dweight = zeros(of_ranks),
                       .dbias = zeros(of_ranks),
                       .running_mean = zeros(test->features),
                       .running_var = zeros(test->features)};
}

static void free_values(bn_values *values)
{
    free(values->y);
    free(values->dx);
    free(values->dweight);
    free(values->dbias);
    free(values->running_mean);
    free(values->running_var);
}

void bn_prepare(bn_run *run, const bn_case *test)
{
    *run = (bn_run){
        .test = test, .expected = make_values(test), .got = make_values(test)};
    for (int f = 0; f < test->features; f++)
        expect_column(run, f);
}

void bn_release(bn_run *run)
{
    free_values(&run->expected);
    free_values(&run->got);
}

/* ---- what does ---------------------------------------------------------- */

typedef struct layer {
    ls_params *params;
    ls_sync_bn *bn;
    ls_tape *tape;
    ls_tensor *x, *w;
} layer;

static void fill(const bn_case *test, int rank, float *x, float *w)
{
    for (int i = 0; i < test->rows[rank]; i++)
        for (int f = 0; f < test->features; f++) {
            x[i * test->features + f] = input(test, rank, i, f);
            w[i * test->features + f] = loss_weight(test, rank, i, f);
        }
}

static void set_affine(const bn_case *test, const layer *l)
{
    if (!test->affine)
        return;
    float *const weight = tensor_data(ls_params_get(l->params, 0));
    float *const bias = tensor_data(ls_params_get(l->params, 1));
    for (int f = 0; f < test->features; f++) {
        weight[f] = affine_weight(test, f);
        bias[f] = affine_bias(test, f);
    }
}

static layer make_layer(const bn_case *test, ls_group *group)
{
    layer l = {0};
    const int rank = ls_group_rank(group);
    const int64_t shape[2] = {test->rows[rank], test->features};
    const ls_sync_bn_options options = {
        .kind = test->kind, .no_affine = !test->affine, .momentum = 0.1};
    CHECK_OK(ls_params_new(&l.params));
    if (test->slices > 0)
        CHECK_OK(ls_params_set_slices(l.params, test->slices));
    CHECK_OK(
        ls_sync_bn_new(&l.bn, group, l.params, "bn", test->features, &options));
    CHECK_OK(ls_params_allocate(l.params, group, 0));
    CHECK_OK(ls_tape_new(&l.tape));
    CHECK_OK(ls_tensor_new(&l.x, LS_F32, 2, shape));
    CHECK_OK(ls_tensor_new(&l.w, LS_F32, 2, shape));
    fill(test, rank, tensor_data(l.x), tensor_data(l.w));
    set_affine(test, &l);
    return l;
}

static void free_layer(layer *l)
{
    ls_tensor_free(&l->x);
    ls_tensor_free(&l->w);
    ls_tape_free(&l->tape);
    ls_sync_bn_free(&l->bn);
    ls_params_free(&l->params);
}

/* The loss as the cases of the report have it: a sum over rows of y. */
static ls_tensor *loss_of(const bn_case *test, const layer *l, int rank,
                          ls_tensor *y)
{
    if (test->loss == BN_WEIGHTED)
        return ls_sum(l->tape, ls_mul(l->tape, y, l->w));
    int rows = test->rows[rank] / 2;
    if (test->loss == BN_HALF_OF_TOTAL) {
        rows = bn_total_rows(test) / 2 - first_row(test, rank);
        rows = rows < 0 ? 0 : rows;
        rows = rows > test->rows[rank] ? test->rows[rank] : rows;
    }
    return ls_sum(l->tape, ls_narrow(l->tape, y, 0, 0, rows));
}

static uint64_t collectives(const ls_group *group)
{
    ls_group_counters counters;
    ls_group_get_counters(group, &counters);
    return counters.collectives;
}

static void widen(double *out, const ls_tensor *tensor)
{
    const float *const data = tensor_data(tensor);
    for (int64_t i = 0; i < ls_tensor_count(tensor); i++)
        out[i] = (double)data[i];
}

static void take_results(bn_run *run, const layer *l, int rank,
                         const ls_tensor *y)
{
    const bn_case *const test = run->test;
    const int at = first_row(test, rank) * test->features;
    const ls_tensor *const mean = ls_params_buffer(l->params, 0);
    const ls_tensor *const variance = ls_params_buffer(l->params, 1);
    widen(run->got.y + at, y);
    widen(run->got.dx + at, ls_tape_grad(l->tape, l->x));
    ls_params_finish_grad(l->params);
    if (test->affine) {
        widen(run->got.dweight + rank * test->features,
              ls_grad(ls_params_get(l->params, 0)));
        widen(run->got.dbias + rank * test->features,
              ls_grad(ls_params_get(l->params, 1)));
    }
    if (rank == 0) {
        widen(run->got.running_mean, mean);
        widen(run->got.running_var, variance);
    }
    memcpy(&run->running[rank][0], tensor_data(mean), sizeof(float));
    memcpy(&run->running[rank][1], tensor_data(variance), sizeof(float));
}

void bn_play(ls_group *group, void *opaque)
{
    bn_run *const run = opaque;
    const int rank = ls_group_rank(group);
    layer l = make_layer(run->test, group);
    ls_params_zero_grad(l.params);
    CHECK_OK(ls_tape_watch(l.tape, l.x));
    const uint64_t before = collectives(group);
    ls_tensor *const y = ls_sync_bn_forward(l.bn, l.tape, l.x, NULL);
    const uint64_t between = collectives(group);
    ls_tensor *const loss = loss_of(run->test, &l, rank, y);
    CHECK_OK(ls_backward(l.tape, loss, 1.0));
    run->forward_collectives[rank] = between - before;
    run->backward_collectives[rank] = collectives(group) - between;
    take_results(run, &l, rank, y);
    free_layer(&l);
}

/* ---- comparing ---------------------------------------------------------- */

static double worst_of(const double *a, const double *b, int n)
{
    double worst = 0;
    for (int i = 0; i < n; i++) {
        const double difference = fabs(a[i] - b[i]);
        worst = difference > worst || isnan(difference) ? difference : worst;
    }
    return worst;
}

double bn_worst(const bn_run *run, unsigned ranks)
{
    const bn_case *const test = run->test;
    const bn_values *const a = &run->expected, *const b = &run->got;
    double worst = 0;
    for (int r = 0; r < test->ranks; r++) {
        if (!(ranks >> r & 1))
            continue;
        const int at = first_row(test, r) * test->features;
        const int n = test->rows[r] * test->features;
        const int of_rank = r * test->features;
        worst = fmax(worst, worst_of(a->y + at, b->y + at, n));
        worst = fmax(worst, worst_of(a->dx + at, b->dx + at, n));
        if (!test->affine)
            continue;
        worst = fmax(worst, worst_of(a->dweight + of_rank, b->dweight + of_rank,
                                     test->features));
        worst = fmax(worst, worst_of(a->dbias + of_rank, b->dbias + of_rank,
                                     test->features));
    }
    return worst;
}

double bn_bound(const bn_case *test)
{
    const double u = 0x1p-24;
    int most = 1;
    for (int r = 0; r < test->ranks; r++)
        most = test->rows[r] > most ? test->rows[r] : most;
    /* Magnitudes: |xhat| < 6, |dy| <= 1, inv_std < 4 with two rows or more. */
    return (most + 16) * u * 24 + 4 * u * test->offset;
}
