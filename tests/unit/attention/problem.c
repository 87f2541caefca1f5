/*
 * Attention in float64 loops, and comparing with it.
 */
#include "problem.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/half.h"
#include "base/rng.h"
#include "testing.h"

static bool is_query_side(problem_array array)
{
    return array == ARRAY_Q || array == ARRAY_DOUT || array == ARRAY_O ||
           array == ARRAY_DQ;
}

static ls_attention_strides strides_of(const problem *p, problem_array array)
{
    const ls_attention_shape *s = &p->shape;
    ls_attention_strides t = s->kv_strides;
    if (array == ARRAY_Q || array == ARRAY_DQ)
        t = s->q_strides;
    if (array == ARRAY_O || array == ARRAY_DOUT)
        t = s->o_strides;
    if (t.row != 0)
        return t;
    const int64_t rows = is_query_side(array) ? s->queries : s->keys;
    const int64_t heads = is_query_side(array) ? s->heads : s->kv_heads;
    return (ls_attention_strides){heads * rows * s->d, rows * s->d, s->d};
}

size_t problem_at(const problem *p, problem_array array, int64_t batch,
                  int64_t head, int64_t row, int64_t c)
{
    const ls_attention_strides t = strides_of(p, array);
    return (size_t)(batch * t.batch + head * t.head + row * t.row + c);
}

static size_t element_size(const problem *p)
{
    return p->shape.dtype == LS_BF16 ? sizeof(uint16_t) : sizeof(float);
}

double problem_value(const problem *p, problem_array array, size_t i)
{
    if (p->shape.dtype == LS_BF16)
        return (double)lsi_bf16_to_f32(((const uint16_t *)p->data[array])[i]);
    return (double)((const float *)p->data[array])[i];
}

static void put(problem *p, problem_array array, size_t i, float value)
{
    if (p->shape.dtype == LS_BF16)
        ((uint16_t *)p->data[array])[i] = lsi_bf16_from_f32(value);
    else
        ((float *)p->data[array])[i] = value;
}

/* malloc, so that a sanitizer sees every access past the end. */
static void *exact_memory(size_t bytes)
{
    void *block = calloc(bytes == 0 ? 1 : bytes, 1);
    assert_non_null(block);
    return block;
}

static size_t count_of(const problem *p, problem_array array)
{
    const ls_attention_shape *s = &p->shape;
    const int64_t rows = is_query_side(array) ? s->queries : s->keys;
    const int64_t heads = is_query_side(array) ? s->heads : s->kv_heads;
    if (s->batch == 0 || heads == 0 || rows == 0)
        return 0;
    return problem_at(p, array, s->batch - 1, heads - 1, rows - 1, s->d - 1) +
           1;
}

void problem_new(problem *p, ls_attention_shape shape, double size,
                 uint64_t seed)
{
    if (shape.kv_heads == 0)
        shape.kv_heads = shape.heads;
    *p = (problem){.shape = shape};
    for (problem_array array = 0; array < ARRAY_COUNT; array++) {
        const size_t n = count_of(p, array);
        p->counts[array] = n;
        p->data[array] = exact_memory(n * element_size(p));
        p->exact[array] = exact_memory(n * sizeof(double));
        if (array > ARRAY_DOUT)
            continue;
        for (size_t i = 0; i < n; i++) {
            const double x = lsi_rng_normal((lsi_rng_key){seed, array}, 0, i);
            put(p, array, i, (float)(array <= ARRAY_K ? x * size : x));
            p->exact[array][i] = problem_value(p, array, i);
        }
    }
    const size_t rows = (size_t)(shape.batch * shape.heads * shape.queries);
    p->l = exact_memory(rows * sizeof(double));
}

void problem_free(problem *p)
{
    for (problem_array array = 0; array < ARRAY_COUNT; array++) {
        free(p->data[array]);
        free(p->exact[array]);
    }
    free(p->saved);
    free(p->l);
}

void problem_run(problem *p, ls_attention_method method)
{
    size_t bytes;
    void **x = p->data;
    assert_ok(ls_attention_saved_bytes(&p->shape, method, &bytes));
    free(p->saved);
    p->saved = exact_memory(bytes);
    assert_ok(ls_attention_forward(&p->shape, method, x[ARRAY_O], p->saved,
                                   x[ARRAY_Q], x[ARRAY_K], x[ARRAY_V]));
    assert_ok(ls_attention_backward(
        &p->shape, method, x[ARRAY_DQ], x[ARRAY_DK], x[ARRAY_DV], x[ARRAY_DOUT],
        x[ARRAY_Q], x[ARRAY_K], x[ARRAY_V], x[ARRAY_O], p->saved));
}

/* ---- float64 ------------------------------------------------------------ */

/* One row of queries: its place, and the keys that it sees. */
typedef struct row {
    int64_t batch, head, kv, query, keys;
    double scale;
} row;

static double dot(const problem *p, problem_array a, problem_array b, row r,
                  int64_t key)
{
    const double *x =
        p->exact[a] + problem_at(p, a, r.batch, r.head, r.query, 0);
    const double *y = p->exact[b] + problem_at(p, b, r.batch, r.kv, key, 0);
    double sum = 0;
    for (int64_t c = 0; c < p->shape.d; c++)
        sum += x[c] * y[c];
    return sum;
}

