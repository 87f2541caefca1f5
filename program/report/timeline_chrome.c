/* The timeline in Chrome's trace event format. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/grow.h"
#include "base/json.h"
#include "report/timeline_private.h"

/* Rows of groups follow those of threads. */
enum { GROUP_ROWS = 100000, KINDS_OF_MEMORY = 16, MOST_PARTS = 1 << 19 };

/* Nanoseconds below which a double holds microseconds with three digits. */
#define MOST_EXACT INT64_C(1000000000000000)

typedef struct counter {
    uint32_t name;
    uint64_t bytes;
} counter;

typedef struct writer {
    FILE *stream;
    int64_t begin;
    bool any; /* an event has been written */
    /* State of the process that is being written: */
    const lsi_timeline_process *process;
    int pid;
    char **names; /* as JSON */
    counter counters[KINDS_OF_MEMORY];
    size_t n_counters;
} writer;

/* ---- texts --------------------------------------------------------------- */

/* Text as JSON, with its quotes. NULL without memory. */
static char *quote(const char *text)
{
    json_t *json = lsi_json_text(text, strlen(text));
    char *const quoted =
        json != NULL ? lsi_json_dumps(json, JSON_ENCODE_ANY) : NULL;
    json_decref(json);
    return quoted;
}

static void free_names(writer *w)
{
    for (size_t i = 0; w->names != NULL && i < w->process->n_names; i++)
        free(w->names[i]);
    free(w->names);
    w->names = NULL;
}

static bool quote_names(writer *w)
{
    const size_t n = w->process->n_names;
    w->names = calloc(n + 1, sizeof(char *));
    for (size_t i = 0; w->names != NULL && i < n; i++) {
        const char *const name = w->process->names[i];
        w->names[i] = quote(name != NULL ? name : "unknown");
        if (w->names[i] == NULL)
            return false;
    }
    return w->names != NULL;
}

static const char *name_of(const writer *w, const lsi_timeline_span *s)
{
    return s->name < w->process->n_names ? w->names[s->name] : "\"unknown\"";
}

/* ---- events -------------------------------------------------------------- */

/* Writes microseconds with three decimals, faster than %.3f. */
static void put_us(const writer *w, int64_t ns)
{
    char digits[24];
    size_t at = sizeof(digits);
    if (ns < 0 || ns >= MOST_EXACT) {
        fprintf(w->stream, "%.3f", (double)ns * 1e-3);
        return;
    }
    for (int i = 0; i < 5 || ns > 0; i++) {
        if (i == 3)
            digits[--at] = '.';
        else {
            digits[--at] = (char)('0' + ns % 10);
            ns /= 10;
        }
    }
    fwrite(digits + at, 1, sizeof(digits) - at, w->stream);
}

static void put_time(const writer *w, int64_t ns)
{
    fputs(",\"ts\":", w->stream);
    put_us(w, ns - w->begin);
}

static void begin_event(writer *w)
{
    fputs(w->any ? ",\n" : "\n", w->stream);
    w->any = true;
}

static void put_row_name(writer *w, const char *what, int row, const char *text)
{
    char *const quoted = quote(text);
    begin_event(w);
    fprintf(w->stream,
            "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"args\":{"
            "\"name\":%s}}",
            what, w->pid, row, quoted != NULL ? quoted : "\"?\"");
    free(quoted);
}

static int group_row(uint64_t group)
{
    return GROUP_ROWS + (int)(group % GROUP_ROWS);
}

static const char *const kinds[] = {/* as JSON */
#define X(NAME, name, bytes, work, id) "\"" name "\"",
                                    LSI_SPAN_KIND_LIST(X)
#undef X
};

static bool is_of_weights(const lsi_timeline_span *s)
{
    return s->kind >= LSI_SPAN_GATHER && s->kind <= LSI_SPAN_ANSWER;
}

