/* Attention to keys and values that are kept; see cached.h. */
#include "array/compute/attention/cached.h"

#include <math.h>

#include "array/compute/attention/attention.h"
#include "array/compute/threads.h"
#include "array/kernels/kernels.h"
#include "base/error.h"
#include "base/math.h"
#include "observe/spans.h"

typedef struct step_job {
    const lsi_attention_step *s;
    float *o, *scores;
    const float *q, *k, *v;
} step_job;

static void attend(void *context, size_t task, int worker)
{
    const step_job *j = context;
    const lsi_attention_step *s = j->s;
    const size_t row = task / s->heads, head = task % s->heads;
    const size_t kv_head = head / (s->heads / s->kv_heads);
    const size_t keys = (row * s->kv_heads + kv_head) * s->slots * s->d;
    lsi_kernels_get()->attend(j->o + task * s->d,
                              j->scores + (size_t)worker * s->slots,
                              j->q + task * s->d, j->k + keys, j->v + keys,
                              (size_t)s->keys[row], s->d, s->scale);
}

enum { ELEMENTS = 1 << 14 /* of keys; below that threads cost more */ };

static bool pays(const lsi_attention_step *s)
{
    int64_t keys = 0;
    for (size_t row = 0; row < s->rows; row++)
        keys += s->keys[row];
    return (size_t)keys * s->heads * s->d >= ELEMENTS;
}

ls_status lsi_attention_step_run(const lsi_attention_step *step, float *o,
                                 const float *q, const float *k, const float *v)
{
    void *scores = NULL;
    const size_t workers = (size_t)lsi_threads();
    LS_TRY(lsi_attention_workspace(workers * step->slots * sizeof(float),
                                   "attention scores", &scores));
    step_job j = {step, o, scores, q, k, v};
    if (pays(step))
        lsi_parallel_tasks(step->rows * step->heads, attend, &j);
    else
        for (size_t task = 0; task < step->rows * step->heads; task++)
            attend(&j, task, 0);
    return LS_OK;
}

/* ---- parts --------------------------------------------------------------- */

ls_status lsi_attention_from(const ls_attention_shape *shape, size_t first,
                             lsi_attention_part out, const float *q,
                             const float *k, const float *v)
{
    lsi_attention a;
    LS_TRY(lsi_attention_check(shape, &a));
    a.first = first;
    LSI_SPAN(OPERATION, "attention", 0, 0);
    return lsi_attention_flash_forward(&a, out.o, out.saved,
                                       (lsi_attention_inputs){q, k, v});
}

typedef struct join_job {
    lsi_attention_part part, other;
    size_t queries, heads, d;
} join_job;

static lsi_softmax_row *rows_of(const join_job *j, lsi_attention_part part)
{
    const lsi_attention a = {
        .batch = 1, .heads = j->heads, .queries = j->queries};
    return lsi_attention_softmax_rows(&a, part.saved);
}

static void join(void *context, size_t begin, size_t end)
{
    const join_job *j = context;
    const double ln2 = 0.69314718055994530942;
    for (size_t i = begin; i < end; i++) {
        const size_t query = i / j->heads, head = i % j->heads;
        const size_t row = head * j->queries + query;
        lsi_softmax_row *a = rows_of(j, j->part) + row;
        const lsi_softmax_row b = rows_of(j, j->other)[row];
        const float max = fmaxf(a->max, b.max);
        const double sum_a = lsi_exp(((double)a->max - max) * ln2) / a->scale;
        const double sum_b = lsi_exp(((double)b.max - max) * ln2) / b.scale;
        const float share = (float)(sum_a / (sum_a + sum_b));
        float *o = j->part.o + i * j->d;
        const float *more = j->other.o + i * j->d;
        for (size_t c = 0; c < j->d; c++)
            o[c] = o[c] * share + more[c] * (1.0F - share);
        *a = (lsi_softmax_row){max, (float)(1.0 / (sum_a + sum_b))};
    }
}

void lsi_attention_join(lsi_attention_part part, lsi_attention_part other,
                        size_t queries, size_t heads, size_t d)
{
    join_job j = {part, other, queries, heads, d};
    lsi_parallel_for(queries * heads, 64, join, &j);
}