/* to += factor * from, rows of d. */
static void add_row(const problem *p, double *to, const double *from,
                    double factor)
{
    for (int64_t c = 0; c < p->shape.d; c++)
        to[c] += factor * from[c];
}

/* s becomes the row's probabilities; returns L. */
static double softmax(double *s, int64_t n)
{
    double max = s[0], sum = 0;
    for (int64_t j = 1; j < n; j++)
        max = fmax(max, s[j]);
    for (int64_t j = 0; j < n; j++) {
        s[j] = exp(s[j] - max);
        sum += s[j];
    }
    for (int64_t j = 0; j < n; j++)
        s[j] /= sum;
    return max + log(sum);
}

static void solve_gradients(problem *p, row r, const double *prob, double *dp)
{
    const size_t q = problem_at(p, ARRAY_Q, r.batch, r.head, r.query, 0);
    const size_t o = problem_at(p, ARRAY_O, r.batch, r.head, r.query, 0);
    double mean = 0;
    for (int64_t j = 0; j < r.keys; j++) {
        dp[j] = dot(p, ARRAY_DOUT, ARRAY_V, r, j);
        mean += prob[j] * dp[j];
    }
    for (int64_t j = 0; j < r.keys; j++) {
        const size_t k = problem_at(p, ARRAY_K, r.batch, r.kv, j, 0);
        const double ds = prob[j] * (dp[j] - mean) * r.scale;
        add_row(p, p->exact[ARRAY_DV] + k, p->exact[ARRAY_DOUT] + o, prob[j]);
        add_row(p, p->exact[ARRAY_DK] + k, p->exact[ARRAY_Q] + q, ds);
        add_row(p, p->exact[ARRAY_DQ] + q, p->exact[ARRAY_K] + k, ds);
    }
}

static void solve_row(problem *p, row r, double *scratch)
{
    const ls_attention_shape *s = &p->shape;
    const size_t at =
        (size_t)((r.batch * s->heads + r.head) * s->queries + r.query);
    const size_t o = problem_at(p, ARRAY_O, r.batch, r.head, r.query, 0);
    p->l[at] = -(double)FLT_MAX;
    if (r.keys == 0)
        return;
    for (int64_t j = 0; j < r.keys; j++)
        scratch[j] = r.scale * dot(p, ARRAY_Q, ARRAY_K, r, j);
    p->l[at] = softmax(scratch, r.keys);
    for (int64_t j = 0; j < r.keys; j++)
        add_row(p, p->exact[ARRAY_O] + o,
                p->exact[ARRAY_V] + problem_at(p, ARRAY_V, r.batch, r.kv, j, 0),
                scratch[j]);
    solve_gradients(p, r, scratch, scratch + s->keys);
}

void problem_solve(problem *p)
{
    const ls_attention_shape *s = &p->shape;
    double *scratch = exact_memory(2 * (size_t)s->keys * sizeof(double));
    for (problem_array array = ARRAY_O; array < ARRAY_COUNT; array++)
        memset(p->exact[array], 0, p->counts[array] * sizeof(double));
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->heads; h++)
            for (int64_t i = 0; i < s->queries; i++) {
                row r = {b,
                         h,
                         h / (s->heads / s->kv_heads),
                         i,
                         s->keys,
                         s->scale == 0 ? 1 / sqrt((double)s->d) : s->scale};
                if (s->key_counts != NULL)
                    r.keys = s->key_counts[b];
                if (s->causal && i + 1 < r.keys)
                    r.keys = i + 1;
                solve_row(p, r, scratch);
            }
    free(scratch);
}

/* ---- comparing ---------------------------------------------------------- */

static void check_close(const char *name, double got, double want,
                        double allowed, size_t i)
{
    if (!isfinite(got) || fabs(got - want) > allowed)
        fail_msg("%s[%zu] is %.9g instead of %.9g, allowed difference %.3g",
                 name, i, got, want, allowed);
}

static double largest(const double *x, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs(x[i]));
    return most;
}

void problem_check(const problem *p, double bound)
{
    static const char *const names[] = {
#define X(name) #name,
        PROBLEM_ARRAYS(X)
#undef X
    };
    for (problem_array array = ARRAY_O; array < ARRAY_COUNT; array++) {
        /* Gradients through a single key are 0 by cancellation of numbers of
         * order one. */
        const double allowed =
            bound * fmax(largest(p->exact[array], p->counts[array]), 0.1);
        for (size_t i = 0; i < p->counts[array]; i++)
            check_close(names[array], problem_value(p, array, i),
                        p->exact[array][i], allowed, i);
    }
    const ls_attention_shape *s = &p->shape;
    const size_t rows = (size_t)(s->batch * s->heads * s->queries);
    for (size_t i = 0; i < rows; i++)
        check_close("L", (double)p->saved[i], p->l[i],
                    bound * fmax(fabs(p->l[i]), 1), i);
}
