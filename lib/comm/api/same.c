/*
 * Ranks compare a hash of all lines, in one small all-reduce. Only if the
 * hashes differ, they find the first line that differs by bisection.
 */
#include "comm/api/same.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"

static void line_of(const lsi_listing *l, size_t i, char text[LSI_LINE_BYTES])
{
    if (i < l->n)
        l->line(l->list, i, text);
    else
        snprintf(text, LSI_LINE_BYTES, "nothing more");
}

static uint64_t hash_of(const lsi_listing *l, size_t lines)
{
    uint64_t hash = LSI_HASH_START;
    char text[LSI_LINE_BYTES];
    for (size_t i = 0; i < lines; i++) {
        line_of(l, i, text);
        hash = lsi_hash(hash, text, strlen(text) + 1);
    }
    return hash;
}

/* Whether the first lines are the same on all ranks; *most is the largest n. */
static ls_status compare(ls_group *group, const lsi_listing *own, size_t lines,
                         bool *same, size_t *most)
{
    const uint64_t hash = hash_of(own, lines);
    /* The largest of the complements is the complement of the smallest. */
    int64_t x[3] = {(int64_t)hash, (int64_t)~hash, (int64_t)own->n};
    LS_TRY(ls_all_reduce(group, x, x, 3, LS_I64, LS_REDUCE_MAX));
    *same = x[0] == ~x[1];
    *most = (size_t)x[2];
    return LS_OK;
}

/* The first line that differs, by bisection; at least one of `lines` does. */
static ls_status find(ls_group *group, const lsi_listing *own, size_t lines,
                      size_t *out)
{
    size_t same = 0, most;
    while (lines - same > 1) {
        const size_t middle = same + (lines - same) / 2;
        bool equal;
        LS_TRY(compare(group, own, middle, &equal, &most));
        if (equal)
            same = middle;
        else
            lines = middle;
    }
    *out = same;
    return LS_OK;
}

/* Reports rank 0's line, and the line of the first rank that has another. */
static ls_status report(ls_group *group, const lsi_listing *own, size_t at)
{
    char line[LSI_LINE_BYTES] = "", first[LSI_LINE_BYTES];
    int32_t rank = ls_group_rank(group);
    line_of(own, at, line);
    memcpy(first, line, sizeof(first));
    LS_TRY(ls_broadcast(group, first, sizeof(first), LS_U8, 0));
    if (strcmp(line, first) == 0)
        rank = ls_group_size(group);
    LS_TRY(ls_all_reduce(group, &rank, &rank, 1, LS_I32, LS_REDUCE_MIN));
    LS_TRY(ls_broadcast(group, line, sizeof(line), LS_U8, rank));
    return lsi_fail(
        LS_ERR_MISMATCH,
        "all ranks must have the same %s, but rank 0 has %s and rank %d has %s",
        own->what, first, rank, line);
}

ls_status lsi_same_listing(ls_group *group, const lsi_listing *own)
{
    bool same;
    size_t most, at = 0;
    LS_TRY(compare(group, own, own->n, &same, &most));
    if (same)
        return LS_OK;
    LS_TRY(find(group, own, most, &at));
    return report(group, own, at);
}
