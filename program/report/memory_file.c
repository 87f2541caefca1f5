/* Replays the recorded events, which are checked like any input. */
#include "report/memory_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/append.h"
#include "base/error.h"
#include "base/grow.h"
#include "observe/memory_events.h"
#include "report/timeline_private.h"

/* Upper limit of bytes and times. */
#define MOST            (UINT64_C(1) << 56)
#define MOST_OF_A_BLOCK (UINT64_C(1) << 46)

typedef lsi_timeline_reader reader;

static ls_status wrong(const reader *r, const char *what)
{
    return lsi_fail(LS_ERR_FORMAT,
                    "'%s' is not a valid recording of memory: event %" PRIu64
                    " %s",
                    r->path, r->process->memory->events + 1, what);
}

/* The unused bytes of pools follow from the other events. */
static ls_status add_change(const reader *r, uint64_t kind, int64_t bytes)
{
    lsi_memory_file *const f = r->process->memory;
    int64_t all = 0;
    f->live[kind] += bytes;
    if (f->live[kind] >= (int64_t)MOST || f->live[kind] <= -(int64_t)MOST)
        return wrong(r, "has a number of bytes that is out of range");
    if (!lsi_grow_array(&f->changes, f->n_changes, &f->change_room,
                        sizeof(*f->changes)))
        return lsi_timeline_no_memory(r);
    f->changes[f->n_changes++] =
        (lsi_memory_change){f->time, f->live[kind], (uint8_t)kind};
    if (f->live[kind] > f->peak_of[kind])
        f->peak_of[kind] = f->live[kind];
    for (int k = 0; k < LSI_MEMORY_SERIES; k++)
        all += f->live[k];
    if (all > f->peak) {
        f->peak = all;
        f->peak_time = f->time;
        memcpy(f->at_peak, f->live, sizeof(f->live));
    }
    all -= f->live[LSI_MEMORY_KEPT];
    if (all > f->live_peak) {
        f->live_peak = all;
        f->live_peak_time = f->time;
        memcpy(f->at_live_peak, f->live, sizeof(f->live));
    }
    return LS_OK;
}

static ls_status set_time(const reader *r, uint64_t time)
{
    lsi_memory_file *const f = r->process->memory;
    if ((int64_t)time < f->time)
        return wrong(r, "is earlier than the event before it");
    f->time = (int64_t)time;
    return LS_OK;
}

/* ---- trails -------------------------------------------------------------- */

/* Whether a path, or a stack of calls, with this number exists, or it is 0. */
static bool is_trail(const lsi_memory_file *f, uint64_t number, bool call)
{
    return number == 0 ||
           (number <= f->n_trails && f->trails[number - 1].call == call);
}

static bool is_name(const reader *r, uint64_t number)
{
    return number <= r->process->n_names;
}

static ls_status parse_trail(const reader *r, const uint64_t *n, bool call)
{
    lsi_memory_file *const f = r->process->memory;
    if (!is_trail(f, n[0], call) || (!call && !is_name(r, n[1])) ||
        f->n_trails == LSI_MOST_TRAILS)
        return wrong(r, call ? "has an invalid call stack"
                             : "has an invalid path");
    if (!lsi_grow_array(&f->trails, f->n_trails, &f->trail_room,
                        sizeof(*f->trails)))
        return lsi_timeline_no_memory(r);
    f->trails[f->n_trails++] =
        (lsi_trail){.value = n[1], .parent = (uint32_t)n[0], .call = call};
    return LS_OK;
}

/* ---- blocks -------------------------------------------------------------- */

static int by_id(const void *key, const void *element)
{
    const uint64_t id = *(const uint64_t *)key;
    const lsi_memory_block *const block = element;
    return (id > block->id) - (id < block->id);
}

/* Ids increase. */
static lsi_memory_block *find_block(const lsi_memory_file *f, uint64_t id)
{
    return f->n_blocks == 0 ? NULL
                            : bsearch(&id, f->blocks, f->n_blocks,
                                      sizeof(*f->blocks), by_id);
}

static ls_status change_block(const reader *r, const lsi_memory_block *b,
                              int sign)
{
    lsi_memory_file *const f = r->process->memory;
    const int64_t bytes = sign * (int64_t)b->bytes;
    if (b->kept) { /* the block only changes its owner */
        f->in_use += bytes;
        f->live[LSI_MEMORY_KEPT] -= bytes;
    }
    LS_TRY(add_change(r, b->kind, bytes));
    return b->kept ? add_change(r, LSI_MEMORY_KEPT, 0) : LS_OK;
}

