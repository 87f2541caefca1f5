/*
 * Normalisation of channels; see planes.h. A *unit* is a contiguous part of an
 * image: the pixels of a block of channels. To kernels it is a matrix whose
 * columns are lanes: several copies of the block side by side, so that sums
 * have enough of them to add to in turn. The pixels that fill no row are a row
 * of fewer lanes. A unit is done piece by piece; half types are converted then,
 * in the second-level cache.
 */
#include "array/compute/planes.h"

#include <string.h>

#include "array/compute/mixed.h"
#include "array/compute/threads.h"
#include "array/kernels/kernels.h"
#include "array/kernels/layout.h"
#include "observe/spans.h"

static size_t plane_elements(const lsi_planes *s)
{
    return s->images * s->channels * s->pixels;
}

enum {
    LANES = 64,        /* columns, if the block has not more */
    SEGMENT = 1 << 12, /* columns at most */
    PIECE = 1 << 13    /* elements */
};

lsi_planes lsi_planes_of(lsi_layout layout, int ndim, const int64_t *shape)
{
    const size_t n = (size_t)shape[0], c = (size_t)shape[1];
    if (ndim == 2)
        return (lsi_planes){
            .images = 1, .channels = c, .pixels = n, .block = c > 0 ? c : 1};
    size_t pixels = 1;
    for (int i = 2; i < ndim; i++)
        pixels *= (size_t)shape[i];
    return (lsi_planes){.images = n,
                        .channels = c,
                        .pixels = pixels,
                        .block = (size_t)lsi_layout_block(layout, shape[1])};
}

typedef struct unit {
    size_t at;    /* its first element */
    size_t first; /* channel */
    size_t image;
    size_t width, rows, rest; /* lanes, full rows, lanes of the last row */
} unit;

static unit unit_at(const lsi_planes *s, size_t index)
{
    const size_t blocks = s->channels / s->block;
    size_t copies = s->block < LANES ? LANES / s->block : 1;
    if (copies > s->pixels)
        copies = s->pixels > 0 ? s->pixels : 1;
    const size_t width = s->block * copies, count = s->pixels * s->block;
    return (unit){.at = index * count,
                  .first = index % blocks * s->block,
                  .image = index / blocks,
                  .width = width,
                  .rows = count / width,
                  .rest = count % width};
}

/* Some rows of some lanes of a unit. */
typedef struct piece {
    size_t at, rows, cols;
    size_t lane; /* the first */
} piece;

typedef struct job job;
typedef void (*piece_fn)(const job *j, const unit *u, const piece *p,
                         void *state);

/* Vectors over the lanes of a unit, those of channels repeated. */
typedef struct lane_vectors {
    float copies[5][LANES];
    const float *mean, *scale, *bias, *p, *q;
} lane_vectors;

struct job {
    const lsi_kernels *k;
    lsi_planes s;
    lsi_plane_affine a;
    lsi_mixed x, y, residual;
    bool relu;
    lsi_plane_sums sums;
    lsi_plane_dx dx;
    float *mean, *m2; /* of moments */
    piece_fn piece;   /* called by with_lanes */
    bool half;        /* all arrays are bf16 and given to kernels as they are */
};

static const float *repeat(const lsi_planes *s, const unit *u, size_t step,
                           const float *vector, float *copies)
{
    if (vector == NULL)
        return NULL;
    vector += u->image * step + u->first;
    if (u->width == s->block)
        return vector;
    for (size_t i = 0; i < u->width; i += s->block)
        memcpy(copies + i, vector, s->block * sizeof(float));
    return copies;
}

static void fill_lanes(const job *j, const unit *u, lane_vectors *v)
{
    const size_t step = j->a.step;
    v->mean = repeat(&j->s, u, step, j->a.mean, v->copies[0]);
    v->scale = repeat(&j->s, u, step, j->a.scale, v->copies[1]);
    v->bias = repeat(&j->s, u, step, j->a.bias, v->copies[2]);
    v->p = repeat(&j->s, u, step, j->dx.p, v->copies[3]);
    v->q = repeat(&j->s, u, step, j->dx.q, v->copies[4]);
}

/* Calls fn with the pieces of lanes from..from + cols, top down. */
static void for_pieces(const job *j, const unit *u, size_t from, size_t cols,
                       piece_fn fn, void *state)
{
    const size_t most = cols < u->width ? 1 : PIECE / u->width;
    const size_t step = most > 0 ? most : 1;
    for (size_t r = 0; r < u->rows; r += step) {
        const size_t rows = u->rows - r < step ? u->rows - r : step;
        fn(j, u, &(piece){u->at + r * u->width + from, rows, cols, from},
           state);
    }
    if (u->rest > 0) /* there is one segment then */
        fn(j, u, &(piece){u->at + u->rows * u->width, 1, u->rest, 0}, state);
}

