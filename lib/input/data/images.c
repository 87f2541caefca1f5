/*
 * Sets of images of any source: which are for training, and the steps from an
 * image to a sample. Decoded bytes are resized to one shape, then mirrored and
 * cropped by random numbers of (seed, epoch, index), then normalised.
 */
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "array/compute/array.h"
#include "array/compute/compute.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/rng.h"
#include "base/structs.h"
#include "input/data/arrays.h"
#include "input/data/image_source.h"
#include "input/data/unpack.h"

/* "augment", "held out" */
static const uint64_t augment_stream = 0x6175676d656e7400;
static const uint64_t held_out_stream = 0x68656c6420006f75;

enum { HELD_OUT = 10, USUAL_SIDE = 224, MOST_SIDE = 1 << 13, SMALL = 1 << 14 };

/* Of ImageNet, as torchvision's models have them; and of their luma. */
static const double usual_mean[3] = {0.485, 0.456, 0.406};
static const double usual_deviation[3] = {0.229, 0.224, 0.225};
static const double usual_grey_mean = 0.449, usual_grey_deviation = 0.226;

typedef struct images {
    lsi_image_source source;
    int64_t *index; /* of the samples in the source; NULL: all of it */
    int64_t count;
    int64_t height, width;
    int channels;
    bool augment, flip;
    int pad;
    lsi_rng_key key;
    lsi_normalization normalization;
    float scale[3], shift[3];
    char **why; /* of samples that cannot be read, or NULL: that is an error */
} images;

/* ---- samples ------------------------------------------------------------- */

typedef struct change {
    bool flip;
    int64_t right, down; /* by how much the image moves; black follows */
} change;

static change choose_change(const images *set, uint64_t epoch, int64_t index)
{
    change c = {0};
    uint32_t random[4];
    const uint32_t places = 2 * (uint32_t)set->pad + 1;
    if (!set->augment)
        return c;
    lsi_rng_block(set->key, (uint64_t)index, epoch, random);
    c.flip = set->flip && (random[0] & 1) != 0;
    c.right = set->pad - (int64_t)(random[1] % places);
    c.down = set->pad - (int64_t)(random[2] % places);
    return c;
}

/* A row of `width` pixels. */
static void change_row(const uint8_t *from, int64_t width, change c,
                       uint8_t *to)
{
    for (int64_t x = 0; x < width; x++) {
        const int64_t at = (c.flip ? width - 1 - x : x) - c.right;
        to[x] = at >= 0 && at < width ? from[at] : 0;
    }
}

static void change_image(const images *set, change c, const uint8_t *from,
                         uint8_t *to)
{
    const int64_t width = set->width, height = set->height;
    for (int channel = 0; channel < set->channels; channel++) {
        for (int64_t y = 0; y < height; y++, to += width) {
            const int64_t at = y - c.down;
            if (at >= 0 && at < height)
                change_row(from + (channel * height + at) * width, width, c,
                           to);
            else
                memset(to, 0, (size_t)width);
        }
    }
}

static void normalise(const images *set, const uint8_t *pixels, float *out)
{
    const size_t count = (size_t)(set->height * set->width);
    if (set->channels == 3) {
        lsi_array_normalize_u8(out, pixels, count, set->scale, set->shift);
        return;
    }
    float value[256];
    for (int i = 0; i < 256; i++)
        value[i] = (float)i * set->scale[0] + set->shift[0];
    for (size_t i = 0; i < count; i++)
        out[i] = value[pixels[i]];
}

/* Already planes of the right shape, one after the other. */
static bool is_ready(const images *set, const lsi_picture *p)
{
    return p->width == set->width && p->height == set->height &&
           p->channels == set->channels && p->column == 1 &&
           p->row == p->width && p->plane == p->width * p->height;
}

/* `work` has room for two samples of bytes. */
static ls_status make_sample(const images *set, const lsi_picture *p, change c,
                             uint8_t *work, float *out)
{
    const uint8_t *pixels = p->pixels;
    uint8_t *const changed =
        work + (size_t)(set->height * set->width * set->channels);
    if (!is_ready(set, p)) {
        LS_TRY(
            lsi_picture_fit(p, set->channels, set->height, set->width, work));
        pixels = work;
    }
    if (c.flip || c.right != 0 || c.down != 0) {
        change_image(set, c, pixels, changed);
        pixels = changed;
    }
    normalise(set, pixels, out);
    return LS_OK;
}

