/*
 * Synthetic images that a small convolutional network learns within a minute,
 * but not without effort.
 *
 * A class is a smooth random pattern: random values on a coarse grid,
 * interpolated, somewhat larger than an image. A sample is a window into the
 * pattern of its class at a random place, with random contrast and brightness.
 * A fainter pattern of another class is over it, and noise on every pixel.
 * Everything is a pure function of (seed, subset, sample), computed without
 * functions of the C library. So it is the same everywhere and for any number
 * of threads. Patterns depend on the seed only: train and test show different
 * samples of the same classes.
 */
#include <inttypes.h>

#include "array/compute/compute.h"
#include "array/compute/threads.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/rng.h"
#include "input/data/dataset.h"

enum {
    MAX_SHIFT = 4, /* of a window from the middle, each way */
    CELL = 8,      /* pixels between grid points */
    CANVAS = LSI_IMAGE_SIDE + 2 * MAX_SHIFT,
    GRID = CANVAS / CELL + 1,
    CANVAS_FLOATS = LSI_IMAGE_CHANNELS * CANVAS * CANVAS,
    GRAIN = 16 /* images that are worth another thread */
};

_Static_assert(CANVAS % CELL == 0, "CANVAS must be a multiple of CELL");

/* In steps of a pixel's 0..255. */
static const float amplitude = 70.0F;
static const float noise_deviation = 60.0F;
static const float brightness_range = 30.0F;
static const float overlay = 0.8F; /* of the other class's pattern, at most */

/* Streams of random numbers; that of a subset is samples_stream + subset. */
static const uint64_t patterns_stream = 0x7061747465726e00;
static const uint64_t samples_stream = 0x73796e7468730000;

/* Within the stream of a subset. */
enum { SUB_LABELS, SUB_SAMPLE, SUB_NOISE };

typedef struct job {
    lsi_rng_key key;
    const float *patterns; /* (classes, channels, CANVAS, CANVAS) */
    uint8_t *records;
    const int64_t *order; /* of the samples; its remainder is the label */
} job;

static float grid_value(lsi_rng_key key, uint64_t plane, int row, int column)
{
    const uint64_t place = (uint64_t)(row * GRID + column);
    return 2.0F * lsi_rng_unit_f32(lsi_rng_u32(key, plane, place)) - 1.0F;
}

/* One plane of a pattern: bilinear between the grid's points. */
static void draw_plane(lsi_rng_key key, uint64_t plane, float *out)
{
    float grid[GRID][GRID];
    for (int r = 0; r < GRID; r++) {
        for (int c = 0; c < GRID; c++)
            grid[r][c] = grid_value(key, plane, r, c);
    }
    for (int y = 0; y < CANVAS; y++) {
        const int r = y / CELL;
        const float v = (float)(y % CELL) / CELL;
        for (int x = 0; x < CANVAS; x++) {
            const int c = x / CELL;
            const float u = (float)(x % CELL) / CELL;
            const float top = grid[r][c] * (1 - u) + grid[r][c + 1] * u;
            const float low = grid[r + 1][c] * (1 - u) + grid[r + 1][c + 1] * u;
            out[y * CANVAS + x] = top * (1 - v) + low * v;
        }
    }
}

static void draw_patterns(uint64_t seed, float *patterns)
{
    const lsi_rng_key key = {seed, patterns_stream};
    const int planes = LSI_FINE_CLASSES * LSI_IMAGE_CHANNELS;
    for (int p = 0; p < planes; p++)
        draw_plane(key, (uint64_t)p, patterns + (size_t)p * CANVAS * CANVAS);
}

/* How a sample shows its class. */
typedef struct view {
    const float *own, *other; /* first pixel of the window, channel 0 */
    float contrast, faint, brightness;
} view;

static const float *window(const job *j, uint64_t class_index, uint32_t bits)
{
    const uint32_t places = 2 * MAX_SHIFT + 1;
    const uint32_t x = (bits & 0xffff) % places, y = (bits >> 16) % places;
    return j->patterns + class_index * CANVAS_FLOATS + y * CANVAS + x;
}

static view choose_view(const job *j, uint64_t sample, uint8_t label)
{
    uint32_t a[4], b[4];
    lsi_rng_block(j->key, 2 * sample, SUB_SAMPLE, a);
    lsi_rng_block(j->key, 2 * sample + 1, SUB_SAMPLE, b);
    return (view){
        .own = window(j, label, a[0]),
        .other = window(j, b[0] % LSI_FINE_CLASSES, a[1]),
        .contrast = amplitude * (0.6F + 0.8F * lsi_rng_unit_f32(a[2])),
        .faint = amplitude * overlay * lsi_rng_unit_f32(a[3]),
        .brightness =
            127.5F + brightness_range * (2 * lsi_rng_unit_f32(b[1]) - 1),
    };
}

