/*
 * The first rank of each node passes on the arrivals of its node's ranks in a
 * collective, once all have published: a record for each. The records go round
 * by dissemination (schedule/tree.h). In each round a node sends on the records
 * it has so far, so that after log2(nodes) rounds every node has all of them.
 * The first rank writes arrived records where the ranks of its node look for
 * them, as if their owners had done so.
 *
 * All ranks of this node have published, so none of them reads the earlier
 * content of the same place.
 */
#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "comm/net/internode.h"
#include "comm/schedule/tree.h"
#include "comm/state/bell.h"
#include "comm/state/channels.h"

typedef struct record {
    uint64_t sequence, what, count; /* of the call */
    uint32_t rank, bytes;           /* of the payload behind it */
} record;

/* ---- bundles ------------------------------------------------------------- */

static size_t record_bytes(size_t payload)
{
    return sizeof(record) + (payload + 7) / 8 * 8;
}

ls_status lsi_arrivals_open(lsi_arrivals *arrivals, size_t ranks)
{
    void *block = NULL;
    const size_t bytes = ranks * record_bytes(LSI_PAYLOAD_BYTES);
    LS_TRY(lsi_alloc(&block, bytes, LS_MEMORY_COMM, "arrivals of ranks"));
    *arrivals = (lsi_arrivals){
        .sequence = 1, .round = -1, .bundle = block, .room = bytes};
    return LS_OK;
}

void lsi_arrivals_close(lsi_arrivals *arrivals)
{
    lsi_free(arrivals->bundle);
}

static void append_own(const ls_group *group, lsi_arrivals *arrivals, int rank)
{
    const lsi_cell *cell = lsi_cell_of(group, arrivals->sequence, rank);
    assert(cell->bytes <= LSI_PAYLOAD_BYTES &&
           arrivals->used + record_bytes(cell->bytes) <= arrivals->room);
    const record r = {.sequence = arrivals->sequence,
                      .what = cell->what,
                      .count = cell->count,
                      .rank = (uint32_t)rank,
                      .bytes = (uint32_t)cell->bytes};
    memcpy(arrivals->bundle + arrivals->used, &r, sizeof(r));
    memcpy(arrivals->bundle + arrivals->used + sizeof(r), cell->payload,
           cell->bytes);
    arrivals->used += record_bytes(cell->bytes);
}

/* Whether all ranks of this node have published; fills the bundle with them. */
static bool begin(const ls_group *group, lsi_arrivals *arrivals)
{
    const lsi_internode *net = group->net;
    const int *own = net->rank + net->first[net->node];
    const int n = net->ranks_on[net->node];
    for (int i = 0; i < n; i++)
        if (atomic_load(
                &lsi_cell_of(group, arrivals->sequence, own[i])->stamp) <
            lsi_stamp(arrivals->sequence, 1))
            return false;
    arrivals->used = 0;
    for (int i = 0; i < n; i++)
        append_own(group, arrivals, own[i]);
    return true;
}

/* Bytes of the records of the first `nodes` nodes in the bundle. */
static size_t prefix(const ls_group *group, const lsi_arrivals *arrivals,
                     int nodes)
{
    const lsi_internode *net = group->net;
    int records = 0;
    size_t at = 0;
    for (int i = 0; i < nodes; i++)
        records += net->ranks_on[(net->node - i + net->nodes) % net->nodes];
    for (; records > 0; records--) {
        record r;
        memcpy(&r, arrivals->bundle + at, sizeof(r));
        at += record_bytes(r.bytes);
    }
    return at;
}

/* ---- what arrives -------------------------------------------------------- */

static void publish(const ls_group *group, const record *r, const void *payload)
{
    const int rank = (int)r->rank;
    lsi_cell *cell = lsi_cell_of(group, r->sequence, rank);
    assert(!lsi_shares_memory(group, rank));
    assert(atomic_load(&cell->stamp) < lsi_stamp(r->sequence, 1));
    cell->what = r->what;
    cell->count = r->count;
    cell->completed = r->sequence - 1;
    cell->bytes = r->bytes;
    memcpy(cell->payload, payload, r->bytes);
    atomic_store(&lsi_member_of(group, rank)->completed, r->sequence - 1);
    atomic_store(&cell->stamp, lsi_stamp(r->sequence, 1));
}

