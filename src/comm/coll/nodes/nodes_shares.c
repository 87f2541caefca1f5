#include "comm/coll/nodes/nodes_shares.h"

#include "base/error.h"
#include "comm/core/paths.h"
#include "comm/net/internode.h"
#include "comm/schedule/shares.h"

/* Bytes of a window of all shares: so that some follow each other. */
enum { LEAST_WINDOW = 256 * 1024, MOST_WINDOW = 1 << 20 };

/* ---- sizes and places ---------------------------------------------------- */

static size_t stretches_bytes(const lsi_collective *op)
{
    return lsi_lines((size_t)op->group->size * sizeof(lsi_stretch));
}

static size_t trips_bytes(const lsi_collective *op)
{
    return lsi_lines((size_t)op->group->size * sizeof(lsi_trip));
}

size_t lsi_relay_bytes(const lsi_collective *op)
{
    return lsi_lines(sizeof(lsi_relay)) + stretches_bytes(op) +
           2 * trips_bytes(op);
}

lsi_relay *lsi_relay_of(const lsi_collective *op)
{
    return op->scratch;
}

static void *place(const lsi_collective *op, size_t bytes)
{
    return (unsigned char *)op->scratch + lsi_lines(sizeof(lsi_relay)) + bytes;
}

lsi_stretch *lsi_stretches(const lsi_collective *op)
{
    return place(op, 0);
}

lsi_trip *lsi_outs(const lsi_collective *op)
{
    return place(op, stretches_bytes(op));
}

lsi_trip *lsi_ins(const lsi_collective *op)
{
    return place(op, stretches_bytes(op) + trips_bytes(op));
}

/* ---- what there is to do ------------------------------------------------- */

/* What ranks that follow each other own; nothing of some of them, maybe. */
static lsi_range owned_by(const lsi_collective *op, int rank, int ranks)
{
    lsi_range all = {0, 0};
    for (int r = rank; r < rank + ranks; r++) {
        const lsi_range block = lsi_block_of(op, r);
        if (lsi_range_size(block) == 0)
            continue;
        if (all.end == 0)
            all.begin = block.begin;
        all.end = block.end;
    }
    return all;
}

/* Its own ranks share it as they own it: number `index` is the first owner. */
static lsi_cut as_owned(const lsi_collective *op, const lsi_stretch *s,
                        int index)
{
    const bool shards =
        lsi_operation_of(op->call.operation)->receives == LSI_EXTENT_SHARD;
    const size_t shard = shards ? op->cut.shard : op->call.count;
    const size_t begin = s->elements.begin + (shards ? op->cut.first : 0);
    return (lsi_cut){.shard = shard,
                     .first = begin - (size_t)(s->rank - index) * shard};
}

static lsi_range offsets_in_use(const lsi_cut *cut, size_t n)
{
    const size_t first = cut->first % cut->shard;
    return first + n <= cut->shard ? (lsi_range){first, first + n}
                                   : (lsi_range){0, cut->shard};
}

static size_t width_of(const lsi_collective *op, size_t n)
{
    const size_t ranks = (size_t)op->group->net->local->size;
    const size_t line = LSI_LINE / op->item;
    size_t bytes = n * op->item / LSI_CHUNKS;
    bytes = bytes < LEAST_WINDOW ? LEAST_WINDOW : bytes;
    bytes = bytes > MOST_WINDOW ? MOST_WINDOW : bytes;
    return (bytes / op->item / ranks + line - 1) / line * line;
}

static void make_stretch(const lsi_collective *op, int index, lsi_stretch *s)
{
    const lsi_internode *net = op->group->net;
    const ls_group *local = net->local;
    const size_t n = lsi_range_size(s->elements);
    s->cut = s->node == net->node ? as_owned(op, s, index)
                                  : lsi_shares(n, local->size);
    const lsi_range own = lsi_cut_part(&s->cut, n, local->size, local->rank);
    s->own =
        (lsi_range){s->elements.begin + own.begin, s->elements.begin + own.end};
    s->offsets = offsets_in_use(&s->cut, n);
    s->width = width_of(op, n);
    s->upto = s->own.begin;
}

