/* In place of decode_png.c, in a build without libpng. */
#include "base/error.h"
#include "input/data/picture.h"

ls_status lsi_png_decode(lsi_picture *out, const uint8_t *data, size_t bytes,
                         const char *path)
{
    (void)out, (void)data, (void)bytes;
    return lsi_fail(
        LS_ERR_UNSUPPORTED,
        "cannot read the PNG image '%s': this library was built without libpng",
        path);
}
