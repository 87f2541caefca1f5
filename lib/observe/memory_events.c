#include "observe/memory_events.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "lockstep/profile.h"

/* Bytes of a chunk when it is written, so that a kill loses little. */
enum { ENOUGH = 1 << 14, LINE = 2048 };

_Static_assert(ENOUGH + (LSI_MEMORY_NUMBERS + LSI_MEMORY_CLAIMS) *
                            LSI_NUMBER_BYTES <
                   LSI_CHUNK_BYTES,
               "a chunk must have room for one more event");

const lsi_memory_form lsi_memory_forms[LSI_MEMORY_EVENTS] = {
#define X(NAME, numbers, counts) {numbers, counts},
    LSI_MEMORY_EVENT_LIST(X)
#undef X
};

struct lsi_memory_log {
    uint64_t events; /* that the end counts */
    lsi_chunks file;
};

static void flush(lsi_memory_log *log)
{
    if (lsi_chunks_names(&log->file) && log->file.used > 0)
        (void)lsi_chunk_write(&log->file, 'M');
    log->file.used = 0;
}

void lsi_memory_log_add(lsi_memory_log *log, lsi_memory_event event,
                        const uint64_t *numbers, const uint64_t *more, size_t n)
{
    if (log == NULL)
        return;
    log->file.chunk[log->file.used++] = (unsigned char)event;
    for (size_t i = 0; i < lsi_memory_forms[event].numbers; i++)
        lsi_chunk_number(&log->file, numbers[i]);
    for (size_t i = 0; i < n; i++)
        lsi_chunk_number(&log->file, more[i]);
    log->events += lsi_memory_forms[event].counts;
    if (log->file.used >= ENOUGH)
        flush(log);
}

void lsi_memory_log_head(lsi_memory_log *log)
{
    json_t *const tags = json_array();
    for (int tag = 0; tag < LS_MEMORY_TAG_COUNT; tag++)
        json_array_append_new(
            tags, json_string(ls_memory_tag_name((ls_memory_tag)tag)));
    (void)lsi_chunks_head(&log->file, json_pack("{s:o}", "memory", tags));
}

lsi_memory_log *lsi_memory_log_open(const char *path, bool fresh,
                                    lsi_instant at)
{
    lsi_memory_log *const log = calloc(1, sizeof(*log));
    if (log == NULL)
        return NULL;
    if (lsi_make_parents(path) != LS_OK ||
        !lsi_chunks_open(&log->file, path, fresh)) {
        free(log);
        return NULL;
    }
    lsi_memory_log_head(log);
    (void)lsi_chunks_clock(&log->file, at, lsi_wall_clock_ns());
    return log;
}

/* For the names of functions, when the file is read. */
static void add_maps(lsi_chunks *to)
{
    FILE *const maps = fopen("/proc/self/maps", "re");
    char line[LINE];
    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL)
        if (strchr(line, '/') != NULL)
            (void)lsi_chunks_line(to, 'L', line, strcspn(line, "\n"));
    if (maps != NULL)
        fclose(maps);
}

int lsi_memory_log_close(lsi_memory_log **log)
{
    if (log == NULL || *log == NULL)
        return 0;
    lsi_memory_log *const closing = *log;
    *log = NULL;
    flush(closing);
    add_maps(&closing->file);
    (void)lsi_chunks_end(&closing->file, 0, closing->events);
    const int error = lsi_chunks_close(&closing->file) ? 0 : errno;
    free(closing);
    return error;
}

void lsi_memory_log_forget(lsi_memory_log **log)
{
    if (*log != NULL)
        (void)lsi_chunks_close(&(*log)->file);
    free(*log);
    *log = NULL;
}
