#include "comm/far.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/waking.h"
#include "comm/collective.h"
#include "comm/dump.h"
#include "comm/engine.h"
#include "comm/failure.h"
#include "comm/news.h"
#include "comm/open.h"
#include "comm/parting.h"
#include "comm/schedule/nodes.h"

/* How long a group that closes, or fails, waits until its words are out. */
#define PARTING_NS    ((uint64_t)1000 * 1000 * 1000)
#define LAST_WORDS_NS ((uint64_t)200 * 1000 * 1000)

/* Groups may be used by several threads, and the wire by one at a time. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- messages ------------------------------------------------------------ */

static void enlist(lsi_far *far, lsi_flight *flight)
{
    flight->next = far->flying;
    flight->link = &far->flying;
    if (flight->next != NULL)
        flight->next->link = &flight->next;
    far->flying = flight;
}

static void strike(lsi_flight *flight)
{
    *flight->link = flight->next;
    if (flight->next != NULL)
        flight->next->link = flight->link;
    flight->flying = false;
}

/* The wire says why, but what has happened is that a rank is out of reach. */
static ls_status lost(ls_group *group, int rank)
{
    lsi_post_failure(group, &(lsi_failure){.status = LS_ERR_PEER_DEAD,
                                           .rank_a = rank,
                                           .sequence = group->completed + 1});
    return lsi_report_failure(group);
}

static ls_status took_off(ls_group *group, lsi_flight *flight, int result)
{
    if (result != 0)
        return lost(group, flight->rank);
    flight->flying = true;
    enlist(group->far, flight);
    return LS_OK;
}

/* Of a message to a rank. */
static int tag_of(const lsi_far *far, int rank, int about)
{
    return far->id[rank] * LSI_TAGS + about;
}

ls_status lsi_far_send(ls_group *group, lsi_flight *flight, const void *data,
                       size_t bytes, int rank, int tag)
{
    lsi_far *far = group->far;
    *flight = (lsi_flight){.rank = rank};
    pthread_mutex_lock(&lock);
    const int result = far->wire->send(data, bytes, far->world[rank],
                                       tag_of(far, rank, tag), &flight->ticket);
    pthread_mutex_unlock(&lock);
    return took_off(group, flight, result);
}

static ls_status receive(ls_group *group, lsi_flight *flight, lsi_buffer to,
                         int peer, int tag)
{
    lsi_far *far = group->far;
    pthread_mutex_lock(&lock);
    const int result =
        far->wire->receive(to.data, to.count, peer,
                           tag_of(far, group->rank, tag), &flight->ticket);
    pthread_mutex_unlock(&lock);
    return took_off(group, flight, result);
}

ls_status lsi_far_receive(ls_group *group, lsi_flight *flight, void *data,
                          size_t bytes, int rank, int tag)
{
    *flight = (lsi_flight){.rank = rank, .receives = true};
    return receive(group, flight, (lsi_buffer){data, bytes, LS_U8},
                   group->far->world[rank], tag);
}

ls_status lsi_far_test(ls_group *group, lsi_flight *flight)
{
    int64_t bytes = -1;
    if (!flight->flying)
        return LS_OK;
    pthread_mutex_lock(&lock);
    const int result = group->far->wire->test(&flight->ticket, &bytes);
    pthread_mutex_unlock(&lock);
    if (result == 0 && bytes < 0)
        return LS_IN_PROGRESS;
    strike(flight);
    if (result != 0)
        return lost(group, flight->rank);
    flight->bytes = (size_t)bytes;
    group->activity++;
    return LS_OK;
}

/* Whether a message is done with, be it that the wire has dropped it. */
static bool is_over(const lsi_far *far, lsi_flight *flight)
{
    int64_t bytes = -1;
    if (!flight->flying)
        return true;
    pthread_mutex_lock(&lock);
    const int result = far->wire->test(&flight->ticket, &bytes);
    pthread_mutex_unlock(&lock);
    if (result == 0 && bytes < 0)
        return false;
    strike(flight);
    return true;
}

/* ---- out of turn --------------------------------------------------------- */

