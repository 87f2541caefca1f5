/*
 * lsi_winograd4_ops of a level, in its words. One dimension of the algorithm is
 *
 *     y (4) = A^T (G g (3) . B^T d (6))
 *
 * at the points 0, +-5/8, +-3/2 and infinity (Toom and Cook). Rows of G are (1,
 * p, p^2) / f(p) at a point p, where f(p) is the product of p's distances to
 * the others. Rows of B^T are the coefficients of the product of (x - q) over
 * the other points q. Columns of A^T are the powers of p. The gradient of the
 * filters is G^T (A dy . B^T d). Points of opposite sign share their even and
 * odd parts.
 */
#ifndef LS_ARRAY_KERNELS_SIMD_WINOGRAD4_H
#define LS_ARRAY_KERNELS_SIMD_WINOGRAD4_H

#include <string.h>

#include "array/kernels/winograd4.h"
#include "fold/simd/words.h"

enum {
    POINTS = LSI_WINOGRAD4_POINTS,
    OUT = LSI_WINOGRAD4_SIDE,
    IN = OUT + 2, /* pixels of a tile of the source, and points of a line */
    TAPS = 9,
    LINE = 16 /* floats of a line of the cache */
};

/* The points, and the constants that follow. */
#define P_A     0.625F
#define P_B     1.5F
#define P_AA    (P_A * P_A)
#define P_BB    (P_B * P_B)
#define P_SUM   (P_AA + P_BB)
#define P_BOTH  (P_AA * P_BB)
#define P_REST0 (1 / P_BOTH)
#define P_RESTA (1 / (2 * P_AA * (P_AA - P_BB)))
#define P_RESTB (1 / (2 * P_BB * (P_BB - P_AA)))

/* ---- one dimension: n vectors of `from`, `step` apart -------------------- */

/* e + o and e - o. */
INLINE void both_signs(vf *to, size_t step, vf e, vf o)
{
    to[0] = vf_add(e, o);
    to[step] = vf_sub(e, o);
}

/* B^T d */
INLINE void source_line(vf *to, size_t to_step, const vf *x, size_t step)
{
    const vf x1 = x[step], x2 = x[2 * step], x3 = x[3 * step];
    const vf x4 = x[4 * step];
    const vf aa = vf_set(P_AA), bb = vf_set(P_BB);
    const vf sum = vf_set(P_SUM), both = vf_set(P_BOTH);
    to[0] = vf_fma(both, x[0], vf_fnma(sum, x2, x4));
    both_signs(to + to_step, to_step, vf_fnma(bb, x2, x4),
               vf_mul(vf_set(P_A), vf_fnma(bb, x1, x3)));
    both_signs(to + 3 * to_step, to_step, vf_fnma(aa, x2, x4),
               vf_mul(vf_set(P_B), vf_fnma(aa, x1, x3)));
    to[5 * to_step] = vf_fma(both, x1, vf_fnma(sum, x3, x[5 * step]));
}

/* G g */
INLINE void filter_line(vf *to, size_t to_step, const vf *g, size_t step)
{
    const vf g0 = g[0], g1 = g[step], g2 = g[2 * step];
    to[0] = vf_mul(vf_set(P_REST0), g0);
    both_signs(to + to_step, to_step,
               vf_mul(vf_set(P_RESTA), vf_fma(vf_set(P_AA), g2, g0)),
               vf_mul(vf_set(P_RESTA * P_A), g1));
    both_signs(to + 3 * to_step, to_step,
               vf_mul(vf_set(P_RESTB), vf_fma(vf_set(P_BB), g2, g0)),
               vf_mul(vf_set(P_RESTB * P_B), g1));
    to[5 * to_step] = g2;
}

/* A^T m */
INLINE void result_line(vf *to, size_t to_step, const vf *m, size_t step)
{
    const vf even_a = vf_add(m[step], m[2 * step]);
    const vf odd_a = vf_mul(vf_set(P_A), vf_sub(m[step], m[2 * step]));
    const vf even_b = vf_add(m[3 * step], m[4 * step]);
    const vf odd_b = vf_mul(vf_set(P_B), vf_sub(m[3 * step], m[4 * step]));
    const vf aa = vf_set(P_AA), bb = vf_set(P_BB);
    to[0] = vf_add(m[0], vf_add(even_a, even_b));
    to[to_step] = vf_add(odd_a, odd_b);
    to[2 * to_step] = vf_fma(aa, even_a, vf_mul(bb, even_b));
    to[3 * to_step] = vf_fma(aa, odd_a, vf_fma(bb, odd_b, m[5 * step]));
}