bool lsi_next_stretch(const lsi_collective *op, int node, int *index,
                      lsi_stretch *s)
{
    const lsi_internode *net = op->group->net;
    while (*index < net->ranks_on[node]) {
        const int begin = *index, *ranks = &net->rank[net->first[node] + begin];
        const int length = lsi_run_length(ranks, net->ranks_on[node] - begin);
        *index += length;
        *s = (lsi_stretch){.node = node, .rank = ranks[0], .ranks = length};
        s->elements = owned_by(op, s->rank, s->ranks);
        if (lsi_range_size(s->elements) == 0)
            continue;
        make_stretch(op, begin, s);
        return true;
    }
    return false;
}

static lsi_range own_run(const lsi_collective *op)
{
    const int *node_of = op->group->net->node_of;
    int begin = op->group->rank, end = begin + 1;
    while (begin > 0 && node_of[begin - 1] == node_of[begin])
        begin--;
    while (end < op->group->size && node_of[end] == node_of[begin])
        end++;
    return owned_by(op, begin, end - begin);
}

void lsi_relay_clear(const lsi_collective *op)
{
    lsi_relay *relay = lsi_relay_of(op);
    *relay = (lsi_relay){0};
    relay->run = own_run(op);
    relay->block = lsi_block_of(op, op->group->rank);
    relay->added = relay->block.begin;
}

lsi_range lsi_own_carried(const lsi_collective *op, int carrier)
{
    const lsi_relay *relay = lsi_relay_of(op);
    const lsi_internode *net = op->group->net;
    return lsi_carried(relay->run, net->ranks_on[net->node_of[carrier]],
                       net->index_of[carrier], relay->block);
}

void lsi_add_trip(lsi_collective *op, int rank, bool receives,
                  lsi_range elements, unsigned char *data, size_t unit)
{
    lsi_relay *relay = lsi_relay_of(op);
    const size_t bytes = lsi_range_size(elements) * unit;
    if (bytes == 0)
        return;
    lsi_trip *trip =
        receives ? &lsi_ins(op)[relay->ins++] : &lsi_outs(op)[relay->outs++];
    *trip = (lsi_trip){.elements = elements,
                       .stretch = relay->stretches,
                       .bulk = {.data = data,
                                .bytes = bytes,
                                .rank = rank,
                                .tag = LSI_TAG_STEP,
                                .receives = receives,
                                .requests = trip->requests,
                                .room = LSI_TRIP_PIECES}};
    if (!receives)
        op->group->counters->bytes_sent += bytes;
}

/* ---- moving on ----------------------------------------------------------- */

/*
 * One after the other, so that not all nodes send to the same one: the next
 * begins when the one before is on its way.
 */
ls_status lsi_move_outs(lsi_collective *op)
{
    lsi_relay *relay = lsi_relay_of(op);
    for (size_t i = relay->outs_done; i < relay->outs; i++) {
        lsi_bulk *bulk = &lsi_outs(op)[i].bulk;
        const ls_status status = lsi_bulk_move(op->group, bulk);
        if (status != LS_OK && status != LS_IN_PROGRESS)
            return status;
        if (status == LS_OK && i == relay->outs_done)
            relay->outs_done++;
        if (bulk->posted < lsi_bulk_fragments(bulk->bytes))
            break;
    }
    return relay->outs_done == relay->outs ? LS_OK : LS_IN_PROGRESS;
}

ls_status lsi_move_ins(lsi_collective *op)
{
    lsi_relay *relay = lsi_relay_of(op);
    for (size_t i = relay->ins_done; i < relay->ins; i++) {
        const ls_status status = lsi_bulk_move(op->group, &lsi_ins(op)[i].bulk);
        if (status != LS_OK && status != LS_IN_PROGRESS)
            return status;
        if (status == LS_OK && i == relay->ins_done)
            relay->ins_done++;
    }
    return relay->ins_done == relay->ins ? LS_OK : LS_IN_PROGRESS;
}

