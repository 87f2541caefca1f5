/*
 * Portable bits: each kernel whose bits vary with the level, at every level of
 * the machine. Its results are hashed and the hashes compared with those that
 * are written here, which every compiler and every processor must get.
 */
#include <inttypes.h>
#include <stdio.h>

#include "array/kernels/portable_gemm.h"
#include "base/hash.h"
#include "harness.h"
#include "lockstep/bits.h"
#include "testing.h"

/* Random numbers in [-1, 1) without a call of the C library. */
static float *philox(size_t n, uint64_t stream, float size, float offset)
{
    float *x = floats(n);
    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = lsi_rng_u32((lsi_rng_key){1, stream}, 0, i);
        x[i] = offset + size * (2.0F * lsi_rng_unit_f32(bits) - 1.0F);
    }
    return x;
}

static void add_floats(uint64_t *hash, const float *x, size_t n)
{
    *hash = lsi_hash(*hash, x, n * sizeof *x);
}

/* n elements; `offset` is large for what subtracts a mean or a maximum. */
typedef struct input {
    const lsi_kernels *k;
    size_t n, rows; /* of n elements each */
    float offset;
    float *x, *a, *b, *c, *weight, *y, *z, *row;
} input;

static input input_of(const lsi_kernels *k, size_t n, float offset)
{
    const size_t rows = 3, all = rows * n;
    return (input){.k = k,
                   .n = n,
                   .rows = rows,
                   .offset = offset,
                   .x = philox(all, 1, 4, offset),
                   .a = philox(all, 2, 4, 0),
                   .b = philox(all, 3, 2, 0),
                   .c = philox(rows, 4, 1, offset),
                   .weight = philox(n, 5, 1, 0.5F),
                   .y = philox(all, 6, 1, 0),
                   .z = philox(all, 7, 1, 0),
                   .row = philox(n, 8, 1, 0)};
}

#define UNARY(name)                                                            \
    static void do_##name(const input *i, uint64_t *h)                         \
    {                                                                          \
        i->k->name(i->y, i->x, i->n);                                          \
        add_floats(h, i->y, i->n);                                             \
    }
#define BINARY(name)                                                           \
    static void do_##name(const input *i, uint64_t *h)                         \
    {                                                                          \
        i->k->name(i->y, i->a, i->b, i->n);                                    \
        add_floats(h, i->y, i->n);                                             \
    }
#define TOTAL(name)                                                            \
    static void do_##name(const input *i, uint64_t *h)                         \
    {                                                                          \
        double out;                                                            \
        i->k->name(&out, i->x, i->n);                                          \
        *h = lsi_hash(*h, &out, sizeof out);                                   \
    }
#define TOTAL_2(name)                                                          \
    static void do_##name(const input *i, uint64_t *h)                         \
    {                                                                          \
        double out;                                                            \
        i->k->name(&out, i->x, i->a, i->n);                                    \
        *h = lsi_hash(*h, &out, sizeof out);                                   \
    }
#define ROWS(name)                                                             \
    static void do_##name(const input *i, uint64_t *h)                         \
    {                                                                          \
        i->k->name(i->y, i->x, i->rows, i->n);                                 \
        add_floats(h, i->y, i->rows * i->n);                                   \
    }
#define ROWS_2(name)                                                           \
    static void do_##name(const input *i, uint64_t *h)                         \
    {                                                                          \
        i->k->name(i->y, i->a, i->b, i->rows, i->n);                           \
        add_floats(h, i->y, i->rows * i->n);                                   \
    }
UNARY(exp)
UNARY(tanh)
UNARY(sigmoid)
UNARY(gelu)
BINARY(swiglu)
BINARY(tanh_backward)
BINARY(sigmoid_backward)
TOTAL(sum)
TOTAL(row_sum)
TOTAL_2(squared_distance)
TOTAL_2(bce_with_logits)
ROWS(softmax)
ROWS(log_softmax)
ROWS_2(softmax_backward)
ROWS_2(log_softmax_backward)

static void do_log(const input *i, uint64_t *h)
{
    for (size_t j = 0; j < i->n; j++)
        i->y[j] = i->a[j] < 0 ? -i->a[j] : i->a[j];
    i->k->log(i->y, i->y, i->n);
    add_floats(h, i->y, i->n);
}

