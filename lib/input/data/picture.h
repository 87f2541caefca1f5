/*
 * Decoded images, and how they become samples of one shape.
 */
#ifndef LS_INPUT_DATA_PICTURE_H
#define LS_INPUT_DATA_PICTURE_H

#include <stddef.h>
#include <stdint.h>

#include "lockstep/status.h"

/* Bytes of pixels, in any order. */
typedef struct lsi_picture {
    const uint8_t *pixels; /* of the first pixel's first channel */
    int64_t width, height;
    int channels;               /* 1 or 3 */
    int64_t row, column, plane; /* bytes from one to the next */
    void *block;                /* the pixels' memory (lsi_free), or NULL */
} lsi_picture;

void lsi_picture_free(lsi_picture *picture);

/* The largest side of an image that is decoded, and all of its pixels. */
enum { LSI_PICTURE_MOST = 1 << 16, LSI_PICTURE_PIXELS = 1 << 28 };

/*
 * Writes (channels, height, width) bytes: the picture resized so that it covers
 * that shape, by no more than it must, and cropped in the middle. Grey becomes
 * three equal channels, and colours become luma.
 */
ls_status lsi_picture_fit(const lsi_picture *picture, int channels,
                          int64_t height, int64_t width, uint8_t *out);

/*
 * Decodes a PNG or a JPEG. Its channels are 1 if it is grey, else 3;
 * transparent pixels are shown on black. Errors name the file.
 */
ls_status lsi_picture_decode(lsi_picture *out, const uint8_t *data,
                             size_t bytes, const char *path);

/* Of a file. */
ls_status lsi_picture_read(lsi_picture *out, const char *path);

/* By kind; of a file that begins like one. */
ls_status lsi_png_decode(lsi_picture *out, const uint8_t *data, size_t bytes,
                         const char *path);
ls_status lsi_jpeg_decode(lsi_picture *out, const uint8_t *data, size_t bytes,
                          const char *path);

/* Room for its rows, columns and interleaved channels. */
ls_status lsi_picture_alloc(lsi_picture *out, int64_t width, int64_t height,
                            int channels, const char *path);

#endif
