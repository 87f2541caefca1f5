/*
 * Reading batches ahead.
 *
 * Batches of an epoch are numbered 0, 1, ...; batch b is in slot b mod n_slots
 * of a ring. Reader threads claim pieces of batches in order, so all of them
 * work on the batch that is needed first. They claim pieces while the batch is
 * at most `prefetch` batches ahead of the one that the consumer holds. The lock
 * `lock` guards the shared state, except a slot's items. The items of a piece
 * belong to the reader that has claimed it, and to the consumer when all pieces
 * of the batch are read.
 */
#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/held.h"
#include "base/memory.h"
#include "base/structs.h"
#include "input/data/dataset.h"
#include "observe/spans.h"

enum { MAX_PREFETCH = 1024, MAX_THREADS = 64 };

typedef struct slot {
    void *fields[LS_MAX_FIELDS];
    ls_batch whole; /* tensors over them, for a batch of full size */
    int64_t left;   /* items that have not been read yet */
    int64_t failed_at;
    lsi_error error; /* of the first piece that could not be read */
} slot;

struct ls_loader {
    const ls_dataset *dataset;
    int64_t batch_size;
    size_t n_fields;
    int64_t piece; /* items that a reader claims at once, at most */
    slot *slots;
    int n_slots;   /* prefetch + the one that the consumer holds */
    ls_batch rest; /* the last batch of an epoch, if it is smaller */

    pthread_t readers[MAX_THREADS];
    int n_readers;
    pthread_mutex_t lock;
    pthread_cond_t may_read; /* for the readers */
    pthread_cond_t has_read; /* for the consumer */
    /* The epoch. */
    uint64_t epoch;
    int64_t *indices;
    int64_t n, batches;
    bool begun;
    int64_t next;     /* item that will be claimed next */
    int64_t taken;    /* batches given to the consumer; used by it only */
    int64_t released; /* batches that it no longer uses */
    int reading;      /* readers that are outside the lock */
    bool quit;
    double wait_seconds;
};

/* Items begin..begin+n-1 of the epoch, all of one batch. */
typedef struct piece {
    int64_t begin, n;
} piece;

/* ---- reading (any thread) ------------------------------------------------ */

static int64_t batch_count(const ls_loader *loader, int64_t batch)
{
    const int64_t left = loader->n - batch * loader->batch_size;
    return left < loader->batch_size ? left : loader->batch_size;
}

static slot *slot_of(const ls_loader *loader, int64_t batch)
{
    return &loader->slots[batch % loader->n_slots];
}

static bool has_work(const ls_loader *loader)
{
    return loader->next < loader->n && loader->next / loader->batch_size <
                                           loader->released + loader->n_slots;
}

static piece claim(ls_loader *loader)
{
    assert(lsi_mutex_held(&loader->lock));
    const int64_t begin = loader->next;
    const int64_t batch = begin / loader->batch_size;
    const int64_t done = begin % loader->batch_size;
    const int64_t left = batch_count(loader, batch) - done;
    const int64_t n = left < loader->piece ? left : loader->piece;
    if (done == 0) {
        slot *s = slot_of(loader, batch);
        s->left = left;
        s->error.status = LS_OK;
    }
    loader->next += n;
    return (piece){begin, n};
}

static ls_status read_piece(const ls_loader *loader, piece p)
{
    const slot *s = slot_of(loader, p.begin / loader->batch_size);
    const size_t skip = (size_t)(p.begin % loader->batch_size);
    void *fields[LS_MAX_FIELDS];
    for (size_t f = 0; f < loader->n_fields; f++)
        fields[f] = (uint8_t *)s->fields[f] +
                    skip * lsi_dataset_field_bytes(loader->dataset, f);
    return ls_dataset_read(loader->dataset, loader->epoch,
                           loader->indices + p.begin, p.n, fields);
}

/*
 * An error message belongs to its thread, so the slot keeps a copy. If several
 * pieces of a batch fail, it keeps the error of the first item.
 */
