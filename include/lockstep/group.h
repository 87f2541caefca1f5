/*
 * Process groups: their members, and how members exchange data.
 *
 * A group is a set of ranks 0..size-1. Most functions here are collective:
 * every rank of the group calls them in the same order with arguments that
 * agree. Each call carries a fingerprint (operation, type, count, root,
 * reduction); if ranks disagree, all of them get LS_ERR_MISMATCH. If a rank
 * dies, the others get LS_ERR_PEER_DEAD instead of waiting forever; if one is
 * alive but late, they get LS_ERR_TIMEOUT. After any of these errors the group
 * can only be closed; ls_group_failure names the rank.
 *
 * A rank may be unable to take part in a collective: it passes a NULL buffer or
 * a root that does not exist, or has no memory left. The collective then fails
 * on all ranks, as soon as all have called it. The rank gets its error, the
 * others the same status and a message that names the rank and the reason. The
 * group stays usable. Errors that cannot be reported to the group (NULL instead
 * of a group or a request) and wrong arguments of send and recv fail on the
 * caller alone.
 *
 * A group belongs to one thread at a time. Different groups may be used from
 * different threads at once. While a thread waits for something in one group,
 * what it has in flight in others makes progress, too, until another thread
 * uses these; if one of them fails meanwhile, its own requests report it.
 *
 * A forked child is not a member of its parent's groups. Calls on them, and on
 * their requests, are LS_ERR_STATE there, except ls_group_close and
 * ls_request_free, which free the child's copy. The child and its end do not
 * affect the parent or other ranks. Shared buffers stay mapped: reading them is
 * safe, and the parent sees writes. The child may open other groups, between
 * machines only if the parent had none between machines.
 *
 *     ls_group *group = NULL;
 *     if (ls_group_from_env(&group) != LS_OK) { puts(ls_last_error()); ... }
 *     float x[3] = {1, 2, 3};
 *     check(ls_all_reduce(group, x, x, 3, LS_F32, LS_REDUCE_SUM));
 *     ls_group_close(&group);
 */
#ifndef LOCKSTEP_GROUP_H
#define LOCKSTEP_GROUP_H

#include <stdbool.h>

#include "lockstep/profile.h"
#include "lockstep/status.h"
#include "lockstep/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_group ls_group;
typedef struct ls_request ls_request;

/* ---- timeouts ------------------------------------------------------------ */

/*
 * A timeout is the number of seconds that a call waits for other ranks before
 * it fails with LS_ERR_TIMEOUT. A dead peer is an error at once under any
 * timeout. The argument `seconds` of ls_group_open, ls_group_set_timeout and
 * ls_store.get means
 *
 *   more than 0         the limit in seconds, such as 0.5
 *   LS_TIMEOUT_NONE     no limit
 *   LS_TIMEOUT_DEFAULT  LOCKSTEP_TIMEOUT, or 300 seconds without this variable
 *
 * Other numbers are LS_ERR_ARGUMENT. A store never gets LS_TIMEOUT_DEFAULT. The
 * limit of ls_wait_for is not a timeout: it returns, and the request goes on.
 */
#define LS_TIMEOUT_NONE    0.0
#define LS_TIMEOUT_DEFAULT (-1.0)

/* ---- making and closing groups ------------------------------------------ */

/*
 * Joins the group that the environment describes, as `lockstep run` or torchrun
 * set it: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR,
 * MASTER_PORT. Open MPI's, MPICH's and Slurm's names serve as fallbacks.
 * Without any of them the group has one rank. Two sources that disagree are an
 * error that names both. With LOCKSTEP_TRANSPORT=mpi the ranks connect through
 * the MPI whose launcher started them. Collective over all ranks of the job;
 * waits for the others for LS_TIMEOUT_DEFAULT, which becomes the group's
 * timeout.
 *
 * From then on liblockstep computes with at most this rank's share of the CPUs
 * of its machine. OMP_NUM_THREADS, omp_set_num_threads and ls_set_threads come
 * before this limit. ls_group_open, ls_group_open_by and ls_group_open_threads
 * set this limit, too. A later group can lower it; it stays when groups close.
 *
 * On success *group is owned by the caller; on failure it is not written.
 */
LS_API LS_MUST_CHECK ls_status ls_group_from_env(ls_group **group);

