/* Pictures of files. */
#include "input/data/picture.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/file.h"
#include "base/magic.h"
#include "base/memory.h"

void lsi_picture_free(lsi_picture *picture)
{
    lsi_free(picture->block);
    *picture = (lsi_picture){0};
}

ls_status lsi_picture_alloc(lsi_picture *out, int64_t width, int64_t height,
                            int channels, const char *path)
{
    void *block = NULL;
    if (width < 1 || height < 1 || width > LSI_PICTURE_MOST ||
        height > LSI_PICTURE_MOST)
        return lsi_fail(LS_ERR_FORMAT,
                        "the image '%s' has %" PRId64 " x %" PRId64
                        " pixels; sides of 1 to %d pixels are supported",
                        path, width, height, LSI_PICTURE_MOST);
    if (width * height > LSI_PICTURE_PIXELS)
        return lsi_fail(
            LS_ERR_FORMAT,
            "the image '%s' has %" PRId64 " x %" PRId64
            " pixels according to its header; at most %d pixels are supported",
            path, width, height, LSI_PICTURE_PIXELS);
    LS_TRY(lsi_alloc(&block, (size_t)width * (size_t)height * (size_t)channels,
                     LS_MEMORY_DATA, "an image"));
    *out = (lsi_picture){.pixels = block,
                         .width = width,
                         .height = height,
                         .channels = channels,
                         .row = width * channels,
                         .column = channels,
                         .plane = 1,
                         .block = block};
    return LS_OK;
}

ls_status lsi_picture_decode(lsi_picture *out, const uint8_t *data,
                             size_t bytes, const char *path)
{
    const lsi_magic magic = lsi_magic_of(data, bytes);
    if (magic == LSI_MAGIC_PNG)
        return lsi_png_decode(out, data, bytes, path);
    if (magic == LSI_MAGIC_JPEG)
        return lsi_jpeg_decode(out, data, bytes, path);
    if (bytes == 0)
        return lsi_fail(LS_ERR_FORMAT, "the image '%s' is empty", path);
    return lsi_fail(LS_ERR_FORMAT,
                    "'%s' is %s; only PNG and JPEG images are supported", path,
                    lsi_magic_name(magic));
}

ls_status lsi_picture_read(lsi_picture *out, const char *path)
{
    char *data = NULL;
    size_t bytes;
    LS_TRY(lsi_read_regular(path, 0, &data, &bytes));
    const ls_status status =
        lsi_picture_decode(out, (const uint8_t *)data, bytes, path);
    lsi_free(data);
    return status;
}