static void note_result(ls_loader *loader, piece p, ls_status status)
{
    slot *s = slot_of(loader, p.begin / loader->batch_size);
    assert(lsi_mutex_held(&loader->lock) && s->left >= p.n);
    s->left -= p.n;
    if (status == LS_OK || (s->error.status != LS_OK && s->failed_at < p.begin))
        return;
    s->failed_at = p.begin;
    s->error.status = LS_OK;
    (void)lsi_error_keep(&s->error, status);
}

/* Whether all of a batch has been read. */
static bool is_read(const ls_loader *loader, int64_t batch)
{
    assert(lsi_mutex_held(&loader->lock));
    return loader->next >=
               batch * loader->batch_size + batch_count(loader, batch) &&
           slot_of(loader, batch)->left == 0;
}

/* ---- the readers --------------------------------------------------------- */

static void *reader_main(void *context)
{
    ls_loader *loader = context;
    pthread_mutex_lock(&loader->lock);
    while (!loader->quit) {
        if (!has_work(loader)) {
            pthread_cond_wait(&loader->may_read, &loader->lock);
            continue;
        }
        const piece p = claim(loader);
        assert(p.begin >= loader->released * loader->batch_size);
        loader->reading++;
        pthread_mutex_unlock(&loader->lock);
        const ls_status status = read_piece(loader, p);
        pthread_mutex_lock(&loader->lock);
        loader->reading--;
        note_result(loader, p, status);
        pthread_cond_signal(&loader->has_read);
    }
    pthread_mutex_unlock(&loader->lock);
    return NULL;
}

static ls_status start_reader(ls_loader *loader)
{
    pthread_t *const reader = &loader->readers[loader->n_readers];
    const int result = pthread_create(reader, NULL, reader_main, loader);
    if (result != 0)
        return lsi_fail(LS_ERR_SYSTEM,
                        "cannot start the thread that reads ahead: %s",
                        strerror(result));
    loader->n_readers++;
    pthread_setname_np(*reader, "lockstep-data");
    return LS_OK;
}

