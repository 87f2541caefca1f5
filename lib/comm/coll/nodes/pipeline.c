/*
 * Moves segments through their stages. All ranks of a node begin their
 * collectives in one order. The first segments are entered; then each segment
 * that has crossed leaves, and the next one is entered.
 */
#include "comm/coll/nodes/pipeline.h"

#include <assert.h>

#include "base/error.h"
#include "comm/coll/algorithm.h"
#include "comm/coll/points.h"
#include "comm/net/internode.h"
#include "fold/fold.h"

static const lsi_stages *stages_of(const lsi_collective *op)
{
    static const lsi_stages *const stages[LSI_OP_COUNT] = {
        [LSI_OP_ALL_REDUCE] = &lsi_all_reduce_stages,
        [LSI_OP_REDUCE] = &lsi_reduce_stages,
        [LSI_OP_BROADCAST] = &lsi_broadcast_stages,
        [LSI_OP_REDUCE_SCATTER] = &lsi_reduce_scatter_stages,
        [LSI_OP_REDUCE_SHARDS] = &lsi_reduce_scatter_stages,
        [LSI_OP_ALL_GATHER] = &lsi_all_gather_stages};
    return stages[op->call.operation];
}

/* ---- memory -------------------------------------------------------------- */

static size_t transfers_bytes(const lsi_pipeline_plan *plan)
{
    return lsi_lines(plan->transfers * sizeof(lsi_bulk));
}

/* Each message may end with a fragment that is not full. */
static size_t requests_bytes(const lsi_pipeline_plan *plan)
{
    const size_t most = plan->transfers + lsi_bulk_fragments(plan->bytes);
    return lsi_lines(most * sizeof(lsi_wire_request));
}

static size_t grants_bytes(const lsi_pipeline_plan *plan)
{
    return plan->grants ? lsi_lines(plan->transfers * sizeof(lsi_wire_request))
                        : 0;
}

static size_t segment_bytes(const lsi_pipeline_plan *plan)
{
    return transfers_bytes(plan) + requests_bytes(plan) + grants_bytes(plan) +
           lsi_lines(plan->memory);
}

static size_t header_bytes(const lsi_pipeline_plan *plan)
{
    return lsi_lines(sizeof(lsi_pipeline) +
                     plan->segments * sizeof(lsi_segment));
}

size_t lsi_nodes_scratch(const lsi_collective *op)
{
    lsi_pipeline_plan plan = {0};
    if (op->group->net == NULL)
        return 0; /* not usable, as the ranks will agree */
    stages_of(op)->plan(op, &plan);
    return header_bytes(&plan) + plan.segments * segment_bytes(&plan) +
           plan.common;
}

static void clear(lsi_collective *inner)
{
    inner->done = true;
    inner->status = LS_OK;
}

static void open_pipeline(const lsi_collective *op)
{
    lsi_pipeline *p = lsi_pipeline_of(op);
    *p = (lsi_pipeline){.stages = stages_of(op)};
    p->stages->plan(op, &p->plan);
    p->common = (unsigned char *)op->scratch + header_bytes(&p->plan);
    for (size_t i = 0; i < p->plan.segments; i++) {
        lsi_segment *s = &p->segment[i];
        s->transfers = (void *)p->common;
        s->requests = (void *)(p->common + transfers_bytes(&p->plan));
        s->grants = (void *)(p->common + transfers_bytes(&p->plan) +
                             requests_bytes(&p->plan));
        s->memory = (unsigned char *)s->grants + grants_bytes(&p->plan);
        clear(&s->leave);
        p->common += segment_bytes(&p->plan);
    }
    if (p->stages->open != NULL)
        p->stages->open(op);
}

/* ---- for stages ---------------------------------------------------------- */

static ls_status post_grant(ls_group *group, lsi_wire_request *grant, int rank,
                            bool receives)
{
    return receives
               ? lsi_internode_send(group, grant, NULL, 0, rank, LSI_TAG_GRANT)
               : lsi_internode_receive(group, grant, NULL, 0, rank,
                                       LSI_TAG_GRANT);
}

/*
 * Posts all fragments of the message at once; requests for all fit the segment.
 */
ls_status lsi_segment_move(lsi_collective *op, lsi_segment *segment, int rank,
                           bool receives, unsigned char *data, size_t bytes)
{
    const size_t fragments = lsi_bulk_fragments(bytes);
    if (bytes == 0)
        return LS_OK;
    const size_t place = segment->n_transfers++;
    lsi_bulk *transfer = &segment->transfers[place];
    *transfer = (lsi_bulk){.data = data,
                           .bytes = bytes,
                           .rank = rank,
                           .tag = LSI_TAG_STEP + segment->crossed,
                           .receives = receives,
                           .requests = segment->requests + segment->n_requests,
                           .room = fragments};
    segment->n_requests += fragments;
    assert(segment->n_transfers <= lsi_pipeline_of(op)->plan.transfers);
    assert(segment->n_requests * sizeof(lsi_wire_request) <=
           requests_bytes(&lsi_pipeline_of(op)->plan));
    if (!receives)
        op->group->counters->bytes_sent += bytes;
    const ls_status status = lsi_bulk_move(op->group, transfer);
    if (status != LS_OK && status != LS_IN_PROGRESS)
        return status;
    return lsi_pipeline_of(op)->plan.grants
               ? post_grant(op->group, &segment->grants[place], rank, receives)
               : LS_OK;
}

void lsi_fold(const lsi_collective *op, void *to, const void *const *srcs,
              int n, size_t elements)
{
    lsi_serial_reduce(to, srcs, n, elements, lsi_wide_dtype(op),
                      lsi_call_step(&op->call), 1.0);
}

