#include "selection.h"

#include <stdio.h>
#include <stdlib.h>

#include "../unit/comm/nodes.h"
#include "comm/core/combine.h"
#include "comm/schedule/pull.h"
#include "comm/state/channels.h"
#include "coverage.h"

enum {
    PACKED_BYTES = 256 * 1024, /* of all ranks together */
    TABLE_BYTES = 256          /* at most, of counts in a cell */
};

void select_algorithm(ls_group *group, const lsi_algorithm *algorithm)
{
    const char *operation = lsi_operation_name(algorithm->operation);
    const char *other = fallback_of(group, algorithm->operation);
    char line[128];
    if (getenv("LOCKSTEP_PLACEMENT") != NULL && !lsi_spans_nodes(group))
        CHECK(lsi_combines(group) ==
              (ls_group_size(group) >= LSI_DOMAINS_FROM));
    snprintf(line, sizeof(line),
             algorithm->in_cells ? "%s:0-32k:%s;32k-inf:%s" : "%s:0-inf:%s|%s",
             operation, algorithm->name, other);
    CHECK_OK(ls_group_select(group, line));
}

/* The bytes by which an algorithm is selected. */
static size_t sent_bytes(const ls_group *group, lsi_operation operation,
                         size_t block)
{
    if (operation == LSI_OP_ALL_GATHERV) /* at most */
        return block;
    if (lsi_operation_has_counts(operation))
        return block * (size_t)ls_group_size(group);
    const lsi_place place = {
        .operation = operation, .block = block, .size = ls_group_size(group)};
    return lsi_contribution_most(&place);
}

static bool must_run(const ls_group *group, const lsi_algorithm *algorithm,
                     conditions c)
{
    const uint64_t needs = algorithm->needs;
    const size_t bytes = sent_bytes(group, algorithm->operation, c.block);
    const bool one_node = !lsi_spans_nodes(group);
    if (algorithm->in_cells)
        return bytes < LSI_FLAT_BYTES;
    if ((needs & LSI_PATH_NODES) != 0)
        return !one_node;
    if (needs != 0 && !one_node)
        return false;
    if ((needs & LSI_PATH_AHEAD) != 0)
        return bytes <= LSI_FLAT_BYTES - TABLE_BYTES &&
               bytes * (size_t)ls_group_size(group) <= PACKED_BYTES;
    if ((needs & LSI_PATH_COPY) != 0)
        return group->memory.can_copy && !c.in_place;
    if ((needs & (LSI_PATH_SEND_SEEN | LSI_PATH_RECV_SEEN)) != 0)
        return c.shared && !c.in_place;
    return true;
}

void check_selected(const ls_group *group, const lsi_algorithm *algorithm,
                    conditions c)
{
    const lsi_algorithm *ran = coverage_last(group);
    if (ran == algorithm || !must_run(group, algorithm, c))
        return;
    fprintf(stderr, "%s of blocks of %zu bytes by %d ranks: %s ran, not %s\n",
            lsi_operation_name(algorithm->operation), c.block,
            ls_group_size(group), ran->name, algorithm->name);
    abort();
}
