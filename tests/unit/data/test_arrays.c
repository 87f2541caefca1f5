/* Arrays, as NumPy writes them (make_array_vectors.py), and others. */
#include <math.h>

#include <zlib.h>

#include "input/data/arrays.h"
#include "unit/data/array_vectors.h"
#include "unit/data/own_files.h"

#define WRITE(name, data) write_file(name, data, sizeof(data))

/* ---- .npy ---------------------------------------------------------------- */

static void check_values(const uint8_t *data, size_t bytes, char kind,
                         size_t size)
{
    static const int want[] = {0, 1, -1, 3, 100, -128};
    lsi_file_array a;
    assert_ok(lsi_npy_parse(&a, data, bytes, "x.npy"));
    assert_int_equal(a.kind, kind);
    assert_int_equal(a.size, size);
    assert_int_equal(a.ndim, 2);
    assert_int_equal(a.shape[0], 2);
    assert_int_equal(a.shape[1], 3);
    for (int64_t i = 0; i < 6; i++) {
        float value = 0;
        if (kind == 'f')
            memcpy(&value, a.data + 4 * i, sizeof value);
        else
            value = (float)lsi_file_array_int(&a, i);
        assert_true(value == (float)want[i]);
    }
}

static void test_npy(void **state)
{
    (void)state;
    lsi_file_array a;
    check_values(npy_i1, sizeof npy_i1, 'i', 1);
    check_values(npy_version_2, sizeof npy_version_2, 'f', 4);
    check_values(npy_version_3, sizeof npy_version_3, 'i', 4);
    assert_ok(lsi_npy_parse(&a, npy_none, sizeof npy_none, "x.npy"));
    assert_int_equal(a.shape[0], 0);
    assert_ok(lsi_npy_parse(&a, npy_scalar, sizeof npy_scalar, "x.npy"));
    assert_int_equal(a.ndim, 0);
}

static void test_wrong_npy(void **state)
{
    (void)state;
    lsi_file_array a;
    assert_error(lsi_npy_parse(&a, npy_fortran, sizeof npy_fortran, "f.npy"),
                 LS_ERR_UNSUPPORTED, "'f.npy' is in Fortran order");
    assert_error(lsi_npy_parse(&a, npy_big, sizeof npy_big, "b.npy"),
                 LS_ERR_UNSUPPORTED, "'b.npy' is an array of type '>f4'");
    assert_error(lsi_npy_parse(&a, npy_complex, sizeof npy_complex, "c.npy"),
                 LS_ERR_UNSUPPORTED, "of type '<c8'");
    assert_error(lsi_npy_parse(&a, npy_records, sizeof npy_records, "r.npy"),
                 LS_ERR_UNSUPPORTED, "is an array of records");
    for (size_t n = 0; n < sizeof npy_i1; n++)
        assert_error(lsi_npy_parse(&a, npy_i1, n, "cut.npy"), LS_ERR_FORMAT,
                     "'cut.npy'");
    assert_error(lsi_npy_parse(&a, npy_i1, sizeof npy_i1 - 1, "cut.npy"),
                 LS_ERR_FORMAT,
                 "an array of shape (2, 3) with elements of 1 bytes needs "
                 "6 bytes, but 5 follow");
}

/* ---- images in arrays ---------------------------------------------------- */

static const double unit = 1.0 / 255;

static void check_images(const char *name, ls_subset split, int64_t count,
                         int64_t first)
{
    const ls_image_options plain = {.deviation = {unit, unit, unit}};
    ls_dataset *set = NULL;
    assert_ok(ls_dataset_new_images(&set, in_root(name), split, &plain));
    assert_int_equal(ls_dataset_count(set), count);
    assert_int_equal(ls_dataset_classes(set), first < 0 ? 1 : 5);
    const ls_field *field = ls_dataset_field(set, LS_FIELD_IMAGES);
    assert_int_equal(field->shape[0], 3);
    assert_int_equal(field->shape[1], 3);
    assert_int_equal(field->shape[2], 4);
    for (int64_t i = 0; i < count && first >= 0; i++) {
        float image[36];
        int64_t label;
        assert_ok(ls_dataset_read(set, 0, &i, 1, (void *[]){image, &label}));
        assert_int_equal(label, (first + i) % 5);
        for (int64_t p = 0; p < 36; p++) {
            const int64_t at = (first + i) * 36 + p % 12 * 3 + p / 12;
            assert_true(fabsf(image[p] - (float)(at % 251)) < 1e-3F);
        }
    }
    ls_dataset_free(&set);
}