static int64_t place_of(const images *set, int64_t index)
{
    return set->index != NULL ? set->index[index] : index;
}

static ls_status read_pixels(const images *set, int64_t index, uint64_t epoch,
                             float *out)
{
    const size_t bytes = 2 * (size_t)(set->height * set->width * set->channels);
    const change c = choose_change(set, epoch, index);
    uint8_t small[SMALL];
    void *large = NULL;
    lsi_picture picture;
    if (bytes > sizeof small)
        LS_TRY(lsi_alloc(&large, bytes, LS_MEMORY_DATA, "a sample"));
    ls_status status =
        set->source.read(set->source.context, place_of(set, index), &picture);
    if (status == LS_OK) {
        status =
            make_sample(set, &picture, c, large != NULL ? large : small, out);
        lsi_picture_free(&picture);
    }
    lsi_free(large);
    return status;
}

/* Zeros where the image cannot be read, and the reason. */
static ls_status read_if_good(const images *set, int64_t index, float *out)
{
    const size_t count = (size_t)(set->height * set->width * set->channels);
    if (set->why[index] == NULL && read_pixels(set, index, 0, out) == LS_OK)
        return LS_OK;
    memset(out, 0, count * sizeof(float));
    if (set->why[index] == NULL)
        set->why[index] = strdup(ls_last_error());
    return set->why[index] != NULL
               ? LS_OK
               : lsi_fail(LS_ERR_MEMORY, "not enough memory to store the "
                                         "reason why an image cannot be read");
}

static ls_status read_sample(void *context, int64_t index, uint64_t epoch,
                             void *const *fields)
{
    const images *const set = context;
    const int64_t place = place_of(set, index);
    float *const out = fields[LS_FIELD_IMAGES];
    const ls_status status = set->why != NULL
                                 ? read_if_good(set, index, out)
                                 : read_pixels(set, index, epoch, out);
    *(int64_t *)fields[LS_FIELD_LABELS] =
        set->source.label(set->source.context, place);
    return status;
}

static int64_t label_of(void *context, int64_t index)
{
    const images *const set = context;
    return set->source.label(set->source.context, place_of(set, index));
}

static void free_images(void *context)
{
    images *const set = context;
    if (set->source.free != NULL)
        set->source.free(set->source.context);
    lsi_free(set->index);
    lsi_free(set);
}

/* ---- which samples ------------------------------------------------------- */

/*
 * Marks a random tenth of the samples. The marked samples are the test subset,
 * the remaining ones the training subset.
 */
static void choose_samples(int64_t *order, int64_t *index, int64_t count,
                           ls_subset subset)
{
    const int64_t held_out = count / HELD_OUT;
    int64_t n = 0;
    for (int64_t i = 0; i < count; i++)
        index[order[i]] = i < held_out;
    for (int64_t i = 0; i < count; i++) {
        if (index[i] == (subset == LS_SUBSET_TEST))
            order[n++] = i;
    }
    memcpy(index, order, (size_t)n * sizeof(int64_t));
}

static ls_status divide(images *set, const char *path, ls_subset subset,
                        uint64_t seed)
{
    const int64_t count = set->source.count;
    const int64_t held_out = count / HELD_OUT;
    void *order = NULL, *index = NULL;
    if (held_out == 0)
        return lsi_fail(
            LS_ERR_FORMAT,
            "'%s' holds %" PRId64
            " images; holding out a tenth for validation needs at least %d",
            path, count, HELD_OUT);
    const size_t bytes = (size_t)count * sizeof(int64_t);
    LS_TRY(lsi_alloc(&index, bytes, LS_MEMORY_DATA, "indices of a subset"));
    set->index = index;
    LS_TRY(lsi_alloc(&order, bytes, LS_MEMORY_DATA, "indices of a subset"));
    lsi_permutation((lsi_rng_key){seed, held_out_stream}, 0, count, order);
    choose_samples(order, index, count, subset);
    lsi_free(order);
    set->count = subset == LS_SUBSET_TEST ? held_out : count - held_out;
    return LS_OK;
}

/* ---- shape --------------------------------------------------------------- */

/* If images differ in shape, the first one sets the shape. */
static ls_status read_first_shape(images *set)
{
    lsi_picture p = {0};
    LS_TRY(set->source.read(set->source.context, 0, &p));
    const int64_t side = p.width < p.height ? p.width : p.height;
    set->height = set->width = side < USUAL_SIDE ? side : USUAL_SIDE;
    set->channels = p.channels;
    lsi_picture_free(&p);
    return LS_OK;
}

