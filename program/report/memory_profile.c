#include "report/memory_profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* ---- rows ---------------------------------------------------------------- */

/* Values by which blocks are grouped. */
typedef struct mark {
    uint64_t bytes;
    uint32_t a, b, c, d;
} mark;

static mark mark_of(const lsi_memory_block *b, lsi_memory_key key)
{
    if (key == LSI_MEMORY_BY_LAYER)
        return (mark){.a = b->path, .b = b->path != 0 ? 0 : b->what};
    if (key == LSI_MEMORY_BY_OPERATION)
        return (mark){.a = b->operation, .b = b->operation != 0 ? 0 : b->what};
    /* Equal layers have one stack. */
    return (mark){b->bytes, b->operation, b->stack, b->what, b->kind};
}

typedef struct item {
    mark mark;
    const lsi_memory_block *block;
} item;

static int by_mark(const void *a, const void *b)
{
    return memcmp(&((const item *)a)->mark, &((const item *)b)->mark,
                  sizeof(mark));
}

static int by_bytes(const void *a, const void *b)
{
    const lsi_memory_row *const x = a, *const y = b;
    if (x->bytes != y->bytes)
        return (x->bytes < y->bytes) - (x->bytes > y->bytes);
    return (x->first->id > y->first->id) - (x->first->id < y->first->id);
}

static int by_size(const void *a, const void *b)
{
    const lsi_memory_row *const x = a, *const y = b;
    if (x->first->bytes != y->first->bytes)
        return (x->first->bytes < y->first->bytes) -
               (x->first->bytes > y->first->bytes);
    return by_bytes(a, b);
}

static size_t join(const item *items, size_t n, lsi_memory_row *rows)
{
    size_t n_rows = 0;
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || by_mark(&items[i - 1], &items[i]) != 0)
            rows[n_rows++] = (lsi_memory_row){.first = items[i].block};
        rows[n_rows - 1].bytes += (int64_t)items[i].block->bytes;
        rows[n_rows - 1].blocks++;
    }
    return n_rows;
}

ls_status lsi_memory_rows(const lsi_memory_file *file, lsi_memory_key key,
                          int64_t time, lsi_memory_row **out, size_t *n)
{
    size_t live = 0;
    item *const items = malloc((file->n_blocks + 1) * sizeof(*items));
    lsi_memory_row *const rows = malloc((file->n_blocks + 1) * sizeof(*rows));
    if (items == NULL || rows == NULL) {
        free(items);
        free(rows);
        return lsi_fail(LS_ERR_MEMORY,
                        "not enough memory to list %zu recorded blocks",
                        file->n_blocks);
    }
    for (size_t i = 0; i < file->n_blocks; i++) {
        const lsi_memory_block *const b = &file->blocks[i];
        if (b->taken <= time && b->given > time)
            items[live++] = (item){mark_of(b, key), b};
    }
    qsort(items, live, sizeof(*items), by_mark);
    *n = join(items, live, rows);
    free(items);
    qsort(rows, *n, sizeof(*rows),
          key == LSI_MEMORY_BY_SIZE ? by_size : by_bytes);
    *out = rows;
    return LS_OK;
}

void lsi_memory_row_text(const lsi_memory_file *file, lsi_memory_key key,
                         const lsi_memory_row *row, char *out, size_t room)
{
    const lsi_memory_block *const b = row->first;
    if (key == LSI_MEMORY_BY_LAYER && b->path != 0)
        lsi_memory_path_text(file, b->path, out, room);
    else if (key != LSI_MEMORY_BY_LAYER && b->operation != 0)
        snprintf(out, room, "%s", lsi_memory_text(file, b->operation));
    else
        snprintf(out, room, "(%s)", lsi_memory_text(file, b->what));
}

/* ---- the course ---------------------------------------------------------- */

static int64_t sum_of(const lsi_memory_point *point)
{
    int64_t sum = 0;
    for (int k = 0; k < LSI_MEMORY_SERIES; k++)
        sum += point->bytes[k];
    return sum;
}

ls_status lsi_memory_course(const lsi_memory_file *file, size_t most,
                            lsi_memory_point **out, size_t *n)
{
    const int64_t end =
        file->n_changes > 0 ? file->changes[file->n_changes - 1].time : 0;
    const int64_t width = end / (int64_t)most + 1;
    lsi_memory_point *const points = calloc(most + 1, sizeof(*points));
    lsi_memory_point now = {0};
    int64_t part = -1;
    if (points == NULL)
        return lsi_fail(LS_ERR_MEMORY, "not enough memory to draw %zu points",
                        most);
    *n = 0;
    for (size_t i = 0; i < file->n_changes; i++) {
        const lsi_memory_change *const change = &file->changes[i];
        now.time = change->time;
        now.bytes[change->kind] = change->bytes;
        if (i + 1 < file->n_changes &&
            file->changes[i + 1].time == change->time)
            continue; /* parts of one event */
        if (change->time / width != part)
            points[(*n)++] = now;
        else if (sum_of(&now) > sum_of(&points[*n - 1]))
            points[*n - 1] = now;
        part = change->time / width;
    }
    *out = points;
    return LS_OK;
}
