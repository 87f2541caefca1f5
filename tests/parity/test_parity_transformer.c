/*
 * Transformers and their operations against PyTorch's in double precision
 * (make_transformer_vectors.py).
 */
#include <math.h>
#include <stdio.h>

#include "lockstep/transformer.h"
#include "parity.h"

static const double eps = 1e-5;

/* ---- operations ---------------------------------------------------------- */

static void embedding(void **state)
{
    (void)state;
    operation op = begin("embedding");
    add_input(&op, 2, (const int64_t[]){11, 6}, 1.0F);
    ls_tensor *indices = labels(2, 20, 11);
    finish(&op, ls_embedding(op.tape, op.in[0], indices),
           (const double[]){1, 5});
    ls_tensor_free(&indices);
    end(&op);
}

/* A sum over the row, another on the way back, one over the rows. */
static void norms(void **state)
{
    (void)state;
    const int64_t features = 40;
    operation op = begin("rms_norm");
    add_input(&op, 2, (const int64_t[]){9, 40}, 1.0F);
    add_input(&op, 1, &features, 1.0F);
    finish(&op, ls_rms_norm(op.tape, op.in[0], op.in[1], eps),
           (const double[]){40, 80, 49});
    end(&op);
    op = begin("layer_norm");
    add_input(&op, 2, (const int64_t[]){9, 40}, 1.0F);
    add_input(&op, 1, &features, 1.0F);
    add_input(&op, 1, &features, 1.0F);
    finish(&op, ls_layer_norm(op.tape, op.in[0], op.in[1], op.in[2], eps),
           (const double[]){80, 160, 89, 9});
    end(&op);
}

enum { ROWS = 7, D = 8 };

static ls_tensor *table(double (*of)(double))
{
    ls_tensor *out = NULL;
    assert_ok(ls_tensor_new(&out, LS_F32, 2, (const int64_t[]){ROWS, D / 2}));
    float *data = tensor_data(out);
    for (int i = 0; i < ROWS * D / 2; i++) {
        const int row = i / (D / 2), pair = i % (D / 2);
        data[i] = (float)of(row * pow(10000.0, -2.0 * pair / D));
    }
    return out;
}

static void rotation(const char *name, bool halves)
{
    operation op = begin(name);
    ls_tensor *cosine = table(cos), *sine = table(sin);
    add_input(&op, 4, (const int64_t[]){2, ROWS, 3, D}, 1.0F);
    finish(&op,
           ls_rope(op.tape, op.in[0], cosine, sine,
                   halves ? LS_ROPE_PAIRS_TO_HALVES : LS_ROPE_PAIRS),
           (const double[]){2, 2});
    ls_tensor_free(&cosine);
    ls_tensor_free(&sine);
    end(&op);
}

static void rotations(void **state)
{
    (void)state;
    rotation("rope", false);
    rotation("rope_halves", true);
}

static void activations(void **state)
{
    (void)state;
    operation op = begin("swiglu");
    add_input(&op, 2, (const int64_t[]){5, 33}, 8.0F);
    add_input(&op, 2, (const int64_t[]){5, 33}, 1.0F);
    finish(&op, ls_swiglu(op.tape, op.in[0], op.in[1]),
           (const double[]){4, 4, 4});
    end(&op);
    op = begin("gelu");
    add_input(&op, 2, (const int64_t[]){5, 33}, 8.0F);
    finish(&op, ls_gelu(op.tape, op.in[0]), (const double[]){4, 4});
    end(&op);
}

/* ---- whole models -------------------------------------------------------- */

enum { BATCH = 2, LENGTH = 9, VOCABULARY = 23 };

static const ls_transformer_config tiny = {.vocabulary = VOCABULARY,
                                           .context = 12,
                                           .d_model = 16,
                                           .d_ff = 24,
                                           .layers = 2,
                                           .heads = 2};

/*
 * Lengths of consecutive sums: d or 24 products in each of 14 matrices, sums
 * over d in 5 norms, and 9 keys twice. Backward has the same and one more over
 * the 18 places, or the vocabulary.
 */