static void test_image_arrays(void **state)
{
    (void)state;
    WRITE("two.npz", npz_deflated);
    check_images("two.npz", LS_SUBSET_TRAIN, 12, 0);
    check_images("two.npz", LS_SUBSET_TEST, 8, 12);
    WRITE("one.npz", npz_stored);
    ls_dataset *set = NULL;
    assert_ok(
        ls_dataset_new_images(&set, in_root("one.npz"), LS_SUBSET_TEST, NULL));
    assert_int_equal(ls_dataset_count(set), 2);
    ls_dataset_free(&set);
}

static void test_wrong_images(void **state)
{
    (void)state;
    ls_dataset *set = NULL;
    WRITE("photos.npy", npy_floats);
    assert_error(ls_dataset_new_images(&set, in_root("photos.npy"),
                                       LS_SUBSET_TRAIN, NULL),
                 LS_ERR_FORMAT, "photos.npy' were not found");
    WRITE("images.npy", npy_floats);
    assert_error(ls_dataset_new_images(&set, in_root("images.npy"),
                                       LS_SUBSET_TRAIN, NULL),
                 LS_ERR_IO, "labels.npy");
    WRITE("labels.npy", npy_i1);
    assert_error(ls_dataset_new_images(&set, in_root("images.npy"),
                                       LS_SUBSET_TRAIN, NULL),
                 LS_ERR_FORMAT, "has type f4; images must be unsigned");
    WRITE("fields.npz", npz_fields);
    assert_error(ls_dataset_new_images(&set, in_root("fields.npz"),
                                       LS_SUBSET_TRAIN, NULL),
                 LS_ERR_FORMAT, "holds no known pair of images and labels");
    write_file("cut.npz", npz_stored, sizeof npz_stored - 30);
    assert_error(
        ls_dataset_new_images(&set, in_root("cut.npz"), LS_SUBSET_TRAIN, NULL),
        LS_ERR_FORMAT, "cut.npz' is damaged or cut off");
    write_file("x.parquet", "PAR1\x15\x04", 6);
    assert_error(ls_dataset_new_images(&set, in_root("x.parquet"),
                                       LS_SUBSET_TRAIN, NULL),
                 LS_ERR_FORMAT, "x.parquet' is a parquet file; supported");
}

static void write_shape(const char *name, const char *shape, char type)
{
    uint8_t file[10 + 118] = "\x93NUMPY\1\0\x76";
    char header[119];
    snprintf(header, sizeof header,
             "{'descr': '|%c1', 'fortran_order': False, 'shape': (%s), }", type,
             shape);
    memset(file + 10, ' ', sizeof file - 10);
    memcpy(file + 10, header, strlen(header));
    file[sizeof file - 1] = '\n';
    WRITE(name, file);
}

/* No images, each of which would have more bytes than there can be. */
static void test_vast_images(void **state)
{
    (void)state;
    static const char *const shapes[] = {
        "0, 1099511627777, 16777216",   /* 2^64 + 2^24 */
        "0, 4611686018427387904, 3, 3", /* 9 * 2^62 */
        "0, 0, 4611686018427387904, 3", /* 3 * 2^62 within */
        "0, 3, 4611686018427387904, 4611686018427387904",
    };
    write_shape("labels.npy", "0,", 'u');
    for (size_t i = 0; i < TEST_COUNT(shapes); i++) {
        ls_dataset *set = NULL;
        write_shape("images.npy", shapes[i], 'u');
        assert_error(ls_dataset_new_images(&set, in_root("images.npy"),
                                           LS_SUBSET_TRAIN, NULL),
                     LS_ERR_FORMAT,
                     i == 2 ? "(4 dimensions) does not hold images"
                            : "at most 268435456 pixels");
    }
}

/* Whatever byte of an archive is another, it is read or refused. */
static void test_damaged_archives(void **state)
{
    (void)state;
    uint8_t copy[sizeof npz_deflated];
    for (size_t i = 0; i < sizeof copy; i += 3) {
        lsi_file_arrays *arrays = NULL;
        memcpy(copy, npz_deflated, sizeof copy);
        copy[i] ^= 0xff;
        WRITE("damaged.npz", copy);
        if (lsi_file_arrays_open(&arrays, in_root("damaged.npz"), i % 2 == 0) ==
            LS_OK)
            lsi_file_arrays_free(&arrays);
        assert_null(arrays);
    }
}

/* ---- checksums of archives ----------------------------------------------- */

enum { MOST_MEMBERS = 4 };

/* The members of an archive, in order. */
typedef struct members {
    int n;
    char name[MOST_MEMBERS][32];
    size_t bytes[MOST_MEMBERS];
    uint8_t data[MOST_MEMBERS][2048];
} members;

static ls_status take_member(void *context, const char *name,
                             const lsi_records *file)
{
    members *const m = context;
    assert_true(m->n < MOST_MEMBERS && file->bytes <= sizeof m->data[0]);
    snprintf(m->name[m->n], sizeof m->name[0], "%s", name);
    m->bytes[m->n] = file->bytes;
    memcpy(m->data[m->n++], file->data, file->bytes);
    file->release(file->data, file->bytes);
    return LS_OK;
}