static size_t trip_upto(const lsi_trip *trip)
{
    const lsi_bulk *bulk = &trip->bulk;
    const size_t unit = bulk->bytes / lsi_range_size(trip->elements);
    const size_t bytes = bulk->arrived * LSI_WIRE_PIECE;
    return bytes >= bulk->bytes ? trip->elements.end
                                : trip->elements.begin + bytes / unit;
}

size_t lsi_arrived_upto(const lsi_collective *op, lsi_range range)
{
    const lsi_relay *relay = lsi_relay_of(op);
    size_t upto = range.end;
    for (size_t i = relay->ins_done; i < relay->ins; i++) {
        const lsi_trip *trip = &lsi_ins(op)[i];
        const size_t arrived = trip_upto(trip);
        if (lsi_range_size(lsi_range_common(trip->elements, range)) != 0 &&
            arrived != trip->elements.end && arrived < upto)
            upto = arrived;
    }
    return upto;
}

lsi_stretch *lsi_window_at(const lsi_collective *op, lsi_spot *spot,
                           lsi_cut *cut)
{
    const lsi_relay *relay = lsi_relay_of(op);
    for (; spot->stretch < relay->stretches; spot->stretch++) {
        lsi_stretch *s = &lsi_stretches(op)[spot->stretch];
        const size_t begin = s->offsets.begin + spot->window * s->width;
        if (begin < s->offsets.end) {
            *cut = s->cut;
            cut->window = lsi_range_common(
                s->offsets, (lsi_range){begin, begin + s->width});
            return s;
        }
        spot->window = 0;
    }
    return NULL;
}

static void next_window(lsi_spot *spot)
{
    spot->window++;
    spot->passed++;
}

static lsi_collective *free_inside(const lsi_collective *op)
{
    lsi_relay *relay = lsi_relay_of(op);
    return relay->begun.passed - relay->done.passed == LSI_CHUNKS
               ? NULL
               : &relay->inside[relay->begun.passed % LSI_CHUNKS];
}

ls_status lsi_begin_windows(const lsi_collective *op, lsi_begin_fn *begin)
{
    lsi_relay *relay = lsi_relay_of(op);
    lsi_collective *inside;
    while ((inside = free_inside(op)) != NULL) {
        lsi_cut cut;
        const lsi_stretch *s = lsi_window_at(op, &relay->begun, &cut);
        if (s == NULL)
            break;
        const ls_status status = begin(op, inside, s, cut);
        if (status != LS_OK)
            return status == LS_IN_PROGRESS ? LS_OK : status;
        next_window(&relay->begun);
    }
    return LS_OK;
}

lsi_range lsi_own_window(const lsi_collective *op, const lsi_stretch *s,
                         const lsi_cut *cut)
{
    const ls_group *local = op->group->net->local;
    const lsi_range part = lsi_cut_part(cut, lsi_range_size(s->elements),
                                        local->size, local->rank);
    if (lsi_range_size(part) == 0)
        return (lsi_range){s->upto, s->upto};
    return (lsi_range){s->elements.begin + part.begin,
                       s->elements.begin + part.end};
}

ls_status lsi_windows_done(const lsi_collective *op)
{
    lsi_relay *relay = lsi_relay_of(op);
    while (relay->done.passed < relay->begun.passed) {
        const lsi_collective *inside =
            &relay->inside[relay->done.passed % LSI_CHUNKS];
        lsi_cut cut;
        if (!inside->done)
            break;
        LS_TRY(inside->status);
        lsi_stretch *s = lsi_window_at(op, &relay->done, &cut);
        s->upto = lsi_own_window(op, s, &cut).end;
        next_window(&relay->done);
    }
    return LS_OK;
}
