/*
 * The memory that the ranks of a group share, and which rank writes which part.
 *
 * One group has one control region:
 *
 *   header     the futex word on which everybody sleeps, who has failed first,
 *              how many have left for good
 *   members    one a rank: who it is, how far it has come
 *   cells      LSI_CELLS x ranks: what a rank publishes about one collective
 *   junctions  LSI_CELLS x ranks: counts of arrivals in a tree (domains.h)
 *   domains    LSI_CELLS x ranks: what that tree tells all ranks
 *   staging    one a rank: a window through which private memory is copied
 *   channels   2 x ranks x ranks: byte streams for point-to-point messages
 *
 * One rank writes each part except the header, the junctions and the domains,
 * and the others read it.
 * Untouched pages take no memory.
 *
 * Memory ordering. The code does not rely on the order in which a CPU happens
 * to do plain loads and stores, as it must work on ARM as on x86. Each
 * hand-over is a store and a load of one word. The store has release order or
 * stronger and comes after the work. The load has acquire order or stronger and
 * comes before the next owner begins:
 *
 *   what is handed over           the word                who waits for it
 *   cell, window, shared buffer   stamp of its writer     all readers
 *   all of these, in a tree       arrivals at junctions,  all ranks
 *                                 then stamp of a domain
 *   the same memory for reuse     stamp of a later phase, its writer, for all
 *                                 or `completed`          readers
 *   bytes of a channel            head                    the receiver
 *   room in a channel             tail                    the sender
 *   why a rank fails the group    failed (its number)     all
 *
 * Reuse is the case that is easily forgotten. A reader's loads come before its
 * release store. So the writer, once it has acquired that word, cannot
 * overwrite data that is still to be loaded. This holds for private memory that
 * another process copies (process_vm_readv), too: the copy is made on the
 * reader's CPU, after its acquire. Stores past the caches need a separate
 * fence, which lsi_copy_out has.
 *
 * Sleeping needs more. A publisher stores the stamp and then loads `sleepers`.
 * A sleeper increments `sleepers` and then looks at the stamps a last time.
 * These four accesses are sequentially consistent. So in their single total
 * order either the publisher sees the sleeper and wakes it, or the sleeper sees
 * the stamp and does not sleep. `completed` with `cell_waiters`, and head and
 * tail with `asleep`, work the same way.
 */
#ifndef LS_COMM_STATE_SEGMENT_H
#define LS_COMM_STATE_SEGMENT_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/partition.h"

enum {
    LSI_PAGE = 4096,
    LSI_HUGE_PAGE = 2 << 20,
    LSI_LINE = 64,
    LSI_CELLS = 8,              /* collectives published at once */
    LSI_FLAT_BYTES = 32 * 1024, /* data that travels inside a cell */
    LSI_OFFER_BYTES = 96,       /* of an offer ahead of such data */
    LSI_PAYLOAD_BYTES = LSI_OFFER_BYTES + LSI_FLAT_BYTES,
    LSI_STAGING_BYTES = 4 * 1024 * 1024, /* of one rank's window */
    LSI_MAX_RANKS = 1024,
    LSI_HOST_BYTES = 64,
    LSI_CPU_WORDS = 16, /* CPUs 0..1023 */
    LSI_SENT_WORDS = LSI_MAX_RANKS / 64
};

/* A stamp is the number of a collective and how far this rank is in it. */
enum { LSI_PHASE_BITS = 24 };

typedef struct lsi_cell {
    _Atomic uint64_t stamp;
    uint64_t what, count; /* lsi_fingerprint */
    uint64_t completed;   /* collectives that this rank has completed */
    unsigned char payload[LSI_PAYLOAD_BYTES];
    uint64_t bytes; /* used bytes of the payload */
} lsi_cell;

/* The payload of a cell when the data does not travel in it. */
typedef struct lsi_offer {
    uint64_t able;             /* lsi_path bits that this rank could serve */
    uint64_t send, recv;       /* addresses in the rank's own space */
    uint64_t send_at, recv_at; /* addresses for other ranks; 0: none */
    uint64_t scratch;          /* like send */
} lsi_offer;

/* The common part of a number of cells. */
typedef struct lsi_summary {
    uint64_t what, count;
    uint64_t completed; /* the least of all */
    uint64_t able;      /* the lsi_path bits of all offers */
    uint64_t differ;    /* whether what or count differ */
} lsi_summary;

/* Two lines, as some processors fetch them in pairs. */
enum { LSI_LINE_PAIR = 2 * LSI_LINE };

/* The last rank to arrive writes the summary of all below. */
typedef struct lsi_junction {
    alignas(LSI_LINE_PAIR) _Atomic uint64_t arrivals; /* of children, ever */
    alignas(LSI_LINE) lsi_summary below;
} lsi_junction;

/* All ranks of a domain poll it; the last rank of all to arrive writes it. */
typedef struct lsi_domain {
    alignas(LSI_LINE_PAIR) _Atomic uint64_t stamp; /* that all have reached */
    lsi_summary all;
} lsi_domain;

typedef enum lsi_presence { LSI_ABSENT, LSI_PRESENT, LSI_LEFT } lsi_presence;