static size_t segment_of(const unit *u, size_t from)
{
    return u->width - from < SEGMENT ? u->width - from : SEGMENT;
}

static bool is_bf16(lsi_mixed array)
{
    return array.data == NULL || array.dtype == LS_BF16;
}

static void for_units(const job *j, lsi_range_fn fn)
{
    job copy = *j;
    copy.k = lsi_kernels_get();
    copy.half = is_bf16(j->x) && is_bf16(j->y) && is_bf16(j->residual) &&
                is_bf16(j->sums.dz) && is_bf16(j->sums.dy) &&
                is_bf16(j->sums.x) && is_bf16(j->sums.y) && is_bf16(j->dx.dx) &&
                is_bf16(j->dx.dy) && is_bf16(j->dx.x);
    if (j->s.channels > 0)
        lsi_parallel_for(j->s.images * (j->s.channels / j->s.block), 1, fn,
                         &copy);
}

/* ---- arrays of any type -------------------------------------------------- */

static void *element(lsi_mixed array, size_t at)
{
    return (char *)array.data + at * ls_dtype_size(array.dtype);
}

/* A piece of an array as kernels read it: itself, or converted to the buffer.
 */
static const void *read_piece(const job *j, lsi_mixed array, const piece *p,
                              float *buffer)
{
    if (array.data == NULL)
        return NULL;
    if (array.dtype == LS_F32 || j->half)
        return element(array, p->at);
    j->k->convert(buffer, LS_F32, element(array, p->at), array.dtype,
                  p->rows * p->cols);
    return buffer;
}

/* Where a piece is computed, to be handed to written. */
static void *place_of(const job *j, lsi_mixed array, const piece *p,
                      float *buffer)
{
    if (array.data == NULL)
        return NULL;
    return array.dtype == LS_F32 || j->half ? element(array, p->at) : buffer;
}

static void written(const job *j, lsi_mixed array, const piece *p,
                    const void *buffer)
{
    if (array.data != NULL && array.dtype != LS_F32 && !j->half)
        j->k->convert(element(array, p->at), array.dtype, buffer, LS_F32,
                      p->rows * p->cols);
}

/* ---- moments ------------------------------------------------------------- */

/* Of the lanes of a segment, all with the same number of rows so far. */
typedef struct lane_moments {
    double rows, mean[SEGMENT], m2[SEGMENT];
} lane_moments;

static void merge(double n, double *mean, double *m2, double more_n,
                  double more_mean, double more_m2)
{
    const double share = more_n / (n + more_n), d = more_mean - *mean;
    *mean += d * share;
    *m2 += more_m2 + d * d * n * share;
}

static void moments_of_piece(const job *j, const unit *u, const piece *p,
                             void *state)
{
    lane_moments *to = state;
    float buffer[PIECE], mean[SEGMENT], m2[SEGMENT];
    (void)u;
    const void *x = read_piece(j, j->x, p, buffer);
    if (j->half)
        j->k->column_moments_bf16(mean, m2, x, p->rows, p->cols);
    else
        j->k->column_moments(mean, m2, x, p->rows, p->cols);
    for (size_t i = 0; i < p->cols; i++)
        merge(to->rows, &to->mean[i], &to->m2[i], (double)p->rows,
              (double)mean[i], (double)m2[i]);
    to->rows += (double)p->rows;
}

/* The copies of each channel together. */
static void fold_moments(const job *j, const unit *u, const lane_moments *from,
                         size_t begin, size_t cols)
{
    const size_t block = j->s.block, to = u->image * j->s.channels + u->first;
    const size_t channels = cols < block ? cols : block;
    for (size_t c = 0; c < channels; c++) {
        double n = 0, mean = 0, m2 = 0;
        for (size_t i = c; i < cols; i += block) {
            const double rows = (double)u->rows + (i < u->rest ? 1 : 0);
            merge(n, &mean, &m2, rows, from->mean[i], from->m2[i]);
            n += rows;
        }
        j->mean[to + begin + c] = (float)mean;
        j->m2[to + begin + c] = (float)m2;
    }
}

static void moments_of_units(void *context, size_t begin, size_t end)
{
    const job *j = context;
    for (size_t i = begin; i < end; i++) {
        const unit u = unit_at(&j->s, i);
        for (size_t from = 0; from < u.width; from += SEGMENT) {
            lane_moments moments;
            const size_t cols = segment_of(&u, from);
            moments.rows = 0;
            for (size_t c = 0; c < cols; c++)
                moments.mean[c] = moments.m2[c] = 0;
            for_pieces(j, &u, from, cols, moments_of_piece, &moments);
            fold_moments(j, &u, &moments, from, cols);
        }
    }
}