static ls_status listen(ls_group *group)
{
    lsi_far *far = group->far;
    const lsi_buffer to = {&far->heard, sizeof(far->heard), LS_U8};
    far->hears = (lsi_flight){.receives = true};
    return receive(group, &far->hears, to, LSI_WIRE_ANYBODY, LSI_TAG_WORD);
}

/* Whether nothing is left to be said to a rank. It may be slow to listen. */
static bool say_next(lsi_far *far, int rank)
{
    lsi_saying *says = &far->says[rank];
    lsi_flight *flight = &says->flight;
    if (!says->has_next)
        return true;
    if (!is_over(far, flight))
        return false;
    says->has_next = false;
    says->word = says->next;
    *flight = (lsi_flight){.rank = rank};
    pthread_mutex_lock(&lock);
    flight->flying =
        far->wire->send(&says->word, sizeof(says->word), far->world[rank],
                        tag_of(far, rank, LSI_TAG_WORD), &flight->ticket) == 0;
    pthread_mutex_unlock(&lock);
    if (flight->flying)
        enlist(far, flight);
    return true;
}

static void say(ls_group *group, const lsi_word *word, int rank)
{
    lsi_saying *says = &group->far->says[rank];
    if (!says->has_next || word->about >= says->next.about)
        says->next = *word;
    says->has_next = true;
    if (!say_next(group->far, rank))
        group->far->unsaid = true;
}

static void say_rest(ls_group *group)
{
    lsi_far *far = group->far;
    bool all = true;
    for (int r = 0; far->unsaid && r < group->size; r++)
        all = say_next(far, r) && all;
    far->unsaid = !all;
}

void lsi_far_tell(ls_group *group, const lsi_failure *failure)
{
    const lsi_word word = {
        .rank = group->rank, .about = LSI_WORD_FAILED, .failure = *failure};
    for (int r = 0; r < group->size; r++)
        if (lsi_is_far(group, r))
            say(group, &word, r);
}

/* One rank of each other node hears it, for all of them. */
static void say_to_nodes(ls_group *group, const lsi_word *word)
{
    const lsi_far *far = group->far;
    const int index = far->index_of[group->rank];
    for (int k = 0; k < far->nodes; k++)
        if (k != far->node)
            say(group, word,
                far->rank[far->first[k] + index % far->ranks_on[k]]);
}

static void take_leave(ls_group *group)
{
    const lsi_word word = {.rank = group->rank, .about = LSI_WORD_LEAVES};
    say_to_nodes(group, &word);
}

void lsi_far_tell_awaits(ls_group *group)
{
    const lsi_word word = {
        .rank = group->rank,
        .about = LSI_WORD_AWAITS,
        .awaits = atomic_load(&lsi_member_of(group, group->rank)->awaits)};
    say_to_nodes(group, &word);
}

static void take_word(ls_group *group, const lsi_word *word)
{
    if (word->rank < 0 || word->rank >= group->size)
        return;
    if (word->about == LSI_WORD_LEAVES)
        atomic_store(&lsi_member_of(group, word->rank)->presence, LSI_LEFT);
    else if (word->about == LSI_WORD_AWAITS)
        atomic_store(&lsi_member_of(group, word->rank)->awaits, word->awaits);
    else
        lsi_hear_failure(group, &word->failure);
}

ls_status lsi_far_progress(ls_group *group)
{
    lsi_far *far = group->far;
    const uint64_t activity = group->activity;
    say_rest(group);
    const ls_status heard = lsi_far_test(group, &far->hears);
    if (heard == LS_OK) {
        if (far->heard.about == LSI_WORD_AWAITS)
            group->activity = activity; /* nothing has moved */
        take_word(group, &far->heard);
        LS_TRY(listen(group));
    } else if (heard != LS_IN_PROGRESS) {
        return heard;
    }
    return lsi_news_progress(group);
}

/* After a failure only words matter, and the dead do not take data. */
static bool is_awaited(const ls_group *group, const lsi_flight *flight)
{
    const bool is_word = flight == &group->far->says[flight->rank].flight;
    return !flight->receives && (is_word || !lsi_has_failed(group));
}