/* A dy */
INLINE void gradient_line(vf *to, size_t to_step, const vf *y, size_t step)
{
    const vf y0 = y[0], y1 = y[step], y2 = y[2 * step], y3 = y[3 * step];
    const vf aa = vf_set(P_AA), bb = vf_set(P_BB);
    to[0] = y0;
    both_signs(to + to_step, to_step, vf_fma(aa, y2, y0),
               vf_mul(vf_set(P_A), vf_fma(aa, y3, y1)));
    both_signs(to + 3 * to_step, to_step, vf_fma(bb, y2, y0),
               vf_mul(vf_set(P_B), vf_fma(bb, y3, y1)));
    to[5 * to_step] = y3;
}

/* G^T s */
INLINE void taps_line(vf *to, size_t to_step, const vf *s, size_t step)
{
    const vf rest_a = vf_set(P_RESTA), rest_b = vf_set(P_RESTB);
    const vf even_a = vf_mul(rest_a, vf_add(s[step], s[2 * step]));
    const vf odd_a = vf_mul(rest_a, vf_sub(s[step], s[2 * step]));
    const vf even_b = vf_mul(rest_b, vf_add(s[3 * step], s[4 * step]));
    const vf odd_b = vf_mul(rest_b, vf_sub(s[3 * step], s[4 * step]));
    to[0] = vf_fma(vf_set(P_REST0), s[0], vf_add(even_a, even_b));
    to[to_step] = vf_fma(vf_set(P_A), odd_a, vf_mul(vf_set(P_B), odd_b));
    to[2 * to_step] =
        vf_fma(vf_set(P_AA), even_a, vf_fma(vf_set(P_BB), even_b, s[5 * step]));
}

/* ---- points in memory ---------------------------------------------------- */

/*
 * Points of images are (36, tiles, channels). A line after each row, and an odd
 * number of lines from point to point, keep them off the same cache sets.
 */
INLINE size_t row_floats(int64_t channels)
{
    return (size_t)channels + LINE;
}

INLINE size_t point_floats(size_t rows, int64_t channels)
{
    const size_t lines = rows * row_floats(channels) / LINE;
    return (lines | 1) * LINE;
}

static lsi_winograd4_room room(const lsi_winograd_conv *s, size_t tiles)
{
    const size_t stretch = LSI_WINOGRAD4_STRETCH;
    return (lsi_winograd4_room){
        .images =
            POINTS * (point_floats(tiles, s->c) + point_floats(tiles, s->o)),
        .v = POINTS * point_floats(stretch, s->c),
        .z = POINTS * point_floats(stretch, s->o),
        .sums = POINTS * point_floats((size_t)s->c, s->o)};
}

/* The place of a tile of the result: an image and the first pixel. */
typedef struct tile_place {
    size_t image;
    int64_t y, x;
} tile_place;

INLINE tile_place place_of_tile(const lsi_winograd_conv *s, size_t tile)
{
    const size_t columns = (size_t)(s->ow + OUT - 1) / OUT;
    const size_t rows = (size_t)(s->oh + OUT - 1) / OUT;
    return (tile_place){.image = tile / (rows * columns),
                        .y = (int64_t)(tile / columns % rows) * OUT,
                        .x = (int64_t)(tile % columns) * OUT};
}

/* The place of the next tile. */
INLINE void step_tile(const lsi_winograd_conv *s, tile_place *at)
{
    at->x += OUT;
    if (at->x < s->ow)
        return;
    at->x = 0;
    at->y += OUT;
    if (at->y < s->oh)
        return;
    at->y = 0;
    at->image++;
}

/* An image of one block of channels, with pixels `step` floats apart. */
typedef struct block_pixels {
    const float *data;
    int64_t h, w, step;
} block_pixels;

/* Floats from pixel to pixel, and from block to block of an image. */
INLINE size_t pixel_step(const lsi_winograd_conv *s, int64_t channels)
{
    return s->channels_last ? (size_t)channels : LANES;
}

