/* Reading the lines, which are checked like any input. */
#include "report/memory_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/grow.h"
#include "base/json.h"
#include "base/memory.h"
#include "observe/memory_lines.h"

enum { MOST_THINGS = 1 << 20, NUMBERS = 9 };

/* Bytes and times are far below. */
#define MOST            (INT64_C(1) << 56)
#define MOST_OF_A_BLOCK (INT64_C(1) << 46)

typedef struct reader {
    const char *path;
    size_t line; /* its number */
    lsi_memory_file *file;
    size_t block_room, change_room, maps_room;
    int64_t live[LSI_MEMORY_SERIES];
    int64_t in_use; /* of what pools have */
    int64_t time;   /* of the event before */
    int64_t events; /* lines so far that the end line counts */
    bool headed;
} reader;

static ls_status wrong(const reader *r, const char *what)
{
    return lsi_fail(LS_ERR_FORMAT,
                    "%s is not a valid recording of memory: line %zu %s",
                    r->path, r->line, what);
}

static ls_status no_memory(const reader *r)
{
    return lsi_fail(LS_ERR_MEMORY, "no memory to read %s", r->path);
}

/* ---- parts of lines ------------------------------------------------------ */

/* n whole numbers up to the end of the line, the last of them maybe negative.
 */
static bool take_numbers(const char *at, int n, int64_t *out)
{
    for (int i = 0; i < n; i++) {
        char *end;
        if (*at != ' ' || ((at[1] < '0' || at[1] > '9') && at[1] != '-'))
            return false;
        out[i] = strtoll(at + 1, &end, 10);
        if (end == at + 1 || out[i] >= MOST || out[i] <= -MOST)
            return false;
        at = end;
    }
    return *at == '\0';
}

/* What pools have and nobody uses follows from the others. */
static ls_status add_change(reader *r, int kind, int64_t bytes)
{
    lsi_memory_file *const f = r->file;
    int64_t all = 0;
    r->live[kind] += bytes;
    if (r->live[kind] >= MOST || r->live[kind] <= -MOST)
        return wrong(r, "has an impossible number of bytes");
    if (!lsi_grow_array(&f->changes, f->n_changes, &r->change_room,
                        sizeof(*f->changes)))
        return no_memory(r);
    f->changes[f->n_changes++] =
        (lsi_memory_change){r->time, r->live[kind], (uint8_t)kind};
    if (r->live[kind] > f->peak_of[kind])
        f->peak_of[kind] = r->live[kind];
    for (int k = 0; k < LSI_MEMORY_SERIES; k++)
        all += r->live[k];
    if (all > f->peak) {
        f->peak = all;
        f->peak_time = r->time;
        memcpy(f->at_peak, r->live, sizeof(r->live));
    }
    all -= r->live[LSI_MEMORY_KEPT];
    if (all > f->live_peak) {
        f->live_peak = all;
        f->live_peak_time = r->time;
        memcpy(f->at_live_peak, r->live, sizeof(r->live));
    }
    return LS_OK;
}

static ls_status set_time(reader *r, int64_t time)
{
    if (time < r->time)
        return wrong(r, "lies before the one above it");
    r->time = time;
    return LS_OK;
}

/* ---- things -------------------------------------------------------------- */

static ls_status new_thing(reader *r, int64_t number, lsi_memory_thing **out)
{
    lsi_memory_file *const f = r->file;
    if (number != (int64_t)f->n_things + 1 || number > MOST_THINGS)
        return wrong(r, "has a number out of turn");
    if ((f->n_things & (f->n_things - 1)) == 0) {
        const size_t room = f->n_things > 0 ? 2 * f->n_things : 1;
        void *const larger = realloc(f->things, room * sizeof(*f->things));
        if (larger == NULL)
            return no_memory(r);
        f->things = larger;
    }
    *out = &f->things[f->n_things++];
    **out = (lsi_memory_thing){0};
    return LS_OK;
}

/* Whether a thing of this kind has the number, or it is 0. */
static bool is_known(const lsi_memory_file *f, int64_t number, char kind)
{
    return number == 0 || (number > 0 && (uint64_t)number <= f->n_things &&
                           f->things[number - 1].kind == kind);
}