/*
 * A key-value store that all processes reach, through which they connect before
 * they have a group. Keys are text without blanks of less than 128 bytes;
 * values have up to 64 KiB. Each key has been set once when ls_group_open
 * returns, and is not needed any more.
 */
typedef struct ls_store {
    size_t struct_size; /* sizeof, or 0: as in 0.1 (docs/reference/abi.md) */
    void *context;      /* passed to set and get */
    ls_status (*set)(void *context, const char *key, const void *data,
                     size_t bytes);
    /*
     * Waits until the key is set. *bytes is the room at `data`, then the length
     * of the value; LS_ERR_ARGUMENT if there is less room. LS_ERR_TIMEOUT after
     * the timeout `seconds`, which may be as short as 0.001.
     */
    ls_status (*get)(void *context, const char *key, void *data, size_t *bytes,
                     double seconds);
} ls_store;

/*
 * Joins, as `rank` of `size`, the group of that name. No launcher's variables
 * are read; those that configure the library (LOCKSTEP_SELECT, LOCKSTEP_RECORD,
 * LOCKSTEP_INTERFACE and others) count. Called by its members only, which may
 * be any processes, or threads; a process may be in any number of groups, and
 * open and close them in any order. `seconds` is the timeout of this call,
 * which waits for the other members, and then of the group.
 *
 * Without a store (NULL) the members belong to one user on one machine and
 * connect by the name. It must differ from those of all other groups that this
 * user opens there at the time. With a store the name only must be new to it,
 * and members may be anywhere. UCX connects those that cannot share memory;
 * without UCX they get LS_ERR_UNSUPPORTED and what to install. Members that
 * disagree about the size get an error at once. If a member dies while others
 * are awaited, those of its machine get LS_ERR_PEER_DEAD. Collective; *group is
 * owned by the caller, and not written on failure.
 */
LS_API LS_EXPERIMENTAL LS_MUST_CHECK ls_status
ls_group_open(ls_group **group, const char *name, int rank, int size,
              const ls_store *store, double seconds);

/*
 * An all-gather that works before there is a group: recv[r * bytes ...] = the
 * `bytes` bytes that rank r sends, at most 64 KiB. All ranks call it in the
 * same order. LS_ERR_TIMEOUT after the timeout `seconds`; send and recv must
 * not be used any more then. On failure it may write the reason to `why`, a
 * text that is "" before.
 */
enum { LS_WHY_BYTES = 256 };
typedef ls_status (*ls_gather_fn)(void *context, const void *send, size_t bytes,
                                  void *recv, double seconds,
                                  char why[LS_WHY_BYTES]);

/*
 * As ls_group_open, of ranks that have an all-gather instead of a store.
 * lockstep/mpi.h has it for MPI's communicators. The group needs no name, and
 * `gather` is not called any more when the call returns. This thread calls it,
 * a few times. Each rank takes part until all know the outcome. So a rank with
 * a wrong argument makes the call fail on all ranks, unless `gather` is NULL.
 * If ranks of different sizes call it, the result is undefined.
 */
LS_API LS_EXPERIMENTAL LS_MUST_CHECK ls_status
ls_group_open_by(ls_group **group, int rank, int size, ls_gather_fn gather,
                 void *context, double seconds);

/*
 * Makes a group of `size` ranks inside this process: groups[r] is to be used
 * by the thread that is rank r. Local. Each is closed by its own thread
 * with ls_group_close.
 */
LS_API LS_MUST_CHECK ls_status ls_group_open_threads(ls_group **groups,
                                                     int size);

/*
 * Divides a group: ranks that pass the same color >= 0 form a new group,
 * ordered by (key, old rank); ranks that pass a color < 0 get NULL. Collective
 * over `group`, which stays usable; either may be closed before the other. The
 * new group selects algorithms as every new group does (ls_group_select); a
 * call of ls_group_select on the old one has no effect on it.
 */
LS_API LS_MUST_CHECK ls_status ls_group_split(ls_group *group, int color,
                                              int key, ls_group **part);

/*
 * Leaves the group, frees it and sets *group to NULL. Accepts NULL and a
 * pointer to NULL. All ranks should call it, but it never waits for a dead
 * peer. Requests and shared buffers of the group must have been freed before.
 */
LS_API void ls_group_close(ls_group **group);

/* This process's place among the ranks 0..size-1, and their number. */
LS_API int ls_group_rank(const ls_group *group);
LS_API int ls_group_size(const ls_group *group);
/* Rank and size among the ranks that share this machine's memory. */
LS_API int ls_group_local_rank(const ls_group *group);
LS_API int ls_group_local_size(const ls_group *group);

