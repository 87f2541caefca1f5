/* Folders of checkpoints; see folder.h. */
#include "train/checkpoint/folder.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "tensor/atomic_file.h"

/* ---- names --------------------------------------------------------------- */

/* A name that is too long becomes none, so that nothing else is meant by it. */
lsi_path lsi_path_in(const char *folder, const char *name)
{
    lsi_path path;
    const int length =
        snprintf(path.text, sizeof path.text, "%s%s%s",
                 folder != NULL ? folder : "", folder != NULL ? "/" : "", name);
    if (length < 0 || (size_t)length >= sizeof path.text)
        path.text[0] = '\0';
    return path;
}

lsi_path lsi_step_folder(const char *folder, int64_t step)
{
    char name[32];
    snprintf(name, sizeof name, "step-%012" PRId64, step);
    return lsi_path_in(folder, name);
}

lsi_path lsi_rank_file(int rank, int ranks)
{
    lsi_path path;
    snprintf(path.text, sizeof path.text, "rank-%05d-of-%05d.safetensors", rank,
             ranks);
    return path;
}

/* The step of which this is the name, or -1. */
static int64_t step_of(const char *name)
{
    int64_t step = -1;
    if (strncmp(name, "step-", 5) == 0)
        step = strtoll(name + 5, NULL, 10);
    return step >= 0 && strcmp(lsi_step_folder(NULL, step).text, name) == 0
               ? step
               : -1;
}

bool lsi_is_step_folder(const char *path)
{
    lsi_path copy = lsi_path_in(NULL, path);
    return step_of(basename(copy.text)) >= 0;
}

/* ---- lists --------------------------------------------------------------- */

static int newest_first(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x > y ? -1 : x < y;
}

static size_t read_steps(DIR *dir, int64_t *steps, size_t capacity)
{
    size_t n = 0;
    rewinddir(dir);
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        const int64_t step = step_of(e->d_name);
        if (step < 0)
            continue;
        if (n < capacity)
            steps[n] = step;
        n++;
    }
    return n;
}

ls_status lsi_steps_list(const char *folder, int64_t **out, size_t *n)
{
    DIR *dir = opendir(folder);
    void *block = NULL;
    if (dir == NULL && errno != ENOENT)
        return lsi_fail_errno(LS_ERR_IO, "cannot read the folder '%s'", folder);
    const size_t capacity = dir != NULL ? read_steps(dir, NULL, 0) : 0;
    const ls_status status = lsi_alloc(&block, capacity * sizeof(int64_t),
                                       LS_MEMORY_OTHER, "checkpoints");
    if (status == LS_OK) {
        const size_t found = dir != NULL ? read_steps(dir, block, capacity) : 0;
        *n = found < capacity ? found : capacity;
        *out = block;
        qsort(*out, *n, sizeof(int64_t), newest_first);
    }
    if (dir != NULL)
        closedir(dir);
    return status;
}

ls_status lsi_steps_newest(const char *folder, int64_t *step)
{
    int64_t *steps;
    size_t n;
    *step = -1;
    LS_TRY(lsi_steps_list(folder, &steps, &n));
    for (size_t i = 0; i < n && *step < 0; i++) {
        const lsi_path in = lsi_step_folder(folder, steps[i]);
        if (access(lsi_path_in(in.text, LSI_MANIFEST_FILE).text, F_OK) == 0)
            *step = steps[i];
    }
    lsi_free(steps);
    return LS_OK;
}

/* ---- making and removing ------------------------------------------------- */

/* The folder around `path` holds its name on the disk afterwards. */
static ls_status make_folder(const char *path)
{
    lsi_path around = lsi_path_in(NULL, path);
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return lsi_fail_errno(LS_ERR_IO, "cannot make the folder '%s'", path);
    return lsi_sync_folder(dirname(around.text));
}

ls_status lsi_folder_make(const char *folder)
{
    LS_TRY(make_folder(folder));
    if (access(folder, W_OK | X_OK) != 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot write to the folder '%s'",
                              folder);
    return LS_OK;
}

ls_status lsi_step_check(const char *step_folder)
{
    char host[64] = "?";
    if (access(step_folder, F_OK) == 0 || errno != ENOENT)
        return LS_OK; /* whatever is wrong will be said by who reads it */
    (void)gethostname(host, sizeof(host) - 1);
    return lsi_fail(LS_ERR_IO,
                    "host %s has no '%s', which rank 0 sees; checkpoints must "
                    "lie on a file system that all hosts share",
                    host, step_folder);
}

ls_status lsi_step_make(const char *folder, int64_t step)
{
    LS_TRY(make_folder(folder));
    return make_folder(lsi_step_folder(folder, step).text);
}

static ls_status remove_files(const char *folder)
{
    DIR *dir = opendir(folder);
    if (dir == NULL && errno == ENOENT)
        return LS_OK;
    if (dir == NULL)
        return lsi_fail_errno(LS_ERR_IO, "cannot read the folder '%s'", folder);
    unlink(lsi_path_in(folder, LSI_MANIFEST_FILE).text);
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            unlink(lsi_path_in(folder, e->d_name).text);
    }
    closedir(dir);
    return LS_OK;
}

ls_status lsi_step_remove(const char *folder, int64_t step)
{
    const lsi_path path = lsi_step_folder(folder, step);
    LS_TRY(remove_files(path.text));
    if (rmdir(path.text) != 0 && errno != ENOENT)
        return lsi_fail_errno(LS_ERR_IO, "cannot remove '%s'", path.text);
    return LS_OK;
}