static void do_max(const input *i, uint64_t *h)
{
    float out;
    i->k->max(&out, i->x, i->n);
    add_floats(h, &out, 1);
}

static void do_swiglu_backward(const input *i, uint64_t *h)
{
    i->k->swiglu_backward(i->y, i->z, i->weight, i->a, i->b, i->n);
    add_floats(h, i->y, i->n);
    add_floats(h, i->z, i->n);
}

static void do_gelu_backward(const input *i, uint64_t *h)
{
    i->k->gelu_backward(i->y, i->b, i->a, i->n, true);
    add_floats(h, i->y, i->n);
}

static void do_bce_with_logits_backward(const input *i, uint64_t *h)
{
    i->k->bce_with_logits_backward(i->y, i->a, i->b, 0.75F, i->n);
    add_floats(h, i->y, i->n);
}

static void do_normalize_rows(const input *i, uint64_t *h)
{
    for (int centred = 0; centred < 2; centred++) {
        float mean[3] = {0}, inv_std[3] = {0};
        i->k->normalize_rows(i->y, centred ? mean : NULL, inv_std, i->x,
                             i->weight, centred ? i->row : NULL, i->rows, i->n,
                             1e-5F);
        add_floats(h, i->y, i->rows * i->n);
        /* Else NaN, whose sign differs between x86 and ARM. */
        if (i->n > 0) {
            add_floats(h, mean, 3);
            add_floats(h, inv_std, 3);
        }
    }
}

static void do_normalize_rows_backward(const input *i, uint64_t *h)
{
    float *dbias = floats(i->n);
    for (int centred = 0; centred < 2; centred++) {
        const float inv_std[3] = {0.25F, 1.0F, 3.0F};
        i->k->normalize_rows_backward(i->y, i->row, centred ? dbias : NULL,
                                      i->b, i->x, centred ? i->c : NULL,
                                      inv_std, i->weight, i->rows, i->n, true);
        add_floats(h, i->y, i->rows * i->n);
        add_floats(h, i->row, i->n);
    }
    add_floats(h, dbias, i->n);
}

static void do_row_products(const input *i, uint64_t *h)
{
    const size_t rows = 21; /* more than a vector of them */
    float *w = philox(rows * i->n, 9, 1, 0);
    i->k->row_products(i->y, i->x, w, LS_F32, i->n > 0 ? i->rows : 0, i->n);
    add_floats(h, i->y, i->n > 0 ? i->rows : 0);
    float *out = floats(rows);
    i->k->row_products(out, i->a, w, LS_F32, rows, i->n);
    add_floats(h, out, rows);
}

static void do_attend(const input *i, uint64_t *h)
{
    static const size_t keys[] = {0, 1, 37, 300};
    const size_t d = i->n < 200 ? i->n : 0;
    float *scores = floats(300), *out = floats(d);
    for (size_t t = 0; t < TEST_COUNT(keys) && d > 0; t++) {
        const float *k = philox(keys[t] * d, 10, 1, 0);
        const float *v = philox(keys[t] * d, 11, 1, 0);
        i->k->attend(out, scores, i->a, k, v, keys[t], d, 0.125F);
        add_floats(h, out, d);
    }
}

static void do_cross_entropy(const input *i, uint64_t *h)
{
    const int64_t labels[3] = {0, (int64_t)i->n - 1, (int64_t)i->n / 2};
    for (int smooth = 0; smooth < 2 && i->n > 0; smooth++) {
        float loss[3];
        lsi_softmax_row saved[3];
        i->k->cross_entropy(loss, saved, i->x, labels, 0.125 * smooth, i->rows,
                            i->n);
        add_floats(h, loss, 3);
        *h = lsi_hash(*h, saved, sizeof saved);
    }
}

static void do_cross_entropy_backward(const input *i, uint64_t *h)
{
    const int64_t labels[3] = {0, (int64_t)i->n - 1, (int64_t)i->n / 2};
    const float max = i->offset + 4.0F;
    const lsi_softmax_row saved[3] = {{max, 0.5F}, {max, 0.25F}, {max, 0.1F}};
    for (int smooth = 0; smooth < 2 && i->n > 0; smooth++) {
        i->k->cross_entropy_backward(i->y, i->x, saved, labels, 0.125 * smooth,
                                     0.3F, i->rows, i->n, smooth);
        add_floats(h, i->y, i->rows * i->n);
    }
}

