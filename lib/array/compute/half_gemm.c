/*
 * Blocks of C, each from all terms of its sums, so that the order of a sum
 * does not depend on how large the blocks are. They bound the memory, which
 * the thread keeps for its next product.
 */
#include "array/compute/half_gemm.h"

#include "array/compute/copy.h"
#include "array/compute/plan_cache.h"
#include "base/error.h"

/* Numbers of each matrix that are f32 at a time: 16 MiB. */
static const int64_t most_numbers = (int64_t)4 << 20;

static const lsi_plan_kind memory_kind =
    LSI_WORKSPACE_KIND("matrices converted to f32");

/* ---- blocks -------------------------------------------------------------- */

/* A matrix as stored in memory; only C is written to. */
typedef struct stored {
    const void *data;
    ls_dtype dtype;
    int64_t ld;
} stored;

static stored part_of(stored matrix, int64_t row, int64_t col)
{
    const int64_t first = row * matrix.ld + col;
    matrix.data = (const char *)matrix.data +
                  first * (int64_t)ls_dtype_size(matrix.dtype);
    return matrix;
}

static void convert(stored to, stored from, int64_t rows, int64_t cols)
{
    const int64_t extents[] = {rows, cols};
    const lsi_strided out = {(void *)(uintptr_t)to.data, to.dtype, {to.ld, 1}};
    const lsi_strided in = {
        (void *)(uintptr_t)from.data, from.dtype, {from.ld, 1}};
    lsi_copy_strided(&out, &in, 2, extents);
}

/* In f32, dense, at `place`. */
static void widen(float *place, stored from, int64_t rows, int64_t cols)
{
    convert((stored){place, LS_F32, cols}, from, rows, cols);
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/*
 * Lines of a block, of `all` lines of this many numbers. If many fit, a
 * multiple of 64.
 */
static int64_t lines(int64_t all, int64_t numbers)
{
    const int64_t fit = most_numbers / numbers;
    const int64_t whole = fit >= 64 ? fit / 64 * 64 : 1;
    return smaller(all, fit < 1 ? 1 : whole);
}

typedef struct blocks {
    const lsi_gemm_shape *g;
    stored a, b, c;
    const float *bias;
    lsi_gemm_f32 *run;
    int64_t rows, cols; /* of a block */
    float *wide_a, *wide_b, *wide_c;
} blocks;

static void widen_b(const blocks *s, int64_t col, int64_t cols)
{
    if (s->g->b_transposed)
        widen(s->wide_b, part_of(s->b, col, 0), cols, s->g->k);
    else
        widen(s->wide_b, part_of(s->b, 0, col), s->g->k, cols);
}

static void widen_a(const blocks *s, int64_t row, int64_t rows)
{
    if (s->g->a_transposed)
        widen(s->wide_a, part_of(s->a, 0, row), s->g->k, rows);
    else
        widen(s->wide_a, part_of(s->a, row, 0), rows, s->g->k);
}

/* A block of C that is already f32 is computed in place. */
static ls_status run_block(const blocks *s, int64_t row, int64_t rows,
                           int64_t col, int64_t cols)
{
    const lsi_gemm_shape *const g = s->g;
    const stored c = part_of(s->c, row, col);
    const bool in_place = c.dtype == LS_F32;
    const stored to = in_place ? c : (stored){s->wide_c, LS_F32, cols};
    lsi_gemm_shape wide = *g;
    wide.m = rows;
    wide.n = cols;
    wide.lda = g->a_transposed ? rows : g->k;
    wide.ldb = g->b_transposed ? g->k : cols;
    wide.ldc = to.ld;
    wide.ab_dtype = wide.c_dtype = LS_F32;
    if (!in_place && g->accumulate)
        widen(s->wide_c, c, rows, cols);
    LS_TRY(s->run(&wide, (void *)(uintptr_t)to.data, s->wide_a, s->wide_b,
                  s->bias != NULL ? s->bias + col : NULL));
    if (!in_place)
        convert(c, to, rows, cols);
    return LS_OK;
}

static ls_status run_blocks(const blocks *s)
{
    const lsi_gemm_shape *const g = s->g;
    for (int64_t col = 0; col < g->n; col += s->cols) {
        const int64_t cols = smaller(s->cols, g->n - col);
        widen_b(s, col, cols);
        for (int64_t row = 0; row < g->m; row += s->rows) {
            const int64_t rows = smaller(s->rows, g->m - row);
            if (col == 0 || s->rows < g->m)
                widen_a(s, row, rows);
            LS_TRY(run_block(s, row, rows, col, cols));
        }
    }
    return LS_OK;
}

ls_status lsi_half_gemm(const lsi_gemm_shape *shape, void *c, const void *a,
                        const void *b, const float *bias_or_null,
                        lsi_gemm_f32 *run)
{
    blocks s = {.g = shape,
                .a = {a, shape->ab_dtype, shape->lda},
                .b = {b, shape->ab_dtype, shape->ldb},
                .c = {c, shape->c_dtype, shape->ldc},
                .bias = bias_or_null,
                .run = run};
    s.cols = lines(shape->n, shape->k);
    s.rows = lines(shape->m, shape->k > s.cols ? shape->k : s.cols);
    const int64_t of_a = s.rows * shape->k, of_b = s.cols * shape->k;
    const int64_t of_c = shape->c_dtype == LS_F32 ? 0 : s.rows * s.cols;
    void *memory;
    LS_TRY(lsi_workspace_get(&memory_kind,
                             (size_t)(of_a + of_b + of_c) * sizeof(float),
                             memory_kind.name, &memory));
    s.wide_a = memory;
    s.wide_b = s.wide_a + of_a;
    s.wide_c = s.wide_b + of_b;
    return run_blocks(&s);
}