static ls_status parse_block(const reader *r, const uint64_t *n, bool kept)
{
    lsi_memory_file *const f = r->process->memory;
    if (n[0] == 0 || n[2] >= MOST_OF_A_BLOCK || n[3] >= LS_MEMORY_TAG_COUNT)
        return wrong(r, "has an invalid block");
    if (!is_name(r, n[4]) || !is_trail(f, n[5], false) || !is_name(r, n[6]) ||
        !is_name(r, n[7]) || !is_trail(f, n[8], true))
        return wrong(r, "refers to a name or a path that is not defined");
    if (f->n_blocks > 0 && f->blocks[f->n_blocks - 1].id >= n[0])
        return wrong(
            r, "has a block number that is not larger than the previous one");
    LS_TRY(set_time(r, n[1]));
    if (!lsi_grow_array(&f->blocks, f->n_blocks, &f->block_room,
                        sizeof(*f->blocks)))
        return lsi_timeline_no_memory(r);
    lsi_memory_block *const b = &f->blocks[f->n_blocks++];
    *b = (lsi_memory_block){.id = n[0],
                            .taken = (int64_t)n[1],
                            .given = INT64_MAX,
                            .bytes = n[2],
                            .kind = (uint8_t)n[3],
                            .kept = kept,
                            .phase = (uint32_t)n[4],
                            .path = (uint32_t)n[5],
                            .operation = (uint32_t)n[6],
                            .what = (uint32_t)n[7],
                            .stack = (uint32_t)n[8]};
    return change_block(r, b, 1);
}

static ls_status parse_free(const reader *r, const uint64_t *n)
{
    lsi_memory_block *const b = find_block(r->process->memory, n[0]);
    if (b == NULL || b->given != INT64_MAX)
        return wrong(r, "frees a block that is not allocated");
    LS_TRY(set_time(r, n[1]));
    b->given = (int64_t)n[1];
    return change_block(r, b, -1);
}

static ls_status parse_operation(reader *r, const uint64_t *n)
{
    uint64_t id;
    if (n[0] == 0 || !is_name(r, n[0]) || n[1] > LSI_MEMORY_CLAIMS)
        return wrong(r, "has an invalid operation");
    for (uint64_t i = 0; i < n[1]; i++) {
        if (!lsi_timeline_parse_number(r, &id))
            return wrong(r, "has an invalid operation");
        lsi_memory_block *const b = find_block(r->process->memory, id);
        if (b != NULL)
            b->operation = (uint32_t)n[0];
    }
    return LS_OK;
}

/* ---- other events -------------------------------------------------------- */

static ls_status parse_kept(const reader *r, const uint64_t *n)
{
    const lsi_memory_file *const f = r->process->memory;
    LS_TRY(set_time(r, n[0]));
    return add_change(r, LSI_MEMORY_KEPT,
                      (int64_t)n[1] - f->in_use - f->live[LSI_MEMORY_KEPT]);
}

/* `bytes` is zigzag-encoded. */
static ls_status parse_counted(const reader *r, uint64_t tag, uint64_t bytes)
{
    if (tag >= LS_MEMORY_TAG_COUNT)
        return wrong(r, "has an unknown kind of memory");
    return add_change(r, tag, (int64_t)(bytes >> 1) ^ -(int64_t)(bytes & 1));
}

static ls_status parse_event(reader *r, unsigned event, const uint64_t *n)
{
    switch ((lsi_memory_event)event) {
    case LSI_MEMORY_PATH:
    case LSI_MEMORY_CALL:
        return parse_trail(r, n, event == LSI_MEMORY_CALL);
    case LSI_MEMORY_INITIAL:
        return parse_counted(r, n[0], n[1]);
    case LSI_MEMORY_KEPT_NOW:
        return parse_kept(r, n);
    case LSI_MEMORY_TAKEN:
    case LSI_MEMORY_TAKEN_OF_POOL:
        return parse_block(r, n, event == LSI_MEMORY_TAKEN_OF_POOL);
    case LSI_MEMORY_OPERATION:
        return parse_operation(r, n);
    case LSI_MEMORY_GIVEN:
        return parse_free(r, n);
    case LSI_MEMORY_COUNTED:
        LS_TRY(set_time(r, n[0]));
        return parse_counted(r, n[1], n[2]);
    default: /* LSI_MEMORY_REFUSED */
        r->process->memory->refused++;
        return set_time(r, n[0]);
    }
}

