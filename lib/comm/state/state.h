/*
 * One rank's view of a group, and of its operations in flight.
 *
 * Collectives form a queue. Each gets the next sequence number, which is the
 * same on all ranks because they start collectives in the same order. A rank
 * publishes its arrival in a collective as early as it can (as soon as a cell
 * is free), but works on one at a time, in order.
 */
#ifndef LS_COMM_STATE_STATE_H
#define LS_COMM_STATE_STATE_H

#include <stdbool.h>

#include "base/suspending_clock.h"
#include "comm/state/call.h"
#include "comm/state/copying.h"
#include "comm/state/cut.h"
#include "comm/state/message.h"
#include "comm/state/segment.h"
#include "comm/state/wire.h"
#include "lockstep/group.h"

typedef struct lsi_node_memory lsi_node_memory;
typedef struct lsi_collective lsi_collective;
typedef struct lsi_algorithm lsi_algorithm;
typedef struct lsi_recorder lsi_recorder;
typedef struct lsi_internode lsi_internode;
typedef struct lsi_domains lsi_domains;

/* ---- paths: what ranks can offer each other ------------------------------ */

enum {
    LSI_PATH_SEND_SEEN = 1, /* others can load what this rank sends */
    LSI_PATH_RECV_SEEN = 2, /* others can store where this rank receives */
    LSI_PATH_COPY = 4,      /* others can copy from its private memory */
    LSI_PATH_NODE = 8,      /* all share the windows of one node */
    LSI_PATH_NODES = 16,    /* the ranks are on several nodes */
    LSI_PATH_AHEAD = 32 /* << i: has begun candidate i ahead of the others */
};

/* ---- collectives --------------------------------------------------------- */

typedef enum lsi_collective_state {
    LSI_COLLECTIVE_IDLE,
    LSI_COLLECTIVE_QUEUED,  /* no cell yet */
    LSI_COLLECTIVE_ENTERED, /* arrival published */
    LSI_COLLECTIVE_RUNNING  /* all have arrived and agree */
} lsi_collective_state;

enum { LSI_CANDIDATES = 4 };

/*
 * The blocks of a collective in which ranks have different counts: the
 * beginning of each block in elements, and after the last one the end of that.
 */
typedef struct lsi_block_table {
    size_t *sends, *receives; /* NULL: of one block only */
    size_t *from; /* all_to_allv: own block's start in each buffer */
    size_t most;  /* elements of the largest block of any rank */
    size_t room;  /* number of ranks with room here */
} lsi_block_table;

/* Bytes of the reason in the cell of a rank that cannot take part. */
enum { LSI_REASON_BYTES = 512 };

struct lsi_collective {
    lsi_collective *next;
    ls_group *group;
    lsi_call call;
    lsi_fingerprint print; /* of the call */
    const void *send;
    void *recv;
    size_t item;  /* bytes of an element */
    size_t block; /* bytes of count elements */
    size_t sent;  /* bytes of the send buffer that any rank takes */

    /*
     * reduce_shards, gather_shards: the owner of each element. The sums of a
     * window go to the start of the receive buffer.
     */
    lsi_cut cut;
    lsi_block_table counted;

    const lsi_algorithm *candidates[LSI_CANDIDATES]; /* best first, then NULL */
    const lsi_algorithm *algorithm; /* the one that all ranks agreed on */
    bool offers; /* the cells hold offers, and data only behind them */
    bool ahead;  /* every rank has begun the algorithm before it arrived */
    void *scratch;
    size_t scratch_bytes;

    lsi_collective_state state;
    bool done;
    ls_status status; /* once done */
    char *failure;    /* buffer for the error text, or NULL */
    size_t failure_bytes;
    int refuser;        /* the first rank that cannot take part, or -1 */
    const char *reason; /* of this rank, if call.refusal is set */
    uint64_t sequence;
    uint32_t phase; /* last published */
    int cursor;     /* ranks known to have reached the phase */
    int stamped;    /* the same at the last look in a long wait, or -1 */
    bool alike;     /* all calls are, as a tree tells; `able`: of all offers */
    uint64_t able;
    size_t step; /* the algorithm's own */
    /*
     * Ticks, for the timeline: of its submission, 0 if it is not in the
     * timeline; and of the arrival of the last rank, 0 before.
     */
    uint64_t began, arrived;
    lsi_message out, in;
};

