/*
 * Images in folders, of which each is a class. Names are listed once; the files
 * are opened when their items are read.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/memory.h"
#include "input/data/image_source.h"

/* Names one after the other; at[i] is where name i begins. */
typedef struct names {
    char *text;
    size_t bytes, room;
    size_t *at;
    int64_t count, most;
} names;

typedef struct folder {
    char path[PATH_MAX];
    names classes, images;
    const char **class_names;
    int32_t *labels; /* of the images */
    int64_t labelled;
} folder;

/* ---- names --------------------------------------------------------------- */

static ls_status grow(void *block, size_t used, size_t bytes)
{
    return lsi_alloc_larger(block, used, bytes, LS_MEMORY_DATA,
                            "names of images");
}

static ls_status add_name(names *all, const char *name)
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

static const char *name_at(const names *all, int64_t index)
{
    return all->text + all->at[index];
}

static int compare(const void *a, const void *b, void *text)
{
    return strcmp((const char *)text + *(const size_t *)a,
                  (const char *)text + *(const size_t *)b);
}

static void sort_names(names *all, int64_t begin)
{
    if (all->count > begin)
        qsort_r(all->at + begin, (size_t)(all->count - begin), sizeof(size_t),
                compare, all->text);
}

static void free_names(names *all)
{
    lsi_free(all->text);
    lsi_free(all->at);
}

/* ---- listing ------------------------------------------------------------- */

static bool ends_in(const char *name, const char *const *endings)
{
    const char *dot = strrchr(name, '.');
    for (; dot != NULL && *endings != NULL; endings++) {
        if (strcasecmp(dot, *endings) == 0)
            return true;
    }
    return false;
}

/* What cannot be looked at is none, too. */
static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool join(char out[PATH_MAX], const char *parent, const char *name)
{
    const int length = snprintf(out, PATH_MAX, "%s/%s", parent, name);
    return length >= 0 && length < PATH_MAX;
}

/* What a folder holds goes to `take`, hidden names aside. */
static ls_status list(const char *path, names *out,
                      ls_status (*take)(names *out, const char *path,
                                        const char *name))
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
            status = take(out, path, entry->d_name);
    }
    closedir(dir);
    return status;
}

static ls_status take_class(names *out, const char *path, const char *name)
{
    char inside[PATH_MAX];
    struct stat info;
    if (!join(inside, path, name))
        return lsi_fail(LS_ERR_IO, "the path of '%s' in '%s' is too long", name,
                        path);
    if (stat(inside, &info) != 0)
        return lsi_fail_errno(LS_ERR_IO,
                              "cannot tell whether '%s/%s' is the folder of a "
                              "class; mend it, or take it away",
                              path, name);
    return S_ISDIR(info.st_mode) ? add_name(out, name) : LS_OK;
}

/* Other files are none of ours, but for images that somebody would miss. */
static ls_status take_image(names *out, const char *path, const char *name)
{
    static const char *const ours[] = {".png", ".jpg", ".jpeg", NULL};
    static const char *const others[] = {".webp", ".bmp",  ".gif", ".tif",
                                         ".tiff", ".avif", NULL};
    if (ends_in(name, ours))
        return add_name(out, name);
    if (!ends_in(name, others))
        return LS_OK;
    return lsi_fail(LS_ERR_FORMAT,
                    "'%s/%s' is neither a PNG nor a JPEG; convert it, or take "
                    "it out of the folder",
                    path, name);
}

static ls_status label_images(folder *f, int64_t begin, int32_t label)
{
    const int64_t count = f->images.count;
    if (count > f->labelled) {
        const size_t room = 2 * (size_t)count + 64;
        LS_TRY(grow(&f->labels, (size_t)begin * sizeof(int32_t),
                    room * sizeof(int32_t)));
        f->labelled = (int64_t)room;
    }
    for (int64_t i = begin; i < count; i++)
        f->labels[i] = label;
    return LS_OK;
}

static ls_status list_class(folder *f, int64_t label)
{
    char path[PATH_MAX];
    const int64_t begin = f->images.count;
    const char *name = name_at(&f->classes, label);
    if (!join(path, f->path, name))
        return lsi_fail(LS_ERR_IO, "the path of the class '%s' is too long",
                        name);
    LS_TRY(list(path, &f->images, take_image));
    if (f->images.count == begin)
        return lsi_fail(LS_ERR_FORMAT,
                        "the class folder '%s' holds no images; expected "
                        "files that end in .png, .jpg or .jpeg",
                        path);
    sort_names(&f->images, begin);
    return label_images(f, begin, (int32_t)label);
}

static ls_status name_classes(folder *f)
{
    LS_TRY(lsi_alloc(&f->class_names, (size_t)f->classes.count * sizeof(char *),
                     LS_MEMORY_DATA, "names of classes"));
    for (int64_t c = 0; c < f->classes.count; c++)
        f->class_names[c] = name_at(&f->classes, c);
    return LS_OK;
}