ls_status lsi_memory_parse(reader *r)
{
    while (r->at < r->end) {
        uint64_t n[LSI_MEMORY_NUMBERS] = {0};
        const unsigned event = *r->at++;
        if (event >= LSI_MEMORY_EVENTS)
            return wrong(r, "has an unknown type");
        const lsi_memory_form form = lsi_memory_forms[event];
        for (int i = 0; i < form.numbers; i++)
            if (!lsi_timeline_parse_number(r, &n[i]) || n[i] >= MOST)
                return wrong(r, "has a number that is out of range");
        LS_TRY(parse_event(r, event, n));
        r->process->memory->events += form.counts;
    }
    return LS_OK;
}

ls_status lsi_memory_parse_map(const reader *r)
{
    lsi_memory_file *const f = r->process->memory;
    const size_t n = (size_t)(r->end - r->at);
    while (f->maps_room < f->maps_bytes + n + 1) {
        if (!lsi_grow_array(&f->maps, f->maps_room, &f->maps_room, 1))
            return lsi_timeline_no_memory(r);
    }
    memcpy(f->maps + f->maps_bytes, r->at, n);
    f->maps[f->maps_bytes + n] = '\n';
    f->maps_bytes += n + 1;
    return LS_OK;
}

ls_status lsi_memory_check_end(const reader *r, uint64_t events)
{
    if (events == r->process->memory->events)
        return LS_OK;
    return lsi_fail(LS_ERR_FORMAT,
                    "'%s' is not a valid recording of memory: the end of the "
                    "file states %" PRIu64
                    " events, but the file contains %" PRIu64,
                    r->path, events, r->process->memory->events);
}

/* ---- the file ------------------------------------------------------------ */

ls_status lsi_memory_begin(const reader *r)
{
    lsi_timeline_process *const p = r->process;
    p->memory = calloc(1, sizeof(*p->memory));
    if (p->memory == NULL)
        return lsi_timeline_no_memory(r);
    p->memory->process = p;
    return LS_OK;
}

ls_status lsi_memory_read(const char *path, lsi_memory_file **out)
{
    lsi_timeline_process *p = NULL;
    LS_TRY(lsi_timeline_add_file(path, &p));
    if (p->memory != NULL) {
        *out = p->memory;
        return LS_OK;
    }
    lsi_timeline_process_free(&p);
    return lsi_fail(LS_ERR_FORMAT,
                    "'%s' is a trace, not a recording of memory; use `lockstep "
                    "profile` or `lockstep trace` with its folder",
                    path);
}

void lsi_memory_file_free(lsi_memory_file **file)
{
    lsi_timeline_process *p =
        file != NULL && *file != NULL ? (*file)->process : NULL;
    if (file != NULL)
        *file = NULL;
    lsi_timeline_process_free(&p);
}

void lsi_memory_forget(lsi_memory_file *f)
{
    if (f == NULL)
        return;
    free(f->trails);
    free(f->blocks);
    free(f->changes);
    free(f->maps);
    free(f);
}

/* ---- names --------------------------------------------------------------- */

const char *lsi_memory_series_name(int kind)
{
    return kind == LSI_MEMORY_KEPT ? "kept by pools"
                                   : ls_memory_tag_name((ls_memory_tag)kind);
}

const char *lsi_memory_text(const lsi_memory_file *file, uint32_t number)
{
    const lsi_timeline_process *const p = file->process;
    return number > 0 && number <= p->n_names && p->names[number - 1] != NULL
               ? p->names[number - 1]
               : "";
}

/* A parent has a smaller number, so this ends. */
void lsi_memory_path_text(const lsi_memory_file *file, uint32_t path, char *out,
                          size_t room)
{
    enum { DEEPEST = 64 };
    uint32_t names[DEEPEST];
    int n = 0;
    out[0] = '\0';
    for (; path > 0 && path <= file->n_trails && n < DEEPEST;
         path = file->trails[path - 1].parent)
        names[n++] = (uint32_t)file->trails[path - 1].value;
    while (n-- > 0)
        lsi_append(out, room, "%s%s", out[0] != '\0' ? "/" : "",
                   lsi_memory_text(file, names[n]));
}
