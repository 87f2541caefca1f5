/* Folders of checkpoints; see folder.h. */
#include "model/checkpoint/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"

/* ---- names --------------------------------------------------------------- */

/*
 * A name that is too long becomes empty, so that it cannot name another file.
 */
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

/* The step with this name, or -1. */
static int64_t step_of(const char *name)
{
    int64_t step = -1;
    if (strncmp(name, "step-", 5) == 0)
        step = strtoll(name + 5, NULL, 10);
    return step >= 0 && strcmp(lsi_step_folder(NULL, step).text, name) == 0
               ? step
               : -1;
}

int64_t lsi_step_of(const char *path)
{
    lsi_path copy = lsi_path_in(NULL, path);
    return step_of(basename(copy.text));
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
    if (dir == NULL && errno != ENOENT)
        return lsi_fail_errno(LS_ERR_IO, "cannot read the folder '%s'", folder);
    const size_t capacity = dir != NULL ? read_steps(dir, NULL, 0) : 0;
    const ls_status status = lsi_alloc(out, capacity * sizeof(int64_t),
                                       LS_MEMORY_OTHER, "checkpoints");
    if (status == LS_OK) {
        const size_t found = dir != NULL ? read_steps(dir, *out, capacity) : 0;
        *n = found < capacity ? found : capacity;
        qsort(*out, *n, sizeof(int64_t), newest_first);
    }
    if (dir != NULL)
        closedir(dir);
    return status;
}

lsi_step_state lsi_step_find_state(const char *folder, int64_t step)
{
    struct stat info;
    const lsi_path path = lsi_step_folder(folder, step);
    if (lstat(path.text, &info) != 0 || !S_ISDIR(info.st_mode))
        return LSI_STEP_OTHER;
    if (lstat(lsi_path_in(path.text, LSI_MANIFEST_FILE).text, &info) == 0)
        return LSI_STEP_ENDED;
    return errno == ENOENT ? LSI_STEP_TORN : LSI_STEP_OTHER;
}

bool lsi_step_may_have_ended(const char *step_folder)
{
    const lsi_path manifest = lsi_path_in(step_folder, LSI_MANIFEST_FILE);
    return access(manifest.text, F_OK) == 0 ||
           (errno != ENOENT && errno != ENOTDIR);
}

ls_status lsi_steps_newest(const char *folder, int64_t *step)
{
    int64_t *steps;
    size_t n;
    *step = -1;
    LS_TRY(lsi_steps_list(folder, &steps, &n));
    for (size_t i = 0; i < n && *step < 0; i++) {
        if (lsi_step_may_have_ended(lsi_step_folder(folder, steps[i]).text))
            *step = steps[i];
    }
    lsi_free(steps);
    return LS_OK;
}

/* ---- making -------------------------------------------------------------- */

/* Makes a folder, and syncs its parent so that the name is on the disk. */
static ls_status make_folder(const char *path)
{
    lsi_path around = lsi_path_in(NULL, path);
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return lsi_fail_errno(LS_ERR_IO, "cannot create the folder '%s'", path);
    return lsi_sync_folder(dirname(around.text));
}

ls_status lsi_folder_make(const char *folder)
{
    LS_TRY(lsi_make_parents(folder));
    LS_TRY(make_folder(folder));
    if (access(folder, W_OK | X_OK) != 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot write to the folder '%s'",
                              folder);
    return LS_OK;
}

ls_status lsi_step_check(const char *step_folder, int rank)
{
    char host[64] = "?";
    if (access(step_folder, F_OK) == 0 || errno != ENOENT)
        return LS_OK; /* its reader reports any other fault */
    if (rank == 0)
        return lsi_fail(LS_ERR_IO,
                        "'%s' was removed while this run was using it",
                        step_folder);
    (void)gethostname(host, sizeof(host) - 1);
    return lsi_fail(LS_ERR_IO,
                    "host %s cannot find '%s', which rank 0 can see; the "
                    "checkpoint folder must be on a file system that all hosts "
                    "share",
                    host, step_folder);
}

