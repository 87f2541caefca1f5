/*
 * lockstep bench loader: how fast a loader reads a dataset, next to reading its
 * items one by one in the caller's thread.
 *
 * Both read the same items in the same order. The batches of the first pass are
 * compared with the items read one by one.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "cli/bench/bench.h"
#include "cli/frame/list.h"
#include "comm/api/outcome.h"
#include "lockstep/data.h"

typedef struct state {
    lsi_bench_common common;
    const char *data, *as, *threads;
    lsi_list thread_list;
    int64_t batch_size, prefetch, items, image_size;
    bool augment, verify;
    ls_dataset *set;
    int64_t *indices; /* of this rank */
    int64_t n;
} state;

#define ROW(...) LSI_OPTION(state, __VA_ARGS__)
static const lsi_option options[] = {
    LSI_BENCH_ROWS("1", "1", "5"),
    ROW(data, STRING, "data", 0, "PATH", NULL,
        "dataset to read (default: 5,000 built-in images of 3 x 32 x 32)"),
    ROW(as, CHOICE, "as", 0, "KIND", "images",
        "kind of data: images, arrays of any shape, or a table of numbers",
        .choices = "images|arrays|table"),
    ROW(image_size, INT, "image-size", 0, "N", "0",
        "resize images to N x N pixels; 0: keep the size of the data", .min = 0,
        .max = 4096),
    ROW(augment, BOOL, "augment", 0, NULL, NULL,
        "mirror images at random, and shift them by up to 4 pixels"),
    LSI_VERIFY_DATA_ROW(verify),
    ROW(threads, LIST, "loader-threads", 0, "N,...", "1,2",
        "number of threads per rank that read ahead"),
    ROW(batch_size, INT, "batch-size", 'b', "N", "64", "items per batch",
        .min = 1, .max = 1e6),
    ROW(prefetch, INT, "prefetch", 0, "N", "4",
        "number of batches to read ahead", .min = 1, .max = 1024),
    ROW(items, INT, "items", 0, "N", "10000", "maximum number of items per run",
        .min = 1, .max = 1e9),
};

static const lsi_column columns[] = {
    LSI_COLUMN(INT, "loader_threads", "Threads"),
    LSI_COLUMN(INT, "ranks", "Ranks"),
    LSI_COLUMN(INT, "batch", "Batch"),
    LSI_COLUMN(INT, "items", "Items"),
    LSI_COLUMN(REAL, "items_per_second", "Loader", .unit = "items/s",
               .decimals = 0),
    LSI_COLUMN(REAL, "alone_per_second", "Without loader", .unit = "items/s",
               .decimals = 0),
    LSI_COLUMN(REAL, "ratio", "Speed-up", .decimals = 2),
};

/* ---- one pass ------------------------------------------------------------ */

/* Room for a batch, field by field. */
typedef struct room {
    void *fields[LS_MAX_FIELDS];
    size_t bytes[LS_MAX_FIELDS]; /* of an item */
} room;

static ls_status make_room(const state *b, room *r)
{
    for (size_t f = 0; f < ls_dataset_field_count(b->set); f++) {
        const ls_field *const field = ls_dataset_field(b->set, f);
        r->bytes[f] = ls_dtype_size(field->dtype);
        for (int i = 0; i < field->ndim; i++)
            r->bytes[f] *= (size_t)field->shape[i];
        LS_TRY(lsi_alloc(&r->fields[f], r->bytes[f] * (size_t)b->batch_size,
                         LS_MEMORY_OTHER, "a batch read without the loader"));
    }
    return LS_OK;
}

static void free_room(room *r)
{
    for (int f = 0; f < LS_MAX_FIELDS; f++)
        lsi_free(r->fields[f]);
}

static ls_status read_alone(const state *b, const room *r)
{
    for (int64_t at = 0; at < b->n; at += b->batch_size) {
        const int64_t left = b->n - at;
        LS_TRY(ls_dataset_read(b->set, 0, b->indices + at,
                               left < b->batch_size ? left : b->batch_size,
                               r->fields));
    }
    return LS_OK;
}

static ls_status load(const state *b, ls_loader *loader)
{
    ls_batch batch;
    LS_TRY(ls_loader_begin(loader, 0, b->indices, b->n));
    do {
        LS_TRY(ls_loader_next(loader, &batch));
    } while (batch.count > 0);
    return LS_OK;
}

static ls_status compare(state *b, ls_loader *loader, const room *r)
{
    LS_TRY(ls_loader_begin(loader, 0, b->indices, b->n));
    for (int64_t at = 0;;) {
        ls_batch batch;
        LS_TRY(ls_loader_next(loader, &batch));
        if (batch.count == 0) {
            b->common.wrong = b->common.wrong || at != b->n;
            return LS_OK;
        }
        LS_TRY(ls_dataset_read(b->set, 0, b->indices + at, batch.count,
                               r->fields));
        for (size_t f = 0; f < ls_dataset_field_count(b->set); f++) {
            void *got;
            LS_TRY(ls_tensor_map(batch.fields[f], &got));
            if (memcmp(got, r->fields[f], (size_t)batch.count * r->bytes[f]) !=
                0)
                b->common.wrong = true;
        }
        at += batch.count;
    }
}

/* ---- measuring ----------------------------------------------------------- */