/*
 * The record at `used`, which must be that of `rank`. So no other rank's cell
 * is written, and `prefix` finds the expected number of records.
 */
static bool read_record(const lsi_arrivals *arrivals, size_t end, int rank,
                        record *r)
{
    if (end - arrivals->used < sizeof(*r))
        return false;
    memcpy(r, arrivals->bundle + arrivals->used, sizeof(*r));
    return r->sequence == arrivals->sequence && r->rank == (uint32_t)rank &&
           r->bytes <= LSI_PAYLOAD_BYTES &&
           record_bytes(r->bytes) <= end - arrivals->used;
}

/* Publishes all ranks of the node that is `left` nodes to the left. */
static bool publish_node(ls_group *group, lsi_arrivals *arrivals, size_t end,
                         int left)
{
    const lsi_internode *net = group->net;
    const int node = (net->node - left + net->nodes) % net->nodes;
    for (int i = 0; i < net->ranks_on[node]; i++) {
        record r;
        if (!read_record(arrivals, end, net->rank[net->first[node] + i], &r))
            return false;
        publish(group, &r, arrivals->bundle + arrivals->used + sizeof(r));
        arrivals->used += record_bytes(r.bytes);
    }
    return true;
}

static ls_status publish_all(ls_group *group, lsi_arrivals *arrivals)
{
    const int held = 1 << arrivals->round;
    const int more =
        lsi_dissemination_blocks(group->net->nodes, arrivals->round);
    const size_t end = arrivals->used + arrivals->in.bytes;
    bool sound = true;
    for (int i = 0; i < more && sound; i++)
        sound = publish_node(group, arrivals, end, held + i);
    if (!sound || arrivals->used != end)
        return lsi_internode_garbled(group, arrivals->in.rank);
    lsi_wake_all(group);
    return LS_OK;
}

/* ---- rounds -------------------------------------------------------------- */

static ls_status post(ls_group *group, lsi_arrivals *arrivals)
{
    const lsi_internode *net = group->net;
    const int k = net->nodes, round = arrivals->round;
    const int to = lsi_dissemination_sends_to(net->node, k, round);
    const int from = lsi_dissemination_receives_from(net->node, k, round);
    const size_t bytes =
        prefix(group, arrivals, lsi_dissemination_blocks(k, round));
    assert(!arrivals->in.pending && !arrivals->out.pending);
    LS_TRY(lsi_internode_receive(
        group, &arrivals->in, arrivals->bundle + arrivals->used,
        arrivals->room - arrivals->used, net->rank[net->first[from]],
        LSI_TAG_ARRIVALS));
    return lsi_internode_send(group, &arrivals->out, arrivals->bundle, bytes,
                              net->rank[net->first[to]], LSI_TAG_ARRIVALS);
}

/* LS_OK if the next round has begun. */
static ls_status move_on(ls_group *group, lsi_arrivals *arrivals)
{
    const int rounds = lsi_doubling_rounds(group->net->nodes);
    ls_status status;
    if (arrivals->round < 0) {
        if (!begin(group, arrivals))
            return LS_IN_PROGRESS;
    } else {
        if (!arrivals->in_taken) {
            status = lsi_internode_test(group, &arrivals->in);
            if (status != LS_OK)
                return status;
            LS_TRY(publish_all(group, arrivals));
            arrivals->in_taken = true;
        }
        status = lsi_internode_test(group, &arrivals->out);
        if (status != LS_OK)
            return status;
    }
    if (++arrivals->round < rounds) {
        arrivals->in_taken = false;
        return post(group, arrivals);
    }
    arrivals->round = -1;
    arrivals->sequence++;
    return LS_OK;
}

ls_status lsi_arrivals_progress(ls_group *group)
{
    lsi_arrivals *arrivals = &group->net->arrivals;
    ls_status status = arrivals->bundle == NULL ? LS_IN_PROGRESS : LS_OK;
    while (status == LS_OK)
        status = move_on(group, arrivals);
    return status == LS_IN_PROGRESS ? LS_OK : status;
}
