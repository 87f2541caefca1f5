/*
 * Reading spans from the files of a process. In a file, the spans of a thread
 * are in the order of their ends. A chunk can contain a span that began long
 * before the others.
 *
 * The cursor opens a chunk when its earliest beginning is due and merges the
 * open chunks, so that few are in memory at a time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/grow.h"
#include "report/timeline_private.h"

/* Upper limit of ticks and nanoseconds: decades. */
#define MOST_TIME (INT64_C(1) << 62)

/* ---- bytes --------------------------------------------------------------- */

ls_status lsi_timeline_bytes_open(const lsi_timeline_source *source,
                                  size_t file, lsi_timeline_bytes *bytes)
{
    if (bytes->fd >= 0 && bytes->file == file)
        return LS_OK;
    if (bytes->fd >= 0)
        close(bytes->fd);
    bytes->fd = -1;
    bytes->file = file;
    return lsi_open_regular(source->files[file], 0, &bytes->fd, &bytes->size);
}

static bool make_room(lsi_timeline_bytes *bytes, size_t n)
{
    enum { LEAST = 1 << 16 };
    if (n <= bytes->room && bytes->buffer != NULL)
        return true;
    const size_t room = n < LEAST ? LEAST : n;
    void *const larger = realloc(bytes->buffer, room);
    if (larger == NULL)
        return false;
    bytes->buffer = larger;
    bytes->room = room;
    return true;
}

const unsigned char *lsi_timeline_bytes_at(const lsi_timeline_source *source,
                                           lsi_timeline_bytes *bytes,
                                           uint64_t at, size_t n,
                                           ls_status *status)
{
    const char *const path = source->files[bytes->file];
    if (!make_room(bytes, n)) {
        *status =
            lsi_fail(LS_ERR_MEMORY, "not enough memory to read '%s'", path);
        return NULL;
    }
    for (size_t done = 0; done < n;) {
        const ssize_t some = pread(bytes->fd, bytes->buffer + done, n - done,
                                   (off_t)(at + done));
        if (some < 0 && errno == EINTR)
            continue;
        if (some < 0)
            *status = lsi_fail_errno(LS_ERR_IO, "cannot read '%s'", path);
        else if (some == 0)
            *status = lsi_fail(LS_ERR_FORMAT,
                               "'%s' became shorter while it was read", path);
        if (some <= 0)
            return NULL;
        done += (size_t)some;
    }
    return bytes->buffer;
}

void lsi_timeline_bytes_close(lsi_timeline_bytes *bytes)
{
    if (bytes->fd >= 0)
        close(bytes->fd);
    free(bytes->buffer);
    *bytes = (lsi_timeline_bytes){.fd = -1};
}

/* ---- ticks to time ------------------------------------------------------- */

/*
 * The first of two adjacent clock readings around the ticks, or the last two.
 */
