#include "nodes.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "comm/api/group.h"
#include "comm/api/internode_open.h"
#include "comm/net/internode.h"
#include "comm/node/space.h"
#include "comm/state/channels.h"

enum { MOST = 24 };

/* The handle of what is sent; it is done at the second look. */
enum { SENT = 1 };

/* ---- the wire ------------------------------------------------------------ */

/* A message that has been sent, or the wish to receive one. */
typedef struct post {
    struct post *next;
    int from, to, tag;
    unsigned char *data; /* of a message: a copy */
    size_t bytes;
    bool receives, done;
} post;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static post *first, **last = &first;
static int held_to = -1, held_about; /* under the lock */
static atomic_bool cut;
static _Atomic uint32_t told[MOST]; /* `awaits` of the last that tells it */
static _Thread_local int self;
static _Thread_local size_t sent;

static bool fits(const post *wish, const post *message)
{
    const bool is_held =
        message->to == held_to && message->tag % LSI_TAGS == held_about;
    return !message->receives && !is_held && message->to == wish->to &&
           message->tag == wish->tag &&
           (wish->from == LSI_WIRE_ANYBODY || message->from == wish->from);
}

static void take_out(post *gone)
{
    post **link = &first;
    while (*link != gone)
        link = &(*link)->next;
    *link = gone->next;
    if (last == &gone->next)
        last = link;
}

/* Wishes and messages meet in the order in which they were posted. */
static void meet(void)
{
    for (post *wish = first, *next; wish != NULL; wish = next) {
        next = wish->next;
        post *message = wish->receives ? first : NULL;
        while (message != NULL && !fits(wish, message))
            message = message->next;
        if (message == NULL)
            continue;
        CHECK(message->bytes <= wish->bytes);
        if (message->bytes != 0)
            memcpy(wish->data, message->data, message->bytes);
        wish->bytes = message->bytes;
        wish->done = true;
        take_out(message);
        next = wish->next;
        take_out(wish);
        free(message->data);
        free(message);
    }
}

static post *add(post like)
{
    post *made = malloc(sizeof(*made));
    CHECK(made != NULL);
    *made = like;
    pthread_mutex_lock(&lock);
    *last = made;
    last = &made->next;
    if (!atomic_load(&cut))
        meet();
    pthread_mutex_unlock(&lock);
    return made;
}

static void note_control(const lsi_control *message)
{
    if (message->about == LSI_CONTROL_AWAITS)
        atomic_store(&told[self], message->awaits);
}

static int wire_send(const void *data, size_t bytes, int peer, int from,
                     int tag, lsi_ticket *ticket)
{
    unsigned char *copy = malloc(bytes + 1);
    CHECK(copy != NULL && from == self);
    CHECK(bytes <= LSI_WIRE_PIECE || tag % LSI_TAGS == LSI_TAG_ARRIVALS);
    if (bytes != 0)
        memcpy(copy, data, bytes);
    if (tag % LSI_TAGS >= LSI_TAG_DATA)
        sent += bytes;
    if (tag % LSI_TAGS == LSI_TAG_CONTROL)
        note_control(data);
    add((post){NULL, self, peer, tag, copy, bytes, false, false});
    ticket->handle = SENT;
    return 0;
}

static int wire_receive(void *data, size_t bytes, int peer, int from, int tag,
                        lsi_ticket *ticket)
{
    CHECK(peer == LSI_WIRE_ANYBODY || from == peer);
    post *wish = add((post){NULL, peer, self, tag, data, bytes, true, false});
    ticket->handle = (uint64_t)(uintptr_t)wish;
    return 0;
}

static int wire_test(lsi_ticket *ticket, int64_t *done)
{
    post *wish = (post *)(uintptr_t)ticket->handle;
    *done = ticket->handle == SENT ? -1 : 0;
    if (ticket->handle <= SENT) {
        ticket->handle = 0;
        return 0;
    }
    pthread_mutex_lock(&lock);
    *done = wish->done ? (int64_t)wish->bytes : -1;
    pthread_mutex_unlock(&lock);
    if (*done >= 0)
        free(wish);
    return 0;
}

