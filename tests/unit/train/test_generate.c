/* Drawing tokens: how often which, and from what the model is shown. */
#include <math.h>

#include "array/compute/threads.h"
#include "base/error.h"
#include "base/partition.h"
#include "model/nn/transformer.h"
#include "testing.h"
#include "train/jobs/generate.h"
#include "unit/comm/ranks.h"

static const float logits[] = {0.0F, 2.0F, -1.0F, 1.0F, 2.0F};
enum { VOCABULARY = 5, DRAWS = 20000 };

static int64_t draw(lsi_sampling sampling, uint64_t step)
{
    float copy[VOCABULARY];
    memcpy(copy, logits, sizeof copy);
    return lsi_sample(copy, VOCABULARY, &sampling, step);
}

/* Counts within five standard deviations of what the probabilities say. */
static void expect_shares(lsi_sampling sampling, const bool *allowed)
{
    double p[VOCABULARY], total = 0;
    int count[VOCABULARY] = {0};
    for (int i = 0; i < VOCABULARY; i++) {
        p[i] = allowed[i] ? exp((double)logits[i] / sampling.temperature) : 0;
        total += p[i];
    }
    for (uint64_t step = 0; step < DRAWS; step++)
        count[draw(sampling, step)]++;
    for (int i = 0; i < VOCABULARY; i++) {
        const double share = p[i] / total;
        const double deviation = sqrt(DRAWS * share * (1 - share));
        assert_true(fabs(count[i] - DRAWS * share) <= 5 * deviation);
    }
}

static void shares_follow_the_logits(void **state)
{
    (void)state;
    const bool all[] = {true, true, true, true, true};
    expect_shares((lsi_sampling){.temperature = 1}, all);
    expect_shares((lsi_sampling){.temperature = 0.3, .seed = 1}, all);
    expect_shares((lsi_sampling){.temperature = 5, .top_k = 9}, all);
}

static void top_k_keeps_the_likeliest(void **state)
{
    (void)state;
    const bool one[] = {false, true, false, false, false};
    const bool two[] = {false, true, false, false, true};
    const bool three[] = {false, true, false, true, true};
    expect_shares((lsi_sampling){.temperature = 1, .top_k = 1}, one);
    expect_shares((lsi_sampling){.temperature = 1, .top_k = 2}, two);
    expect_shares((lsi_sampling){.temperature = 1, .top_k = 3}, three);
}

/* Coarse numbers, so that many are equal; zeros of both signs. */
static void make_ties(float *x, int n, uint32_t seed, uint32_t values)
{
    uint32_t state = seed;
    for (int i = 0; i < n; i++) {
        state = state * 1664525U + 1013904223U;
        const int32_t level = (int32_t)((state >> 8) % values);
        x[i] = (float)(level - (int32_t)(values / 2)) * 0.37F;
        if (x[i] == 0 && state % 3 == 0)
            x[i] = -x[i];
    }
}

/* Whether fewer than k come before x[i]: what is larger, or equal and first. */
static bool is_kept(const float *x, int n, int i, int k)
{
    int before = 0;
    for (int j = 0; j < n; j++)
        before += x[j] > x[i] || (x[j] == x[i] && j < i);
    return before < k;
}

static void top_k_is_its_definition(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 31, 100, 257};
    static const uint32_t values[] = {1, 3, 40, 100000};
    float x[257], kept[257];
    for (size_t s = 0; s < TEST_COUNT(sizes); s++) {
        for (size_t v = 0; v < TEST_COUNT(values); v++) {
            const int n = sizes[s];
            make_ties(x, n, (uint32_t)(s * 7 + v), values[v]);
            for (int k = 1; k < n; k += 1 + k / 8) {
                memcpy(kept, x, sizeof x);
                (void)lsi_sample(
                    kept, n, &(lsi_sampling){.temperature = 1, .top_k = k}, 0);
                for (int i = 0; i < n; i++)
                    assert_true(kept[i] ==
                                (is_kept(x, n, i, k) ? x[i] : -INFINITY));
            }
        }
    }
}