static size_t find_clock(const lsi_timeline_source *source, int64_t ticks)
{
    size_t low = 0, high = source->n_clocks - 1;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (source->clocks[middle].ticks <= ticks)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Linear between two readings of both clocks, so it never goes backwards. */
int64_t lsi_timeline_time(const lsi_timeline_process *process, int64_t ticks)
{
    const lsi_timeline_source *const source = process->source;
    const lsi_timeline_clock *const c =
        &source->clocks[find_clock(source, ticks)];
    const double rate =
        (double)(c[1].ns - c[0].ns) / (double)(c[1].ticks - c[0].ticks);
    const double since = (double)(ticks - c[0].ticks) * rate;
    const double most = (double)MOST_TIME / 2;
    return process->offset + c[0].ns +
           (int64_t)(since < -most  ? -most
                     : since > most ? most
                                    : since);
}

/* ---- in any order -------------------------------------------------------- */

int64_t lsi_timeline_first(const lsi_timeline_process *process)
{
    const lsi_timeline_source *const source = process->source;
    int64_t first = INT64_MAX;
    for (size_t i = 0; i < source->n_chunks; i++)
        if (source->chunks[i].first < first)
            first = source->chunks[i].first;
    return first == INT64_MAX ? first : lsi_timeline_time(process, first);
}

static ls_status give(const lsi_timeline_span *spans, size_t n, unsigned kinds,
                      lsi_timeline_taker *take, void *context)
{
    for (size_t i = 0; i < n; i++)
        if ((kinds >> spans[i].kind & 1) != 0)
            LS_TRY(take(context, &spans[i]));
    return LS_OK;
}

static ls_status no_memory(void)
{
    return lsi_fail(LS_ERR_MEMORY,
                    "not enough memory for the spans of a trace");
}

static size_t most_spans(const lsi_timeline_source *source)
{
    size_t most = 1;
    for (size_t i = 0; i < source->n_chunks; i++)
        if (source->chunks[i].n > most)
            most = source->chunks[i].n;
    return most;
}

ls_status lsi_timeline_scan(const lsi_timeline_process *process, unsigned kinds,
                            lsi_timeline_taker *take, void *context)
{
    const lsi_timeline_source *const source = process->source;
    lsi_timeline_bytes bytes = {.fd = -1};
    ls_status status = LS_OK;
    lsi_timeline_span *const spans =
        calloc(most_spans(source), sizeof(lsi_timeline_span));
    if (spans == NULL)
        return no_memory();
    for (size_t i = 0; i < source->n_chunks && status == LS_OK; i++) {
        const lsi_timeline_chunk *const chunk = &source->chunks[i];
        if ((chunk->kinds & kinds) == 0)
            continue;
        status = lsi_timeline_decode(process, chunk, &bytes, spans);
        if (status == LS_OK)
            status = give(spans, chunk->n, kinds, take, context);
    }
    lsi_timeline_bytes_close(&bytes);
    free(spans);
    return status;
}

/* ---- in order ------------------------------------------------------------ */

int lsi_timeline_order(const void *a, const void *b)
{
    const lsi_timeline_span *x = a, *y = b;
    if (x->begin != y->begin)
        return (x->begin > y->begin) - (x->begin < y->begin);
    if (x->end != y->end)
        return (x->end < y->end) - (x->end > y->end);
    return (x->kind > y->kind) - (x->kind < y->kind);
}

/* A span and its place among equal ones, the place in the files. */
typedef struct entry {
    lsi_timeline_span span;
    uint32_t at;
} entry;

typedef struct open_chunk {
    size_t chunk;
    entry *entries;
    size_t n, next;
} open_chunk;

struct lsi_timeline_cursor {
    const lsi_timeline_process *process;
    size_t next;      /* index into `order` */
    size_t *order;    /* chunks in the order of their earliest beginnings */
    int64_t *first;   /* earliest beginnings, by chunk */
    open_chunk *open; /* a heap: the chunk of the next span is the first */
    size_t n, room;
    bool given; /* the caller has the next span of that chunk */
    lsi_timeline_bytes bytes;
    lsi_timeline_span *spans; /* room for the spans of any chunk */
};

static int by_span(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    const int order = lsi_timeline_order(&x->span, &y->span);
    return order != 0 ? order : (x->at > y->at) - (x->at < y->at);
}

static bool is_before(const open_chunk *a, const open_chunk *b)
{
    const int order = lsi_timeline_order(&a->entries[a->next].span,
                                         &b->entries[b->next].span);
    return order < 0 || (order == 0 && a->chunk < b->chunk);
}

static void swap(open_chunk *a, open_chunk *b)
{
    const open_chunk other = *a;
    *a = *b;
    *b = other;
}

static void sift_up(open_chunk *heap, size_t i)
{
    for (; i > 0 && is_before(&heap[i], &heap[(i - 1) / 2]); i = (i - 1) / 2)
        swap(&heap[i], &heap[(i - 1) / 2]);
}

static void sift_down(open_chunk *heap, size_t n)
{
    for (size_t i = 0, child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && is_before(&heap[child + 1], &heap[child]))
            child++;
        if (!is_before(&heap[child], &heap[i]))
            return;
        swap(&heap[child], &heap[i]);
    }
}

/* Compares chunks, by number, with the key `first`. */
static int by_first(const void *a, const void *b, void *first)
{
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;
    const int64_t *const of = first;
    if (of[x] != of[y])
        return (of[x] > of[y]) - (of[x] < of[y]);
    return (x > y) - (x < y);
}

