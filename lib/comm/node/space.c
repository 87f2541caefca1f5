/*
 * Freed ranges wait in a table at the start of the job's memory. A rank
 * acquires a row before it changes it, and nobody waits for a row. A row that
 * is being changed, or whose rank died doing so, is passed over. If no row
 * fits, a range is taken past the end of all others. The file is sparse, so
 * that costs nothing but addresses.
 */
#include "comm/node/space.h"

#include "comm/node/transport.h"
#include <assert.h>

enum { EMPTY, HELD, FULL }; /* a row */

static bool hold(lsi_vacancy *row, uint32_t from)
{
    return atomic_load(&row->state) == from &&
           atomic_compare_exchange_strong(&row->state, &from, HELD);
}

static bool find_vacancy(lsi_job *job, uint64_t bytes, uint64_t *offset)
{
    for (int i = 0; i < LSI_VACANCIES; i++) {
        lsi_vacancy *row = &job->vacancies[i];
        if (atomic_load(&row->bytes) != bytes || !hold(row, FULL))
            continue;
        const bool fits = atomic_load(&row->bytes) == bytes;
        if (fits)
            *offset = row->offset;
        atomic_store(&row->state, fits ? EMPTY : FULL);
        if (fits)
            return true;
    }
    return false;
}

uint64_t lsi_space_allocate(ls_group *group, uint64_t bytes)
{
    lsi_job *job = group->memory.job;
    uint64_t offset;
    /* Huge pages need the same alignment in the file as in memory. */
    const uint64_t unit = bytes >= LSI_HUGE_PAGE ? LSI_HUGE_PAGE : LSI_PAGE;
    assert(bytes > 0 && bytes % LSI_PAGE == 0);
    if (find_vacancy(job, bytes, &offset))
        return offset;
    offset = atomic_fetch_add(&job->end, bytes + unit - LSI_PAGE);
    return (offset + unit - 1) / unit * unit;
}

void lsi_space_free(ls_group *group, uint64_t offset, uint64_t bytes)
{
    if (!group->memory.node->transport->discard(group->memory.node, offset,
                                                bytes))
        return; /* the next user of the range would not find zeros */
    for (int i = 0; i < LSI_VACANCIES; i++) {
        lsi_vacancy *row = &group->memory.job->vacancies[i];
        if (!hold(row, EMPTY))
            continue;
        row->offset = offset;
        assert(atomic_load(&row->state) == HELD);
        atomic_store(&row->bytes, bytes);
        atomic_store(&row->state, FULL);
        return;
    }
}
