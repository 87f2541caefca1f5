/*
 * Images under damage. Each chunk of a PNG has a checksum, and the last one
 * ends it. A JPEG has none: pixels may change, and sides within the reader's
 * limits. Bytes after the end of either are not looked at.
 */
#define DAMAGE_IMAGES
#include "damage.h"
#include "damage_files.h"

#include <stdio.h>
#include <turbojpeg.h>

#include "base/hash.h"
#include "input/data/picture.h"

static ls_status read_picture(const char *path, lsi_picture *out,
                              damage_seen *seen)
{
    const ls_status status = lsi_picture_read(out, path);
    if (status != LS_OK)
        return status;
    assert_in_range(out->width, 1, LSI_PICTURE_MOST);
    assert_in_range(out->height, 1, LSI_PICTURE_MOST);
    seen->values =
        damage_digest(LSI_HASH_START, out->pixels,
                      (size_t)(out->width * out->height * out->channels));
    return LS_OK;
}

static ls_status read_png(const char *path, damage_seen *seen)
{
    lsi_picture p;
    const ls_status status = read_picture(path, &p, seen);
    if (status != LS_OK)
        return status;
    snprintf(seen->shape, sizeof seen->shape, "%lld x %lld x %d",
             (long long)p.width, (long long)p.height, p.channels);
    lsi_picture_free(&p);
    return LS_OK;
}

/* The sides are left out of the shape. */
static ls_status read_jpeg(const char *path, damage_seen *seen)
{
    lsi_picture p;
    const ls_status status = read_picture(path, &p, seen);
    if (status != LS_OK)
        return status;
    snprintf(seen->shape, sizeof seen->shape, "%d channels", p.channels);
    lsi_picture_free(&p);
    return LS_OK;
}

static void check_png(const char *format, const uint8_t *data, size_t bytes)
{
    const damage_case c = {.format = format,
                           .path = damage_path("a.png"),
                           .data = data,
                           .bytes = bytes,
                           .read = read_png,
                           .junk = DAMAGE_VALUES,
                           .zeros = DAMAGE_VALUES};
    damage_check(&c);
}

static void png(void **state)
{
    (void)state;
    check_png("PNG", png_grey_file, sizeof png_grey_file);
}

static void png_with_more_chunks(void **state)
{
    (void)state;
    check_png("PNG with PLTE, tRNS, gAMA and tEXt", png_palette_file,
              sizeof png_palette_file);
}

static void check_jpeg(const char *format, int pixel, int sampling, int flags)
{
    enum { WIDTH = 9, HEIGHT = 5, QUALITY = 40 };
    uint8_t pixels[WIDTH * HEIGHT * 3];
    unsigned char *data = NULL;
    unsigned long bytes = 0;
    const tjhandle handle = tjInitCompress();
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * 37 % 251);
    assert_int_equal(tjCompress2(handle, pixels, WIDTH, 0, HEIGHT, pixel, &data,
                                 &bytes, sampling, QUALITY, flags),
                     0);
    tjDestroy(handle);
    const damage_case c = {.format = format,
                           .path = damage_path("a.jpg"),
                           .data = data,
                           .bytes = bytes,
                           .read = read_jpeg,
                           .flips = {.usual = DAMAGE_SHAPE},
                           .junk = DAMAGE_VALUES,
                           .zeros = DAMAGE_VALUES};
    damage_check(&c);
    tjFree(data);
}

static void jpeg_grey(void **state)
{
    (void)state;
    check_jpeg("JPEG, grey", TJPF_GRAY, TJSAMP_GRAY, 0);
}

static void jpeg_colour(void **state)
{
    (void)state;
    check_jpeg("JPEG, colour", TJPF_RGB, TJSAMP_420, 0);
}

static void jpeg_progressive(void **state)
{
    (void)state;
    check_jpeg("JPEG, progressive", TJPF_RGB, TJSAMP_444, TJFLAG_PROGRESSIVE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(png),
        cmocka_unit_test(png_with_more_chunks),
        cmocka_unit_test(jpeg_grey),
        cmocka_unit_test(jpeg_colour),
        cmocka_unit_test(jpeg_progressive),
    };
    return cmocka_run_group_tests(tests, damage_begin, damage_end);
}
