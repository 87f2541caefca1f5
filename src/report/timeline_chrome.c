/* The timeline in Chrome's trace event form. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "report/timeline.h"

/* Rows of groups lie below those of threads. */
enum { GROUP_ROWS = 100000, KINDS_OF_MEMORY = 16 };

typedef struct counter {
    uint32_t name;
    uint64_t bytes;
} counter;

typedef struct writer {
    FILE *stream;
    int64_t begin;
    bool any; /* an event has been written */
    /* Of the process that is being written: */
    const lsi_timeline_process *process;
    int pid;
    char **names; /* as JSON */
    counter counters[KINDS_OF_MEMORY];
    size_t n_counters;
} writer;

/* ---- texts --------------------------------------------------------------- */

/* As JSON, with its quotes; what is no UTF-8 is "?". NULL without memory. */
static char *quote(const char *text)
{
    json_t *json = json_string(text);
    if (json == NULL)
        json = json_string("?");
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

static double us(const writer *w, int64_t ns)
{
    return (double)(ns - w->begin) * 1e-3;
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

static int group_row(const lsi_timeline_span *s)
{
    return GROUP_ROWS + (int)(s->work % GROUP_ROWS);
}

/* Of a thread, or of a group: spans of one row nest. */
static void put_slice(writer *w, const lsi_timeline_span *s)
{
    static const char *const kinds[] = {
#define X(NAME, name, bytes, work, id) name,
        LSI_SPAN_KIND_LIST(X)
#undef X
    };
    const bool transfer = s->kind == LSI_SPAN_TRANSFER;
    begin_event(w);
    fprintf(w->stream,
            "{\"ph\":\"X\",\"cat\":\"%s\",\"name\":%s,\"pid\":%d,\"tid\":%d,"
            "\"ts\":%.3f,\"dur\":%.3f",
            kinds[s->kind], name_of(w, s), w->pid,
            transfer ? group_row(s) : s->thread + 1, us(w, s->begin),
            (double)(s->end - s->begin) * 1e-3);
    if (transfer)
        fprintf(w->stream,
                ",\"args\":{\"bytes\":%" PRIu64 ",\"group\":%" PRIu64
                ",\"sequence\":%" PRIu64 "}",
                s->bytes, s->work, s->id);
    else if (s->kind == LSI_SPAN_STEP)
        fprintf(w->stream, ",\"args\":{\"step\":%" PRIu64 "}", s->id);
    else if (s->bytes != 0 || s->work != 0)
        fprintf(w->stream,
                ",\"args\":{\"bytes\":%" PRIu64 ",\"operations\":%" PRIu64 "}",
                s->bytes, s->work);
    fputc('}', w->stream);
}

/* Several may be under way at once, so they have no row. */
static void put_async(writer *w, const lsi_timeline_span *s, size_t number)
{
    const char *const kind =
        s->kind == LSI_SPAN_MESSAGE ? "message" : "gathering";
    for (int end = 0; end < 2; end++) {
        begin_event(w);
        fprintf(w->stream,
                "{\"ph\":\"%s\",\"cat\":\"%s\",\"name\":%s,\"pid\":%d,"
                "\"tid\":%d,\"id\":\"%d.%zu\",\"ts\":%.3f}",
                end ? "e" : "b", kind, name_of(w, s), w->pid, s->thread + 1,
                w->pid, number, us(w, end ? s->end : s->begin));
    }
}

/* All kinds of memory, of which one has changed. */
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
    fprintf(w->stream,
            "{\"ph\":\"C\",\"name\":\"memory in use\",\"pid\":%d,\"ts\":%.3f,"
            "\"args\":{",
            w->pid, us(w, s->begin));
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

/* Groups that have a row. */
static void put_group_names(writer *w)
{
    uint64_t told[64];
    size_t n = 0;
    for (size_t i = 0; i < w->process->n; i++) {
        const lsi_timeline_span *const s = &w->process->spans[i];
        size_t known = 0;
        if (s->kind != LSI_SPAN_TRANSFER)
            continue;
        while (known < n && told[known] != s->work)
            known++;
        if (known < n || n == sizeof(told) / sizeof(told[0]))
            continue;
        char text[64];
        told[n++] = s->work;
        snprintf(text, sizeof(text), "collectives of group %" PRIu64, s->work);
        put_row_name(w, "thread_name", group_row(s), text);
    }
}

static void put_spans(writer *w)
{
    const lsi_timeline_process *const p = w->process;
    for (size_t i = 0; i < p->n; i++) {
        const lsi_timeline_span *const s = &p->spans[i];
        if (s->kind == LSI_SPAN_MEMORY)
            put_memory(w, s);
        else if (s->kind == LSI_SPAN_GATHERING || s->kind == LSI_SPAN_MESSAGE)
            put_async(w, s, i);
        else
            put_slice(w, s);
    }
}

static int pid_of(const lsi_timeline *t, size_t i)
{
    return t->process[i]->rank >= 0 ? t->process[i]->rank : 100000 + (int)i;
}

/* ---- collectives --------------------------------------------------------- */

/* What one rank does in one collective. */
typedef struct part {
    uint64_t group, sequence;
    int64_t begin;
    int pid, row;
} part;

static int by_collective(const void *a, const void *b)
{
    const part *x = a, *y = b;
    if (x->group != y->group)
        return (x->group > y->group) - (x->group < y->group);
    if (x->sequence != y->sequence)
        return (x->sequence > y->sequence) - (x->sequence < y->sequence);
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static size_t collect(const lsi_timeline *t, part *out)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        for (size_t j = 0; j < t->process[i]->n; j++) {
            const lsi_timeline_span *const s = &t->process[i]->spans[j];
            if (s->kind != LSI_SPAN_TRANSFER || t->process[i]->rank < 0)
                continue;
            if (out != NULL)
                out[n] = (part){s->work, s->id, s->begin, pid_of(t, i),
                                group_row(s)};
            n++;
        }
    return n;
}

static bool same_collective(const part *a, const part *b)
{
    return a->group == b->group && a->sequence == b->sequence;
}

/* From the rank that began it first to the others, in their order. */
static void put_flow(writer *w, const part *parts, size_t n, size_t number)
{
    for (size_t i = 0; i < n; i++) {
        begin_event(w);
        fprintf(w->stream,
                "{\"ph\":\"%s\",\"cat\":\"collective\",\"name\":\"collective\","
                "\"id\":%zu,\"pid\":%d,\"tid\":%d,\"ts\":%.3f%s}",
                i == 0       ? "s"
                : i + 1 == n ? "f"
                             : "t",
                number, parts[i].pid, parts[i].row, us(w, parts[i].begin),
                i + 1 == n ? ",\"bp\":\"e\"" : "");
    }
}

static ls_status put_flows(writer *w, const lsi_timeline *t)
{
    const size_t n = collect(t, NULL);
    part *const parts = malloc((n + 1) * sizeof(part));
    if (parts == NULL)
        return lsi_fail(LS_ERR_MEMORY, "no memory for the timeline");
    collect(t, parts);
    if (n > 0)
        qsort(parts, n, sizeof(part), by_collective);
    for (size_t i = 0, next, number = 1; i < n; i = next) {
        for (next = i + 1;
             next < n && same_collective(&parts[i], &parts[next]);)
            next++;
        if (next > i + 1)
            put_flow(w, parts + i, next - i, number++);
    }
    free(parts);
    return LS_OK;
}

/* ---- all of it ----------------------------------------------------------- */

static ls_status put_process(writer *w, const lsi_timeline *t, size_t i)
{
    w->process = t->process[i];
    w->pid = pid_of(t, i);
    w->n_counters = 0;
    const bool quoted = quote_names(w);
    if (quoted) {
        put_process_names(w);
        put_group_names(w);
        put_spans(w);
    }
    free_names(w);
    return quoted ? LS_OK
                  : lsi_fail(LS_ERR_MEMORY, "no memory for the timeline");
}

/* How well the clocks are known. */
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