static ls_status make_order(lsi_timeline_cursor *c)
{
    const lsi_timeline_source *const source = c->process->source;
    const size_t n = source->n_chunks;
    c->order = calloc(n + 1, sizeof(size_t));
    c->first = calloc(n + 1, sizeof(int64_t));
    c->spans = calloc(most_spans(source), sizeof(lsi_timeline_span));
    if (c->order == NULL || c->first == NULL || c->spans == NULL)
        return no_memory();
    for (size_t i = 0; i < n; i++) {
        c->order[i] = i;
        c->first[i] = lsi_timeline_time(c->process, source->chunks[i].first);
    }
    if (n > 0)
        qsort_r(c->order, n, sizeof(size_t), by_first, c->first);
    return LS_OK;
}

ls_status lsi_timeline_cursor_open(const lsi_timeline_process *process,
                                   lsi_timeline_cursor **out)
{
    lsi_timeline_cursor *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return no_memory();
    c->process = process;
    c->bytes.fd = -1;
    const ls_status status = make_order(c);
    if (status == LS_OK)
        *out = c;
    else
        lsi_timeline_cursor_close(&c);
    return status;
}

static ls_status read_chunk(lsi_timeline_cursor *c, size_t chunk)
{
    const lsi_timeline_chunk *const from = &c->process->source->chunks[chunk];
    entry *const entries = malloc(from->n * sizeof(entry));
    if (entries == NULL)
        return no_memory();
    const ls_status status =
        lsi_timeline_decode(c->process, from, &c->bytes, c->spans);
    if (status != LS_OK) {
        free(entries);
        return status;
    }
    for (uint32_t i = 0; i < from->n; i++)
        entries[i] = (entry){c->spans[i], i};
    qsort(entries, from->n, sizeof(entry), by_span);
    c->open[c->n] = (open_chunk){chunk, entries, from->n, 0};
    sift_up(c->open, c->n++);
    return LS_OK;
}

/* Opens the chunks that may have a span as early as the next one. */
static ls_status open_chunks(lsi_timeline_cursor *c)
{
    const size_t n = c->process->source->n_chunks;
    for (; c->next < n; c->next++) {
        const size_t chunk = c->order[c->next];
        const open_chunk *const top = c->open;
        if (c->n > 0 && c->first[chunk] > top->entries[top->next].span.begin)
            break;
        if (!lsi_grow_array(&c->open, c->n, &c->room, sizeof(open_chunk)))
            return no_memory();
        LS_TRY(read_chunk(c, chunk));
    }
    return LS_OK;
}

/* Releases the span that the caller has had. */
static void advance(lsi_timeline_cursor *c)
{
    open_chunk *const top = c->open;
    c->given = false;
    if (++top->next == top->n) {
        free(top->entries);
        *top = c->open[--c->n];
    }
    sift_down(c->open, c->n);
}

ls_status lsi_timeline_cursor_next(lsi_timeline_cursor *c,
                                   const lsi_timeline_span **out)
{
    if (c->given)
        advance(c);
    LS_TRY(open_chunks(c));
    c->given = c->n > 0;
    *out = c->n > 0 ? &c->open[0].entries[c->open[0].next].span : NULL;
    return LS_OK;
}

void lsi_timeline_cursor_close(lsi_timeline_cursor **cursor)
{
    lsi_timeline_cursor *const c = *cursor;
    *cursor = NULL;
    if (c == NULL)
        return;
    for (size_t i = 0; i < c->n; i++)
        free(c->open[i].entries);
    free(c->open);
    free(c->order);
    free(c->first);
    free(c->spans);
    lsi_timeline_bytes_close(&c->bytes);
    free(c);
}

ls_status lsi_timeline_load(lsi_timeline_process *process)
{
    lsi_timeline_cursor *cursor;
    const lsi_timeline_span *next = NULL;
    if (process->spans != NULL)
        return LS_OK;
    LS_TRY(lsi_timeline_cursor_open(process, &cursor));
    lsi_timeline_span *const spans =
        calloc(process->n + 1, sizeof(lsi_timeline_span));
    ls_status status = spans != NULL ? LS_OK : no_memory();
    for (size_t i = 0; i < process->n && status == LS_OK; i++) {
        status = lsi_timeline_cursor_next(cursor, &next);
        if (status != LS_OK || next == NULL)
            break;
        spans[i] = *next;
    }
    lsi_timeline_cursor_close(&cursor);
    if (status == LS_OK)
        process->spans = spans;
    else
        free(spans);
    return status;
}
