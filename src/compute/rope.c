/* Rotary positions; see rope.h. */
#include "compute/rope.h"

#include <math.h>

#include "base/threads.h"
#include "kernels/kernels.h"

enum { GRAIN = 8 /* rows */ };

typedef struct rope_job {
    const lsi_rope *rope;
    void (*kernel)(float *to, const float *from, const float *cosine,
                   const float *sine, size_t heads, size_t d, bool halves);
    float *to;
    const float *from, *cosine, *sine;
} rope_job;

static void turn(void *context, size_t begin, size_t end)
{
    const rope_job *j = context;
    const lsi_rope *r = j->rope;
    const size_t width = r->heads * r->d;
    for (size_t row = begin; row < end; row++) {
        const size_t angle = row % r->length * (r->d / 2);
        j->kernel(j->to + row * width, j->from + row * width, j->cosine + angle,
                  j->sine + angle, r->heads, r->d, r->halves);
    }
}

void lsi_rope_forward(const lsi_rope *rope, float *to, const float *from,
                      const float *cosine, const float *sine, size_t rows)
{
    rope_job j = {rope, lsi_kernels_get()->rope, to, from, cosine, sine};
    lsi_parallel_for(rows, GRAIN, turn, &j);
}

void lsi_rope_backward(const lsi_rope *rope, float *to, const float *from,
                       const float *cosine, const float *sine, size_t rows)
{
    rope_job j = {rope, lsi_kernels_get()->rope_backward, to, from, cosine,
                  sine};
    lsi_parallel_for(rows, GRAIN, turn, &j);
}

void lsi_rope_tables(float *cosine, float *sine, size_t length, size_t pairs,
                     double theta)
{
    for (size_t k = 0; k < pairs; k++) {
        const double turn = pow(theta, -(double)k / (double)pairs);
        for (size_t t = 0; t < length; t++) {
            cosine[t * pairs + k] = (float)cos((double)t * turn);
            sine[t * pairs + k] = (float)sin((double)t * turn);
        }
    }
}