void lsi_collective_nest(lsi_collective *op, ls_group *group,
                         const lsi_call *call, const void *send, void *recv)
{
    const lsi_operation operation = call->operation;
    *op = (lsi_collective){
        .group = group, .call = *call, .send = send, .recv = recv};
    op->item = ls_dtype_size(call->dtype);
    op->block = call->count * op->item;
    op->candidates[0] = lsi_algorithm_find(operation, "direct", 6);
    op->candidates[1] = lsi_algorithm_find(operation, "staged", 6);
    op->offers = true;
}

ls_status lsi_node_reduce(const lsi_collective *op, lsi_collective *inner,
                          lsi_cut cut, const void *from, size_t n, void *to)
{
    const lsi_call call = {.operation = LSI_OP_REDUCE_SHARDS,
                           .dtype = lsi_wide_dtype(op),
                           .redop = lsi_call_step(&op->call),
                           .count = n};
    lsi_collective_nest(inner, op->group->net->local, &call, from, to);
    inner->cut = cut;
    return lsi_collective_submit(inner);
}

ls_status lsi_node_gather(const lsi_collective *op, lsi_collective *inner,
                          lsi_cut cut, void *data, size_t n, int root)
{
    const lsi_call call = {.operation = LSI_OP_GATHER_SHARDS,
                           .dtype = op->call.dtype,
                           .root = root,
                           .count = n};
    lsi_collective_nest(inner, op->group->net->local, &call, data, data);
    inner->cut = cut;
    return lsi_collective_submit(inner);
}

/* ---- progress ------------------------------------------------------------ */

static lsi_segment *segment_at(lsi_pipeline *p, size_t index)
{
    assert(p->plan.segments > 0);
    return &p->segment[index % p->plan.segments];
}

/*
 * Enters the next segment. The segment that had its slot before may still
 * leave.
 */
static ls_status begin_next(const lsi_collective *op)
{
    lsi_pipeline *p = lsi_pipeline_of(op);
    lsi_segment *s = segment_at(p, p->begun);
    p->ended = p->ended || !p->stages->next(op, s);
    if (p->ended)
        return LS_OK;
    p->begun++;
    s->posted = s->crossed = 0;
    clear(&s->enter);
    clear(&s->beside);
    return p->stages->enter(op, s);
}

static ls_status done(const lsi_collective *inner)
{
    return inner->done ? inner->status : LS_IN_PROGRESS;
}

static ls_status messages_done(const lsi_collective *op, lsi_segment *s)
{
    for (size_t i = 0; i < s->n_transfers; i++) {
        LS_TRY(lsi_bulk_move(op->group, &s->transfers[i]));
        if (lsi_pipeline_of(op)->plan.grants)
            LS_TRY(lsi_internode_test(op->group, &s->grants[i]));
    }
    return LS_OK;
}

/*
 * Takes a segment's steps as far as messages have arrived. Messages of one step
 * have one tag, and only their order tells them apart. So a segment posts a
 * step only after the segment ahead of it has: `limit` is the number of steps
 * that it may post.
 */
static ls_status cross(lsi_collective *op, lsi_segment *s, int limit)
{
    const lsi_pipeline *p = lsi_pipeline_of(op);
    ls_status status = done(&s->enter);
    while (status == LS_OK && s->crossed < p->plan.steps) {
        assert(s->crossed <= s->posted && s->posted <= limit);
        if (s->posted == s->crossed) {
            if (s->posted == limit)
                return LS_IN_PROGRESS;
            s->n_transfers = s->n_requests = 0;
            LS_TRY(p->stages->post(op, s));
            s->posted++;
        }
        status = messages_done(op, s);
        if (status == LS_OK && p->stages->arrived != NULL)
            p->stages->arrived(op, s);
        s->crossed += status == LS_OK;
    }
    return status;
}

static ls_status cross_all(lsi_collective *op)
{
    lsi_pipeline *p = lsi_pipeline_of(op);
    int limit = p->plan.steps;
    for (size_t i = p->left; i < p->begun; i++) {
        lsi_segment *s = segment_at(p, i);
        const ls_status status = cross(op, s, limit);
        if (status != LS_OK && status != LS_IN_PROGRESS)
            return status;
        limit = s->posted;
    }
    return LS_OK;
}

/*
 * Segments that have crossed leave, in order, each after the last user of its
 * slot.
 */
static ls_status leave_all(const lsi_collective *op)
{
    lsi_pipeline *p = lsi_pipeline_of(op);
    while (p->left < p->begun) {
        lsi_segment *s = segment_at(p, p->left);
        if (!s->enter.done || s->crossed < p->plan.steps || !s->beside.done ||
            !s->leave.done)
            break;
        LS_TRY(s->beside.status);
        LS_TRY(s->leave.status);
        LS_TRY(p->stages->leave(op, s));
        p->left++;
        LS_TRY(begin_next(op));
    }
    return LS_OK;
}

static ls_status move_on(lsi_collective *op)
{
    lsi_pipeline *p = lsi_pipeline_of(op);
    if (op->step == 0) {
        open_pipeline(op);
        op->step = 1;
        for (size_t i = 0; i < p->plan.segments; i++)
            LS_TRY(begin_next(op));
    }
    LS_TRY(cross_all(op));
    LS_TRY(leave_all(op));
    ls_status status = p->left < p->begun ? LS_IN_PROGRESS : LS_OK;
    for (size_t i = 0; i < p->plan.segments && status == LS_OK; i++)
        status = done(&p->segment[i].leave);
    return status;
}

ls_status lsi_nodes_run(lsi_collective *op)
{
    return lsi_internode_advance(op, move_on);
}
