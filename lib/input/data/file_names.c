/* Lists of names; see file_names.h. */
#include "input/data/file_names.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/memory.h"

static ls_status grow(void *block, size_t used, size_t bytes)
{
    return lsi_alloc_larger(block, used, bytes, LS_MEMORY_DATA,
                            "names of images");
}

ls_status lsi_file_names_add(lsi_file_names *all, const char *name)
{
    const size_t bytes = strlen(name) + 1;
    if (all->bytes + bytes > all->room) {
        const size_t room = 2 * all->room + bytes + 1024;
        LS_TRY(grow(&all->text, all->bytes, room));
        all->room = room;
    }
    if (all->count == all->most) {
        const size_t most = 2 * (size_t)all->most + 64;
        LS_TRY(grow(&all->at, (size_t)all->count * sizeof(size_t),
                    most * sizeof(size_t)));
        all->most = (int64_t)most;
    }
    memcpy(all->text + all->bytes, name, bytes);
    all->at[all->count++] = all->bytes;
    all->bytes += bytes;
    return LS_OK;
}

const char *lsi_file_names_at(const lsi_file_names *all, int64_t index)
{
    return all->text + all->at[index];
}

static int compare(const void *a, const void *b, void *text)
{
    return strcmp((const char *)text + *(const size_t *)a,
                  (const char *)text + *(const size_t *)b);
}

void lsi_file_names_sort(lsi_file_names *all, int64_t begin)
{
    if (all->count > begin)
        qsort_r(all->at + begin, (size_t)(all->count - begin), sizeof(size_t),
                compare, all->text);
}

void lsi_file_names_free(lsi_file_names *all)
{
    lsi_free(all->text);
    lsi_free(all->at);
}

/* ---- listing ------------------------------------------------------------- */

ls_status lsi_file_names_list(const char *path, lsi_file_names *out,
                              lsi_file_name_fn fn)
{
    DIR *dir = opendir(path);
    if (dir == NULL)
        return lsi_fail_errno(LS_ERR_IO, "cannot list the folder '%s'", path);
    ls_status status = LS_OK;
    while (status == LS_OK) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (entry == NULL && errno != 0)
            status =
                lsi_fail_errno(LS_ERR_IO, "cannot list the folder '%s'", path);
        if (entry == NULL)
            break;
        if (entry->d_name[0] != '.')
            status = fn(out, path, entry->d_name);
    }
    closedir(dir);
    return status;
}

static bool ends_in(const char *name, const char *const *endings)
{
    const char *dot = strrchr(name, '.');
    for (; dot != NULL && *endings != NULL; endings++) {
        if (strcasecmp(dot, *endings) == 0)
            return true;
    }
    return false;
}

static const char *const ours[] = {".png", ".jpg", ".jpeg", NULL};
static const char *const others[] = {".webp", ".bmp",  ".gif", ".tif",
                                     ".tiff", ".avif", NULL};

static ls_status is_image(const char *path, const char *name, bool *out)
{
    *out = ends_in(name, ours);
    if (*out || !ends_in(name, others))
        return LS_OK;
    return lsi_fail(LS_ERR_FORMAT,
                    "'%s/%s' is neither a PNG nor a JPEG image; convert it, or "
                    "remove it from the folder",
                    path, name);
}

ls_status lsi_file_names_add_if_image(lsi_file_names *out, const char *path,
                                      const char *name)
{
    bool image;
    LS_TRY(is_image(path, name, &image));
    return image ? lsi_file_names_add(out, name) : LS_OK;
}

/* ---- paths of images ----------------------------------------------------- */

/* Links to folders are left alone: they may lead around in a circle. */
static ls_status add_path(lsi_file_names *out, const char *path,
                          const char *name)
{
    char inside[PATH_MAX];
    struct stat info;
    const int length = snprintf(inside, sizeof inside, "%s/%s", path, name);
    if (length < 0 || length >= PATH_MAX)
        return lsi_fail(LS_ERR_IO, "the path of '%s' in '%s' is too long", name,
                        path);
    if (lstat(inside, &info) == 0 && S_ISDIR(info.st_mode))
        return lsi_file_names_list(inside, out, add_path);
    return ends_in(name, ours) || ends_in(name, others)
               ? lsi_file_names_add(out, inside)
               : LS_OK;
}

ls_status lsi_file_names_add_images(lsi_file_names *out, const char *path)
{
    struct stat info;
    char folder[PATH_MAX];
    const int64_t begin = out->count;
    if (stat(path, &info) != 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot open '%s'", path);
    if (!S_ISDIR(info.st_mode))
        return lsi_file_names_add(out, path);
    snprintf(folder, sizeof folder, "%s", path);
    for (size_t n = strlen(folder); n > 1 && folder[n - 1] == '/'; n--)
        folder[n - 1] = '\0';
    LS_TRY(lsi_file_names_list(folder, out, add_path));
    lsi_file_names_sort(out, begin);
    if (out->count > begin)
        return LS_OK;
    return lsi_fail(LS_ERR_FORMAT,
                    "the folder '%s' holds no images; expected files that end "
                    "in .png, .jpg or .jpeg",
                    path);
}
