/* Reading CIFAR-100 files, right ones and every kind of wrong one. */
#include <errno.h>
#include <math.h>

#include "cifar_files.h"
#include "lockstep/profile.h"

enum { N_TRAIN = 23, N_TEST = 5 };

static size_t live_data_bytes(void)
{
    ls_memory_stats stats;
    ls_memory_of(LS_MEMORY_DATA, &stats);
    return stats.live_bytes;
}

/* |fma(x, s, t) - exact| when s, t and the result are rounded once each. */
static void check_pixel(float got, uint8_t pixel, int channel)
{
    static const double mean[] = {0.5071, 0.4867, 0.4408};
    static const double deviation[] = {0.2675, 0.2565, 0.2761};
    const double product = pixel / 255.0 / deviation[channel];
    const double shift = mean[channel] / deviation[channel];
    const double expected = product - shift;
    const double bound = 0x1p-24 * (product + shift + fabs(expected));
    assert_true(fabs(got - expected) <= 1.01 * bound);
}

static void check_sample(const ls_dataset *dataset, int64_t index)
{
    float *image = malloc(LSI_IMAGE_BYTES * sizeof *image);
    int64_t label = -1;
    assert_int_equal(
        ls_dataset_read(dataset, 0, &index, 1, (void *[]){image, &label}),
        LS_OK);
    const size_t r = (size_t)index;
    assert_int_equal(label, record_byte(r, LSI_RECORD_FINE));
    assert_int_equal(ls_dataset_label(dataset, index), label);
    for (int i = 0; i < LSI_IMAGE_BYTES; i++)
        check_pixel(image[i], record_byte(r, LSI_RECORD_IMAGE + (size_t)i),
                    i / LSI_IMAGE_PIXELS);
    free(image);
}

/* The path gives both splits, sample for sample, and all memory back. */
static void check_opens(const char *path)
{
    static const int64_t counts[] = {
        [LS_SUBSET_TRAIN] = N_TRAIN, [LS_SUBSET_TEST] = N_TEST};
    const size_t before = live_data_bytes();
    for (int split = LS_SUBSET_TRAIN; split <= LS_SUBSET_TEST; split++) {
        ls_dataset *dataset = NULL;
        assert_int_equal(
            ls_dataset_new_cifar100(&dataset, path, (ls_subset)split), LS_OK);
        assert_int_equal(ls_dataset_count(dataset), counts[split]);
        assert_int_equal(ls_dataset_classes(dataset), 100);
        for (int64_t i = 0; i < counts[split]; i++)
            check_sample(dataset, i);
        ls_dataset_free(&dataset);
        assert_null(dataset);
    }
    assert_int_equal(live_data_bytes(), before);
}

/* It fails with the status, and the sentence has all of the parts. */
static void check_fails(const char *path, ls_status status, const char *part_a,
                        const char *part_b)
{
    const size_t before = live_data_bytes();
    ls_dataset *dataset = NULL;
    assert_int_equal(ls_dataset_new_cifar100(&dataset, path, LS_SUBSET_TRAIN),
                     status);
    assert_null(dataset);
    if (strstr(ls_last_error(), part_a) == NULL ||
        strstr(ls_last_error(), part_b) == NULL)
        fail_msg("'%s' lacks '%s' or '%s'", ls_last_error(), part_a, part_b);
    assert_int_equal(live_data_bytes(), before);
}

static void write_both(const char *directory)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/train.bin", directory);
    write_records(path, N_TRAIN);
    snprintf(path, sizeof path, "%s/test.bin", directory);
    write_records(path, N_TEST);
}

static void test_folder(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in_folder("plain"), 0755), 0);
    write_both(in_folder("plain"));
    check_opens(in_folder("plain"));
}

static void test_folder_around_it(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in_folder("outer"), 0755), 0);
    assert_int_equal(mkdir(in_folder("outer/cifar-100-binary"), 0755), 0);
    write_both(in_folder("outer/cifar-100-binary"));
    check_opens(in_folder("outer"));
    check_opens(in_folder("outer/"));
}

/* As published: other files before and between, in a folder. */
static void write_archive(const char *path, int filter)
{
    size_t bytes;
    struct archive *archive = begin_archive(path, filter);
    add_member(archive, "cifar-100-binary/fine_label_names.txt", "apple\n", 6);
    uint8_t *data = make_records(N_TEST, &bytes);
    add_member(archive, "cifar-100-binary/test.bin", data, bytes);
    free(data);
    data = make_records(N_TRAIN, &bytes);
    add_member(archive, "cifar-100-binary/old-train.bin", data, 99);
    add_member(archive, "cifar-100-binary/train.bin", data, bytes);
    free(data);
    end_archive(archive);
}