/*
 * Sets the timeout of each later call. Time during which this process was
 * stopped, as by Ctrl-Z or a freezer, does not count. Groups begin with
 * LS_TIMEOUT_DEFAULT, but for those of ls_group_open. Local.
 */
LS_API LS_MUST_CHECK ls_status ls_group_set_timeout(ls_group *group,
                                                    double seconds);

/*
 * Ends all waiting in the group, now and later: every call on it, on all ranks,
 * returns LS_ERR_ABORTED and names this rank. Ranks on other nodes learn of it
 * when this one is in a call, or makes its next. Local; may be called from any
 * thread and from a signal handler, while the group is open. Accepts NULL.
 */
LS_API void ls_group_abort(ls_group *group);

/*
 * Why a group has failed. The ranks are those of the sentence that its calls
 * leave in ls_last_error. All ranks of a machine get the same.
 */
typedef struct ls_failure {
    size_t struct_size; /* sizeof, or 0: as in 0.1 (docs/reference/abi.md) */
    ls_status status;   /* what calls on the group return */
    /*
     * The rank to blame: that has died, left, aborted or is late, or one side
     * of a mismatch. -1: not known.
     */
    int rank;
    /*
     * The other rank of the sentence: the other side of a mismatch, or the rank
     * that gave up waiting. -1: none.
     */
    int other_rank;
    int pid; /* process id of `rank` on its host; 0: not known */
    /*
     * Number of the collective, as in ls_last_error; 0: not in one. Calls of
     * the library itself, as when a group opens, and refused ones have numbers
     * too.
     */
    uint64_t sequence;
    const char *operation; /* "all_reduce", static storage; "": not known */
    char host[64];         /* name of the host of `rank`; "": not known */
} ls_failure;

/*
 * Whether the group has failed, as after LS_ERR_PEER_DEAD, LS_ERR_TIMEOUT,
 * LS_ERR_MISMATCH or LS_ERR_ABORTED, and why. Set out->struct_size before the
 * call. `operation` is the call of `rank` if ranks disagree, and otherwise the
 * collective that `rank` was in when the group failed. *out is written only if
 * the group has failed. A wrong struct_size also returns false, with a sentence
 * in ls_last_error. A call that one rank refused, and errors of functions that
 * open a group, fail no group. Local.
 *
 *     ls_failure why = {.struct_size = sizeof(why)};
 *     if (ls_group_failure(group, &why) && why.rank >= 0)
 *         printf("without rank %d (%s) from now on\n", why.rank, why.host);
 */
LS_API bool ls_group_failure(const ls_group *group, ls_failure *out);

/*
 * Communication of this rank through the group so far. Barriers count as
 * collectives. Bytes are those sent to other ranks.
 */
typedef struct ls_group_counters {
    uint64_t collectives;
    uint64_t messages; /* point to point, sent by this rank */
    uint64_t bytes_sent;
} ls_group_counters;

LS_API void ls_group_get_counters(const ls_group *group,
                                  ls_group_counters *out);

/*
 * Overrides which algorithm serves which message size, for one group, by one
 * line such as "all_reduce:0-8k:flat;8k-inf:ring". An unknown operation or
 * algorithm is LS_ERR_ARGUMENT, with a list of those available. Collective: all
 * ranks must pass the same line. "@FILE" stands for the lines in a file that
 * `lockstep tune --out FILE` wrote on this machine; if it is from
 * another machine, or malformed, the error names the file and the line. "" asks
 * for the built-in table. When a group is made, the environment variable
 * LOCKSTEP_SELECT sets the line; otherwise the group uses what `lockstep tune`
 * has saved for this machine, if it has.
 */
LS_API LS_MUST_CHECK ls_status ls_group_select(ls_group *group,
                                               const char *line);

/*
 * Writes to `path`, as JSON, the last 1,024 collectives and messages of this
 * rank, how far the others have come, and why the group has failed if it has.
 * Local; works on a failed group, too. `lockstep doctor` compares the files of
 * all ranks. If LOCKSTEP_RECORD names a folder, every group writes such a file
 * there when it fails. All groups of a process write one when it gets SIGUSR1,
 * unless the program handles that signal itself (ignoring it does not count).
 */