/* ---- shared buffers ------------------------------------------------------ */

typedef struct lsi_shared {
    struct lsi_shared *next;
    unsigned char *base; /* rank 0's part */
    size_t stride, bytes, mapped;
    lsi_hold *hold;  /* after the parts */
    uint64_t offset; /* in the job's memory */
    uint64_t id;     /* the same on all ranks */
} lsi_shared;

/* ---- waiting ------------------------------------------------------------- */

/* The course of a wait; see wait.c. */
typedef struct lsi_patience {
    int looks;           /* looks without sleeping so far */
    int spins;           /* the first of them, without yielding */
    int yields;          /* the next of them, with yielding */
    uint64_t began_ns;   /* time of the group's clock of the first sleep; 0
                            before it */
    uint64_t checked_ns; /* the same, when peers were last looked at */
    uint64_t since_ns;   /* the same as began_ns, by the clock */
    unsigned shown;      /* where lsi_live_waits shows it; 0: nowhere */
    bool announced;      /* other nodes know the awaited rank */
    bool coprogress;     /* other groups may need progress meanwhile */
} lsi_patience;

/* A wait of a program that tests requests instead of waiting for them. */
typedef struct lsi_polling {
    lsi_patience patience;
    uint64_t activity; /* group's activity at the first failed test */
    uint64_t ticks;    /* time of the last look at the clock */
} lsi_polling;

/* The state that a rank has seen when it announces its sleep; see sleep.c. */
typedef struct lsi_sleeper {
    uint32_t bell;
    uint64_t activity;
    bool for_cells;
} lsi_sleeper;

/* ---- selection ----------------------------------------------------------- */

typedef struct lsi_range_row {
    lsi_operation operation;
    size_t begin, end; /* bytes; end exclusive */
    const lsi_algorithm *candidates[LSI_CANDIDATES];
} lsi_range_row;

enum { LSI_SELECT_ROWS = 192 };

enum {
    LSI_LEAST_WINDOW = 4 * 1024,
    LSI_MOST_WINDOW = 256 * 1024,
    LSI_LEAST_SPINS = 10,
    LSI_MOST_SPINS = 5000
};

typedef struct lsi_select_table {
    bool deterministic; /* folds over all ranks, on any nodes */
    bool by_place;      /* portable: folds by nodes, and in no other order */
    lsi_copying copying;
    bool spans; /* for a group on several nodes */
    /* Measured on this machine, or 0: */
    int window; /* bytes of a chunk in the windows */
    int spins;  /* looks at a word that take as long as to sleep and wake up */
    int rows;
    lsi_range_row row[LSI_SELECT_ROWS];
    int first[LSI_OP_COUNT]; /* 1 + an operation's first row; or 0 */
    /* For operations without a row. */
    const lsi_algorithm *fixed[LSI_OP_COUNT][LSI_CANDIDATES];
} lsi_select_table;

/* The candidates for a size: LSI_CANDIDATES entries, NULL after the last. */
static inline const lsi_algorithm *const *
lsi_select_find(const lsi_select_table *table, lsi_operation operation,
                size_t bytes)
{
    const int first = table->first[operation];
    for (int i = first - 1; first != 0 && i < table->rows; i++) {
        const lsi_range_row *row = &table->row[i];
        if (row->operation == operation && bytes >= row->begin &&
            (bytes < row->end || row->end == SIZE_MAX))
            return row->candidates;
    }
    return table->fixed[operation];
}

/* ---- channels ------------------------------------------------------------ */

/*
 * A way to reach a rank. Three exist: to a thread of this process, to a process
 * that maps the same memory (node/channel_memory.c), and by the wire to any
 * other process (net/internode_channel.c). None may block.
 */
