/* PNG by libpng: its simplified interface, which reads every kind there is. */
#define ZLIB_CONST
#include <png.h>
#include <stdbool.h>
#include <string.h>
#include <zlib.h>

#include "base/error.h"
#include "input/data/picture.h"

static ls_status damaged(const char *path, const char *what)
{
    return lsi_fail(LS_ERR_FORMAT, "the PNG '%s' is damaged or cut off: %s",
                    path, what);
}

/* ---- chunks -------------------------------------------------------------- */

static uint32_t number(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 |
           (uint32_t)at[2] << 8 | at[3];
}

/*
 * Checks each chunk up to the last one, IEND: a length, a name, the contents
 * and their CRC-32. Alone, libpng drops a damaged chunk of transparency or
 * gamma with a warning, and reads nothing after the last row.
 */
static ls_status check_chunks(const uint8_t *data, size_t bytes,
                              const char *path)
{
    enum { SIGNATURE = 8, NAME = 4, AROUND = 12 };
    char what[64];
    size_t at = SIGNATURE;
    for (bool ended = false; !ended;) {
        if (bytes < at + AROUND || number(data + at) > bytes - at - AROUND)
            return damaged(path, "its last chunk, IEND, is missing");
        const uint8_t *const name = data + at + NAME;
        const size_t n = number(data + at);
        if (crc32_z(0, name, NAME + n) != number(name + NAME + n)) {
            snprintf(what, sizeof what,
                     "the chunk at byte %zu has a wrong checksum", at);
            return damaged(path, what);
        }
        ended = memcmp(name, "IEND", NAME) == 0;
        at += AROUND + n;
    }
    return LS_OK;
}

/* ---- pixels -------------------------------------------------------------- */

static ls_status read_pixels(png_image *image, lsi_picture *out,
                             const char *path)
{
    const png_color black = {0, 0, 0};
    const bool grey = (image->format & PNG_FORMAT_FLAG_COLOR) == 0;
    lsi_picture picture;
    LS_TRY(lsi_picture_alloc(&picture, image->width, image->height,
                             grey ? 1 : 3, path));
    image->format = grey ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
    if (png_image_finish_read(image, &black, picture.block, 0, NULL) == 0) {
        lsi_picture_free(&picture);
        return damaged(path, image->message);
    }
    *out = picture;
    return LS_OK;
}

ls_status lsi_png_decode(lsi_picture *out, const uint8_t *data, size_t bytes,
                         const char *path)
{
    png_image image;
    lsi_picture picture;
    memset(&image, 0, sizeof image);
    image.version = PNG_IMAGE_VERSION;
    if (png_image_begin_read_from_memory(&image, data, bytes) == 0)
        return damaged(path, image.message);
    ls_status status = read_pixels(&image, &picture, path);
    png_image_free(&image);
    LS_TRY(status);
    status = check_chunks(data, bytes, path);
    if (status != LS_OK) {
        lsi_picture_free(&picture);
        return status;
    }
    *out = picture;
    return LS_OK;
}
