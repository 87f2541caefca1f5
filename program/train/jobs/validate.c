/*
 * Validation: scatter the indices, evaluate, add up. Chunks are equal and have
 * whole batches, which therefore do not depend on the number of ranks. So the
 * last chunks may end in places that stand for no sample; they are left out.
 */
#include "train/jobs/validate.h"

#include <assert.h>

#include "base/error.h"
#include "base/memory.h"
#include "comm/api/outcome.h"

enum { NO_SAMPLE = -1 };

typedef struct validation {
    ls_group *group;
    const lsi_model *model;
    ls_tape *tape;
    lsi_images *images;
    int64_t *all;   /* the samples of all ranks, on rank 0 */
    int64_t *chunk; /* those of this rank */
    int64_t chunk_size;
    lsi_totals *sums; /* of each batch; zeros for those of other ranks */
    int64_t batches;
    lsi_validated totals;
} validation;

static void number(int64_t *indices, int64_t n, int64_t count)
{
    for (int64_t i = 0; i < n; i++)
        indices[i] = i < count ? i : NO_SAMPLE;
}

static ls_status alloc_samples(int64_t **out, int64_t n)
{
    return lsi_alloc(out, (size_t)n * sizeof(int64_t), LS_MEMORY_DATA,
                     "the order of the validation samples");
}

static ls_status prepare(validation *v)
{
    const int64_t size = ls_group_size(v->group);
    const int64_t count = lsi_images_count(v->images);
    const int64_t batch = lsi_images_batch_size(v->images);
    v->batches = (count + batch - 1) / batch;
    v->chunk_size = (v->batches + size - 1) / size * batch;
    LS_TRY(alloc_samples(&v->chunk, v->chunk_size));
    LS_TRY(lsi_alloc_zeroed(&v->sums, (size_t)v->batches * sizeof(lsi_totals),
                            LS_MEMORY_DATA, "the losses of batches"));
    if (ls_group_rank(v->group) != 0)
        return LS_OK;
    LS_TRY(alloc_samples(&v->all, v->chunk_size * size));
    number(v->all, v->chunk_size * size, count);
    return LS_OK;
}

/* This rank's chunk. */
static ls_status evaluate(validation *v)
{
    int64_t n = 0;
    assert(v->chunk != NULL); /* or this rank would have refused */
    while (n < v->chunk_size && v->chunk[n] != NO_SAMPLE)
        n++;
    LS_TRY(lsi_images_begin(v->images, 0, v->chunk, n));
    int64_t at = n > 0 ? v->chunk[0] / lsi_images_batch_size(v->images) : 0;
    for (;; at++) {
        ls_batch batch;
        LS_TRY(lsi_images_next(v->images, &batch));
        if (batch.count == 0)
            return LS_OK;
        const lsi_forward out =
            v->model->forward(v->model->self, v->tape, &batch);
        LS_TRY(ls_tape_status(v->tape));
        LS_TRY(lsi_totals_add(&v->sums[at], &out));
        ls_tape_reset(v->tape);
    }
}

static lsi_totals sum_of(const validation *v)
{
    lsi_totals out = {0};
    for (int64_t i = 0; i < v->batches; i++) {
        out.loss += v->sums[i].loss;
        out.hits += v->sums[i].hits;
        out.weight += v->sums[i].weight;
    }
    return out;
}

/* All but one of the numbers that are added up for a batch are zeros. */
static ls_status add_up(validation *v)
{
    LS_TRY(ls_reduce(v->group, v->sums, v->sums,
                     (size_t)v->batches * sizeof(lsi_totals) / sizeof(double),
                     LS_F64, LS_REDUCE_SUM, 0));
    v->totals.all = sum_of(v);
    return LS_OK;
}

static ls_status run_validation(validation *v, bool *agreed)
{
    LS_TRY(lsi_share_outcome(v->group, prepare(v), agreed));
    LS_TRY(ls_scatter(v->group, v->all, v->chunk, (size_t)v->chunk_size, LS_I64,
                      0));
    LS_TRY(lsi_share_outcome(v->group, evaluate(v), agreed));
    v->totals.own = sum_of(v);
    return add_up(v);
}

ls_status lsi_validate(ls_group *group, const lsi_model *model, ls_tape *tape,
                       lsi_images *images, lsi_validated *out, bool *agreed)
{
    validation v = {
        .group = group, .model = model, .tape = tape, .images = images};
    ls_tape_set_training(tape, false);
    LS_TRY(ls_tape_set_samples(tape, NULL));
    const ls_status status = run_validation(&v, agreed);
    ls_tape_set_training(tape, true);
    lsi_free(v.all);
    lsi_free(v.chunk);
    lsi_free(v.sums);
    LS_TRY(status);
    *out = v.totals;
    return LS_OK;
}
