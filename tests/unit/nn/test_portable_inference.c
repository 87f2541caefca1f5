/*
 * Under portable bits the logits of training, of a text shown all at once and
 * of its pieces are the same, bit for bit.
 */
#include "lockstep/bits.h"
#include "lockstep/threads.h"
#include "lockstep/transformer.h"
#include "sharpen.h"
#include "testing.h"

/* Sums of products have more than one block of terms (d_model, d_ff). */
enum { CONTEXT = 150, VOCABULARY = 37, ROWS = 3, PIECES = 9 };

static const ls_transformer_config config_of_test = {.vocabulary = VOCABULARY,
                                                     .context = CONTEXT,
                                                     .d_model = 272,
                                                     .d_ff = 520,
                                                     .layers = 2,
                                                     .heads = 4};

typedef struct showing {
    ls_params *params;
    ls_transformer *model;
    ls_tape *tape;
} showing;

static showing begin(ls_transformer_kind kind)
{
    showing s = {0};
    ls_transformer_config config = config_of_test;
    config.kind = kind;
    config.kv_heads = kind == LS_TRANSFORMER_LLAMA ? 2 : 0;
    assert_ok(ls_params_new(&s.params));
    assert_ok(ls_transformer_new(&s.model, s.params, &config));
    assert_ok(ls_params_allocate(s.params, NULL, 4));
    sharpen(s.params);
    assert_ok(ls_tape_new(&s.tape));
    return s;
}

static void end(showing *s)
{
    ls_tape_free(&s->tape);
    ls_transformer_free(&s->model);
    ls_params_free(&s->params);
}

static ls_tensor *tokens_of(const showing *s, int64_t sequence, int64_t rows,
                            int64_t first, int64_t last)
{
    ls_tensor *out = ls_tape_output(s->tape, LS_I64, 2,
                                    (const int64_t[]){rows, last - first});
    int64_t *data = tensor_data(out);
    for (int64_t r = sequence; r < sequence + rows; r++)
        for (int64_t t = first; t < last; t++)
            *data++ = (t * t * 5 + t + r * 7) % VOCABULARY;
    return out;
}

/* The logits of `rows` sequences shown all at once: (rows, n, vocabulary). */
static void all_at_once(const showing *s, bool training, int64_t sequence,
                        int64_t rows, int64_t n, float *out)
{
    ls_tape_set_training(s->tape, training);
    ls_tensor *all = ls_transformer_forward(s->model, s->tape,
                                            tokens_of(s, sequence, rows, 0, n));
    assert_ok(ls_tape_status(s->tape));
    memcpy(out, tensor_data(all),
           (size_t)(rows * n * VOCABULARY) * sizeof(*out));
    ls_tape_reset(s->tape);
    ls_tape_set_training(s->tape, false);
}

typedef struct logits {
    float of[ROWS][CONTEXT][VOCABULARY];
} logits;

static void expect_same(const float *got, const float *want, int64_t at)
{
    for (int i = 0; i < VOCABULARY; i++)
        if (memcmp(got + i, want + i, sizeof(*got)) != 0)
            fail_msg("logit %d after %lld tokens is %.9g, not %.9g", i,
                     (long long)at, (double)got[i], (double)want[i]);
}

/* The logits of each row after each piece; these are the pieces' lengths. */
static void check_pieces(const showing *s, const logits *want, int64_t rows,
                         const int64_t lengths[PIECES])
{
    ls_transformer_cache *cache;
    assert_ok(ls_transformer_cache_new(&cache, s->model, ROWS, CONTEXT));
    int64_t at = 0;
    for (int i = 0; i < PIECES && lengths[i] > 0; i++) {
        ls_tensor *out =
            ls_transformer_extend(s->model, s->tape, cache, 0,
                                  tokens_of(s, 0, rows, at, at + lengths[i]));
        assert_ok(ls_tape_status(s->tape));
        const float *got = tensor_data(out);
        at += lengths[i];
        for (int64_t r = 0; r < rows; r++)
            expect_same(got + r * VOCABULARY, want->of[r][at - 1], at);
        ls_tape_reset(s->tape);
    }
    ls_transformer_cache_free(&cache);
}

static void check(ls_transformer_kind kind)
{
    static const int64_t lengths[][PIECES] = {{1, 1, 1, 1, 1, 1, 1, 1, 1},
                                              {1, 2, 3, 5, 7, 11, 13, 17, 19},
                                              {64, 1, 1, 16, 1, 40, 1, 1, 1},
                                              {100, 1, 1, 1, 33, 1, 1, 1, 1},
                                              {150}};
    static logits want, other;
    showing s = begin(kind);
    all_at_once(&s, true, 0, ROWS, CONTEXT, &want.of[0][0][0]);
    all_at_once(&s, false, 0, ROWS, CONTEXT, &other.of[0][0][0]);
    assert_memory_equal(&want, &other, sizeof(want));
    for (int r = 0; r < ROWS; r++) { /* alone, and shorter */
        all_at_once(&s, false, r, 1, 70 + r, &other.of[r][0][0]);
        assert_memory_equal(other.of[r], want.of[r],
                            (size_t)(70 + r) * sizeof(want.of[r][0]));
    }
    for (size_t i = 0; i < TEST_COUNT(lengths); i++)
        for (int64_t rows = 1; rows <= ROWS; rows++) {
            assert_ok(ls_set_threads((int)rows));
            check_pieces(&s, &want, rows, lengths[i]);
        }
    assert_ok(ls_set_threads(0));
    end(&s);
}

static void rope(void **state)
{
    (void)state;
    check(LS_TRANSFORMER_ROPE);
}

static void gpt2(void **state)
{
    (void)state;
    check(LS_TRANSFORMER_GPT2);
}

static void llama(void **state)
{
    (void)state;
    check(LS_TRANSFORMER_LLAMA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rope),
        cmocka_unit_test(gpt2),
        cmocka_unit_test(llama),
    };
    assert_ok(ls_set_bits(LS_BITS_PORTABLE));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
