/*
 * How well a language model predicts a text.
 */
#ifndef LS_TRAIN_JOBS_LM_EVAL_H
#define LS_TRAIN_JOBS_LM_EVAL_H

#include "lockstep/data.h"
#include "lockstep/group.h"
#include "lockstep/tokenizer.h"
#include "model/nets/lm.h"

/* A text as tokens: of a file as it is, or what a tokenizer makes of it. */
typedef struct lsi_lm_text {
    ls_tokens *file; /* NULL: `ids` has them */
    int64_t *ids;
    int64_t count;
} lsi_lm_text;

/* How a model reads text. */
typedef struct lsi_lm_reader {
    const ls_tokenizer *tokenizer; /* or NULL */
    bool bytes;                    /* without one: bytes are its tokens */
    int64_t vocabulary;
} lsi_lm_reader;

/*
 * Opens a file. With a tokenizer text is encoded, in which its first token (as
 * of Llama's <s>) is added if the tokenizer says so; tokens are taken as they
 * are. Every token must be below the vocabulary. Local.
 */
ls_status lsi_lm_text_open(lsi_lm_text *text, const char *path,
                           ls_token_format format, const lsi_lm_reader *reader);
void lsi_lm_text_close(lsi_lm_text *text);

/*
 * Windows of `context` tokens begin every `stride`, 1..context. All predictions
 * of the first window count. Of every other window its last `stride` count,
 * which no earlier window has made. So each token but the first of the text is
 * predicted once, from at least context - stride tokens if the text has that
 * many before it.
 */
typedef struct lsi_lm_eval_options {
    int64_t context, stride;
} lsi_lm_eval_options;

typedef struct lsi_lm_eval_result {
    int64_t tokens; /* that were predicted */
    double loss;    /* the mean of -log of their probabilities */
} lsi_lm_eval_result;

/*
 * The ranks divide the batches of windows; the result does not depend on their
 * number. Every rank has the model and the text. Collective; if it fails with
 * *agreed true, all ranks have the same error.
 */
ls_status lsi_evaluate_lm(ls_group *group, const lsi_lm *lm,
                          const lsi_lm_text *text,
                          const lsi_lm_eval_options *options,
                          lsi_lm_eval_result *out, bool *agreed);

#endif