static uint8_t to_pixel(float value)
{
    if (value <= 0.0F)
        return 0;
    return value >= 255.0F ? 255 : (uint8_t)(value + 0.5F);
}

/* The sum of two bytes has mean 255 and deviation sqrt((256^2 - 1) / 6). */
static float noise(uint32_t bits)
{
    const float unit = noise_deviation / 104.512F;
    return ((float)(bits & 0xff) + (float)(bits >> 8 & 0xff) - 255.0F) * unit;
}

/* A row of 32 pixels takes 32 pairs of bytes: 4 blocks of random numbers. */
static void draw_row(const job *j, const view *v, uint64_t first_block,
                     size_t offset, uint8_t *out)
{
    for (size_t x = 0; x < LSI_IMAGE_SIDE; x += 8) {
        uint32_t bits[4];
        lsi_rng_block(j->key, first_block + x / 8, SUB_NOISE, bits);
        for (size_t i = 0; i < 8; i++) {
            const size_t at = offset + x + i;
            const float value = v->brightness + v->contrast * v->own[at] +
                                v->faint * v->other[at];
            out[x + i] = to_pixel(value + noise(bits[i / 2] >> i % 2 * 16));
        }
    }
}

static void draw_sample(const job *j, uint64_t sample)
{
    uint8_t *record = j->records + sample * LSI_RECORD_BYTES;
    const uint8_t label = (uint8_t)(j->order[sample] % LSI_FINE_CLASSES);
    record[LSI_RECORD_COARSE] = label / (LSI_FINE_CLASSES / LSI_COARSE_CLASSES);
    record[LSI_RECORD_FINE] = label;
    const view v = choose_view(j, sample, label);
    const size_t rows = (size_t)LSI_IMAGE_CHANNELS * LSI_IMAGE_SIDE;
    for (size_t row = 0; row < rows; row++) {
        const size_t channel = row / LSI_IMAGE_SIDE, y = row % LSI_IMAGE_SIDE;
        draw_row(j, &v, (sample * rows + row) * (LSI_IMAGE_SIDE / 8),
                 (channel * CANVAS + y) * CANVAS,
                 record + LSI_RECORD_IMAGE + row * LSI_IMAGE_SIDE);
    }
}

static void draw_range(void *context, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++)
        draw_sample(context, i);
}

/* Every class equally often (to within one), in a random order. */
static ls_status draw_all(lsi_records *records, uint64_t seed, ls_subset subset,
                          float *patterns)
{
    const size_t count = records->bytes / LSI_RECORD_BYTES;
    void *order = NULL;
    LS_TRY(lsi_alloc(&order, count * sizeof(int64_t), LS_MEMORY_DATA,
                     "order of the synthetic samples"));
    job j = {
        .key = {seed, samples_stream + (uint64_t)subset},
        .patterns = patterns,
        .records = records->data,
        .order = order,
    };
    lsi_permutation(j.key, SUB_LABELS, (int64_t)count, order);
    draw_patterns(seed, patterns);
    lsi_parallel_for(count, GRAIN, draw_range, &j);
    lsi_free(order);
    return LS_OK;
}

static ls_status make(ls_dataset **out, lsi_records *records, uint64_t seed,
                      ls_subset subset)
{
    void *patterns = NULL;
    const size_t bytes =
        (size_t)LSI_FINE_CLASSES * CANVAS_FLOATS * sizeof(float);
    LS_TRY(lsi_alloc(&patterns, bytes, LS_MEMORY_DATA, "synthetic patterns"));
    ls_status status = draw_all(records, seed, subset, patterns);
    lsi_free(patterns);
    if (status == LS_OK)
        status = lsi_dataset_of_records(out, records);
    return status;
}

ls_status ls_dataset_new_synthetic(ls_dataset **out, int64_t count,
                                   uint64_t seed, ls_subset subset)
{
    LS_NEED(out);
    LS_TRY(lsi_compute_check());
    if (count < 1 || count > INT64_MAX / LSI_RECORD_BYTES)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "synthetic: count is %" PRId64
                        " images; expected at least 1",
                        count);
    if (subset != LS_SUBSET_TRAIN && subset != LS_SUBSET_TEST)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "synthetic: subset %d is neither LS_SUBSET_TRAIN nor "
                        "LS_SUBSET_TEST",
                        (int)subset);
    lsi_records records;
    LS_TRY(lsi_records_alloc(&records, (size_t)count * LSI_RECORD_BYTES));
    const ls_status status = make(out, &records, seed, subset);
    if (status != LS_OK)
        lsi_records_release(&records);
    return status;
}
