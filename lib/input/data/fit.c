/*
 * Pictures of one shape, resized by the filter that Pillow calls bilinear, in
 * its fixed-point arithmetic. So the results are bit for bit those of
 * torchvision's Resize and CenterCrop with Pillow.
 *
 * A row of the result is a weighted sum of rows around its place. The weights
 * fall linearly to 0 at a distance of one pixel: of the result where it is
 * smaller, else of the picture. Columns come first, then rows, rounded to bytes
 * in between (Pillow, src/libImaging/Resample.c). From version 13 on, Pillow
 * resizes the rows first where this is less work.
 */
#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "input/data/picture.h"

enum { FRACTION_BITS = 32 - 8 - 2 };

/* Along one dimension: element i is a sum of n[i] elements from begin[i] on. */
typedef struct weights {
    int64_t count; /* of results */
    int64_t most;  /* terms */
    int64_t *begin, *n;
    uint32_t *weight; /* (count, most) */
} weights;

static double triangle(double x)
{
    const double distance = x < 0 ? -x : x;
    return distance < 1 ? 1 - distance : 0;
}

static void weigh(weights *w, int64_t i, int64_t place, int64_t from,
                  int64_t to)
{
    const double scale = (double)from / (double)to;
    const double reach = scale > 1 ? scale : 1;
    const double centre = ((double)place + 0.5) * scale;
    int64_t begin = (int64_t)(centre - reach + 0.5);
    int64_t end = (int64_t)(centre + reach + 0.5);
    double sum = 0;
    begin = begin > 0 ? begin : 0;
    end = end < from ? end : from;
    for (int64_t k = begin; k < end; k++)
        sum += triangle(((double)k - centre + 0.5) * (1 / reach));
    for (int64_t k = begin; k < end; k++) {
        const double x = triangle(((double)k - centre + 0.5) * (1 / reach));
        const double part = sum != 0 ? x / sum : x;
        w->weight[i * w->most + k - begin] =
            (uint32_t)(0.5 + part * (1 << FRACTION_BITS));
    }
    w->begin[i] = begin;
    w->n[i] = end - begin;
}

/* Results first..first+count-1 of `to`, which `from` elements become. */
static ls_status make_weights(weights *w, int64_t from, int64_t to,
                              int64_t first, int64_t count)
{
    const int64_t reach = from > to ? from / to + 1 : 1;
    *w = (weights){.count = count, .most = 2 * reach + 1};
    const size_t each =
        2 * sizeof(int64_t) + (size_t)w->most * sizeof(uint32_t);
    LS_TRY(lsi_alloc(&w->begin, (size_t)count * each, LS_MEMORY_DATA,
                     "weights for resizing"));
    w->n = w->begin + count;
    w->weight = (uint32_t *)(w->n + count);
    for (int64_t i = 0; i < count; i++)
        weigh(w, i, first + i, from, to);
    return LS_OK;
}

/* Weights are not negative and add up to about 1, so that 32 bits do. */
static uint8_t round_sum(uint32_t sum)
{
    const uint32_t value = sum >> FRACTION_BITS;
    return (uint8_t)(value > 255 ? 255 : value);
}

/* One result of elements `step` bytes apart. */
static uint8_t add_up(const weights *w, int64_t i, const uint8_t *from,
                      int64_t step)
{
    const uint32_t *const weight = w->weight + i * w->most;
    uint32_t sum = 1U << (FRACTION_BITS - 1);
    const uint8_t *at = from + w->begin[i] * step;
    for (int64_t k = 0; k < w->n[i]; k++, at += step)
        sum += weight[k] * *at;
    return round_sum(sum);
}

/* A row of interleaved channels: three sums at once. */
static void add_colours(const weights *w, const uint8_t *row, uint8_t *out,
                        int64_t plane)
{
    for (int64_t i = 0; i < w->count; i++) {
        const uint32_t *const weight = w->weight + i * w->most;
        const uint8_t *at = row + 3 * w->begin[i];
        uint32_t red = 1U << (FRACTION_BITS - 1), green = red, blue = red;
        for (int64_t k = 0; k < w->n[i]; k++, at += 3) {
            red += weight[k] * at[0];
            green += weight[k] * at[1];
            blue += weight[k] * at[2];
        }
        out[i] = round_sum(red);
        out[i + plane] = round_sum(green);
        out[i + 2 * plane] = round_sum(blue);
    }
}

/* The columns of a row, to `out` in planes. */
static void resize_row(const lsi_picture *p, const weights *across, int64_t y,
                       uint8_t *out, int64_t plane)
{
    const uint8_t *const row = p->pixels + y * p->row;
    if (p->channels == 3 && p->column == 3 && p->plane == 1) {
        add_colours(across, row, out, plane);
        return;
    }
    for (int c = 0; c < p->channels; c++)
        for (int64_t x = 0; x < across->count; x++)
            out[c * plane + x] =
                add_up(across, x, row + c * p->plane, p->column);
}

/* A row of the result, of rows of `width` bytes; `sums` has as many. */
static void add_rows(const weights *down, int64_t i, const uint8_t *rows,
                     int64_t width, uint32_t *sums, uint8_t *out)
{
    for (int64_t x = 0; x < width; x++)
        sums[x] = 1U << (FRACTION_BITS - 1);
    for (int64_t k = 0; k < down->n[i]; k++) {
        const uint32_t weight = down->weight[i * down->most + k];
        const uint8_t *const row = rows + (down->begin[i] + k) * width;
        for (int64_t x = 0; x < width; x++)
            sums[x] += weight * row[x];
    }
    for (int64_t x = 0; x < width; x++)
        out[x] = round_sum(sums[x]);
}

