#include "model/parallel/bucket.h"

#include <stdbool.h>

static bool follows(const lsi_grad_range *before, const lsi_grad_range *after)
{
    return before->data + before->extent == after->data;
}

size_t lsi_bucket_layout(const lsi_grad_range *spans, size_t n, uint64_t limit,
                         lsi_range *out)
{
    size_t buckets = 0;
    uint64_t filled = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t bytes = spans[i].count * sizeof(float);
        const bool fits = filled <= limit && bytes <= limit - filled;
        if (i == 0 || !fits || !follows(&spans[i - 1], &spans[i])) {
            out[buckets++] = (lsi_range){i, i};
            filled = 0;
        }
        out[buckets - 1].end = i + 1;
        filled += bytes;
    }
    return buckets;
}
