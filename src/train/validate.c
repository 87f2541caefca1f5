/*
 * Validation: scatter the indices, evaluate, reduce. Chunks are equal, so the
 * last ones may end in places that stand for no sample; they are left out.
 */
#include "train/validate.h"

#include "base/error.h"
#include "base/memory.h"

enum { NO_SAMPLE = -1 };

static void number(int64_t *indices, int64_t n, int64_t count)
{
    for (int64_t i = 0; i < n; i++)
        indices[i] = i < count ? i : NO_SAMPLE;
}

/* This rank's chunk of 0..count-1; *n gets how many of it are samples. */
static ls_status deal(ls_group *group, int64_t count, int64_t *chunk,
                      int64_t chunk_size, int64_t *n)
{
    const int size = ls_group_size(group);
    void *all = NULL;
    if (ls_group_rank(group) == 0) {
        LS_TRY(lsi_alloc(&all, (size_t)(chunk_size * size) * sizeof(int64_t),
                         LS_MEMORY_DATA, "the samples of a validation"));
        number(all, chunk_size * size, count);
    }
    const ls_status status =
        ls_scatter(group, all, chunk, (size_t)chunk_size, LS_I64, 0);
    lsi_free(all);
    *n = 0;
    while (status == LS_OK && *n < chunk_size && chunk[*n] != NO_SAMPLE)
        (*n)++;
    return status;
}

static ls_status evaluate(const lsi_model *model, ls_tape *tape,
                          lsi_images *images, lsi_totals *totals)
{
    for (;;) {
        ls_batch batch;
        LS_TRY(lsi_images_next(images, &batch));
        if (batch.count == 0)
            return LS_OK;
        const lsi_forward out = model->forward(model->self, tape, &batch);
        LS_TRY(ls_tape_status(tape));
        LS_TRY(lsi_totals_add(totals, &out));
        ls_tape_reset(tape);
    }
}

static ls_status evaluate_share(ls_group *group, const lsi_model *model,
                                ls_tape *tape, lsi_images *images,
                                int64_t count, lsi_totals *totals)
{
    const int64_t size = ls_group_size(group);
    const int64_t chunk_size = (count + size - 1) / size;
    int64_t n = 0;
    void *chunk;
    LS_TRY(lsi_alloc(&chunk, (size_t)chunk_size * sizeof(int64_t),
                     LS_MEMORY_DATA, "the samples of a validation"));
    ls_status status = deal(group, count, chunk, chunk_size, &n);
    if (status == LS_OK)
        status = lsi_images_begin(images, chunk, n);
    lsi_free(chunk);
    return status == LS_OK ? evaluate(model, tape, images, totals) : status;
}

ls_status lsi_validate(ls_group *group, const lsi_model *model, ls_tape *tape,
                       lsi_images *images, int64_t count, lsi_totals *totals)
{
    lsi_totals sums = {0};
    ls_tape_set_training(tape, false);
    const ls_status status =
        evaluate_share(group, model, tape, images, count, &sums);
    ls_tape_set_training(tape, true);
    LS_TRY(status);
    LS_TRY(lsi_totals_reduce(&sums, group));
    *totals = sums;
    return LS_OK;
}
