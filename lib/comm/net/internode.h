/*
 * Groups that span nodes: their state in addition to the memory of their node.
 *
 * On each node such a group has a control region like any other, with room for
 * all ranks. Messages bring the arrivals that ranks of other nodes publish
 * (arrivals.c). So agreeing, refusing and little data work as on one node. All
 * other data that leaves the node is a message, too. The ranks of the node are
 * a separate group, `local`, which does the work inside the node.
 */
#ifndef LS_COMM_NET_INTERNODE_H
#define LS_COMM_NET_INTERNODE_H

#include "comm/core/message.h"
#include "comm/state/state.h"
#include "comm/state/wire.h"

/* ---- messages between nodes ---------------------------------------------- */

/*
 * The kinds of messages. Each rank chooses a number for a group that no other
 * of its groups has. The tags that the rank receives by begin at this number
 * times LSI_TAGS. So the ranks need no agreement, and threads may make groups
 * at once.
 */
enum {
    LSI_TAG_ARRIVALS,
    LSI_TAG_CONTROL,
    LSI_TAG_ENVELOPE, /* and one for each class of channels */
    LSI_TAG_DATA = LSI_TAG_ENVELOPE + LSI_CHANNEL_CLASSES,
    LSI_TAG_CREDIT = LSI_TAG_DATA + LSI_CHANNEL_CLASSES,
    LSI_TAG_GRANT = LSI_TAG_CREDIT + LSI_CHANNEL_CLASSES,
    LSI_TAG_STEP, /* and the steps */
    LSI_TAGS = 64 /* of one group */
};

/*
 * A sender is ahead of its receiver by less than two of these + a fragment. A
 * group may have larger ones (lsi_streams).
 */
enum { LSI_CREDIT_BYTES = 512 * 1024 };

/*
 * Posts a message to, or from, a rank of the group. A receive may name
 * LSI_WIRE_ANYBODY: the first sender with that tag.
 */
ls_status lsi_internode_send(ls_group *group, lsi_wire_request *request,
                             const void *data, size_t bytes, int rank, int tag);
ls_status lsi_internode_receive(ls_group *group, lsi_wire_request *request,
                                void *data, size_t bytes, int rank, int tag);

/* LS_OK if it has arrived (or left), LS_IN_PROGRESS if not yet. */
ls_status lsi_internode_test(ls_group *group, lsi_wire_request *request);

/* Fails the group: a rank has sent data that no rank can have sent. */
ls_status lsi_internode_garbled(ls_group *group, int rank);

/* The number of fragments into which `bytes` bytes are cut. */
size_t lsi_bulk_fragments(size_t bytes);

/*
 * Moves a bulk message on: LS_OK once all of it has arrived (or left). Two with
 * one tag and peer do not get mixed up if the first has room for all its
 * fragments.
 */
ls_status lsi_bulk_move(ls_group *group, lsi_bulk *bulk);

/* ---- the processes of the wire ------------------------------------------- */

/* Loads the module of a wire, as lsi_module_load. */
ls_status lsi_wire_load(const char *name, const lsi_wire **out);

/*
 * Serializes the wire: several threads may use groups, but only one at a time
 * the wire. Callers of the functions below, and of those above, do not hold the
 * lock.
 */
void lsi_wire_lock(void);
void lsi_wire_unlock(void);

/* Numbers on the wire stay those of their processes from hold to let_go. */
void lsi_peers_hold(const lsi_wire *wire, const int *peer, int size);
void lsi_peers_let_go(const lsi_wire *wire, const int *peer, int size);

/* ---- one rank's view ----------------------------------------------------- */

/* The exchange of one collective's arrivals between nodes; see arrivals.c. */
typedef struct lsi_arrivals {
    uint64_t sequence; /* the next to be passed on */
    int round;         /* -1: waits for the ranks of the node */
    unsigned char *bundle;
    size_t used, room;
    lsi_wire_request out, in;
    bool in_taken; /* this round's records are published */
} lsi_arrivals;

/* A control message; see control.h. */
typedef struct lsi_control {
    int32_t rank; /* of the sender */
    /* A later message of one of these kinds replaces an unsent earlier one. */
    enum { LSI_CONTROL_AWAITS, LSI_CONTROL_LEAVES, LSI_CONTROL_FAILED } about;
    uint32_t awaits; /* as in its lsi_member */
    /* Of a rank that leaves: */
    uint64_t last, sent_to[LSI_SENT_WORDS]; /* the same */
    uint64_t end; /* the position of its users' messages to the receiver */
    lsi_failure_record failure; /* of the group */
} lsi_control;

/* The message that is being sent to a rank, and the next one. */
typedef struct lsi_control_slot {
    lsi_wire_request request;
    lsi_control current, next;
    bool has_next;
} lsi_control_slot;

typedef struct lsi_internode {
    const lsi_wire *wire;
    ls_group *local; /* the ranks of this node, in their order in the group */
    uint64_t job;    /* a number that no other job has */
    int own;         /* this rank */
    int nodes, node; /* how many, and which is this */
    int rails;       /* schedule/nodes.h */
    int *world;      /* of each rank: its number in the job */
    int *peer;       /* of each rank: the number of its process on the wire */
    int *id;         /* of each rank: its number for the group */
    int *node_of, *index_of;      /* of each rank */
    int *ranks_on, *first, *rank; /* rank[first[node] + index] */
    lsi_arrivals arrivals;
    lsi_control received;
    lsi_wire_request receive_control;
    lsi_control_slot *control; /* to each rank */
    bool control_waits;        /* a slot may have a next */
    lsi_wire_request *pending; /* all unfinished requests */
} lsi_internode;

/*
 * For control messages, which a failed group sends, too. A failure of the wire
 * does not fail the group here. The first returns whether the message is being
 * sent; the second whether it is over, also because the wire has dropped it.
 */
bool lsi_internode_try_send(lsi_internode *net, lsi_wire_request *request,
                            const void *data, size_t bytes, int rank, int tag);
bool lsi_internode_is_over(const lsi_internode *net, lsi_wire_request *request);

/* The hooks of groups that span nodes. */
extern const lsi_internode_hooks lsi_wire_hooks;

/* Late messages for the group have no receiver any more. */
void lsi_wire_retire(const lsi_internode *net);

/* Gives up all unfinished requests. */
void lsi_internode_cancel_all(lsi_internode *net);

/* ---- arrivals in collectives, passed on between nodes -------------------- */

ls_status lsi_arrivals_open(lsi_arrivals *arrivals, size_t ranks);
void lsi_arrivals_close(lsi_arrivals *arrivals);

/* Passes on complete arrivals; only on a node's first rank. */
ls_status lsi_arrivals_progress(ls_group *group);

/* ---- for algorithms ------------------------------------------------------ */

/*
 * Moves an algorithm on that also works in the node's group. A failure of that
 * group fails the whole group.
 */
ls_status lsi_internode_advance(lsi_collective *op,
                                ls_status (*move_on)(lsi_collective *op));

#endif