static ls_status read_archive(const uint8_t *data, size_t bytes, bool skip,
                              members *out)
{
    const union {
        const uint8_t *constant;
        uint8_t *data;
    } view = {data};
    const lsi_records file = {.data = view.data, .bytes = bytes};
    memset(out, 0, sizeof *out);
    return lsi_zip_read(&file, "a.npz", skip, take_member, out);
}

/* Any bit of it is another: refused, or of no consequence. */
static void check_bits_of_archive(const uint8_t *data, size_t bytes)
{
    static members want, got;
    uint8_t copy[4096];
    assert_true(bytes < sizeof copy);
    memcpy(copy, data, bytes);
    assert_ok(read_archive(copy, bytes, false, &want));
    for (size_t i = 0; i < 8 * bytes; i++) {
        copy[i / 8] ^= (uint8_t)(1U << i % 8);
        if (read_archive(copy, bytes, false, &got) == LS_OK)
            assert_memory_equal(&got, &want, sizeof got);
        copy[i / 8] ^= (uint8_t)(1U << i % 8);
    }
    for (size_t n = 0; n < bytes; n++)
        assert_int_not_equal(read_archive(copy, n, false, &got), LS_OK);
    copy[bytes] = 0;
    assert_error(read_archive(copy, bytes + 1, false, &got), LS_ERR_FORMAT,
                 "its directory was not found, or other bytes follow the end");
}

static void test_bits_of_archives(void **state)
{
    (void)state;
    check_bits_of_archive(npz_stored, sizeof npz_stored);
    check_bits_of_archive(npz_deflated, sizeof npz_deflated);
}

/* A changed pixel, at the end of the first member: of 300 to 1,000 bytes. */
static void test_skipped_checksums(void **state)
{
    (void)state;
    static members got;
    enum { PIXEL = 600, LOCAL_CRC = 14 };
    uint8_t copy[sizeof npz_stored];
    const ls_image_options skip = {.skip_checksums = true};
    ls_dataset *set = NULL;
    memcpy(copy, npz_stored, sizeof copy);
    copy[PIXEL] ^= 1;
    WRITE("pixel.npz", copy);
    assert_error(ls_dataset_new_arrays(&set, in_root("pixel.npz"), NULL),
                 LS_ERR_FORMAT, "'images.npy' in the zip archive '");
    assert_error(
        ls_dataset_new_images(&set, in_root("pixel.npz"), LS_SUBSET_TEST, NULL),
        LS_ERR_FORMAT, "its contents. Copy the archive again");
    assert_ok(ls_dataset_new_images(&set, in_root("pixel.npz"), LS_SUBSET_TEST,
                                    &skip));
    ls_dataset_free(&set);
    assert_ok(
        ls_dataset_new_arrays(&set, in_root("pixel.npz"),
                              &(ls_array_options){.skip_checksums = true}));
    ls_dataset_free(&set);
    memcpy(copy, npz_stored, sizeof copy);
    copy[LOCAL_CRC] ^= 1;
    assert_error(read_archive(copy, sizeof copy, false, &got), LS_ERR_FORMAT,
                 "the header of the file");
    assert_ok(read_archive(copy, sizeof copy, true, &got));
}

/* ---- MNIST --------------------------------------------------------------- */

