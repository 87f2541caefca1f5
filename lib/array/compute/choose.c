/*
 * A lane is the elements along the axis at one place of the other dimensions.
 * Threads divide the lanes, so that no two write the same element and none
 * changes the order of a sum.
 */
#include "array/compute/choose.h"

#include <math.h>
#include <stdbool.h>

#include "array/compute/array.h"
#include "array/compute/compute.h"
#include "array/compute/threads.h"
#include "base/error.h"
#include "observe/spans.h"

enum { GRAIN = 1 << 12 /* elements worth a thread */ };

typedef struct lanes_job {
    const lsi_choice *take;
    lsi_along of;
    float *to;
    const float *from;
    int64_t *places;
} lanes_job;

static void over_lanes(lsi_range_fn fn, lanes_job *job, size_t each)
{
    const size_t grain = each < GRAIN ? GRAIN / (each + 1) + 1 : 1;
    lsi_parallel_for(job->of.outer * job->of.inner, grain, fn, job);
}

/* Where a lane of an array with n elements along the axis begins. */
static size_t begin_of(lsi_along of, size_t n, size_t lane)
{
    return lane / of.inner * n * of.inner + lane % of.inner;
}

/* ---- take_along ---------------------------------------------------------- */

static void take_lanes(void *context, size_t begin, size_t end)
{
    const lanes_job *j = context;
    const size_t step = j->of.inner, m = j->take->m;
    for (size_t lane = begin; lane < end; lane++) {
        const size_t to = begin_of(j->of, m, lane);
        const float *from = j->from + begin_of(j->of, j->of.n, lane);
        for (size_t k = to; k < to + m * step; k += step)
            j->to[k] = from[(size_t)j->take->indices[k] * step];
    }
}

ls_status lsi_take_along(const lsi_choice *take, float *y, const float *x)
{
    const size_t n = take->of.outer * take->m * take->of.inner;
    LSI_SPAN(KERNEL, "take_along", 16 * n, 0);
    LS_TRY(lsi_compute_check_indices("take_along: index",
                                     (lsi_indices){take->indices, n, 1},
                                     (int64_t)take->of.n));
    lanes_job job = {.take = take, .of = take->of, .to = y, .from = x};
    over_lanes(take_lanes, &job, take->m);
    return LS_OK;
}

static void add_lanes(void *context, size_t begin, size_t end)
{
    const lanes_job *j = context;
    const size_t step = j->of.inner, m = j->take->m;
    for (size_t lane = begin; lane < end; lane++) {
        const size_t from = begin_of(j->of, m, lane);
        float *to = j->to + begin_of(j->of, j->of.n, lane);
        for (size_t k = from; k < from + m * step; k += step)
            to[(size_t)j->take->indices[k] * step] += j->from[k];
    }
}

ls_status lsi_take_along_backward(const lsi_choice *take, float *dx,
                                  const float *dy)
{
    const lsi_along of = take->of;
    const size_t n = of.outer * take->m * of.inner;
    LSI_SPAN(KERNEL, "take_along_backward", 16 * n, n);
    LS_TRY(lsi_compute_check_indices("take_along backward: index",
                                     (lsi_indices){take->indices, n, 1},
                                     (int64_t)of.n));
    lsi_array_fill(dx, 0.0F, of.outer * of.n * of.inner);
    lanes_job job = {.take = take, .of = of, .to = dx, .from = dy};
    over_lanes(add_lanes, &job, take->m);
    return LS_OK;
}

/* ---- argmax -------------------------------------------------------------- */

/* NaN counts as larger than any number. */
static bool is_larger(float a, float b)
{
    return a > b || (isnan(a) && !isnan(b));
}

static void argmax_lanes(void *context, size_t begin, size_t end)
{
    const lanes_job *j = context;
    const size_t step = j->of.inner;
    for (size_t lane = begin; lane < end; lane++) {
        const float *x = j->from + begin_of(j->of, j->of.n, lane);
        size_t best = 0;
        for (size_t i = 1; i < j->of.n; i++) {
            if (is_larger(x[i * step], x[best * step]))
                best = i;
        }
        j->places[lane] = (int64_t)best;
    }
}

void lsi_argmax(lsi_along of, int64_t *y, const float *x)
{
    const size_t n = of.outer * of.n * of.inner;
    LSI_SPAN(KERNEL, "argmax", 4 * n, n);
    lanes_job job = {.of = of, .from = x, .places = y};
    over_lanes(argmax_lanes, &job, of.n);
}
