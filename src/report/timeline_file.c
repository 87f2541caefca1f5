/*
 * Reading the file of one process. It is checked like any input; one that was
 * cut off, because its process was killed, is good up to there.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/span_file.h"
#include "report/grow.h"
#include "report/timeline.h"

enum { MOST_NAMES = 1 << 16, MOST_THREADS = 1 << 16, HEAD_BYTES = 5 };

/* Ticks and nanoseconds are below: decades. */
#define MOST_TIME (INT64_C(1) << 62)

typedef struct clock_pair {
    int64_t ticks, ns;
} clock_pair;

typedef struct reader {
    const char *path;
    const unsigned char *at, *end; /* of the chunk */
    lsi_timeline_process *process;
    size_t room; /* for spans */
    clock_pair *clocks;
    size_t n_clocks, clock_room;
    bool headed;
} reader;

static ls_status wrong(const reader *r, const char *what)
{
    return lsi_fail(LS_ERR_FORMAT, "%s is not a valid trace: %s", r->path,
                    what);
}

static ls_status no_memory(const reader *r)
{
    return lsi_fail(LS_ERR_MEMORY, "no memory to read %s", r->path);
}

/* ---- parts of chunks ----------------------------------------------------- */

static bool take_number(reader *r, uint64_t *out)
{
    uint64_t value = 0;
    for (int shift = 0; r->at < r->end && shift < 64; shift += 7) {
        const unsigned char byte = *r->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) {
            *out = value;
            return true;
        }
    }
    return false;
}

static bool take_time(reader *r, int64_t *out)
{
    uint64_t value;
    if (!take_number(r, &value) || value >= (uint64_t)MOST_TIME)
        return false;
    *out = (int64_t)value;
    return true;
}

/* A number and the text behind it, as element of a list of texts. */
static ls_status take_text(reader *r, char ***list, size_t *n, size_t most)
{
    uint64_t number;
    if (!take_number(r, &number) || number >= most)
        return wrong(r, "it has a name with an impossible number");
    if (number >= *n) {
        char **const larger = realloc(*list, (number + 1) * sizeof(char *));
        if (larger == NULL)
            return no_memory(r);
        memset(larger + *n, 0, (number + 1 - *n) * sizeof(char *));
        *list = larger;
        *n = number + 1;
    }
    if ((*list)[number] != NULL)
        return wrong(r, "it has two names with one number");
    (*list)[number] = strndup((const char *)r->at, (size_t)(r->end - r->at));
    return (*list)[number] != NULL ? LS_OK : no_memory(r);
}

static ls_status take_clock(reader *r)
{
    clock_pair pair;
    int64_t wall;
    if (!take_time(r, &pair.ticks) || !take_time(r, &pair.ns) ||
        !take_time(r, &wall))
        return wrong(r, "it has an impossible time");
    if (r->n_clocks > 0 && (pair.ticks <= r->clocks[r->n_clocks - 1].ticks ||
                            pair.ns < r->clocks[r->n_clocks - 1].ns))
        return wrong(r, "its clock goes backwards");
    void *clocks = r->clocks;
    if (!lsi_grow_array(&clocks, r->n_clocks, &r->clock_room, sizeof(pair)))
        return no_memory(r);
    r->clocks = clocks;
    r->clocks[r->n_clocks++] = pair;
    r->process->wall_ns = wall - pair.ns;
    return LS_OK;
}

/* ---- spans --------------------------------------------------------------- */

/* Beginnings are told by how far they are from the end before. */
static bool take_span(reader *r, lsi_timeline_span *span, int64_t *before)
{
    uint64_t name, begin, length;
    if (r->at == r->end)
        return false;
    const unsigned char what = *r->at++;
    *span = (lsi_timeline_span){.kind = what & 15};
    if ((what & 0x80) != 0 || !take_number(r, &name) || name >= MOST_NAMES ||
        !take_number(r, &begin) || !take_number(r, &length))
        return false;
    const int64_t step = (int64_t)(begin >> 1) ^ -(int64_t)(begin & 1);
    span->name = (uint32_t)name;
    if (__builtin_add_overflow(*before, step, &span->begin) ||
        length >= (uint64_t)MOST_TIME || span->begin < 0 ||
        span->begin >= MOST_TIME)
        return false;
    span->end = *before = span->begin + (int64_t)length;
    return ((what & LSI_SPAN_HAS_BYTES) == 0 || take_number(r, &span->bytes)) &&
           ((what & LSI_SPAN_HAS_WORK) == 0 || take_number(r, &span->work)) &&
           ((what & LSI_SPAN_HAS_ID) == 0 || take_number(r, &span->id));
}

static ls_status take_spans(reader *r)
{
    lsi_timeline_process *const p = r->process;
    uint64_t thread, n;
    int64_t before = 0;
    if (!take_number(r, &thread) || thread >= MOST_THREADS ||
        !take_number(r, &n))
        return wrong(r, "it has spans of an impossible thread");
    for (uint64_t i = 0; i < n; i++) {
        void *spans = p->spans;
        if (!lsi_grow_array(&spans, p->n, &r->room, sizeof(lsi_timeline_span)))
            return no_memory(r);
        p->spans = spans;
        lsi_timeline_span *const span = &p->spans[p->n];
        if (!take_span(r, span, &before))
            return wrong(r, "it has an impossible span");
        span->thread = (uint16_t)thread;
        p->n += span->kind < LSI_SPAN_KINDS; /* later versions may have more */
    }
    return LS_OK;
}

/* ---- the header ---------------------------------------------------------- */

