/*
 * One request is a message to a rank that has the weights, the holder, which
 * answers with another message. Both use a separate group. Requests use the
 * streams of collectives, answers those of users, so that a request need not
 * wait for the answers that go the same way. Answers of one rank come in the
 * order of the requests.
 *
 * The group moves whenever this thread waits in any group; then `serve` answers
 * the requests that have come.
 */
#include "model/parallel/weight_fetch.h"

#include <assert.h>

#include "base/error.h"
#include "base/memory.h"
#include "comm/api/group.h"
#include "comm/api/internode_swap.h"
#include "comm/core/agree.h"
#include "comm/core/coprogress.h"
#include "comm/core/engine.h"
#include "comm/core/message.h"
#include "comm/core/wait.h"
#include "comm/state/channels.h"
#include "model/autograd/params/halves.h"
#include "model/parallel/layer_name.h"

/*
 * A busy rank polls once in some operations, which may take 50 ms. Until then
 * its network sends what it was given, so it is given much at a time.
 */
enum { CREDIT_BYTES = 8 << 20 };

typedef struct request {
    uint64_t kind, dtype; /* dtype: of halves */
    uint64_t begin, end;  /* elements */
    uint64_t node;        /* of the rank that asks */
} request;

struct lsi_weight_fetch_part {
    request wanted;
    int holder;
    lsi_message asks, comes;
};

/* An answer on its way. */
typedef struct answer {
    struct answer *next;
    lsi_message message;
    request wanted;
    lsi_span span;
} answer;

/* A rank of another node, and its next request. */
typedef struct asker {
    request wanted;
    lsi_message comes;
} asker;

enum { HERE = -1 }; /* this node has the part */

struct lsi_weight_fetch {
    ls_group *group;
    ls_params *params;
    size_t shard;
    int node;
    lsi_weight_fetch_moved_fn *moved;
    void *context;
    int *holders;  /* of each rank's part: whom to ask; HERE: nobody */
    asker *askers; /* by rank */
    answer *sent, *spare;
};

static bool is_elsewhere(const lsi_weight_fetch *fetch, int rank)
{
    return !lsi_shares_memory(fetch->group, rank);
}

/* The part of a rank, of trained or of frozen elements as `element` is. */
static lsi_range owned_by(const lsi_weight_fetch *fetch, int rank,
                          size_t element)
{
    if (element >= fetch->params->sharing.frozen_begin)
        return lsi_params_frozen_part(fetch->params, rank);
    const size_t begin = (size_t)rank * fetch->shard;
    return (lsi_range){begin, begin + fetch->shard};
}

int lsi_weight_fetch_node(const lsi_weight_fetch *fetch)
{
    return fetch->node;
}

/* ---- answering ----------------------------------------------------------- */

static void listen_to(lsi_weight_fetch *fetch, int rank)
{
    asker *const from = &fetch->askers[rank];
    lsi_message_receive(
        fetch->group, &from->comes, LSI_CHANNEL_COLLECTIVE,
        (lsi_buffer){&from->wanted, sizeof(from->wanted), LS_U8}, rank);
}

static ls_status take_answer(lsi_weight_fetch *fetch, answer **out)
{
    if (fetch->spare == NULL)
        LS_TRY(lsi_alloc_zeroed(&fetch->spare, sizeof(answer), LS_MEMORY_COMM,
                                "weights on their way"));
    *out = fetch->spare;
    fetch->spare = fetch->spare->next;
    (*out)->next = fetch->sent;
    fetch->sent = *out;
    return LS_OK;
}

static void put_span(const lsi_weight_fetch *fetch, const answer *sent)
{
    const lsi_param_list *const all = &fetch->params->params;
    for (size_t i = 0; sent->span.begin != 0 && i < all->count; i++) {
        const lsi_param *const param = all->items[i];
        const size_t at = param->offset;
        if (sent->wanted.begin < at ||
            sent->wanted.begin - at >= (size_t)param->tensor->count)
            continue;
        lsi_layer_span_end(LSI_SPAN_ANSWER, param->name, sent->span,
                           (int)sent->wanted.node);
        return;
    }
}

/* The requested weights; no data if the request makes no sense. */
static lsi_buffer find_wanted(const lsi_weight_fetch *fetch,
                              const request *wanted)
{
    ls_params *const params = fetch->params;
    const lsi_params_sharing *const s = &params->sharing;
    const bool frozen = wanted->begin >= s->frozen_begin;
    const size_t from = frozen ? s->frozen_begin : 0;
    const size_t shard = frozen ? s->frozen_shard : fetch->shard;
    lsi_buffer out = {.data = NULL};
    if (wanted->begin >= wanted->end || shard == 0)
        return out;
    const size_t owner = (wanted->begin - from) / shard;
    if (owner >= (size_t)fetch->group->size || fetch->holders[owner] != HERE ||
        wanted->end > owned_by(fetch, (int)owner, wanted->begin).end)
        return out;
    const lsi_range elements = {wanted->begin, wanted->end};
    out.count = lsi_range_size(elements);
    out.dtype = LS_F32;
    if (wanted->kind == LSI_WEIGHTS_F32) {
        out.data = params->storage.flat + wanted->begin;
    } else {
        out.dtype = (ls_dtype)wanted->dtype;
        out.data = lsi_params_halves_here(params, out.dtype, elements);
    }
    return out;
}