/* Spans of weights have the name of their kind, and their layer in args. */
static const char *title_of(const writer *w, const lsi_timeline_span *s)
{
    return is_of_weights(s) ? kinds[s->kind] : name_of(w, s);
}

static void put_weights_args(writer *w, const lsi_timeline_span *s)
{
    fprintf(w->stream,
            ",\"args\":{\"layer\":%s,\"bytes\":%" PRIu64 ",\"node\":%" PRIu64
            "}",
            name_of(w, s), s->bytes, s->id);
}

/* A span of a thread, or of a group: spans of one row nest. */
static void put_slice(writer *w, const lsi_timeline_span *s)
{
    const bool transfer = s->kind == LSI_SPAN_TRANSFER;
    begin_event(w);
    fprintf(w->stream,
            "{\"ph\":\"X\",\"cat\":%s,\"name\":%s,\"pid\":%d,\"tid\":%d",
            kinds[s->kind], title_of(w, s), w->pid,
            transfer ? group_row(s->work) : s->thread + 1);
    put_time(w, s->begin);
    fputs(",\"dur\":", w->stream);
    put_us(w, s->end - s->begin);
    if (transfer)
        fprintf(w->stream,
                ",\"args\":{\"bytes\":%" PRIu64 ",\"group\":%" PRIu64
                ",\"sequence\":%" PRIu64 "}",
                s->bytes, s->work, s->id);
    else if (is_of_weights(s))
        put_weights_args(w, s);
    else if (s->kind == LSI_SPAN_STEP)
        fprintf(w->stream, ",\"args\":{\"step\":%" PRIu64 "}", s->id);
    else if (s->bytes != 0 || s->work != 0)
        fprintf(w->stream,
                ",\"args\":{\"bytes\":%" PRIu64 ",\"operations\":%" PRIu64 "}",
                s->bytes, s->work);
    fputc('}', w->stream);
}

static bool is_async(const lsi_timeline_span *s)
{
    return s->kind == LSI_SPAN_GATHERING || s->kind == LSI_SPAN_MESSAGE ||
           s->kind == LSI_SPAN_GATHER || s->kind == LSI_SPAN_ANSWER;
}

/* A span outside of rows: several may be in flight at once. */
static void put_async(writer *w, const lsi_timeline_span *s, size_t number)
{
    for (int end = 0; end < 2; end++) {
        begin_event(w);
        fprintf(w->stream,
                "{\"ph\":\"%s\",\"cat\":%s,\"name\":%s,\"pid\":%d,"
                "\"tid\":%d,\"id\":\"%d.%zu\"",
                end ? "e" : "b", kinds[s->kind], title_of(w, s), w->pid,
                s->thread + 1, w->pid, number);
        put_time(w, end ? s->end : s->begin);
        if (!end && is_of_weights(s))
            put_weights_args(w, s);
        fputc('}', w->stream);
    }
}

/* Writes all kinds of memory when one of them has changed. */
static void put_memory(writer *w, const lsi_timeline_span *s)
{
    size_t i = 0;
    while (i < w->n_counters && w->counters[i].name != s->name)
        i++;
    if (i == KINDS_OF_MEMORY)
        return;
    w->n_counters += i == w->n_counters;
    w->counters[i] = (counter){s->name, s->bytes};
    begin_event(w);
    fprintf(w->stream, "{\"ph\":\"C\",\"name\":\"memory in use\",\"pid\":%d",
            w->pid);
    put_time(w, s->begin);
    fputs(",\"args\":{", w->stream);
    for (i = 0; i < w->n_counters; i++) {
        const lsi_timeline_span of = {.name = w->counters[i].name};
        fprintf(w->stream, "%s%s:%" PRIu64, i > 0 ? "," : "", name_of(w, &of),
                w->counters[i].bytes);
    }
    fputs("}}", w->stream);
}

/* ---- a process ----------------------------------------------------------- */

