/*
 * Drawing tokens from a language model, one after another, for one or more
 * prompts.
 */
#ifndef LS_TRAIN_JOBS_GENERATE_H
#define LS_TRAIN_JOBS_GENERATE_H

#include "lockstep/group.h"
#include "lockstep/transformer.h"

typedef struct lsi_sampling {
    double temperature;    /* of the logits; 0: always the likeliest token */
    int64_t top_k;         /* only the k likeliest tokens; 0: all */
    uint64_t seed, prompt; /* each prompt draws different numbers */
} lsi_sampling;

/*
 * One token from logits, none of which is a NaN; `step` numbers the draws. With
 * a temperature, those that are not among the top_k become -infinity; of equals
 * the first are. Local and deterministic.
 */
int64_t lsi_sample(float *logits, int64_t vocabulary,
                   const lsi_sampling *sampling, uint64_t step);

typedef struct lsi_prompt {
    const int64_t *tokens;
    int64_t length; /* at least 1 */
} lsi_prompt;

typedef struct lsi_generation {
    const lsi_prompt *prompts;
    int64_t n_prompts; /* may be 0 with a group */
    int64_t first;     /* number of the first of them among all ranks' */
    int64_t tokens;    /* to draw, of each */
    int64_t limit;     /* draw tokens below it; 0 or too large: any */
    bool has_end;      /* the token `end` ends a text */
    int64_t end;
    lsi_sampling sampling;
    /*
     * Receives each token as soon as it is drawn, but not the one that ends a
     * text. An error ends the drawing.
     */
    ls_status (*emit)(void *context, int64_t prompt, int64_t token);
    void *context;
    /*
     * Ranks with other prompts, or NULL. They draw their n-th tokens together,
     * so that no rank waits for another longer than for a token. *agreed as in
     * comm/api/outcome.h.
     */
    ls_group *group;
    bool *agreed;
} lsi_generation;

/*
 * The model sees the last tokens of a prompt, as many as its context holds, and
 * the tokens that follow as ls_transformer_cache does. The tokens drawn for a
 * prompt depend on its number among the prompts, but not on the other prompts.
 * Collective with a group.
 */
ls_status lsi_generate(const ls_transformer *model,
                       const lsi_generation *generation);

#endif
