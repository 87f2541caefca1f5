/*
 * Agreement by showing everybody's status and message to everybody.
 */
#include "train/outcome.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

/* What a rank says: nothing if all is well. */
typedef struct report {
    int32_t status;
    char message[508];
} report;

static ls_status adopt(const report *said, int rank)
{
    if (rank == 0)
        return lsi_fail((ls_status)said->status, "%s", said->message);
    return lsi_fail((ls_status)said->status, "rank %d: %s", rank,
                    said->message);
}

/* The first report among the gathered bytes; reports are all of one size. */
static ls_status first_failure(const char *all, const size_t *sizes, int size,
                               bool *agreed)
{
    for (int r = 0; r < size; r++) {
        if (sizes[r] == 0)
            continue;
        report said;
        memcpy(&said, all, sizeof(said));
        *agreed = true;
        return adopt(&said, r);
    }
    return LS_OK;
}

ls_status lsi_share_outcome(ls_group *group, ls_status status, bool *agreed)
{
    report own = {.status = (int32_t)status};
    if (status != LS_OK)
        snprintf(own.message, sizeof(own.message), "%s", ls_last_error());
    const int size = ls_group_size(group);
    void *sizes;
    LS_TRY(lsi_alloc(&sizes, (size_t)size * sizeof(size_t), LS_MEMORY_OTHER,
                     "an agreement"));
    void *all = NULL;
    ls_status result = ls_all_gather_bytes(
        group, &own, status == LS_OK ? 0 : sizeof(own), sizes, &all);
    if (result == LS_OK)
        result = first_failure(all, sizes, size, agreed);
    free(all);
    lsi_free(sizes);
    return result;
}