LS_API LS_MUST_CHECK ls_status ls_group_dump(ls_group *group, const char *path);

/* ---- shared buffers ------------------------------------------------------ */

/*
 * Allocates `bytes` on each rank, 64-byte aligned and zeroed, in memory that
 * all ranks of the node map. It is used like any other memory; collectives
 * recognise it and reduce in place without a copy. The memory is populated when
 * the call returns; if the machine, or the limit of a control group, cannot
 * hold the parts of all ranks of the node, the call fails with LS_ERR_MEMORY on
 * all. Collective; every rank passes the same size. *data is released by
 * ls_shared_free.
 */
LS_API LS_MUST_CHECK ls_status ls_shared_alloc(ls_group *group, size_t bytes,
                                               void **data);

/*
 * The address in this process at which rank `rank`'s part of the same
 * allocation can be read and written; `data` is this rank's own pointer, at
 * any offset. The caller orders accesses (a barrier, a collective). Returns
 * NULL if data is not shared or the rank is on another node.
 */
LS_API LS_EXPERIMENTAL void *ls_shared_peer(const ls_group *group,
                                            const void *data, int rank);

/*
 * Takes this rank's mapping of a shared buffer out of the group, whose close
 * then leaves it mapped. `data` is as ls_shared_alloc returned it. Local, for
 * right before ls_group_close. The caller owns *mapping (all ranks' parts, in
 * *bytes bytes), for munmap. LS_ERR_UNSUPPORTED if ranks are threads.
 */
LS_API LS_EXPERIMENTAL LS_MUST_CHECK ls_status ls_shared_keep(ls_group *group,
                                                              void *data,
                                                              void **mapping,
                                                              size_t *bytes);

/*
 * Releases a shared buffer and sets *data to NULL. Collective; a rank whose
 * *data is NULL already does nothing and does not tell the others.
 */
LS_API LS_MUST_CHECK ls_status ls_shared_free(ls_group *group, void **data);

/* ---- collectives --------------------------------------------------------- */
/*
 * `count` is in elements of `dtype` and may be 0. Where there is a send and a
 * recv buffer they may be the same pointer (in place); other overlap is
 * LS_ERR_ARGUMENT. On error the contents of the receive buffer are undefined.
 */

/* Returns when every rank has called it. */
LS_API LS_MUST_CHECK ls_status ls_barrier(ls_group *group);

/* Copies root's count elements of `data` to every rank. */
LS_API LS_MUST_CHECK ls_status ls_broadcast(ls_group *group, void *data,
                                            size_t count, ls_dtype dtype,
                                            int root);

/* recv[i] = reduction over ranks of send[i]; the same bits on every rank. */
LS_API LS_MUST_CHECK ls_status ls_all_reduce(ls_group *group, const void *send,
                                             void *recv, size_t count,
                                             ls_dtype dtype, ls_reduce_op op);

/* As all-reduce, but only root's recv is written; others may pass NULL. */
LS_API LS_MUST_CHECK ls_status ls_reduce(ls_group *group, const void *send,
                                         void *recv, size_t count,
                                         ls_dtype dtype, ls_reduce_op op,
                                         int root);

/*
 * recv is size * count elements: rank r's send at r * count. In place: send ==
 * recv + rank * count.
 */
LS_API LS_MUST_CHECK ls_status ls_all_gather(ls_group *group, const void *send,
                                             void *recv, size_t count,
                                             ls_dtype dtype);

/*
 * send is size * count elements; rank r's recv gets the reduction of block r.
 * In place: recv == send + rank * count.
 */
LS_API LS_MUST_CHECK ls_status ls_reduce_scatter(ls_group *group,
                                                 const void *send, void *recv,
                                                 size_t count, ls_dtype dtype,
                                                 ls_reduce_op op);

/* root's recv is size * count elements; others may pass recv = NULL. */
LS_API LS_MUST_CHECK ls_status ls_gather(ls_group *group, const void *send,
                                         void *recv, size_t count,
                                         ls_dtype dtype, int root);

/* root's send is size * count elements; others may pass send = NULL. */
LS_API LS_MUST_CHECK ls_status ls_scatter(ls_group *group, const void *send,
                                          void *recv, size_t count,
                                          ls_dtype dtype, int root);

/* Block r of send goes to rank r; block r of recv came from rank r. */
LS_API LS_MUST_CHECK ls_status ls_all_to_all(ls_group *group, const void *send,
                                             void *recv, size_t count,
                                             ls_dtype dtype);

