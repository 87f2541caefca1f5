/*
 * Attention with portable bits: the same at every level, by every compiler and
 * on any number of threads, and for one query over kept keys.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "array/compute/attention/cached.h"
#include "array/compute/threads.h"
#include "array/kernels/kernels.h"
#include "base/hash.h"
#include "base/rng.h"
#include "lockstep/bits.h"
#include "problem.h"
#include "testing.h"

typedef struct expected {
    ls_attention_shape shape;
    uint64_t hash; /* of o, L, the saved rows, dq, dk, dv */
} expected;

/* Blocks that end inside a vector, a panel, a group and a tile. */
static const expected problems[] = {
    {{.batch = 1, .heads = 1, .queries = 1, .keys = 1, .d = 1},
     UINT64_C(0xbcdd37777a969a17)},
    {{.batch = 2,
      .heads = 2,
      .queries = 45,
      .keys = 45,
      .d = 20,
      .causal = true},
     UINT64_C(0x846584c1a0a92c0e)},
    {{.batch = 1,
      .heads = 2,
      .kv_heads = 1,
      .queries = 150,
      .keys = 203,
      .d = 64},
     UINT64_C(0xd3bbe032c39f8003)},
    {{.batch = 1,
      .heads = 3,
      .queries = 300,
      .keys = 300,
      .d = 32,
      .causal = true},
     UINT64_C(0x00f0f415a7066274)},
    {{.batch = 1,
      .heads = 1,
      .queries = 140,
      .keys = 130,
      .d = 130,
      .causal = true},
     UINT64_C(0xc79306de45f67592)},
};

/* Inputs that no call of the C library has made. */
static void fill_inputs(const problem *p)
{
    for (problem_array array = ARRAY_Q; array <= ARRAY_DOUT; array++) {
        float *x = p->data[array];
        for (size_t i = 0; i < p->counts[array]; i++) {
            const uint32_t bits = lsi_rng_u32((lsi_rng_key){3, array}, 0, i);
            x[i] = 4.0F * lsi_rng_unit_f32(bits) - 2.0F;
        }
    }
}

static problem problem_of(ls_attention_shape shape)
{
    problem p;
    assert_ok(ls_set_bits(LS_BITS_PORTABLE));
    problem_new(&p, shape, 1, 1);
    fill_inputs(&p);
    return p;
}

static uint64_t hash_of(const problem *p)
{
    uint64_t hash = LSI_HASH_START;
    size_t bytes;
    assert_ok(ls_attention_saved_bytes(&p->shape, LS_ATTENTION_FLASH, &bytes));
    for (problem_array array = ARRAY_O; array < ARRAY_COUNT; array++)
        hash = lsi_hash(hash, p->data[array], p->counts[array] * sizeof(float));
    return lsi_hash(hash, p->saved, bytes);
}

static void any_number_of_threads(void **state)
{
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < TEST_COUNT(problems); i++)
        for (int threads = 1; threads <= 3; threads++) {
            problem p = problem_of(problems[i].shape);
            lsi_threads_set(threads);
            problem_run(&p, LS_ATTENTION_FLASH);
            const uint64_t got = hash_of(&p);
            if (got != problems[i].hash) {
                print_message("problem %zu on %d threads: 0x%016" PRIx64 "\n",
                              i, threads, got);
                wrong++;
            }
            problem_free(&p);
        }
    assert_int_equal(wrong, 0);
}

enum { N = 300, D = 64 };

/* One head whose queries are its keys, after its forward pass. */
static problem trained(void)
{
    problem p = problem_of((ls_attention_shape){.batch = 1,
                                                .heads = 1,
                                                .queries = N,
                                                .keys = N,
                                                .d = D,
                                                .causal = true});
    problem_run(&p, LS_ATTENTION_FLASH);
    return p;
}

/* A query over the keys that it saw in training gets the bits of training. */
static void one_query_over_kept_keys(void **state)
{
    (void)state;
    problem p = trained();
    const float *q = p.data[ARRAY_Q], *o = p.data[ARRAY_O];
    float scores[N], got[D];
    for (size_t i = 0; i < N; i++) {
        lsi_kernels_get()->attend(got, scores, q + i * D, p.data[ARRAY_K],
                                  p.data[ARRAY_V], i + 1, D, 0.125F);
        assert_memory_equal(got, o + i * D, sizeof got);
    }
    problem_free(&p);
}

/* So do the queries of a piece of any length, at any place. */
static void a_piece_over_kept_keys(void **state)
{
    (void)state;
    static float got[N * D], saved[N * LSI_ATTENTION_SAVED];
    problem p = trained();
    const float *q = p.data[ARRAY_Q], *o = p.data[ARRAY_O];
    for (size_t first = 0; first < N; first += 37) {
        const size_t rows = first % 2 == 0 ? N - first : 5 < N - first ? 5 : 1;
        const ls_attention_shape shape = {.batch = 1,
                                          .heads = 1,
                                          .queries = (int64_t)rows,
                                          .keys = (int64_t)(first + rows),
                                          .d = D,
                                          .causal = true};
        assert_ok(lsi_attention_from(
            &shape, first, (lsi_attention_part){got, saved}, q + first * D,
            p.data[ARRAY_K], p.data[ARRAY_V]));
        assert_memory_equal(got, o + first * D, rows * D * sizeof(float));
    }
    problem_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_threads),
        cmocka_unit_test(one_query_over_kept_keys),
        cmocka_unit_test(a_piece_over_kept_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