static void put_process_names(writer *w)
{
    const lsi_timeline_process *const p = w->process;
    char text[512];
    if (p->rank >= 0)
        snprintf(text, sizeof(text), "rank %d (%s, pid %d)", p->rank, p->host,
                 p->pid);
    else
        snprintf(text, sizeof(text), "process %d (%s)", p->pid, p->host);
    put_row_name(w, "process_name", 0, text);
    for (size_t i = 0; i < p->n_threads; i++) {
        snprintf(text, sizeof(text), "%.400s thread %zu",
                 p->threads[i] != NULL ? p->threads[i] : "", i);
        put_row_name(w, "thread_name", (int)i + 1, text);
    }
}

/* Names the groups that have a row. */
static void put_group_names(writer *w)
{
    const lsi_timeline_source *const source = w->process->source;
    for (size_t i = 0; i < source->n_groups; i++) {
        const uint64_t group = source->groups[i].group;
        char text[64];
        snprintf(text, sizeof(text), "collectives of group %" PRIu64, group);
        put_row_name(w, "thread_name", group_row(group), text);
    }
}

static void put_span(writer *w, const lsi_timeline_span *s, size_t number)
{
    if (s->kind == LSI_SPAN_MEMORY)
        put_memory(w, s);
    else if (is_async(s))
        put_async(w, s, number);
    else
        put_slice(w, s);
}

/* A full disk ends the writing early. */
static ls_status put_spans(writer *w)
{
    lsi_timeline_cursor *cursor;
    const lsi_timeline_span *span = NULL;
    LS_TRY(lsi_timeline_cursor_open(w->process, &cursor));
    ls_status status = lsi_timeline_cursor_next(cursor, &span);
    for (size_t i = 0; status == LS_OK && span != NULL && !ferror(w->stream);
         i++) {
        put_span(w, span, i);
        status = lsi_timeline_cursor_next(cursor, &span);
    }
    lsi_timeline_cursor_close(&cursor);
    return status;
}

static int pid_of(const lsi_timeline *t, size_t i)
{
    return t->process[i]->rank >= 0 ? t->process[i]->rank : 100000 + (int)i;
}

/* ---- collectives --------------------------------------------------------- */

/* The part of one rank in one collective. */
typedef struct part {
    uint64_t group, sequence;
    int64_t begin;
    int pid, row;
} part;

static int by_key(const part *a, const part *b)
{
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    return (a->sequence > b->sequence) - (a->sequence < b->sequence);
}

static int by_collective(const void *a, const void *b)
{
    const part *x = a, *y = b;
    const int order = by_key(x, y);
    return order != 0 ? order : (x->begin > y->begin) - (x->begin < y->begin);
}

/* Draws flows from the first rank to begin to the others, in their order. */
static void put_flow(writer *w, const part *parts, size_t n, size_t number)
{
    for (size_t i = 0; i < n; i++) {
        begin_event(w);
        fprintf(w->stream,
                "{\"ph\":\"%s\",\"cat\":\"collective\",\"name\":\"collective\","
                "\"id\":%zu,\"pid\":%d,\"tid\":%d",
                i == 0       ? "s"
                : i + 1 == n ? "f"
                             : "t",
                number, parts[i].pid, parts[i].row);
        put_time(w, parts[i].begin);
        fputs(i + 1 == n ? ",\"bp\":\"e\"}" : "}", w->stream);
    }
}

/*
 * Parts of the collectives after `after`. If there are too many, the first
 * collectives are kept whole, up to and including `last`.
 */
typedef struct batch {
    part *parts;
    size_t n, room, most;
    part after, last;
    bool any_after, cut;
    int pid;
} batch;

/* Keeps half of the parts, or more, so that no collective is cut. */
static void cut_batch(batch *b)
{
    qsort(b->parts, b->n, sizeof(part), by_collective);
    const part last = b->parts[b->n / 2];
    size_t n = b->n / 2;
    while (n < b->n && by_key(&b->parts[n], &last) == 0)
        n++;
    b->cut = b->cut || n < b->n;
    b->n = n;
    b->last = last;
}