/*
 * Gathers byte strings whose sizes differ between ranks. sizes[r] (size
 * entries, owned by the caller) receives rank r's length; *all, allocated by
 * the library, holds them back to back and is freed with ls_free.
 */
LS_API LS_MUST_CHECK ls_status ls_all_gather_bytes(ls_group *group,
                                                   const void *send,
                                                   size_t bytes, size_t *sizes,
                                                   void **all);

/*
 * The same with a count for each rank: counts has as many entries as the group
 * has ranks, and blocks follow one another in rank order. Counts may be 0. All
 * ranks pass the same counts to the first two. Counts that do not fit are
 * LS_ERR_MISMATCH with the ranks and the counts, and fail the group. In an
 * exchange, ranks that are not concerned may get the error in their next call.
 * The arrays are not needed any more once a call returns, even if its request
 * is not done.
 */

/*
 * recv gets counts[r] elements of each rank r. `count` is this rank's own, and
 * equals its entry of counts. In place: send is where this rank's block begins
 * in recv.
 */
LS_API LS_MUST_CHECK ls_status ls_all_gatherv(ls_group *group, const void *send,
                                              size_t count, void *recv,
                                              const size_t *counts,
                                              ls_dtype dtype);

/*
 * send has the sum of all counts; rank r's recv gets the reduction of its
 * counts[r] elements. In place: recv is where this rank's block begins in send.
 */
LS_API LS_MUST_CHECK ls_status ls_reduce_scatterv(ls_group *group,
                                                  const void *send, void *recv,
                                                  const size_t *counts,
                                                  ls_dtype dtype,
                                                  ls_reduce_op op);

/*
 * send_counts[r] elements of send go to rank r, and recv_counts[r] elements of
 * recv come from there: as many as that rank sends. In place (recv == send),
 * both must be the same.
 */
LS_API LS_MUST_CHECK ls_status ls_all_to_allv(ls_group *group, const void *send,
                                              const size_t *send_counts,
                                              void *recv,
                                              const size_t *recv_counts,
                                              ls_dtype dtype);

/* ---- the same without waiting -------------------------------------------- */
/*
 * As the function without the i, but returns at once: *request, which is the
 * caller's, is done when ls_wait or ls_test says so, and is then freed. Several
 * may be in flight, together with planned ones and messages; all ranks start
 * them in the same order, in which they are done. The buffers must stay
 * untouched until then. A call that this rank cannot take part in fails on all
 * ranks, as above, and makes no request; the rank that is to blame waits until
 * all have called it. Collective.
 */
LS_API LS_MUST_CHECK ls_status ls_ibarrier(ls_group *group,
                                           ls_request **request);
LS_API LS_MUST_CHECK ls_status ls_ibroadcast(ls_group *group, void *data,
                                             size_t count, ls_dtype dtype,
                                             int root, ls_request **request);
LS_API LS_MUST_CHECK ls_status ls_iall_reduce(ls_group *group, const void *send,
                                              void *recv, size_t count,
                                              ls_dtype dtype, ls_reduce_op op,
                                              ls_request **request);
LS_API LS_MUST_CHECK ls_status ls_ireduce(ls_group *group, const void *send,
                                          void *recv, size_t count,
                                          ls_dtype dtype, ls_reduce_op op,
                                          int root, ls_request **request);
LS_API LS_MUST_CHECK ls_status ls_iall_gather(ls_group *group, const void *send,
                                              void *recv, size_t count,
                                              ls_dtype dtype,
                                              ls_request **request);
LS_API LS_MUST_CHECK ls_status ls_ireduce_scatter(ls_group *group,
                                                  const void *send, void *recv,
                                                  size_t count, ls_dtype dtype,
                                                  ls_reduce_op op,
                                                  ls_request **request);
LS_API LS_MUST_CHECK ls_status ls_igather(ls_group *group, const void *send,
                                          void *recv, size_t count,
                                          ls_dtype dtype, int root,
                                          ls_request **request);
LS_API LS_MUST_CHECK ls_status ls_iscatter(ls_group *group, const void *send,
                                           void *recv, size_t count,
                                           ls_dtype dtype, int root,
                                           ls_request **request);
LS_API LS_MUST_CHECK ls_status ls_iall_to_all(ls_group *group, const void *send,
                                              void *recv, size_t count,
                                              ls_dtype dtype,
                                              ls_request **request);
