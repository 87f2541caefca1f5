/* How well a language model predicts a text; see lm_eval.h. */
#include "train/jobs/lm_eval.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "comm/api/outcome.h"
#include "model/autograd/tape.h"
#include "model/tensor/tensor.h"
#include "train/recipe.h"

/* ---- the text ------------------------------------------------------------ */

enum { PIECE = 1 << 12 };

static ls_status copy_bytes(const ls_tokens *file, char *out)
{
    int64_t piece[PIECE];
    const int64_t n = ls_tokens_count(file);
    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t some = n - at < PIECE ? n - at : PIECE;
        LS_TRY(ls_tokens_read(file, at, piece, (size_t)some));
        for (int64_t i = 0; i < some; i++)
            out[at + i] = (char)piece[i];
    }
    return LS_OK;
}

/* The bytes of one file or more, as `file` has them. */
static ls_status encode(lsi_lm_text *text, const ls_tokenizer *tokenizer)
{
    void *bytes = NULL;
    const size_t n = (size_t)ls_tokens_count(text->file);
    size_t made = 0;
    LS_TRY(lsi_alloc(&bytes, n, LS_MEMORY_DATA, "the text to encode"));
    ls_status status = copy_bytes(text->file, bytes);
    if (status == LS_OK)
        status = ls_tokenizer_encode(tokenizer, bytes, n, LS_TOKENIZER_SPECIAL,
                                     &text->ids, &made);
    if (status == LS_OK)
        text->count = (int64_t)made;
    lsi_free(bytes);
    ls_tokens_free(&text->file);
    return status;
}

static ls_status check_ids(const lsi_lm_text *text, const char *path,
                           int64_t vocabulary)
{
    for (int64_t i = 0; i < text->count; i++)
        if (text->ids[i] >= vocabulary)
            return lsi_fail(
                LS_ERR_FORMAT,
                "encoding '%s' with the tokenizer gives token %" PRId64
                ", but the vocabulary size of the model is %" PRId64
                "; use the tokenizer that the model was trained with",
                path, text->ids[i], vocabulary);
    return LS_OK;
}

/* Bytes are not the tokens of a model that has others. */
static ls_status open_file(lsi_lm_text *text, const char *path,
                           const lsi_lm_reader *reader)
{
    text->count = ls_tokens_count(text->file);
    if (!reader->bytes && ls_tokens_are_bytes(text->file))
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s' is text, but the tokens of the model are not "
                        "bytes; give the model's tokenizer with --tokenizer "
                        "FILE, or convert the text with `lockstep tokenize`",
                        path);
    return ls_tokens_check(text->file, reader->vocabulary);
}

static ls_status open_text(lsi_lm_text *text, const char *path,
                           ls_token_format format, const lsi_lm_reader *reader)
{
    LS_TRY(ls_tokens_new(&text->file, path, format));
    if (reader->tokenizer != NULL && ls_tokens_are_bytes(text->file)) {
        LS_TRY(encode(text, reader->tokenizer));
        LS_TRY(check_ids(text, path, reader->vocabulary));
    } else {
        LS_TRY(open_file(text, path, reader));
    }
    if (text->count >= 2)
        return LS_OK;
    return lsi_fail(LS_ERR_FORMAT,
                    "'%s' has %" PRId64 " tokens; at least 2 tokens are needed",
                    path, text->count);
}

ls_status lsi_lm_text_open(lsi_lm_text *text, const char *path,
                           ls_token_format format, const lsi_lm_reader *reader)
{
    *text = (lsi_lm_text){0};
    const ls_status status = open_text(text, path, format, reader);
    if (status != LS_OK)
        lsi_lm_text_close(text);
    return status;
}

void lsi_lm_text_close(lsi_lm_text *text)
{
    ls_tokens_free(&text->file);
    ls_free(text->ids);
    *text = (lsi_lm_text){0};
}

static ls_status read_ids(const lsi_lm_text *text, int64_t begin, int64_t n,
                          int64_t *out)
{
    if (text->file != NULL)
        return ls_tokens_read(text->file, begin, out, (size_t)n);
    memcpy(out, text->ids + begin, (size_t)n * sizeof *out);
    return LS_OK;
}

/* ---- windows ------------------------------------------------------------- */

enum { BATCH_TOKENS = 2048, BATCH_LOGITS = 1 << 26 };

typedef struct evaluation {
    const lsi_lm *lm;
    const lsi_lm_text *text;
    int64_t context, stride;
    int64_t predicted; /* tokens of the text but the first */
    int64_t windows;
    int64_t most; /* windows of a batch */
    ls_tape *tape;
    double *sums; /* of the losses of each batch; 0 for other ranks' batches */
    int64_t batches;
} evaluation;

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* `rows` windows in a row, of equal length, from `window` on. */
typedef struct batch {
    int64_t window, rows;
    int64_t length, counted;
} batch;