static ls_status list_all(folder *f)
{
    LS_TRY(list(f->path, &f->classes, take_class));
    if (f->classes.count == 0)
        return lsi_fail(LS_ERR_FORMAT,
                        "the folder '%s' holds no folders; expected one for "
                        "each class, with its images inside",
                        f->path);
    if (f->classes.count > INT32_MAX)
        return lsi_fail(LS_ERR_FORMAT, "'%s' holds %" PRId64 " classes",
                        f->path, f->classes.count);
    sort_names(&f->classes, 0);
    LS_TRY(name_classes(f));
    for (int64_t c = 0; c < f->classes.count; c++)
        LS_TRY(list_class(f, c));
    return LS_OK;
}

/* ---- the source ---------------------------------------------------------- */

static ls_status read_image(void *context, int64_t index, lsi_picture *out)
{
    const folder *const f = context;
    char path[PATH_MAX];
    const int length = snprintf(path, sizeof path, "%s/%s/%s", f->path,
                                name_at(&f->classes, f->labels[index]),
                                name_at(&f->images, index));
    if (length < 0 || (size_t)length >= sizeof path)
        return lsi_fail(LS_ERR_IO, "the path of the image '%s' is too long",
                        name_at(&f->images, index));
    return lsi_picture_read(out, path);
}

static int64_t label_of(void *context, int64_t index)
{
    const folder *const f = context;
    return f->labels[index];
}

static void free_folder(void *context)
{
    folder *const f = context;
    free_names(&f->classes);
    free_names(&f->images);
    lsi_free((void *)f->class_names);
    lsi_free(f->labels);
    lsi_free(f);
}

static ls_status open_classes(lsi_image_source *out, const char *path)
{
    folder *f;
    LS_TRY(lsi_alloc_zeroed(&f, sizeof(folder), LS_MEMORY_DATA,
                            "a folder of images"));
    snprintf(f->path, sizeof f->path, "%s", path);
    const ls_status status = list_all(f);
    if (status != LS_OK) {
        free_folder(f);
        return status;
    }
    *out = (lsi_image_source){.count = f->images.count,
                              .classes = f->classes.count,
                              .class_names = f->class_names,
                              .read = read_image,
                              .label = label_of,
                              .context = f,
                              .free = free_folder};
    return LS_OK;
}

/* ---- both splits --------------------------------------------------------- */

/* The folder for validation beside `train`; false if there is none. */
static bool find_validation(char out[PATH_MAX], const char *path)
{
    static const char *const usual[] = {"val", "valid", "validation", "test"};
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) {
        if (join(out, path, usual[i]) && is_folder(out))
            return true;
    }
    return false;
}

static ls_status compare_classes(const folder *a, const folder *b)
{
    const bool more = a->classes.count > b->classes.count;
    const names *const long_one = more ? &a->classes : &b->classes;
    const names *const short_one = more ? &b->classes : &a->classes;
    for (int64_t c = 0; c < long_one->count; c++) {
        if (c < short_one->count &&
            strcmp(name_at(long_one, c), name_at(short_one, c)) == 0)
            continue;
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s' and '%s' have different classes: '%s' is in one "
                        "of them alone; both must hold the same folders",
                        a->path, b->path,
                        c < short_one->count && strcmp(name_at(short_one, c),
                                                       name_at(long_one, c)) < 0
                            ? name_at(short_one, c)
                            : name_at(long_one, c));
    }
    return LS_OK;
}

/* Whether there is nothing to tell apart in it but what `train` holds. */
static ls_status is_all_in_train(const char *path, bool *out)
{
    names folders = {0};
    const ls_status status = list(path, &folders, take_class);
    *out = folders.count == 1 && strcmp(name_at(&folders, 0), "train") == 0;
    free_names(&folders);
    return status;
}

static ls_status open_both(lsi_image_source sets[2], const char *train,
                           const char *validation)
{
    LS_TRY(open_classes(&sets[LS_SUBSET_TRAIN], train));
    ls_status status = open_classes(&sets[LS_SUBSET_TEST], validation);
    if (status == LS_OK) {
        status = compare_classes(sets[0].context, sets[1].context);
        if (status != LS_OK)
            free_folder(sets[LS_SUBSET_TEST].context);
    }
    if (status != LS_OK)
        free_folder(sets[LS_SUBSET_TRAIN].context);
    return status;
}

ls_status lsi_image_source_folder(lsi_image_source *out, const char *path,
                                  ls_subset subset, bool skip_checksums)
{
    (void)skip_checksums;
    char train[PATH_MAX], validation[PATH_MAX];
    lsi_image_source sets[2];
    bool all_in_train = false;
    if (!join(train, path, "train") || !is_folder(train))
        return open_classes(out, path);
    if (!find_validation(validation, path)) {
        LS_TRY(is_all_in_train(path, &all_in_train));
        return open_classes(out, all_in_train ? train : path);
    }
    LS_TRY(open_both(sets, train, validation));
    free_folder(sets[1 - subset].context);
    *out = sets[subset];
    out->divided = true;
    return LS_OK;
}
