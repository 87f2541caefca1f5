/*
 * Images in folders, of which each is a class. Names are listed once; the files
 * are opened when their items are read.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/memory.h"
#include "input/data/image_source.h"

typedef struct folder {
    char path[PATH_MAX];
    lsi_file_names classes, images;
    const char **class_names;
    int32_t *labels; /* of the images */
    int64_t labelled;
} folder;

/* ---- listing ------------------------------------------------------------- */

/* A path that cannot be looked up is not a folder, either. */
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

static ls_status add_class(lsi_file_names *out, const char *path,
                           const char *name)
{
    char inside[PATH_MAX];
    struct stat info;
    if (!join(inside, path, name))
        return lsi_fail(LS_ERR_IO, "the path of '%s' in '%s' is too long", name,
                        path);
    if (stat(inside, &info) != 0)
        return lsi_fail_errno(
            LS_ERR_IO,
            "cannot access '%s/%s', possibly a class folder (fix or remove it)",
            path, name);
    return S_ISDIR(info.st_mode) ? lsi_file_names_add(out, name) : LS_OK;
}

static ls_status label_images(folder *f, int64_t begin, int32_t label)
{
    const int64_t count = f->images.count;
    if (count > f->labelled) {
        const size_t room = 2 * (size_t)count + 64;
        LS_TRY(lsi_alloc_larger(&f->labels, (size_t)begin * sizeof(int32_t),
                                room * sizeof(int32_t), LS_MEMORY_DATA,
                                "labels of images"));
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
    const char *name = lsi_file_names_at(&f->classes, label);
    if (!join(path, f->path, name))
        return lsi_fail(LS_ERR_IO, "the path of the class '%s' is too long",
                        name);
    LS_TRY(lsi_file_names_list(path, &f->images, lsi_file_names_add_if_image));
    if (f->images.count == begin)
        return lsi_fail(LS_ERR_FORMAT,
                        "the class folder '%s' holds no images; expected "
                        "files that end in .png, .jpg or .jpeg",
                        path);
    lsi_file_names_sort(&f->images, begin);
    return label_images(f, begin, (int32_t)label);
}

static ls_status name_classes(folder *f)
{
    LS_TRY(lsi_alloc(&f->class_names, (size_t)f->classes.count * sizeof(char *),
                     LS_MEMORY_DATA, "names of classes"));
    for (int64_t c = 0; c < f->classes.count; c++)
        f->class_names[c] = lsi_file_names_at(&f->classes, c);
    return LS_OK;
}

static ls_status list_all(folder *f)
{
    LS_TRY(lsi_file_names_list(f->path, &f->classes, add_class));
    if (f->classes.count == 0)
        return lsi_fail(LS_ERR_FORMAT,
                        "the folder '%s' holds no class folders; expected a "
                        "folder of images for each class",
                        f->path);
    if (f->classes.count > INT32_MAX)
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s' holds %" PRId64
                        " classes; at most %d are supported",
                        f->path, f->classes.count, INT32_MAX);
    lsi_file_names_sort(&f->classes, 0);
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
    const int length =
        snprintf(path, sizeof path, "%s/%s/%s", f->path,
                 lsi_file_names_at(&f->classes, f->labels[index]),
                 lsi_file_names_at(&f->images, index));
    if (length < 0 || (size_t)length >= sizeof path)
        return lsi_fail(LS_ERR_IO, "the path of the image '%s' is too long",
                        lsi_file_names_at(&f->images, index));
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
    lsi_file_names_free(&f->classes);
    lsi_file_names_free(&f->images);
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

/* The folder for validation next to `train`; false without one. */
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
    const lsi_file_names *const long_one = more ? &a->classes : &b->classes;
    const lsi_file_names *const short_one = more ? &b->classes : &a->classes;
    for (int64_t c = 0; c < long_one->count; c++) {
        if (c < short_one->count &&
            strcmp(lsi_file_names_at(long_one, c),
                   lsi_file_names_at(short_one, c)) == 0)
            continue;
        return lsi_fail(
            LS_ERR_FORMAT,
            "'%s' and '%s' have different classes: only one of the two folders "
            "holds the class '%s'. Both must hold the same class folders",
            a->path, b->path,
            c < short_one->count && strcmp(lsi_file_names_at(short_one, c),
                                           lsi_file_names_at(long_one, c)) < 0
                ? lsi_file_names_at(short_one, c)
                : lsi_file_names_at(long_one, c));
    }
    return LS_OK;
}

/* Whether `train` is the only folder, so that all classes are inside it. */
static ls_status is_all_in_train(const char *path, bool *out)
{
    lsi_file_names folders = {0};
    const ls_status status = lsi_file_names_list(path, &folders, add_class);
    *out = folders.count == 1 &&
           strcmp(lsi_file_names_at(&folders, 0), "train") == 0;
    lsi_file_names_free(&folders);
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