/* The counted tokens of a window begin at the end of the window before. */
static batch batch_of_one(const evaluation *e, int64_t window)
{
    const int64_t begin = window * e->stride;
    const int64_t end = smaller(begin + e->context, e->predicted);
    const int64_t done = window > 0 ? (window - 1) * e->stride + e->context : 0;
    return (batch){.window = window,
                   .rows = 1,
                   .length = end - begin,
                   .counted = end - done};
}

static batch batch_at(const evaluation *e, int64_t window)
{
    batch b = batch_of_one(e, window);
    while (b.rows < e->most && window + b.rows < e->windows) {
        const batch next = batch_of_one(e, window + b.rows);
        if (next.length != b.length || next.counted != b.counted)
            break;
        b.rows++;
    }
    return b;
}

static ls_status fill(const evaluation *e, const batch *b, int64_t *tokens,
                      int64_t *targets)
{
    for (int64_t r = 0; r < b->rows; r++) {
        const int64_t begin = (b->window + r) * e->stride;
        LS_TRY(read_ids(e->text, begin, b->length, tokens + r * b->length));
        LS_TRY(read_ids(e->text, begin + b->length - b->counted + 1, b->counted,
                        targets + r * b->counted));
    }
    return LS_OK;
}

static ls_status run_batch(const evaluation *e, const batch *b, double *sum)
{
    const int64_t vocabulary =
        ls_transformer_get_config(e->lm->transformer)->vocabulary;
    const int64_t shape[] = {b->rows, b->length}, n = b->rows * b->counted;
    ls_tensor *tokens = ls_tape_output(e->tape, LS_I64, 2, shape);
    ls_tensor *targets = ls_tape_output(e->tape, LS_I64, 1, &n);
    LS_TRY(ls_tape_status(e->tape));
    LS_TRY(fill(e, b, lsi_tensor_raw(tokens), lsi_tensor_raw(targets)));
    ls_tensor *logits =
        ls_transformer_forward(e->lm->transformer, e->tape, tokens);
    logits = ls_narrow(e->tape, logits, 1, b->length - b->counted, b->length);
    logits = ls_reshape(e->tape, logits, 2, (const int64_t[]){n, vocabulary});
    ls_tensor *loss = ls_cross_entropy(e->tape, logits, targets, NULL);
    double mean = 0.0;
    LS_TRY(ls_tape_status(e->tape));
    LS_TRY(ls_tensor_item(loss, &mean));
    *sum = mean * (double)n;
    ls_tape_reset(e->tape);
    return LS_OK;
}

static void divide(evaluation *e, const lsi_lm_eval_options *options)
{
    const int64_t vocabulary =
        ls_transformer_get_config(e->lm->transformer)->vocabulary;
    e->context = options->context;
    e->stride = options->stride;
    e->predicted = e->text->count - 1;
    const int64_t after = e->predicted - smaller(e->predicted, e->context);
    e->windows = 1 + (after + e->stride - 1) / e->stride;
    e->most = smaller(BATCH_TOKENS, BATCH_LOGITS / vocabulary) / e->context;
    for (int64_t w = 0; w < e->windows; w += batch_at(e, w).rows)
        e->batches++;
}

/* The batches do not depend on the number of ranks, which take turns. */
static ls_status evaluate_batches(evaluation *e, int rank, int ranks)
{
    LS_TRY(lsi_alloc_zeroed(&e->sums, (size_t)e->batches * sizeof(double),
                            LS_MEMORY_DATA, "the losses of batches"));
    LS_TRY(ls_tape_new(&e->tape));
    ls_tape_set_training(e->tape, false);
    for (int64_t i = 0, w = 0; i < e->batches; i++) {
        const batch b = batch_at(e, w);
        if (i % ranks == rank)
            LS_TRY(run_batch(e, &b, &e->sums[i]));
        w += b.rows;
    }
    return LS_OK;
}

/* All but one of the numbers that are added up for a batch are zeros. */
static ls_status add_up(const evaluation *e, ls_group *group, double *loss)
{
    LS_TRY(ls_all_reduce(group, e->sums, e->sums, (size_t)e->batches, LS_F64,
                         LS_REDUCE_SUM));
    *loss = 0.0;
    for (int64_t i = 0; i < e->batches; i++)
        *loss += e->sums[i];
    *loss /= (double)e->predicted;
    return isfinite(*loss)
               ? LS_OK
               : lsi_fail(LS_ERR_FORMAT, "the loss is %g: " LSI_BAD_WEIGHTS,
                          *loss);
}

ls_status lsi_evaluate_lm(ls_group *group, const lsi_lm *lm,
                          const lsi_lm_text *text,
                          const lsi_lm_eval_options *options,
                          lsi_lm_eval_result *out, bool *agreed)
{
    evaluation e = {.lm = lm, .text = text};
    divide(&e, options);
    ls_status status = lsi_share_outcome(
        group, evaluate_batches(&e, ls_group_rank(group), ls_group_size(group)),
        agreed);
    if (status == LS_OK) {
        *agreed = true; /* from here on all ranks have the same errors */
        out->tokens = e.predicted;
        status = add_up(&e, group, &out->loss);
    }
    ls_tape_free(&e.tape);
    lsi_free(e.sums);
    return status;
}
