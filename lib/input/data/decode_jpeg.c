/* JPEG by libjpeg-turbo. */
#include <stdbool.h>
#include <string.h>
#include <turbojpeg.h>

#include "base/error.h"
#include "input/data/picture.h"

static ls_status fail(tjhandle handle, const char *path)
{
    return lsi_fail(LS_ERR_FORMAT, "the JPEG '%s' is damaged or cut off: %s",
                    path, tjGetErrorStr2(handle));
}

/*
 * Whether the picture is whole all the same: some cameras and editors leave
 * meaningless bytes between segments. The library reports only the first of its
 * warnings; a file that is also cut off has no end marker.
 */
static bool is_harmless(tjhandle handle, const uint8_t *data, size_t bytes)
{
    while (bytes > 2 && (data[bytes - 1] == 0 || data[bytes - 1] == '\n'))
        bytes--;
    return tjGetErrorCode(handle) == TJERR_WARNING &&
           strstr(tjGetErrorStr2(handle), "extraneous bytes") != NULL &&
           bytes > 2 && data[bytes - 2] == 0xff && data[bytes - 1] == 0xd9;
}

static ls_status decode(tjhandle handle, lsi_picture *out, const uint8_t *data,
                        size_t bytes, const char *path)
{
    int width = 0, height = 0, sampling = 0, space = 0;
    if (tjDecompressHeader3(handle, data, bytes, &width, &height, &sampling,
                            &space) != 0)
        return fail(handle, path);
    /* A file that is cut off within its tables has a header for the library. */
    if (width == 0 || height == 0)
        return lsi_fail(
            LS_ERR_FORMAT,
            "the JPEG '%s' is damaged or cut off: it contains no image", path);
    if (space == TJCS_CMYK || space == TJCS_YCCK)
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "the JPEG '%s' has CMYK colours, which are not "
                        "supported; convert it to RGB or greyscale",
                        path);
    const bool grey = space == TJCS_GRAY;
    lsi_picture picture;
    LS_TRY(lsi_picture_alloc(&picture, width, height, grey ? 1 : 3, path));
    /* Most warnings are of a file that is cut off or has wrong bytes. */
    if (tjDecompress2(handle, data, bytes, picture.block, width, 0, height,
                      grey ? TJPF_GRAY : TJPF_RGB, TJFLAG_ACCURATEDCT) != 0 &&
        !is_harmless(handle, data, bytes)) {
        lsi_picture_free(&picture);
        return fail(handle, path);
    }
    *out = picture;
    return LS_OK;
}

ls_status lsi_jpeg_decode(lsi_picture *out, const uint8_t *data, size_t bytes,
                          const char *path)
{
    const tjhandle handle = tjInitDecompress();
    if (handle == NULL)
        return lsi_fail(LS_ERR_MEMORY, "not enough memory to decode '%s'",
                        path);
    const ls_status status = decode(handle, out, data, bytes, path);
    tjDestroy(handle);
    return status;
}