/* In turn, so that both see the same machine; as long as the slowest rank. */
static ls_status time_passes(state *b, ls_loader *loader, const room *r,
                             double *loaded, double *alone)
{
    const int64_t warmup = b->common.warmup, n = b->common.iterations;
    ls_group *const group = b->common.group;
    for (int64_t i = -warmup; i < n; i++) {
        double times[3];
        LS_TRY(ls_barrier(group));
        times[0] = lsi_clock_seconds();
        LS_TRY(load(b, loader));
        times[1] = lsi_clock_seconds();
        LS_TRY(ls_barrier(group));
        const double begin = lsi_clock_seconds();
        LS_TRY(read_alone(b, r));
        times[2] = lsi_clock_seconds();
        if (i < 0)
            continue;
        loaded[i] = times[1] - times[0];
        alone[i] = times[2] - begin;
    }
    LS_TRY(
        ls_all_reduce(group, loaded, loaded, (size_t)n, LS_F64, LS_REDUCE_MAX));
    return ls_all_reduce(group, alone, alone, (size_t)n, LS_F64, LS_REDUCE_MAX);
}

static ls_status record(state *b, int64_t threads, const double *loaded,
                        const double *alone)
{
    lsi_table *const table = b->common.table;
    const size_t n = (size_t)b->common.iterations;
    lsi_stats with, without;
    int64_t items = b->n;
    LS_TRY(ls_all_reduce(b->common.group, &items, &items, 1, LS_I64,
                         LS_REDUCE_SUM));
    LS_TRY(lsi_stats_of(loaded, n, &with));
    LS_TRY(lsi_stats_of(alone, n, &without));
    lsi_table_row(table);
    lsi_table_int(table, "loader_threads", threads);
    lsi_table_int(table, "ranks", ls_group_size(b->common.group));
    lsi_table_int(table, "batch", b->batch_size);
    lsi_table_int(table, "items", items);
    lsi_table_real(table, "items_per_second", (double)items / with.median);
    lsi_table_real(table, "alone_per_second", (double)items / without.median);
    lsi_table_real(table, "ratio", without.median / with.median);
    return LS_OK;
}

static ls_status measure_with(state *b, int64_t threads, const room *r,
                              double *times)
{
    const ls_loader_options o = {.batch_size = b->batch_size,
                                 .prefetch = (int)b->prefetch,
                                 .threads = (int)threads};
    double *const alone = times + b->common.iterations;
    ls_loader *loader;
    LS_TRY(ls_loader_new(&loader, b->set, &o));
    ls_status status = compare(b, loader, r);
    if (status == LS_OK)
        status = time_passes(b, loader, r, times, alone);
    if (status == LS_OK)
        status = record(b, threads, times, alone);
    ls_loader_free(&loader);
    return status;
}

static ls_status measure(void *opaque, size_t i)
{
    state *const b = opaque;
    room r = {0};
    void *times = NULL;
    ls_status status = make_room(b, &r);
    if (status == LS_OK)
        status =
            lsi_alloc(&times, 2 * (size_t)b->common.iterations * sizeof(double),
                      LS_MEMORY_OTHER, "times");
    if (status == LS_OK)
        status = measure_with(b, b->thread_list.values[i], &r, times);
    lsi_free(times);
    free_room(&r);
    return status;
}

/* ---- data ---------------------------------------------------------------- */

static ls_status parse(void *opaque)
{
    state *const b = opaque;
    return lsi_list_of_numbers("--loader-threads", b->threads, 1, 64,
                               &b->thread_list);
}

static ls_status open_set(state *b)
{
    enum { BUILT_IN = 5000, SHIFT = 4 };
    const bool skip = !b->verify || ls_group_local_rank(b->common.group) != 0;
    const ls_array_options arrays = {.skip_checksums = skip};
    const ls_image_options images = {.size = b->image_size,
                                     .skip_checksums = skip,
                                     .flip = b->augment,
                                     .pad = b->augment ? SHIFT : 0};
    if (b->data == NULL)
        return ls_dataset_new_synthetic(&b->set, BUILT_IN, 0, LS_SUBSET_TRAIN);
    if (strcmp(b->as, "arrays") == 0)
        return ls_dataset_new_arrays(&b->set, b->data, &arrays);
    if (strcmp(b->as, "table") == 0)
        return ls_dataset_new_csv(&b->set, b->data, NULL, NULL);
    return ls_dataset_new_images(&b->set, b->data, LS_SUBSET_TRAIN, &images);
}

/* Shuffled, as training reads them. */
static ls_status open_cases(void *opaque)
{
    state *const b = opaque;
    bool agreed = false;
    b->common.cases = b->thread_list.n;
    LS_TRY(lsi_share_outcome(b->common.group, open_set(b), &agreed));
    const ls_sampler sampler = {.count = ls_dataset_count(b->set),
                                .rank = ls_group_rank(b->common.group),
                                .size = ls_group_size(b->common.group),
                                .shuffle = true};
    b->n = ls_sampler_count(&sampler);
    LS_TRY(lsi_alloc(&b->indices, (size_t)b->n * sizeof(int64_t),
                     LS_MEMORY_OTHER, "order of the items"));
    const int64_t share = (b->items + sampler.size - 1) / sampler.size;
    LS_TRY(ls_sampler_fill(&sampler, b->indices));
    b->n = b->n < share ? b->n : share;
    return LS_OK;
}

static void close_cases(void *opaque)
{
    state *const b = opaque;
    lsi_free(b->indices);
    ls_dataset_free(&b->set);
}

const lsi_bench lsi_bench_loader = {
    .command =
        {.name = "loader",
         .summary = "Compare reading data with and without a loader",
         .text =
             "A run reads the same items twice: first through a loader with "
             "threads that read ahead, then without a loader, in the caller's "
             "thread. The caller does nothing with the items, so column "
             "Speed-up shows the effect of the loader's threads alone. If the "
             "two reads return different data, the exit status is 1.",
         LSI_COMMAND_OPTIONS(options),
         .run = lsi_bench_run},
    LSI_BENCH_TABLES(state, columns),
    .ranks = "1",
    .parse = parse,
    .open = open_cases,
    .close = close_cases,
    .measure = measure,
};
