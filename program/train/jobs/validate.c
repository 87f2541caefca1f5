/*
 * Validation: scatter the indices, evaluate, reduce. Chunks are equal, so the
 * last ones may end in places that stand for no sample; they are left out.
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
    v->chunk_size = (count + size - 1) / size;
    LS_TRY(alloc_samples(&v->chunk, v->chunk_size));
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
    for (;;) {
        ls_batch batch;
        LS_TRY(lsi_images_next(v->images, &batch));
        if (batch.count == 0)
            return LS_OK;
        const lsi_forward out =
            v->model->forward(v->model->self, v->tape, &batch);
        LS_TRY(ls_tape_status(v->tape));
        LS_TRY(lsi_totals_add(&v->totals.own, &out));
        ls_tape_reset(v->tape);
    }
}

static ls_status run_validation(validation *v, bool *agreed)
{
    LS_TRY(lsi_share_outcome(v->group, prepare(v), agreed));
    LS_TRY(ls_scatter(v->group, v->all, v->chunk, (size_t)v->chunk_size, LS_I64,
                      0));
    LS_TRY(lsi_share_outcome(v->group, evaluate(v), agreed));
    v->totals.all = v->totals.own;
    return lsi_totals_reduce(&v->totals.all, v->group);
}

ls_status lsi_validate(ls_group *group, const lsi_model *model, ls_tape *tape,
                       lsi_images *images, lsi_validated *out, bool *agreed)
{
    validation v = {
        .group = group, .model = model, .tape = tape, .images = images};
    ls_tape_set_training(tape, false);
    const ls_status status = run_validation(&v, agreed);
    ls_tape_set_training(tape, true);
    lsi_free(v.all);
    lsi_free(v.chunk);
    LS_TRY(status);
    *out = v.totals;
    return LS_OK;
}