static void wire_cancel(lsi_ticket *ticket)
{
    post *wish = (post *)(uintptr_t)ticket->handle;
    pthread_mutex_lock(&lock);
    if (!wish->done)
        take_out(wish);
    pthread_mutex_unlock(&lock);
    free(wish);
}

static const lsi_wire wire = {.version = LSI_WIRE_VERSION,
                              .library = "threads",
                              .highest_tag = 1 << 20,
                              .send = wire_send,
                              .receive = wire_receive,
                              .test = wire_test,
                              .cancel = wire_cancel};

static void mend(void)
{
    while (first != NULL) {
        post *gone = first;
        take_out(gone);
        free(gone->data);
        free(gone);
    }
    atomic_store(&cut, false);
    held_to = -1;
}

held wire_holds(int from, int to)
{
    held found = {0, 0};
    pthread_mutex_lock(&lock);
    for (const post *p = first; p != NULL; p = p->next) {
        if (p->receives || p->from != from || p->to != to)
            continue;
        found.messages++;
        found.bytes += p->bytes;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

size_t sent_by_wire(void)
{
    return sent;
}

bool has_told_whom(int rank)
{
    return atomic_load(&told[rank]) != 0;
}

void hold_back(int to, int about)
{
    pthread_mutex_lock(&lock);
    held_to = to;
    held_about = about;
    meet();
    pthread_mutex_unlock(&lock);
}

void cut_wire(void)
{
    atomic_store(&cut, true);
}

/* ---- ranks --------------------------------------------------------------- */

typedef struct player {
    pthread_t thread;
    lsi_internode_plan plan;
    rank_fn *fn;
    void *argument;
} player;

static void *play(void *argument)
{
    const player *p = argument;
    ls_group *group = NULL;
    self = p->plan.rank;
    CHECK_OK(lsi_internode_open(&p->plan, &group));
    CHECK_OK(lsi_group_settle(group));
    p->fn(group, p->argument);
    ls_group_close(&group);
    return NULL;
}

void run_nodes(const int *ranks, int nodes, rank_fn *fn, void *argument)
{
    player players[MOST];
    int world[MOST], id[MOST], place[MOST], size = 0;
    for (int k = 0; k < nodes; k++)
        size += ranks[k];
    CHECK(size <= MOST);
    for (int r = 0; r < size; r++)
        atomic_store(&told[r], 0);
    for (int k = 0, rank = 0; k < nodes; k++) {
        ls_group *local[MOST];
        CHECK_OK(ls_group_open_threads(local, ranks[k]));
        const uint64_t offset =
            lsi_space_allocate(local[0], lsi_region_layout_of(size).bytes);
        for (int i = 0; i < ranks[k]; i++, rank++) {
            world[rank] = rank;
            id[rank] = lsi_internode_new_id();
            place[rank] = k;
            players[rank] = (player){.plan = {.wire = &wire,
                                              .rank = rank,
                                              .size = size,
                                              .world = world,
                                              .peer = world,
                                              .id = id,
                                              .place = place,
                                              .local = local[i],
                                              .offset = offset},
                                     .fn = fn,
                                     .argument = argument};
        }
    }
    for (int r = 0; r < size; r++)
        CHECK(pthread_create(&players[r].thread, NULL, play, &players[r]) == 0);
    for (int r = 0; r < size; r++)
        pthread_join(players[r].thread, NULL);
    mend();
}

const char *fallback_of(const ls_group *group, lsi_operation operation)
{
    if (!lsi_spans_nodes(group))
        return "staged";
    switch (operation) {
    case LSI_OP_ALL_REDUCE:
        return "halving";
    case LSI_OP_REDUCE:
    case LSI_OP_REDUCE_SCATTER:
    case LSI_OP_REDUCE_SCATTERV:
    case LSI_OP_REDUCE_SHARDS:
        return "butterfly";
    case LSI_OP_BROADCAST:
        return "tree";
    default:
        return "pairs";
    }
}