void lsi_planes_moments(const lsi_planes *s, lsi_mixed x, float *mean,
                        float *m2)
{
    LSI_SPAN(KERNEL, "planes_moments", plane_elements(s) * lsi_mixed_size(x),
             4 * plane_elements(s));
    for (size_t i = 0; s->pixels == 0 && i < s->images * s->channels; i++)
        mean[i] = m2[i] = 0;
    if (s->pixels > 0)
        for_units(&(job){.s = *s, .x = x, .mean = mean, .m2 = m2},
                  moments_of_units);
}

void lsi_planes_merge(const lsi_planes *s, const float *means, const float *m2s,
                      float *mean, float *m2)
{
    const double pixels = (double)s->pixels;
    for (size_t c = 0; c < s->channels; c++) {
        double mu = 0, total = 0;
        for (size_t i = 0; pixels > 0 && i < s->images; i++)
            merge((double)i * pixels, &mu, &total, pixels,
                  (double)means[i * s->channels + c],
                  (double)m2s[i * s->channels + c]);
        mean[c] = (float)mu;
        m2[c] = (float)total;
    }
}

void lsi_planes_fold(const lsi_planes *s, const float *sums, float *out)
{
    for (size_t c = 0; c < s->channels; c++) {
        double total = 0;
        for (size_t i = 0; i < s->images; i++)
            total += (double)sums[i * s->channels + c];
        out[c] = (float)total;
    }
}

/* ---- forward ------------------------------------------------------------- */

static void affine_piece(const job *j, const unit *u, const piece *p,
                         void *state)
{
    const lane_vectors *v = state;
    float x[PIECE], residual[PIECE];
    (void)u;
    void *to = place_of(j, j->y, p, x);
    j->k->affine_columns(to, read_piece(j, j->x, p, x),
                         read_piece(j, j->residual, p, residual),
                         v->mean + p->lane, v->scale + p->lane,
                         v->bias + p->lane, p->rows, p->cols, j->relu, j->half);
    written(j, j->y, p, to);
}

/* Every piece of some units, with the vectors of its lanes. */
static void with_lanes(void *context, size_t begin, size_t end)
{
    const job *j = context;
    for (size_t i = begin; i < end; i++) {
        const unit u = unit_at(&j->s, i);
        lane_vectors v;
        fill_lanes(j, &u, &v);
        for (size_t from = 0; from < u.width; from += SEGMENT)
            for_pieces(j, &u, from, segment_of(&u, from), j->piece, &v);
    }
}

void lsi_planes_affine(const lsi_planes *s, const lsi_plane_affine *a,
                       lsi_mixed y, lsi_mixed x, lsi_mixed residual, bool relu)
{
    LSI_SPAN(KERNEL, "planes_affine",
             plane_elements(s) * (lsi_mixed_size(x) + lsi_mixed_size(y) +
                                  lsi_mixed_size(residual)),
             3 * plane_elements(s));
    for_units(&(job){.s = *s,
                     .a = *a,
                     .x = x,
                     .y = y,
                     .residual = residual,
                     .relu = relu,
                     .piece = affine_piece},
              with_lanes);
}

/* ---- backward ------------------------------------------------------------ */

typedef struct lane_sums {
    lane_vectors v;
    double dz[SEGMENT], dz_d[SEGMENT];
} lane_sums;

static void sums_of_piece(const job *j, const unit *u, const piece *p,
                          void *state)
{
    lane_sums *to = state;
    const lsi_plane_sums *s = &j->sums;
    float dy[PIECE], x[PIECE], y[PIECE], sum[SEGMENT], dot[SEGMENT];
    const bool by_x = s->gate == LSI_GATE_BY_X;
    (void)u;
    void *dz = place_of(j, s->dz, p, dy);
    j->k->affine_columns_sums(
        sum, dot, dz, read_piece(j, s->dy, p, dy), read_piece(j, s->x, p, x),
        s->gate == LSI_GATE_BY_Y ? read_piece(j, s->y, p, y) : NULL,
        to->v.mean + p->lane, by_x ? to->v.scale + p->lane : NULL,
        by_x ? to->v.bias + p->lane : NULL, p->rows, p->cols, j->half);
    written(j, s->dz, p, dz);
    for (size_t i = 0; i < p->cols; i++) {
        to->dz[i] += (double)sum[i];
        to->dz_d[i] += (double)dot[i];
    }
}

