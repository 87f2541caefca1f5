/*
 * Words from the wire that no rank sends: what is used as an index, a length or
 * a text is looked at where it comes in. UCX receives from any host.
 */
#include "testing.h"

#include <string.h>

#include "base/error.h"
#include "comm/core/engine.h"
#include "comm/health/awaited.h"
#include "comm/net/internode.h"
#include "comm/state/state.h"
#include "nodes.h"

static const int two_by_two[] = {2, 2};

enum { LIAR = 2, VICTIM = 0, SIZE = 4 };

/* As if the rank that calls had sent it to the victim. */
static void put(const ls_group *group, const void *data, size_t bytes,
                int about)
{
    const lsi_internode *net = group->net;
    lsi_ticket ticket = {0};
    CHECK(net->wire->send(data, bytes, net->peer[VICTIM],
                          net->world[ls_group_rank(group)],
                          net->id[VICTIM] * LSI_TAGS + about, &ticket) == 0);
}

/* ---- control messages ---------------------------------------------------- */

static void send_control(const ls_group *group)
{
    static const int far[] = {-1, SIZE, INT32_MAX, INT32_MIN};
    const lsi_control awaits = {
        .rank = LIAR, .about = LSI_CONTROL_AWAITS, .awaits = SIZE + 1};
    const lsi_failure_record failure = {.status = LS_ERR_PEER_DEAD};
    lsi_control c = awaits;
    put(group, &c, sizeof(c), LSI_TAG_CONTROL);
    c.awaits = UINT32_MAX;
    put(group, &c, sizeof(c), LSI_TAG_CONTROL);
    for (size_t i = 0; i < TEST_COUNT(far); i++) {
        c = (lsi_control){.rank = far[i], .about = LSI_CONTROL_LEAVES};
        put(group, &c, sizeof(c), LSI_TAG_CONTROL);
        c = (lsi_control){
            .rank = LIAR, .about = LSI_CONTROL_FAILED, .failure = failure};
        c.failure.rank_a = far[i];
        put(group, &c, sizeof(c), LSI_TAG_CONTROL);
        c.failure = failure;
        c.failure.rank_b = far[i];
        put(group, &c, sizeof(c), LSI_TAG_CONTROL);
        c.failure = failure;
        c.failure.counted = (int64_t)far[i] + (far[i] > 0);
        put(group, &c, sizeof(c), LSI_TAG_CONTROL);
    }
    /* A collective that the victim has not entered. */
    c = (lsi_control){.rank = LIAR,
                      .about = LSI_CONTROL_LEAVES,
                      .last = group->queue.sequence + 100};
    put(group, &c, sizeof(c), LSI_TAG_CONTROL);
    /* Messages to the victim without their end, and the opposite. */
    c = (lsi_control){
        .rank = LIAR, .about = LSI_CONTROL_LEAVES, .sent_to = {1}};
    put(group, &c, sizeof(c), LSI_TAG_CONTROL);
    c = (lsi_control){.rank = LIAR, .about = LSI_CONTROL_LEAVES, .end = 1};
    put(group, &c, sizeof(c), LSI_TAG_CONTROL);
    /* One about a rank of the victim's own node, another kind, a short one. */
    c = (lsi_control){.rank = VICTIM + 1, .about = LSI_CONTROL_LEAVES};
    put(group, &c, sizeof(c), LSI_TAG_CONTROL);
    memset(&c, 0x7f, sizeof(c));
    c.rank = LIAR;
    put(group, &c, sizeof(c), LSI_TAG_CONTROL);
    put(group, &awaits, sizeof(awaits) / 2, LSI_TAG_CONTROL);
}

/* All of it is ignored, and what follows is heard. */
static void lie_about_ranks(ls_group *group, void *unused)
{
    const lsi_control told = {
        .rank = LIAR, .about = LSI_CONTROL_AWAITS, .awaits = SIZE};
    (void)unused;
    if (ls_group_rank(group) == LIAR) {
        send_control(group);
        put(group, &told, sizeof(told), LSI_TAG_CONTROL);
    }
    CHECK_OK(ls_barrier(group));
    _Atomic uint32_t *const heard = &lsi_member_of(group, LIAR)->awaits;
    while (ls_group_rank(group) == VICTIM && atomic_load(heard) == 0)
        CHECK_OK(lsi_progress(group));
    CHECK_OK(ls_barrier(group));
    CHECK(atomic_load(heard) <= SIZE);
    CHECK(lsi_awaited_last(group) < SIZE);
    for (int r = 0; r < SIZE; r++)
        CHECK(atomic_load(&lsi_member_of(group, r)->presence) != LSI_LEFT);
    CHECK_OK(ls_barrier(group));
}

static void control_messages_name_ranks(void **state)
{
    (void)state;
    run_nodes(two_by_two, 2, lie_about_ranks, NULL);
}

/* ---- arrivals ------------------------------------------------------------ */

typedef struct bundle {
    uint64_t later; /* by so much than the next call */
    uint32_t rank[3], bytes[3];
    int records;
    size_t cut; /* bytes at the end of the last one that are not sent */
} bundle;

