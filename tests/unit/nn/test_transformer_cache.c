/*
 * Token by token: what a model with a cache says is what it says when it is
 * shown all at once; and beyond the capacity, what it is shown then.
 */
#include <math.h>

#include "array/compute/threads.h"
#include "lockstep/transformer.h"
#include "sharpen.h"
#include "testing.h"

enum { CONTEXT = 24, VOCABULARY = 13, SINKS = 4 };

static const ls_transformer_config little = {.vocabulary = VOCABULARY,
                                             .context = CONTEXT,
                                             .d_model = 16,
                                             .d_ff = 12,
                                             .layers = 2,
                                             .heads = 4};

typedef struct showing {
    ls_params *params;
    ls_transformer *model;
    ls_tape *tape;
    ls_transformer_cache *cache;
} showing;

static showing begin(const ls_transformer_config *config, ls_dtype products,
                     int64_t sequences, int64_t capacity)
{
    showing s = {0};
    assert_ok(ls_params_new(&s.params));
    assert_ok(ls_transformer_new(&s.model, s.params, config));
    assert_ok(ls_params_allocate(s.params, NULL, 4));
    if (products == LS_F32)
        sharpen(s.params);
    assert_ok(ls_tape_new(&s.tape));
    ls_tape_set_training(s.tape, false);
    assert_ok(ls_tape_set_autocast(s.tape, products));
    assert_ok(ls_transformer_cache_new(&s.cache, s.model, sequences, capacity));
    return s;
}

static void end(showing *s)
{
    ls_transformer_cache_free(&s->cache);
    ls_tape_free(&s->tape);
    ls_transformer_free(&s->model);
    ls_params_free(&s->params);
}

static int64_t token_at(int64_t sequence, int64_t place)
{
    return (place * place * 5 + place + sequence * 7) % VOCABULARY;
}

/* Tokens first..end-1 of `rows` sequences. */
static ls_tensor *tokens_of(const showing *s, int64_t sequence, int64_t rows,
                            int64_t first, int64_t last)
{
    ls_tensor *out = ls_tape_output(s->tape, LS_I64, 2,
                                    (const int64_t[]){rows, last - first});
    int64_t *data = tensor_data(out);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t t = first; t < last; t++)
            *data++ = token_at(sequence + r, t);
    return out;
}

/* The logits of the last place, shown all at once. */
static void last_logits(const showing *s, ls_tensor *tokens, float *out)
{
    const int64_t n = ls_tensor_shape(tokens)[1];
    ls_tensor *all = ls_transformer_forward(s->model, s->tape, tokens);
    assert_ok(ls_tape_status(s->tape));
    all = ls_cast(s->tape, all, LS_F32);
    memcpy(out, (float *)tensor_data(all) + (n - 1) * VOCABULARY,
           VOCABULARY * sizeof *out);
}

static const float *extend(const showing *s, int64_t first, ls_tensor *tokens)
{
    ls_tensor *out =
        ls_transformer_extend(s->model, s->tape, s->cache, first, tokens);
    assert_ok(ls_tape_status(s->tape));
    assert_int_equal(ls_tensor_shape(out)[0], ls_tensor_shape(tokens)[0]);
    return tensor_data(out);
}

static void expect_near(const float *got, const float *want, float bound)
{
    float largest = 0;
    for (int i = 0; i < VOCABULARY; i++)
        largest = fmaxf(largest, fabsf(want[i]));
    for (int i = 0; i < VOCABULARY; i++)
        if (fabsf(got[i] - want[i]) > bound * largest)
            fail_msg("logit %d is %.9g, not %.9g", i, (double)got[i],
                     (double)want[i]);
}

