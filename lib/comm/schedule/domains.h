/*
 * Ranks of one node, arranged by what their CPUs share: a package (socket), a
 * memory node, a last-level cache. Pure, but for one block of memory.
 *
 * Arrivals are combined in a tree. A junction counts its children, which are
 * ranks or junctions; the last child to arrive goes on to the parent, and the
 * one that finds the root complete tells all domains. No rank acts for another,
 * so a rank that computes delays nobody. (P.-C. Yew, N.-F. Tzeng, D. H. Lawrie,
 * "Distributing Hot-Spot Addressing in Large-Scale Multiprocessors", IEEE
 * Transactions on Computers C-36(4), 1987, section III: the software combining
 * tree.)
 *
 * Domains are the packages; or the memory nodes if there is one package, or the
 * caches if there is one memory node. Data that all ranks need cross into a
 * domain once: one of its ranks relays them.
 */
#ifndef LS_COMM_SCHEDULE_DOMAINS_H
#define LS_COMM_SCHEDULE_DOMAINS_H

#include <stdbool.h>

#include "comm/state/segment.h"
#include "lockstep/status.h"

enum {
    LSI_DOMAINS_FROM = 8, /* ranks; fewer read each other's cells */
    LSI_JUNCTION_MOST = 8 /* children, with a CPU for each rank */
};

typedef struct lsi_junction_shape {
    int parent;          /* or -1: the root */
    int first, children; /* in lsi_domains.child */
} lsi_junction_shape;

typedef struct lsi_domains {
    int ranks;
    int junctions; /* 0: no tree, because all share one cache, or not known */
    int domains;
    int least; /* ranks of the smallest domain with relays; 0: none has */
    lsi_junction_shape *junction; /* the root is the last one */
    int *child;                   /* a rank, or ~ the number of a junction */
    int *leaf;   /* of each rank: the junction that counts it */
    int *domain; /* of each rank */
    int *first;  /* of each domain: its first place in `member` */
    int *member; /* the ranks of each domain in turn, ascending */
} lsi_domains;

/* Room for a group of `ranks`, without a tree; freed by lsi_free. */
ls_status lsi_domains_alloc(int ranks, lsi_domains **out);

/*
 * Arranges the ranks by their seats. `most`: children of a junction, 2 or more.
 * Makes no tree if a package is not known, or one junction would do. Ranks
 * whose memory node or cache is not known are together.
 */
void lsi_domains_arrange(lsi_domains *domains, const lsi_seat *seats, int most);

/*
 * The rank from which `reader` takes the data of `owner` that all ranks need:
 * `owner`, or a rank of the reader's domain. Domains with less than 1/8 of all
 * ranks have no relays: each would keep the data of too many others.
 */
int lsi_domains_relay(const lsi_domains *domains, int reader, int owner);

/*
 * Where a relay keeps the data of `owner`, as a number from 0, if it passes on
 * the data of all owners; and how many such places a rank needs at most.
 */
int lsi_domains_relay_slot(const lsi_domains *domains, int relay, int owner);
int lsi_domains_relay_slots(const lsi_domains *domains);

/* Whether any rank relays anything. */
static inline bool lsi_domains_relays(const lsi_domains *domains)
{
    return domains != NULL && domains->domains > 1 && domains->least > 0;
}

#endif