/*
 * The columns of the rows that are needed, then the rows. `between` has room
 * for the sums of a row, and bytes (channels, height, across->count).
 */
static void resize_planes(const lsi_picture *p, const weights *across,
                          const weights *down, uint32_t *between, uint8_t *out)
{
    const int64_t last = down->count - 1, width = across->count;
    const int64_t end = down->begin[last] + down->n[last];
    const int64_t plane = p->height * width;
    uint8_t *const rows = (uint8_t *)(between + width);
    for (int64_t y = down->begin[0]; y < end; y++)
        resize_row(p, across, y, rows + y * width, plane);
    for (int c = 0; c < p->channels; c++)
        for (int64_t y = 0; y < down->count; y++, out += width)
            add_rows(down, y, rows + c * plane, width, between, out);
}

/* Half of what is cut off, rounded to even as Python's round does. */
static int64_t half_of(int64_t over)
{
    return over / 2 + (over % 2 != 0 && over / 2 % 2 != 0 ? 1 : 0);
}

/* The new length of a side if another side changes from `from` to `to`. */
static int64_t scaled(int64_t side, int64_t from, int64_t to)
{
    return (int64_t)((double)to * (double)side / (double)from);
}

static void copy_planes(const lsi_picture *p, uint8_t *out)
{
    for (int c = 0; c < p->channels; c++) {
        for (int64_t y = 0; y < p->height; y++) {
            const uint8_t *from = p->pixels + c * p->plane + y * p->row;
            if (p->column == 1) {
                memcpy(out, from, (size_t)p->width);
                out += p->width;
                continue;
            }
            for (int64_t x = 0; x < p->width; x++, from += p->column)
                *out++ = *from;
        }
    }
}

static void crop(const lsi_picture *p, int64_t height, int64_t width,
                 uint8_t *out)
{
    lsi_picture middle = *p;
    middle.pixels += half_of(p->height - height) * p->row +
                     half_of(p->width - width) * p->column;
    middle.height = height;
    middle.width = width;
    copy_planes(&middle, out);
}

static ls_status resize(const lsi_picture *p, int64_t height, int64_t width,
                        uint8_t *out)
{
    /* The side that is relatively shorter decides. */
    const bool by_width = p->width * height <= p->height * width;
    int64_t wide = by_width ? width : scaled(p->width, p->height, height);
    int64_t high = by_width ? scaled(p->height, p->width, width) : height;
    wide = wide < width ? width : wide;
    high = high < height ? height : high;
    if (wide == p->width && high == p->height) {
        crop(p, height, width, out);
        return LS_OK;
    }
    weights across = {0}, down = {0};
    void *between = NULL;
    ls_status status =
        make_weights(&across, p->width, wide, half_of(wide - width), width);
    if (status == LS_OK)
        status = make_weights(&down, p->height, high, half_of(high - height),
                              height);
    const size_t pixels = (size_t)(p->channels * p->height * width);
    if (status == LS_OK)
        status = lsi_alloc(&between, (size_t)width * sizeof(uint32_t) + pixels,
                           LS_MEMORY_DATA, "a resized image");
    if (status == LS_OK)
        resize_planes(p, &across, &down, between, out);
    lsi_free(between);
    lsi_free(down.begin);
    lsi_free(across.begin);
    return status;
}

/* In place: ITU-R 601-2 luma in Pillow's fixed point. */
static void to_grey(uint8_t *planes, int64_t pixels)
{
    for (int64_t i = 0; i < pixels; i++) {
        const uint32_t red = planes[i], green = planes[pixels + i];
        const uint32_t blue = planes[2 * pixels + i];
        planes[i] =
            (uint8_t)((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >>
                      16);
    }
}

/* As many channels as the picture has; its shape is that of the result. */
static ls_status fit_shape(const lsi_picture *p, int64_t height, int64_t width,
                           uint8_t *out)
{
    if (p->height != height || p->width != width)
        return resize(p, height, width, out);
    copy_planes(p, out);
    return LS_OK;
}

/*
 * From colours: fits all three planes in separate memory, and makes one of
 * them.
 */
static ls_status fit_grey(const lsi_picture *p, int64_t height, int64_t width,
                          uint8_t *out)
{
    const int64_t pixels = height * width;
    void *planes = NULL;
    LS_TRY(lsi_alloc(&planes, (size_t)(3 * pixels), LS_MEMORY_DATA,
                     "an image converted to grey"));
    const ls_status status = fit_shape(p, height, width, planes);
    if (status == LS_OK) {
        to_grey(planes, pixels);
        memcpy(out, planes, (size_t)pixels);
    }
    lsi_free(planes);
    return status;
}

ls_status lsi_picture_fit(const lsi_picture *picture, int channels,
                          int64_t height, int64_t width, uint8_t *out)
{
    const size_t pixels = (size_t)(height * width);
    if (picture->channels == 3 && channels == 1)
        return fit_grey(picture, height, width, out);
    LS_TRY(fit_shape(picture, height, width, out));
    for (int c = picture->channels; c < channels; c++)
        memcpy(out + (size_t)c * pixels, out, pixels);
    return LS_OK;
}
