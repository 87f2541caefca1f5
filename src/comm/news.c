/*
 * The first rank of each node passes on what the ranks of its node have
 * published about a collective, once all have: a record for each. The records
 * go round by dissemination (schedule/tree.h): in each round a node sends on
 * what it has heard so far, so that all have heard from all after log2 of the
 * nodes. What arrives is written where the ranks of this node look for it, as
 * if its owner had done that.
 *
 * All ranks of this node have published, so none of them reads what the same
 * place has held before.
 */
#include "comm/news.h"

#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "comm/failure.h"
#include "comm/schedule/tree.h"
#include "comm/sleep.h"

typedef struct record {
    uint64_t sequence, what, count; /* of the call */
    uint32_t rank, bytes;           /* of the payload behind it */
} record;

/* ---- bundles ------------------------------------------------------------- */

static size_t record_bytes(size_t payload)
{
    return sizeof(record) + (payload + 7) / 8 * 8;
}

ls_status lsi_news_open(lsi_news *news, size_t ranks)
{
    void *block = NULL;
    const size_t bytes = ranks * record_bytes(LSI_PAYLOAD_BYTES);
    LS_TRY(lsi_alloc(&block, bytes, LS_MEMORY_COMM, "arrivals of ranks"));
    *news =
        (lsi_news){.sequence = 1, .round = -1, .bundle = block, .room = bytes};
    return LS_OK;
}

void lsi_news_close(lsi_news *news)
{
    lsi_free(news->bundle);
}

static void append_own(const ls_group *group, lsi_news *news, int rank)
{
    const lsi_cell *cell = lsi_cell_of(group, news->sequence, rank);
    const record r = {.sequence = news->sequence,
                      .what = cell->what,
                      .count = cell->count,
                      .rank = (uint32_t)rank,
                      .bytes = (uint32_t)cell->bytes};
    memcpy(news->bundle + news->used, &r, sizeof(r));
    memcpy(news->bundle + news->used + sizeof(r), cell->payload, cell->bytes);
    news->used += record_bytes(cell->bytes);
}

/* Whether all ranks of this node have published; then the bundle is theirs. */
static bool begin(const ls_group *group, lsi_news *news)
{
    const lsi_far *far = group->far;
    const int *own = far->rank + far->first[far->node];
    const int n = far->ranks_on[far->node];
    for (int i = 0; i < n; i++)
        if (atomic_load(&lsi_cell_of(group, news->sequence, own[i])->stamp) <
            lsi_stamp(news->sequence, 1))
            return false;
    news->used = 0;
    for (int i = 0; i < n; i++)
        append_own(group, news, own[i]);
    return true;
}

/* The bytes of the first records, which are those of so many nodes. */
static size_t prefix(const ls_group *group, const lsi_news *news, int nodes)
{
    const lsi_far *far = group->far;
    int records = 0;
    size_t at = 0;
    for (int i = 0; i < nodes; i++)
        records += far->ranks_on[(far->node - i + far->nodes) % far->nodes];
    for (; records > 0; records--) {
        record r;
        memcpy(&r, news->bundle + at, sizeof(r));
        at += record_bytes(r.bytes);
    }
    return at;
}

/* ---- what arrives -------------------------------------------------------- */

static void publish(const ls_group *group, const record *r, const void *payload)
{
    const int rank = (int)r->rank;
    lsi_cell *cell = lsi_cell_of(group, r->sequence, rank);
    cell->what = r->what;
    cell->count = r->count;
    cell->completed = r->sequence - 1;
    cell->bytes = r->bytes;
    memcpy(cell->payload, payload, r->bytes);
    atomic_store(&lsi_member_of(group, rank)->completed, r->sequence - 1);
    atomic_store(&cell->stamp, lsi_stamp(r->sequence, 1));
}

static ls_status garbled(ls_group *group)
{
    lsi_post_failure(group, &(lsi_failure){.status = LS_ERR_SYSTEM,
                                           .rank_a = group->far->news.in.rank,
                                           .rank_b = group->rank,
                                           .sequence = group->completed + 1});
    return lsi_report_failure(group);
}

static ls_status publish_all(ls_group *group, lsi_news *news)
{
    const size_t end = news->used + news->in.bytes;
    while (news->used < end) {
        record r;
        if (end - news->used < sizeof(r))
            return garbled(group);
        memcpy(&r, news->bundle + news->used, sizeof(r));
        if (r.sequence != news->sequence || r.rank >= (uint32_t)group->size ||
            r.bytes > LSI_PAYLOAD_BYTES ||
            record_bytes(r.bytes) > end - news->used)
            return garbled(group);
        publish(group, &r, news->bundle + news->used + sizeof(r));
        news->used += record_bytes(r.bytes);
    }
    lsi_wake_all(group);
    return LS_OK;
}

/* ---- rounds -------------------------------------------------------------- */

static ls_status post(ls_group *group, lsi_news *news)
{
    const lsi_far *far = group->far;
    const int k = far->nodes, round = news->round;
    const int to = lsi_dissemination_sends_to(far->node, k, round);
    const int from = lsi_dissemination_receives_from(far->node, k, round);
    const size_t bytes = prefix(group, news, lsi_dissemination_news(k, round));
    LS_TRY(lsi_far_receive(group, &news->in, news->bundle + news->used,
                           news->room - news->used, far->rank[far->first[from]],
                           LSI_TAG_NEWS));
    return lsi_far_send(group, &news->out, news->bundle, bytes,
                        far->rank[far->first[to]], LSI_TAG_NEWS);
}

/* LS_OK if the next round has begun. */
static ls_status move_on(ls_group *group, lsi_news *news)
{
    const int rounds = lsi_doubling_rounds(group->far->nodes);
    ls_status status;
    if (news->round < 0) {
        if (!begin(group, news))
            return LS_IN_PROGRESS;
    } else {
        if (!news->in_taken) {
            status = lsi_far_test(group, &news->in);
            if (status != LS_OK)
                return status;
            LS_TRY(publish_all(group, news));
            news->in_taken = true;
        }
        status = lsi_far_test(group, &news->out);
        if (status != LS_OK)
            return status;
    }
    if (++news->round < rounds) {
        news->in_taken = false;
        return post(group, news);
    }
    news->round = -1;
    news->sequence++;
    return LS_OK;
}

ls_status lsi_news_progress(ls_group *group)
{
    lsi_news *news = &group->far->news;
    ls_status status = news->bundle == NULL ? LS_IN_PROGRESS : LS_OK;
    while (status == LS_OK)
        status = move_on(group, news);
    return status == LS_IN_PROGRESS ? LS_OK : status;
}