LS_API LS_MUST_CHECK ls_status ls_iall_gatherv(ls_group *group,
                                               const void *send, size_t count,
                                               void *recv, const size_t *counts,
                                               ls_dtype dtype,
                                               ls_request **request);
LS_API LS_MUST_CHECK ls_status ls_ireduce_scatterv(
    ls_group *group, const void *send, void *recv, const size_t *counts,
    ls_dtype dtype, ls_reduce_op op, ls_request **request);
LS_API LS_MUST_CHECK ls_status ls_iall_to_allv(
    ls_group *group, const void *send, const size_t *send_counts, void *recv,
    const size_t *recv_counts, ls_dtype dtype, ls_request **request);

/*
 * recv[i] = sum over ranks of factor * send[i], of floating types; each rank
 * has its factor. Products and sums are rounded in the type, those of half
 * types in f32, and their sum once to the type. Otherwise as ls_iall_reduce and
 * ls_ireduce_scatter; `send` is not needed any more when the call returns.
 */
LS_API LS_MUST_CHECK ls_status ls_iall_reduce_premul(
    ls_group *group, const void *send, void *recv, size_t count, ls_dtype dtype,
    double factor, ls_request **request);
LS_API LS_MUST_CHECK ls_status ls_ireduce_scatter_premul(
    ls_group *group, const void *send, void *recv, size_t count, ls_dtype dtype,
    double factor, ls_request **request);

/* ---- point to point ------------------------------------------------------ */
/*
 * Messages between two ranks with one tag arrive in the order in which they
 * were sent, and are received in the order in which they are asked for; the
 * receive must name the same count and type as the send. A message without a
 * receive stays with its sender, which may have to wait. If a later message has
 * a receive, the receiver keeps the earlier one in its memory; without memory
 * the group fails (LS_ERR_MEMORY, LS_ERR_BUDGET). A rank may send to itself
 * with isend and irecv.
 *
 * A receive may be from LS_ANY_RANK, and of LS_ANY_TAG. It gets the message
 * that arrives first; ranks with waiting messages are served in turn. If a rank
 * dies, the group fails, and every receive with it (LS_ERR_PEER_DEAD). When all
 * other ranks have closed the group, a receive from any rank ends.
 */
#define LS_ANY_RANK (-1)
#define LS_ANY_TAG  (-1)

/*
 * Return when `data` may be reused, and when `data` has been filled. A tag is 0
 * or more. LS_ERR_ARGUMENT if the peer is this rank.
 */
LS_API LS_MUST_CHECK ls_status ls_send(ls_group *group, const void *data,
                                       size_t count, ls_dtype dtype, int peer,
                                       int tag);
LS_API LS_MUST_CHECK ls_status ls_recv(ls_group *group, void *data,
                                       size_t count, ls_dtype dtype, int peer,
                                       int tag);

/*
 * Sends to rank `to` and receives from rank `from` at once, both with this tag.
 * Ranks that exchange, or pass data around a ring, need no further order.
 * Either count may be 0, which is a message, too. `from` may be LS_ANY_RANK,
 * and a rank may send to itself if it receives from itself. The buffers must
 * not overlap. Returns when both are done. Like send and recv it concerns the
 * ranks that it names, not the whole group.
 */
LS_API LS_MUST_CHECK ls_status ls_sendrecv(ls_group *group, const void *send,
                                           size_t send_count, int to,
                                           void *recv, size_t recv_count,
                                           int from, ls_dtype dtype, int tag);

/* As send and recv, but return at once with a request to wait for. */
LS_API LS_MUST_CHECK ls_status ls_isend(ls_group *group, const void *data,
                                        size_t count, ls_dtype dtype, int peer,
                                        int tag, ls_request **request);
LS_API LS_MUST_CHECK ls_status ls_irecv(ls_group *group, void *data,
                                        size_t count, ls_dtype dtype, int peer,
                                        int tag, ls_request **request);

/*
 * The result of a finished receive: the rank that sent the message, and its
 * tag. LS_ERR_STATE before that. Local.
 */
LS_API LS_MUST_CHECK ls_status ls_request_source(const ls_request *request,
                                                 int *rank);
LS_API LS_MUST_CHECK ls_status ls_request_tag(const ls_request *request,
                                              int *tag);