static ls_status answer_to(lsi_weight_fetch *fetch, int rank)
{
    const lsi_buffer found = find_wanted(fetch, &fetch->askers[rank].wanted);
    answer *made;
    if (found.data == NULL)
        return LS_OK; /* the rank that asked will miss it, and say so */
    LS_TRY(take_answer(fetch, &made));
    made->wanted = fetch->askers[rank].wanted;
    made->span = (lsi_span){.begin = lsi_span_begin(),
                            .bytes = found.count * ls_dtype_size(found.dtype)};
    lsi_message_send_tag(fetch->group, &made->message, LSI_CHANNEL_USER, found,
                         (lsi_peer_tag){rank, 0});
    return LS_OK;
}

static void collect_answers(lsi_weight_fetch *fetch)
{
    answer **link = &fetch->sent;
    while (*link != NULL) {
        answer *const at = *link;
        if (!at->message.done) {
            link = &at->next;
            continue;
        }
        put_span(fetch, at);
        *link = at->next;
        at->next = fetch->spare;
        fetch->spare = at;
    }
}

/* Called whenever the group moves. */
static ls_status serve(void *context)
{
    lsi_weight_fetch *const fetch = context;
    collect_answers(fetch);
    fetch->moved(fetch->context);
    for (int r = 0; r < fetch->group->size; r++) {
        if (!is_elsewhere(fetch, r) || !fetch->askers[r].comes.done)
            continue;
        LS_TRY(answer_to(fetch, r));
        listen_to(fetch, r);
        fetch->group->activity++; /* there is more to move */
    }
    return LS_OK;
}

/* ---- asking -------------------------------------------------------------- */

/* The part of a range that a rank owns and this node lacks; may be empty. */
static lsi_range common(const lsi_weight_fetch *fetch, lsi_range elements,
                        int rank)
{
    return fetch->holders[rank] != HERE
               ? lsi_range_common(elements,
                                  owned_by(fetch, rank, elements.begin))
               : (lsi_range){0, 0};
}

ls_status lsi_weight_fetch_plan(const lsi_weight_fetch *fetch,
                                lsi_range elements, lsi_weight_kind kind,
                                lsi_weight_fetch_part **out, size_t *n)
{
    const int size = fetch->group->size;
    lsi_weight_fetch_part *parts;
    *n = 0;
    *out = NULL;
    for (int r = 0; r < size; r++)
        *n += lsi_range_size(common(fetch, elements, r)) > 0;
    if (*n == 0)
        return LS_OK;
    LS_TRY(lsi_alloc_zeroed(&parts, *n * sizeof(lsi_weight_fetch_part),
                            LS_MEMORY_COMM, "a plan to gather weights"));
    size_t at = 0;
    for (int r = 0; r < size; r++) {
        const lsi_range part = common(fetch, elements, r);
        if (lsi_range_size(part) > 0)
            parts[at++] = (lsi_weight_fetch_part){
                .wanted = {.kind = kind, .begin = part.begin, .end = part.end},
                .holder = fetch->holders[r]};
    }
    *out = parts;
    return LS_OK;
}

lsi_range lsi_weight_fetch_elements(const lsi_weight_fetch_part *parts,
                                    size_t i)
{
    return (lsi_range){parts[i].wanted.begin, parts[i].wanted.end};
}

static lsi_buffer place_of(const lsi_weight_fetch *fetch, const request *wanted)
{
    ls_params *const params = fetch->params;
    lsi_buffer out = {.count = wanted->end - wanted->begin, .dtype = LS_F32};
    if (wanted->kind == LSI_WEIGHTS_F32) {
        out.data = params->storage.flat + wanted->begin;
    } else {
        out.dtype = (ls_dtype)wanted->dtype;
        out.data = params->sharing.halves.first + wanted->begin;
    }
    return out;
}

void lsi_weight_fetch_ask(lsi_weight_fetch *fetch, lsi_weight_fetch_part *parts,
                          size_t n)
{
    lsi_coprogress_take(fetch->group);
    for (size_t i = 0; i < n; i++) {
        lsi_weight_fetch_part *const p = &parts[i];
        p->wanted.dtype = (uint64_t)lsi_params_half_type(fetch->params);
        p->wanted.node = (uint64_t)fetch->node;
        lsi_message_ask(fetch->group, &p->comes, place_of(fetch, &p->wanted),
                        (lsi_peer_tag){p->holder, 0});
        lsi_message_send(fetch->group, &p->asks, LSI_CHANNEL_COLLECTIVE,
                         (lsi_buffer){&p->wanted, sizeof(request), LS_U8},
                         p->holder);
    }
}

