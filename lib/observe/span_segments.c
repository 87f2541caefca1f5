#include "observe/span_segments.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Files in a trace that is full, and more than there can ever be. */
enum { PARTS = 8, MOST = 4 * PARTS };

static char folder[PATH_MAX - 128];
static char stem[64]; /* "": no file has been opened yet */
static char path[PATH_MAX];
static int fd = -1;
static uint64_t limit, total;
static uint64_t sizes[MOST]; /* of files, by number */
static unsigned current, oldest;

void lsi_segments_begin(const char *name, uint64_t most_bytes)
{
    snprintf(folder, sizeof(folder), "%s", name);
    stem[0] = '\0';
    limit = most_bytes;
    total = 0;
    current = oldest = 0;
    memset(sizes, 0, sizeof(sizes));
}

bool lsi_segments_is_open(void)
{
    return fd >= 0;
}

unsigned lsi_segments_number(void)
{
    return current;
}

const char *lsi_segments_path(void)
{
    return path;
}

static void name_file(unsigned number, char out[PATH_MAX])
{
    if (number == 0)
        snprintf(out, PATH_MAX, "%s/%s.lstrace", folder, stem);
    else
        snprintf(out, PATH_MAX, "%s/%s.%u.lstrace", folder, stem, number);
}

/* "STEM.12.lstrace" */
static bool is_later_file(const char *name)
{
    const size_t n = strlen(stem);
    if (strncmp(name, stem, n) != 0 || name[n] != '.')
        return false;
    const size_t digits = strspn(name + n + 1, "0123456789");
    return digits > 0 && strcmp(name + n + 1 + digits, ".lstrace") == 0;
}

/* They would be taken for parts of this one. */
static void remove_files_of_earlier_run(void)
{
    DIR *const all = opendir(folder);
    if (all == NULL)
        return;
    for (const struct dirent *e; (e = readdir(all)) != NULL;)
        if (is_later_file(e->d_name))
            (void)unlinkat(dirfd(all), e->d_name, 0);
    closedir(all);
}

bool lsi_segments_open(const char *name)
{
    if (stem[0] == '\0') {
        snprintf(stem, sizeof(stem), "%s", name);
        remove_files_of_earlier_run();
    }
    name_file(current, path);
    if (unlink(path) != 0 && errno != ENOENT)
        return false;
    /* A new file: what somebody has linked here is not written to. */
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    sizes[current % MOST] = 0;
    return fd >= 0;
}

/* What is not there any more makes no room, but needs none, either. */
static void make_room(size_t n)
{
    char old[PATH_MAX];
    for (; limit > 0 && total + n > limit && oldest < current; oldest++) {
        name_file(oldest, old);
        (void)unlink(old);
        total -= sizes[oldest % MOST];
    }
}

bool lsi_segments_write(const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    make_room(n);
    while (n > 0) {
        const ssize_t done = write(fd, at, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        at += done;
        n -= (size_t)done;
        sizes[current % MOST] += (uint64_t)done;
        total += (uint64_t)done;
    }
    return true;
}

bool lsi_segments_is_full(bool step_ends)
{
    const uint64_t most = step_ends ? limit / PARTS : limit / (PARTS / 2);
    return limit > 0 && sizes[current % MOST] >= most;
}

bool lsi_segments_close(void)
{
    const bool good = fd < 0 || close(fd) == 0;
    current += fd >= 0;
    fd = -1;
    return good;
}

void lsi_segments_forget(void)
{
    if (fd >= 0)
        close(fd);
    fd = -1;
    stem[0] = '\0';
}