static double depth_of(const ls_transformer_config *c)
{
    const double widest = (double)(c->d_model > c->d_ff ? c->d_model : c->d_ff);
    return 14 * widest + 5 * (double)c->d_model + 2 * 2 * LENGTH;
}

/* The scale of the distribution of a parameter in make_transformer_vectors.py.
 */
static float scale_of(ls_transformer_kind kind, const char *name, int ndim)
{
    const bool bias = strstr(name, ".bias") != NULL;
    const bool whole = kind == LS_TRANSFORMER_ROPE &&
                       strcmp(name, "token_embeddings.weight") == 0;
    return whole || (ndim == 1 && !bias) ? 1.0F : 0.25F;
}

typedef struct network {
    ls_params *params;
    ls_transformer *model;
} network;

static network open_network(const ls_transformer_config *config)
{
    network net = {0};
    assert_ok(ls_params_new(&net.params));
    assert_ok(ls_transformer_new(&net.model, net.params, config));
    assert_ok(ls_params_allocate(net.params, NULL, 0));
    for (size_t i = 0; i < ls_params_count(net.params); i++) {
        ls_tensor *p = ls_params_get(net.params, i);
        fill(p, 100 + i,
             scale_of(config->kind, ls_params_name(net.params, i),
                      ls_tensor_ndim(p)));
    }
    return net;
}

static void close_network(network *net)
{
    ls_transformer_free(&net->model);
    ls_params_free(&net->params);
}

static void check_network(const char *name, const ls_transformer_config *config)
{
    network net = open_network(config);
    const double deep = depth_of(config);
    ls_tape *tape = NULL;
    char line[96];
    assert_ok(ls_tape_new(&tape));
    ls_tensor *tokens = labels(50, BATCH * LENGTH, VOCABULARY);
    ls_tensor *targets = labels(51, BATCH * LENGTH, VOCABULARY);
    ls_tensor *ids = ls_reshape(tape, tokens, 2, (int64_t[]){BATCH, LENGTH});
    ls_tensor *logits = ls_transformer_forward(net.model, tape, ids);
    ls_tensor *rows = ls_reshape(tape, logits, 2, (int64_t[]){-1, VOCABULARY});
    ls_tensor *loss = ls_cross_entropy(tape, rows, targets, NULL);
    assert_ok(ls_backward(tape, loss, 1.0));
    snprintf(line, sizeof line, "%s.logits", name);
    check(line, logits, deep);
    snprintf(line, sizeof line, "%s.loss", name);
    check(line, loss, deep + VOCABULARY);
    for (size_t i = 0; i < ls_params_count(net.params); i++) {
        snprintf(line, sizeof line, "%s.d%s", name,
                 ls_params_name(net.params, i));
        check(line, ls_grad(ls_params_get(net.params, i)),
              2 * deep + VOCABULARY + BATCH * LENGTH);
    }
    ls_tape_free(&tape);
    ls_tensor_free(&tokens);
    ls_tensor_free(&targets);
    close_network(&net);
}

static void rope_model(void **state)
{
    (void)state;
    check_network("rope_model", &tiny);
    ls_transformer_config config = tiny;
    config.norm_eps = 1e-2;
    check_network("rope_eps_model", &config);
}

static void gpt2_model(void **state)
{
    (void)state;
    ls_transformer_config config = tiny;
    config.kind = LS_TRANSFORMER_GPT2;
    check_network("gpt2_model", &config);
    config.d_model = 96;
    config.heads = 3;
    config.norm_eps = 1e-2;
    config.untied_head = true;
    check_network("gpt2_own_model", &config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embedding),           cmocka_unit_test(norms),
        cmocka_unit_test(rotations),           cmocka_unit_test(activations),
        cmocka_unit_test(rope_model),          cmocka_unit_test(gpt2_model),
        cmocka_unit_test(every_line_was_read),
    };
    return run_with_vectors(tests);
}
