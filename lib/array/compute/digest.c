#include "array/compute/digest.h"

#include <stdatomic.h>
#include <string.h>

#include "array/compute/threads.h"
#include "array/kernels/kernels.h"
#include "observe/spans.h"

enum { WORD = sizeof(uint64_t), GRAIN = 1 << 14 /* words */ };

typedef struct digest_job {
    const unsigned char *data;
    uint64_t first;
    _Atomic uint64_t sum;
} digest_job;

static void digest_range(void *context, size_t begin, size_t end)
{
    digest_job *const job = context;
    uint64_t part;
    lsi_kernels_get()->digest(&part, job->data + begin * WORD, end - begin,
                              job->first + begin);
    atomic_fetch_add(&job->sum, part);
}

uint64_t lsi_array_digest(const void *data, size_t bytes, uint64_t first)
{
    LSI_SPAN(KERNEL, "digest", bytes, 0);
    const size_t words = bytes / WORD, rest = bytes % WORD;
    digest_job job = {.data = data, .first = first};
    lsi_parallel_for(words, GRAIN, digest_range, &job);
    if (rest > 0) {
        uint64_t word = 0, part;
        memcpy(&word, job.data + words * WORD, rest);
        lsi_kernels_get()->digest(&part, &word, 1, first + words);
        job.sum += part;
    }
    return job.sum;
}
