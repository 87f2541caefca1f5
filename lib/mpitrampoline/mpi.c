/*
 * The part of MPI that XLA uses on CPUs, over groups of liblockstep-comm. A
 * communicator is a group. XLA calls from any thread, and a group belongs to
 * one thread at a time: each communicator has a lock.
 */
#include "mpitrampoline/mpiabi.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

struct communicator {
    pthread_mutex_t lock;
    ls_group *group;
};

struct request {
    mpi_comm comm;
    ls_request *request;
};

/* Its address is MPI_COMM_WORLD. */
static struct communicator world = {.lock = PTHREAD_MUTEX_INITIALIZER};
static bool initialized, finalized;

/* ---- errors -------------------------------------------------------------- */

static _Thread_local char sentence[MPI_ERROR_BYTES];

int mpi_failed(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(sentence, sizeof(sentence), format, list);
    va_end(list);
    return MPI_FAILED;
}

static int result_of(ls_status status)
{
    return status == LS_OK ? MPI_OK
                           : mpi_failed("lockstep: %s", ls_last_error());
}

MPIABI_API int MPIABI_Error_string(int code, char *text, int *length)
{
    *length = snprintf(text, MPI_ERROR_BYTES, "%s",
                       code == MPI_OK ? "no error" : sentence);
    return MPI_OK;
}

/* ---- the process --------------------------------------------------------- */

/* XLA cannot use the status, so a failure ends the process. */
static void connect_or_exit(void)
{
    if (ls_group_from_env(&world.group) == LS_OK)
        return;
    lsi_log(LS_LOG_ERROR, "%s", ls_last_error());
    exit(1);
}

MPIABI_API int MPIABI_Init_thread(int *argc, char ***argv, int required,
                                  int *provided)
{
    (void)argc;
    (void)argv;
    *provided = required;
    if (!initialized)
        connect_or_exit();
    initialized = true;
    return MPI_OK;
}

MPIABI_API int MPIABI_Initialized(int *flag)
{
    *flag = initialized;
    return MPI_OK;
}

/* Communicators of XLA may live longer; they are closed by MPI_Comm_free. */
MPIABI_API int MPIABI_Finalize(void)
{
    ls_group_close(&world.group);
    finalized = true;
    return MPI_OK;
}

MPIABI_API int MPIABI_Finalized(int *flag)
{
    *flag = finalized;
    return MPI_OK;
}

/* All threads are alike here. XLA refuses to go on where this is 0. */
MPIABI_API int MPIABI_Is_thread_main(int *flag)
{
    *flag = 1;
    return MPI_OK;
}

MPIABI_API int MPIABI_Get_library_version(char *text, int *length)
{
    *length =
        snprintf(text, MPI_VERSION_BYTES, "lockstep %s", LS_VERSION_STRING);
    return MPI_OK;
}

MPIABI_API int MPIABI_Abort(mpi_comm comm, int code)
{
    ls_group_abort(comm->group);
    exit(code);
}

/* ---- communicators ------------------------------------------------------- */

MPIABI_API int MPIABI_Comm_rank(mpi_comm comm, int *rank)
{
    *rank = ls_group_rank(comm->group);
    return MPI_OK;
}

MPIABI_API int MPIABI_Comm_size(mpi_comm comm, int *size)
{
    *size = ls_group_size(comm->group);
    return MPI_OK;
}

/*
 * XLA does not look at the status. After a failure the communicator has no
 * group, and its first use is an error.
 */
MPIABI_API int MPIABI_Comm_split(mpi_comm comm, int color, int key,
                                 mpi_comm *out)
{
    ls_group *part = NULL;
    pthread_mutex_lock(&comm->lock);
    const ls_status status = ls_group_split(
        comm->group, color == MPI_UNDEFINED ? -1 : color, key, &part);
    pthread_mutex_unlock(&comm->lock);
    if (status != LS_OK)
        lsi_log(LS_LOG_ERROR, "MPI_Comm_split: %s", ls_last_error());
    *out = NULL;
    if (status == LS_OK && part == NULL)
        return MPI_OK; /* MPI_UNDEFINED */
    struct communicator *const made = calloc(1, sizeof(*made));
    if (made == NULL) {
        ls_group_close(&part);
        return mpi_failed("no memory for a communicator");
    }
    pthread_mutex_init(&made->lock, NULL);
    made->group = part;
    *out = made;
    return result_of(status);
}