static void draws_are_a_function(void **state)
{
    (void)state;
    const lsi_sampling a = {.temperature = 1, .seed = 3};
    int same = 0;
    for (uint64_t step = 0; step < 100; step++) {
        assert_int_equal(draw(a, step), draw(a, step));
        assert_int_equal(draw((lsi_sampling){0}, step), 1);
        same += draw(a, step) ==
                draw((lsi_sampling){.temperature = 1, .seed = 4}, step);
    }
    assert_true(same < 100);
}

/* ---- a whole model ------------------------------------------------------- */

static const ls_transformer_config little = {.vocabulary = 13,
                                             .context = 9,
                                             .d_model = 8,
                                             .d_ff = 12,
                                             .layers = 2,
                                             .heads = 2};

typedef struct text {
    int64_t tokens[32];
    int n;
} text;

static ls_status append(void *context, int64_t prompt, int64_t token)
{
    text *t = (text *)context + prompt;
    t->tokens[t->n++] = token;
    return LS_OK;
}

/* Nobody reads on after the third token. */
static ls_status append_three(void *context, int64_t prompt, int64_t token)
{
    const text *t = context;
    LS_TRY(append(context, prompt, token));
    return t->n < 3 ? LS_OK : lsi_fail(LS_ERR_IO, "no more paper");
}

/* The model's next token after the last `n` tokens. */
static int64_t next_of(const ls_transformer *model, const int64_t *last,
                       int64_t n)
{
    ls_tape *tape = NULL;
    ls_tensor *tokens = NULL;
    assert_ok(ls_tensor_new(&tokens, LS_I64, 2, (const int64_t[]){1, n}));
    memcpy(tensor_data(tokens), last, (size_t)n * sizeof *last);
    assert_ok(ls_tape_new(&tape));
    ls_tensor *out = ls_transformer_forward(model, tape, tokens);
    float *row = (float *)tensor_data(out) + (n - 1) * little.vocabulary;
    const int64_t token =
        lsi_sample(row, little.vocabulary, &(lsi_sampling){0}, 0);
    ls_tape_free(&tape);
    ls_tensor_free(&tokens);
    return token;
}

/*
 * With keys and values kept, the model says what it says when shown the last
 * tokens; beyond its context with learned positions only those since it started
 * again.
 */
static void expect_what_the_model_says(const ls_transformer_config *config,
                                       int64_t tokens)
{
    ls_params *params = NULL;
    ls_transformer *model = NULL;
    text t = {{3, 1, 4}, 3};
    assert_ok(ls_params_new(&params));
    assert_ok(ls_transformer_new(&model, params, config));
    assert_ok(ls_params_allocate(params, NULL, 8));
    const int64_t prompt[] = {3, 1, 4};
    const lsi_prompt prompts[] = {{prompt, 3}};
    int seen = 2;
    const lsi_generation generation = {.prompts = prompts,
                                       .n_prompts = 1,
                                       .tokens = tokens,
                                       .emit = append,
                                       .context = &t};
    assert_ok(lsi_generate(model, &generation));
    assert_int_equal(t.n, 3 + tokens);
    for (int i = 3; i < t.n; i++) {
        seen = seen == 9 ? 9 / 2 + 1 : seen + 1;
        assert_int_equal(t.tokens[i],
                         next_of(model, t.tokens + i - seen, seen));
    }
    ls_transformer_free(&model);
    ls_params_free(&params);
}

static void tokens_are_what_the_model_says(void **state)
{
    (void)state;
    ls_transformer_config config = little;
    expect_what_the_model_says(&config, 6);
    config.rope_halves = true;
    expect_what_the_model_says(&config, 6);
    config.kind = LS_TRANSFORMER_LLAMA;
    config.kv_heads = 1;
    expect_what_the_model_says(&config, 6);
    config = little;
    config.kind = LS_TRANSFORMER_GPT2;
    expect_what_the_model_says(&config, 16);
}

