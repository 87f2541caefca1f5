/*
 * Reading batches ahead.
 *
 * Batches of an epoch are numbered 0, 1, ...; batch b lies in slot b mod
 * n_slots of a ring. A reader thread fills slots in order while it is at most
 * `prefetch` batches ahead of the one that the consumer holds. What both
 * threads touch is guarded by `lock`, except a slot's contents: those belong
 * to the reader while `reading` and filled <= batch, then to the consumer.
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/dataset.h"

enum { MAX_PREFETCH = 1024, ERROR_BYTES = 512 };

typedef struct slot {
    float *images;
    int64_t *labels;
    ls_batch whole; /* tensors over them, for a batch of full size */
} slot;

struct ls_loader {
    const ls_dataset *dataset;
    int64_t batch_size;
    slot *slots;
    int n_slots; /* prefetch + the one that the consumer holds */
    bool threaded;
    ls_batch rest; /* the last batch of an epoch, if it is smaller */

    pthread_t reader;
    pthread_mutex_t lock;
    pthread_cond_t may_read; /* for the reader */
    pthread_cond_t has_read; /* for the consumer */
    /* The epoch. */
    int64_t *indices;
    int64_t n, batches;
    bool begun;
    int64_t filled;   /* batches that have been read */
    int64_t taken;    /* batches that the consumer was given; its own */
    int64_t released; /* batches that it no longer uses */
    bool reading;     /* the reader is outside the lock */
    bool quit;
    ls_status status; /* of the batch `filled`, if it could not be read */
    char error[ERROR_BYTES];
};

/* ---- reading (either thread) ------------------------------------------------
 */

static int64_t batch_count(const ls_loader *loader, int64_t batch)
{
    const int64_t left = loader->n - batch * loader->batch_size;
    return left < loader->batch_size ? left : loader->batch_size;
}

static ls_status read_batch(const ls_loader *loader, int64_t batch)
{
    const slot *s = &loader->slots[batch % loader->n_slots];
    return ls_dataset_read(loader->dataset,
                           loader->indices + batch * loader->batch_size,
                           batch_count(loader, batch), s->images, s->labels);
}

/* Errors are recorded by thread, so the sentence goes along. */
static void note_result(ls_loader *loader, ls_status status)
{
    if (status == LS_OK) {
        loader->filled++;
        return;
    }
    loader->status = status;
    snprintf(loader->error, sizeof loader->error, "%s", ls_last_error());
}

/* ---- the reader --------------------------------------------------------- */

static bool has_work(const ls_loader *loader)
{
    return loader->status == LS_OK && loader->filled < loader->batches &&
           loader->filled < loader->released + loader->n_slots;
}

static void *reader_main(void *context)
{
    ls_loader *loader = context;
    pthread_mutex_lock(&loader->lock);
    while (!loader->quit) {
        if (!has_work(loader)) {
            pthread_cond_wait(&loader->may_read, &loader->lock);
            continue;
        }
        const int64_t batch = loader->filled;
        loader->reading = true;
        pthread_mutex_unlock(&loader->lock);
        const ls_status status = read_batch(loader, batch);
        pthread_mutex_lock(&loader->lock);
        loader->reading = false;
        note_result(loader, status);
        pthread_cond_signal(&loader->has_read);
    }
    pthread_mutex_unlock(&loader->lock);
    return NULL;
}

/* Signals are the program's business, so its own threads get them. */
static ls_status start_reader(ls_loader *loader)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    const int result =
        pthread_create(&loader->reader, NULL, reader_main, loader);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (result != 0)
        return lsi_fail(LS_ERR_SYSTEM,
                        "cannot start the thread that reads ahead: %s",
                        strerror(result));
    loader->threaded = true;
    pthread_setname_np(loader->reader, "lockstep-data");
    return LS_OK;
}

/* With the lock held: afterwards the reader uses nothing of the epoch. */
static void stop_epoch(ls_loader *loader)
{
    loader->batches = 0;
    while (loader->reading)
        pthread_cond_wait(&loader->has_read, &loader->lock);
}

/* ---- making and freeing ------------------------------------------------- */

static ls_status wrap(ls_batch *batch, const slot *s, int64_t n)
{
    const int64_t shape[] = {n, LSI_IMAGE_CHANNELS, LSI_IMAGE_SIDE,
                             LSI_IMAGE_SIDE};
    ls_batch made = {.count = n};
    LS_TRY(ls_tensor_wrap(&made.images, s->images, LS_F32, 4, shape));
    const ls_status status =
        ls_tensor_wrap(&made.labels, s->labels, LS_I64, 1, shape);
    if (status != LS_OK) {
        ls_tensor_free(&made.images);
        return status;
    }
    *batch = made;
    return LS_OK;
}

static void unwrap(ls_batch *batch)
{
    ls_tensor_free(&batch->images);
    ls_tensor_free(&batch->labels);
}

static ls_status fill_slot(slot *s, int64_t batch_size)
{
    const size_t n = (size_t)batch_size;
    void *block = NULL;
    LS_TRY(lsi_alloc(&block, n * LSI_IMAGE_BYTES * sizeof(float),
                     LS_MEMORY_DATA, "images of a batch"));
    s->images = block;
    LS_TRY(lsi_alloc(&block, n * sizeof(int64_t), LS_MEMORY_DATA,
                     "labels of a batch"));
    s->labels = block;
    return wrap(&s->whole, s, batch_size);
}

static ls_status make_slots(ls_loader *loader)
{
    void *block = NULL;
    LS_TRY(lsi_alloc_zeroed(&block, (size_t)loader->n_slots * sizeof(slot),
                            LS_MEMORY_DATA, "loader"));
    loader->slots = block;
    for (int i = 0; i < loader->n_slots; i++)
        LS_TRY(fill_slot(&loader->slots[i], loader->batch_size));
    return LS_OK;
}