static ls_status add_part(void *context, const lsi_timeline_span *s)
{
    batch *const b = context;
    const part one = {s->work, s->id, s->begin, b->pid, group_row(s->work)};
    if ((b->any_after && by_key(&one, &b->after) <= 0) ||
        (b->cut && by_key(&one, &b->last) > 0))
        return LS_OK;
    if (!lsi_grow_array(&b->parts, b->n, &b->room, sizeof(part)))
        return lsi_fail(LS_ERR_MEMORY, "not enough memory for the timeline");
    b->parts[b->n++] = one;
    if (b->n >= b->most) {
        cut_batch(b);
        b->most = b->n > b->most / 4 * 3 ? 2 * b->n : b->most;
    }
    return LS_OK;
}

static ls_status fill_batch(const lsi_timeline *t, batch *b)
{
    b->n = 0;
    b->cut = false;
    for (size_t i = 0; i < t->n; i++) {
        b->pid = pid_of(t, i);
        if (t->process[i]->rank >= 0)
            LS_TRY(lsi_timeline_scan(t->process[i], 1U << LSI_SPAN_TRANSFER,
                                     add_part, b));
    }
    if (b->n > 0)
        qsort(b->parts, b->n, sizeof(part), by_collective);
    return LS_OK;
}

static void put_batch(writer *w, const batch *b, size_t *number)
{
    for (size_t i = 0, next; i < b->n; i = next) {
        for (next = i + 1;
             next < b->n && by_key(&b->parts[i], &b->parts[next]) == 0;)
            next++;
        if (next > i + 1)
            put_flow(w, b->parts + i, next - i, (*number)++);
    }
}

/* The files are read again for each batch, so that memory stays bounded. */
static ls_status put_flows(writer *w, const lsi_timeline *t)
{
    batch b = {.most = t->most_parts > 0 ? t->most_parts : MOST_PARTS};
    size_t number = 1;
    ls_status status;
    do {
        status = fill_batch(t, &b);
        if (status == LS_OK)
            put_batch(w, &b, &number);
        if (b.n > 0)
            b.after = b.parts[b.n - 1];
        b.any_after = true;
    } while (status == LS_OK && b.cut && !ferror(w->stream));
    free(b.parts);
    return status;
}

/* ---- all of it ----------------------------------------------------------- */

static ls_status put_process(writer *w, const lsi_timeline *t, size_t i)
{
    w->process = t->process[i];
    w->pid = pid_of(t, i);
    w->n_counters = 0;
    ls_status status =
        quote_names(w)
            ? LS_OK
            : lsi_fail(LS_ERR_MEMORY, "not enough memory for the timeline");
    if (status == LS_OK) {
        put_process_names(w);
        put_group_names(w);
        status = put_spans(w);
    }
    free_names(w);
    return status;
}

/* States the accuracy of the clocks. */
static void put_clocks(writer *w, const lsi_timeline *t)
{
    fputs("\n],\"displayTimeUnit\":\"ms\",\"otherData\":{\"clock_error_us\":[",
          w->stream);
    for (size_t i = 0; i < t->n; i++)
        if (t->process[i]->aligned)
            fprintf(w->stream, "%s%.3f", i > 0 ? "," : "",
                    (double)t->process[i]->error * 1e-3);
        else
            fprintf(w->stream, "%snull", i > 0 ? "," : "");
    fputs("]}}\n", w->stream);
}

ls_status lsi_timeline_chrome(const lsi_timeline *timeline, FILE *stream)
{
    writer w = {.stream = stream, .begin = timeline->begin};
    fputs("{\"traceEvents\":[", stream);
    for (size_t i = 0; i < timeline->n; i++)
        LS_TRY(put_process(&w, timeline, i));
    LS_TRY(put_flows(&w, timeline));
    put_clocks(&w, timeline);
    return ferror(stream) ? lsi_fail_errno(LS_ERR_IO, "cannot write the "
                                                      "timeline")
                          : LS_OK;
}
