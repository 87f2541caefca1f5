#include "comm/api/tuned.h"

#include <string.h>

#include "base/cpuset.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "comm/api/machine_table.h"
#include "comm/api/select_file.h"
#include "comm/coll/copy_probe.h"
#include "comm/core/agree.h"
#include "comm/node/transport.h"
#include "comm/state/channels.h"
#include "lockstep/group.h"

/* ---- the table ----------------------------------------------------------- */

/* Leaves *lines as it is without a table; `lockstep info` prints the reason. */
static void read_table(const ls_group *group, char **lines)
{
    lsi_cpuset cpus = {{0}};
    lsi_machine_key key;
    lsi_machine_table table = {.lines = NULL};
    bool wanted;
    for (int r = 0; r < group->size; r++)
        for (int w = 0; w < LSI_CPU_WORDS; w++)
            cpus.words[w] |= lsi_member_of(group, r)->cpus[w];
    if (lsi_machine_table_wanted(&wanted) == LS_OK && wanted &&
        lsi_machine_key_of(&cpus, &key) &&
        lsi_machine_table_read(&key, &table) != LS_OK)
        lsi_log(LS_LOG_DEBUG, "no selection table: %s", ls_last_error());
    else
        *lines = table.lines;
}

/* Behind what measuring copies uses. */
static char *text_of(const ls_group *group)
{
    return (char *)lsi_window(group, 0) + LSI_STAGING_BYTES / 2;
}

/*
 * The first rank's window carries the text. Its next use comes after a
 * collective, before which all ranks have read it.
 */
static ls_status share_table(ls_group *group)
{
    const lsi_call call = {.operation = LSI_OP_SELECT};
    char **const lines = &group->memory.node->lines;
    uint64_t bytes = 0, all[LSI_MAX_RANKS];
    if (group->rank == 0) {
        read_table(group, lines);
        bytes = *lines == NULL ? 0 : strlen(*lines) + 1;
        if (bytes > 0)
            memcpy(text_of(group), *lines, bytes);
    }
    LS_TRY(lsi_exchange(group, &call, &bytes, sizeof(bytes), all));
    if (all[0] == 0 || group->rank == 0)
        return LS_OK;
    LS_TRY(lsi_alloc(lines, all[0], LS_MEMORY_COMM,
                     "the selection table of this machine"));
    memcpy(*lines, text_of(group), all[0]);
    return LS_OK;
}

/* ---- all of it ----------------------------------------------------------- */

static ls_status learn(ls_group *group)
{
    lsi_node_memory *const node = group->memory.node;
    lsi_copy_answer answer;
    if (group->size > 1)
        LS_TRY(share_table(group));
    /* Where the CPUs are now, no table can say: a hypervisor may move them. */
    LS_TRY(lsi_copy_probe(group, node->lines == NULL, &answer));
    node->copying = answer.copying;
    return LS_OK;
}

/* The line of the table for this group; "" without one. */
static void find_line(const ls_group *group, char *line, size_t bytes)
{
    const char *const lines = group->memory.node->lines;
    *line = '\0';
    if (lines != NULL && !lsi_spans_nodes(group) && group->size > 1)
        lsi_machine_table_line(lines, group->size, group->memory.few_cpus, line,
                               bytes);
}

ls_status lsi_tuned_learn(ls_group *group)
{
    const lsi_node_memory *const node = group->memory.node;
    char line[LSI_SELECT_FILE_BYTES];
    /* Threads share their node, and see all memory of each other. */
    if (lsi_spans_nodes(group) || node->transport->one_address_space)
        return LS_OK;
    if (node->copying == LSI_COPYING_UNKNOWN)
        LS_TRY(learn(group));
    find_line(group, line, sizeof(line));
    group->select->copying =
        strstr(line, "copy") != NULL ? LSI_COPYING_PAYS : node->copying;
    return LS_OK;
}

ls_status lsi_tuned_select(ls_group *group)
{
    char line[LSI_SELECT_FILE_BYTES];
    find_line(group, line, sizeof(line));
    return ls_group_select(group, line);
}
