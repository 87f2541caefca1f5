/*
 * Winograd's algorithm for the gradient of the filters, F(3x3, 2x2). 2x2 pixels
 * of the gradient of the result and 4x4 pixels of the source are transformed to
 * 16 points. At each point, a matrix product runs over the tiles. The inverse
 * transform of the sums is 3x3 taps.
 */
#include "array/kernels/avx512_bf16/winograd_parts.h"

#include "array/kernels/avx512_bf16/winograd_tile.h"

enum {
    LANES = LSI_WINOGRAD_LANES,
    STRETCH = LSI_WINOGRAD_STRETCH,
    VECS = LANES / BLOCK,
    ROWS = 4 /* channels whose sums are in registers, of VECS vectors each */
};

/*
 * Elements of a block of channels at one point, in arrays of these shapes:
 *
 *   v  (16, c / 16, STRETCH / 2, 16, 2)
 *   z  (16, o / 64, STRETCH / 2, 64, 2)
 *
 * One more cache line keeps blocks off the same cache sets.
 */
enum { V_BLOCK = BLOCK * STRETCH + 32, Z_BLOCK = LANES * STRETCH + 32 };

static size_t v_step(const lsi_winograd_conv *s)
{
    return (size_t)s->c / BLOCK * V_BLOCK;
}

static size_t z_step(const lsi_winograd_conv *s)
{
    return (size_t)s->o / LANES * Z_BLOCK;
}

/* A dy A^T with A = (1 0; 1 1; 1 -1; 0 -1) */
INLINE void result_line(__m512 *to, int step, __m512 a, __m512 b)
{
    to[0] = a;
    to[step] = _mm512_add_ps(a, b);
    to[2 * step] = _mm512_sub_ps(a, b);
    to[3 * step] = _mm512_sub_ps(_mm512_setzero_ps(), b);
}

INLINE void read_result(__m512 z[POINTS], const uint16_t *block,
                        const pixels *p)
{
    __m512 y[4], half[8];
    read_pixels(y, block, p, 2);
    for (int i = 0; i < 2; i++)
        result_line(half + i, 2, y[i], y[2 + i]);
    for (int i = 0; i < 4; i++)
        result_line(z + 4 * i, 1, half[2 * i], half[2 * i + 1]);
}

/* Two tiles side by side. */
static void source_pair(const lsi_winograd_gradient *run, size_t index,
                        uint16_t *v)
{
    const lsi_winograd_conv *s = &run->conv;
    pixels p, q;
    find_tile(&p, s, index, 4);
    find_tile(&q, s, index + 1, 4);
    const size_t plane = (size_t)(s->h * s->w * BLOCK);
    const size_t blocks = (size_t)s->c / BLOCK;
    for (size_t i = 0; i < blocks; i++) {
        __m512 d[POINTS];
        __m256i even[POINTS];
        read_source(d, run->src + (p.image * blocks + i) * plane, &p);
        for (int k = 0; k < POINTS; k++)
            even[k] = round_16(d[k]);
        read_source(d, run->src + (q.image * blocks + i) * plane, &q);
        for (size_t k = 0; k < POINTS; k++)
            _mm512_storeu_si512(v + k * v_step(s) + i * V_BLOCK,
                                pair_up(even[k], round_16(d[k])));
    }
}

static void result_pair(const lsi_winograd_gradient *run, size_t index,
                        uint16_t *z)
{
    const lsi_winograd_conv *s = &run->conv;
    pixels p, q;
    find_tile(&p, s, index, 2);
    find_tile(&q, s, index + 1, 2);
    const size_t plane = (size_t)(s->oh * s->ow * BLOCK);
    const size_t blocks = (size_t)s->o / BLOCK;
    for (size_t i = 0; i < blocks; i++) {
        __m512 d[POINTS], e[POINTS];
        read_result(d, run->ddst + (p.image * blocks + i) * plane, &p);
        read_result(e, run->ddst + (q.image * blocks + i) * plane, &q);
        uint16_t *to = z + i / VECS * Z_BLOCK + i % VECS * 2 * BLOCK;
        for (size_t k = 0; k < POINTS; k++)
            _mm512_storeu_si512(to + k * z_step(s),
                                pair_up(round_16(d[k]), round_16(e[k])));
    }
}

size_t lsi_winograd_v_elements(const lsi_winograd_conv *conv)
{
    return POINTS * v_step(conv);
}

size_t lsi_winograd_z_elements(const lsi_winograd_conv *conv)
{
    return POINTS * z_step(conv);
}

void lsi_winograd_points(const lsi_winograd_gradient *run, size_t first,
                         size_t begin, size_t end)
{
    for (size_t t = begin; t < end; t += 2) {
        source_pair(run, first + t, run->v + t * BLOCK);
        result_pair(run, first + t, run->z + t * LANES);
    }
}