/* Readers block signals, so that the program's other threads handle them. */
static ls_status start_readers(ls_loader *loader, int n)
{
    sigset_t all, before;
    ls_status status = LS_OK;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    for (int i = 0; i < n && status == LS_OK; i++)
        status = start_reader(loader);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

/* Afterwards no reader uses anything of the epoch. */
static void stop_epoch(ls_loader *loader)
{
    assert(lsi_mutex_held(&loader->lock));
    loader->n = 0;
    while (loader->reading > 0)
        pthread_cond_wait(&loader->has_read, &loader->lock);
}

/* ---- making and freeing -------------------------------------------------- */

static void unwrap(ls_batch *batch)
{
    for (int f = 0; f < LS_MAX_FIELDS; f++)
        ls_tensor_free(&batch->fields[f]);
}

static ls_status wrap_field(const ls_loader *loader, const slot *s, size_t f,
                            ls_batch *batch)
{
    const ls_field *field = ls_dataset_field(loader->dataset, f);
    int64_t shape[LS_MAX_DIMS] = {batch->count};
    for (int i = 0; i < field->ndim; i++)
        shape[i + 1] = field->shape[i];
    return ls_tensor_wrap(&batch->fields[f], s->fields[f], field->dtype,
                          field->ndim + 1, shape, NULL);
}

static ls_status wrap(const ls_loader *loader, const slot *s, int64_t n,
                      ls_batch *batch)
{
    ls_batch made = {.count = n};
    for (size_t f = 0; f < loader->n_fields; f++) {
        const ls_status status = wrap_field(loader, s, f, &made);
        if (status != LS_OK) {
            unwrap(&made);
            return status;
        }
    }
    *batch = made;
    return LS_OK;
}

static ls_status fill_slot(const ls_loader *loader, slot *s)
{
    for (size_t f = 0; f < loader->n_fields; f++) {
        const size_t bytes = lsi_dataset_field_bytes(loader->dataset, f);
        LS_TRY(lsi_alloc(&s->fields[f], (size_t)loader->batch_size * bytes,
                         LS_MEMORY_DATA, "a batch of data"));
    }
    return wrap(loader, s, loader->batch_size, &s->whole);
}

static ls_status make_slots(ls_loader *loader)
{
    LS_TRY(lsi_alloc_zeroed(&loader->slots,
                            (size_t)loader->n_slots * sizeof(slot),
                            LS_MEMORY_DATA, "loader"));
    for (int i = 0; i < loader->n_slots; i++)
        LS_TRY(fill_slot(loader, &loader->slots[i]));
    return LS_OK;
}

static void free_slots(ls_loader *loader)
{
    for (int i = 0; loader->slots != NULL && i < loader->n_slots; i++) {
        slot *s = &loader->slots[i];
        unwrap(&s->whole);
        for (size_t f = 0; f < loader->n_fields; f++)
            lsi_free(s->fields[f]);
    }
    lsi_free(loader->slots);
}

static ls_status check_options(const ls_dataset *dataset,
                               const ls_loader_options *o)
{
    int64_t most = INT64_MAX;
    for (size_t f = 0; f < ls_dataset_field_count(dataset); f++) {
        const size_t bytes = lsi_dataset_field_bytes(dataset, f);
        if (INT64_MAX / (int64_t)bytes < most)
            most = INT64_MAX / (int64_t)bytes;
    }
    if (o->batch_size < 1 || o->batch_size > most)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "loader: batch_size is %" PRId64
                        "; it must be at least 1",
                        o->batch_size);
    if (o->prefetch < 0 || o->prefetch > MAX_PREFETCH)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "loader: prefetch is %d; expected 0 to %d", o->prefetch,
                        MAX_PREFETCH);
    if (o->threads < 0 || o->threads > MAX_THREADS)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "loader: threads is %d; expected 0 to %d", o->threads,
                        MAX_THREADS);
    if (o->threads > 1 && o->prefetch == 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "loader: threads is %d, but prefetch is 0, so no batch "
                        "can be read ahead; set prefetch to at least 1",
                        o->threads);
    return LS_OK;
}

ls_status ls_loader_new(ls_loader **out, const ls_dataset *dataset,
                        const ls_loader_options *options)
{
    LS_NEED(out, dataset, options);
    ls_loader_options o;
    LS_TRY(LSI_STRUCT_READ(&o, options, ls_loader_options, threads));
    options = &o;
    LS_TRY(check_options(dataset, options));
    const int threads = options->threads > 1 ? options->threads : 1;
    ls_loader *loader;
    LS_TRY(
        lsi_alloc_zeroed(&loader, sizeof(ls_loader), LS_MEMORY_DATA, "loader"));
    loader->dataset = dataset;
    loader->batch_size = options->batch_size;
    loader->n_fields = ls_dataset_field_count(dataset);
    loader->piece = (options->batch_size - 1) / threads + 1;
    loader->n_slots = options->prefetch + 1;
    pthread_mutex_init(&loader->lock, NULL);
    pthread_cond_init(&loader->may_read, NULL);
    pthread_cond_init(&loader->has_read, NULL);
    ls_status status = make_slots(loader);
    if (status == LS_OK && options->prefetch > 0)
        status = start_readers(loader, threads);
    if (status != LS_OK) {
        ls_loader_free(&loader);
        return status;
    }
    *out = loader;
    return LS_OK;
}

static void join_readers(ls_loader *loader)
{
    pthread_mutex_lock(&loader->lock);
    loader->quit = true;
    pthread_cond_broadcast(&loader->may_read);
    pthread_mutex_unlock(&loader->lock);
    for (int i = 0; i < loader->n_readers; i++)
        pthread_join(loader->readers[i], NULL);
}

