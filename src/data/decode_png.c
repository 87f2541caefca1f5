/* PNG by libpng: its simplified interface, which reads every kind there is. */
#include <png.h>
#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "data/picture.h"

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
        return lsi_fail(LS_ERR_FORMAT, "the PNG '%s' is damaged or cut off: %s",
                        path, image->message);
    }
    *out = picture;
    return LS_OK;
}

ls_status lsi_png_decode(lsi_picture *out, const uint8_t *data, size_t bytes,
                         const char *path)
{
    png_image image;
    memset(&image, 0, sizeof image);
    image.version = PNG_IMAGE_VERSION;
    if (png_image_begin_read_from_memory(&image, data, bytes) == 0)
        return lsi_fail(LS_ERR_FORMAT, "the PNG '%s' is damaged or cut off: %s",
                        path, image.message);
    const ls_status status = read_pixels(&image, out, path);
    png_image_free(&image);
    return status;
}