static void a_limit_is_kept(void **state)
{
    (void)state;
    ls_params *params = NULL;
    ls_transformer *model = NULL;
    text t = {.n = 0};
    const int64_t prompt[] = {12};
    const lsi_prompt prompts[] = {{prompt, 1}};
    lsi_generation generation = {.prompts = prompts,
                                 .n_prompts = 1,
                                 .tokens = 30,
                                 .limit = 3,
                                 .sampling = {.temperature = 1e6},
                                 .emit = append,
                                 .context = &t};
    assert_ok(ls_params_new(&params));
    assert_ok(ls_transformer_new(&model, params, &little));
    assert_ok(ls_params_allocate(params, NULL, 8));
    assert_ok(lsi_generate(model, &generation));
    int64_t most = 0;
    for (int i = 0; i < 30; i++)
        most = t.tokens[i] > most ? t.tokens[i] : most;
    assert_int_equal(most, 2);
    t.n = 0;
    generation.limit = 256; /* more than there are */
    assert_ok(lsi_generate(model, &generation));
    for (int i = 0; i < 30; i++)
        most = t.tokens[i] > most ? t.tokens[i] : most;
    assert_in_range(most, 3, 12);
    ls_transformer_free(&model);
    ls_params_free(&params);
}

static void what_nobody_takes_is_not_drawn(void **state)
{
    (void)state;
    ls_params *params = NULL;
    ls_transformer *model = NULL;
    text t = {.n = 0};
    const int64_t prompt[] = {3};
    const lsi_prompt prompts[] = {{prompt, 1}};
    const lsi_generation generation = {.prompts = prompts,
                                       .n_prompts = 1,
                                       .tokens = 30,
                                       .emit = append_three,
                                       .context = &t};
    assert_ok(ls_params_new(&params));
    assert_ok(ls_transformer_new(&model, params, &little));
    assert_ok(ls_params_allocate(params, NULL, 8));
    assert_error(lsi_generate(model, &generation), LS_ERR_IO, "no more paper");
    assert_int_equal(t.n, 3);
    ls_transformer_free(&model);
    ls_params_free(&params);
}

static void logits_must_be_finite(void **state)
{
    (void)state;
    static const float values[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < TEST_COUNT(values); i++) {
        ls_params *params = NULL;
        ls_transformer *model = NULL;
        text t = {.n = 0};
        const int64_t prompt[] = {3};
        const lsi_prompt prompts[] = {{prompt, 1}};
        const lsi_generation generation = {.prompts = prompts,
                                           .n_prompts = 1,
                                           .tokens = 4,
                                           .emit = append,
                                           .context = &t};
        assert_ok(ls_params_new(&params));
        assert_ok(ls_transformer_new(&model, params, &little));
        assert_ok(ls_params_allocate(params, NULL, 8));
        ls_tensor *head = ls_params_get(params, ls_params_count(params) - 1);
        ((float *)tensor_data(head))[5 * little.d_model] = values[i];
        assert_error(lsi_generate(model, &generation), LS_ERR_FORMAT,
                     "logit of token 5 is");
        assert_int_equal(t.n, 0);
        ls_transformer_free(&model);
        ls_params_free(&params);
    }
}

/* Of any length; the first draws what it draws alone. */
static void prompts_do_not_mix(void **state)
{
    (void)state;
    ls_params *params = NULL;
    ls_transformer *model = NULL;
    static text together[3], alone;
    const int64_t a[] = {3, 1, 4}, b[20] = {2}, c[] = {3, 1, 4};
    const lsi_prompt prompts[] = {{a, 3}, {b, 20}, {c, 3}};
    lsi_generation generation = {.prompts = prompts,
                                 .n_prompts = 3,
                                 .tokens = 20,
                                 .sampling = {.temperature = 1, .seed = 5},
                                 .emit = append,
                                 .context = together};
    assert_ok(ls_params_new(&params));
    assert_ok(ls_transformer_new(&model, params, &little));
    assert_ok(ls_params_allocate(params, NULL, 8));
    assert_ok(lsi_generate(model, &generation));
    generation.n_prompts = 1;
    generation.context = &alone;
    assert_ok(lsi_generate(model, &generation));
    for (int i = 0; i < 3; i++)
        assert_int_equal(together[i].n, 20);
    assert_memory_equal(together[0].tokens, alone.tokens,
                        20 * sizeof alone.tokens[0]);
    assert_memory_not_equal(together[2].tokens, alone.tokens,
                            20 * sizeof alone.tokens[0]);
    ls_transformer_free(&model);
    ls_params_free(&params);
}