void ls_loader_free(ls_loader **loader)
{
    if (loader == NULL || *loader == NULL)
        return;
    ls_loader *l = *loader;
    join_readers(l);
    unwrap(&l->rest);
    free_slots(l);
    lsi_free(l->indices);
    pthread_cond_destroy(&l->has_read);
    pthread_cond_destroy(&l->may_read);
    pthread_mutex_destroy(&l->lock);
    lsi_free(l);
    *loader = NULL;
}

/* ---- the consumer -------------------------------------------------------- */

ls_status ls_loader_begin(ls_loader *loader, uint64_t epoch,
                          const int64_t *indices, size_t n)
{
    size_t bytes;
    void *copy = NULL;
    LS_NEED(loader);
    if (n > 0)
        LS_NEED(indices);
    if (__builtin_mul_overflow(n, sizeof(int64_t), &bytes))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "loader: %zu indices do not fit in memory", n);
    LS_TRY(lsi_alloc(&copy, bytes, LS_MEMORY_DATA, "indices of an epoch"));
    if (n > 0)
        memcpy(copy, indices, bytes);

    pthread_mutex_lock(&loader->lock);
    stop_epoch(loader);
    lsi_free(loader->indices);
    loader->indices = copy;
    loader->epoch = epoch;
    loader->n = (int64_t)n;
    loader->batches =
        loader->n / loader->batch_size + (loader->n % loader->batch_size != 0);
    loader->begun = true;
    loader->next = loader->taken = loader->released = 0;
    loader->wait_seconds = 0;
    pthread_cond_broadcast(&loader->may_read);
    pthread_mutex_unlock(&loader->lock);
    return LS_OK;
}

/* Waits until the next batch has been read, or reads it. */
static void await_batch(ls_loader *loader)
{
    assert(lsi_mutex_held(&loader->lock));
    if (is_read(loader, loader->taken))
        return;
    const double begin = lsi_clock_seconds();
    while (!is_read(loader, loader->taken)) {
        if (loader->n_readers > 0) {
            pthread_cond_wait(&loader->has_read, &loader->lock);
            continue;
        }
        const piece p = claim(loader);
        note_result(loader, p, read_piece(loader, p));
    }
    loader->wait_seconds += lsi_clock_seconds() - begin;
}

static ls_status hand_out(ls_loader *loader, int64_t index, ls_batch *batch)
{
    const slot *s = slot_of(loader, index);
    const int64_t n = batch_count(loader, index);
    if (n < loader->batch_size) {
        unwrap(&loader->rest);
        LS_TRY(wrap(loader, s, n, &loader->rest));
    }
    *batch = n < loader->batch_size ? loader->rest : s->whole;
    return LS_OK;
}

ls_status ls_loader_next(ls_loader *loader, ls_batch *batch)
{
    LS_NEED(loader, batch);
    if (!loader->begun)
        return lsi_fail(LS_ERR_STATE,
                        "ls_loader_next: call ls_loader_begin first");
    if (loader->taken == loader->batches) {
        *batch = (ls_batch){.count = 0};
        return LS_OK;
    }
    LSI_SPAN(PHASE, "loader", 0, 0);
    const slot *const s = slot_of(loader, loader->taken);
    pthread_mutex_lock(&loader->lock);
    loader->released = loader->taken;
    pthread_cond_broadcast(&loader->may_read);
    await_batch(loader);
    pthread_mutex_unlock(&loader->lock);
    LS_TRY(lsi_error_again(&s->error));
    LS_TRY(hand_out(loader, loader->taken, batch));
    loader->taken++;
    return LS_OK;
}

void ls_loader_get_stats(const ls_loader *loader, ls_loader_stats *stats)
{
    if (stats == NULL)
        return;
    *stats = (ls_loader_stats){0};
    if (loader != NULL)
        *stats = (ls_loader_stats){loader->taken, loader->wait_seconds};
}
