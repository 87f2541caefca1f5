/* Rotary positions; see rope.h. */
#include "array/compute/rope.h"
#include "observe/spans.h"

#include "array/compute/threads.h"
#include "array/kernels/kernels.h"
#include "base/math.h"

enum { GRAIN = 8 /* rows */ };

typedef struct rope_job {
    const lsi_rope *rope;
    bool back;
    float *to;
    const float *from, *cosine, *sine;
} rope_job;

static void turn(void *context, size_t begin, size_t end)
{
    const rope_job *j = context;
    const lsi_rope *r = j->rope;
    const lsi_kernels *k = lsi_kernels_get();
    const size_t width = r->heads * r->d;
    for (size_t row = begin; row < end; row++) {
        const size_t angle = row % r->length * (r->d / 2);
        const float *cosine = j->cosine + angle, *sine = j->sine + angle;
        const float *from = j->from + row * width;
        float *to = j->to + row * width;
        if (r->layout == LSI_ROPE_HALVES)
            k->rotate_half(to, from, cosine, sine, r->heads, r->d, j->back);
        else
            (j->back ? k->rope_backward
                     : k->rope)(to, from, cosine, sine, r->heads, r->d,
                                r->layout == LSI_ROPE_TO_HALVES);
    }
}

void lsi_rope_forward(const lsi_rope *rope, float *to, const float *from,
                      const float *cosine, const float *sine, size_t rows)
{
    LSI_SPAN(KERNEL, "rope", 8 * rows * rope->heads * rope->d,
             3 * rows * rope->heads * rope->d);
    rope_job j = {rope, false, to, from, cosine, sine};
    lsi_parallel_for(rows, GRAIN, turn, &j);
}

void lsi_rope_backward(const lsi_rope *rope, float *to, const float *from,
                       const float *cosine, const float *sine, size_t rows)
{
    LSI_SPAN(KERNEL, "rope_backward", 8 * rows * rope->heads * rope->d,
             3 * rows * rope->heads * rope->d);
    rope_job j = {rope, true, to, from, cosine, sine};
    lsi_parallel_for(rows, GRAIN, turn, &j);
}

void lsi_rope_tables(float *cosine, float *sine, const int64_t *places,
                     size_t length, const double *rates, size_t pairs)
{
    for (size_t t = 0; t < length; t++) {
        const double place = (double)places[t];
        for (size_t k = 0; k < pairs; k++) {
            double c, s;
            lsi_sincos(place * rates[k], &s, &c);
            cosine[t * pairs + k] = (float)c;
            sine[t * pairs + k] = (float)s;
        }
    }
}
