/* One problem of the attention benches; see attention_case.h. */
#include "cli/bench/attention_case.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "array/compute/attention/attention.h"
#include "array/compute/plan_cache.h"
#include "array/compute/threads.h"
#include "base/error.h"
#include "base/half.h"
#include "base/memory.h"
#include "base/rng.h"

enum { Q, K, V, DOUT, O, DQ, DK, DV };

/* Allowed difference between a row and the row in double, by its norm. */
static double allowed(ls_dtype dtype)
{
    return dtype == LS_F32 ? 1e-4 : 2e-2;
}

/* ---- making ------------------------------------------------------------- */

static int64_t count_of(const lsi_attention_case *c)
{
    return c->shape.batch * c->shape.queries * c->shape.d;
}

typedef struct filling {
    void *to;
    ls_dtype dtype;
    uint64_t stream;
} filling;

static void fill_range(void *context, size_t begin, size_t end)
{
    const filling *f = context;
    const lsi_rng_key key = {42, f->stream};
    for (size_t i = begin; i < end; i++) {
        const float x = (float)lsi_rng_normal(key, 0, i);
        if (f->dtype == LS_BF16)
            ((uint16_t *)f->to)[i] = lsi_bf16_from_f32(x);
        else
            ((float *)f->to)[i] = x;
    }
}

/* Least bytes of both passes beyond inputs and outputs. */
static ls_status count_needed(lsi_attention_case *c, size_t *saved)
{
    lsi_attention a;
    LS_TRY(ls_attention_saved_bytes(&c->shape, c->method, saved));
    LS_TRY(lsi_attention_check(&c->shape, &a));
    c->needed_bytes = *saved;
    if (c->method == LS_ATTENTION_NAIVE)
        c->needed_bytes += lsi_naive_backward_bytes(&a);
    return LS_OK;
}

/* Checks that `bytes` of memory are available, without allocating them. */
static ls_status check_fits(size_t bytes)
{
    return lsi_memory_try(bytes, LS_MEMORY_ACTIVATIONS,
                          "forward and backward passes of attention");
}

ls_status lsi_attention_case_new(lsi_attention_case *c)
{
    const size_t n = (size_t)count_of(c);
    const size_t bytes = n * ls_dtype_size(c->shape.dtype);
    size_t saved;
    ls_memory_stats memory;
    lsi_plan_cache_drop();
    ls_memory_total(&memory);
    c->idle_bytes = memory.live_bytes;
    LS_TRY(count_needed(c, &saved));
    LS_TRY(check_fits(c->needed_bytes + LSI_ATTENTION_ARRAYS * bytes));
    for (int i = 0; i < LSI_ATTENTION_ARRAYS; i++) {
        LS_TRY(lsi_alloc(&c->arrays[i], bytes, LS_MEMORY_OTHER,
                         "inputs and outputs of attention"));
        filling f = {c->arrays[i], c->shape.dtype, (uint64_t)i};
        if (i <= DOUT)
            lsi_parallel_for(n, 4096, fill_range, &f);
    }
    ls_memory_reset_peak();
    ls_memory_total(&memory);
    c->input_bytes = memory.live_bytes;
    return lsi_alloc(&c->saved, saved, LS_MEMORY_ACTIVATIONS,
                     "values that attention saves for backward");
}

void lsi_attention_case_free(lsi_attention_case *c)
{
    for (int i = 0; i < LSI_ATTENTION_ARRAYS; i++) {
        lsi_free(c->arrays[i]);
        c->arrays[i] = NULL;
    }
    lsi_free(c->saved);
    c->saved = NULL;
}

/* ---- running ------------------------------------------------------------ */

ls_status lsi_attention_case_forward(lsi_attention_case *c)
{
    ls_memory_stats memory;
    LS_TRY(ls_attention_forward(&c->shape, c->method, c->arrays[O], c->saved,
                                c->arrays[Q], c->arrays[K], c->arrays[V]));
    if (c->live_bytes != 0)
        return LS_OK;
    ls_memory_total(&memory);
    c->live_bytes = memory.live_bytes - c->idle_bytes;
    return LS_OK;
}

ls_status lsi_attention_case_backward(lsi_attention_case *c)
{
    return ls_attention_backward(&c->shape, c->method, c->arrays[DQ],
                                 c->arrays[DK], c->arrays[DV], c->arrays[DOUT],
                                 c->arrays[Q], c->arrays[K], c->arrays[V],
                                 c->arrays[O], c->saved);
}