static ls_status take_name(reader *r, const char *line)
{
    char *end;
    lsi_memory_thing *thing = NULL;
    const long long number = strtoll(line + 1, &end, 10);
    if (*end != ' ')
        return wrong(r, "is no name");
    LS_TRY(new_thing(r, number, &thing));
    thing->kind = 'n';
    thing->text = strdup(end + 1);
    return thing->text != NULL ? LS_OK : no_memory(r);
}

static ls_status take_path(reader *r, const char *line)
{
    int64_t n[3];
    lsi_memory_thing *thing = NULL;
    if (!take_numbers(line + 1, 3, n) || !is_known(r->file, n[1], 'p') ||
        !is_known(r->file, n[2], 'n'))
        return wrong(r, "is no path");
    LS_TRY(new_thing(r, n[0], &thing));
    *thing = (lsi_memory_thing){
        .kind = 'p', .parent = (uint32_t)n[1], .name = (uint32_t)n[2]};
    return LS_OK;
}

static ls_status take_stack(reader *r, const char *line)
{
    char *at;
    lsi_memory_thing *thing = NULL;
    LS_TRY(new_thing(r, strtoll(line + 1, &at, 10), &thing));
    thing->kind = 's';
    thing->pc = calloc(LSI_MEMORY_FRAMES, sizeof(*thing->pc));
    if (thing->pc == NULL)
        return no_memory(r);
    while (*at == ' ' && thing->n_pc < LSI_MEMORY_FRAMES) {
        char *end;
        thing->pc[thing->n_pc++] = strtoull(at + 1, &end, 16);
        if (end == at + 1)
            break;
        at = end;
    }
    return *at == '\0' ? LS_OK : wrong(r, "is no stack");
}

/* ---- blocks -------------------------------------------------------------- */

