/* Decoding and resizing, compared with Pillow (make_image_vectors.py). */
#include <zlib.h>

#include "input/data/picture.h"
#include "unit/data/image_files.h"
#include "unit/data/image_vectors.h"

static uint32_t crc_of(const uint8_t *data, size_t bytes)
{
    return (uint32_t)crc32(0, data, (uInt)bytes);
}

static uint32_t crc_of_fit(const lsi_picture *p, int channels, int64_t height,
                           int64_t width)
{
    const size_t bytes = (size_t)(channels * height * width);
    uint8_t *out = malloc(bytes);
    assert_ok(lsi_picture_fit(p, channels, height, width, out));
    const uint32_t crc = crc_of(out, bytes);
    free(out);
    return crc;
}

static lsi_picture picture_of(const uint8_t *pixels, int64_t width,
                              int64_t height, int channels)
{
    return (lsi_picture){.pixels = pixels,
                         .width = width,
                         .height = height,
                         .channels = channels,
                         .row = width * channels,
                         .column = channels,
                         .plane = 1};
}

static void test_resizes_as_pillow_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(fits); i++) {
        uint8_t *pixels =
            pattern(fits[i].width, fits[i].height, fits[i].channels, 0);
        const lsi_picture p =
            picture_of(pixels, fits[i].width, fits[i].height, fits[i].channels);
        assert_int_equal(crc_of_fit(&p, p.channels, fits[i].size, fits[i].size),
                         fits[i].crc);
        free(pixels);
    }
}

static void test_grey_and_colours(void **state)
{
    (void)state;
    uint8_t *pixels = pattern(20, 11, 3, 0);
    lsi_picture p = picture_of(pixels, 20, 11, 3);
    assert_int_equal(crc_of_fit(&p, 1, 11, 20), luma_crc);
    uint8_t out[3 * 7];
    p = picture_of(pixels, 7, 1, 1);
    assert_ok(lsi_picture_fit(&p, 3, 1, 7, out));
    for (int c = 0; c < 3; c++)
        assert_memory_equal(out + c * 7, pixels, 7);
    free(pixels);
}

static void test_decodes_as_pillow_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(files); i++) {
        lsi_picture p;
        assert_ok(lsi_picture_decode(&p, files[i].data, files[i].bytes,
                                     files[i].name));
        assert_int_equal(p.width, files[i].width);
        assert_int_equal(p.height, files[i].height);
        assert_int_equal(p.channels, files[i].channels);
        if (crc_of_fit(&p, p.channels, p.height, p.width) != files[i].crc)
            fail_msg("%s has other pixels", files[i].name);
        lsi_picture_free(&p);
    }
}

/* Wherever a file ends, or whatever byte is another: no pixels, or some. */
static void test_cut_off(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(files); i++) {
        for (size_t bytes = 0; bytes + 20 < files[i].bytes; bytes += 7) {
            lsi_picture p;
            uint8_t *copy = malloc(bytes + 1);
            memcpy(copy, files[i].data, bytes);
            assert_error(lsi_picture_decode(&p, copy, bytes, "cut.file"),
                         LS_ERR_FORMAT, "'cut.file'");
            free(copy);
        }
    }
}

/* Bytes before a marker say nothing; those of a file that is cut off do. */
static void test_extraneous_bytes(void **state)
{
    (void)state;
    lsi_picture p;
    const size_t bytes = sizeof(jpeg_colour);
    uint8_t more[sizeof(jpeg_colour) + 8] = {0};
    memcpy(more, jpeg_colour, bytes - 2);
    memcpy(more + bytes - 2, "extra", 5);
    memcpy(more + bytes + 3, jpeg_colour + bytes - 2, 2);
    assert_ok(lsi_picture_decode(&p, more, bytes + 5, "more.jpg"));
    assert_int_equal(crc_of_fit(&p, p.channels, p.height, p.width),
                     files[0].data == jpeg_colour ? files[0].crc
                                                  : files[1].crc);
    lsi_picture_free(&p);
    assert_error(lsi_picture_decode(&p, more, bytes + 3, "cut.jpg"),
                 LS_ERR_FORMAT, "'cut.jpg' is damaged or cut off");
}

/* A small file may not claim an unlimited size. */
static void test_refused(void **state)
{
    (void)state;
    lsi_picture p;
    uint8_t png[45] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x4e\x20\0\0\x4e\x20"
                      "\x01"; /* 20000 x 20000, one bit */
    const uint32_t crc = (uint32_t)crc32(0, png + 12, 17);
    for (int i = 0; i < 4; i++)
        png[29 + i] = (uint8_t)(crc >> (24 - 8 * i));
    memcpy(png + 33, "\0\0\x10\0IDAT", 8);
    assert_error(lsi_picture_decode(&p, png, sizeof(png), "bomb.png"),
                 LS_ERR_FORMAT,
                 "'bomb.png' has 20000 x 20000 pixels according to its header");
    assert_error(
        lsi_picture_decode(&p, jpeg_cmyk, sizeof(jpeg_cmyk), "four.jpg"),
        LS_ERR_UNSUPPORTED, "the JPEG 'four.jpg' has CMYK colours");
}

static void test_other_files(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *message;
    } others[] = {
        {"GIF89a", "'x' is a GIF image; only PNG and JPEG images"},
        {"RIFFabcdWEBPVP8 ", "'x' is a WebP image"},
        {"some text", "'x' is a file of an unknown kind"},
        {"", "the image 'x' is empty"},
    };
    for (size_t i = 0; i < TEST_COUNT(others); i++) {
        lsi_picture p;
        assert_error(lsi_picture_decode(&p, (const uint8_t *)others[i].bytes,
                                        strlen(others[i].bytes), "x"),
                     LS_ERR_FORMAT, others[i].message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resizes_as_pillow_does),
        cmocka_unit_test(test_grey_and_colours),
        cmocka_unit_test(test_decodes_as_pillow_does),
        cmocka_unit_test(test_cut_off),
        cmocka_unit_test(test_other_files),
        cmocka_unit_test(test_extraneous_bytes),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