static ls_status choose_shape(images *set, const ls_image_options *o)
{
    set->height = set->source.height;
    set->width = set->source.width;
    set->channels = set->source.channels;
    if ((set->height == 0 && o->size == 0) ||
        (set->channels == 0 && o->channels == 0))
        LS_TRY(read_first_shape(set));
    if (o->size > 0)
        set->height = set->width = o->size;
    if (o->channels > 0)
        set->channels = o->channels;
    return LS_OK;
}

static void set_scale(images *set, int c, double mean, double deviation)
{
    set->normalization.mean[c] = mean;
    set->normalization.deviation[c] = deviation;
    set->scale[c] = (float)(1.0 / (255.0 * deviation));
    set->shift[c] = (float)(-mean / deviation);
}

static void choose_scale(images *set, const ls_image_options *o)
{
    const bool given = o->deviation[0] > 0;
    for (int c = 0; c < set->channels && c < 3; c++) { /* 1 or 3 of them */
        double mean = given ? o->mean[c] : usual_mean[c];
        double deviation = given ? o->deviation[c] : usual_deviation[c];
        if (!given && set->channels == 1) {
            mean = usual_grey_mean;
            deviation = usual_grey_deviation;
        }
        set_scale(set, c, mean, deviation);
    }
}

/* ---- opening ------------------------------------------------------------- */

static ls_status check_options(const ls_image_options *o)
{
    if (o->size < 0 || o->size > MOST_SIDE)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "images: size is %" PRId64
                        "; expected 1 to %d, or 0 for the default",
                        o->size, MOST_SIDE);
    if (o->channels != 0 && o->channels != 1 && o->channels != 3)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "images: channels is %d; expected 1 or 3, or 0 for the default",
            o->channels);
    if (o->pad < 0 || o->pad > MOST_SIDE)
        return lsi_fail(LS_ERR_ARGUMENT, "images: pad is %d; expected 0 to %d",
                        o->pad, MOST_SIDE);
    const int channels = o->deviation[0] > 0 && o->channels != 1 ? 3 : 1;
    for (int c = 0; c < channels; c++) {
        if (!(o->deviation[c] >= 0 && o->deviation[c] < 1e6) ||
            (channels == 3 && o->deviation[c] == 0))
            return lsi_fail(
                LS_ERR_ARGUMENT,
                "images: the standard deviation of channel %d is %g; expected "
                "a positive number, or 0 in all channels for the default",
                c, o->deviation[c]);
    }
    return LS_OK;
}

static bool any_folder(const char *path)
{
    (void)path;
    return true;
}

enum { MOST_KINDS = 4 };