ls_status lsi_step_make(const char *folder, int64_t step)
{
    return make_folder(lsi_step_folder(folder, step).text);
}

/* ---- setting aside ------------------------------------------------------- */

/* The n-th name for a step's folder that is set aside; n >= 1. */
static lsi_path aside(const char *folder, int64_t step, int n)
{
    char name[64], number[16] = "";
    if (n > 1)
        snprintf(number, sizeof number, "-%d", n);
    snprintf(name, sizeof name, "unreadable-step-%012" PRId64 "%s", step,
             number);
    return lsi_path_in(folder, name);
}

ls_status lsi_step_set_aside(const char *folder, int64_t step, lsi_path *to)
{
    enum { NAMES = 1000 };
    struct stat info;
    const lsi_path from = lsi_step_folder(folder, step);
    int n = 1;
    *to = aside(folder, step, n);
    while (n < NAMES && lstat(to->text, &info) == 0)
        *to = aside(folder, step, ++n);
    if (rename(from.text, to->text) != 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot rename '%s' to '%s'",
                              from.text, to->text);
    return LS_OK;
}

/* ---- removing ------------------------------------------------------------ */

static bool is_rank_file(const char *name)
{
    char *middle;
    if (strncmp(name, "rank-", 5) != 0)
        return false;
    const int rank = (int)strtol(name + 5, &middle, 10);
    if (strncmp(middle, "-of-", 4) != 0)
        return false;
    const int ranks = (int)strtol(middle + 4, NULL, 10);
    return strcmp(lsi_rank_file(rank, ranks).text, name) == 0;
}

/* A file of a checkpoint, or one in the making. */
static bool is_ours(const char *name)
{
    lsi_path copy = lsi_path_in(NULL, name);
    const char *const end = lsi_temporary_end(name);
    if (end != NULL)
        copy.text[end - name] = '\0';
    return strcmp(copy.text, LSI_MODEL_FILE) == 0 ||
           strcmp(copy.text, LSI_MANIFEST_FILE) == 0 || is_rank_file(copy.text);
}

static ls_status remove_file(int fd, const lsi_path *path, const char *name)
{
    if (unlinkat(fd, name, 0) == 0 || errno == ENOENT)
        return LS_OK;
    return lsi_fail_errno(LS_ERR_IO, "cannot remove '%s/%s'", path->text, name);
}

static ls_status remove_files(DIR *dir, const lsi_path *path)
{
    LS_TRY(remove_file(dirfd(dir), path, LSI_MANIFEST_FILE));
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        if (is_ours(e->d_name))
            LS_TRY(remove_file(dirfd(dir), path, e->d_name));
    }
    return LS_OK;
}

ls_status lsi_step_clear(const char *folder, int64_t step)
{
    const lsi_path path = lsi_step_folder(folder, step);
    const int fd =
        open(path.text, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return LS_OK;
    if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
        return lsi_fail(LS_ERR_IO,
                        "'%s' is a link or a file, not a checkpoint folder; "
                        "remove it, or choose another folder",
                        path.text);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        const ls_status status =
            lsi_fail_errno(LS_ERR_IO, "cannot read the folder '%s'", path.text);
        if (fd >= 0)
            close(fd);
        return status;
    }
    const ls_status status = remove_files(dir, &path);
    closedir(dir);
    return status;
}

ls_status lsi_step_remove(const char *folder, int64_t step)
{
    const lsi_path path = lsi_step_folder(folder, step);
    LS_TRY(lsi_step_clear(folder, step));
    if (rmdir(path.text) == 0 || errno == ENOENT)
        return LS_OK;
    if (errno == ENOTEMPTY || errno == EEXIST)
        return lsi_fail(LS_ERR_IO,
                        "the folder '%s' was kept, because it contains files "
                        "that do not belong to a checkpoint",
                        path.text);
    return lsi_fail_errno(LS_ERR_IO, "cannot remove '%s'", path.text);
}