/* Tests what is being sent until all of it is out, or time is up. */
static void let_go(ls_group *group)
{
    lsi_far *far = group->far;
    const uint64_t until =
        lsi_waking_ns() + (lsi_has_failed(group) ? LAST_WORDS_NS : PARTING_NS);
    bool waits = true;
    while (waits && lsi_waking_ns() < until) {
        say_rest(group);
        waits = far->unsaid;
        for (lsi_flight *f = far->flying, *next; f != NULL; f = next) {
            next = f->next;
            if (is_awaited(group, f) && !is_over(far, f))
                waits = true;
        }
    }
}

static void cancel_all(lsi_far *far)
{
    while (far->flying != NULL) {
        lsi_flight *flight = far->flying;
        strike(flight);
        if (!flight->receives)
            continue; /* its bytes are as good as gone */
        pthread_mutex_lock(&lock);
        far->wire->cancel(&flight->ticket);
        pthread_mutex_unlock(&lock);
    }
    far->unsaid = false;
}

void lsi_far_abandon(ls_group *group)
{
    let_go(group);
    cancel_all(group->far);
}

/* The group of the node has failed, and so the whole one. */
static ls_status local_failed(ls_group *group)
{
    const lsi_far *far = group->far;
    const ls_group *local = far->local;
    lsi_failure failure = {.status = LS_ERR_PEER_DEAD,
                           .sequence = group->completed + 1};
    if (lsi_has_failed(local))
        failure = *lsi_failure_of(local);
    failure.rank_a = far->rank[far->first[far->node] + failure.rank_a];
    failure.rank_b = far->rank[far->first[far->node] + failure.rank_b];
    failure.sequence = group->completed + 1;
    lsi_post_failure(group, &failure);
    return lsi_report_failure(group);
}

ls_status lsi_far_advance(lsi_op *op, ls_status (*move_on)(lsi_op *op))
{
    ls_group *group = op->group, *local = group->far->local;
    const uint64_t before = local->activity;
    ls_status status = lsi_progress(local);
    if (status == LS_OK)
        status = move_on(op);
    group->activity += local->activity - before;
    if (status == LS_OK || status == LS_IN_PROGRESS || lsi_has_failed(group))
        return status;
    return local_failed(group);
}

/* ---- opening ------------------------------------------------------------- */

static _Atomic int next_id; /* of this process */

int lsi_far_new_id(void)
{
    return atomic_fetch_add(&next_id, 1);
}

/* Numbers the nodes in the order of their first ranks. */
static void find_nodes(lsi_far *far, const lsi_far_plan *plan)
{
    for (int r = 0; r < plan->size; r++) {
        int first = 0;
        while (plan->place[first] != plan->place[r])
            first++;
        far->world[r] = plan->world[r];
        far->id[r] = plan->id[r];
        far->node_of[r] = first == r ? far->nodes++ : far->node_of[first];
        far->index_of[r] = far->ranks_on[far->node_of[r]]++;
    }
    for (int k = 1; k < far->nodes; k++)
        far->first[k] = far->first[k - 1] + far->ranks_on[k - 1];
    for (int r = 0; r < plan->size; r++)
        far->rank[far->first[far->node_of[r]] + far->index_of[r]] = r;
    far->node = far->node_of[plan->rank];
    far->lanes = lsi_lanes_between(far->ranks_on, far->nodes);
}

static ls_status allocate(lsi_far *far, const lsi_far_plan *plan)
{
    enum { MAPS = 7 };
    const size_t n = (size_t)plan->size;
    void *block = NULL;
    LS_TRY(lsi_alloc_zeroed(&block, MAPS * n * sizeof(int), LS_MEMORY_COMM,
                            "a group of several nodes"));
    int **const maps[MAPS] = {&far->world,    &far->id,       &far->node_of,
                              &far->index_of, &far->ranks_on, &far->first,
                              &far->rank};
    for (size_t i = 0; i < MAPS; i++)
        *maps[i] = (int *)block + i * n;
    LS_TRY(lsi_alloc_zeroed(&block, n * sizeof(lsi_saying), LS_MEMORY_COMM,
                            "a group of several nodes"));
    far->says = block;
    find_nodes(far, plan);
    return plan->local->rank == 0 ? lsi_news_open(&far->news, n) : LS_OK;
}

