/*
 * Packed files and archives under damage: gzip of one and of three members, xz,
 * bzip2, zstd, and tar archives inside gzip and zstd. Each has a checksum of
 * its contents, so that what is accepted is what was packed. Bits that no
 * content comes from (a time in a header, the rest of a last byte) may change.
 * A file cut within its magic number counts as a text. Zeros may follow all but
 * zstd.
 */
#define DAMAGE_PACKED
#define DAMAGE_ARCHIVES
#include "damage.h"
#include "damage_files.h"

#include <archive.h>
#include <archive_entry.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "input/data/dataset.h"
#include "input/data/unpack.h"

enum {
    WINDOW = 160 << 20
}; /* zstd's largest, 128 MiB, and what is around it */

static ls_status read_text(const char *path, damage_seen *seen)
{
    ls_tokens *tokens = NULL;
    int64_t ids[256];
    const ls_status status = ls_tokens_new(&tokens, path, LS_TOKENS_BY_NAME);
    if (status != LS_OK)
        return status;
    const int64_t n = ls_tokens_count(tokens);
    assert_in_range(n, 0, TEST_COUNT(ids));
    assert_ok(ls_tokens_read(tokens, 0, ids, n));
    seen->values = damage_digest(LSI_HASH_START, ids, (size_t)n * sizeof *ids);
    snprintf(seen->shape, sizeof seen->shape, "%lld bytes", (long long)n);
    ls_tokens_free(&tokens);
    return LS_OK;
}

static ls_status read_images(const char *path, damage_seen *seen)
{
    ls_dataset *set = NULL;
    static float image[LSI_IMAGE_BYTES];
    int64_t label = 0;
    const int64_t first = 0;
    void *const fields[] = {image, &label};
    const ls_status status =
        ls_dataset_new_cifar100(&set, path, LS_SUBSET_TEST);
    if (status != LS_OK)
        return status;
    assert_ok(ls_dataset_read(set, 0, &first, 1, fields));
    seen->values = damage_digest((uint64_t)label, image, sizeof image);
    snprintf(seen->shape, sizeof seen->shape, "%lld images",
             (long long)ls_dataset_count(set));
    ls_dataset_free(&set);
    return LS_OK;
}

#define RULES(rule, ranges)                                                    \
    {                                                                          \
        rule, ranges, TEST_COUNT(ranges)                                       \
    }

/* One record for testing, without more blocks than the format needs. */
static void write_tar(const char *path)
{
    uint8_t record[LSI_RECORD_BYTES] = {3, 7};
    struct archive *const a = archive_write_new();
    struct archive_entry *const entry = archive_entry_new();
    archive_write_set_format_ustar(a);
    archive_write_set_bytes_in_last_block(a, 1);
    assert_int_equal(archive_write_open_filename(a, path), ARCHIVE_OK);
    archive_entry_set_pathname(entry, "cifar-100-binary/test.bin");
    archive_entry_set_size(entry, sizeof record);
    archive_entry_set_filetype(entry, AE_IFREG);
    assert_int_equal(archive_write_header(a, entry), ARCHIVE_OK);
    assert_int_equal(archive_write_data(a, record, sizeof record),
                     sizeof record);
    archive_entry_free(entry);
    archive_write_free(a);
}

static void gzip_one(void **state)
{
    (void)state;
    const damage_case c = {.format = "gzip",
                           .path = damage_path("one.txt.gz"),
                           .data = gzip_one_file,
                           .bytes = sizeof gzip_one_file,
                           .read = read_text,
                           .flips = RULES(DAMAGE_VALUES, gzip_one_flips),
                           .cuts = RULES(DAMAGE_REFUSED, gzip_one_cuts),
                           .zeros = DAMAGE_VALUES};
    damage_check(&c);
}

/* A cut between two members cannot be told from a shorter file. */
static void gzip_three(void **state)
{
    (void)state;
    const damage_case c = {.format = "gzip of three members",
                           .path = damage_path("three.txt.gz"),
                           .data = gzip_three_file,
                           .bytes = sizeof gzip_three_file,
                           .read = read_text,
                           .flips = RULES(DAMAGE_VALUES, gzip_three_flips),
                           .cuts = RULES(DAMAGE_REFUSED, gzip_three_cuts),
                           .zeros = DAMAGE_VALUES};
    damage_check(&c);
}

static void xz(void **state)
{
    (void)state;
    const damage_case c = {.format = "xz",
                           .path = damage_path("a.txt.xz"),
                           .data = xz_file,
                           .bytes = sizeof xz_file,
                           .read = read_text,
                           .flips = {.usual = DAMAGE_REFUSED},
                           .zeros = DAMAGE_VALUES};
    damage_check(&c);
}

