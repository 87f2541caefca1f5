/*
 * Reading the files of one process; files of spans are indexed. They are
 * checked like any input. A file that was cut off, because its process was
 * killed, is valid up to there.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpus.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/json.h"
#include "observe/chunks.h"
#include "observe/span_file.h"
#include "report/timeline_private.h"

enum { MOST_NAMES = 1 << 16, MOST_THREADS = 1 << 16, HEAD_BYTES = 5 };

/* Upper limit of ticks and nanoseconds: decades. */
#define MOST_TIME (INT64_C(1) << 62)

typedef lsi_timeline_reader reader;

static ls_status wrong(const reader *r, const char *what)
{
    return lsi_fail(LS_ERR_FORMAT,
                    "'%s' is not a valid trace or recording of memory: %s",
                    r->path, what);
}

ls_status lsi_timeline_no_memory(const reader *r)
{
    return lsi_fail(LS_ERR_MEMORY, "not enough memory to read '%s'", r->path);
}

/* ---- parts of chunks ----------------------------------------------------- */

bool lsi_timeline_parse_number(reader *r, uint64_t *out)
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

static bool parse_time(reader *r, int64_t *out)
{
    uint64_t value;
    if (!lsi_timeline_parse_number(r, &value) || value >= (uint64_t)MOST_TIME)
        return false;
    *out = (int64_t)value;
    return true;
}

/* A number and the text after it, as element of a list of texts. */
static ls_status parse_text(reader *r, char ***list, size_t *n, size_t most)
{
    uint64_t number;
    if (!lsi_timeline_parse_number(r, &number) || number >= most)
        return wrong(r, "the number of a name is out of range");
    if (number >= *n) {
        char **const larger = realloc(*list, (number + 1) * sizeof(char *));
        if (larger == NULL)
            return lsi_timeline_no_memory(r);
        memset(larger + *n, 0, (number + 1 - *n) * sizeof(char *));
        *list = larger;
        *n = number + 1;
    }
    const size_t bytes = (size_t)(r->end - r->at);
    const char *const text = (const char *)r->at;
    const char *const known = (*list)[number];
    if (known != NULL && strlen(known) == strnlen(text, bytes) &&
        memcmp(known, text, strlen(known)) == 0)
        return LS_OK; /* each file of a process has all names */
    if (known != NULL)
        return wrong(r, "two names have the same number");
    (*list)[number] = strndup(text, bytes);
    return (*list)[number] != NULL ? LS_OK : lsi_timeline_no_memory(r);
}

static ls_status parse_clock(reader *r)
{
    lsi_timeline_clock pair;
    uint64_t wall; /* any value: a user may have set this clock */
    if (!parse_time(r, &pair.ticks) || !parse_time(r, &pair.ns) ||
        !lsi_timeline_parse_number(r, &wall))
        return wrong(r, "a time is out of range");
    lsi_timeline_source *const source = r->source;
    const lsi_timeline_clock *const last =
        source->n_clocks > 0 ? &source->clocks[source->n_clocks - 1] : NULL;
    if (last != NULL && (pair.ticks <= last->ticks || pair.ns < last->ns))
        return wrong(r, "its clock readings are not in ascending order");
    if (!lsi_grow_array(&source->clocks, source->n_clocks, &source->clock_room,
                        sizeof(pair)))
        return lsi_timeline_no_memory(r);
    source->clocks[source->n_clocks++] = pair;
    if (wall < (uint64_t)MOST_TIME)
        r->process->wall_ns = (int64_t)wall - pair.ns;
    return LS_OK;
}

/* ---- spans --------------------------------------------------------------- */

/* Beginnings are stored as distances from the previous end. */
static bool parse_span(reader *r, lsi_timeline_span *span, int64_t *before)
{
    uint64_t name, begin, length;
    if (r->at == r->end)
        return false;
    const unsigned char what = *r->at++;
    *span = (lsi_timeline_span){.kind = what & 15};
    if (r->kinds > 0 && span->kind >= r->kinds)
        return false;
    if ((what & 0x80) != 0 || !lsi_timeline_parse_number(r, &name) ||
        name >= MOST_NAMES || !lsi_timeline_parse_number(r, &begin) ||
        !lsi_timeline_parse_number(r, &length))
        return false;
    const int64_t step = (int64_t)(begin >> 1) ^ -(int64_t)(begin & 1);
    span->name = (uint32_t)name;
    if (__builtin_add_overflow(*before, step, &span->begin) ||
        length >= (uint64_t)MOST_TIME || span->begin < 0 ||
        span->begin >= MOST_TIME)
        return false;
    span->end = *before = span->begin + (int64_t)length;
    return ((what & LSI_SPAN_HAS_BYTES) == 0 ||
            lsi_timeline_parse_number(r, &span->bytes)) &&
           ((what & LSI_SPAN_HAS_WORK) == 0 ||
            lsi_timeline_parse_number(r, &span->work)) &&
           ((what & LSI_SPAN_HAS_ID) == 0 ||
            lsi_timeline_parse_number(r, &span->id));
}

