/*
 * Whether a run has diverged though its numbers are finite: its loss has stayed
 * far above its first loss, and above that of guessing.
 */
#ifndef LS_TRAIN_DIVERGENCE_H
#define LS_TRAIN_DIVERGENCE_H

#include <stdbool.h>
#include <stdint.h>

/* Steps in a row, and how far above. */
enum { LSI_DIVERGENCE_STEPS = 50 };
#define LSI_DIVERGENCE_FACTOR 1.5

typedef struct lsi_divergence {
    double guess;  /* loss of equal probabilities: ln of the classes */
    bool begun;    /* there was a step */
    double first;  /* loss of the job's first step, once begun */
    int64_t above; /* steps in a row whose loss was above the limit */
} lsi_divergence;

/* The loss above which steps are counted. */
double lsi_divergence_limit(const lsi_divergence *divergence);

/* Adds the finite loss of a step; returns whether the run has diverged. */
bool lsi_divergence_add(lsi_divergence *divergence, double loss);

/* The run of this process ends because it has diverged; false until then. */
void lsi_divergence_set_ended(void);
bool lsi_divergence_ended(void);

#endif
