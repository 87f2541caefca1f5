/*
 * Opening, closing and querying groups.
 */
#include "comm/api/group.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/cpu_claim.h"
#include "base/error.h"
#include "base/memory.h"
#include "comm/api/check.h"
#include "comm/api/internode_open.h"
#include "comm/api/machine_table.h"
#include "comm/api/select.h"
#include "comm/api/select_file.h"
#include "comm/api/tuned.h"
#include "comm/core/agree.h"
#include "comm/core/collective.h"
#include "comm/core/coprogress.h"
#include "comm/core/matching.h"
#include "comm/core/wait.h"
#include "comm/health/awaited.h"
#include "comm/health/dump.h"
#include "comm/health/recorder.h"
#include "comm/node/home.h"
#include "comm/node/rank_cpus.h"
#include "comm/node/remote.h"
#include "comm/node/seat.h"
#include "comm/node/shared.h"
#include "comm/node/space.h"
#include "comm/node/transport.h"
#include "comm/schedule/domains.h"
#include "comm/state/bell.h"
#include "comm/state/channels.h"
#include "comm/state/forks.h"
#include "observe/live.h"
#include "observe/span_file.h"

#define DEFAULT_TIMEOUT 300.0

/* ---- opening ------------------------------------------------------------- */

static void bind_parts(ls_group *group)
{
    const lsi_region_layout *at = &group->memory.layout;
    for (int class_ = 0; class_ < LSI_CHANNEL_CLASSES; class_++) {
        for (int peer = 0; peer < group->size; peer++) {
            const size_t n = at->ranks, me = (size_t)group->rank;
            const size_t base = (size_t)class_ * n * n;
            /* The channels that a rank receives from are stored together. */
            const size_t out = base + (size_t)peer * n + me;
            const size_t in = base + me * n + (size_t)peer;
            unsigned char *channels = group->memory.region + at->channels;
            group->streams.of[class_][0][peer] = (lsi_stream){
                .channel = (void *)(channels + out * at->channel_stride),
                .peer = peer};
            group->streams.of[class_][1][peer] = (lsi_stream){
                .channel = (void *)(channels + in * at->channel_stride),
                .peer = peer,
                .receives = true,
                .matches = class_ == LSI_CHANNEL_USER};
        }
    }
    for (int peer = 0; peer < group->size; peer++)
        group->channels.peer[peer] =
            (lsi_peer){group->memory.node->transport->channel, peer};
}

static void enter_member(ls_group *group, int node_rank)
{
    lsi_member *self = lsi_member_of(group, group->rank);
    self->pid = (int32_t)getpid();
    self->node_rank = node_rank;
    self->abortion = (lsi_failure_record){
        .status = LS_ERR_ABORTED, .rank_a = group->rank, .rank_b = group->rank};
    if (gethostname(self->host, sizeof(self->host) - 1) != 0)
        strcpy(self->host, "unknown");
    /* CPUs behind the words do not count; spinning adapts. */
    lsi_cpu_claim claim;
    lsi_cpu_claim_here(1, &claim);
    memcpy(self->cpus, claim.cpus.words, sizeof(self->cpus));
    self->quota_of = claim.quota_of;
    lsi_remote_offer(self);
    atomic_store(&self->presence, LSI_PRESENT);
}

static ls_status allocate(ls_group *group, bool spans)
{
    const size_t n = (size_t)group->size;
    LS_TRY(lsi_alloc_zeroed(&group->queue.seen, n * sizeof(uint64_t),
                            LS_MEMORY_COMM, "a process group"));
    LS_TRY(lsi_alloc_zeroed(&group->channels.peer, n * sizeof(lsi_peer),
                            LS_MEMORY_COMM, "a process group"));
    LS_TRY(lsi_alloc_zeroed(&group->select, sizeof(lsi_select_table),
                            LS_MEMORY_COMM, "a selection table"));
    if (group->size >= LSI_DOMAINS_FROM && !spans)
        LS_TRY(lsi_domains_alloc(group->size, &group->domains));
    group->select->spans = spans;
    lsi_select_default(group->select);
    for (int i = 0; i < LSI_CHANNEL_CLASSES * 2; i++) {
        LS_TRY(lsi_alloc_zeroed(&group->streams.of[i / 2][i % 2],
                                n * sizeof(lsi_stream), LS_MEMORY_COMM,
                                "a process group"));
    }
    return LS_OK;
}

/* The first to open a group gives it its number. */
static void number(ls_group *group)
{
    uint64_t none = 0;
    _Atomic uint64_t *place = &group->memory.header->number;
    if (atomic_load(place) == none)
        (void)atomic_compare_exchange_strong(
            place, &none, atomic_fetch_add(&group->memory.job->groups, 1) + 1);
}

