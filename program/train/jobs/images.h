/*
 * Batches of a dataset of images, for one rank.
 */
#ifndef LS_TRAIN_JOBS_IMAGES_H
#define LS_TRAIN_JOBS_IMAGES_H

#include "model/nets/model.h"

typedef struct lsi_images lsi_images;

typedef struct lsi_images_options {
    int64_t count; /* number of samples to use; 0: all */
    bool spread;   /* use samples evenly from all, not the first */
    int64_t batch_size;
    int prefetch; /* batches read ahead; 0: 2 if several threads read */
    int threads;  /* threads that read ahead; 0: 1 */
    uint64_t seed;
    int rank, size;
    int slices; /* of a rank's batch (model/autograd/params.h); 0: 1 */
} lsi_images_options;

/* The dataset must outlive it. *out is the caller's. */
ls_status lsi_images_new(lsi_images **out, const ls_dataset *dataset,
                         const lsi_images_options *options);
void lsi_images_free(lsi_images **images);

/* Samples that are used, of all ranks. */
int64_t lsi_images_count(const lsi_images *images);
int64_t lsi_images_batch_size(const lsi_images *images);

/* Batches of an epoch, the same number on every rank. */
int64_t lsi_images_steps(const lsi_images *images);

/*
 * The source of training batches, shuffled for each epoch. Sample i of a batch
 * is in slice i mod slices. So the sample at a place of the global batch is in
 * the same class, place mod (ranks x slices), on any number of ranks.
 */
lsi_source lsi_images_source(lsi_images *images);

/* Begins a pass over given samples instead, in this order. */
ls_status lsi_images_begin(lsi_images *images, int64_t epoch,
                           const int64_t *indices, int64_t n);

/* The next batch; an empty one of the right shape when there are no more. */
ls_status lsi_images_next(lsi_images *images, ls_batch *batch);

/* Seconds for which the pass has waited for data so far. */
double lsi_images_waited(const lsi_images *images);

#endif