static void bzip2(void **state)
{
    (void)state;
    const damage_case c = {.format = "bzip2",
                           .path = damage_path("a.txt.bz2"),
                           .data = bzip2_file,
                           .bytes = sizeof bzip2_file,
                           .read = read_text,
                           .flips = {.usual = DAMAGE_VALUES},
                           .cuts = RULES(DAMAGE_REFUSED, bzip2_cuts),
                           .zeros = DAMAGE_VALUES};
    damage_check(&c);
}

static void zstd(void **state)
{
    (void)state;
    const damage_case c = {.format = "zstd",
                           .path = damage_path("a.txt.zst"),
                           .data = zstd_file,
                           .bytes = sizeof zstd_file,
                           .read = read_text,
                           .flips = RULES(DAMAGE_VALUES, zstd_flips),
                           .cuts = RULES(DAMAGE_REFUSED, zstd_cuts),
                           .memory = WINDOW};
    damage_check(&c);
}

static void tar_gzip(void **state)
{
    (void)state;
    const damage_case c = {.format = "tar.gz",
                           .path = damage_path("cifar.tar.gz"),
                           .data = tar_gzip_file,
                           .bytes = sizeof tar_gzip_file,
                           .read = read_images,
                           .flips = RULES(DAMAGE_VALUES, tar_gzip_flips),
                           .zeros = DAMAGE_VALUES};
    damage_check(&c);
}

static void tar_zstd(void **state)
{
    (void)state;
    const damage_case c = {.format = "tar.zst",
                           .path = damage_path("cifar.tar.zst"),
                           .data = tar_zstd_file,
                           .bytes = sizeof tar_zstd_file,
                           .read = read_images,
                           .flips = RULES(DAMAGE_VALUES, tar_zstd_flips),
                           .memory = WINDOW};
    damage_check(&c);
}

/*
 * A tar archive that is not packed. The sum of a header covers the header; the
 * contents have none, so that pixels and labels may change. Data after a file
 * are not read.
 */
static void tar(void **state)
{
    (void)state;
    enum {
        SUM = 148,
        HEADER = 512,
        END = HEADER + LSI_RECORD_BYTES,
        SOME = 64
    };
    const damage_range flips[] = {
        {SUM, SUM + 8, DAMAGE_VALUES}, /* blanks */
        {0, HEADER, DAMAGE_REFUSED},
        {HEADER, HEADER + SOME, DAMAGE_SHAPE},
        {HEADER + SOME, END, DAMAGE_UNTRIED}, /* pixels */
    };
    const damage_range cuts[] = {{0, END, DAMAGE_REFUSED}};
    size_t bytes = 0;
    write_tar(damage_path("whole.tar"));
    uint8_t *const data = damage_read(damage_path("whole.tar"), &bytes);
    const damage_case c = {.format = "tar",
                           .path = damage_path("cifar.tar"),
                           .data = data,
                           .bytes = bytes,
                           .read = read_images,
                           .flips = RULES(DAMAGE_VALUES, flips),
                           .cuts = RULES(DAMAGE_VALUES, cuts),
                           .junk = DAMAGE_VALUES,
                           .zeros = DAMAGE_VALUES};
    damage_check(&c);
    free(data);
}

/* Records of CIFAR-100 as they are: a length, and labels within their range. */
static void records(void **state)
{
    (void)state;
    static const uint8_t record[LSI_RECORD_BYTES] = {3, 7};
    const damage_range pixels[] = {{64, sizeof record, DAMAGE_UNTRIED}};
    assert_int_equal(mkdir(damage_path("cifar"), 0700), 0);
    const damage_case c = {.format = "records of CIFAR-100",
                           .path = damage_path("cifar/test.bin"),
                           .opened = damage_path("cifar"),
                           .data = record,
                           .bytes = sizeof record,
                           .read = read_images,
                           .flips = RULES(DAMAGE_SHAPE, pixels)};
    damage_check(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gzip_one), cmocka_unit_test(gzip_three),
        cmocka_unit_test(xz),       cmocka_unit_test(bzip2),
        cmocka_unit_test(zstd),     cmocka_unit_test(tar_gzip),
        cmocka_unit_test(tar_zstd), cmocka_unit_test(tar),
        cmocka_unit_test(records),
    };
    return cmocka_run_group_tests(tests, damage_begin, damage_end);
}