static const struct {
    bool (*holds)(const char *folder); /* or NULL */
    struct {
        lsi_magic magic;
        const char *extension;
    } files[MOST_KINDS]; /* NULL follows the last extension */
    ls_status (*open)(lsi_image_source *out, const char *path, ls_subset subset,
                      bool skip_checksums);
} sources[] = {
#define FILE(magic, extension) {LSI_MAGIC_##magic, extension},
#define NONE                                                                   \
    {                                                                          \
        LSI_MAGIC_NONE, NULL                                                   \
    }
#define SOURCE(name, text, holds, files)                                       \
    {holds, {files}, lsi_image_source_##name},
#include "input/data/image_sources.def"
#undef SOURCE
};

enum { SOURCES = sizeof(sources) / sizeof(sources[0]) };

static const char source_texts[] =
#define SOURCE(name, text, ...) "; " text
#include "input/data/image_sources.def"
#undef SOURCE
    ;

static bool opens_file(int row, const char *path, lsi_magic magic)
{
    for (int i = 0; i < MOST_KINDS; i++) {
        const char *const extension = sources[row].files[i].extension;
        if (extension != NULL && sources[row].files[i].magic == magic &&
            lsi_has_extension(path, extension))
            return true;
    }
    return false;
}

static ls_status open_source(lsi_image_source *out, const char *path,
                             ls_subset subset, bool skip_checksums)
{
    struct stat info;
    lsi_magic magic = LSI_MAGIC_NONE;
    if (stat(path, &info) != 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot open '%s'", path);
    const bool is_folder = S_ISDIR(info.st_mode);
    if (S_ISREG(info.st_mode) && info.st_size == 0)
        return lsi_fail(LS_ERR_FORMAT, "'%s' is empty", path);
    if (!is_folder)
        LS_TRY(lsi_unpack_magic(path, &magic));
    for (int i = 0; i < SOURCES; i++) {
        if (is_folder ? sources[i].holds != NULL && sources[i].holds(path)
                      : opens_file(i, path, magic))
            return sources[i].open(out, path, subset, skip_checksums);
    }
    return lsi_fail(LS_ERR_FORMAT,
                    "'%s' is %s; supported sources of images: %s", path,
                    lsi_magic_name(magic), &source_texts[2]);
}

static ls_status prepare(images *set, const char *path, ls_subset subset,
                         const ls_image_options *o)
{
    LS_TRY(open_source(&set->source, path, subset, o->skip_checksums));
    set->count = set->source.count;
    if (!set->source.divided)
        LS_TRY(divide(set, path, subset, o->seed));
    LS_TRY(choose_shape(set, o));
    choose_scale(set, o);
    set->flip = o->flip;
    set->pad = o->pad;
    set->augment = subset == LS_SUBSET_TRAIN && (o->flip || o->pad > 0);
    set->key = (lsi_rng_key){o->seed, augment_stream};
    return LS_OK;
}

static ls_status make_dataset(ls_dataset **out, images *set)
{
    const ls_field fields[] = {
        [LS_FIELD_IMAGES] = {"image",
                             LS_F32,
                             3,
                             {set->channels, set->height, set->width}},
        [LS_FIELD_LABELS] = {"label", LS_I64, 0, {0}},
    };
    const ls_dataset_source source = {.count = set->count,
                                      .n_fields = 2,
                                      .fields = fields,
                                      .read = read_sample,
                                      .classes = set->source.classes,
                                      .label = label_of,
                                      .class_names = set->source.class_names,
                                      .context = set,
                                      .free = free_images};
    LS_TRY(lsi_dataset_new(out, &source, true));
    lsi_dataset_set_normalization(*out, &set->normalization);
    return LS_OK;
}

ls_status ls_dataset_new_images(ls_dataset **out, const char *path,
                                ls_subset subset,
                                const ls_image_options *options)
{
    static const ls_image_options usual = {0};
    ls_image_options read;
    const ls_image_options *const o = &read;
    images *set;
    LS_NEED(out, path);
    LS_TRY(lsi_compute_check());
    LS_TRY(LSI_STRUCT_READ(&read, options != NULL ? options : &usual,
                           ls_image_options, seed));
    LS_TRY(check_options(o));
    if (subset != LS_SUBSET_TRAIN && subset != LS_SUBSET_TEST)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "images: subset %d is neither LS_SUBSET_TRAIN nor LS_SUBSET_TEST",
            (int)subset);
    LS_TRY(lsi_alloc_zeroed(&set, sizeof(images), LS_MEMORY_DATA,
                            "a set of images"));
    ls_status status = prepare(set, path, subset, o);
    if (status == LS_OK)
        status = make_dataset(out, set);
    if (status != LS_OK)
        free_images(set);
    return status;
}

/* ---- files --------------------------------------------------------------- */

static ls_status read_file(void *context, int64_t index, lsi_picture *out)
{
    return lsi_picture_read(out, lsi_file_names_at(context, index));
}

static int64_t no_label(void *context, int64_t index)
{
    (void)context;
    (void)index;
    return 0;
}

ls_status lsi_dataset_of_files(ls_dataset **out, lsi_file_names *paths,
                               const lsi_image_shape *shape, char **why)
{
    images *set;
    LS_TRY(lsi_compute_check());
    LS_TRY(lsi_alloc_zeroed(&set, sizeof(images), LS_MEMORY_DATA,
                            "a set of images"));
    set->source = (lsi_image_source){.count = paths->count,
                                     .classes = 1,
                                     .read = read_file,
                                     .label = no_label,
                                     .context = paths};
    set->count = paths->count;
    set->why = why;
    set->height = shape->height;
    set->width = shape->width;
    set->channels = shape->channels;
    for (int c = 0; c < set->channels; c++)
        set_scale(set, c, shape->normalization.mean[c],
                  shape->normalization.deviation[c]);
    const ls_status status = make_dataset(out, set);
    if (status != LS_OK)
        free_images(set);
    return status;
}