typedef struct lsi_channel_kind {
    const char *name;
    /*
     * Whether the rank publishes in memory that this one maps. Messages bring
     * the arrivals of all other ranks.
     */
    bool shares_memory;
    /* Moves the first message of a stream on; LS_OK once it is done. */
    ls_status (*move)(ls_group *group, lsi_stream *stream,
                      lsi_message *message);
    /* The envelope of the next message of a stream, if it has come. */
    ls_status (*peek)(ls_group *group, lsi_stream *stream,
                      lsi_envelope *envelope);
    /*
     * Copies from an address in the rank's private memory: 0, or -1 with errno
     * set. NULL if the channel cannot do so.
     */
    int (*read)(const ls_group *group, int rank, void *to, uint64_t from,
                size_t bytes);
    /* False if the rank is known to have died. */
    bool (*alive)(const ls_group *group, int rank);
} lsi_channel_kind;

extern const lsi_channel_kind lsi_channel_process; /* a thread of this one */
extern const lsi_channel_kind lsi_channel_memory;  /* another, on this node */
extern const lsi_channel_kind lsi_channel_wire;    /* on another node */

typedef struct lsi_peer {
    const lsi_channel_kind *channel;
    int local_rank; /* among the ranks of this node; -1: on another one */
} lsi_peer;

/* The additional work of a group that spans nodes; net/wire_hooks.c. */
typedef struct lsi_internode_hooks {
    /* Passes on the arrivals that ranks publish; as lsi_progress. */
    ls_status (*progress)(ls_group *group);
    /* The awaited rank if none of this node is late; or -1. */
    int (*awaited)(const ls_group *group);
    /* Tells the other nodes which rank this one awaits, by its lsi_member. */
    void (*announce_awaits)(ls_group *group);
    /* Tells the other nodes of a failure that began here. */
    void (*announce_failure)(ls_group *group,
                             const lsi_failure_record *failure);
    /* After a failure: sends pending messages, and receives no more. */
    void (*abandon)(ls_group *group);
} lsi_internode_hooks;

/* The channel table. Read it by channels.h. */
typedef struct lsi_channels {
    lsi_peer *peer;  /* by rank */
    ls_group *local; /* the ranks of this node: the group itself if all are */
    const lsi_internode_hooks *hooks; /* NULL: all are on this node */
} lsi_channels;

/* Tells a group from all others; the same on its ranks. */
typedef struct lsi_group_identity {
    uint64_t job, number;
} lsi_group_identity;

/* ---- the parts of a group ------------------------------------------------ */

/* The memory of this node that the ranks on it map; lib/comm/node. */
typedef struct lsi_group_memory {
    lsi_node_memory *node;
    lsi_job *job;
    int sharers; /* number of ranks of this node, which map the region */
    uint64_t region_offset;
    unsigned char *region;
    lsi_region_layout layout;
    lsi_header *header;
    lsi_shared *shared;
    uint64_t shared_id; /* of the last allocation */
    bool can_copy;      /* from every other rank's private memory */
    bool admits;        /* the others may copy from this one's */
    bool few_cpus;      /* more ranks than CPUs; the same on all ranks */
} lsi_group_memory;

/* Collectives in flight; engine.c. */
typedef struct lsi_queue {
    uint64_t sequence;  /* of the last collective that was submitted */
    uint64_t completed; /* of the last that is done here */
    uint64_t staged;    /* of the last that used the staging windows */
    uint64_t *seen;     /* completed, as last read from each rank */
    uint64_t seen_by_all;
    size_t held[LSI_CELLS]; /* bytes of the payloads of this rank's cells */
    bool waits_completed;   /* whether anything waits for others to complete */
    lsi_collective *first, *last;
    lsi_collective *entering; /* the first without a cell */
} lsi_queue;

