#include "plan/model.h"

size_t lsi_plan_bucket(const lsi_plan_run *run, size_t first, double *bytes)
{
    const lsi_plan_model *const m = run->model;
    const double limit = (double)run->bucket_bytes;
    double filled = 0;
    size_t end = first;
    while (end < m->n_tensors) {
        const double more = sizeof(float) * (double)m->tensors[end];
        if (end > first && filled + more > limit)
            break;
        filled += more;
        end++;
    }
    *bytes = filled;
    return end;
}