static void send_bundle(const ls_group *group, const bundle *b)
{
    unsigned char data[512] = {0};
    size_t used = 0;
    for (int i = 0; i < b->records; i++) {
        const uint64_t words[] = {group->queue.completed + 1 + b->later, 0, 0,
                                  (uint64_t)b->bytes[i] << 32 | b->rank[i]};
        memcpy(data + used, words, sizeof(words));
        used += sizeof(words);
    }
    put(group, data, used - b->cut, LSI_TAG_ARRIVALS);
}

static void expect_damage(ls_group *group, ls_status status)
{
    CHECK(status == LS_ERR_SYSTEM);
    CHECK(strstr(ls_last_error(), "rank 0 received a damaged message from rank "
                                  "2 over the network") != NULL);
    CHECK(lsi_has_failed(group));
}

static void lie_about_arrivals(ls_group *group, void *argument)
{
    const bundle *const all = argument;
    CHECK_OK(ls_barrier(group));
    if (ls_group_rank(group) == LIAR)
        send_bundle(group, all);
    ls_status status = ls_barrier(group);
    if (status == LS_OK && ls_group_rank(group) != VICTIM)
        status = ls_barrier(group); /* the others may have had all for one */
    expect_damage(group, status);
}

static void arrivals_are_of_the_ranks_that_are_missing(void **state)
{
    bundle cases[] = {
        {.records = 0},
        {.records = 1, .rank = {2}},       /* one is missing */
        {.records = 3, .rank = {2, 3, 3}}, /* one too many */
        {.records = 2, .rank = {3, 2}},    /* another order */
        {.records = 2, .rank = {2, 2}},    /* twice */
        {.records = 2, .rank = {2, 1}},    /* of the victim's node */
        {.records = 2, .rank = {2, SIZE}}, /* of nobody */
        {.records = 2, .rank = {2, UINT32_MAX}},
        {.records = 2, .rank = {2, 3}, .later = 1},
        {.records = 2, .rank = {2, 3}, .bytes = {0, UINT32_MAX}},
        {.records = 2, .rank = {2, 3}, .bytes = {0, 64}},
        {.records = 2, .rank = {2, 3}, .cut = 8},
    };
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++)
        run_nodes(two_by_two, 2, lie_about_arrivals, &cases[i]);
}

/* ---- messages ------------------------------------------------------------ */

typedef struct letter {
    lsi_envelope envelope;
    size_t cut; /* bytes at the end of the envelope that are not sent */
    int body;   /* bytes of data; -1: none is sent */
    bool unexpected;
} letter;

static ls_status receive_tag(ls_group *group, float *data)
{
    ls_request *request = NULL;
    LS_TRY(ls_irecv(group, data, 4, LS_F32, LIAR, 5, &request));
    const ls_status status = ls_wait(request);
    ls_request_free(&request);
    return status;
}

static void lie_about_messages(ls_group *group, void *argument)
{
    const letter *const l = argument;
    const unsigned char body[16] = {0};
    float data[4];
    if (ls_group_rank(group) == LIAR) {
        put(group, &l->envelope, sizeof(l->envelope) - l->cut,
            LSI_TAG_ENVELOPE + LSI_CHANNEL_USER);
        if (l->body >= 0)
            put(group, body, (size_t)l->body, LSI_TAG_DATA + LSI_CHANNEL_USER);
    }
    ls_status status = LS_OK;
    if (ls_group_rank(group) == VICTIM)
        status = l->unexpected ? receive_tag(group, data)
                               : ls_recv(group, data, 4, LS_F32, LIAR, 0);
    else
        status = ls_barrier(group);
    expect_damage(group, status);
}

static void envelopes_say_what_follows(void **state)
{
    const lsi_envelope whole = {.dtype = LS_F32, .count = 4, .bytes = 16};
    letter cases[] = {
        {.envelope = {LS_F32, 4, 17, 0}, .body = -1},
        {.envelope = {LS_F32, 4, 0, 0}, .body = -1},
        {.envelope = {LS_F32, 4, UINT64_MAX, 0}, .body = -1},
        {.envelope = {LS_F32, UINT64_MAX / 4 + 2, 4, 0}, .body = -1},
        {.envelope = {200, 4, 16, 0}, .body = -1},
        {.envelope = {(uint64_t)1 << 32 | LS_F32, 4, 16, 0}, .body = -1},
        {.envelope = {LS_F32, 4, 16, (uint64_t)1 << 40}, .body = -1},
        {.envelope = {LS_F32, 4, UINT64_MAX, 7},
         .body = -1,
         .unexpected = true},
        {.envelope = whole, .cut = 8, .body = -1},
        {.envelope = whole, .body = 15},
        {.envelope = whole, .body = 0},
    };
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++)
        run_nodes(two_by_two, 2, lie_about_messages, &cases[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_messages_name_ranks),
        cmocka_unit_test(arrivals_are_of_the_ranks_that_are_missing),
        cmocka_unit_test(envelopes_say_what_follows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
