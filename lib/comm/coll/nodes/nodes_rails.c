/*
 * All-reduce, reduce and broadcast of ranks on several nodes: stages of
 * pipeline.h. A segment is a part of the vector, cut into rails. Their number
 * is the number of ranks of the largest node; the ranks of each node carry the
 * rails between them. So every rank of a node feeds the network, and data
 * crosses it once.
 *
 * The carriers of a rail exchange and add up their sums by the steps of
 * schedule/nodes.h. In a reduce the sums move to the root's node only. In a
 * broadcast the ranks of the root's node copy the segment from the root, and
 * their rails move away from there.
 *
 * Sums are folded inside the node, then over nodes. This order depends on which
 * ranks share a node. Half types are added in f32 throughout and rounded once.
 * Bytes that leave a node in an all-reduce: 2 S (K-1)/K for K nodes up to 8 or
 * a power of two. Bytes that cross in total: 2 (K-1) S in an all-reduce, (K-1)
 * S in a broadcast, and with K up to 8, (K-1) S (K+1)/K in a reduce.
 */
#include "base/error.h"
#include "comm/coll/nodes/pipeline.h"
#include "comm/coll/points.h"
#include "comm/net/internode.h"

enum {
    LEAST_SEGMENT = 256 * 1024,
    GOOD_SEGMENT = 1 << 20,
    MOST_SEGMENT = 8 << 20
};

/* The rails of this rank, and the memory of a segment. */
typedef struct rails {
    lsi_range own;    /* rails of this rank, of all rails */
    size_t legs, leg; /* messages into a rail in a step; bytes of each */
    size_t memory;    /* bytes of a segment */
    /*
     * Results; their sums, if these are wider; messages to be added to the
     * sums.
     */
    unsigned char *results, *sums, *incoming;
} rails;

static size_t within(size_t n, size_t least, size_t most)
{
    const size_t more = n < least ? least : n;
    return more < most ? more : most;
}

static size_t unit_of(const lsi_collective *op)
{
    return LSI_LINE / op->item;
}

/* Elements of a rail, if `elements` are cut into rails. */
static size_t rail_elements(const lsi_collective *op, size_t elements)
{
    const size_t all = (size_t)op->group->net->rails, unit = unit_of(op);
    return ((elements + all - 1) / all + unit - 1) / unit * unit;
}

/*
 * Elements of a segment: few enough that several are in flight and fit the
 * caches, and enough that the parts of a rail are whole fragments.
 */
static size_t segment_elements(const lsi_collective *op)
{
    const lsi_internode *net = op->group->net;
    const size_t parts = (size_t)(net->rails * lsi_nodes_parts(net->nodes));
    const size_t most =
        within(parts * LSI_WIRE_PIECE, GOOD_SEGMENT, MOST_SEGMENT);
    const size_t bytes = within(op->block / LSI_SEGMENTS, LEAST_SEGMENT, most);
    const size_t elements = bytes / LSI_LINE * unit_of(op);
    return elements < op->call.count ? elements : op->call.count;
}

/* The next bytes of a segment's memory. */
static unsigned char *next_bytes(rails *r, const lsi_segment *s, size_t bytes)
{
    const size_t at = r->memory;
    r->memory += lsi_lines(bytes);
    return s == NULL ? NULL : s->memory + at;
}

/* The rails of a segment; NULL for any segment. */
static rails rails_of(const lsi_collective *op, const lsi_segment *s)
{
    const lsi_internode *net = op->group->net;
    const bool few = net->nodes <= LSI_FEW_NODES;
    const size_t n = segment_elements(op), parts = few ? (size_t)net->nodes : 1;
    const lsi_range part =
        lsi_partition_aligned(rail_elements(op, n), parts, 0, unit_of(op));
    rails r = {.own = lsi_rails_carried(net->rails, net->ranks_on[net->node],
                                        net->index_of[op->group->rank]),
               .legs = few ? parts - 1 : 1,
               .leg = lsi_wide_bytes(op, lsi_range_size(part))};
    if (!lsi_collective_receives(op, op->group->rank))
        r.results = next_bytes(&r, s, n * op->item);
    else if (s != NULL)
        r.results = (unsigned char *)op->recv + s->elements.begin * op->item;
    r.sums = r.results;
    if (!lsi_operation_reduces(op->call.operation))
        return r;
    if (lsi_sums_scratch(op) != 0)
        r.sums = next_bytes(&r, s, lsi_wide_bytes(op, n));
    r.incoming = next_bytes(&r, s, lsi_range_size(r.own) * r.legs * r.leg);
    return r;
}