/* Notes when the collectives of a group began. */
static void note_group(lsi_timeline_source *source,
                       const lsi_timeline_span *span)
{
    size_t i = 0;
    while (i < source->n_groups && source->groups[i].group != span->work)
        i++;
    if (i == LSI_TIMELINE_GROUPS)
        return;
    if (i == source->n_groups)
        source->groups[source->n_groups++] =
            (lsi_timeline_group){span->work, span->begin};
    else if (span->begin < source->groups[i].first)
        source->groups[i].first = span->begin;
}

static bool parse_thread(reader *r, uint64_t *thread, uint64_t *n)
{
    return lsi_timeline_parse_number(r, thread) && *thread < MOST_THREADS &&
           lsi_timeline_parse_number(r, n);
}

/* Checks the spans of a chunk, whose place in the file is `chunk`. */
static ls_status parse_spans(reader *r, lsi_timeline_chunk chunk)
{
    lsi_timeline_source *const source = r->source;
    uint64_t thread, n;
    int64_t before = 0;
    lsi_timeline_span span;
    chunk.first = INT64_MAX;
    if (!parse_thread(r, &thread, &n))
        return wrong(r, "the number of a thread is out of range");
    for (uint64_t i = 0; i < n; i++) {
        if (!parse_span(r, &span, &before))
            return wrong(r, "a span is invalid");
        r->process->seen++;
        if (span.kind >= LSI_SPAN_KINDS) /* later versions may have more */
            continue;
        chunk.n++;
        chunk.kinds |= (uint16_t)(1U << span.kind);
        chunk.first = span.begin < chunk.first ? span.begin : chunk.first;
        if (span.kind == LSI_SPAN_TRANSFER)
            note_group(source, &span);
    }
    if (r->at != r->end)
        return wrong(r, "a part has extra bytes after its spans");
    if (chunk.n == 0)
        return LS_OK;
    if (!lsi_grow_array(&source->chunks, source->n_chunks, &source->chunk_room,
                        sizeof(chunk)))
        return lsi_timeline_no_memory(r);
    source->chunks[source->n_chunks++] = chunk;
    r->process->n += chunk.n;
    return LS_OK;
}

/* ---- the header ---------------------------------------------------------- */

static bool replace_text(char **text, const char *by)
{
    free(*text);
    *text = strdup(by);
    return *text != NULL;
}

/* Notes the number of spans written before this place. */
static void note_written(lsi_timeline_process *p, uint64_t spans)
{
    const uint64_t here = p->missing + p->seen;
    if (spans > here && spans - here > p->lost)
        p->lost = spans - here;
}

/*
 * Reads the numbers of spans and steps removed before the first existing file.
 */
static ls_status read_missing(const reader *r, json_t *json)
{
    lsi_timeline_process *const p = r->process;
    json_int_t spans = 0, first = 0, last = 0;
    json_error_t error;
    if (r->headed)
        return LS_OK;
    if (json_unpack_ex(json, &error, 0, "{s?I, s?I, s?I}", "spans_before",
                       &spans, "first_step", &first, "last_step", &last))
        return wrong(r, error.text);
    if (spans < 0 || first < 0 || last < 0)
        return wrong(r, "a number of spans or steps is negative");
    if (r->later) {
        note_written(p, (uint64_t)spans);
        return LS_OK;
    }
    p->missing = (uint64_t)spans;
    p->first_missing = (uint64_t)first;
    p->last_missing = (uint64_t)last;
    return LS_OK;
}

static ls_status check_same(const reader *r, int pid, const char *boot)
{
    const lsi_timeline_process *const p = r->process;
    if (p->boot == NULL || (p->pid == pid && strcmp(p->boot, boot) == 0))
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT,
                    "'%s' and '%s' come from two processes; remove the files "
                    "of the older run",
                    r->source->files[0], r->path);
}