/* ---- checking ----------------------------------------------------------- */

/* Element `at` of a row of an array, as a double. */
static double value(const lsi_attention_case *c, int array, int64_t row,
                    int64_t at)
{
    const int64_t i = row * c->shape.d + at;
    if (c->shape.dtype == LS_BF16)
        return (double)lsi_bf16_to_f32(((const uint16_t *)c->arrays[array])[i]);
    return (double)((const float *)c->arrays[array])[i];
}

static double dot(const lsi_attention_case *c, int a, int64_t a_row, int b,
                  int64_t b_row)
{
    double sum = 0;
    for (int64_t i = 0; i < c->shape.d; i++)
        sum += value(c, a, a_row, i) * value(c, b, b_row, i);
    return sum;
}

/* Whether row `row` of an array is the sum of weights * rows of b. */
static bool row_is(const lsi_attention_case *c, int array, int64_t row,
                   const double *weights, int b, int64_t n)
{
    double error = 0, norm = 0;
    const int64_t first = row / c->shape.queries * c->shape.keys;
    for (int64_t i = 0; i < c->shape.d; i++) {
        double want = 0;
        for (int64_t j = 0; j < n; j++)
            want += weights[j] * value(c, b, first + j, i);
        const double off = value(c, array, row, i) - want;
        error += off * off;
        norm += want * want;
    }
    return sqrt(error) <= allowed(c->shape.dtype) * fmax(sqrt(norm), 0.1);
}

/* Softmax of a row of scores, in place. */
static void soften(double *p, int64_t n)
{
    double most = p[0], sum = 0;
    for (int64_t j = 1; j < n; j++)
        most = fmax(most, p[j]);
    for (int64_t j = 0; j < n; j++) {
        p[j] = exp(p[j] - most);
        sum += p[j];
    }
    for (int64_t j = 0; j < n; j++)
        p[j] /= sum;
}

/* `memory` has room for a row of scores. */
static bool check_row(const lsi_attention_case *c, int64_t row, double *memory)
{
    const int64_t query = row % c->shape.queries;
    const int64_t first = row - query;
    const int64_t keys = c->shape.causal ? query + 1 : c->shape.keys;
    const double scale = 1 / sqrt((double)c->shape.d);
    for (int64_t j = 0; j < keys; j++)
        memory[j] = scale * dot(c, Q, row, K, first + j);
    assert(keys >= 1);
    soften(memory, keys);
    if (!row_is(c, O, row, memory, V, keys))
        return false;
    double mean = 0;
    for (int64_t j = 0; j < keys; j++)
        mean += memory[j] * dot(c, DOUT, row, V, first + j);
    for (int64_t j = 0; j < keys; j++)
        memory[j] *= scale * (dot(c, DOUT, row, V, first + j) - mean);
    return row_is(c, DQ, row, memory, K, keys);
}

/* The weights with which queries enter a key's gradients. */
static bool check_key(const lsi_attention_case *c, int64_t row, double *memory)
{
    const int64_t n = c->shape.queries, key = row % n, first = row - key;
    const int64_t from = c->shape.causal ? key : 0;
    const double scale = 1 / sqrt((double)c->shape.d);
    const float *const logs = c->saved;
    for (int64_t i = 0; i < n; i++)
        memory[i] = i < from ? 0
                             : exp(scale * dot(c, Q, first + i, K, row) -
                                   (double)logs[first + i]);
    if (!row_is(c, DV, row, memory, DOUT, n))
        return false;
    for (int64_t i = from; i < n; i++)
        memory[i] *= scale * (dot(c, DOUT, first + i, V, row) -
                              dot(c, DOUT, first + i, O, first + i));
    return row_is(c, DK, row, memory, Q, n);
}

bool lsi_attention_case_is_right(const lsi_attention_case *c)
{
    const int64_t rows = c->shape.batch * c->shape.queries;
    const int64_t some[] = {0, rows / 2, rows - 1};
    double *memory = malloc((size_t)c->shape.keys * sizeof(double));
    bool right = memory != NULL;
    for (int i = 0; right && i < 3; i++)
        right = check_row(c, some[i], memory) && check_key(c, some[i], memory);
    free(memory);
    return right;
}
