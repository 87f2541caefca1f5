/* Arrays of files, of archives and of folders, by their names. */
#include "input/data/arrays.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/memory.h"
#include "input/data/unpack.h"

/* ---- one array ----------------------------------------------------------- */

bool lsi_file_array_is_int(const lsi_file_array *array)
{
    return array->kind == 'b' || array->kind == 'i' ||
           (array->kind == 'u' && array->size < 8);
}

int64_t lsi_file_array_int(const lsi_file_array *array, int64_t i)
{
    const uint8_t *at = array->data + (size_t)i * array->size;
    uint64_t value = 0;
    for (size_t b = array->size; b > 0; b--)
        value = value << 8 | at[b - 1];
    if (array->kind != 'i' || array->size == 8)
        return (int64_t)value;
    const uint64_t sign = UINT64_C(1) << (8 * array->size - 1);
    return (int64_t)((value ^ sign) - sign);
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* The array names of MNIST's files, and of files named like them. */
static const char *name_of_idx(const char *file)
{
    const bool images = strstr(file, "images") != NULL;
    if (!images && strstr(file, "labels") == NULL)
        return NULL;
    if (strstr(file, "train-") != NULL)
        return images ? "train_images" : "train_labels";
    if (strstr(file, "t10k-") != NULL || strstr(file, "test-") != NULL)
        return images ? "test_images" : "test_labels";
    return NULL;
}

/* A file's name without its folders and endings. */
static void name_after(char out[LSI_ARRAY_NAME], const char *file, bool is_idx)
{
    const char *slash = strrchr(file, '/');
    const char *base = slash != NULL ? slash + 1 : file;
    const char *idx = is_idx ? name_of_idx(base) : NULL;
    snprintf(out, LSI_ARRAY_NAME, "%s", idx != NULL ? idx : base);
    if (ends_with(out, ".gz"))
        out[strlen(out) - 3] = '\0';
    if (ends_with(out, ".npy"))
        out[strlen(out) - 4] = '\0';
}

/* ---- files --------------------------------------------------------------- */

static ls_status too_many_arrays(const char *path)
{
    return lsi_fail(LS_ERR_UNSUPPORTED,
                    "'%s' holds too many arrays; at most %d are supported",
                    path, LSI_MOST_ARRAYS);
}

static ls_status add_array(lsi_file_arrays *all, const lsi_file_array *array,
                           const char *name, bool is_idx, const char *path)
{
    lsi_file_array *const made = &all->array[all->n];
    char own[LSI_ARRAY_NAME];
    if (all->n == LSI_MOST_ARRAYS)
        return too_many_arrays(path);
    name_after(own, name, is_idx);
    if (lsi_file_arrays_find(all, own) != NULL)
        return lsi_fail(
            LS_ERR_FORMAT,
            "'%s' holds two arrays named '%s'; give each a different name",
            path, own);
    *made = *array;
    memcpy(made->name, own, sizeof own);
    all->n++;
    return LS_OK;
}

typedef struct zip_context {
    lsi_file_arrays *all;
    const char *path;
} zip_context;

static ls_status add_member(void *context, const char *name,
                            const lsi_records *file)
{
    const zip_context *const c = context;
    char where[PATH_MAX + LSI_ARRAY_NAME];
    lsi_file_array array;
    snprintf(where, sizeof where, "%s in %s", name, c->path);
    ls_status status = LS_OK;
    if (c->all->n_records > LSI_MOST_ARRAYS)
        status = too_many_arrays(c->path);
    if (status == LS_OK)
        status = lsi_npy_parse(&array, file->data, file->bytes, where);
    if (status == LS_OK)
        status = add_array(c->all, &array, name, false, c->path);
    if (status != LS_OK)
        file->release(file->data, file->bytes);
    else
        c->all->records[c->all->n_records++] = *file;
    return status;
}

/* Kinds of files that are one array. */
static const struct {
    lsi_magic magic;
    ls_status (*parse)(lsi_file_array *out, const uint8_t *data, size_t bytes,
                       const char *where);
} sources[] = {{LSI_MAGIC_NPY, lsi_npy_parse}, {LSI_MAGIC_IDX, lsi_idx_parse}};

static ls_status parse(lsi_file_arrays *all, const lsi_records *file,
                       const char *path, bool skip_checksums)
{
    const lsi_magic magic = lsi_magic_of(file->data, file->bytes);
    zip_context context = {all, path};
    lsi_file_array array;
    if (magic == LSI_MAGIC_ZIP)
        return lsi_zip_read(file, path, skip_checksums, add_member, &context);
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        if (sources[i].magic != magic)
            continue;
        LS_TRY(sources[i].parse(&array, file->data, file->bytes, path));
        return add_array(all, &array, path, magic == LSI_MAGIC_IDX, path);
    }
    if (file->bytes == 0)
        return lsi_fail(LS_ERR_FORMAT, "'%s' is empty", path);
    return lsi_fail(LS_ERR_FORMAT,
                    "'%s' is %s; arrays are read from .npy, .npz and IDX files",
                    path, lsi_magic_name(magic));
}

