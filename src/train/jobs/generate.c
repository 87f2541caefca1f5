/*
 * Drawing tokens. Keys and values of those before are kept, so that the model
 * is shown one token at a time. Once they are more than its context, places
 * change with every token, and it is shown the last ones anew.
 */
#include "train/jobs/generate.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/rng.h"
#include "nn/transformer.h"
#include "tensor/tensor.h"

/* "generate" */
static const uint64_t generate_stream = 0x67656e6572617465;

/* ---- one token ----------------------------------------------------------- */

static int64_t likeliest(const float *logits, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

/* Larger for larger numbers, and the same for both zeros. */
static uint32_t rank_of(float x)
{
    uint32_t bits;
    x += 0.0F;
    memcpy(&bits, &x, sizeof bits);
    return bits >> 31 != 0 ? ~bits : bits | UINT32_C(1) << 31;
}

/* The k-th largest rank, a byte at a time; *equal of those are among the k. */
static uint32_t find_edge(const float *x, int64_t n, int64_t k, int64_t *equal)
{
    uint64_t edge = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        int64_t count[256] = {0};
        for (int64_t i = 0; i < n; i++) {
            const uint64_t rank = rank_of(x[i]);
            if (rank >> (shift + 8) == edge >> (shift + 8))
                count[rank >> shift & 255]++;
        }
        uint64_t byte = 255;
        while (count[byte] < k)
            k -= count[byte--];
        edge |= byte << shift;
    }
    *equal = k;
    return (uint32_t)edge;
}

/* Leaves the k largest; the rest become -infinity. Of equals the first stay. */
static void keep_largest(float *logits, int64_t n, int64_t k)
{
    int64_t equal;
    const uint32_t edge = find_edge(logits, n, k, &equal);
    for (int64_t i = 0; i < n; i++) {
        const uint32_t rank = rank_of(logits[i]);
        if (rank < edge || (rank == edge && equal-- <= 0))
            logits[i] = -INFINITY;
    }
}

int64_t lsi_sample(float *logits, int64_t vocabulary,
                   const lsi_sampling *sampling, uint64_t step)
{
    const lsi_rng_key key = {sampling->seed, generate_stream};
    const int64_t best = likeliest(logits, vocabulary);
    if (sampling->temperature <= 0.0)
        return best;
    if (sampling->top_k > 0 && sampling->top_k < vocabulary)
        keep_largest(logits, vocabulary, sampling->top_k);
    const double most = (double)logits[best];
    double total = 0.0;
    for (int64_t i = 0; i < vocabulary; i++)
        total += exp(((double)logits[i] - most) / sampling->temperature);
    double left = lsi_rng_uniform(key, 0, step) * total;
    for (int64_t i = 0; i < vocabulary; i++) {
        left -= exp(((double)logits[i] - most) / sampling->temperature);
        if (left < 0.0)
            return i;
    }
    return best;
}

/* ---- many ---------------------------------------------------------------- */

typedef struct window {
    const ls_transformer *model;
    ls_tape *tape;
    ls_tensor *tokens; /* (1, length) */
    int64_t length, used;
    int64_t choices;    /* tokens below it are drawn */
    lsi_kv_cache cache; /* of the first tokens, so many as it says */
} window;

static void push(window *w, int64_t token)
{
    int64_t *tokens = lsi_tensor_raw(w->tokens);
    if (w->used == w->length) {
        memmove(tokens, tokens + 1, (size_t)(w->used - 1) * sizeof *tokens);
        w->used--;
        w->cache.used = 0;
    }
    tokens[w->used++] = token;
}

/* Drawing from anything else would say nothing of the model. */
static ls_status check_finite(const float *logits, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(logits[i]))
            return lsi_fail(LS_ERR_FORMAT,
                            "the model's logit of token %" PRId64 " is %g: its "
                            "weights are not finite, or too large; did its "
                            "training diverge?",
                            i, (double)logits[i]);
    return LS_OK;
}

static ls_status next_token(window *w, const lsi_sampling *sampling,
                            uint64_t step, int64_t *out)
{
    const int64_t vocabulary = ls_transformer_get_config(w->model)->vocabulary;
    const int64_t new_tokens = w->used - w->cache.used;
    ls_tensor *logits = lsi_transformer_extend(
        w->model, w->tape,
        ls_narrow(w->tape, w->tokens, 1, w->cache.used, w->used), &w->cache);
    LS_TRY(ls_tape_status(w->tape));
    float *row =
        (float *)lsi_tensor_raw(logits) + (new_tokens - 1) * vocabulary;
    LS_TRY(check_finite(row, vocabulary));
    *out = lsi_sample(row, w->choices, sampling, step);
    ls_tape_reset(w->tape);
    return LS_OK;
}

static ls_status run(window *w, const lsi_generation *g)
{
    const int64_t shape[] = {1, w->length};
    LS_TRY(ls_tape_new(&w->tape));
    ls_tape_set_training(w->tape, false);
    LS_TRY(lsi_kv_cache_new(&w->cache, w->model));
    LS_TRY(ls_tensor_zeros(&w->tokens, LS_I64, 2, shape));
    for (int64_t i = 0; i < g->prompt_length; i++)
        push(w, g->prompt[i]);
    for (int64_t i = 0; i < g->tokens; i++) {
        int64_t token;
        LS_TRY(next_token(w, &g->sampling, (uint64_t)i, &token));
        LS_TRY(g->emit(g->context, token));
        push(w, token);
    }
    return LS_OK;
}

ls_status lsi_generate(const ls_transformer *model,
                       const lsi_generation *generation)
{
    const ls_transformer_config *c = ls_transformer_get_config(model);
    const int64_t all = generation->prompt_length + generation->tokens;
    const int64_t limit = generation->limit;
    const bool any = limit <= 0 || limit > c->vocabulary;
    window w = {.model = model,
                .length = all < c->context ? all : c->context,
                .choices = any ? c->vocabulary : limit};
    const ls_status status = run(&w, generation);
    ls_tensor_free(&w.tokens);
    lsi_kv_cache_free(&w.cache);
    ls_tape_free(&w.tape);
    return status;
}
