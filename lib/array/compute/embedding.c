/* Rows of a table, by index; see embedding.h. */
#include "array/compute/embedding.h"

#include <string.h>

#include "array/compute/compute.h"
#include "array/compute/threads.h"
#include "array/kernels/kernels.h"
#include "base/error.h"
#include "observe/spans.h"

typedef struct embedding_job {
    const lsi_embedding *e;
    float *to;
    const void *from;
    ls_dtype dtype; /* of `from` */
} embedding_job;

static void gather(void *context, size_t begin, size_t end)
{
    const embedding_job *j = context;
    const size_t cols = j->e->cols, bytes = cols * ls_dtype_size(j->dtype);
    const lsi_kernels *k = lsi_kernels_get();
    for (size_t i = begin; i < end; i++) {
        const char *row =
            (const char *)j->from + (size_t)j->e->indices[i] * bytes;
        if (j->dtype == LS_F32)
            memcpy(j->to + i * cols, row, bytes);
        else
            k->convert(j->to + i * cols, LS_F32, row, j->dtype, cols);
    }
}

ls_status lsi_embedding_forward(const lsi_embedding *e, const void *table,
                                ls_dtype dtype, float *y)
{
    LSI_SPAN(KERNEL, "embedding", e->n * e->cols * (4 + ls_dtype_size(dtype)),
             0);
    LS_TRY(lsi_compute_check_indices("embedding: index",
                                     (lsi_indices){e->indices, e->n, 1},
                                     (int64_t)e->vocabulary));
    lsi_parallel_for(e->n, 16, gather, &(embedding_job){e, y, table, dtype});
    return LS_OK;
}

/*
 * Columns begin..end-1: threads divide the columns, so that no two write the
 * same element and none changes the order of the sum.
 */
static void scatter(void *context, size_t begin, size_t end)
{
    const embedding_job *j = context;
    const lsi_kernels *k = lsi_kernels_get();
    for (size_t i = 0; i < j->e->n; i++) {
        float *to = j->to + (size_t)j->e->indices[i] * j->e->cols + begin;
        k->add(to, to, (const float *)j->from + i * j->e->cols + begin,
               end - begin);
    }
}

ls_status lsi_embedding_backward(const lsi_embedding *e, const float *dy,
                                 float *dtable)
{
    LSI_SPAN(KERNEL, "embedding_backward", 12 * e->n * e->cols, e->n * e->cols);
    LS_TRY(lsi_compute_check_indices("embedding backward: index",
                                     (lsi_indices){e->indices, e->n, 1},
                                     (int64_t)e->vocabulary));
    lsi_parallel_for(e->cols, 64, scatter,
                     &(embedding_job){e, dtable, dy, LS_F32});
    return LS_OK;
}

void lsi_embedding_places(int64_t *indices, size_t n, int64_t first,
                          int64_t period)
{
    for (size_t i = 0; i < n; i++)
        indices[i] = first + (int64_t)i % period;
}