MPIABI_API int MPIABI_Comm_free(mpi_comm *comm)
{
    if (*comm == NULL)
        return MPI_OK;
    ls_group_close(&(*comm)->group);
    pthread_mutex_destroy(&(*comm)->lock);
    free(*comm);
    *comm = NULL;
    return MPI_OK;
}

/* ---- buffers ------------------------------------------------------------- */

/* The buffers of a call: the caller's, or copies where these will not do. */
typedef struct buffers {
    const void *send;
    void *recv;
    void *send_copy, *recv_copy;
} buffers;

static bool overlap(const void *a, size_t a_bytes, const void *b,
                    size_t b_bytes)
{
    const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return x < y + b_bytes && y < x + a_bytes;
}

/* ---- collectives --------------------------------------------------------- */

/* Elements that a reduction reads and writes on this rank. */
typedef struct extent {
    size_t sent, received;
    size_t own; /* where the result begins in the input if it is in place */
} extent;

/*
 * XLA gives any part of the input as the output; the library wants the part of
 * this rank, or none. Without memory for a copy its buffer is NULL, with which
 * the library refuses the call on all ranks.
 */
static buffers prepare(const reduction *r, const void *send, void *recv,
                       const extent *e)
{
    const size_t bytes = mpi_type_bytes(r->type);
    const size_t wide = ls_dtype_size(r->dtype) * r->parts;
    const void *const own = (const char *)send + e->own * bytes;
    const bool apart = recv == own || !overlap(send, e->sent * bytes, recv,
                                               e->received * bytes);
    buffers b = {.send = send, .recv = recv};
    if (r->converted) {
        b.send = b.send_copy = malloc(e->sent * wide + 1);
        b.recv = b.recv_copy = malloc(e->received * wide + 1);
        if (b.send_copy != NULL)
            mpi_convert(r, b.send_copy, send, e->sent);
    } else if (!apart) {
        b.recv = b.recv_copy = malloc(e->received * bytes + 1);
    }
    return b;
}

static int finish(const reduction *r, void *recv, size_t count,
                  const buffers *b, ls_status status)
{
    if (status == LS_OK && r->converted)
        mpi_convert_back(r, recv, b->recv, count);
    else if (status == LS_OK && b->recv_copy != NULL)
        memcpy(recv, b->recv, count * mpi_type_bytes(r->type));
    free(b->send_copy);
    free(b->recv_copy);
    return result_of(status);
}

MPIABI_API int MPIABI_Allreduce(const void *send, void *recv, int count,
                                mpi_type type, mpi_op op, mpi_comm comm)
{
    const extent e = {.sent = (size_t)count, .received = (size_t)count};
    reduction r;
    if (mpi_reduction_of(type, op, &r) != MPI_OK)
        return MPI_FAILED;
    const buffers b = prepare(&r, send, recv, &e);
    pthread_mutex_lock(&comm->lock);
    const ls_status status = ls_all_reduce(
        comm->group, b.send, b.recv, (size_t)count * r.parts, r.dtype, r.op);
    pthread_mutex_unlock(&comm->lock);
    return finish(&r, recv, (size_t)count, &b, status);
}

MPIABI_API int MPIABI_Reduce_scatter(const void *send, void *recv,
                                     const int *counts, mpi_type type,
                                     mpi_op op, mpi_comm comm)
{
    const size_t size = (size_t)ls_group_size(comm->group);
    const size_t count = (size_t)counts[0];
    const extent e = {.sent = size * count,
                      .received = count,
                      .own = count * (size_t)ls_group_rank(comm->group)};
    reduction r;
    for (size_t i = 1; i < size; i++)
        if (counts[i] != counts[0])
            return mpi_failed("MPI_Reduce_scatter: the counts differ");
    if (mpi_reduction_of(type, op, &r) != MPI_OK)
        return MPI_FAILED;
    const buffers b = prepare(&r, send, recv, &e);
    pthread_mutex_lock(&comm->lock);
    const ls_status status = ls_reduce_scatter(comm->group, b.send, b.recv,
                                               count * r.parts, r.dtype, r.op);
    pthread_mutex_unlock(&comm->lock);
    return finish(&r, recv, count, &b, status);
}

