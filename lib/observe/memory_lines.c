#include "observe/memory_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/restart.h"
#include "lockstep/profile.h"
#include "lockstep/version.h"
#include "observe/chunks.h"

static void flush(lsi_memory_lines *lines)
{
    const char *at = lines->bytes;
    while (lines->used > 0 && lines->error == 0) {
        const ssize_t done = write(lines->fd, at, lines->used);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0) {
            lines->error = done < 0 ? errno : EIO;
            break;
        }
        at += done;
        lines->used -= (size_t)done;
    }
    lines->used = 0;
}

static void add(lsi_memory_lines *lines, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

static void add(lsi_memory_lines *lines, const char *format, va_list args)
{
    if (sizeof(lines->bytes) - lines->used < LSI_MEMORY_LINE)
        flush(lines);
    const int n =
        vsnprintf(lines->bytes + lines->used, LSI_MEMORY_LINE, format, args);
    if (n > 0)
        lines->used += n < LSI_MEMORY_LINE ? (size_t)n : LSI_MEMORY_LINE - 1;
}

void lsi_memory_lines_add(lsi_memory_lines *lines, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(lines, format, args);
    va_end(args);
}

void lsi_memory_lines_event(lsi_memory_lines *lines, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(lines, format, args);
    va_end(args);
    lines->events++;
}

static json_t *kinds(void)
{
    json_t *const list = json_array();
    for (int tag = 0; tag < LS_MEMORY_TAG_COUNT; tag++)
        json_array_append_new(
            list, json_string(ls_memory_tag_name((ls_memory_tag)tag)));
    return list;
}

void lsi_memory_lines_head(lsi_memory_lines *lines)
{
    char host[HOST_NAME_MAX + 1] = "unknown";
    int32_t rank, size;
    (void)gethostname(host, sizeof(host) - 1);
    lsi_get_rank(&rank, &size);
    json_t *const head = json_pack(
        "{s:s, s:s, s:i, s:i, s:i, s:s, s:o}", "version", ls_version_string(),
        "run", lsi_restart_run(), "rank", rank, "size", size, "pid",
        (int)getpid(), "host", host, "kinds", kinds());
    char *const text = head != NULL ? json_dumps(head, JSON_COMPACT) : NULL;
    json_decref(head);
    lsi_memory_lines_add(lines, "h %s\n", text != NULL ? text : "{}");
    free(text);
}

lsi_memory_lines *lsi_memory_lines_open(const char *path, bool fresh)
{
    lsi_memory_lines *const lines = calloc(1, sizeof(*lines));
    if (lines == NULL)
        return NULL;
    lines->fd = -1;
    if (fresh)
        (void)unlink(path);
    if (lsi_make_parents(path) == LS_OK)
        lines->fd = open(path,
                         O_WRONLY | O_CREAT | O_CLOEXEC |
                             (fresh ? O_EXCL | O_NOFOLLOW : O_TRUNC),
                         0666);
    if (lines->fd < 0) {
        free(lines);
        return NULL;
    }
    lsi_memory_lines_add(lines, LSI_MEMORY_MAGIC "%d\n", LSI_MEMORY_VERSION);
    lsi_memory_lines_head(lines);
    return lines;
}

/* For the names of functions, when the file is read. */
static void add_maps(lsi_memory_lines *lines)
{
    FILE *const maps = fopen("/proc/self/maps", "re");
    char line[LSI_MEMORY_LINE / 2];
    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
        if (strchr(line, '/') != NULL)
            lsi_memory_lines_add(lines, "m %.*s\n", (int)strcspn(line, "\n"),
                                 line);
    }
    if (maps != NULL)
        fclose(maps);
}

int lsi_memory_lines_close(lsi_memory_lines **lines)
{
    if (lines == NULL || *lines == NULL)
        return 0;
    lsi_memory_lines *const closing = *lines;
    *lines = NULL;
    add_maps(closing);
    lsi_memory_lines_add(closing, "z %" PRIu64 "\n", closing->events);
    flush(closing);
    int error = closing->error;
    if (close(closing->fd) != 0 && error == 0)
        error = errno;
    free(closing);
    return error;
}

void lsi_memory_lines_forget(lsi_memory_lines **lines)
{
    if (*lines != NULL)
        close((*lines)->fd);
    free(*lines);
    *lines = NULL;
}