static void write_gzip(const char *name, const void *data, size_t bytes)
{
    gzFile file = gzopen(in_root(name), "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, data, (unsigned)bytes), bytes);
    assert_int_equal(gzclose(file), Z_OK);
}

static void write_idx(const char *images, const char *labels, uint8_t count,
                      bool packed)
{
    uint8_t pixels[16 + 30 * 6] = {0, 0, 8, 3, 0, 0, 0, count,
                                   0, 0, 0, 2, 0, 0, 0, 3};
    uint8_t numbers[8 + 30] = {0, 0, 8, 1, 0, 0, 0, count};
    for (int i = 0; i < count; i++) {
        numbers[8 + i] = (uint8_t)(i % 10);
        for (int p = 0; p < 6; p++)
            pixels[16 + 6 * i + p] = (uint8_t)(7 * i + p);
    }
    if (packed) {
        write_gzip(images, pixels, 16 + 6U * count);
        write_gzip(labels, numbers, 8U + count);
    } else {
        write_file(images, pixels, 16 + 6U * count);
        write_file(labels, numbers, 8U + count);
    }
}

static void test_mnist(void **state)
{
    (void)state;
    make_dir("mnist");
    write_idx("mnist/train-images-idx3-ubyte.gz",
              "mnist/train-labels-idx1-ubyte.gz", 20, true);
    write_idx("mnist/t10k-images-idx3-ubyte", "mnist/t10k-labels-idx1-ubyte",
              10, false);
    const ls_image_options plain = {.deviation = {unit, unit, unit}};
    for (int split = 0; split < 2; split++) {
        ls_dataset *set = NULL;
        assert_ok(ls_dataset_new_images(&set, in_root("mnist"),
                                        (ls_subset)split, &plain));
        assert_int_equal(ls_dataset_count(set), split == 0 ? 20 : 10);
        assert_int_equal(ls_dataset_classes(set), 10);
        assert_int_equal(ls_dataset_field(set, 0)->shape[0], 1);
        assert_int_equal(ls_dataset_field(set, 0)->shape[2], 3);
        const int64_t index = 9;
        float image[6];
        int64_t label;
        assert_ok(
            ls_dataset_read(set, 0, &index, 1, (void *[]){image, &label}));
        assert_int_equal(label, 9);
        assert_true(fabsf(image[5] - 68) < 1e-3F);
        ls_dataset_free(&set);
    }
    uint8_t cut[10];
    FILE *file = fopen(in_root("mnist/train-images-idx3-ubyte.gz"), "rb");
    assert_non_null(file);
    assert_int_equal(fread(cut, 1, sizeof cut, file), sizeof cut);
    fclose(file);
    WRITE("mnist/train-images-idx3-ubyte.gz", cut);
    ls_dataset *set = NULL;
    assert_error(
        ls_dataset_new_images(&set, in_root("mnist"), LS_SUBSET_TRAIN, NULL),
        LS_ERR_FORMAT, "ubyte.gz' is damaged or cut off");
}

/* ---- datasets of arrays -------------------------------------------------- */

static void test_any_arrays(void **state)
{
    (void)state;
    static const ls_dtype types[] = {LS_I32, LS_U8,  LS_I32,
                                     LS_F32, LS_I64, LS_F16};
    ls_dataset *set = NULL;
    WRITE("any.npz", npz_fields);
    assert_ok(ls_dataset_new_arrays(&set, in_root("any.npz"), NULL));
    assert_int_equal(ls_dataset_count(set), 2);
    assert_int_equal(ls_dataset_field_count(set), 6);
    assert_int_equal(ls_dataset_classes(set), 8);
    assert_int_equal(ls_dataset_label(set, 0), 7);
    for (int f = 0; f < 6; f++)
        assert_int_equal(ls_dataset_field(set, f)->dtype, types[f]);
    assert_string_equal(ls_dataset_field(set, 2)->name, "y");
    assert_int_equal(ls_dataset_field(set, 3)->ndim, 2);
    int32_t a[3], y;
    uint8_t b;
    float c[2];
    int64_t d, index = 1;
    uint16_t e;
    assert_ok(
        ls_dataset_read(set, 0, &index, 1, (void *[]){a, &b, &y, c, &d, &e}));
    assert_int_equal(a[0], 3);
    assert_int_equal(a[2], -128);
    assert_int_equal(b, 0);
    assert_int_equal(y, 0);
    assert_true(c[0] == 0.1F);
    assert_int_equal(d, 4294967295);
    assert_int_equal(e, 0x4200); /* 3 in f16 */
    ls_dataset_free(&set);
    make_dir("unequal");
    WRITE("unequal/a.npy", npy_i1);
    WRITE("unequal/b.npy", npy_floats);
    assert_error(ls_dataset_new_arrays(&set, in_root("unequal"), NULL),
                 LS_ERR_FORMAT, "'b' of");
    /* No items, of an extent whose product no number holds. */
    static const uint8_t vast[] = {0,    0,    8,    3,    0,    0,    0,    0,
                                   0xfd, 0x03, 0xfe, 0xff, 0xf7, 0xfd, 0x10, 0};
    WRITE("vast-idx3-ubyte", vast);
    assert_error(ls_dataset_new_arrays(&set, in_root("vast-idx3-ubyte"), NULL),
                 LS_ERR_FORMAT, "too many elements");
    write_file("t.txt", "hello", 5);
    assert_error(ls_dataset_new_arrays(&set, in_root("t.txt"), NULL),
                 LS_ERR_FORMAT,
                 "t.txt' is a file of an unknown kind; arrays are read from");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_npy),
        cmocka_unit_test(test_wrong_npy),
        cmocka_unit_test(test_image_arrays),
        cmocka_unit_test(test_wrong_images),
        cmocka_unit_test(test_vast_images),
        cmocka_unit_test(test_damaged_archives),
        cmocka_unit_test(test_bits_of_archives),
        cmocka_unit_test(test_skipped_checksums),
        cmocka_unit_test(test_mnist),
        cmocka_unit_test(test_any_arrays),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
