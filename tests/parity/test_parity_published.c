/*
 * Models in folders as Hugging Face's transformers write them, against what
 * transformers compute from them in double precision
 * (make_published_vectors.py): logits, the loss and every gradient. Half
 * weights give the same, widened or as they are.
 */
#include <math.h>
#include <stdio.h>

#include "lockstep/transformer.h"
#include "model/nets/lm.h"
#include "model/nn/transformer.h"
#include "parity.h"

enum { BATCH = 2, LENGTH = 11 };

/*
 * Lengths of consecutive sums: the widest of products in each of 14 matrices,
 * sums over d in 5 norms, and the keys twice. Backward has the same and one
 * more over the places, or the vocabulary. A head and its angles are a few
 * more.
 */
static double depth_of(const ls_transformer_config *c)
{
    const double widest = (double)(c->d_model > c->d_ff ? c->d_model : c->d_ff);
    return 14 * widest + 5 * (double)c->d_model + 2 * 2 * LENGTH + 16;
}

static const char *folder(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", PUBLISHED, name);
    return path;
}

static ls_tensor *ids_of(ls_tensor *flat)
{
    ls_tensor *ids = NULL;
    assert_ok(ls_tensor_view(flat, 2, (const int64_t[]){BATCH, LENGTH}, &ids));
    return ids;
}

static void check_gradients(const char *name, ls_params *params, double deep,
                            int64_t vocabulary)
{
    char line[96];
    for (size_t i = 0; i < ls_params_count(params); i++) {
        snprintf(line, sizeof line, "%s.d%s", name, ls_params_name(params, i));
        check(line, ls_grad(ls_params_get(params, i)),
              2 * deep + (double)vocabulary + BATCH * LENGTH);
    }
}

/* As training has it; returns a copy of the logits. */
static ls_tensor *check_model(const char *name,
                              const ls_transformer_config *config)
{
    ls_params *params = NULL;
    ls_transformer *model = NULL;
    ls_tape *tape = NULL;
    ls_tensor *kept = NULL;
    char line[96];
    const double deep = depth_of(config);
    const int64_t v = config->vocabulary;
    assert_ok(ls_params_new(&params));
    assert_ok(ls_transformer_new(&model, params, config));
    assert_ok(ls_params_allocate(params, NULL, 0));
    assert_ok(ls_transformer_load(model, folder(name)));
    assert_ok(ls_tape_new(&tape));
    ls_tensor *tokens = labels(50, BATCH * LENGTH, v), *ids = ids_of(tokens);
    ls_tensor *targets = labels(51, BATCH * LENGTH, v);
    ls_tensor *logits = ls_transformer_forward(model, tape, ids);
    ls_tensor *rows = ls_reshape(tape, logits, 2, (int64_t[]){-1, v});
    ls_tensor *loss = ls_cross_entropy(tape, rows, targets, NULL);
    assert_ok(ls_backward(tape, loss, 1.0));
    snprintf(line, sizeof line, "%s.logits", name);
    check(line, logits, deep);
    snprintf(line, sizeof line, "%s.loss", name);
    check(line, loss, deep + (double)v);
    check_gradients(name, params, deep, v);
    assert_ok(ls_tensor_new(&kept, LS_F32, 3, ls_tensor_shape(logits)));
    assert_ok(ls_tensor_copy(kept, logits));
    ls_tape_free(&tape);
    ls_tensor_free(&ids);
    ls_tensor_free(&tokens);
    ls_tensor_free(&targets);
    ls_transformer_free(&model);
    ls_params_free(&params);
    return kept;
}

static void expect_close(const ls_tensor *got, const float *want, double bound)
{
    const float *x = tensor_data(got);
    for (int64_t i = 0; i < ls_tensor_count(got); i++)
        if (fabs((double)x[i] - (double)want[i]) > bound)
            fail_msg("logit %lld is %.9g, not %.9g", (long long)i, (double)x[i],
                     (double)want[i]);
}

/* Weights in the file's types: all logits, and the last by a cache. */
static void check_kept(const char *name, const ls_transformer_config *config,
                       const ls_tensor *wanted)
{
    lsi_lm lm;
    ls_tape *tape = NULL;
    ls_transformer_cache *cache = NULL;
    const int64_t v = config->vocabulary;
    const float *want = tensor_data(wanted);
    double largest = 0;
    for (int64_t i = 0; i < ls_tensor_count(wanted); i++)
        largest = fmax(largest, fabs((double)want[i]));
    const double bound = 16 * sqrt(depth_of(config)) * 0x1p-24 * largest;
    ls_tensor *tokens = labels(50, BATCH * LENGTH, v), *ids = ids_of(tokens);
    assert_ok(lsi_lm_open(&lm, config, folder(name)));
    assert_ok(ls_tape_new(&tape));
    ls_tape_set_training(tape, false);
    expect_close(ls_transformer_forward(lm.transformer, tape, ids), want,
                 bound);
    assert_ok(ls_transformer_cache_new(&cache, lm.transformer, BATCH, 0));
    for (int64_t t = 0; t < LENGTH; t += t == 0 ? 4 : 1) {
        const int64_t end = t == 0 ? 4 : t + 1;
        ls_tensor *last = ls_transformer_extend(
            lm.transformer, tape, cache, 0, ls_narrow(tape, ids, 1, t, end));
        assert_ok(ls_tape_status(tape));
        for (int64_t b = 0; b < BATCH; b++)
            expect_close(ls_narrow(tape, last, 0, b, b + 1),
                         want + (b * LENGTH + end - 1) * v, bound);
    }
    ls_transformer_cache_free(&cache);
    ls_tape_free(&tape);
    ls_tensor_free(&ids);
    ls_tensor_free(&tokens);
    lsi_lm_free(&lm);
}

static void check_folder(const char *name)
{
    ls_transformer_config config = LS_TRANSFORMER_CONFIG_INIT;
    assert_ok(ls_transformer_read_config(folder(name), &config));
    ls_tensor *logits = check_model(name, &config);
    check_kept(name, &config, logits);
    ls_tensor_free(&logits);
}

static void llama(void **state)
{
    (void)state;
    check_folder("llama_groups");
    check_folder("llama_tied");
    check_folder("llama_linear");
    check_folder("llama_llama3");
    check_folder("llama_f16");
}

static void gpt2(void **state)
{
    (void)state;
    check_folder("gpt2");
    check_folder("gpt2_bf16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama),
        cmocka_unit_test(gpt2),
        cmocka_unit_test(every_line_was_read),
    };
    return run_with_vectors(tests);
}