/* Pieces of the given lengths, one after another, and then ones. */
static void expect_all(showing *s, const int64_t *lengths, float bound)
{
    float want[VOCABULARY];
    for (int64_t at = 0; at < CONTEXT;) {
        const int64_t wanted = *lengths > 0 ? *lengths++ : 1;
        const int64_t n = at + wanted < CONTEXT ? wanted : CONTEXT - at;
        last_logits(s, tokens_of(s, 0, 1, 0, at + n), want);
        expect_near(extend(s, 0, tokens_of(s, 0, 1, at, at + n)), want, bound);
        at += n;
        ls_tape_reset(s->tape);
    }
}

static ls_transformer_config variant(int i)
{
    ls_transformer_config c = little;
    c.kind = (ls_transformer_kind)(i % LS_TRANSFORMER_KIND_COUNT);
    if (c.kind == LS_TRANSFORMER_GPT2)
        return c;
    c.rope_halves = i >= 3 && c.kind == LS_TRANSFORMER_ROPE;
    c.kv_heads = i >= 3 ? 2 : 0;
    c.d_head = i >= 6 ? 6 : 0;
    return c;
}

enum { VARIANTS = 9 };

/*
 * Some 20 sums in a row of at most 24 terms, 8 sqrt(480) 2^-24; where products
 * round, the whole text is attended to in halves, and the cache in f32: two
 * layers that differ by the last bits of what they multiply.
 */
static void a_cache_changes_rounding_only(void **state)
{
    (void)state;
    static const struct {
        ls_dtype products;
        float bound;
    } cases[] = {{LS_F32, 2e-5F}, {LS_BF16, 0x1p-6F}, {LS_F16, 0x1p-9F}};
    static const int64_t lengths[][4] = {{0}, {CONTEXT, 0}, {5, 1, 7, 0}};
    for (int v = 0; v < VARIANTS; v++)
        for (size_t c = 0; c < TEST_COUNT(cases); c++)
            for (size_t l = 0; l < TEST_COUNT(lengths); l++) {
                const ls_transformer_config config = variant(v);
                showing s = begin(&config, cases[c].products, 1, 0);
                expect_all(&s, lengths[l], cases[c].bound);
                ls_transformer_cache_clear(s.cache);
                expect_all(&s, lengths[0], cases[c].bound);
                end(&s);
            }
}

/* Rows of a step have the bits that each has alone. */
static void sequences_do_not_mix(void **state)
{
    (void)state;
    enum { SEQUENCES = 3, STEPS = 40 };
    for (int v = 0; v < VARIANTS; v++) {
        const ls_transformer_config config = variant(v);
        showing all = begin(&config, LS_F32, SEQUENCES, 0);
        showing one = begin(&config, LS_F32, 1, 0);
        for (int64_t q = 0; q < SEQUENCES; q++) /* of different lengths */
            (void)extend(&all, q, tokens_of(&all, q, 1, 0, 3 + q));
        for (int64_t q = 0; q < SEQUENCES; q++) {
            ls_transformer_cache_clear(one.cache);
            (void)extend(&one, 0, tokens_of(&one, q, 1, 0, 3 + q));
            if (q > 0)
                continue;
            for (int64_t t = 0; t < STEPS; t++) {
                ls_tensor *next = tokens_of(&all, 0, SEQUENCES, t, t + 1);
                const float *got = extend(&all, 0, next);
                const float *want =
                    extend(&one, 0, tokens_of(&one, 0, 1, t, t + 1));
                assert_memory_equal(got, want, VOCABULARY * sizeof *got);
                ls_tape_reset(all.tape);
                ls_tape_reset(one.tape);
            }
        }
        end(&all);
        end(&one);
    }
}

/*
 * With one layer, keys and values depend only on a token and its place. So a
 * full cache equals a text of its tokens: the first four and the last.
 */