/* sums[row][lane] (+)= sum over t of v[t][row] z[t][lane] */
INLINE void multiply(float *sums, size_t ld, const uint16_t *v,
                     const uint16_t *z, size_t tiles, bool add)
{
    __m512 acc[ROWS][VECS];
    for (size_t r = 0; r < ROWS; r++)
        for (size_t j = 0; j < VECS; j++)
            acc[r][j] = add ? _mm512_loadu_ps(sums + r * ld + j * BLOCK)
                            : _mm512_setzero_ps();
    for (size_t t = 0; t < tiles; t += 2) {
        __m512bh b[VECS];
        for (int j = 0; j < VECS; j++)
            b[j] = (__m512bh)_mm512_loadu_si512(z + t * LANES + 32 * j);
        for (int r = 0; r < ROWS; r++) {
            const __m512bh a = pair_of(v + t * BLOCK + 2 * r);
            for (int j = 0; j < VECS; j++)
                acc[r][j] = _mm512_dpbf16_ps(acc[r][j], a, b[j]);
        }
    }
    for (size_t r = 0; r < ROWS; r++)
        for (size_t j = 0; j < VECS; j++)
            _mm512_storeu_ps(sums + r * ld + j * BLOCK, acc[r][j]);
}

void lsi_winograd_add_up(const lsi_winograd_gradient *run, size_t first,
                         size_t point, size_t o_block)
{
    const lsi_winograd_conv *s = &run->conv;
    const size_t c = (size_t)s->c, o = (size_t)s->o;
    const size_t left = lsi_winograd_tiles(s) - first;
    const size_t tiles = left < STRETCH ? left : STRETCH;
    const uint16_t *v = run->v + point * v_step(s);
    const uint16_t *z = run->z + point * z_step(s) + o_block * Z_BLOCK;
    float *sums = run->sums + point * c * o + o_block * LANES;
    for (size_t i = 0; i < c; i += ROWS)
        multiply(sums + i * o, o, v + i / BLOCK * V_BLOCK + i % BLOCK * 2, z,
                 tiles, first > 0);
}

/* (s0 + (s1 + s2) / 2, (s1 - s2) / 2, (s1 + s2) / 2 + s3) */
INLINE void tap_line(__m512 *to, int step_to, const __m512 *s, int step)
{
    const __m512 half = _mm512_set1_ps(0.5F);
    const __m512 sum = _mm512_mul_ps(half, _mm512_add_ps(s[step], s[2 * step]));
    to[0] = _mm512_add_ps(s[0], sum);
    to[step_to] = _mm512_mul_ps(half, _mm512_sub_ps(s[step], s[2 * step]));
    to[2 * step_to] = _mm512_add_ps(sum, s[3 * step]);
}

/* taps[tap][o] of the sums of one c. */
static void taps_of(float *taps, const float *sums, size_t step)
{
    __m512 s[POINTS], half[3 * 4], t[TAPS];
    for (size_t k = 0; k < POINTS; k++)
        s[k] = _mm512_loadu_ps(sums + k * step);
    for (int i = 0; i < 4; i++)
        tap_line(half + i, 4, s + i, 4);
    for (int i = 0; i < 3; i++)
        tap_line(t + 3 * i, 1, half + 4 * i, 1);
    for (int i = 0; i < TAPS; i++)
        _mm512_storeu_ps(taps + i * BLOCK, t[i]);
}

void lsi_winograd_gradient_of(float *dw, const lsi_winograd_gradient *run,
                              size_t o_block, size_t c_block, bool accumulate)
{
    enum { ROW = BLOCK * TAPS };
    float taps[ROW * BLOCK], rows[BLOCK * ROW];
    const size_t c = (size_t)run->conv.c, o = (size_t)run->conv.o;
    const float *sums = run->sums + c_block * BLOCK * o + o_block * BLOCK;
    for (size_t i = 0; i < BLOCK; i++)
        taps_of(taps + i * ROW, sums + i * o, c * o);
    for (size_t k = 0; k < ROW; k += BLOCK)
        transpose_16(rows + k, ROW, taps + k * BLOCK, BLOCK);
    for (size_t i = 0; i < BLOCK; i++) {
        float *to = dw + ((o_block * BLOCK + i) * c + c_block * BLOCK) * TAPS;
        for (size_t k = 0; k < ROW; k += BLOCK) {
            __m512 x = _mm512_loadu_ps(rows + i * ROW + k);
            if (accumulate)
                x = _mm512_add_ps(x, _mm512_loadu_ps(to + k));
            _mm512_storeu_ps(to + k, x);
        }
    }
}
