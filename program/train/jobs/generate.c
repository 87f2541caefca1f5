/*
 * Drawing tokens. Keys and values of earlier tokens are kept, so that the model
 * receives one token of each text at a time (ls_transformer_extend).
 */
#include "train/jobs/generate.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "base/memory.h"
#include "base/rng.h"
#include "comm/api/outcome.h"
#include "model/nn/transformer.h"
#include "model/tensor/tensor.h"
#include "train/recipe.h"

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

/*
 * Keeps the k largest; all others become -infinity. Of equals the first stay.
 */
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

/* Weight of a token; 0 where exp would underflow. */
static double weight(float logit, double most, double temperature)
{
    const double x = ((double)logit - most) / temperature;
    return x > -745.2 ? lsi_exp(x) : 0.0;
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
        total += weight(logits[i], most, sampling->temperature);
    double left = lsi_rng_uniform(key, sampling->prompt, step) * total;
    for (int64_t i = 0; i < vocabulary; i++) {
        left -= weight(logits[i], most, sampling->temperature);
        if (left < 0.0)
            return i;
    }
    return best;
}

/* ---- texts --------------------------------------------------------------- */

typedef struct drawing {
    const ls_transformer *model;
    const lsi_generation *g;
    ls_tape *tape;
    ls_transformer_cache *cache;
    ls_tensor *tokens; /* (prompts, 1): drawn last */
    float *logits;     /* (prompts, vocabulary), for the next token */
    bool *ended;       /* whether each prompt has ended */
    int64_t going;     /* number of prompts that have not ended */
    int64_t vocabulary;
    int64_t choices; /* tokens below it are drawn */
} drawing;

/* Tokens drawn from NaN or infinity would be meaningless. */
static ls_status check_finite(const float *logits, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(logits[i]))
            return lsi_fail(LS_ERR_FORMAT,
                            "the model's logit of token %" PRId64
                            " is %g: " LSI_BAD_WEIGHTS,
                            i, (double)logits[i]);
    return LS_OK;
}

/* Feeds tokens of prompts from `first` on to the model; keeps the logits. */
static ls_status feed_tokens(drawing *d, int64_t first, ls_tensor *tokens)
{
    ls_tensor *logits =
        ls_transformer_extend(d->model, d->tape, d->cache, first, tokens);
    LS_TRY(ls_tape_status(d->tape));
    memcpy(d->logits + first * d->vocabulary, lsi_tensor_raw(logits),
           (size_t)logits->count * sizeof(float));
    ls_tape_reset(d->tape);
    return LS_OK;
}

/* The last tokens, as many as the context holds. */
static ls_status read_prompt(drawing *d, int64_t index)
{
    const lsi_prompt *p = &d->g->prompts[index];
    const int64_t context = ls_transformer_get_config(d->model)->context;
    const int64_t n = p->length < context ? p->length : context;
    const int64_t shape[] = {1, n};
    ls_tensor *tokens = ls_tape_output(d->tape, LS_I64, 2, shape);
    if (tokens == NULL)
        return ls_tape_status(d->tape);
    memcpy(lsi_tensor_raw(tokens), p->tokens + p->length - n,
           (size_t)n * sizeof(int64_t));
    return feed_tokens(d, index, tokens);
}

static ls_status draw(drawing *d, int64_t step)
{
    int64_t *tokens = lsi_tensor_raw(d->tokens);
    for (int64_t i = 0; i < d->g->n_prompts; i++) {
        float *row = d->logits + i * d->vocabulary;
        lsi_sampling sampling = d->g->sampling;
        if (d->ended[i])
            continue;
        LS_TRY(check_finite(row, d->vocabulary));
        sampling.prompt = (uint64_t)(d->g->first + i);
        tokens[i] = lsi_sample(row, d->choices, &sampling, (uint64_t)step);
        d->ended[i] = d->g->has_end && tokens[i] == d->g->end;
        if (d->ended[i])
            d->going--;
        else
            LS_TRY(d->g->emit(d->g->context, d->g->first + i, tokens[i]));
    }
    return LS_OK;
}

/* Tokens of the longest text at its end, limited by the context. */
static int64_t capacity_for(const drawing *d)
{
    const int64_t context = ls_transformer_get_config(d->model)->context;
    int64_t most = 1;
    for (int64_t i = 0; i < d->g->n_prompts; i++) {
        const int64_t n = d->g->prompts[i].length + d->g->tokens;
        most = n > most ? n : most;
    }
    return most < context ? most : context;
}

static ls_status make(drawing *d)
{
    const int64_t shape[] = {d->g->n_prompts, 1};
    if (d->g->n_prompts == 0)
        return LS_OK;
    LS_TRY(ls_tape_new(&d->tape));
    ls_tape_set_training(d->tape, false);
    LS_TRY(ls_transformer_cache_new(&d->cache, d->model, d->g->n_prompts,
                                    capacity_for(d)));
    LS_TRY(ls_tensor_zeros(&d->tokens, LS_I64, 2, shape));
    LS_TRY(lsi_alloc(&d->logits,
                     (size_t)(d->g->n_prompts * d->vocabulary) * sizeof(float),
                     LS_MEMORY_ACTIVATIONS, "logits"));
    LS_TRY(lsi_alloc_zeroed(&d->ended, (size_t)d->g->n_prompts * sizeof(bool),
                            LS_MEMORY_OTHER, "the state of each prompt"));
    d->going = d->g->n_prompts;
    return LS_OK;
}

/* A prompt at a time. */
static ls_status read_prompts(drawing *d)
{
    for (int64_t i = 0; i < d->g->n_prompts; i++)
        LS_TRY(read_prompt(d, i));
    return LS_OK;
}

/* A token of all prompts of this rank. */
static ls_status draw_next(drawing *d, int64_t step)
{
    if (d->going == 0)
        return LS_OK;
    LS_TRY(step == 0 ? read_prompts(d) : feed_tokens(d, 0, d->tokens));
    return draw(d, step);
}

/* Whether any prompt goes on, of any rank; `own` is this rank's status. */
static ls_status share(const drawing *d, ls_status own, bool *on)
{
    double going = d->going > 0;
    if (d->g->group != NULL)
        own = lsi_share_mean(d->g->group, own, &going, d->g->agreed);
    *on = going > 0;
    return own;
}

static ls_status generate_tokens(drawing *d)
{
    bool on;
    LS_TRY(share(d, make(d), &on));
    for (int64_t i = 0; i < d->g->tokens && on; i++)
        LS_TRY(share(d, draw_next(d, i), &on));
    return LS_OK;
}

ls_status lsi_generate(const ls_transformer *model,
                       const lsi_generation *generation)
{
    const ls_transformer_config *c = ls_transformer_get_config(model);
    const int64_t limit = generation->limit;
    const bool any = limit <= 0 || limit > c->vocabulary;
    drawing d = {.model = model,
                 .g = generation,
                 .vocabulary = c->vocabulary,
                 .choices = any ? c->vocabulary : limit};
    const ls_status status = generate_tokens(&d);
    lsi_free(d.logits);
    lsi_free(d.ended);
    ls_tensor_free(&d.tokens);
    ls_transformer_cache_free(&d.cache);
    ls_tape_free(&d.tape);
    return status;
}