static ls_status add_file(lsi_file_arrays *all, const char *path,
                          bool skip_checksums)
{
    lsi_records file;
    if (all->n_records > LSI_MOST_ARRAYS)
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "cannot add '%s': the folder holds too many arrays; at "
                        "most %d are supported",
                        path, LSI_MOST_ARRAYS);
    LS_TRY(lsi_records_load(&file, path));
    all->records[all->n_records++] = file;
    return parse(all, &file, path, skip_checksums);
}

/* ---- folders ------------------------------------------------------------- */

static int is_array_file(const struct dirent *entry)
{
    const char *name = entry->d_name;
    return name[0] != '.' &&
           (ends_with(name, ".npy") || ends_with(name, ".npy.gz") ||
            (strstr(name, "-ubyte") != NULL && name_of_idx(name) != NULL));
}

static ls_status add_folder(lsi_file_arrays *all, const char *path)
{
    struct dirent **entries;
    ls_status status = LS_OK;
    const int n = scandir(path, &entries, is_array_file, alphasort);
    if (n < 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot list the folder '%s'", path);
    for (int i = 0; i < n; i++) {
        char file[PATH_MAX];
        const int length =
            snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
        if (status == LS_OK && length >= 0 && length < PATH_MAX)
            status = add_file(all, file, false);
        free(entries[i]);
    }
    free(entries);
    return status;
}

bool lsi_holds_arrays(const char *folder)
{
    DIR *dir = opendir(folder);
    bool found = false;
    if (dir == NULL)
        return false;
    for (const struct dirent *e = readdir(dir); e != NULL && !found;
         e = readdir(dir))
        found = is_array_file(e) != 0;
    closedir(dir);
    return found;
}

/* ---- all ----------------------------------------------------------------- */

const lsi_file_array *lsi_file_arrays_find(const lsi_file_arrays *arrays,
                                           const char *name)
{
    for (int i = 0; i < arrays->n; i++) {
        if (strcmp(arrays->array[i].name, name) == 0)
            return &arrays->array[i];
    }
    return NULL;
}

void lsi_file_arrays_free(lsi_file_arrays **arrays)
{
    if (*arrays == NULL)
        return;
    /* Records unpacked last may be inside records opened first. */
    for (int i = (*arrays)->n_records; i-- > 0;)
        lsi_records_release(&(*arrays)->records[i]);
    lsi_free(*arrays);
    *arrays = NULL;
}

ls_status lsi_file_arrays_open(lsi_file_arrays **out, const char *path,
                               bool skip_checksums)
{
    struct stat info;
    lsi_file_arrays *all;
    if (stat(path, &info) != 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot open '%s'", path);
    LS_TRY(lsi_alloc_zeroed(&all, sizeof(lsi_file_arrays), LS_MEMORY_DATA,
                            "arrays read from files"));
    ls_status status = S_ISDIR(info.st_mode)
                           ? add_folder(all, path)
                           : add_file(all, path, skip_checksums);
    if (status == LS_OK && all->n == 0)
        status = lsi_fail(
            LS_ERR_FORMAT, "'%s' holds no arrays%s", path,
            S_ISDIR(info.st_mode) ? "; expected .npy, .npz or IDX files" : "");
    if (status != LS_OK) {
        lsi_file_arrays_free(&all);
        return status;
    }
    *out = all;
    return LS_OK;
}