static void expect_window(int v, int64_t piece, int64_t capacity)
{
    enum { LENGTH = 70 };
    ls_transformer_config config = variant(v);
    config.layers = 1;
    showing s = begin(&config, LS_F32, 1, capacity);
    const int64_t kept = capacity >= 4 * SINKS ? SINKS : 0;
    for (int64_t at = 0; at + piece <= LENGTH; at += piece) {
        float want[VOCABULARY];
        const int64_t n = at + piece;
        ls_tensor *seen =
            tokens_of(&s, 0, 1, n > capacity ? n - capacity : 0, n);
        int64_t *tokens = tensor_data(seen);
        for (int64_t i = 0; i < kept && n > capacity; i++)
            tokens[i] = token_at(0, i);
        last_logits(&s, seen, want);
        expect_near(extend(&s, 0, tokens_of(&s, 0, 1, at, n)), want, 2e-5F);
        ls_tape_reset(s.tape);
    }
    end(&s);
}

static void a_full_cache_has_the_first_and_the_last(void **state)
{
    (void)state;
    for (int v = 0; v < VARIANTS; v++) {
        if (variant(v).kind == LS_TRANSFORMER_GPT2)
            continue;
        expect_window(v, 1, CONTEXT);
        expect_window(v, 1, 17);
        expect_window(v, 7, CONTEXT);
        expect_window(v, 35, CONTEXT);
        expect_window(v, 1, 9);
        expect_window(v, 5, 1);
    }
}

/* Learned positions: half of the tokens are read again when there are too many.
 */
static void learned_positions_begin_anew(void **state)
{
    (void)state;
    enum { LENGTH = 3 * CONTEXT };
    ls_transformer_config config = little;
    config.kind = LS_TRANSFORMER_GPT2;
    for (int64_t capacity = 1; capacity <= CONTEXT; capacity += 23) {
        showing s = begin(&config, LS_F32, 1, capacity);
        int64_t seen = 0;
        for (int64_t at = 0; at < LENGTH; at++) {
            float want[VOCABULARY];
            seen = seen == capacity ? capacity / 2 + 1 : seen + 1;
            last_logits(&s, tokens_of(&s, 0, 1, at + 1 - seen, at + 1), want);
            expect_near(extend(&s, 0, tokens_of(&s, 0, 1, at, at + 1)), want,
                        2e-5F);
            ls_tape_reset(s.tape);
        }
        end(&s);
    }
}

static void wrong_uses_are_named(void **state)
{
    (void)state;
    showing s = begin(&little, LS_F32, 2, 0);
    ls_transformer_cache *none = NULL;
    assert_error(ls_transformer_cache_new(&none, s.model, 0, 0),
                 LS_ERR_ARGUMENT, "it must be from 1 to 1048576");
    assert_error(ls_transformer_cache_new(&none, s.model, 1, CONTEXT + 1),
                 LS_ERR_ARGUMENT, "the model's context, 24");
    assert_null(none);
    assert_null(ls_transformer_extend(s.model, s.tape, s.cache, 1,
                                      tokens_of(&s, 0, 2, 0, 1)));
    assert_error(
        ls_tape_status(s.tape), LS_ERR_SHAPE,
        "a batch of 2, starting with sequence 1, does not fit the cache "
        "(sequences: 2)");
    ls_tape_reset(s.tape);
    ls_tape_set_training(s.tape, true);
    assert_null(ls_transformer_extend(s.model, s.tape, s.cache, 0,
                                      tokens_of(&s, 0, 1, 0, 1)));
    assert_error(ls_tape_status(s.tape), LS_ERR_ARGUMENT,
                 "the tape is training");
    end(&s);
}

/* So little to do that threads would only wait for each other. */
static int one_thread(void **state)
{
    (void)state;
    lsi_threads_set(1);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cache_changes_rounding_only),
        cmocka_unit_test(sequences_do_not_mix),
        cmocka_unit_test(a_full_cache_has_the_first_and_the_last),
        cmocka_unit_test(learned_positions_begin_anew),
        cmocka_unit_test(wrong_uses_are_named),
    };
    return cmocka_run_group_tests(tests, one_thread, NULL);
}