static ls_status read_head(reader *r, json_t *json)
{
    lsi_timeline_process *const p = r->process;
    const char *host, *boot, *job, *build = "", *isa = "";
    int version, pid;
    json_error_t error;
    if (json_unpack_ex(json, &error, 0, "{s:i}", "lockstep_trace", &version))
        return wrong(r, error.text);
    if (version != LSI_CHUNKS_VERSION)
        return lsi_fail(
            LS_ERR_FORMAT,
            "'%s' is a trace of version %d; this program reads version %d",
            r->path, version, LSI_CHUNKS_VERSION);
    if (json_unpack_ex(json, &error, 0,
                       "{s:i, s:i, s:i, s:s, s:s, s:s, s?s, s?s, s?i}", "rank",
                       &p->rank, "size", &p->size, "pid", &pid, "host", &host,
                       "boot", &boot, "job", &job, "version", &build, "isa",
                       &isa, "threads", &p->computing))
        return wrong(r, error.text);
    if (p->rank < -1 || (p->rank >= 0 && p->rank >= p->size))
        return wrong(r, "its rank is out of range");
    if (p->computing < 0 || p->computing > LSI_MAX_THREADS)
        return wrong(r, "its number of threads is out of range");
    LS_TRY(check_same(r, pid, boot));
    LS_TRY(read_missing(r, json));
    p->pid = pid;
    r->headed = true;
    r->kinds = json_array_size(json_object_get(json, "kinds"));
    if (p->memory == NULL && json_object_get(json, "memory") != NULL)
        LS_TRY(lsi_memory_begin(r));
    return replace_text(&p->host, host) && replace_text(&p->boot, boot) &&
                   replace_text(&p->job, job) && replace_text(&p->isa, isa) &&
                   replace_text(&p->version, build)
               ? LS_OK
               : lsi_timeline_no_memory(r);
}

static ls_status parse_head(reader *r)
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

static ls_status parse_end(reader *r)
{
    lsi_timeline_process *const p = r->process;
    uint64_t spans = 0, events = 0;
    if (r->at < r->end && (!lsi_timeline_parse_number(r, &spans) ||
                           !lsi_timeline_parse_number(r, &events)))
        return wrong(r, "its last part is invalid");
    note_written(p, spans);
    if (p->memory != NULL)
        LS_TRY(lsi_memory_check_end(r, events));
    p->whole = true;
    return LS_OK;
}

static ls_status parse_memory(reader *r, char letter)
{
    if (r->process->memory == NULL || r->process->whole)
        return wrong(r, "a part of a memory recording is in the wrong place");
    return letter == 'M' ? lsi_memory_parse(r) : lsi_memory_parse_map(r);
}

static ls_status parse_chunk(reader *r, char letter, lsi_timeline_chunk chunk)
{
    lsi_timeline_process *const p = r->process;
    if (!r->headed && letter != 'H')
        return wrong(r, "it does not begin with a header");
    switch (letter) {
    case 'H':
        return parse_head(r);
    case 'N':
        return parse_text(r, &p->names, &p->n_names, MOST_NAMES);
    case 'T':
        return parse_text(r, &p->threads, &p->n_threads, MOST_THREADS);
    case 'C':
        return parse_clock(r);
    case 'E':
        return parse_spans(r, chunk);
    case 'M':
    case 'L':
        return parse_memory(r, letter);
    case 'Z':
        return parse_end(r);
    default:
        return wrong(r, "a part has an unknown type");
    }
}

static ls_status parse_magic(const reader *r, lsi_timeline_bytes *bytes)
{
    static const char memory[] = "lockstep memory ";
    char magic[sizeof(memory)] = "";
    ls_status status = LS_OK;
    const size_t n = bytes->size < sizeof(magic) - 1 ? (size_t)bytes->size
                                                     : sizeof(magic) - 1;
    const void *const begin = n == 0 ? magic
                                     : (const void *)lsi_timeline_bytes_at(
                                           r->source, bytes, 0, n, &status);
    LS_TRY(status);
    memmove(magic, begin, n);
    if (memcmp(magic, LSI_CHUNKS_MAGIC, LSI_CHUNKS_MAGIC_BYTES) == 0)
        return LS_OK;
    if (memcmp(magic, "LSTRACE1", LSI_CHUNKS_MAGIC_BYTES) == 0 ||
        strcmp(magic, memory) == 0)
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s' was written by an older version of Lockstep, and "
                        "this version cannot read its format; record it again",
                        r->path);
    return lsi_fail(LS_ERR_FORMAT,
                    "'%s' is not a trace or a recording of memory; such files "
                    "come from --trace, LOCKSTEP_TRACE, --record-memory, "
                    "LOCKSTEP_MEMORY or ls_memory_record_start",
                    r->path);
}

/*
 * A chunk that was cut off ends the file. A later file of a trace may have been
 * cut off anywhere.
 */