bool lsi_weight_fetch_has_come(const lsi_weight_fetch_part *parts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!parts[i].comes.done || !parts[i].asks.done)
            return false;
    }
    return true;
}

ls_status lsi_weight_fetch_poll(lsi_weight_fetch *fetch)
{
    lsi_coprogress_take(fetch->group);
    return lsi_progress(fetch->group);
}

ls_status lsi_weight_fetch_wait(lsi_weight_fetch *fetch,
                                lsi_reached_fn *reached, const void *goal)
{
    const double slice = 3600; /* a timeout ends it before */
    LSI_SPAN(WAIT, "wait for ranks", 0, 0);
    ls_status status = reached(goal) ? LS_OK : LS_IN_PROGRESS;
    while (status == LS_IN_PROGRESS)
        status = lsi_wait_seconds_until(fetch->group, reached, goal, slice);
    lsi_polling_over(fetch->group);
    return status;
}

/* ---- life ---------------------------------------------------------------- */

/*
 * The nodes of a shard group, which have one copy together, are those with the
 * same place in their runs of replicas.
 */
static void find_holders(lsi_weight_fetch *fetch)
{
    const ls_group *const group = fetch->group;
    const int replicas = fetch->params->sharing.replicas;
    const int place = lsi_node_of(group, group->rank) % replicas;
    for (int r = 0; r < group->size; r++) {
        const int node = lsi_node_of(group, r);
        fetch->holders[r] =
            lsi_node_is_replica(group, r, replicas)
                ? HERE
                : lsi_counterpart(group, r, node - node % replicas + place);
    }
}

ls_status lsi_weight_fetch_new(lsi_weight_fetch **out, ls_group *group,
                               ls_params *params, size_t shard,
                               lsi_weight_fetch_moved_fn *moved, void *context)
{
    lsi_weight_fetch *made = NULL;
    const char *const what = "the exchange of weights";
    const size_t size = (size_t)ls_group_size(group);
    ls_status status =
        lsi_alloc_zeroed(&made, sizeof(lsi_weight_fetch), LS_MEMORY_COMM, what);
    if (status == LS_OK)
        status = lsi_alloc_zeroed(&made->askers, size * sizeof(asker),
                                  LS_MEMORY_COMM, what);
    if (status == LS_OK)
        status = lsi_alloc_zeroed(&made->holders, size * sizeof(int),
                                  LS_MEMORY_COMM, what);
    status = lsi_agree_to_plan(group, status);
    if (status == LS_OK)
        status = lsi_group_dup(group, &made->group);
    if (status != LS_OK) {
        lsi_weight_fetch_free(&made);
        return status;
    }
    made->params = params;
    made->shard = shard;
    made->moved = moved;
    made->context = context;
    made->group->streams.credit_bytes = CREDIT_BYTES;
    while (is_elsewhere(made, made->node))
        made->node++;
    find_holders(made);
    for (int r = 0; r < made->group->size; r++)
        if (is_elsewhere(made, r))
            listen_to(made, r);
    made->group->service = (lsi_service){serve, made};
    lsi_coprogress_join(made->group);
    *out = made;
    return LS_OK;
}

/* Nobody asks any more, so a rank that has left is not missed. */
static void stop_listening(lsi_weight_fetch *fetch)
{
    lsi_coprogress_take(fetch->group);
    fetch->group->service = (lsi_service){NULL, NULL};
    for (int r = 0; r < fetch->group->size; r++) {
        lsi_stream *const from =
            &fetch->group->streams.of[LSI_CHANNEL_COLLECTIVE][1][r];
        if (is_elsewhere(fetch, r))
            (void)lsi_message_strike(&from->queue, &fetch->askers[r].comes);
    }
}

static void close_group(lsi_weight_fetch *fetch)
{
    const ls_status asked = ls_barrier(fetch->group);
    stop_listening(fetch);
    if (asked == LS_OK)
        ls_ignore(ls_barrier(fetch->group));
    ls_group_close(&fetch->group);
}

static void free_answers(answer *list)
{
    for (answer *next; list != NULL; list = next) {
        next = list->next;
        lsi_free(list);
    }
}

void lsi_weight_fetch_free(lsi_weight_fetch **out)
{
    lsi_weight_fetch *const fetch = *out;
    if (fetch == NULL)
        return;
    *out = NULL;
    if (fetch->group != NULL)
        close_group(fetch);
    free_answers(fetch->sent);
    free_answers(fetch->spare);
    lsi_free(fetch->askers);
    lsi_free(fetch->holders);
    lsi_free(fetch);
}
