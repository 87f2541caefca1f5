/*
 * The result is computed in blocks of consecutive elements. An operand whose
 * elements are consecutive, too, is read in place; other operands are gathered
 * first, into a block that stays in the first-level cache.
 */
#include "array/compute/broadcast.h"
#include "array/compute/work.h"

#include <stdbool.h>
#include <string.h>

#include "array/compute/threads.h"
#include "array/kernels/kernels.h"

enum {
    GRAIN = 1 << 14, /* elements worth a thread */
    BLOCK = 512,     /* elements that are gathered at once */
    LONG_ROW = 64    /* elements of a row that is worth a separate block */
};

typedef struct operand {
    const float *data;
    int64_t strides[LS_MAX_DIMS];
    bool dense; /* in the order of the result */
} operand;

/* y = a op one number, or the other way round. */
typedef void (*number_fn)(float *y, const float *a, float number, size_t n);

/* Neighbouring dimensions are merged where all arrays step alike. */
typedef struct broadcast {
    void (*fn)(float *y, const float *a, const float *b, size_t n);
    number_fn with_number[2]; /* where operand i is the number */
    bool negate;              /* the number, if it is operand 1 */
    float *y;
    int ndim; /* at least 1 */
    int64_t shape[LS_MAX_DIMS];
    operand in[2];
} broadcast;

/* ---- planning ------------------------------------------------------------ */

static bool can_merge(const broadcast *b, int last, int64_t extent,
                      const int64_t step[2])
{
    for (int i = 0; i < 2; i++)
        if (b->in[i].strides[last] != extent * step[i])
            return false;
    return true;
}

static void merge_dims(broadcast *b, int ndim, const int64_t *shape,
                       const lsi_repeated in[2])
{
    for (int d = 0; d < ndim; d++) {
        const int64_t extent = shape[d];
        const int64_t step[2] = {in[0].strides[d], in[1].strides[d]};
        if (extent == 1)
            continue;
        const bool merge =
            b->ndim > 0 && can_merge(b, b->ndim - 1, extent, step);
        const int at = merge ? b->ndim - 1 : b->ndim++;
        b->shape[at] = merge ? b->shape[at] * extent : extent;
        b->in[0].strides[at] = step[0];
        b->in[1].strides[at] = step[1];
    }
    if (b->ndim == 0) { /* one element */
        b->shape[b->ndim++] = 1;
        b->in[0].strides[0] = b->in[1].strides[0] = 1;
    }
}

static bool is_dense(const broadcast *b, const operand *in)
{
    int64_t step = 1;
    for (int d = b->ndim - 1; d >= 0; d--) {
        if (in->strides[d] != step)
            return false;
        step *= b->shape[d];
    }
    return true;
}

/* ---- a place in the arrays ----------------------------------------------- */

/* A row, which is a run along the innermost dimension, and where it begins. */
typedef struct place {
    int64_t index[LS_MAX_DIMS]; /* the last is the column */
    int64_t row_of[2];          /* in each operand */
} place;

static place place_at(const broadcast *b, size_t element)
{
    place p = {0};
    int64_t rest = (int64_t)element;
    for (int d = b->ndim - 1; d >= 0; d--) {
        p.index[d] = rest % b->shape[d];
        rest /= b->shape[d];
        for (int i = 0; i < 2 && d < b->ndim - 1; i++)
            p.row_of[i] += p.index[d] * b->in[i].strides[d];
    }
    return p;
}

static void next_row(const broadcast *b, place *p)
{
    p->index[b->ndim - 1] = 0;
    for (int d = b->ndim - 2; d >= 0; d--) {
        const int64_t back = ++p->index[d] < b->shape[d] ? 0 : b->shape[d];
        for (int i = 0; i < 2; i++)
            p->row_of[i] += (1 - back) * b->in[i].strides[d];
        if (back == 0)
            return;
        p->index[d] = 0;
    }
}

/* Advances by n elements. */
static void advance(const broadcast *b, place *p, size_t n)
{
    const int inner = b->ndim - 1;
    p->index[inner] += (int64_t)n;
    if (p->index[inner] >= b->shape[inner])
        next_row(b, p);
}

/* ---- blocks -------------------------------------------------------------- */

static size_t left_in_row(const broadcast *b, const place *p)
{
    return (size_t)(b->shape[b->ndim - 1] - p->index[b->ndim - 1]);
}

static void gather_run(float *to, const float *from, int64_t stride, size_t n)
{
    if (stride == 1) {
        memcpy(to, from, n * sizeof *to);
        return;
    }
    const float first = *from;
    for (size_t i = 0; i < n && stride == 0; i++)
        to[i] = first;
    for (size_t i = 0; i < n && stride != 0; i++)
        to[i] = from[(int64_t)i * stride];
}

