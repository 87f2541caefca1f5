/* Images that are arrays of bytes: .npz, .npy and IDX, with their labels. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "input/data/arrays.h"
#include "input/data/image_source.h"

typedef struct set {
    lsi_file_arrays *files[2]; /* images, and labels if they are elsewhere */
    const lsi_file_array *images, *labels;
    int64_t count;
    lsi_picture picture; /* the first */
    int64_t image_bytes;
} set;

/* ---- which arrays -------------------------------------------------------- */

typedef struct pair {
    const char *images, *labels;
} pair;

static const pair train_names[] = {{"train_images", "train_labels"},
                                   {"x_train", "y_train"}};
static const pair test_names[] = {{"val_images", "val_labels"},
                                  {"test_images", "test_labels"},
                                  {"x_val", "y_val"},
                                  {"x_test", "y_test"}};
static const pair all_names[] = {{"images", "labels"}, {"x", "y"}};

static bool find_pair(set *s, const pair *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        s->images = lsi_file_arrays_find(s->files[0], pairs[i].images);
        s->labels = lsi_file_arrays_find(s->files[0], pairs[i].labels);
        if (s->images != NULL && s->labels != NULL)
            return true;
    }
    return false;
}

#define FIND(s, pairs) find_pair(s, pairs, sizeof(pairs) / sizeof((pairs)[0]))

static ls_status choose_arrays(set *s, const char *path, ls_subset subset,
                               bool *divided)
{
    const bool has_test = FIND(s, test_names);
    const bool has_train = FIND(s, train_names);
    *divided = has_test && has_train;
    if (*divided && subset == LS_SUBSET_TEST)
        (void)FIND(s, test_names);
    if (has_train || FIND(s, all_names))
        return LS_OK;
    return lsi_fail(
        LS_ERR_FORMAT,
        "'%s' holds no known pair of images and labels; its first array is "
        "'%s'. Name the arrays 'images' and 'labels', 'x' and 'y', "
        "'train_images' and 'train_labels', or 'x_train' and 'y_train'",
        path, s->files[0]->array[0].name);
}

/* "cat_images.npy" has its labels in "cat_labels.npy". */
static ls_status open_labels(set *s, const char *path, bool skip_checksums)
{
    char labels[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;
    const char *word = strstr(base, "images");
    if (word == NULL)
        return lsi_fail(
            LS_ERR_FORMAT,
            "the labels of '%s' were not found: it holds one array, and its "
            "name does not contain 'images'. Name the files images.npy and "
            "labels.npy, or put both arrays in one .npz file",
            path);
    const int length = snprintf(labels, sizeof labels, "%.*slabels%s",
                                (int)(word - path), path, word + 6);
    if (length < 0 || length >= PATH_MAX)
        return lsi_fail_path_too_long(LS_ERR_IO, path);
    LS_TRY(lsi_file_arrays_open(&s->files[1], labels, skip_checksums));
    s->images = &s->files[0]->array[0];
    s->labels = &s->files[1]->array[0];
    return LS_OK;
}

/* ---- what they hold ------------------------------------------------------ */

/* The bytes of an image: 0 if there are none, -1 if there are too many. */
static int64_t bytes_of_image(const lsi_file_array *a)
{
    int64_t bytes = 1;
    for (int i = 1; i < a->ndim; i++) {
        if (__builtin_mul_overflow(bytes, a->shape[i], &bytes) ||
            bytes > 3 * (int64_t)LSI_PICTURE_PIXELS)
            return -1;
    }
    return bytes;
}

static ls_status check_images(const lsi_file_array *a, bool has_channels,
                              const char *path)
{
    const int64_t bytes = bytes_of_image(a);
    if (a->kind != 'u' || a->size != 1)
        return lsi_fail(LS_ERR_FORMAT,
                        "the array '%s' of '%s' has type %c%zu; images must be "
                        "unsigned bytes (u1)",
                        a->name, path, a->kind, a->size);
    if (bytes < 0)
        return lsi_fail(LS_ERR_FORMAT,
                        "an image of the array '%s' of '%s' is too large; at "
                        "most %d pixels of 3 channels are supported",
                        a->name, path, LSI_PICTURE_PIXELS);
    if (bytes > 0 && (a->ndim == 3 || has_channels))
        return LS_OK;
    return lsi_fail(
        LS_ERR_FORMAT,
        "the array '%s' of '%s' (%d dimensions) does not hold images of 1 or 3 "
        "channels; expected the shape (N, H, W), (N, H, W, C) or (N, C, H, W)",
        a->name, path, a->ndim);
}

/* (N, H, W), (N, H, W, C) or (N, C, H, W), where C is 1 or 3. */
static ls_status describe_images(set *s, const char *path)
{
    const lsi_file_array *const a = s->images;
    const int64_t *const n = a->shape;
    lsi_picture *const p = &s->picture;
    const bool last = a->ndim == 4 && (n[3] == 1 || n[3] == 3);
    const bool first = a->ndim == 4 && !last && (n[1] == 1 || n[1] == 3);
    LS_TRY(check_images(a, last || first, path));
    if (a->ndim == 3)
        *p = (lsi_picture){.height = n[1],
                           .width = n[2],
                           .channels = 1,
                           .row = n[2],
                           .column = 1};
    else if (last)
        *p = (lsi_picture){.height = n[1],
                           .width = n[2],
                           .channels = (int)n[3],
                           .row = n[2] * n[3],
                           .column = n[3],
                           .plane = 1};
    else
        *p = (lsi_picture){.height = n[2],
                           .width = n[3],
                           .channels = (int)n[1],
                           .row = n[3],
                           .column = 1,
                           .plane = n[2] * n[3]};
    s->image_bytes = p->height * p->width * p->channels;
    return LS_OK;
}

static ls_status check_labels(const set *s, const char *path)
{
    const lsi_file_array *const a = s->labels;
    const bool flat = a->ndim == 1 || (a->ndim == 2 && a->shape[1] == 1);
    if (!lsi_file_array_is_int(a) || !flat)
        return lsi_fail(
            LS_ERR_FORMAT,
            "the array '%s' of '%s' has type %c%zu and %d dimensions; labels "
            "must be integers, one for each image",
            a->name, path, a->kind, a->size, a->ndim);
    if (a->shape[0] != s->images->shape[0])
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s' has %" PRId64 " images, but %" PRId64
                        " labels; expected one label for each image",
                        path, s->images->shape[0], a->shape[0]);
    return LS_OK;
}

