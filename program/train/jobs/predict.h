/*
 * The probabilities of classes that a trained network gives images.
 */
#ifndef LS_TRAIN_JOBS_PREDICT_H
#define LS_TRAIN_JOBS_PREDICT_H

#include "train/jobs/images.h"

/* Those of one image; an error ends the prediction. */
typedef ls_status (*lsi_predicted_fn)(void *context, int64_t image,
                                      const float *probabilities,
                                      int64_t classes);

/* Predicts all images, in order. The tape is left training. Local. */
ls_status lsi_predict(const lsi_model *model, ls_tape *tape, lsi_images *images,
                      lsi_predicted_fn emit, void *context);

#endif
