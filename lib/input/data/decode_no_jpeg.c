/* In place of decode_jpeg.c, in a build without libjpeg-turbo. */
#include "base/error.h"
#include "input/data/picture.h"

ls_status lsi_jpeg_decode(lsi_picture *out, const uint8_t *data, size_t bytes,
                          const char *path)
{
    (void)out, (void)data, (void)bytes;
    return lsi_fail(LS_ERR_UNSUPPORTED,
                    "cannot read the JPEG image '%s': this library was built "
                    "without libjpeg-turbo",
                    path);
}