static void test_archives(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int filter;
    } kinds[] = {{"a.tar", ARCHIVE_FILTER_NONE},
                 {"a.tar.gz", ARCHIVE_FILTER_GZIP},
                 {"a.tar.zst", ARCHIVE_FILTER_ZSTD}};
    for (size_t i = 0; i < 3; i++) {
        write_archive(in_folder(kinds[i].name), kinds[i].filter);
        check_opens(in_folder(kinds[i].name));
    }
}

/* A budget counts the copy that an archive needs, not a mapping. */
static void test_memory_is_counted(void **state)
{
    (void)state;
    ls_dataset *dataset = NULL;
    const size_t before = live_data_bytes(), records = N_TRAIN * 3074;
    write_archive(in_folder("m.tar.gz"), ARCHIVE_FILTER_GZIP);
    assert_int_equal(ls_dataset_new_cifar100(&dataset, in_folder("m.tar.gz"),
                                             LS_SUBSET_TRAIN),
                     LS_OK);
    assert_true(live_data_bytes() >= before + records);
    ls_dataset_free(&dataset);

    assert_int_equal(mkdir(in_folder("counted"), 0755), 0);
    write_both(in_folder("counted"));
    assert_int_equal(ls_dataset_new_cifar100(&dataset, in_folder("counted"),
                                             LS_SUBSET_TRAIN),
                     LS_OK);
    assert_true(live_data_bytes() < before + records);
    ls_dataset_free(&dataset);

    ls_memory_set_budget(records / 2);
    const ls_status status = ls_dataset_new_cifar100(
        &dataset, in_folder("m.tar.gz"), LS_SUBSET_TRAIN);
    ls_memory_set_budget(0);
    assert_int_equal(status, LS_ERR_BUDGET);
    assert_null(dataset);
    assert_int_equal(live_data_bytes(), before);
}

static void test_missing_paths(void **state)
{
    (void)state;
    check_fails(in_folder("nowhere"), LS_ERR_IO, "/nowhere'", strerror(ENOENT));
    assert_int_equal(mkdir(in_folder("hollow"), 0755), 0);
    check_fails(in_folder("hollow"), LS_ERR_IO,
                "the file train.bin was not found",
                "/hollow/cifar-100-binary'");
    assert_int_equal(mkdir(in_folder("odd"), 0755), 0);
    assert_int_equal(mkdir(in_folder("odd/train.bin"), 0755), 0);
    check_fails(in_folder("odd"), LS_ERR_IO, "/odd/train.bin'",
                "not a regular file");
    check_fails("", LS_ERR_ARGUMENT, "the path is empty", "folder");
    check_fails(NULL, LS_ERR_ARGUMENT, "ls_dataset_new_cifar100",
                "path is NULL");
}

static void test_no_such_split(void **state)
{
    (void)state;
    ls_dataset *dataset = NULL;
    assert_int_equal(ls_dataset_new_cifar100(&dataset, folder, (ls_subset)2),
                     LS_ERR_ARGUMENT);
    assert_null(dataset);
}

/* Writes train.bin with one byte changed, or cut to `bytes`. */
static void write_broken(const char *directory, size_t place, uint8_t value,
                         size_t bytes)
{
    char path[PATH_MAX];
    size_t whole;
    uint8_t *data = make_records(N_TRAIN, &whole);
    assert_int_equal(mkdir(directory, 0755), 0);
    snprintf(path, sizeof path, "%s/train.bin", directory);
    data[place] = value;
    write_file(path, data, bytes);
    free(data);
}

static void test_bad_labels(void **state)
{
    (void)state;
    const size_t whole = N_TRAIN * LSI_RECORD_BYTES;
    write_broken(in_folder("fine"), 17 * LSI_RECORD_BYTES + 1, 100, whole);
    check_fails(in_folder("fine"), LS_ERR_FORMAT,
                "/fine/train.bin: record 17 has the fine label 100", "0 to 99");
    write_broken(in_folder("coarse"), 22 * LSI_RECORD_BYTES, 20, whole);
    check_fails(in_folder("coarse"), LS_ERR_FORMAT,
                "/coarse/train.bin: record 22 has the coarse label 20",
                "0 to 19");
    write_broken(in_folder("first"), 1, 255, whole);
    check_fails(in_folder("first"), LS_ERR_FORMAT,
                "record 0 has the fine label 255", "0 to 99");
}

