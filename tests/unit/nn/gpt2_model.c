/* See gpt2_model.h. */
#include "unit/nn/gpt2_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_D = 96, MAX_FF = 4 * MAX_D };

/* ---- the file ------------------------------------------------------------ */

/* An extent of -k is k times d. */
typedef struct row {
    const char *name;
    int ndim;
    int64_t shape[4];
} row;

static const row whole[] = {
    {"wte.weight", 2, {VOCABULARY, -1}},
    {"wpe.weight", 2, {CONTEXT, -1}},
    {"ln_f.weight", 1, {-1}},
    {"ln_f.bias", 1, {-1}},
    {"lm_head.weight", 2, {VOCABULARY, -1}}, /* has no prefix */
};

static const row layer[PER_LAYER] = {
    {"ln_1.weight", 1, {-1}},
    {"ln_1.bias", 1, {-1}},
    {"attn.bias", 4, {1, 1, CONTEXT, CONTEXT}}, /* masks */
    {"attn.masked_bias", 0, {0}},
    {"attn.c_attn.weight", 2, {-1, -3}},
    {"attn.c_attn.bias", 1, {-3}},
    {"attn.c_proj.weight", 2, {-1, -1}},
    {"attn.c_proj.bias", 1, {-1}},
    {"ln_2.weight", 1, {-1}},
    {"ln_2.bias", 1, {-1}},
    {"mlp.c_fc.weight", 2, {-1, -4}},
    {"mlp.c_fc.bias", 1, {-4}},
    {"mlp.c_proj.weight", 2, {-4, -1}},
    {"mlp.c_proj.bias", 1, {-1}},
};

/* Different everywhere, between -scale / 2 and scale / 2. */
static void fill(ls_tensor *tensor, uint32_t seed, float scale)
{
    float *x = tensor_data(tensor);
    uint32_t state = seed * 2654435761U + 1U;
    for (int64_t i = 0; i < ls_tensor_count(tensor); i++) {
        state = state * 1664525U + 1013904223U;
        x[i] = scale * ((float)(state >> 8) * 0x1p-24F - 0.5F);
    }
}

static void add(published *p, const char *before, const row *r)
{
    ls_named_tensor *item = &p->items[p->n];
    snprintf(p->names[p->n], NAME_BYTES, "%s%s%s",
             strncmp(r->name, "lm_head", 7) == 0 ? "" : p->prefix, before,
             r->name);
    item->name = p->names[p->n];
    int64_t shape[4];
    for (int i = 0; i < r->ndim; i++)
        shape[i] = r->shape[i] < 0 ? -r->shape[i] * p->form.d : r->shape[i];
    assert_ok(ls_tensor_new(&item->tensor, LS_F32, r->ndim, shape));
    /* Sums over a wide row are not larger than those over a narrow one. */
    fill(item->tensor, (uint32_t)p->n,
         r->ndim == 2 ? sqrtf(8.0F / (float)p->form.d) : 1.0F);
    p->n++;
}

void published_make(published *p, const char *prefix, form f)
{
    *p = (published){
        .form = f, .prefix = prefix, .folder = "/tmp/lockstep-gpt2-XXXXXX"};
    assert_non_null(mkdtemp(p->folder));
    snprintf(p->path, sizeof p->path, "%s/model.safetensors", p->folder);
    for (int i = 0; i < LAYERS; i++) {
        char before[16];
        snprintf(before, sizeof before, "h.%d.", i);
        for (size_t k = 0; k < PER_LAYER; k++)
            add(p, before, &layer[k]);
    }
    for (size_t k = 0; k < TEST_COUNT(whole); k++)
        add(p, "", &whole[k]);
    if (!f.untied) /* then it is a copy of wte */
        assert_ok(ls_tensor_copy(p->items[p->n - 1].tensor,
                                 p->items[p->n - TEST_COUNT(whole)].tensor));
}

void published_save(const published *p)
{
    static const char *const metadata[] = {"format", "pt", NULL};
    assert_ok(ls_safetensors_save(p->path, p->items, p->n, metadata));
}

void published_discard(published *p)
{
    for (size_t i = 0; i < p->n; i++)
        ls_tensor_free(&p->items[i].tensor);
    unlink(p->path);
    rmdir(p->folder);
}

ls_named_tensor *published_find(published *p, const char *name)
{
    char full[NAME_BYTES];
    snprintf(full, sizeof full, "%s%s", p->prefix, name);
    for (size_t i = 0; i < p->n; i++) {
        if (strcmp(p->items[i].name, full) == 0)
            return &p->items[i];
    }
    fail_msg("no %s", full);
    return NULL;
}

/* The head that the logits are made with. */
static const float *head_of(const published *p)
{
    return tensor_data(p->items[p->n - 1].tensor);
}

static const float *of(published *p, const char *name)
{
    return tensor_data(published_find(p, name)->tensor);
}

static const float *of_layer(published *p, int i, const char *name)
{
    char full[NAME_BYTES];
    snprintf(full, sizeof full, "h.%d.%s", i, name);
    return of(p, full);
}