/* ---- prompts of several ranks -------------------------------------------- */

enum { PROMPTS = 5, DRAWN = 12 };

typedef struct divided {
    text texts[PROMPTS];
    int64_t end;    /* a token that ends a text; -1: none */
    int broken;     /* rank that cannot write; -1: none */
    ls_status each; /* result of every rank */
} divided;

static ls_status refuse(void *context, int64_t prompt, int64_t token)
{
    (void)context;
    return lsi_fail(LS_ERR_IO, "no paper for token %d of prompt %d", (int)token,
                    (int)prompt);
}

/* Prompt i begins with token i. Ranks may have none. */
static void draw_part(ls_group *group, void *context)
{
    divided *const all = context;
    ls_params *params = NULL;
    ls_transformer *model = NULL;
    int64_t tokens[PROMPTS];
    lsi_prompt prompts[PROMPTS];
    bool agreed = false;
    const int rank = ls_group_rank(group);
    for (int i = 0; i < PROMPTS; i++) {
        tokens[i] = i;
        prompts[i] = (lsi_prompt){&tokens[i], 1};
    }
    const lsi_range own =
        lsi_partition(PROMPTS, (size_t)ls_group_size(group), (size_t)rank);
    const lsi_generation generation = {
        .prompts = prompts + own.begin,
        .n_prompts = (int64_t)lsi_range_size(own),
        .first = (int64_t)own.begin,
        .tokens = DRAWN,
        .has_end = all->end >= 0,
        .end = all->end,
        .sampling = {.temperature = 1, .seed = 5},
        .emit = rank == all->broken ? refuse : append,
        .context = all->texts,
        .group = group,
        .agreed = &agreed};
    CHECK_OK(ls_params_new(&params));
    CHECK_OK(ls_transformer_new(&model, params, &little));
    CHECK_OK(ls_params_allocate(params, NULL, 8));
    CHECK(lsi_generate(model, &generation) == all->each);
    CHECK(agreed == (all->each != LS_OK));
    CHECK(!agreed || strstr(ls_last_error(), "no paper for token") != NULL);
    ls_transformer_free(&model);
    ls_params_free(&params);
}

static void ranks_divide_the_prompts(void **state)
{
    (void)state;
    static divided alone, together;
    lsi_threads_set(1);
    for (int64_t end = -1; end < 2; end++) {
        alone = (divided){.end = end, .broken = -1};
        run_threads(1, draw_part, &alone);
        for (int size = 2; size < 8; size++) {
            together = (divided){.end = end, .broken = -1};
            run_threads(size, draw_part, &together);
            for (int i = 0; i < PROMPTS; i++) {
                const text *const a = &alone.texts[i], *b = &together.texts[i];
                assert_int_equal(a->n, b->n);
                assert_memory_equal(a->tokens, b->tokens, sizeof(a->tokens));
            }
        }
    }
    together = (divided){.end = -1, .broken = 1, .each = LS_ERR_IO};
    run_threads(3, draw_part, &together);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_follow_the_logits),
        cmocka_unit_test(top_k_keeps_the_likeliest),
        cmocka_unit_test(top_k_is_its_definition),
        cmocka_unit_test(draws_are_a_function),
        cmocka_unit_test(tokens_are_what_the_model_says),
        cmocka_unit_test(a_limit_is_kept),
        cmocka_unit_test(what_nobody_takes_is_not_drawn),
        cmocka_unit_test(logits_must_be_finite),
        cmocka_unit_test(prompts_do_not_mix),
        cmocka_unit_test(ranks_divide_the_prompts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