MPIABI_API int MPIABI_Allgather(const void *send, int count, mpi_type type,
                                void *recv, int recv_count, mpi_type recv_type,
                                mpi_comm comm)
{
    const size_t bytes = (size_t)count * mpi_type_bytes(type);
    const size_t all = bytes * (size_t)ls_group_size(comm->group);
    const char *const own =
        (char *)recv + bytes * (size_t)ls_group_rank(comm->group);
    const void *own_send = send;
    void *copy = NULL;
    if (count != recv_count || type != recv_type)
        return mpi_failed("MPI_Allgather: the types or counts differ");
    if (send != own && overlap(send, bytes, recv, all)) {
        own_send = copy = malloc(bytes + 1); /* as in prepare */
        if (copy != NULL)
            memcpy(copy, send, bytes);
    }
    pthread_mutex_lock(&comm->lock);
    const ls_status status =
        ls_all_gather(comm->group, own_send, recv, bytes, LS_U8);
    pthread_mutex_unlock(&comm->lock);
    free(copy);
    return result_of(status);
}

MPIABI_API int MPIABI_Barrier(mpi_comm comm)
{
    pthread_mutex_lock(&comm->lock);
    const ls_status status = ls_barrier(comm->group);
    pthread_mutex_unlock(&comm->lock);
    return result_of(status);
}

/* ---- messages ------------------------------------------------------------ */

MPIABI_API int MPIABI_Sendrecv(const void *send, int send_count,
                               mpi_type send_type, int to, int send_tag,
                               void *recv, int recv_count, mpi_type recv_type,
                               int from, int recv_tag, mpi_comm comm,
                               void *status)
{
    if (send_tag != recv_tag || status != NULL)
        return mpi_failed("MPI_Sendrecv: tags differ, or a status is wanted");
    pthread_mutex_lock(&comm->lock);
    const ls_status done = ls_sendrecv(
        comm->group, send, (size_t)send_count * mpi_type_bytes(send_type), to,
        recv, (size_t)recv_count * mpi_type_bytes(recv_type), from, LS_U8,
        send_tag);
    pthread_mutex_unlock(&comm->lock);
    return result_of(done);
}

/*
 * A request whose communicator is locked, or NULL. It exists before its
 * message: nobody could wait for a message without a request.
 */
static mpi_request begin_message(mpi_comm comm)
{
    struct request *const made = malloc(sizeof(*made));
    if (made == NULL) {
        mpi_failed("no memory for a request");
        return NULL;
    }
    *made = (struct request){.comm = comm};
    pthread_mutex_lock(&comm->lock);
    return made;
}

/* Unlocks the communicator. A message that has not begun has no request. */
static int message_begun(mpi_request *request, ls_status status)
{
    pthread_mutex_unlock(&(*request)->comm->lock);
    if (status == LS_OK)
        return MPI_OK;
    free(*request);
    *request = NULL;
    return result_of(status);
}

MPIABI_API int MPIABI_Isend(const void *data, int count, mpi_type type, int to,
                            int tag, mpi_comm comm, mpi_request *out)
{
    *out = begin_message(comm);
    if (*out == NULL)
        return MPI_FAILED;
    return message_begun(out, ls_isend(comm->group, data,
                                       (size_t)count * mpi_type_bytes(type),
                                       LS_U8, to, tag, &(*out)->request));
}

MPIABI_API int MPIABI_Irecv(void *data, int count, mpi_type type, int from,
                            int tag, mpi_comm comm, mpi_request *out)
{
    *out = begin_message(comm);
    if (*out == NULL)
        return MPI_FAILED;
    return message_begun(out, ls_irecv(comm->group, data,
                                       (size_t)count * mpi_type_bytes(type),
                                       LS_U8, from, tag, &(*out)->request));
}

MPIABI_API int MPIABI_Wait(mpi_request *request, void *status)
{
    struct request *const r = *request;
    if (status != NULL)
        return mpi_failed("MPI_Wait: a status is wanted");
    if (r == NULL)
        return MPI_OK;
    pthread_mutex_lock(&r->comm->lock);
    const ls_status done = ls_wait(r->request);
    ls_request_free(&r->request);
    pthread_mutex_unlock(&r->comm->lock);
    free(r);
    *request = NULL;
    return result_of(done);
}

/* ---- constants of this library ------------------------------------------- */

MPIABI_API const mpi_comm MPIABI_COMM_WORLD = &world;
MPIABI_API const int MPIABI_UNDEFINED = MPI_UNDEFINED;
#define X(name, value) MPIABI_API const mpi_type MPIABI_##name = TYPE_##name;
MPI_TYPES(X)
#undef X
#define X(name, value) MPIABI_API const mpi_op MPIABI_##name = OP_##name;
MPI_OPS(X)
#undef X