static ls_status map(ls_group *group, uint64_t offset)
{
    const lsi_transport *transport = group->memory.node->transport;
    void *at = NULL;
    LS_TRY(transport->map(group->memory.node, 0, sizeof(lsi_job), &at));
    group->memory.job = at;
    LS_TRY(transport->map(group->memory.node, offset,
                          group->memory.layout.bytes, &at));
    group->memory.region_offset = offset;
    group->memory.region = at;
    group->memory.header = at;
    number(group);
    group->identity = (lsi_group_identity){
        .job = group->memory.node->job,
        .number = atomic_load(&group->memory.header->number) - 1};
    return LS_OK;
}

/* The last thing that is done with the region. */
static void depart(ls_group *group)
{
    assert(!lsi_is_inherited(group));
    if (lsi_space_let_go(&group->memory.header->hold, group->memory.sharers))
        lsi_space_free(group, group->memory.region_offset,
                       group->memory.layout.bytes);
}

static void release(ls_group *group)
{
    if (group->memory.job != NULL)
        group->memory.node->transport->unmap(
            group->memory.node, group->memory.job, sizeof(lsi_job));
    if (group->memory.region != NULL)
        group->memory.node->transport->unmap(group->memory.node,
                                             group->memory.region,
                                             group->memory.layout.bytes);
    lsi_matching_forget(group);
    for (int i = 0; i < LSI_CHANNEL_CLASSES * 2; i++)
        lsi_free(group->streams.of[i / 2][i % 2]);
    lsi_free(group->recording.recorder);
    lsi_free(group->domains);
    lsi_free(group->select);
    lsi_free(group->queue.seen);
    lsi_free(group->channels.peer);
    lsi_free(group->call.scratch);
    lsi_spares_free(group);
    lsi_counts_free(&group->call.counted);
    lsi_node_memory_release(group->memory.node);
    lsi_free(group);
}

ls_status lsi_default_timeout(double *seconds)
{
    const char *text = getenv("LOCKSTEP_TIMEOUT");
    *seconds = DEFAULT_TIMEOUT;
    if (text == NULL || *text == '\0')
        return LS_OK;
    char *end;
    *seconds = strtod(text, &end);
    if (*end != '\0' || !(*seconds >= 0 && *seconds <= LSI_MAX_TIMEOUT))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "LOCKSTEP_TIMEOUT is '%s'; it should be a number of "
                        "seconds, or 0 for no timeout",
                        text);
    return LS_OK;
}

ls_status lsi_timeout_of(const char *what, double *seconds)
{
    if (*seconds == LS_TIMEOUT_DEFAULT)
        return lsi_default_timeout(seconds);
    if (*seconds >= 0 && *seconds <= LSI_MAX_TIMEOUT)
        return LS_OK;
    return lsi_fail(
        LS_ERR_ARGUMENT,
        "%s: the timeout %g s is out of range; use up to %g s, 0 for no limit "
        "(LS_TIMEOUT_NONE), or -1 for the default (LS_TIMEOUT_DEFAULT)",
        what, *seconds, LSI_MAX_TIMEOUT);
}

static ls_status fill(ls_group *group, const lsi_membership *membership)
{
    double timeout;
    bool tuned; /* only checked here */
    LS_TRY(map(group, membership->offset));
    LS_TRY(lsi_default_timeout(&timeout));
    LS_TRY(ls_group_set_timeout(group, timeout));
    LS_TRY(allocate(group, membership->spans));
    LS_TRY(lsi_select_environment(group->select));
    LS_TRY(lsi_machine_table_wanted(&tuned));
    LS_TRY(lsi_recorder_open(&group->recording.recorder));
    if (group->domains != NULL)
        LS_TRY(lsi_seat_of(membership->node_rank,
                           &lsi_member_of(group, group->rank)->seat));
    bind_parts(group);
    lsi_home_ask(group);
    enter_member(group, membership->node_rank);
    if (!membership->spans)
        lsi_dump_join(group); /* the others are not complete yet */
    return LS_OK;
}

ls_status lsi_group_open(lsi_node_memory *node, lsi_membership membership,
                         ls_group **out)
{
    ls_group *group = NULL;
    ls_status status = lsi_alloc_zeroed(&group, sizeof(ls_group),
                                        LS_MEMORY_COMM, "a process group");
    if (status != LS_OK) {
        lsi_node_memory_release(node);
        return status;
    }
    lsi_count_forks();
    group->forks = lsi_forks;
    group->memory.node = node;
    group->rank = membership.rank;
    group->size = membership.size;
    group->memory.sharers = membership.sharers;
    group->counters = &group->own_counters;
    group->channels.local = group; /* so far */
    lsi_begin_to_wait(group);
    group->memory.layout = lsi_region_layout_of(membership.size);
    status = fill(group, &membership);
    if (status != LS_OK) {
        if (group->memory.region != NULL)
            depart(group);
        release(group);
        return status;
    }
    *out = group;
    return LS_OK;
}

void lsi_job_begin(const ls_group *first)
{
    atomic_store(&first->memory.job->end,
                 LSI_FIRST_REGION + first->memory.layout.bytes);
}

