/* Steps of optimizers; see optimizers.h. */
#include "array/compute/optimizers.h"
#include "observe/spans.h"

#include "array/compute/threads.h"
#include "array/kernels/kernels.h"

enum { GRAIN = 1 << 14 };

typedef struct step_job {
    float *p, *m, *v;
    const float *g;
    const void *numbers;
} step_job;

static void sgd_range(void *context, size_t begin, size_t end)
{
    const step_job *j = context;
    const lsi_sgd *s = j->numbers;
    lsi_kernels_get()->sgd(j->p + begin, j->v != NULL ? j->v + begin : NULL,
                           j->g + begin, end - begin, s->lr, s->momentum,
                           s->weight_decay, s->grad_scale, s->first);
}

void lsi_step_sgd(float *p, float *v_or_null, const float *g, size_t n,
                  const lsi_sgd *numbers)
{
    LSI_SPAN(KERNEL, "step_sgd", (v_or_null != NULL ? 20 : 12) * n,
             (v_or_null != NULL ? 6 : 3) * n);
    step_job job = {.p = p, .v = v_or_null, .g = g, .numbers = numbers};
    lsi_parallel_for(n, GRAIN, sgd_range, &job);
}

static void adamw_range(void *context, size_t begin, size_t end)
{
    const step_job *j = context;
    lsi_kernels_get()->adamw(j->p + begin, j->m + begin, j->v + begin,
                             j->g + begin, end - begin, j->numbers);
}

void lsi_step_adamw(float *p, float *m, float *v, const float *g, size_t n,
                    const lsi_adamw *numbers)
{
    LSI_SPAN(KERNEL, "step_adamw", 28 * n, 15 * n);
    step_job job = {p, m, v, g, numbers};
    lsi_parallel_for(n, GRAIN, adamw_range, &job);
}

static void lion_range(void *context, size_t begin, size_t end)
{
    const step_job *j = context;
    lsi_kernels_get()->lion(j->p + begin, j->m + begin, j->g + begin,
                            end - begin, j->numbers);
}

void lsi_step_lion(float *p, float *m, const float *g, size_t n,
                   const lsi_lion *numbers)
{
    LSI_SPAN(KERNEL, "step_lion", 20 * n, 9 * n);
    step_job job = {.p = p, .m = m, .g = g, .numbers = numbers};
    lsi_parallel_for(n, GRAIN, lion_range, &job);
}