/*
 * Looks for a message from a rank (or LS_ANY_RANK) with a tag (or LS_ANY_TAG)
 * for which no receive has been started. The outputs are its sender, tag and
 * length. The message stays: the next receive from that rank with that tag gets
 * it. ls_probe waits for a message; ls_iprobe returns LS_IN_PROGRESS if none
 * has arrived. Any of source, message_tag and bytes may be NULL.
 */
LS_API LS_MUST_CHECK ls_status ls_probe(ls_group *group, int peer, int tag,
                                        int *source, int *message_tag,
                                        size_t *bytes);
LS_API LS_MUST_CHECK ls_status ls_iprobe(ls_group *group, int peer, int tag,
                                         int *source, int *message_tag,
                                         size_t *bytes);

/* ---- requests ------------------------------------------------------------ */
/*
 * A planned collective is validated and allocated once and then started as
 * often as wished; starting allocates nothing. Several may be in flight; all
 * ranks start them in the same order. The buffers must stay untouched between
 * start and the wait (or test) that returns LS_OK.
 */

/* Plans recv[i] = reduction of send[i]. Collective. Does not start it. */
LS_API LS_MUST_CHECK ls_status ls_all_reduce_plan(ls_group *group,
                                                  const void *send, void *recv,
                                                  size_t count, ls_dtype dtype,
                                                  ls_reduce_op op,
                                                  ls_request **request);

/* Starts a planned request that is not in flight. Collective, returns soon. */
LS_API LS_MUST_CHECK ls_status ls_start(ls_request *request);

/*
 * Makes progress; LS_OK when finished, LS_IN_PROGRESS when not. Fails as a wait
 * would, also if the peers do not arrive in time. The time counts from the
 * first test that makes no progress, with at most 0.2 s between two tests.
 * Local.
 */
LS_API LS_MUST_CHECK ls_status ls_test(ls_request *request);

/* Returns when the request has finished or failed. */
LS_API LS_MUST_CHECK ls_status ls_wait(ls_request *request);

/*
 * The same, but returns LS_IN_PROGRESS if it is not done after `seconds`, give
 * or take 0.1 s, and may be called again. Together these waits fail when a peer
 * is late, as one would.
 */
LS_API LS_MUST_CHECK ls_status ls_wait_for(ls_request *request, double seconds);

/*
 * Waits for each of n requests, of any groups. NULL stands for no request, and
 * n may be 0. Each request is over when the call returns, also if others fail:
 * the status is that of the first in the array that has failed. LS_ERR_STATE if
 * one is not in flight; the call then waits for none. A request that is in the
 * array several times is waited for once. Local. The caller frees the requests.
 */
LS_API LS_MUST_CHECK ls_status ls_wait_all(ls_request *const *requests,
                                           size_t n);

/*
 * Waits until one of n requests is over, of any groups, and gives its index in
 * *done: n if all are NULL. The status is that of a wait for this request, so
 * *done says which has failed, too. A request that is freed is NULL, which the
 * next call passes over. LS_ERR_STATE if one is not in flight; *done is not
 * written then. Local.
 *
 *     size_t i = 0;
 *     ls_status status;
 *     while ((status = ls_wait_any(all, n, &i)) == LS_OK && i < n) {
 *         use(i);
 *         ls_request_free(&all[i]);
 *     }
 */
LS_API LS_MUST_CHECK ls_status ls_wait_any(ls_request *const *requests,
                                           size_t n, size_t *done);

/*
 * Calls `function` with that context, once, when a request in flight is done or
 * has failed. The status is LS_OK, or the one that a wait would return, with
 * its sentence in ls_last_error. The thread that finds the request done makes
 * the call, at the end of its library call, or at once if it is done already.
 * So some thread has to test or wait for something in the group. It may use the
 * library, and free the request unless that is the one which is waited for, but
 * not close the group. If a call on another group calls it, a thread that uses
 * this one meanwhile waits until it has returned.
 */
typedef void (*ls_done_fn)(void *context, ls_status status);
LS_API LS_MUST_CHECK ls_status ls_request_on_done(ls_request *request,
                                                  ls_done_fn function,
                                                  void *context);

/*
 * Frees a request and sets *request to NULL. Accepts NULL and a pointer to
 * NULL. A request in flight is waited for first.
 */
LS_API void ls_request_free(ls_request **request);

#ifdef __cplusplus
}
#endif

#endif