/* Messages in flight; message.c, matching.c. */
typedef struct lsi_streams {
    lsi_stream *of[LSI_CHANNEL_CLASSES][2]; /* [class][receives][peer] */
    lsi_stream *active;
    lsi_message_list any;  /* receives from any rank */
    lsi_message_list kept; /* messages without a receive so far */
    bool fresh;            /* new receives since the last look at kept */
    uint64_t credit_bytes; /* between nodes; 0: LSI_CREDIT_BYTES */
    uint64_t turns;
    int served; /* the rank from which one of `any` has come last */
    lsi_probe *probe;
} lsi_streams;

/* This rank's experience with waiting; wait.c, sleep.c. */
typedef struct lsi_waiting {
    uint64_t timeout_ns; /* 0: none */
    bool crowded;        /* more ranks than CPUs */
    bool bound;          /* to CPUs that no other rank may use */
    int spins;           /* without a number in the selection table */
    int trust;           /* in spinning: 0 if it does not pay */
    int waits, retry;    /* since then; until it is tried again */
    int late;            /* waits still to come in which it hardly looks */
    int backoff;         /* as many, when it runs late again */
    lsi_suspending_clock clock; /* of the waiting thread */
    lsi_polling polling;
    lsi_sleeper sleeper;
} lsi_waiting;

/* The thread that moves the group; coprogress.c. The lock guards the links. */
typedef struct lsi_group_coprogress {
    _Atomic uint64_t mover; /* that may move it from others; or 0 */
    ls_group *next_member, *next_borrowed;
    unsigned borrowed; /* number of borrows by the holder */
    uint64_t holder;   /* id of the borrowing thread */
} lsi_group_coprogress;

/*
 * Work that a group does for others whenever it moves: lsi_progress calls
 * `serve` last, if it is not NULL. It may queue messages, and must not wait.
 */
typedef struct lsi_service {
    ls_status (*serve)(void *context);
    void *context;
} lsi_service;

/* The records of recent operations; recorder.c, dump.c. */
typedef struct lsi_recording {
    lsi_recorder *recorder;
    const char *folder; /* NULL: none is written */
    ls_group *next;     /* next group of this process to be written */
} lsi_recording;

/* A call to be made when an operation is done; on_done.c. */
typedef struct lsi_on_done {
    struct lsi_on_done *next;
    const bool *done;
    void (*call)(struct lsi_on_done *completion, ls_status status);
} lsi_on_done;

/* A block of scratch memory; collective.c. */
typedef struct lsi_spare lsi_spare;

/* ---- the group ----------------------------------------------------------- */

struct ls_group {
    int rank, size;
    lsi_group_identity identity;
    uint64_t activity; /* grows whenever anything moves */
    bool failed;       /* and this rank has reported it */
    unsigned forks;    /* forks of the process that opened it; forks.h */
    lsi_group_memory memory;
    lsi_queue queue;
    lsi_streams streams;
    int cpus_share; /* CPUs per rank if other nodes' ranks share them; or 0 */
    lsi_waiting waiting;
    lsi_group_coprogress coprogress;
    lsi_on_done *completions;
    lsi_service service;
    lsi_recording recording;
    lsi_channels channels;
    lsi_domains *domains; /* a tree for arrivals; NULL: none */
    lsi_internode *net;   /* the data of the channels' hooks, or NULL */
    ls_group *dup_of;     /* group whose shared buffers it sees, or NULL */
    lsi_select_table *select;
    ls_group_counters *counters; /* its own, or those of dup_of */
    ls_group_counters own_counters;
    lsi_collective call; /* for the calls that return when done */
    lsi_spare *spares;   /* scratch memory that no collective uses */
};

static inline lsi_member *lsi_member_of(const ls_group *group, int rank)
{
    return (lsi_member *)(void *)(group->memory.region +
                                  group->memory.layout.members) +
           rank;
}

/* Entry `index` of a collective in a part that has LSI_CELLS x ranks of them.
 */
static inline void *lsi_entry_in(const ls_group *group, size_t part,
                                 size_t stride, uint64_t sequence, int index)
{
    const size_t at =
        (sequence % LSI_CELLS) * group->memory.layout.ranks + (size_t)index;
    return group->memory.region + part + at * stride;
}