static void free_slots(ls_loader *loader)
{
    for (int i = 0; loader->slots != NULL && i < loader->n_slots; i++) {
        slot *s = &loader->slots[i];
        unwrap(&s->whole);
        lsi_free(s->images);
        lsi_free(s->labels);
    }
    lsi_free(loader->slots);
}

static ls_status check_options(int64_t batch_size, int prefetch)
{
    const int64_t most = INT64_MAX / ((int64_t)sizeof(float) * LSI_IMAGE_BYTES);
    if (batch_size < 1 || batch_size > most)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "loader: batch_size is %" PRId64 ", must be at least 1",
                        batch_size);
    if (prefetch < 0 || prefetch > MAX_PREFETCH)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "loader: prefetch is %d, must be 0 to %d", prefetch,
                        MAX_PREFETCH);
    return LS_OK;
}

ls_status ls_loader_new(ls_loader **out, const ls_dataset *dataset,
                        int64_t batch_size, int prefetch)
{
    LS_NEED(out);
    LS_NEED(dataset);
    LS_TRY(check_options(batch_size, prefetch));
    void *block = NULL;
    LS_TRY(
        lsi_alloc_zeroed(&block, sizeof(ls_loader), LS_MEMORY_DATA, "loader"));
    ls_loader *loader = block;
    loader->dataset = dataset;
    loader->batch_size = batch_size;
    loader->n_slots = prefetch + 1;
    pthread_mutex_init(&loader->lock, NULL);
    pthread_cond_init(&loader->may_read, NULL);
    pthread_cond_init(&loader->has_read, NULL);
    ls_status status = make_slots(loader);
    if (status == LS_OK && prefetch > 0)
        status = start_reader(loader);
    if (status != LS_OK) {
        ls_loader_free(&loader);
        return status;
    }
    *out = loader;
    return LS_OK;
}

static void join_reader(ls_loader *loader)
{
    pthread_mutex_lock(&loader->lock);
    loader->quit = true;
    pthread_cond_signal(&loader->may_read);
    pthread_mutex_unlock(&loader->lock);
    pthread_join(loader->reader, NULL);
}

void ls_loader_free(ls_loader **loader)
{
    if (loader == NULL || *loader == NULL)
        return;
    ls_loader *l = *loader;
    if (l->threaded)
        join_reader(l);
    unwrap(&l->rest);
    free_slots(l);
    lsi_free(l->indices);
    pthread_cond_destroy(&l->has_read);
    pthread_cond_destroy(&l->may_read);
    pthread_mutex_destroy(&l->lock);
    lsi_free(l);
    *loader = NULL;
}

/* ---- the consumer ------------------------------------------------------- */

ls_status ls_loader_begin(ls_loader *loader, const int64_t *indices, int64_t n)
{
    LS_NEED(loader);
    if (n > 0)
        LS_NEED(indices);
    if (n < 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "loader: n is %" PRId64 ", must be >= 0", n);
    void *copy = NULL;
    const size_t bytes = (size_t)n * sizeof(int64_t);
    LS_TRY(lsi_alloc(&copy, bytes, LS_MEMORY_DATA, "indices of an epoch"));
    if (n > 0)
        memcpy(copy, indices, bytes);

    pthread_mutex_lock(&loader->lock);
    stop_epoch(loader);
    lsi_free(loader->indices);
    loader->indices = copy;
    loader->n = n;
    loader->batches = n / loader->batch_size + (n % loader->batch_size != 0);
    loader->begun = true;
    loader->filled = loader->taken = loader->released = 0;
    loader->status = LS_OK;
    pthread_cond_signal(&loader->may_read);
    pthread_mutex_unlock(&loader->lock);
    return LS_OK;
}

/* With the lock held: waits for the next batch, an error or the end. */
static void await_batch(ls_loader *loader)
{
    loader->released = loader->taken;
    if (!loader->threaded) {
        if (has_work(loader))
            note_result(loader, read_batch(loader, loader->filled));
        return;
    }
    pthread_cond_signal(&loader->may_read);
    while (loader->status == LS_OK && loader->filled == loader->taken &&
           loader->taken < loader->batches)
        pthread_cond_wait(&loader->has_read, &loader->lock);
}

static ls_status hand_out(ls_loader *loader, int64_t index, ls_batch *batch)
{
    const slot *s = &loader->slots[index % loader->n_slots];
    const int64_t n = batch_count(loader, index);
    if (n < loader->batch_size) {
        unwrap(&loader->rest);
        LS_TRY(wrap(&loader->rest, s, n));
    }
    *batch = n < loader->batch_size ? loader->rest : s->whole;
    return LS_OK;
}

ls_status ls_loader_next(ls_loader *loader, ls_batch *batch)
{
    LS_NEED(loader);
    LS_NEED(batch);
    if (!loader->begun)
        return lsi_fail(LS_ERR_STATE,
                        "ls_loader_next: call ls_loader_begin first");
    pthread_mutex_lock(&loader->lock);
    await_batch(loader);
    const bool has_batch = loader->taken < loader->filled;
    const ls_status status = loader->status;
    pthread_mutex_unlock(&loader->lock);

    if (has_batch) {
        LS_TRY(hand_out(loader, loader->taken, batch));
        loader->taken++;
        return LS_OK;
    }
    if (status != LS_OK)
        return lsi_fail(status, "%s", loader->error);
    *batch = (ls_batch){.count = 0};
    return LS_OK;
}