INLINE size_t block_step(const lsi_winograd_conv *s, size_t pixels)
{
    return s->channels_last ? LANES : pixels * LANES;
}

/* side x side pixels from (y, x) on; those outside are 0. */
INLINE void read_pixels(vf *to, block_pixels from, int64_t y, int64_t x,
                        const int64_t side)
{
    const float *data = from.data + (y * from.w + x) * from.step;
    if (y >= 0 && x >= 0 && y + side <= from.h && x + side <= from.w) {
        for (int64_t i = 0; i < side; i++)
#pragma GCC unroll 6
            for (int64_t j = 0; j < side; j++)
                to[i * side + j] =
                    vf_load(data + (i * from.w + j) * from.step, LANES);
        return;
    }
    for (int64_t i = 0; i < side; i++)
        for (int64_t j = 0; j < side; j++) {
            const bool inside =
                y + i >= 0 && y + i < from.h && x + j >= 0 && x + j < from.w;
            to[i * side + j] =
                inside ? vf_load(data + (i * from.w + j) * from.step, LANES)
                       : vf_set(0.0F);
        }
}

/* The points of a tile of the source, or of the result's gradient. */
INLINE void transform_tile(float *to, size_t point, const vf *pixels,
                           const bool result)
{
    vf half[IN * IN], line[IN];
    const size_t side = result ? OUT : IN;
#pragma GCC unroll 6
    for (size_t j = 0; j < side; j++) {
        if (result)
            gradient_line(half + j, side, pixels + j, side);
        else
            source_line(half + j, side, pixels + j, side);
    }
#pragma GCC unroll 6
    for (size_t i = 0; i < IN; i++) {
        if (result)
            gradient_line(line, 1, half + i * side, 1);
        else
            source_line(line, 1, half + i * side, 1);
#pragma GCC unroll 6
        for (size_t j = 0; j < IN; j++)
            vf_store(to + (i * IN + j) * point, line[j], LANES);
    }
}

/* Blocks of channels in a line of the cache. */
#define LINE_BLOCKS (LINE / LANES)

/* Some tiles of an image of `channels`; those of the source reach over it. */
typedef struct tile_range {
    const float *image;
    int64_t channels, h, w, padding;
    size_t begin, end;
} tile_range;

/*
 * Rows of points of tiles. Tiles of a line of channels go one after another:
 * their pixels are neighbours in memory, and each line is written at once.
 */
INLINE void transform_tiles(float *to, size_t point, const tile_range *tiles,
                            const lsi_winograd_conv *s, const bool result)
{
    const size_t lines = (size_t)tiles->channels / LINE;
    const size_t pixels = (size_t)(tiles->h * tiles->w);
    const size_t image = pixels * (size_t)tiles->channels;
    const size_t block = block_step(s, pixels);
    const size_t step = pixel_step(s, tiles->channels);
    const int64_t p = tiles->padding;
    for (size_t line = 0; line < lines; line++) {
        tile_place at = place_of_tile(s, tiles->begin);
        for (size_t t = tiles->begin; t < tiles->end; t++) {
            float *const row =
                to + (t - tiles->begin) * row_floats(tiles->channels);
            const float *const first =
                tiles->image + at.image * image + line * LINE_BLOCKS * block;
            for (size_t i = 0; i < LINE_BLOCKS; i++) {
                const block_pixels from = {first + i * block, tiles->h,
                                           tiles->w, (int64_t)step};
                vf x[IN * IN];
                read_pixels(x, from, at.y - p, at.x - p, result ? OUT : IN);
                transform_tile(row + line * LINE + i * LANES, point, x, result);
            }
            step_tile(s, &at);
        }
    }
}

static void source_points(float *v, size_t point, const lsi_winograd_conv *s,
                          const float *src, size_t begin, size_t end)
{
    const tile_range tiles = {src, s->c, s->h, s->w, s->padding, begin, end};
    transform_tiles(v, point, &tiles, s, false);
}

static void gradient_points(float *z, size_t point, const lsi_winograd_conv *s,
                            const float *ddst, size_t begin, size_t end)
{
    const tile_range tiles = {ddst, s->o, s->oh, s->ow, 0, begin, end};
    transform_tiles(z, point, &tiles, s, true);
}

