#include "observe/span_segments.h"

#include <dirent.h>
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
static uint64_t limit, total;
static uint64_t sizes[MOST]; /* of files that were closed, by number */
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

static void name_file(unsigned number, char out[PATH_MAX])
{
    if (number == 0)
        snprintf(out, PATH_MAX, "%s/%s.lstrace", folder, stem);
    else
        snprintf(out, PATH_MAX, "%s/%s.%u.lstrace", folder, stem, number);
}

/* A file that others have deleted frees no space and counts as removed. */
static void make_room(size_t n)
{
    char old[PATH_MAX];
    const uint64_t now = total + lsi_segments_file.bytes + n;
    uint64_t removed = 0;
    for (; limit > 0 && now - removed > limit && oldest < current; oldest++) {
        name_file(oldest, old);
        (void)unlink(old);
        removed += sizes[oldest % MOST];
    }
    total -= removed;
}

lsi_chunks lsi_segments_file = {.fd = -1, .make_room = make_room};

bool lsi_segments_is_open(void)
{
    return lsi_segments_file.fd >= 0;
}

unsigned lsi_segments_number(void)
{
    return current;
}

const char *lsi_segments_path(void)
{
    return path;
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
    /* A new file: what somebody has linked here is not written to. */
    return lsi_chunks_open(&lsi_segments_file, path, true);
}

bool lsi_segments_is_full(bool step_ends)
{
    const uint64_t most = step_ends ? limit / PARTS : limit / (PARTS / 2);
    return limit > 0 && lsi_segments_file.bytes >= most;
}

bool lsi_segments_close(void)
{
    if (!lsi_segments_is_open())
        return true;
    sizes[current++ % MOST] = lsi_segments_file.bytes;
    total += lsi_segments_file.bytes;
    lsi_segments_file.bytes = 0;
    return lsi_chunks_close(&lsi_segments_file);
}

void lsi_segments_forget(void)
{
    (void)lsi_chunks_close(&lsi_segments_file);
    stem[0] = '\0';
}
