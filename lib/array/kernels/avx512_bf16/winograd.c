/* Winograd's algorithm: the filters, and the passes that make images. */
#include "array/kernels/avx512_bf16/winograd_parts.h"
#include "array/kernels/avx512_bf16/winograd_tile.h"
#include "array/kernels/kernels.h"

enum {
    LANES = LSI_WINOGRAD_LANES,
    TILES = LSI_WINOGRAD_TILES,
    VECS = LANES / BLOCK,
    ROWS = 6, /* tiles whose sums are in registers, of VECS vectors each */
    PAD = 32  /* elements that keep points from the same lines of a cache */
};

/* ---- filters ------------------------------------------------------------- */

/* (g0, (g0 + g1 + g2) / 2, (g0 - g1 + g2) / 2, g2) */
INLINE void filter_line(__m512 *to, int step, __m512 g0, __m512 g1, __m512 g2)
{
    const __m512 half = _mm512_set1_ps(0.5F);
    const __m512 ends = _mm512_mul_ps(half, _mm512_add_ps(g0, g2));
    const __m512 middle = _mm512_mul_ps(half, g1);
    to[0] = g0;
    to[step] = _mm512_add_ps(ends, middle);
    to[2 * step] = _mm512_sub_ps(ends, middle);
    to[3 * step] = g2;
}

/* G g G^T, rounded, of filters g whose taps are `ld` apart. */
INLINE void filter_points(__m256i u[POINTS], const float *g, size_t ld,
                          bool turned)
{
    __m512 taps[TAPS], half[4 * 3], points[POINTS];
    for (size_t i = 0; i < TAPS; i++)
        taps[i] = _mm512_loadu_ps(g + (turned ? TAPS - 1 - i : i) * ld);
    for (int i = 0; i < 3; i++)
        filter_line(half + i, 3, taps[i], taps[3 + i], taps[6 + i]);
    for (int i = 0; i < 4; i++)
        filter_line(points + 4 * i, 1, half[3 * i], half[3 * i + 1],
                    half[3 * i + 2]);
    for (int i = 0; i < POINTS; i++)
        u[i] = round_16(points[i]);
}

/* taps[c][tap][o] of 16 x 16 filters, or taps[tap][o][c]. */
static void read_filters(float *taps, const uint16_t *w, int64_t c, bool turned)
{
    enum { ROW = BLOCK * TAPS };
    float rows[BLOCK * ROW], columns[ROW * BLOCK];
    for (int64_t i = 0; i < BLOCK; i++)
        for (int64_t k = 0; k < ROW; k += BLOCK)
            _mm512_storeu_ps(rows + i * ROW + k,
                             widen(_mm256_loadu_si256(
                                 (const void *)(w + i * c * TAPS + k))));
    for (int k = 0; k < ROW; k += BLOCK)
        transpose_16((turned ? columns : taps) + k * BLOCK, BLOCK, rows + k,
                     ROW);
    for (int tap = 0; turned && tap < TAPS; tap++)
        transpose_16(taps + tap * BLOCK * BLOCK, BLOCK, columns + tap * BLOCK,
                     ROW);
}

static void filters(uint16_t *u, const uint16_t *w, int64_t o, int64_t c,
                    bool turned, size_t o_block, size_t c_block)
{
    float taps[BLOCK * BLOCK * TAPS];
    read_filters(taps,
                 w + ((int64_t)o_block * c + (int64_t)c_block) * BLOCK * TAPS,
                 c, turned);
    const size_t lanes = BLOCK * (turned ? c_block : o_block);
    const size_t terms = BLOCK * (turned ? o_block : c_block);
    const size_t depth = (size_t)(turned ? o : c);
    uint16_t *to =
        u + (lanes / LANES * depth + terms) * LANES + lanes % LANES * 2;
    for (size_t i = 0; i < BLOCK; i += 2) {
        __m256i even[POINTS], odd[POINTS];
        const size_t ld = turned ? BLOCK * BLOCK : BLOCK;
        const size_t step = turned ? BLOCK : BLOCK * TAPS;
        filter_points(even, taps + i * step, ld, turned);
        filter_points(odd, taps + (i + 1) * step, ld, turned);
        for (size_t p = 0; p < POINTS; p++)
            _mm512_storeu_si512(to + p * (size_t)(o * c) + i * LANES,
                                pair_up(even[p], odd[p]));
    }
}

/* ---- images -------------------------------------------------------------- */

/* Elements from point to point of the transformed tiles. */
static size_t source_step(const lsi_winograd_conv *s)
{
    return (size_t)s->c * TILES + PAD;
}

enum { SUMS_STEP = LANES * TILES + PAD };

static size_t images_scratch(const lsi_winograd_conv *s)
{
    return POINTS *
           (source_step(s) * sizeof(uint16_t) + SUMS_STEP * sizeof(float));
}

