/* Attention to keys and values that are kept; see cached.h. */
#include "compute/attention/cached.h"

#include <math.h>

#include "base/error.h"
#include "compute/attention/attention.h"
#include "compute/threads.h"
#include "kernels/kernels.h"

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
                                   "the scores of queries", &scores));
    step_job j = {step, o, scores, q, k, v};
    if (pays(step))
        lsi_parallel_tasks(step->rows * step->heads, attend, &j);
    else
        for (size_t task = 0; task < step->rows * step->heads; task++)
            attend(&j, task, 0);
    return LS_OK;
}

/* ---- parts --------------------------------------------------------------- */

typedef struct join_job {
    lsi_attention_part part, other;
    size_t queries, heads, d;
} join_job;

static void join(void *context, size_t begin, size_t end)
{
    const join_job *j = context;
    for (size_t i = begin; i < end; i++) {
        const size_t query = i / j->heads, head = i % j->heads;
        float *l = &j->part.l[head * j->queries + query];
        const double a = (double)*l;
        const double b = (double)j->other.l[head * j->queries + query];
        const float share = (float)(1.0 / (1.0 + exp(b - a)));
        float *o = j->part.o + i * j->d;
        const float *more = j->other.o + i * j->d;
        for (size_t c = 0; c < j->d; c++)
            o[c] = o[c] * share + more[c] * (1.0F - share);
        *l = (float)(fmax(a, b) + log1p(exp(-fabs(a - b))));
    }
}

void lsi_attention_join(lsi_attention_part part, lsi_attention_part other,
                        size_t queries, size_t heads, size_t d)
{
    join_job j = {part, other, queries, heads, d};
    lsi_parallel_for(queries * heads, 64, join, &j);
}