/* Ids rise, so that a block is found by halves. */
static lsi_memory_block *find_block(const lsi_memory_file *f, int64_t id)
{
    size_t low = 0, high = f->n_blocks;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if ((int64_t)f->blocks[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < f->n_blocks && (int64_t)f->blocks[low].id == id
               ? &f->blocks[low]
               : NULL;
}

static ls_status change_block(reader *r, const lsi_memory_block *b, int sign)
{
    const int64_t bytes = sign * (int64_t)b->bytes;
    if (b->kept) { /* it only changes its owner */
        r->in_use += bytes;
        r->live[LSI_MEMORY_KEPT] -= bytes;
    }
    LS_TRY(add_change(r, b->kind, bytes));
    return b->kept ? add_change(r, LSI_MEMORY_KEPT, 0) : LS_OK;
}

static ls_status take_block(reader *r, const char *line)
{
    int64_t n[NUMBERS];
    lsi_memory_file *const f = r->file;
    if (!take_numbers(line + 1, NUMBERS, n) || n[0] <= 0 || n[2] < 0 ||
        n[2] >= MOST_OF_A_BLOCK || n[3] < 0 || n[3] >= LS_MEMORY_TAG_COUNT)
        return wrong(r, "is no block");
    if (!is_known(f, n[4], 'n') || !is_known(f, n[5], 'p') ||
        !is_known(f, n[6], 'n') || !is_known(f, n[7], 'n') ||
        !is_known(f, n[8], 's'))
        return wrong(r, "names what has not been told");
    /* In a snapshot they come in any order. */
    if (f->n_blocks > 0 && (int64_t)f->blocks[f->n_blocks - 1].id >= n[0])
        return wrong(r, "has a number out of turn");
    LS_TRY(set_time(r, n[1]));
    if (!lsi_grow_array(&f->blocks, f->n_blocks, &r->block_room,
                        sizeof(*f->blocks)))
        return no_memory(r);
    lsi_memory_block *const b = &f->blocks[f->n_blocks++];
    *b = (lsi_memory_block){.id = (uint64_t)n[0],
                            .taken = n[1],
                            .given = INT64_MAX,
                            .bytes = (uint64_t)n[2],
                            .kind = (uint8_t)n[3],
                            .kept = line[0] == 't',
                            .phase = (uint32_t)n[4],
                            .path = (uint32_t)n[5],
                            .operation = (uint32_t)n[6],
                            .what = (uint32_t)n[7],
                            .stack = (uint32_t)n[8]};
    return change_block(r, b, 1);
}

static ls_status take_given(reader *r, const char *line)
{
    int64_t n[2];
    if (!take_numbers(line + 1, 2, n))
        return wrong(r, "gives nothing back");
    lsi_memory_block *const b = find_block(r->file, n[0]);
    if (b == NULL || b->given != INT64_MAX)
        return wrong(r, "gives back what is not there");
    LS_TRY(set_time(r, n[1]));
    b->given = n[1];
    return change_block(r, b, -1);
}

static ls_status take_operation(reader *r, const char *line)
{
    char *at;
    const long long name = strtoll(line + 1, &at, 10);
    if (name <= 0 || !is_known(r->file, name, 'n'))
        return wrong(r, "is no operation");
    while (*at == ' ') {
        char *end;
        lsi_memory_block *const b =
            find_block(r->file, strtoll(at + 1, &end, 10));
        if (end == at + 1)
            break;
        if (b != NULL)
            b->operation = (uint32_t)name;
        at = end;
    }
    return *at == '\0' ? LS_OK : wrong(r, "is no operation");
}

/* ---- other lines --------------------------------------------------------- */

static ls_status take_initial(reader *r, const char *line)
{
    int64_t n[2];
    if (!take_numbers(line + 1, 2, n) || n[0] < 0 ||
        n[0] >= LS_MEMORY_TAG_COUNT)
        return wrong(r, "is no kind of memory");
    return add_change(r, (int)n[0], n[1]);
}

static ls_status take_kept(reader *r, const char *line)
{
    int64_t n[2];
    if (!take_numbers(line + 1, 2, n) || n[1] < 0)
        return wrong(r, "is no number of bytes");
    LS_TRY(set_time(r, n[0]));
    return add_change(r, LSI_MEMORY_KEPT,
                      n[1] - r->in_use - r->live[LSI_MEMORY_KEPT]);
}

static ls_status take_counted(reader *r, const char *line)
{
    int64_t n[3];
    if (!take_numbers(line + 1, 3, n) || n[1] < 0 ||
        n[1] >= LS_MEMORY_TAG_COUNT)
        return wrong(r, "is no kind of memory");
    LS_TRY(set_time(r, n[0]));
    return add_change(r, (int)n[1], n[2]);
}

static ls_status take_map(reader *r, const char *line)
{
    lsi_memory_file *const f = r->file;
    const size_t n = strlen(line + 2);
    while (r->maps_room < f->maps_bytes + n + 1) {
        if (!lsi_grow_array(&f->maps, r->maps_room, &r->maps_room, 1))
            return no_memory(r);
    }
    if (f->maps == NULL)
        return no_memory(r);
    memcpy(f->maps + f->maps_bytes, line + 2, n);
    f->maps[f->maps_bytes + n] = '\n';
    f->maps_bytes += n + 1;
    return LS_OK;
}

static ls_status read_head(reader *r, json_t *json)
{
    lsi_memory_file *const f = r->file;
    const char *host, *version;
    json_error_t error;
    if (json_unpack_ex(json, &error, 0, "{s:i, s:i, s:i, s:s, s:s}", "rank",
                       &f->rank, "size", &f->size, "pid", &f->pid, "host",
                       &host, "version", &version))
        return wrong(r, error.text);
    free(f->host);
    free(f->version);
    f->host = strdup(host);
    f->version = strdup(version);
    r->headed = true;
    return f->host != NULL && f->version != NULL ? LS_OK : no_memory(r);
}

static ls_status take_head(reader *r, const char *line)
{
    json_t *json = NULL;
    json_error_t error;
    const char *const text = line[1] == ' ' ? line + 2 : "";
    ls_status status = lsi_json_loadb(text, strlen(text), 0, &json, &error);
    if (status == LS_ERR_FORMAT)
        return wrong(r, error.text);
    LS_TRY(status);
    status = read_head(r, json);
    json_decref(json);
    return status;
}

static ls_status take_end(reader *r, const char *line)
{
    int64_t events;
    if (!take_numbers(line + 1, 1, &events))
        return wrong(r, "is no end");
    if (events != r->events)
        return lsi_fail(LS_ERR_FORMAT,
                        "%s is not a valid recording of memory: line %zu "
                        "states %" PRId64 " events, but the lines above "
                        "hold %" PRId64,
                        r->path, r->line, events, r->events);
    r->file->whole = true;
    return LS_OK;
}

static ls_status take_line(reader *r, const char *line)
{
    int64_t n[2];
    if (r->file->whole)
        return wrong(r, "comes behind the end");
    if (line[0] != 'h' && !r->headed)
        return wrong(r, "comes before the header");
    r->events += strchr("k+t-cr", line[0]) != NULL && line[0] != '\0';
    switch (line[0]) {
    case 'h':
        return take_head(r, line);
    case 'n':
        return take_name(r, line);
    case 'p':
        return take_path(r, line);
    case 's':
        return take_stack(r, line);
    case 'i':
        return take_initial(r, line);
    case 'k':
        return take_kept(r, line);
    case '+':
    case 't':
        return take_block(r, line);
    case 'o':
        return take_operation(r, line);
    case '-':
        return take_given(r, line);
    case 'c':
        return take_counted(r, line);
    case 'm':
        return line[1] == ' ' ? take_map(r, line) : wrong(r, "is no mapping");
    case 'r':
        r->file->refused++;
        return take_numbers(line + 1, 2, n) ? LS_OK : wrong(r, "is no refusal");
    case 'z':
        return take_end(r, line);
    default:
        return wrong(r, "is of no kind that there is");
    }
}

/* ---- the file ------------------------------------------------------------ */

/* What is behind the last end of a line was not written whole. */
static ls_status take_lines(reader *r, char *text)
{
    for (char *at = text, *end; (end = strchr(at, '\n')) != NULL;
         at = end + 1) {
        *end = '\0';
        r->line++;
        LS_TRY(take_line(r, at));
    }
    return r->headed ? LS_OK : wrong(r, "is missing: there is no header");
}

static ls_status check_version(const char *text, size_t bytes, const char *path,
                               size_t *first)
{
    const size_t n = sizeof(LSI_MEMORY_MAGIC) - 1;
    if (bytes <= n || memcmp(text, LSI_MEMORY_MAGIC, n) != 0)
        return lsi_fail(LS_ERR_FORMAT,
                        "%s is not a recording of memory; such files come from "
                        "--memory, LOCKSTEP_MEMORY or ls_memory_record_start",
                        path);
    const char *const end = memchr(text, '\n', bytes);
    char number[16] = "";
    if (end != NULL && (size_t)(end - text) - n < sizeof(number))
        memcpy(number, text + n, (size_t)(end - text) - n);
    if (end == NULL || strtol(number, NULL, 10) != LSI_MEMORY_VERSION)
        return lsi_fail(LS_ERR_FORMAT,
                        "%s is a recording of memory of version %s; this "
                        "program reads %d",
                        path, number, LSI_MEMORY_VERSION);
    *first = (size_t)(end + 1 - text);
    return LS_OK;
}

ls_status lsi_memory_parse(const char *text, size_t bytes, const char *path,
                           lsi_memory_file **out)
{
    size_t first;
    LS_TRY(check_version(text, bytes, path, &first));
    reader r = {.path = path, .line = 1};
    char *const copy = malloc(bytes - first + 1);
    r.file = calloc(1, sizeof(*r.file));
    ls_status status = copy != NULL && r.file != NULL ? LS_OK : no_memory(&r);
    if (status == LS_OK) {
        memcpy(copy, text + first, bytes - first);
        copy[bytes - first] = '\0';
        status = take_lines(&r, copy);
    }
    free(copy);
    if (status == LS_OK)
        *out = r.file;
    else
        lsi_memory_file_free(&r.file);
    return status;
}

ls_status lsi_memory_read(const char *path, lsi_memory_file **out)
{
    char *text = NULL;
    size_t bytes;
    LS_TRY(lsi_read_regular(path, 0, &text, &bytes));
    const ls_status status = lsi_memory_parse(text, bytes, path, out);
    lsi_free(text);
    return status;
}

void lsi_memory_file_free(lsi_memory_file **file)
{
    if (file == NULL || *file == NULL)
        return;
    lsi_memory_file *const f = *file;
    *file = NULL;
    for (size_t i = 0; i < f->n_things; i++) {
        free(f->things[i].text);
        free(f->things[i].pc);
    }
    free(f->things);
    free(f->blocks);
    free(f->changes);
    free(f->maps);
    free(f->host);
    free(f->version);
    free(f);
}
