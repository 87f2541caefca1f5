/*
 * A small GPT-2 model as published files hold it, and what it computes: loops
 * in double precision.
 */
#ifndef LS_TEST_NN_GPT2_MODEL_H
#define LS_TEST_NN_GPT2_MODEL_H

#include "lockstep/transformer.h"
#include "testing.h"

enum {
    VOCABULARY = 13,
    CONTEXT = 7,
    LENGTH = 6,
    LAYERS = 2,
    PER_LAYER = 14,
    MAX_TENSORS = 5 + PER_LAYER * LAYERS,
    NAME_BYTES = 64,
};

/* The properties that a file does not show, and its width. */
typedef struct form {
    int d, heads;
    double eps;
    bool untied;
} form;

/* All that a file holds; the head is the last. */
typedef struct published {
    form form;
    char names[MAX_TENSORS][NAME_BYTES];
    ls_named_tensor items[MAX_TENSORS];
    size_t n;
    const char *prefix;
    char folder[40]; /* separate, as a config.json in it would be read */
    char path[64];
} published;

/* Random weights; the head is a copy of the embedding, unless it is untied. */
void published_make(published *p, const char *prefix, form f);
void published_discard(published *p);

void published_save(const published *p);

/* The tensor that the file has under this name behind the prefix. */
ls_named_tensor *published_find(published *p, const char *name);

/* The token at a place, and all logits [LENGTH][VOCABULARY]. */
int token_at(int t);
void published_logits(published *p, double *logits);

#endif