static void plan(const lsi_collective *op, lsi_pipeline_plan *plan)
{
    const rails r = rails_of(op, NULL);
    plan->segments = LSI_SEGMENTS;
    plan->steps = lsi_nodes_steps(op->group->net->nodes);
    plan->transfers = lsi_range_size(r.own) * 2 * r.legs;
    plan->bytes = plan->transfers * r.leg;
    plan->memory = r.memory;
    plan->grants = op->call.operation != LSI_OP_ALL_REDUCE &&
                   op->call.count > LSI_SEGMENTS * segment_elements(op);
}

static bool next(const lsi_collective *op, lsi_segment *s)
{
    const size_t whole = segment_elements(op);
    const size_t begin = lsi_pipeline_of(op)->begun * whole;
    s->elements = lsi_range_common((lsi_range){begin, begin + whole},
                                   (lsi_range){0, op->call.count});
    return begin < op->call.count;
}

/* Elements of some parts of a rail, counted from the start of the segment. */
static lsi_range parts_of(const lsi_collective *op, const lsi_segment *s,
                          size_t rail, lsi_range parts)
{
    const size_t n = lsi_range_size(s->elements), unit = unit_of(op);
    const size_t width = rail_elements(op, n);
    const lsi_range all = lsi_range_common(
        (lsi_range){rail * width, (rail + 1) * width}, (lsi_range){0, n});
    const size_t of = (size_t)lsi_nodes_parts(op->group->net->nodes);
    const size_t length = lsi_range_size(all);
    return (lsi_range){
        all.begin + lsi_partition_aligned(length, of, parts.begin, unit).begin,
        all.begin + lsi_partition_aligned(length, of, parts.end - 1, unit).end};
}

/* Whether sums move in a step, or results. */
static bool moves_sums(const lsi_collective *op, int step)
{
    return lsi_operation_reduces(op->call.operation) &&
           step < lsi_nodes_first_gather(op->group->net->nodes);
}

/* ---- inside the node ----------------------------------------------------- */

static bool on_root_node(const lsi_collective *op)
{
    const lsi_internode *net = op->group->net;
    return net->node_of[op->call.root] == net->node;
}

static lsi_cut by_rails(const lsi_collective *op, const lsi_segment *s)
{
    return (lsi_cut){.shard = rail_elements(op, lsi_range_size(s->elements)),
                     .rails = (size_t)op->group->net->rails};
}

static ls_status add_up(const lsi_collective *op, lsi_segment *s)
{
    const size_t n = lsi_range_size(s->elements);
    const unsigned char *from =
        (const unsigned char *)op->send + s->elements.begin * op->item;
    unsigned char *sums = rails_of(op, s).sums;
    if (lsi_sums_scratch(op) != 0) {
        lsi_widen(op, sums, from, n);
        from = sums;
    }
    return lsi_node_reduce(op, &s->enter, by_rails(op, s), from, n, sums);
}

static ls_status copy_from_root(const lsi_collective *op, lsi_segment *s)
{
    const lsi_call call = {.operation = LSI_OP_BROADCAST,
                           .dtype = op->call.dtype,
                           .count = lsi_range_size(s->elements),
                           .root = op->group->net->index_of[op->call.root]};
    unsigned char *data = rails_of(op, s).results;
    if (!on_root_node(op))
        return LS_OK;
    lsi_collective_nest(&s->enter, op->group->net->local, &call, data, data);
    return lsi_collective_submit(&s->enter);
}

static ls_status gather_for(const lsi_collective *op, lsi_segment *s, int root)
{
    return lsi_node_gather(op, &s->leave, by_rails(op, s),
                           rails_of(op, s).results, lsi_range_size(s->elements),
                           root);
}

static ls_status gather(const lsi_collective *op, lsi_segment *s)
{
    return gather_for(op, s, LSI_ROOT_ALL);
}

static ls_status gather_at_root(const lsi_collective *op, lsi_segment *s)
{
    return on_root_node(op)
               ? gather_for(op, s, op->group->net->index_of[op->call.root])
               : LS_OK;
}

static ls_status gather_elsewhere(const lsi_collective *op, lsi_segment *s)
{
    return on_root_node(op) ? LS_OK : gather(op, s);
}

/* ---- between nodes ------------------------------------------------------- */

static void find_leap(const lsi_collective *op, const lsi_segment *s,
                      lsi_leap *leap)
{
    const lsi_internode *net = op->group->net;
    const lsi_rooted shape = {net->nodes, net->node_of[op->call.root]};
    lsi_pipeline_of(op)->stages->leap(shape, net->node, s->crossed, leap);
}