typedef struct kernel {
    const char *name;
    void (*run)(const input *i, uint64_t *h);
    uint64_t want;
} kernel;

/* Hashes do not change unless a kernel's arithmetic does. */
static const kernel kernels[] = {
#define HASH(name, want) {#name, do_##name, UINT64_C(want)},
#include "portable_hashes.inc"
#undef HASH
};

static uint64_t hash_of(const lsi_kernels *k, const kernel *what)
{
    static const float offsets[] = {0.0F, 100.0F, -3000.0F};
    uint64_t hash = LSI_HASH_START;
    for (size_t l = 0; l < test_length_count; l++)
        for (size_t o = 0; o < TEST_COUNT(offsets); o++) {
            const input i = input_of(k, test_lengths[l], offsets[o]);
            what->run(&i, &hash);
            release_all();
        }
    return hash;
}

static void levels_give_these_bits(void **state)
{
    (void)state;
    int wrong = 0;
    for (int isa = 0; isa < LSI_ISA_COUNT; isa++) {
        lsi_kernels table;
        if (lsi_kernels_portable_at((lsi_isa)isa, &table) != LS_OK)
            continue;
        for (size_t i = 0; i < TEST_COUNT(kernels); i++) {
            const uint64_t got = hash_of(&table, &kernels[i]);
            if (got == kernels[i].want)
                continue;
            print_message("at %s: HASH(%s, 0x%016" PRIx64 ")\n",
                          lsi_isa_name((lsi_isa)isa), kernels[i].name, got);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

static void expect_chains(const lsi_kernels *k, size_t n, size_t rows,
                          size_t cols)
{
    const size_t ld_y = rows + 1;
    const float *x = philox(n * cols, 1, 4, 0);
    const float *w = philox(rows * cols, 2, 2, 0);
    float *got = philox(n * ld_y, 3, 1, 0), *want = philox(n * ld_y, 3, 1, 0);
    lsi_ref_row_chains(want, ld_y, x, n, w, rows, cols);
    k->portable->row_chains(got, ld_y, x, n, w, rows, cols);
    expect_same(got, want, n * ld_y, "row_chains");
    release_all();
}

/* Some rows of x are multiplied at once; the bits are those of one. */
static void few_rows_are_products_of_one(void **state)
{
    static const size_t all_rows[] = {1, 7, 8, 9, 24, 49};
    static const size_t all_cols[] = {1, 9, 255, 256, 512, 513, 771};
    (void)state;
    for (int isa = 0; isa < LSI_ISA_COUNT; isa++) {
        lsi_kernels table;
        if (lsi_kernels_portable_at((lsi_isa)isa, &table) != LS_OK)
            continue;
        for (size_t n = 1; n <= 6; n++)
            for (size_t r = 0; r < TEST_COUNT(all_rows); r++)
                for (size_t c = 0; c < TEST_COUNT(all_cols); c++)
                    expect_chains(&table, n, all_rows[r], all_cols[c]);
    }
}

/* Each row that varies has a hash, and the levels replace the reference. */
static void no_kernel_is_left_out(void **state)
{
    (void)state;
    lsi_kernels portable;
    assert_ok(lsi_kernels_portable_at(LSI_ISA_REF, &portable));
    size_t varying = 0;
#define X(...)
#define VARIES(name, args)                                                     \
    varying++;                                                                 \
    assert_true(portable.name != reference()->name);
#include "array/kernels/kernels.def"
#undef X
    assert_int_equal(varying, TEST_COUNT(kernels));
}

static void the_process_asks_for_them(void **state)
{
    (void)state;
    assert_ok(ls_set_bits(LS_BITS_FAST));
    const lsi_kernels *fast = lsi_kernels_get();
    assert_ok(ls_set_bits(LS_BITS_PORTABLE));
    const lsi_kernels *portable = lsi_kernels_get();
    assert_true(fast->row_products != portable->row_products);
    assert_true(fast->add == portable->add);
    assert_null(portable->panels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_give_these_bits),
        cmocka_unit_test(few_rows_are_products_of_one),
        cmocka_unit_test(no_kernel_is_left_out),
        cmocka_unit_test(the_process_asks_for_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