static ls_status parse_chunks(reader *r, lsi_timeline_bytes *bytes)
{
    uint64_t at = LSI_CHUNKS_MAGIC_BYTES;
    ls_status status = LS_OK;
    if (r->later && bytes->size < at)
        return LS_OK;
    LS_TRY(parse_magic(r, bytes));
    while (bytes->size - at >= HEAD_BYTES) {
        const unsigned char *const head =
            lsi_timeline_bytes_at(r->source, bytes, at, HEAD_BYTES, &status);
        LS_TRY(status);
        const char letter = (char)head[0];
        const size_t n = (size_t)head[1] | (size_t)head[2] << 8 |
                         (size_t)head[3] << 16 | (size_t)head[4] << 24;
        at += HEAD_BYTES;
        if (n > bytes->size - at)
            break;
        r->at = lsi_timeline_bytes_at(r->source, bytes, at, n, &status);
        LS_TRY(status);
        r->end = r->at + n;
        LS_TRY(
            parse_chunk(r, letter,
                        (lsi_timeline_chunk){.at = at,
                                             .bytes = (uint32_t)n,
                                             .file = (uint16_t)bytes->file}));
        at += n;
    }
    return r->headed || r->later ? LS_OK
                                 : wrong(r, "it ends within its header");
}

/* ---- spans that were checked --------------------------------------------- */

ls_status lsi_timeline_decode(const lsi_timeline_process *process,
                              const lsi_timeline_chunk *chunk,
                              lsi_timeline_bytes *bytes,
                              lsi_timeline_span *spans)
{
    uint64_t thread, n;
    int64_t before = 0;
    size_t kept = 0;
    lsi_timeline_span span;
    ls_status status = LS_OK;
    reader r = {.path = process->source->files[chunk->file]};
    LS_TRY(lsi_timeline_bytes_open(process->source, chunk->file, bytes));
    r.at = lsi_timeline_bytes_at(process->source, bytes, chunk->at,
                                 chunk->bytes, &status);
    LS_TRY(status);
    r.end = r.at + chunk->bytes;
    bool same = parse_thread(&r, &thread, &n);
    for (uint64_t i = 0; same && i < n; i++) {
        same = parse_span(&r, &span, &before);
        if (!same || span.kind >= LSI_SPAN_KINDS)
            continue;
        same = kept < chunk->n;
        if (!same)
            break;
        span.begin = lsi_timeline_time(process, span.begin);
        span.end = lsi_timeline_time(process, span.end);
        span.thread = (uint16_t)thread;
        spans[kept++] = span;
    }
    return same && kept == chunk->n
               ? LS_OK
               : wrong(&r, "the file changed while it was read");
}

/* ---- a process ----------------------------------------------------------- */

static int by_first(const void *a, const void *b)
{
    const lsi_timeline_group *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

ls_status lsi_timeline_check(const lsi_timeline_process *process)
{
    lsi_timeline_source *const source = process->source;
    const reader r = {.path = source->files[source->n_files - 1]};
    if (source->n_clocks < 2)
        return wrong(&r, "it ends before its second clock reading");
    if (source->n_groups > 0)
        qsort(source->groups, source->n_groups, sizeof(source->groups[0]),
              by_first);
    return LS_OK;
}

static ls_status make_process(lsi_timeline_process **out)
{
    lsi_timeline_process *p = calloc(1, sizeof(*p));
    if (p != NULL)
        p->source = calloc(1, sizeof(*p->source));
    if (p == NULL || p->source == NULL) {
        lsi_timeline_process_free(&p);
        return lsi_fail(LS_ERR_MEMORY, "not enough memory for a trace");
    }
    *out = p;
    return LS_OK;
}

static ls_status add_path(lsi_timeline_source *source, const char *path)
{
    if (!lsi_grow_array(&source->files, source->n_files, &source->file_room,
                        sizeof(char *)))
        return lsi_fail(LS_ERR_MEMORY, "not enough memory to read '%s'", path);
    source->files[source->n_files] = strdup(path);
    if (source->files[source->n_files] == NULL)
        return lsi_fail(LS_ERR_MEMORY, "not enough memory to read '%s'", path);
    source->n_files++;
    return LS_OK;
}

ls_status lsi_timeline_add_file(const char *path,
                                lsi_timeline_process **process)
{
    lsi_timeline_bytes bytes = {.fd = -1};
    if (*process == NULL)
        LS_TRY(make_process(process));
    lsi_timeline_source *const source = (*process)->source;
    ls_status status = add_path(source, path);
    if (status == LS_OK)
        status = lsi_timeline_bytes_open(source, source->n_files - 1, &bytes);
    reader r = {.path = path,
                .process = *process,
                .source = source,
                .later = source->n_files > 1};
    (*process)->whole = false; /* only the last file can set it again */
    if (status == LS_OK)
        status = parse_chunks(&r, &bytes);
    lsi_timeline_bytes_close(&bytes);
    if (status != LS_OK)
        lsi_timeline_process_free(process);
    return status;
}
