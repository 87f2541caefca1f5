#include "coverage.h"

#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>

#include "../unit/comm/ranks.h"
#include "comm/health/recorder.h"
#include "comm/state/channels.h"

enum { MOST_ROWS = 256 };

typedef struct account {
    _Atomic uint64_t runs[MOST_ROWS];
    atomic_bool can_copy;
} account;

static account *shared;

void coverage_open(void)
{
    void *block = mmap(NULL, sizeof(account), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(block != MAP_FAILED);
    shared = block;
    int rows = 0;
    while (lsi_algorithm_at(rows) != NULL)
        rows++;
    CHECK(rows <= MOST_ROWS);
}

static void take(const ls_group *group, uint64_t *mark)
{
    uint64_t next = *mark + 1;
    if (next + LSI_RECORDS <= group->queue.completed)
        next = group->queue.completed - LSI_RECORDS + 1;
    for (; next <= group->queue.completed; next++) {
        lsi_recorded record;
        if (lsi_record_find(group->recording.recorder, next, &record) &&
            record.algorithm != NULL && (record.state & LSI_RECORD_FAILED) == 0)
            shared->runs[record.algorithm - lsi_algorithm_at(0)]++;
    }
    *mark = group->queue.completed;
}

void coverage_take(const ls_group *group, coverage_mark *mark)
{
    take(group, &mark->group);
    if (lsi_spans_nodes(group))
        take(group->channels.local, &mark->node);
}

const lsi_algorithm *coverage_last(const ls_group *group)
{
    lsi_recorded record;
    CHECK(lsi_record_find(group->recording.recorder, group->queue.completed,
                          &record));
    return record.algorithm;
}

void coverage_can_copy(void)
{
    shared->can_copy = true;
}

int coverage_missing(void)
{
    const lsi_algorithm *row;
    int missing = 0;
    for (int i = 0; (row = lsi_algorithm_at(i)) != NULL; i++) {
        const bool possible =
            (row->needs & LSI_PATH_COPY) == 0 || shared->can_copy;
        if (shared->runs[i] != 0 || !possible)
            continue;
        fprintf(stderr, "%s has never run %s\n",
                lsi_operation_name(row->operation), row->name);
        missing++;
    }
    return missing;
}