/* ---- the model in double precision --------------------------------------- */

/* y = x W + b for every row, W (in, out). */
static void product(double *y, const double *x, const float *w, const float *b,
                    int in, int out)
{
    for (int t = 0; t < LENGTH; t++) {
        for (int o = 0; o < out; o++) {
            double sum = (double)b[o];
            for (int i = 0; i < in; i++)
                sum += x[t * in + i] * (double)w[i * out + o];
            y[t * out + o] = sum;
        }
    }
}

static void norm(const form *f, double *y, const double *x, const float *w,
                 const float *b)
{
    const int d = f->d;
    for (int t = 0; t < LENGTH; t++) {
        double mean = 0, variance = 0;
        for (int i = 0; i < d; i++)
            mean += x[t * d + i] / d;
        for (int i = 0; i < d; i++)
            variance += pow(x[t * d + i] - mean, 2) / d;
        for (int i = 0; i < d; i++)
            y[t * d + i] =
                (x[t * d + i] - mean) / sqrt(variance + f->eps) * (double)w[i] +
                (double)b[i];
    }
}

/* One head's row t; q, k and v of a place lie behind each other. */
static void attend_row(const form *f, double *o, const double *qkv, int t,
                       int head)
{
    const int all = f->d, d = all / f->heads, at = head * d;
    double weights[LENGTH], sum = 0;
    for (int s = 0; s <= t; s++) {
        double score = 0;
        for (int i = at; i < at + d; i++)
            score += qkv[t * 3 * all + i] * qkv[s * 3 * all + all + i];
        weights[s] = exp(score / sqrt((double)d));
        sum += weights[s];
    }
    for (int i = at; i < at + d; i++) {
        o[t * all + i] = 0;
        for (int s = 0; s <= t; s++)
            o[t * all + i] += weights[s] / sum * qkv[s * 3 * all + 2 * all + i];
    }
}

static void attend(published *p, int i, double *x)
{
    double y[LENGTH * MAX_D], qkv[LENGTH * 3 * MAX_D], o[LENGTH * MAX_D];
    const int d = p->form.d;
    norm(&p->form, y, x, of_layer(p, i, "ln_1.weight"),
         of_layer(p, i, "ln_1.bias"));
    product(qkv, y, of_layer(p, i, "attn.c_attn.weight"),
            of_layer(p, i, "attn.c_attn.bias"), d, 3 * d);
    for (int t = 0; t < LENGTH; t++)
        for (int head = 0; head < p->form.heads; head++)
            attend_row(&p->form, o, qkv, t, head);
    product(y, o, of_layer(p, i, "attn.c_proj.weight"),
            of_layer(p, i, "attn.c_proj.bias"), d, d);
    for (int k = 0; k < LENGTH * d; k++)
        x[k] += y[k];
}

/* GELU by the tanh that published models were trained with. */
static double gelu_new(double a)
{
    const double u = sqrt(2.0 / acos(-1.0)) * (a + 0.044715 * a * a * a);
    return 0.5 * a * (1.0 + tanh(u));
}

static void feed_forward(published *p, int i, double *x)
{
    double y[LENGTH * MAX_D], h[LENGTH * MAX_FF];
    const int d = p->form.d, ff = 4 * d;
    norm(&p->form, y, x, of_layer(p, i, "ln_2.weight"),
         of_layer(p, i, "ln_2.bias"));
    product(h, y, of_layer(p, i, "mlp.c_fc.weight"),
            of_layer(p, i, "mlp.c_fc.bias"), d, ff);
    for (int k = 0; k < LENGTH * ff; k++)
        h[k] = gelu_new(h[k]);
    product(y, h, of_layer(p, i, "mlp.c_proj.weight"),
            of_layer(p, i, "mlp.c_proj.bias"), ff, d);
    for (int k = 0; k < LENGTH * d; k++)
        x[k] += y[k];
}

int token_at(int t)
{
    return 5 * t % VOCABULARY;
}

void published_logits(published *p, double *logits)
{
    double x[LENGTH * MAX_D], y[LENGTH * MAX_D];
    const int d = p->form.d;
    const float *wte = of(p, "wte.weight"), *wpe = of(p, "wpe.weight");
    const float *head = head_of(p);
    for (int k = 0; k < LENGTH * d; k++)
        x[k] = (double)wte[token_at(k / d) * d + k % d] + (double)wpe[k];
    for (int i = 0; i < LAYERS; i++) {
        attend(p, i, x);
        feed_forward(p, i, x);
    }
    norm(&p->form, y, x, of(p, "ln_f.weight"), of(p, "ln_f.bias"));
    for (int t = 0; t < LENGTH; t++) {
        for (int v = 0; v < VOCABULARY; v++) {
            double *sum = &logits[t * VOCABULARY + v];
            *sum = 0;
            for (int i = 0; i < d; i++)
                *sum += y[t * d + i] * (double)head[v * d + i];
        }
    }
}