static void fold_sums(const job *j, const unit *u, const lane_sums *from,
                      size_t begin, size_t cols)
{
    const size_t block = j->s.block, to = u->image * j->s.channels + u->first;
    const size_t channels = cols < block ? cols : block;
    for (size_t c = 0; c < channels; c++) {
        double dz = 0, dz_d = 0;
        for (size_t i = c; i < cols; i += block) {
            dz += from->dz[i];
            dz_d += from->dz_d[i];
        }
        j->sums.sum_dz[to + begin + c] = (float)dz;
        j->sums.sum_dz_d[to + begin + c] = (float)dz_d;
    }
}

static void sums_of_units(void *context, size_t begin, size_t end)
{
    const job *j = context;
    for (size_t i = begin; i < end; i++) {
        const unit u = unit_at(&j->s, i);
        lane_sums sums;
        fill_lanes(j, &u, &sums.v);
        for (size_t from = 0; from < u.width; from += SEGMENT) {
            const size_t cols = segment_of(&u, from);
            for (size_t c = 0; c < cols; c++)
                sums.dz[c] = sums.dz_d[c] = 0;
            for_pieces(j, &u, from, cols, sums_of_piece, &sums);
            fold_sums(j, &u, &sums, from, cols);
        }
    }
}

void lsi_planes_sums(const lsi_planes *s, const lsi_plane_affine *a,
                     const lsi_plane_sums *sums)
{
    LSI_SPAN(KERNEL, "planes_sums",
             plane_elements(s) *
                 (lsi_mixed_size(sums->dy) + lsi_mixed_size(sums->x)),
             4 * plane_elements(s));
    for_units(&(job){.s = *s, .a = *a, .sums = *sums}, sums_of_units);
}

void lsi_planes_total(const lsi_planes *s, lsi_mixed x, float *sums,
                      float *spare)
{
    LSI_SPAN(KERNEL, "planes_total", plane_elements(s) * lsi_mixed_size(x),
             plane_elements(s));
    const lsi_plane_sums of = {.dz = LSI_NO_ARRAY,
                               .dy = x,
                               .x = x,
                               .gate = LSI_GATE_NONE,
                               .sum_dz = sums,
                               .sum_dz_d = spare};
    const lsi_plane_affine a = {.step = s->channels, .mean = spare};
    for (size_t i = 0; i < s->images * s->channels; i++)
        sums[i] = spare[i] = 0;
    if (s->pixels > 0)
        lsi_planes_sums(s, &a, &of);
}

static void fill_piece(const job *j, const unit *u, const piece *p, void *state)
{
    const lane_vectors *v = state;
    float buffer[PIECE];
    (void)u;
    for (size_t r = 0; r < p->rows; r++)
        for (size_t i = 0; i < p->cols; i++)
            buffer[r * p->cols + i] = v->mean[p->lane + i];
    j->k->convert(element(j->y, p->at), j->y.dtype, buffer, LS_F32,
                  p->rows * p->cols);
}

void lsi_planes_fill(const lsi_planes *s, lsi_mixed y, const float *values)
{
    LSI_SPAN(KERNEL, "planes_fill", plane_elements(s) * lsi_mixed_size(y), 0);
    for_units(&(job){.s = *s,
                     .a = {.mean = values, .step = s->channels},
                     .y = y,
                     .piece = fill_piece},
              with_lanes);
}

static void dx_of_piece(const job *j, const unit *u, const piece *p,
                        void *state)
{
    const lane_vectors *v = state;
    const lsi_plane_dx *g = &j->dx;
    float dy[PIECE], x[PIECE];
    (void)u;
    void *to = place_of(j, g->dx, p, dy);
    j->k->affine_columns_dx(
        to, read_piece(j, g->dy, p, dy), read_piece(j, g->x, p, x),
        v->mean + p->lane, v->scale + p->lane,
        g->gated_by_x ? v->bias + p->lane : NULL, v->p + p->lane,
        v->q + p->lane, p->rows, p->cols, j->half);
    written(j, g->dx, p, to);
}

void lsi_planes_dx(const lsi_planes *s, const lsi_plane_affine *a,
                   const lsi_plane_dx *g)
{
    LSI_SPAN(KERNEL, "planes_dx",
             plane_elements(s) * (lsi_mixed_size(g->dx) +
                                  lsi_mixed_size(g->dy) + lsi_mixed_size(g->x)),
             4 * plane_elements(s));
    for_units(&(job){.s = *s, .a = *a, .dx = *g, .piece = dx_of_piece},
              with_lanes);
}
