/* Gradient checks of attention: both methods, both layouts, grouped heads. */
#include <math.h>

#include "gradcheck.h"
#include "lockstep/attention.h"

enum { HEADS = 2, QUERIES = 5, KEYS = 6, D = 4 };

/* Steps in elements from head to head and from row to row. */
typedef struct layout {
    int q_head, q_row, k_row;
} layout;

static const layout inside = {QUERIES * D, D, D};
static const layout outside = {D, HEADS *D, D};

static void query_row(double *y, const double *q, const double *k,
                      const double *v, layout at, int keys)
{
    double p[KEYS], sum = 0.0;
    for (int j = 0; j < keys; j++) {
        double s = 0.0;
        for (int c = 0; c < D; c++)
            s += q[c] * k[j * at.k_row + c];
        p[j] = exp(s / sqrt(D));
        sum += p[j];
    }
    for (int c = 0; c < D; c++) {
        y[c] = 0.0;
        for (int j = 0; j < keys; j++)
            y[c] += p[j] / sum * v[j * at.k_row + c];
    }
}

/* Two query heads that share one key head. */
static void attend(double *y, const double *const *in, layout at, bool causal)
{
    for (int h = 0; h < HEADS; h++) {
        for (int i = 0; i < QUERIES; i++) {
            const int row = h * at.q_head + i * at.q_row;
            query_row(y + row, in[0] + row, in[1], in[2], at,
                      causal ? i + 1 : KEYS);
        }
    }
}

#define CASE(name, layout_, ...)                                               \
    static ls_tensor *run_##name(ls_tape *tape, ls_tensor *const *in, int use) \
    {                                                                          \
        (void)use;                                                             \
        return ls_attention(tape, in[0], in[1], in[2],                         \
                            &(ls_attention_options){__VA_ARGS__});             \
    }                                                                          \
    static void ref_##name(double *y, const double *const *in, int use)        \
    {                                                                          \
        (void)use;                                                             \
        attend(y, in, layout_, (ls_attention_options){__VA_ARGS__}.causal);    \
    }

CASE(flash, inside, .method = LS_ATTENTION_FLASH)
CASE(flash_causal, outside, .method = LS_ATTENTION_FLASH, .causal = true,
     .rows_outside = true)
CASE(naive, inside, .method = LS_ATTENTION_NAIVE, .causal = true)
CASE(naive_outside, outside, .method = LS_ATTENTION_NAIVE, .rows_outside = true)

/*
 * The longest sum is over the queries of both heads; what is summed are
 * products of a probability, a difference of two sums over d, and an input.
 */
#define BOUND .terms = HEADS * QUERIES, .gain = D

#define INSIDE                                                                 \
    .n_inputs = 3, .in = {{4, {1, HEADS, QUERIES, D}, FILL_UNIFORM},           \
                          {4, {1, 1, KEYS, D}, FILL_UNIFORM},                  \
                          {4, {1, 1, KEYS, D}, FILL_UNIFORM}}
#define OUTSIDE                                                                \
    .n_inputs = 3, .in = {{4, {1, QUERIES, HEADS, D}, FILL_UNIFORM},           \
                          {4, {1, KEYS, 1, D}, FILL_UNIFORM},                  \
                          {4, {1, KEYS, 1, D}, FILL_UNIFORM}}
#define FUNCTIONS(name) .run = run_##name, .reference = ref_##name

const gradcheck_case gradcheck_attention[] = {
    {"attention", "flash", INSIDE, FUNCTIONS(flash), BOUND},
    {"attention", "flash causal", OUTSIDE, FUNCTIONS(flash_causal), BOUND},
    {"attention", "naive causal", INSIDE, FUNCTIONS(naive), BOUND},
    {"attention", "naive", OUTSIDE, FUNCTIONS(naive_outside), BOUND},
};
const size_t gradcheck_attention_count = TEST_COUNT(gradcheck_attention);