void lsi_group_look_around(ls_group *group)
{
    lsi_learn_to_wait(group);
    group->memory.few_cpus = !lsi_rank_cpus_suffice(group);
    if (group->domains == NULL)
        return;
    lsi_seat seats[LSI_MAX_RANKS];
    for (int r = 0; r < group->size; r++)
        seats[r] = lsi_member_of(group, r)->seat;
    lsi_domains_arrange(group->domains, seats,
                        group->memory.few_cpus ? group->size
                                               : LSI_JUNCTION_MOST);
}

ls_status lsi_group_settle(ls_group *group)
{
    lsi_span_set_rank(group->rank, group->size, group->identity.job);
    if (group->size > 1)
        lsi_live_begin();
    if (lsi_spans_nodes(group))
        LS_TRY(lsi_group_settle(group->channels.local));
    LS_TRY(ls_barrier(group)); /* all members are there */
    lsi_group_look_around(group);
    LS_TRY(lsi_tuned_learn(group));
    LS_TRY(lsi_internode_introduce(group));
    const char *line = getenv("LOCKSTEP_SELECT");
    if (line == NULL || *line == '\0')
        return lsi_tuned_select(group);
    const ls_status status = ls_group_select(group, line);
    if (status == LS_ERR_MISMATCH)
        return lsi_fail(status,
                        "LOCKSTEP_SELECT should be the same on all ranks: %s",
                        ls_last_error());
    if (status == LS_OK || lsi_has_failed(group))
        return status;
    return lsi_fail(status, "LOCKSTEP_SELECT: %s", ls_last_error());
}

ls_status ls_group_select(ls_group *group, const char *line)
{
    LS_TRY(lsi_check_group(group, "ls_group_select"));
    lsi_call call = {.operation = LSI_OP_SELECT,
                     .root = LSI_ROOT_BITS + (int)ls_bits_in_use()};
    if (line == NULL)
        return lsi_refuse(
            group, &call,
            lsi_fail(LS_ERR_ARGUMENT, "ls_group_select: line is NULL"));
    char text[LSI_SELECT_FILE_BYTES];
    lsi_select_table table = *group->select;
    ls_status status = LS_OK;
    if (line[0] == '@') {
        status = lsi_select_read(line + 1, text);
        line = text;
    }
    if (status == LS_OK) {
        call.count = lsi_select_hash(group->select, line);
        status = lsi_select_parse(line, &table);
    }
    const bool copies = status == LS_OK && !lsi_spans_nodes(group) &&
                        !group->memory.can_copy && lsi_select_copies(&table);
    if (copies)
        lsi_remote_admit(group);
    LS_TRY(lsi_agree(group, &call, status));
    *group->select = table;
    if (copies)
        group->memory.can_copy = lsi_remote_probe(group);
    return LS_OK;
}

/* ---- closing ------------------------------------------------------------- */

void ls_group_close(ls_group **group)
{
    if (group == NULL || *group == NULL)
        return;
    ls_group *closing = *group;
    *group = NULL;
    /* A child that the process has forked leaves nothing: it never joined. */
    const bool is_member =
        !lsi_is_inherited(closing) &&
        lsi_member_of(closing, closing->rank)->pid == (int32_t)getpid();
    if (is_member)
        lsi_awaited_hide(&closing->waiting.polling.patience);
    lsi_coprogress_leave(closing);
    lsi_dump_leave(closing);
    if (is_member)
        lsi_remote_dismiss(closing);
    if (is_member) {
        atomic_store(&lsi_member_of(closing, closing->rank)->presence,
                     LSI_LEFT);
        lsi_wake_all(closing);
    }
    lsi_shared_forget(closing, is_member);
    if (is_member) {
        lsi_internode_close(closing);
        depart(closing);
    }
    release(closing);
}

/* ---- queries ------------------------------------------------------------- */

int ls_group_rank(const ls_group *group)
{
    return group != NULL ? group->rank : -1;
}

int ls_group_size(const ls_group *group)
{
    return group != NULL ? group->size : 0;
}

int ls_group_local_rank(const ls_group *group)
{
    return group != NULL ? group->channels.local->rank : -1;
}

int ls_group_local_size(const ls_group *group)
{
    return group != NULL ? group->channels.local->size : 0;
}

ls_status ls_group_set_timeout(ls_group *group, double seconds)
{
    LS_TRY(lsi_check_group(group, "ls_group_set_timeout"));
    LS_TRY(lsi_timeout_of("ls_group_set_timeout", &seconds));
    group->waiting.timeout_ns = (uint64_t)(seconds * 1e9);
    if (seconds > 0 && group->waiting.timeout_ns == 0)
        group->waiting.timeout_ns = 1;
    group->channels.local->waiting.timeout_ns = group->waiting.timeout_ns;
    return LS_OK;
}

void ls_group_get_counters(const ls_group *group, ls_group_counters *out)
{
    if (out == NULL)
        return;
    *out = (ls_group_counters){0};
    if (group == NULL)
        return;
    lsi_coprogress_take(group);
    *out = *group->counters;
}