static ls_status count_classes(const set *s, const char *path, int64_t *out)
{
    enum { MOST = 1 << 24 };
    int64_t most = -1;
    for (int64_t i = 0; i < s->count; i++) {
        const int64_t label = lsi_file_array_int(s->labels, i);
        if (label < 0 || label >= MOST)
            return lsi_fail(LS_ERR_FORMAT,
                            "label %" PRId64 " of '%s' is %" PRId64
                            "; expected 0 to %d",
                            i, path, label, MOST - 1);
        most = label > most ? label : most;
    }
    *out = most + 1;
    return LS_OK;
}

/* ---- the source ---------------------------------------------------------- */

static ls_status read_image(void *context, int64_t index, lsi_picture *out)
{
    const set *const s = context;
    *out = s->picture;
    out->pixels = s->images->data + index * s->image_bytes;
    return LS_OK;
}

static int64_t label_of(void *context, int64_t index)
{
    const set *const s = context;
    return lsi_file_array_int(s->labels, index);
}

static void free_set(void *context)
{
    set *s = context;
    lsi_file_arrays_free(&s->files[1]);
    lsi_file_arrays_free(&s->files[0]);
    lsi_free(s);
}

static ls_status open_set(set *s, const char *path, ls_subset subset,
                          bool skip_checksums, lsi_image_source *out)
{
    struct stat info;
    LS_TRY(lsi_file_arrays_open(&s->files[0], path, skip_checksums));
    if (s->files[0]->n == 1 && stat(path, &info) == 0 && S_ISREG(info.st_mode))
        LS_TRY(open_labels(s, path, skip_checksums));
    else
        LS_TRY(choose_arrays(s, path, subset, &out->divided));
    LS_TRY(describe_images(s, path));
    LS_TRY(check_labels(s, path));
    s->count = s->images->shape[0];
    return count_classes(s, path, &out->classes);
}

ls_status lsi_image_source_arrays(lsi_image_source *out, const char *path,
                                  ls_subset subset, bool skip_checksums)
{
    set *s;
    lsi_image_source made = {0};
    LS_TRY(lsi_alloc_zeroed(&s, sizeof(set), LS_MEMORY_DATA,
                            "a set of image arrays"));
    const ls_status status = open_set(s, path, subset, skip_checksums, &made);
    if (status != LS_OK) {
        free_set(s);
        return status;
    }
    made.count = s->count;
    made.height = s->picture.height;
    made.width = s->picture.width;
    made.channels = s->picture.channels;
    made.read = read_image;
    made.label = label_of;
    made.context = s;
    made.free = free_set;
    *out = made;
    return LS_OK;
}
