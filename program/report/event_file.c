#include "report/event_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "report/result.h"

#define PREFIX "events.out.tfevents."
#define SUFFIX ".lockstep" /* the folder may also contain other event files */

enum { BUFFER = 1 << 16 };

static const double flush_seconds = 5;

struct lsi_event_file {
    int fd;
    double flushed;
    size_t used;
    unsigned char buffer[BUFFER];
    char path[PATH_MAX];
};

/* ---- the folder ---------------------------------------------------------- */

static int is_ours(const struct dirent *entry)
{
    const size_t length = strlen(entry->d_name);
    return strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0 &&
           length > strlen(PREFIX SUFFIX) &&
           strcmp(entry->d_name + length - strlen(SUFFIX), SUFFIX) == 0;
}

static int join(char out[PATH_MAX], const char *folder, const char *name)
{
    return snprintf(out, PATH_MAX, "%s/%s", folder, name) < PATH_MAX;
}

/*
 * Cuts the events that a run has written beyond the place from which it
 * resumes. Removes a file without remaining scalars; keeps files that only look
 * like ours.
 */
static ls_status cut(const char *path, lsi_event_place *place)
{
    int64_t bytes, scalars;
    FILE *const file = fopen(path, "r+e");
    if (file == NULL)
        return lsi_fail_errno(LS_ERR_IO, "cannot write '%s'", path);
    const ls_status known = lsi_events_until(file, place, &bytes, &scalars);
    bool failed = false;
    if (known == LS_OK)
        failed = scalars > 0 ? ftruncate(fileno(file), bytes) != 0
                             : unlink(path) != 0;
    const ls_status status =
        failed ? lsi_fail_errno(LS_ERR_IO, "cannot write '%s'", path) : LS_OK;
    fclose(file);
    return status;
}

/* *newest: the time in the name of the newest file; 0 without any. */
static ls_status visit(const char *folder, struct dirent **names, int n,
                       lsi_event_place *place, int64_t *newest)
{
    char path[PATH_MAX];
    *newest = 0;
    for (int i = 0; i < n; i++) {
        const int64_t time =
            strtoll(names[i]->d_name + strlen(PREFIX), NULL, 10);
        *newest = time > *newest ? time : *newest;
        if (place != NULL && join(path, folder, names[i]->d_name))
            LS_TRY(cut(path, place));
    }
    return LS_OK;
}

static ls_status visit_all(const char *folder, lsi_event_place *place,
                           int64_t *newest)
{
    struct dirent **names = NULL;
    const int n = scandir(folder, &names, is_ours, alphasort);
    if (n < 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot read the folder '%s'", folder);
    const ls_status status = visit(folder, names, n, place, newest);
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
    return status;
}

/* ---- the file ------------------------------------------------------------ */

static double now(void)
{
    return (double)lsi_wall_clock_ns() * 1e-9;
}

/* TensorBoard reads files in the order of their names: this one is the last. */
static ls_status create(lsi_event_file *file, const char *folder,
                        int64_t newest)
{
    char host[HOST_NAME_MAX + 1] = "";
    char name[NAME_MAX + 1];
    int64_t time = (int64_t)now();
    if (gethostname(host, sizeof(host) - 1) != 0 || host[0] == '\0')
        snprintf(host, sizeof(host), "localhost");
    if (time <= newest)
        time = newest + 1;
    snprintf(name, sizeof(name), PREFIX "%010" PRId64 ".%s.%ld" SUFFIX, time,
             host, (long)getpid());
    if (!join(file->path, folder, name))
        return lsi_fail(LS_ERR_IO, "cannot write to '%s': its name is too long",
                        folder);
    file->fd = open(file->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file->fd < 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot write '%s'", file->path);
    return LS_OK;
}

static ls_status begin(lsi_event_file *file, const char *folder, int64_t first,
                       bool goes_on)
{
    lsi_event_place place = {.step = first};
    int64_t newest;
    LS_TRY(lsi_need_folders(folder));
    LS_TRY(visit_all(folder, goes_on ? &place : NULL, &newest));
    LS_TRY(create(file, folder, newest));
    file->used = lsi_event_put_version(file->buffer, now());
    file->used += lsi_event_put_start(file->buffer + file->used, now(),
                                      goes_on ? first + 1 : 0);
    return lsi_event_file_flush(file);
}

ls_status lsi_event_file_open(lsi_event_file **out, const char *folder,
                              int64_t first, bool goes_on)
{
    lsi_event_file *const file = malloc(sizeof(*file));
    if (file == NULL)
        return lsi_fail(LS_ERR_MEMORY, "not enough memory to write to '%s'",
                        folder);
    *file = (lsi_event_file){.fd = -1};
    const ls_status status = begin(file, folder, first, goes_on);
    if (status == LS_OK)
        *out = file;
    else
        lsi_event_file_close(file);
    return status;
}

ls_status lsi_event_file_flush(lsi_event_file *file)
{
    const size_t used = file->used;
    file->used = 0; /* after a failure the bytes are not written again */
    file->flushed = lsi_clock_seconds();
    return lsi_write_to_file(file->fd, (const char *)file->buffer, used,
                             file->path);
}

ls_status lsi_event_file_add(lsi_event_file *file, int64_t step,
                             const lsi_scalar *scalars, size_t n)
{
    if (file->used + LSI_EVENT_MOST > BUFFER)
        LS_TRY(lsi_event_file_flush(file));
    file->used += lsi_event_put_scalars(file->buffer + file->used, now(), step,
                                        scalars, n);
    if (lsi_clock_seconds() - file->flushed < flush_seconds)
        return LS_OK;
    return lsi_event_file_flush(file);
}

void lsi_event_file_close(lsi_event_file *file)
{
    if (file == NULL)
        return;
    if (file->fd >= 0) {
        (void)lsi_event_file_flush(file);
        close(file->fd);
    }
    free(file);
}