/* n elements of an operand from a place on, which may pass ends of rows. */
static void gather(const broadcast *b, int i, place p, float *to, size_t n)
{
    const operand *in = &b->in[i];
    const int inner = b->ndim - 1;
    while (n > 0) {
        const size_t left = left_in_row(b, &p);
        const size_t run = left < n ? left : n;
        const int64_t stride = in->strides[inner];
        gather_run(to, in->data + p.row_of[i] + p.index[inner] * stride, stride,
                   run);
        to += run;
        n -= run;
        advance(b, &p, run);
    }
}

/* Whether n elements from here on are consecutive. */
static bool lies_ready(const broadcast *b, int i, const place *p, size_t n)
{
    const operand *in = &b->in[i];
    return in->dense ||
           (in->strides[b->ndim - 1] == 1 && n <= left_in_row(b, p));
}

/* Whether an operand is one number along a row, and the other is not. */
static bool is_number(const broadcast *b, int i)
{
    const int inner = b->ndim - 1;
    return b->shape[inner] >= LONG_ROW && b->in[i].strides[inner] == 0 &&
           b->in[1 - i].strides[inner] == 1;
}

static const float *elements(const broadcast *b, int i, const place *p,
                             size_t at, float *block, size_t n)
{
    const operand *in = &b->in[i];
    const int inner = b->ndim - 1;
    if (in->dense)
        return in->data + at;
    if (lies_ready(b, i, p, n))
        return in->data + p->row_of[i] + p->index[inner];
    gather(b, i, *p, block, n);
    return block;
}

/* How many elements to compute at once. */
static size_t block_at(const broadcast *b, const place *p, size_t left)
{
    const bool rows = b->shape[b->ndim - 1] >= LONG_ROW;
    size_t n = rows ? left_in_row(b, p) : BLOCK;
    n = n < left ? n : left;
    if (n < BLOCK || is_number(b, 0) || is_number(b, 1))
        return n;
    return lies_ready(b, 0, p, n) && lies_ready(b, 1, p, n) ? n : BLOCK;
}

static void compute_with_number(const broadcast *b, int i, const place *p,
                                size_t at, size_t n)
{
    const float number = b->in[i].data[p->row_of[i]];
    const float *x = elements(b, 1 - i, p, at, NULL, n);
    const bool minus = b->negate && i == 1;
    b->with_number[i](b->y + at, x, minus ? -number : number, n);
}

static void compute_block(const broadcast *b, const place *p, size_t at,
                          size_t n)
{
    float blocks[2][BLOCK];
    const float *x[2];
    for (int i = 0; i < 2; i++)
        if (is_number(b, i)) {
            compute_with_number(b, i, p, at, n);
            return;
        }
    for (int i = 0; i < 2; i++)
        x[i] = elements(b, i, p, at, blocks[i], n);
    b->fn(b->y + at, x[0], x[1], n);
}

static void broadcast_range(void *context, size_t begin, size_t end)
{
    const broadcast *b = context;
    place p = place_at(b, begin);
    for (size_t at = begin; at < end;) {
        const size_t n = block_at(b, &p, end - at);
        compute_block(b, &p, at, n);
        at += n;
        for (size_t left = n; left > 0;) {
            const size_t row = left_in_row(b, &p);
            const size_t step = row < left ? row : left;
            advance(b, &p, step);
            left -= step;
        }
    }
}

void lsi_broadcast_binary(lsi_binary_op op, float *y, int ndim,
                          const int64_t *shape, lsi_repeated a, lsi_repeated b)
{
    LSI_SPAN(KERNEL, "broadcast", 12 * lsi_work_elements(ndim, shape),
             lsi_work_elements(ndim, shape));
    const lsi_kernels *k = lsi_kernels_get();
    const lsi_repeated in[2] = {a, b};
    broadcast plan = {.y = y, .in = {{.data = a.data}, {.data = b.data}}};
    size_t n = 1;
    for (int d = 0; d < ndim; d++)
        n *= (size_t)shape[d];
    if (n == 0)
        return;
    const struct {
        void (*fn)(float *y, const float *a, const float *b, size_t n);
        number_fn with_number[2];
    } kernels[] = {
        [LSI_BINARY_ADD] = {k->add, {k->add_number, k->add_number}},
        [LSI_BINARY_SUB] = {k->sub, {k->number_minus, k->add_number}},
        [LSI_BINARY_MUL] = {k->mul, {k->scale, k->scale}},
        [LSI_BINARY_DIV] = {k->div, {k->number_over, k->over_number}},
    };
    plan.fn = kernels[op].fn;
    plan.with_number[0] = kernels[op].with_number[0];
    plan.with_number[1] = kernels[op].with_number[1];
    plan.negate = op == LSI_BINARY_SUB;
    merge_dims(&plan, ndim, shape, in);
    for (int i = 0; i < 2; i++)
        plan.in[i].dense = is_dense(&plan, &plan.in[i]);
    lsi_parallel_for(n, GRAIN, broadcast_range, &plan);
}
