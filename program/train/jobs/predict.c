#include "train/jobs/predict.h"

#include "base/error.h"
#include "base/memory.h"

typedef struct prediction {
    const lsi_model *model;
    ls_tape *tape;
    lsi_images *images;
    lsi_predicted_fn emit;
    void *context;
    int64_t done; /* images predicted so far */
} prediction;

/* Emits each row; rows are stored one after the other. */
static ls_status emit_all(prediction *p, ls_tensor *rows)
{
    float *values = NULL;
    const int64_t *const shape = ls_tensor_shape(rows);
    LS_TRY(ls_tensor_map_f32(rows, &values));
    for (int64_t i = 0; i < shape[0]; i++)
        LS_TRY(p->emit(p->context, p->done++, values + i * shape[1], shape[1]));
    return LS_OK;
}

static ls_status predict_batch(prediction *p, const ls_batch *batch)
{
    const lsi_forward out = p->model->forward(p->model->self, p->tape, batch);
    ls_tensor *const rows = ls_softmax(p->tape, out.logits, 1);
    LS_TRY(ls_tape_status(p->tape));
    LS_TRY(emit_all(p, rows));
    ls_tape_reset(p->tape);
    return LS_OK;
}

static ls_status begin(const lsi_images *images, int64_t **out)
{
    const int64_t n = lsi_images_count(images);
    LS_TRY(lsi_alloc(out, (size_t)n * sizeof(int64_t), LS_MEMORY_DATA,
                     "the images to predict"));
    for (int64_t i = 0; i < n; i++)
        (*out)[i] = i;
    return LS_OK;
}

static ls_status predict_images(prediction *p)
{
    int64_t *order;
    LS_TRY(begin(p->images, &order));
    ls_status status =
        lsi_images_begin(p->images, 0, order, lsi_images_count(p->images));
    lsi_free(order);
    while (status == LS_OK) {
        ls_batch batch;
        LS_TRY(lsi_images_next(p->images, &batch));
        if (batch.count == 0)
            return LS_OK;
        status = predict_batch(p, &batch);
    }
    return status;
}

ls_status lsi_predict(const lsi_model *model, ls_tape *tape, lsi_images *images,
                      lsi_predicted_fn emit, void *context)
{
    prediction p = {.model = model,
                    .tape = tape,
                    .images = images,
                    .emit = emit,
                    .context = context};
    ls_tape_set_training(tape, false);
    const ls_status status = predict_images(&p);
    ls_tape_set_training(tape, true);
    return status;
}