static ls_status read_head(reader *r, json_t *json)
{
    lsi_timeline_process *const p = r->process;
    const char *host, *boot, *job;
    int version;
    json_error_t error;
    if (json_unpack_ex(json, &error, 0, "{s:i}", "lockstep_trace", &version))
        return wrong(r, error.text);
    if (version != LSI_SPAN_VERSION)
        return lsi_fail(LS_ERR_FORMAT,
                        "%s is a trace of version %d; this program reads %d",
                        r->path, version, LSI_SPAN_VERSION);
    if (json_unpack_ex(json, &error, 0, "{s:i, s:i, s:i, s:s, s:s, s:s}",
                       "rank", &p->rank, "size", &p->size, "pid", &p->pid,
                       "host", &host, "boot", &boot, "job", &job))
        return wrong(r, error.text);
    if (p->rank < -1 || (p->rank >= 0 && p->rank >= p->size))
        return wrong(r, "there can be no such rank");
    char *const texts[] = {p->host, p->boot, p->job};
    for (int i = 0; i < 3; i++)
        free(texts[i]);
    p->host = strdup(host);
    p->boot = strdup(boot);
    p->job = strdup(job);
    r->headed = true;
    return p->host != NULL && p->boot != NULL && p->job != NULL ? LS_OK
                                                                : no_memory(r);
}

static ls_status take_head(reader *r)
{
    json_t *json = NULL;
    json_error_t error;
    ls_status status = lsi_json_loadb(
        (const char *)r->at, (size_t)(r->end - r->at), 0, &json, &error);
    if (status == LS_ERR_FORMAT)
        return wrong(r, error.text);
    LS_TRY(status);
    status = read_head(r, json);
    json_decref(json);
    return status;
}

/* ---- the file ------------------------------------------------------------ */

static ls_status take_chunk(reader *r, char letter)
{
    lsi_timeline_process *const p = r->process;
    if (!r->headed && letter != 'H')
        return wrong(r, "it does not begin with a header");
    switch (letter) {
    case 'H':
        return take_head(r);
    case 'N':
        return take_text(r, &p->names, &p->n_names, MOST_NAMES);
    case 'T':
        return take_text(r, &p->threads, &p->n_threads, MOST_THREADS);
    case 'C':
        return take_clock(r);
    case 'E':
        return take_spans(r);
    case 'Z':
        p->whole = true;
        return LS_OK;
    default:
        return wrong(r, "it has a part of an unknown kind");
    }
}

static ls_status take_chunks(reader *r, const unsigned char *at,
                             const unsigned char *end)
{
    while (end - at >= HEAD_BYTES) {
        const size_t n = (size_t)at[1] | (size_t)at[2] << 8 |
                         (size_t)at[3] << 16 | (size_t)at[4] << 24;
        if (n > (size_t)(end - at - HEAD_BYTES))
            break;
        r->at = at + HEAD_BYTES;
        r->end = r->at + n;
        LS_TRY(take_chunk(r, (char)at[0]));
        at += HEAD_BYTES + n;
    }
    if (!r->headed)
        return wrong(r, "it ends within its header");
    if (r->n_clocks < 2)
        return wrong(r, "it ends before its clock is known");
    return LS_OK;
}

/* ---- ticks to time ------------------------------------------------------- */

/* The first of two neighbours between which the ticks lie, or the last two. */
static size_t find_clock(const reader *r, int64_t ticks)
{
    size_t low = 0, high = r->n_clocks - 1;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (r->clocks[middle].ticks <= ticks)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Linear between two looks at both clocks, so it never goes backwards. */
static int64_t time_of(const reader *r, int64_t ticks)
{
    const clock_pair *const c = &r->clocks[find_clock(r, ticks)];
    const double rate =
        (double)(c[1].ns - c[0].ns) / (double)(c[1].ticks - c[0].ticks);
    const double since = (double)(ticks - c[0].ticks) * rate;
    const double most = (double)MOST_TIME / 2;
    return c[0].ns + (int64_t)(since < -most  ? -most
                               : since > most ? most
                                              : since);
}

static void convert(const reader *r)
{
    for (size_t i = 0; i < r->process->n; i++) {
        lsi_timeline_span *const span = &r->process->spans[i];
        span->begin = time_of(r, span->begin);
        span->end = time_of(r, span->end);
    }
}

ls_status lsi_timeline_parse(const void *data, size_t bytes, const char *path,
                             lsi_timeline_process **out)
{
    const unsigned char *const at = data;
    reader r = {.path = path};
    if (bytes < LSI_SPAN_MAGIC_BYTES ||
        memcmp(at, LSI_SPAN_MAGIC, LSI_SPAN_MAGIC_BYTES) != 0)
        return lsi_fail(LS_ERR_FORMAT,
                        "%s is not a trace; such files come from --trace or "
                        "LOCKSTEP_TRACE",
                        path);
    r.process = calloc(1, sizeof(*r.process));
    if (r.process == NULL)
        return no_memory(&r);
    const ls_status status =
        take_chunks(&r, at + LSI_SPAN_MAGIC_BYTES, at + bytes);
    if (status == LS_OK) {
        convert(&r);
        *out = r.process;
    } else {
        lsi_timeline_process_free(&r.process);
    }
    free(r.clocks);
    return status;
}

static void free_texts(char **texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(texts[i]);
    free(texts);
}

void lsi_timeline_process_free(lsi_timeline_process **process)
{
    if (process == NULL || *process == NULL)
        return;
    lsi_timeline_process *const p = *process;
    *process = NULL;
    free_texts(p->names, p->n_names);
    free_texts(p->threads, p->n_threads);
    free(p->spans);
    free(p->host);
    free(p->boot);
    free(p->job);
    free(p);
}

const char *lsi_timeline_name(const lsi_timeline_process *process,
                              const lsi_timeline_span *span)
{
    const char *const name =
        span->name < process->n_names ? process->names[span->name] : NULL;
    return name != NULL ? name : "unknown";
}