typedef struct lsi_failure_record {
    int32_t status; /* ls_status */
    int32_t rank_a, rank_b;
    int32_t got_sigterm; /* rank_a gave up early, on SIGTERM */
    uint64_t sequence;
    uint64_t what_a, count_a, what_b, count_b;
    int64_t counted; /* 1 + the rank whose counts differ; or 0 */
} lsi_failure_record;

/*
 * Where a rank runs. For each level the number of the set that holds all CPUs
 * of the rank; -1: not known, the only one, or the rank may use CPUs of
 * several.
 */
enum { LSI_SEAT_LEVELS = 3 }; /* package, memory node, last cache */

typedef struct lsi_seat {
    int32_t in[LSI_SEAT_LEVELS];
} lsi_seat;

typedef struct lsi_member {
    alignas(LSI_LINE) _Atomic uint64_t completed;
    _Atomic uint32_t asleep;
    _Atomic uint64_t waiting_for; /* 0, or 1 + peer << 1 + (1 if receiving) */
    _Atomic uint32_t awaits;      /* in long waits: 1 + a rank, or 0 */
    _Atomic int32_t ran_on;       /* 1 + the CPU where it last waited, or 0 */
    alignas(LSI_LINE) _Atomic uint32_t presence;
    /*
     * Of a rank of another node that has left: the last collective that it has
     * completed, whose arrivals may still be in flight; and a bit for each rank
     * of this node to which it has sent users' messages. Stored before
     * presence.
     */
    _Atomic uint64_t last;
    _Atomic uint64_t sent_to[LSI_SENT_WORDS];
    int32_t pid;
    uint64_t cookie_at, cookie; /* a test word for other ranks */
    int32_t node_rank;          /* rank in the job */
    char host[LSI_HOST_BYTES];
    uint64_t cpus[LSI_CPU_WORDS];
    uint64_t quota_of;           /* base/cpu_claim.h */
    lsi_seat seat;               /* in groups of LSI_DOMAINS_FROM or more */
    lsi_failure_record failure;  /* if `failed` names this rank */
    lsi_failure_record abortion; /* the same, with LSI_ABORTED */
} lsi_member;

/*
 * A flag in `failed`: the reason is the one that the rank wrote when it joined.
 * An abort may come from a signal handler or another thread while the rank's
 * main thread writes another reason.
 */
#define LSI_ABORTED ((uint32_t)1 << 31)

/* In each range of the job's memory: number of ranks that are done with it. */
typedef struct lsi_hold {
    alignas(LSI_LINE) _Atomic uint32_t gone;
} lsi_hold;

/* An unused range (comm/node/space.h); the rank that holds it writes it. */
typedef struct lsi_vacancy {
    _Atomic uint32_t state;
    _Atomic uint64_t bytes;
    uint64_t offset;
} lsi_vacancy;

enum { LSI_VACANCIES = 256 };

/* The memory that all groups of a job share, ahead of their regions. */
typedef struct lsi_job {
    _Atomic uint64_t end;    /* end of all taken ranges */
    _Atomic uint64_t groups; /* number of groups so far */
    lsi_vacancy vacancies[LSI_VACANCIES];
} lsi_job;

/* Where the first group's control region begins. */
#define LSI_FIRST_REGION                                                       \
    ((sizeof(lsi_job) + LSI_PAGE - 1) / LSI_PAGE * LSI_PAGE)

typedef struct lsi_header {
    alignas(LSI_LINE) _Atomic uint32_t bell; /* the futex word */
    _Atomic uint64_t rung_ns;                /* time of the last ring */
    alignas(LSI_LINE) _Atomic uint32_t sleepers;
    _Atomic uint32_t cell_waiters;
    /* 1 + a rank, or that | LSI_ABORTED; 0: nobody */
    alignas(LSI_LINE) _Atomic uint32_t failed;
    _Atomic uint64_t number; /* from 1; no other group of the job has it */
    lsi_hold hold;
} lsi_header;

typedef struct lsi_channel {
    alignas(LSI_LINE) _Atomic uint64_t head; /* bytes written so far */
    alignas(LSI_LINE) _Atomic uint64_t tail; /* bytes read so far */
    alignas(LSI_LINE) unsigned char data[];
} lsi_channel;

/* User messages and those of collectives never mix. */
enum { LSI_CHANNEL_USER, LSI_CHANNEL_COLLECTIVE, LSI_CHANNEL_CLASSES };

/* Offsets of the parts, in bytes from the start of the region. */
typedef struct lsi_region_layout {
    size_t ranks;
    size_t members, cells, junctions, domains, staging, channels;
    size_t cell_stride, channel_bytes, channel_stride;
    size_t bytes; /* of all, a multiple of the page size */
} lsi_region_layout;

lsi_region_layout lsi_region_layout_of(int ranks);

enum { LSI_REGION_OWN = LSI_CELLS + 1 + LSI_CHANNEL_CLASSES };

/*
 * The whole pages, in bytes of the region, that mostly one rank uses: its
 * cells, its staging window, and the channels that it receives from. No page
 * belongs to two ranks.
 */
void lsi_region_own(const lsi_region_layout *at, int rank,
                    lsi_range out[LSI_REGION_OWN]);

#endif
