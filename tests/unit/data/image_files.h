/* Small images in files. */
#ifndef TESTS_DATA_IMAGE_FILES_H
#define TESTS_DATA_IMAGE_FILES_H

#include <png.h>

#include "unit/data/own_files.h"

/* As the pattern of make_image_vectors.py, plus `salt`. */
static inline uint8_t pattern_byte(int64_t x, int64_t y, int c, int64_t salt)
{
    return (uint8_t)(x * 7 + y * 13 + c * 29 + x * y + salt);
}

/* Interleaved; of the caller. */
static inline uint8_t *pattern(int64_t width, int64_t height, int channels,
                               int64_t salt)
{
    uint8_t *pixels = malloc((size_t)(width * height * channels));
    uint8_t *at = pixels;
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++)
            for (int c = 0; c < channels; c++)
                *at++ = pattern_byte(x, y, c, salt);
    return pixels;
}

static inline void write_png(const char *name, const uint8_t *pixels,
                             int64_t width, int64_t height, int channels)
{
    png_image image;
    memset(&image, 0, sizeof image);
    image.version = PNG_IMAGE_VERSION;
    image.width = (png_uint_32)width;
    image.height = (png_uint_32)height;
    image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
    assert_int_not_equal(
        png_image_write_to_file(&image, in_root(name), 0, pixels, 0, NULL), 0);
}

static inline void write_pattern(const char *name, int64_t width,
                                 int64_t height, int channels, int64_t salt)
{
    uint8_t *pixels = pattern(width, height, channels, salt);
    write_png(name, pixels, width, height, channels);
    free(pixels);
}

#endif