static void release(lsi_far *far)
{
    lsi_news_close(&far->news);
    lsi_free(far->says);
    lsi_free(far->world); /* and the maps behind it */
    ls_group_close(&far->local);
    lsi_free(far);
}

/* All ranks see the same numbers, and come to the same result. */
static ls_status check_tags(const lsi_far_plan *plan)
{
    const int most = plan->wire->highest_tag / LSI_TAGS;
    for (int r = 0; r < plan->size; r++)
        if (plan->id[r] >= most)
            return lsi_fail(LS_ERR_UNSUPPORTED,
                            "rank %d has made %d groups that span nodes; %s "
                            "has tags for no more",
                            r, plan->id[r], plan->wire->library);
    return LS_OK;
}

static ls_status make(const lsi_far_plan *plan, lsi_far **out)
{
    void *block = NULL;
    ls_group *local = plan->local;
    ls_status status = lsi_alloc_zeroed(&block, sizeof(lsi_far), LS_MEMORY_COMM,
                                        "a group of several nodes");
    if (status != LS_OK) {
        ls_group_close(&local);
        return status;
    }
    lsi_far *far = block;
    far->local = local;
    far->wire = plan->wire;
    far->job = plan->job;
    status = allocate(far, plan);
    if (status == LS_OK)
        status = check_tags(plan);
    if (status != LS_OK)
        release(far);
    else
        *out = far;
    return status;
}

ls_status lsi_far_open(const lsi_far_plan *plan, ls_group **out)
{
    lsi_far *far = NULL;
    ls_group *group = NULL;
    const ls_group *local = plan->local;
    const int own = lsi_member_of(local, local->rank)->node_rank;
    lsi_node *node = local->node;
    LS_TRY(make(plan, &far));
    const lsi_membership membership = {.rank = plan->rank,
                                       .size = plan->size,
                                       .sharers = local->size,
                                       .node_rank = own,
                                       .offset = plan->offset,
                                       .spans = true};
    ls_status status = lsi_group_open(lsi_node_share(node), membership, &group);
    if (status != LS_OK) {
        release(far);
        return status;
    }
    group->far = far;
    lsi_dump_leave(far->local); /* the records are those of the whole group */
    lsi_dump_join(group);
    far->local->counters = group->counters;
    status = listen(group);
    if (status != LS_OK)
        ls_group_close(&group);
    else
        *out = group;
    return status;
}

/* What ranks of other nodes cannot read in the memory of this one. */
typedef struct introduction {
    char host[LSI_HOST_BYTES];
    int32_t pid;
} introduction;

ls_status lsi_far_introduce(ls_group *group)
{
    const lsi_call call = {.operation = LSI_OP_SPLIT};
    const lsi_member *self = lsi_member_of(group, group->rank);
    introduction own = {.pid = self->pid}, *all = NULL;
    void *block = NULL;
    memcpy(own.host, self->host, sizeof(own.host));
    LS_TRY(lsi_alloc(&block, (size_t)group->size * sizeof(own), LS_MEMORY_COMM,
                     "the names of ranks"));
    all = block;
    const ls_status status = lsi_exchange(group, &call, &own, sizeof(own), all);
    for (int r = 0; status == LS_OK && r < group->size; r++) {
        lsi_member *member = lsi_member_of(group, r);
        if (!lsi_is_far(group, r) || group->far->local->rank != 0)
            continue;
        memcpy(member->host, all[r].host, sizeof(member->host));
        member->pid = all[r].pid;
    }
    lsi_free(block);
    return status;
}

void lsi_far_close(ls_group *group)
{
    lsi_far *far = group->far;
    if (far == NULL)
        return;
    lsi_parting_forget(group);
    if (!group->failed && !lsi_has_failed(group))
        take_leave(group);
    lsi_far_abandon(group);
    release(far);
    group->far = NULL;
}