static inline lsi_cell *lsi_cell_of(const ls_group *group, uint64_t sequence,
                                    int rank)
{
    const lsi_region_layout *at = &group->memory.layout;
    return lsi_entry_in(group, at->cells, at->cell_stride, sequence, rank);
}

static inline lsi_junction *lsi_junction_of(const ls_group *group,
                                            uint64_t sequence, int index)
{
    return lsi_entry_in(group, group->memory.layout.junctions,
                        sizeof(lsi_junction), sequence, index);
}

static inline lsi_domain *lsi_domain_of(const ls_group *group,
                                        uint64_t sequence, int index)
{
    return lsi_entry_in(group, group->memory.layout.domains, sizeof(lsi_domain),
                        sequence, index);
}

static inline lsi_offer *lsi_offer_of(const lsi_collective *op, int rank)
{
    return (lsi_offer *)(void *)lsi_cell_of(op->group, op->sequence, rank)
        ->payload;
}

/*
 * Bytes of the table of block starts, which follows the offer: of the sent
 * blocks or, in an all-gather, of the received ones. Its last word is
 * lsi_block_table.most.
 */
static inline size_t lsi_cell_table_bytes(const lsi_collective *op)
{
    const size_t words = (size_t)op->group->size + 2;
    if (!lsi_operation_has_counts(op->call.operation))
        return 0;
    return (words * sizeof(uint64_t) + LSI_LINE - 1) / LSI_LINE * LSI_LINE;
}

static inline uint64_t *lsi_cell_table(const lsi_collective *op, int rank)
{
    lsi_cell *cell = lsi_cell_of(op->group, op->sequence, rank);
    return (uint64_t *)(void *)(cell->payload + LSI_OFFER_BYTES);
}

/* The data that a rank has packed into its cell. */
static inline unsigned char *lsi_cell_data(const lsi_collective *op, int rank)
{
    return lsi_cell_of(op->group, op->sequence, rank)->payload +
           (op->offers ? LSI_OFFER_BYTES + lsi_cell_table_bytes(op) : 0);
}

/* The part of a rank's staging window that belongs to even or odd steps. */
static inline unsigned char *lsi_window(const ls_group *group, int rank)
{
    return group->memory.region + group->memory.layout.staging +
           (size_t)rank * LSI_STAGING_BYTES;
}

/*
 * The first stream in which a message moves, or waits for its peer. Streams
 * that are only looked at for messages from any rank do not count.
 */
static inline const lsi_stream *lsi_stream_awaited(const ls_group *group)
{
    const lsi_stream *stream = group->streams.active;
    while (stream != NULL && stream->queue.first == NULL &&
           stream->waiting.first == NULL)
        stream = stream->next_active;
    return stream;
}

/* The moving or awaited message, if no collective's message is. */
static inline const lsi_message *lsi_message_awaited(const ls_group *group)
{
    const lsi_stream *stream = lsi_stream_awaited(group);
    if (stream == NULL)
        return group->streams.any.first;
    return stream->queue.first != NULL ? stream->queue.first
                                       : stream->waiting.first;
}

static inline bool lsi_has_failed(const ls_group *group)
{
    return atomic_load_explicit(&group->memory.header->failed,
                                memory_order_acquire) != 0;
}

/* Why the group has failed; NULL if it has not. The record stays valid. */
static inline const lsi_failure_record *lsi_failure_of(const ls_group *group)
{
    /* Acquires the reason, which the rank wrote before its number. */
    const uint32_t first = atomic_load_explicit(&group->memory.header->failed,
                                                memory_order_acquire);
    if (first == 0)
        return NULL;
    const lsi_member *const member =
        lsi_member_of(group, (int)(first & ~LSI_ABORTED) - 1);
    return (first & LSI_ABORTED) != 0 ? &member->abortion : &member->failure;
}

static inline uint64_t lsi_stamp(uint64_t sequence, uint32_t phase)
{
    return sequence << LSI_PHASE_BITS | phase;
}

#endif