/* v[point][tile][c] */
static void transform_tile(uint16_t *v, const lsi_winograd_images *run,
                           size_t index)
{
    const lsi_winograd_conv *s = &run->conv;
    pixels p;
    find_tile(&p, s, index, 4);
    const size_t step = source_step(s), plane = (size_t)(s->h * s->w * BLOCK);
    const size_t blocks = (size_t)s->c / BLOCK;
    for (size_t i = 0; i < blocks; i++) {
        __m512 d[POINTS];
        read_source(d, run->src + (p.image * blocks + i) * plane, &p);
        for (size_t k = 0; k < POINTS; k++)
            _mm256_storeu_si256((void *)(v + k * step + i * BLOCK),
                                round_16(d[k]));
    }
}

/* sums[row][lane] = sum over c of v[row][c] u[c][lane] */
INLINE void multiply(float *sums, const uint16_t *v, const uint16_t *u,
                     size_t c)
{
    __m512 acc[ROWS][VECS];
    for (int r = 0; r < ROWS; r++)
        for (int j = 0; j < VECS; j++)
            acc[r][j] = _mm512_setzero_ps();
    for (size_t k = 0; k < c; k += 2) {
        __m512bh b[VECS];
        for (int j = 0; j < VECS; j++)
            b[j] = (__m512bh)_mm512_loadu_si512(u + k * LANES + 32 * j);
        for (size_t r = 0; r < ROWS; r++) {
            const __m512bh a = pair_of(v + r * c + k);
            for (int j = 0; j < VECS; j++)
                acc[r][j] = _mm512_dpbf16_ps(acc[r][j], a, b[j]);
        }
    }
    for (int r = 0; r < ROWS; r++)
        for (int j = 0; j < VECS; j++)
            _mm512_storeu_ps(sums + r * LANES + j * BLOCK, acc[r][j]);
}

/* (m0 + m1 + m2, m1 - m2 - m3) */
INLINE void result_line(__m512 *y0, __m512 *y1, const __m512 *m, int step)
{
    const __m512 m1 = m[step], m2 = m[2 * step];
    *y0 = _mm512_add_ps(_mm512_add_ps(m[0], m1), m2);
    *y1 = _mm512_sub_ps(_mm512_sub_ps(m1, m2), m[3 * step]);
}

INLINE void put_pixel(const lsi_winograd_images *run, size_t at, __m512 y)
{
    if (run->relu) /* NaN stays NaN */
        y = _mm512_max_ps(_mm512_setzero_ps(), y);
    if (run->dst_is_f32)
        _mm512_storeu_ps((float *)run->dst + at, y);
    else
        _mm256_storeu_si256((void *)((uint16_t *)run->dst + at), round_16(y));
}

/* A tile of the result, of the channels that `sums` has. */
static void put_tile(const lsi_winograd_images *run, size_t index,
                     const float *sums, size_t lanes)
{
    const lsi_winograd_conv *s = &run->conv;
    pixels p;
    find_tile(&p, s, index, 2);
    const size_t plane = (size_t)(s->oh * s->ow * BLOCK);
    const size_t blocks = (size_t)s->o / BLOCK;
    for (size_t j = 0; j < VECS; j++) {
        __m512 m[POINTS], half[8], y[4];
        for (size_t k = 0; k < POINTS; k++)
            m[k] = _mm512_loadu_ps(sums + k * SUMS_STEP + j * BLOCK);
        for (int i = 0; i < 4; i++)
            result_line(&half[i], &half[4 + i], m + i, 4);
        for (int i = 0; i < 2; i++)
            result_line(&y[2 * i], &y[2 * i + 1], half + 4 * i, 1);
        const size_t block = p.image * blocks + lanes / BLOCK + j;
        for (int i = 0; i < 4; i++)
            if (p.in[i])
                put_pixel(run,
                          block * plane +
                              (size_t)(p.at + i / 2 * p.row + i % 2 * BLOCK),
                          y[i]);
    }
}

static void images(const lsi_winograd_images *run, size_t begin, size_t end,
                   void *scratch)
{
    const lsi_winograd_conv *s = &run->conv;
    const size_t step = source_step(s), c = (size_t)s->c, n = end - begin;
    uint16_t *v = scratch;
    float *sums = (float *)(void *)(v + POINTS * step);
    for (size_t t = 0; t < n; t++)
        transform_tile(v + t * c, run, begin + t);
    for (size_t lanes = 0; lanes < (size_t)s->o; lanes += LANES) {
        for (size_t k = 0; k < POINTS; k++)
            for (size_t t = 0; t < n; t += ROWS)
                multiply(sums + k * SUMS_STEP + t * LANES, v + k * step + t * c,
                         run->u + (k * (size_t)s->o + lanes) * c, c);
        for (size_t t = 0; t < n; t++)
            put_tile(run, begin + t, sums + t * LANES, lanes);
    }
}

const lsi_winograd_ops lsi_winograd_avx512_bf16 = {
    .filters = filters,
    .images_scratch = images_scratch,
    .images = images,
    .v_elements = lsi_winograd_v_elements,
    .z_elements = lsi_winograd_z_elements,
    .points = lsi_winograd_points,
    .add_up = lsi_winograd_add_up,
    .gradient = lsi_winograd_gradient_of};