static int carrier(const lsi_internode *net, int node, size_t rail)
{
    return net
        ->rank[net->first[node] +
               lsi_rail_carrier(net->rails, net->ranks_on[node], (int)rail)];
}

/* The buffer of message number `leg` of a step, if it is to be added. */
static unsigned char *incoming(const rails *r, size_t rail, int leg)
{
    return r->incoming +
           ((rail - r->own.begin) * r->legs + (size_t)leg) * r->leg;
}

/*
 * Sends parts from their place, or receives them there, or in `aside` if it is
 * not NULL.
 */
static ls_status move(lsi_collective *op, lsi_segment *s, size_t rail,
                      const lsi_leg *leg, bool receives, unsigned char *aside)
{
    const rails r = rails_of(op, s);
    const lsi_range range = parts_of(op, s, rail, leg->parts);
    const bool sums = moves_sums(op, s->crossed);
    const size_t unit = sums ? lsi_wide_bytes(op, 1) : op->item;
    unsigned char *data = (sums ? r.sums : r.results) + range.begin * unit;
    return lsi_segment_move(op, s, carrier(op->group->net, leg->node, rail),
                            receives, aside == NULL ? data : aside,
                            lsi_range_size(range) * unit);
}

static ls_status post(lsi_collective *op, lsi_segment *s)
{
    const rails r = rails_of(op, s);
    lsi_leap leap;
    find_leap(op, s, &leap);
    for (size_t rail = r.own.begin; rail < r.own.end; rail++) {
        for (int i = 0; i < leap.ins; i++)
            LS_TRY(move(op, s, rail, &leap.in[i], true,
                        leap.adds ? incoming(&r, rail, i) : NULL));
        for (int i = 0; i < leap.outs; i++)
            LS_TRY(move(op, s, rail, &leap.out[i], false, NULL));
    }
    return LS_OK;
}

/* Folds the received sums with this node's, in the order of the nodes. */
static void fold_rail(const lsi_collective *op, const lsi_segment *s,
                      const lsi_leap *leap, size_t rail)
{
    const rails r = rails_of(op, s);
    const void *srcs[LSI_FEW_NODES + 1];
    int n = 0;
    if (leap->ins == 0)
        return;
    const lsi_range range = parts_of(op, s, rail, leap->in[0].parts);
    unsigned char *own = r.sums + lsi_wide_bytes(op, range.begin);
    for (int i = 0; i < leap->ins; i++) {
        if (n == i && leap->in[i].node > op->group->net->node)
            srcs[n++] = own;
        srcs[n++] = incoming(&r, rail, i);
    }
    if (n == leap->ins)
        srcs[n++] = own;
    lsi_fold(op, own, srcs, n, lsi_range_size(range));
}

/* The part that is complete here becomes a result. */
static void finish_rail(const lsi_collective *op, const lsi_segment *s,
                        size_t rail)
{
    const rails r = rails_of(op, s);
    const lsi_internode *net = op->group->net;
    const size_t part = (size_t)net->node;
    if (net->node >= lsi_nodes_parts(net->nodes))
        return; /* a node that has sent all its sums away */
    const lsi_range range = parts_of(op, s, rail, (lsi_range){part, part + 1});
    lsi_narrow(op, r.results + range.begin * op->item,
               r.sums + lsi_wide_bytes(op, range.begin), lsi_range_size(range));
}

static void fold(const lsi_collective *op, lsi_segment *s)
{
    const lsi_range own = rails_of(op, s).own;
    lsi_leap leap;
    if (!moves_sums(op, s->crossed))
        return;
    find_leap(op, s, &leap);
    for (size_t rail = own.begin; rail < own.end; rail++) {
        fold_rail(op, s, &leap, rail);
        if (!moves_sums(op, s->crossed + 1))
            finish_rail(op, s, rail);
    }
}

/* ---- the collectives ----------------------------------------------------- */

const lsi_stages lsi_all_reduce_stages = {.plan = plan,
                                          .next = next,
                                          .enter = add_up,
                                          .post = post,
                                          .leap = lsi_nodes_step,
                                          .arrived = fold,
                                          .leave = gather};

const lsi_stages lsi_reduce_stages = {.plan = plan,
                                      .next = next,
                                      .enter = add_up,
                                      .post = post,
                                      .leap = lsi_nodes_reduce_step,
                                      .arrived = fold,
                                      .leave = gather_at_root};

const lsi_stages lsi_broadcast_stages = {.plan = plan,
                                         .next = next,
                                         .enter = copy_from_root,
                                         .post = post,
                                         .leap = lsi_nodes_broadcast_step,
                                         .leave = gather_elsewhere};