static void test_bad_sizes(void **state)
{
    (void)state;
    write_broken(in_folder("cut"), 0, 0, 3 * LSI_RECORD_BYTES - 1);
    check_fails(in_folder("cut"), LS_ERR_FORMAT, "its size (9221 bytes)",
                "record size (3074 bytes). The file holds 2 whole records and "
                "3073 more");
    write_broken(in_folder("void"), 0, 0, 0);
    check_fails(in_folder("void"), LS_ERR_FORMAT, "/void/train.bin'",
                "is empty");
}

static void test_a_lone_file_is_not_enough(void **state)
{
    (void)state;
    write_records(in_folder("train.bin"), N_TRAIN);
    check_fails(in_folder("train.bin"), LS_ERR_FORMAT,
                "neither a folder nor a .tar", "that holds train.bin");
}

static void test_archive_without_the_file(void **state)
{
    (void)state;
    struct archive *archive =
        begin_archive(in_folder("no.tar.gz"), ARCHIVE_FILTER_GZIP);
    add_member(archive, "cifar-100-binary/test.bin", "x", 1);
    add_member(archive, "readme.txt", "y", 1);
    end_archive(archive);
    check_fails(in_folder("no.tar.gz"), LS_ERR_FORMAT, "the file train.bin",
                "(members: 2)");
    write_file(in_folder("zero.tar"), "", 0);
    check_fails(in_folder("zero.tar"), LS_ERR_FORMAT, "zero.tar'", "is empty");
}

static void test_archive_with_bad_records(void **state)
{
    (void)state;
    size_t bytes;
    uint8_t *data = make_records(4, &bytes);
    struct archive *archive =
        begin_archive(in_folder("short.tar"), ARCHIVE_FILTER_NONE);
    add_member(archive, "train.bin", data, bytes - 74);
    end_archive(archive);
    check_fails(in_folder("short.tar"), LS_ERR_FORMAT,
                "train.bin in the archive",
                "3 whole records and 3000 more bytes");
    data[2 * LSI_RECORD_BYTES + 1] = 100;
    archive = begin_archive(in_folder("label.tar"), ARCHIVE_FILTER_NONE);
    add_member(archive, "train.bin", data, bytes);
    end_archive(archive);
    check_fails(in_folder("label.tar"), LS_ERR_FORMAT, "label.tar",
                "record 2 has the fine label 100");
    free(data);
}

/* Keeps the first part of a file, or flips bits in its middle. */
static void damage(const char *path, const char *out, double keep, bool flip)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    uint8_t *data = malloc(1 << 20);
    const size_t bytes = fread(data, 1, 1 << 20, file);
    fclose(file);
    if (flip)
        memset(data + bytes / 2, 0xa5, 64);
    write_file(out, data, (size_t)((double)bytes * keep));
    free(data);
}

static void test_damaged_archives(void **state)
{
    (void)state;
    write_archive(in_folder("d.tar"), ARCHIVE_FILTER_NONE);
    write_archive(in_folder("d.tar.gz"), ARCHIVE_FILTER_GZIP);
    write_archive(in_folder("d.tar.zst"), ARCHIVE_FILTER_ZSTD);
    damage(in_folder("d.tar"), in_folder("half.tar"), 0.5, false);
    check_fails(in_folder("half.tar"), LS_ERR_FORMAT, "half.tar", "train.bin");
    damage(in_folder("d.tar.gz"), in_folder("half.tar.gz"), 0.5, false);
    check_fails(in_folder("half.tar.gz"), LS_ERR_FORMAT, "half.tar.gz'",
                "is damaged or cut off at byte");
    damage(in_folder("d.tar.gz"), in_folder("bits.tar.gz"), 1, true);
    check_fails(in_folder("bits.tar.gz"), LS_ERR_FORMAT, "bits.tar.gz'",
                "is damaged or cut off at byte");
    damage(in_folder("d.tar.zst"), in_folder("half.tar.zst"), 0.9, false);
    check_fails(in_folder("half.tar.zst"), LS_ERR_FORMAT, "half.tar.zst'",
                "is damaged or cut off at or before byte");
}

/* `more` is added to the byte `back` bytes before the end of a copy. */
static void change_byte(const char *path, const char *out, size_t back,
                        uint8_t more)
{
    static uint8_t data[1 << 20];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t bytes = fread(data, 1, sizeof data, file);
    fclose(file);
    data[bytes - back] = (uint8_t)(data[bytes - back] + more);
    write_file(out, data, bytes);
}

/* The last 8 bytes are the CRC-32 and the length of what is packed. */
static void test_trailer_of_gzip(void **state)
{
    (void)state;
    write_archive(in_folder("t.tar.gz"), ARCHIVE_FILTER_GZIP);
    for (size_t back = 1; back <= 8; back++) {
        change_byte(in_folder("t.tar.gz"), in_folder("trailer.tar.gz"), back,
                    (uint8_t)(1U << (back - 1)));
        check_fails(
            in_folder("trailer.tar.gz"), LS_ERR_FORMAT, "trailer.tar.gz'",
            back > 4 ? "incorrect data check" : "incorrect length check");
    }
}