/* ---- products ------------------------------------------------------------ */

enum { PANEL_VECS = 2 };
#define PANEL_LANES (PANEL_VECS * LANES)

/* c (rows, PANEL_LANES) (+)= a (rows, depth) b (depth, PANEL_LANES) */
typedef struct panel_product {
    float *c;
    const float *a, *b;
    size_t ldc, lda, ldb, rows, depth;
} panel_product;

/* Row `row` on; with a_is_transposed, a holds (depth, rows). */
INLINE void multiply_rows(const panel_product *p, size_t row,
                          const bool a_is_transposed, const bool add,
                          const size_t rows)
{
    vf sums[PRODUCT_ROWS][PANEL_VECS];
    const float *a = p->a + row * (a_is_transposed ? 1 : p->lda), *b = p->b;
    float *const c = p->c + row * p->ldc;
#pragma GCC unroll 8
    for (size_t i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (size_t v = 0; v < PANEL_VECS; v++)
            sums[i][v] = vf_set(0.0F);
    for (size_t k = 0; k < p->depth; k++) {
        const vf b0 = vf_load(b, LANES), b1 = vf_load(b + LANES, LANES);
#pragma GCC unroll 8
        for (size_t i = 0; i < rows; i++) {
            const vf x = vf_set(a_is_transposed ? a[i] : a[i * p->lda + k]);
            sums[i][0] = vf_fma(x, b0, sums[i][0]);
            sums[i][1] = vf_fma(x, b1, sums[i][1]);
        }
        b += p->ldb;
        a += a_is_transposed ? p->lda : 0;
    }
#pragma GCC unroll 8
    for (size_t i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (size_t v = 0; v < PANEL_VECS; v++) {
            float *const to = c + i * p->ldc + v * LANES;
            vf_store(to,
                     add ? vf_add(vf_load(to, LANES), sums[i][v]) : sums[i][v],
                     LANES);
        }
}

INLINE void multiply_panel(const panel_product *p, const bool a_is_transposed,
                           const bool add)
{
    size_t row = 0;
    for (; row + PRODUCT_ROWS <= p->rows; row += PRODUCT_ROWS)
        multiply_rows(p, row, a_is_transposed, add, PRODUCT_ROWS);
    if (row + 4 <= p->rows) {
        multiply_rows(p, row, a_is_transposed, add, 4);
        row += 4;
    }
    if (row + 2 <= p->rows) {
        multiply_rows(p, row, a_is_transposed, add, 2);
        row += 2;
    }
    if (row < p->rows)
        multiply_rows(p, row, a_is_transposed, add, 1);
}

/* ---- images -------------------------------------------------------------- */

/* 4x4 pixels of a block of the result from its points. */
static void write_result(const lsi_winograd4_images *run, const float *m,
                         size_t point, tile_place at, size_t block)
{
    const lsi_winograd_conv *const s = &run->conv;
    vf points[IN * IN], half[OUT * IN], y[OUT * OUT];
#pragma GCC unroll 36
    for (size_t i = 0; i < POINTS; i++)
        points[i] = vf_load(m + i * point, LANES);
#pragma GCC unroll 6
    for (size_t j = 0; j < IN; j++)
        result_line(half + j, IN, points + j, IN);
#pragma GCC unroll 4
    for (size_t i = 0; i < OUT; i++)
        result_line(y + i * OUT, 1, half + i * IN, 1);
    const float *const bias = run->bias_or_null;
    const vf shift = bias ? vf_load(bias + block * LANES, LANES) : vf_set(0.0F);
    const size_t pixels = (size_t)(s->oh * s->ow);
    const size_t step = pixel_step(s, s->o);
    float *const to = run->dst + at.image * pixels * (size_t)s->o +
                      block * block_step(s, pixels) +
                      (size_t)(at.y * s->ow + at.x) * step;
    const size_t rows = s->oh - at.y < OUT ? (size_t)(s->oh - at.y) : OUT;
    const size_t columns = s->ow - at.x < OUT ? (size_t)(s->ow - at.x) : OUT;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++) {
            vf x = y[i * OUT + j];
            if (bias)
                x = vf_add(x, shift);
            if (run->relu)
                x = vf_max(vf_set(0.0F), x);
            vf_store(to + (i * (size_t)s->ow + j) * step, x, LANES);
        }
}

static void images(const lsi_winograd4_images *run, size_t begin, size_t end,
                   float *scratch)
{
    const lsi_winograd_conv *const s = &run->conv;
    const size_t tiles = end - begin, c = (size_t)s->c, o = (size_t)s->o;
    const size_t v_point = point_floats(tiles, s->c);
    const size_t m_point = point_floats(tiles, s->o);
    float *const v = scratch, *const m = scratch + POINTS * v_point;
    source_points(v, v_point, s, run->src, begin, end);
    for (size_t i = 0; i < POINTS * (o / PANEL_LANES); i++) {
        const size_t point = i / (o / PANEL_LANES);
        const size_t panel = i % (o / PANEL_LANES);
        const panel_product p = {.c = m + point * m_point + panel * PANEL_LANES,
                                 .a = v + point * v_point,
                                 .b = run->u + i * c * PANEL_LANES,
                                 .ldc = row_floats(s->o),
                                 .lda = row_floats(s->c),
                                 .ldb = PANEL_LANES,
                                 .rows = tiles,
                                 .depth = c};
        multiply_panel(&p, false, false);
    }
    for (size_t b = 0; b < o / LANES; b++) {
        tile_place at = place_of_tile(s, begin);
        for (size_t t = 0; t < tiles; t++) {
            write_result(run, m + t * row_floats(s->o) + b * LANES, m_point, at,
                         b);
            step_tile(s, &at);
        }
    }
}

/* ---- filters ------------------------------------------------------------- */

/*
 * The taps of LANES x LANES filters of w (o, c, 3, 3): vectors over filters, of
 * tap k of channel i at taps[i * TAPS + k].
 */
INLINE void read_filters(vf taps[LANES * TAPS], const float *w, size_t c)
{
    for (size_t j = 0; j < LANES * TAPS; j += LANES) {
        for (size_t o = 0; o < LANES; o++)
            taps[j + o] = vf_load(w + o * c * TAPS + j, LANES);
        vf_transpose(taps + j);
    }
}

/* Makes channels of filters, and filters of channels; turns the taps round. */
INLINE void turn_filters(vf taps[LANES * TAPS])
{
    vf turned[TAPS][LANES];
    for (size_t k = 0; k < TAPS; k++) {
        for (size_t i = 0; i < LANES; i++)
            turned[k][i] = taps[i * TAPS + TAPS - 1 - k];
        vf_transpose(turned[k]);
    }
    for (size_t k = 0; k < TAPS; k++)
        for (size_t i = 0; i < LANES; i++)
            taps[i * TAPS + k] = turned[k][i];
}

/* The points of a vector of filters, `step` apart. */
INLINE void filter_points(float *u, size_t step, const vf g[TAPS])
{
    vf half[IN * 3], line[IN];
#pragma GCC unroll 3
    for (size_t j = 0; j < 3; j++)
        filter_line(half + j, 3, g + j, 3);
#pragma GCC unroll 6
    for (size_t i = 0; i < IN; i++) {
        filter_line(line, 1, half + i * 3, 1);
#pragma GCC unroll 6
        for (size_t j = 0; j < IN; j++)
            vf_store(u + (i * IN + j) * step, line[j], LANES);
    }
}

static void filters(float *u, const float *w, int64_t o, int64_t c, bool turned,
                    size_t panel, size_t block)
{
    const size_t depth = (size_t)(turned ? o : c);
    const size_t panels = (size_t)(turned ? c : o) / PANEL_LANES;
    u += (panel * depth + block * LANES) * PANEL_LANES;
    for (size_t lane = 0; lane < PANEL_LANES; lane += LANES) {
        vf taps[LANES * TAPS];
        const size_t result = panel * PANEL_LANES + lane, term = block * LANES;
        const size_t first_o = turned ? term : result;
        const size_t first_c = turned ? result : term;
        read_filters(taps, w + (first_o * (size_t)c + first_c) * TAPS,
                     (size_t)c);
        if (turned)
            turn_filters(taps);
        for (size_t d = 0; d < LANES; d++)
            filter_points(u + d * PANEL_LANES + lane,
                          panels * depth * PANEL_LANES, taps + d * TAPS);
    }
}

/* ---- the gradient of filters --------------------------------------------- */

static void points(const lsi_winograd4_gradient *run, size_t first,
                   size_t begin, size_t end)
{
    const lsi_winograd_conv *const s = &run->conv;
    const size_t stretch = LSI_WINOGRAD4_STRETCH;
    source_points(run->v + begin * row_floats(s->c),
                  point_floats(stretch, s->c), s, run->src, first + begin,
                  first + end);
    gradient_points(run->z + begin * row_floats(s->o),
                    point_floats(stretch, s->o), s, run->ddst, first + begin,
                    first + end);
}

static void add_up(const lsi_winograd4_gradient *run, size_t first,
                   size_t count, size_t point, size_t panel)
{
    const lsi_winograd_conv *const s = &run->conv;
    const size_t stretch = LSI_WINOGRAD4_STRETCH;
    const panel_product p = {
        .c = run->sums + point * point_floats((size_t)s->c, s->o) +
             panel * PANEL_LANES,
        .a = run->v + point * point_floats(stretch, s->c),
        .b = run->z + point * point_floats(stretch, s->o) + panel * PANEL_LANES,
        .ldc = row_floats(s->o),
        .lda = row_floats(s->c),
        .ldb = row_floats(s->o),
        .rows = (size_t)s->c,
        .depth = count};
    if (first == 0)
        multiply_panel(&p, true, false);
    else
        multiply_panel(&p, true, true);
}

static void gradient(float *dw, const lsi_winograd4_gradient *run,
                     size_t o_block, size_t c_block, bool accumulate)
{
    const lsi_winograd_conv *const s = &run->conv;
    const size_t step = point_floats((size_t)s->c, s->o);
    vf taps[LANES * TAPS]; /* as in read_filters */
    for (size_t c = 0; c < LANES; c++) {
        vf sums[IN * IN], half[3 * IN];
        const float *const from = run->sums + o_block * LANES +
                                  (c_block * LANES + c) * row_floats(s->o);
#pragma GCC unroll 36
        for (size_t i = 0; i < POINTS; i++)
            sums[i] = vf_load(from + i * step, LANES);
#pragma GCC unroll 6
        for (size_t j = 0; j < IN; j++)
            taps_line(half + j, IN, sums + j, IN);
#pragma GCC unroll 3
        for (size_t i = 0; i < 3; i++)
            taps_line(taps + c * TAPS + i * 3, 1, half + i * IN, 1);
    }
    float *const to =
        dw + (o_block * LANES * (size_t)s->c + c_block * LANES) * TAPS;
    for (size_t j = 0; j < LANES * TAPS; j += LANES) {
        vf_transpose(taps + j);
        for (size_t o = 0; o < LANES; o++) {
            float *const at = to + o * (size_t)s->c * TAPS + j;
            const vf x = taps[j + o];
            vf_store(at, accumulate ? vf_add(vf_load(at, LANES), x) : x, LANES);
        }
    }
}

static void bias(float *db, const lsi_winograd4_gradient *run, size_t o_block,
                 bool accumulate)
{
    const lsi_winograd_conv *const s = &run->conv;
    const size_t pixels = (size_t)(s->oh * s->ow);
    vf total = vf_set(0.0F);
    for (size_t n = 0; n < (size_t)s->n; n++) {
        const float *const from =
            run->ddst + (n * ((size_t)s->o / LANES) + o_block) * pixels * LANES;
        vf sums[4] = {vf_set(0.0F), vf_set(0.0F), vf_set(0.0F), vf_set(0.0F)};
        for (size_t i = 0; i < pixels; i++)
            sums[i % 4] = vf_add(sums[i % 4], vf_load(from + i * LANES, LANES));
        total = vf_add(
            total, vf_add(vf_add(sums[0], sums[1]), vf_add(sums[2], sums[3])));
    }
    float *const to = db + o_block * LANES;
    vf_store(to, accumulate ? vf_add(vf_load(to, LANES), total) : total, LANES);
}

#define WINOGRAD4_OPS(layout_)                                                 \
    {                                                                          \
        .layout = (layout_), .lanes = (int64_t)PANEL_LANES,                    \
        .filters = filters, .room = room, .images = images, .points = points,  \
        .add_up = add_up, .gradient = gradient, .bias = bias                   \
    }

#endif