/* Stored blocks, in which no code can be wrong: only the CRC-32 is. */
static void test_pixel_in_gzip(void **state)
{
    (void)state;
    size_t bytes;
    uint8_t *const data = make_records(1, &bytes);
    struct archive *archive = archive_write_new();
    archive_write_add_filter_gzip(archive);
    archive_write_set_format_ustar(archive);
    assert_int_equal(archive_write_set_filter_option(archive, "gzip",
                                                     "compression-level", "0"),
                     ARCHIVE_OK);
    archive_write_open_filename(archive, in_folder("p.tar.gz"));
    add_member(archive, "train.bin", data, bytes);
    end_archive(archive);
    free(data);
    struct stat info;
    assert_int_equal(stat(in_folder("p.tar.gz"), &info), 0);
    const size_t back = (size_t)info.st_size / 2; /* within the record */
    change_byte(in_folder("p.tar.gz"), in_folder("q.tar.gz"), back, 1);
    check_fails(in_folder("q.tar.gz"), LS_ERR_FORMAT, "q.tar.gz'",
                "incorrect data check");
    change_byte(in_folder("p.tar.gz"), in_folder("q.tar.gz"), back, 0);
    ls_dataset *dataset = NULL;
    assert_int_equal(ls_dataset_new_cifar100(&dataset, in_folder("q.tar.gz"),
                                             LS_SUBSET_TRAIN),
                     LS_OK);
    ls_dataset_free(&dataset);
}

/* Their filters compare checksums at the end of a block or stream. */
static void test_checksums_of_others(void **state)
{
    (void)state;
    write_archive(in_folder("t.tar.xz"), ARCHIVE_FILTER_XZ);
    write_archive(in_folder("t.tar.bz2"), ARCHIVE_FILTER_BZIP2);
    check_opens(in_folder("t.tar.xz"));
    check_opens(in_folder("t.tar.bz2"));
    for (size_t back = 1; back <= 40; back++) {
        change_byte(in_folder("t.tar.xz"), in_folder("x.tar.xz"), back, 1);
        check_fails(in_folder("x.tar.xz"), LS_ERR_FORMAT, "x.tar.xz'", "byte");
    }
    /* The last byte of bzip2 may have bits that are not used. */
    for (size_t back = 2; back <= 40; back++) {
        change_byte(in_folder("t.tar.bz2"), in_folder("x.tar.bz2"), back, 1);
        check_fails(in_folder("x.tar.bz2"), LS_ERR_FORMAT, "x.tar.bz2'",
                    "byte");
    }
}

static void test_indices_are_checked(void **state)
{
    (void)state;
    ls_dataset *dataset = NULL;
    write_records(in_folder("test.bin"), N_TEST);
    assert_int_equal(ls_dataset_new_cifar100(&dataset, folder, LS_SUBSET_TEST),
                     LS_OK);
    static float images[2 * LSI_IMAGE_BYTES];
    int64_t labels[2] = {-1, -1};
    const int64_t bad[][2] = {{0, N_TEST}, {0, -1}};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(
            ls_dataset_read(dataset, 0, bad[i], 2, (void *[]){images, labels}),
            LS_ERR_ARGUMENT);
        assert_int_equal(labels[0], -1);
        assert_non_null(strstr(ls_last_error(), "items 0 to 4"));
    }
    assert_int_equal(ls_dataset_read(dataset, 0, NULL, 0, NULL), LS_OK);
    ls_dataset_free(&dataset);
    ls_dataset_free(&dataset);
    ls_dataset_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folder),
        cmocka_unit_test(test_folder_around_it),
        cmocka_unit_test(test_archives),
        cmocka_unit_test(test_memory_is_counted),
        cmocka_unit_test(test_missing_paths),
        cmocka_unit_test(test_no_such_split),
        cmocka_unit_test(test_bad_labels),
        cmocka_unit_test(test_bad_sizes),
        cmocka_unit_test(test_a_lone_file_is_not_enough),
        cmocka_unit_test(test_archive_without_the_file),
        cmocka_unit_test(test_archive_with_bad_records),
        cmocka_unit_test(test_damaged_archives),
        cmocka_unit_test(test_trailer_of_gzip),
        cmocka_unit_test(test_pixel_in_gzip),
        cmocka_unit_test(test_checksums_of_others),
        cmocka_unit_test(test_indices_are_checked),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
