/*
 * Packed files of two members: whole, with a bit flipped, cut off, and followed
 * by bytes that do not belong there.
 */
#include "input/data/unpack.h"
#include "unit/data/own_files.h"

static const char text[] = "the first member\n";
enum { TEXT = sizeof(text) - 1, ROOM = 512 };

/* As gzip, zstd, xz and bzip2 write the text. */
static const uint8_t gzip_file[] = {
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03,
    0x2b, 0xc9, 0x48, 0x55, 0x48, 0xcb, 0x2c, 0x2a, 0x2e, 0x51,
    0xc8, 0x4d, 0xcd, 0x4d, 0x4a, 0x2d, 0xe2, 0x02, 0x00, 0x5c,
    0x3b, 0x2d, 0x2d, 0x11, 0x00, 0x00, 0x00};
static const uint8_t zstd_file[] = {
    0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0x89, 0x00, 0x00, 0x74,
    0x68, 0x65, 0x20, 0x66, 0x69, 0x72, 0x73, 0x74, 0x20, 0x6d,
    0x65, 0x6d, 0x62, 0x65, 0x72, 0x0a, 0x67, 0xa1, 0xd1, 0xab};
static const uint8_t xz_file[] = {
    0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x04, 0xe6, 0xd6, 0xb4,
    0x46, 0x02, 0x00, 0x21, 0x01, 0x16, 0x00, 0x00, 0x00, 0x74, 0x2f,
    0xe5, 0xa3, 0x01, 0x00, 0x10, 0x74, 0x68, 0x65, 0x20, 0x66, 0x69,
    0x72, 0x73, 0x74, 0x20, 0x6d, 0x65, 0x6d, 0x62, 0x65, 0x72, 0x0a,
    0x00, 0x00, 0x00, 0x00, 0xc5, 0xa9, 0xde, 0xc5, 0x5e, 0x0e, 0x8d,
    0x8f, 0x00, 0x01, 0x29, 0x11, 0x32, 0x0a, 0x70, 0x0e, 0x1f, 0xb6,
    0xf3, 0x7d, 0x01, 0x00, 0x00, 0x00, 0x00, 0x04, 0x59, 0x5a};
static const uint8_t bzip2_file[] = {
    0x42, 0x5a, 0x68, 0x39, 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, 0x9d,
    0x07, 0xce, 0x59, 0x00, 0x00, 0x08, 0x51, 0x80, 0x00, 0x10, 0x40,
    0x00, 0x13, 0x62, 0x1c, 0x00, 0x20, 0x00, 0x31, 0x00, 0xd3, 0x4d,
    0x04, 0x34, 0x06, 0x9a, 0x1a, 0x5c, 0x46, 0xed, 0x1c, 0x91, 0xc5,
    0x2f, 0x17, 0x72, 0x45, 0x38, 0x50, 0x90, 0x9d, 0x07, 0xce, 0x59};

typedef struct kind {
    const char *name;
    const uint8_t *data;
    size_t bytes;
    bool needs_libarchive;
    bool zeros;   /* may follow the last member */
    size_t loose; /* bits after the first 10 bytes that change nothing */
} kind;

/*
 * Of gzip: the flag "text", time, level and system of the second member, and 6
 * bits that pad each member's last byte of codes. Of zstd: an unused bit, and
 * how much memory a frame may take. Of bzip2: lengths of codes that the text
 * does not need.
 */
static const kind kinds[] = {
    {"t.gz", gzip_file, sizeof gzip_file, false, true, 1 + 6 * 8 + 2 * 6},
    {"t.zst", zstd_file, sizeof zstd_file, true, false, 1 + 7},
    {"t.xz", xz_file, sizeof xz_file, true, true, 0},
    {"t.bz2", bzip2_file, sizeof bzip2_file, true, true, 2 * 18}};

static bool is_readable(const kind *k)
{
#ifdef LOCKSTEP_TEST_LIBARCHIVE
    (void)k;
    return true;
#else
    return !k->needs_libarchive;
#endif
}

/* Two members and `zeros` zeros; returns the number of bytes. */
static size_t two_members(const kind *k, size_t zeros, uint8_t out[ROOM])
{
    memset(out, 0, ROOM);
    memcpy(out, k->data, k->bytes);
    memcpy(out + k->bytes, k->data, k->bytes);
    return 2 * k->bytes + zeros;
}

/* Whether the file is read; then it holds the text `times` times. */
static bool reads(const kind *k, uint8_t *data, size_t bytes, size_t times)
{
    const lsi_records packed = {.data = data, .bytes = bytes};
    static uint8_t got[1 << 16];
    size_t n = 0;
    lsi_unpacker u;
    ls_status status = lsi_unpacker_open(&u, &packed, k->name);
    if (status == LS_OK) {
        status = lsi_unpacker_read(&u, got, sizeof got, &n);
        lsi_unpacker_close(&u);
    }
    if (status != LS_OK) {
        assert_int_equal(status, LS_ERR_FORMAT);
        assert_non_null(strstr(ls_last_error(), k->name));
        return false;
    }
    assert_int_equal(n, times * TEXT);
    for (size_t i = 0; i < times; i++)
        assert_memory_equal(got + i * TEXT, text, TEXT);
    return true;
}

static void test_members(void **state)
{
    (void)state;
    uint8_t file[ROOM];
    for (const kind *k = kinds; k < kinds + TEST_COUNT(kinds); k++) {
        if (!is_readable(k))
            continue;
        size_t bytes = two_members(k, 0, file);
        assert_true(reads(k, file, k->bytes, 1));
        assert_true(reads(k, file, bytes, 2));
        bytes = two_members(k, 32, file);
        assert_int_equal(reads(k, file, bytes, 2), k->zeros);
    }
}

/* Refused, or the same text. */
static void test_flipped_bits(void **state)
{
    (void)state;
    enum { MAGIC = 10 };
    uint8_t file[ROOM];
    for (const kind *k = kinds; k < kinds + TEST_COUNT(kinds); k++) {
        size_t read = 0;
        if (!is_readable(k))
            continue;
        const size_t bytes = two_members(k, 0, file);
        for (size_t i = 8 * (size_t)MAGIC; i < 8 * bytes; i++) {
            file[i / 8] ^= (uint8_t)(1U << i % 8);
            read += reads(k, file, bytes, 2);
            file[i / 8] ^= (uint8_t)(1U << i % 8);
        }
        assert_true(read <= k->loose);
    }
}

static void test_cut_off(void **state)
{
    (void)state;
    uint8_t file[ROOM];
    for (const kind *k = kinds; k < kinds + TEST_COUNT(kinds); k++) {
        if (!is_readable(k))
            continue;
        const size_t bytes = two_members(k, 0, file);
        for (size_t n = 16; n < bytes; n++)
            assert_true(n == k->bytes || !reads(k, file, n, 2));
    }
}

/* One byte other than zero, next to the last member and after zeros. */
static void test_bytes_after_the_end(void **state)
{
    (void)state;
    static const uint8_t values[] = {1, '\n', ' ', 0x1f, 'B', 0x28, 0x80, 0xfd};
    uint8_t file[ROOM];
    for (const kind *k = kinds; k < kinds + TEST_COUNT(kinds); k++) {
        if (!is_readable(k))
            continue;
        for (size_t zeros = 0; zeros <= 32; zeros += 8)
            for (size_t i = 0; i < sizeof values; i++) {
                const size_t bytes = two_members(k, zeros, file);
                file[bytes] = values[i];
                assert_false(reads(k, file, bytes + 1, 2));
            }
    }
}

/* The error says where. */
static void test_offset(void **state)
{
    (void)state;
    uint8_t file[ROOM];
    lsi_records got;
    const size_t bytes = two_members(&kinds[0], 0, file);
    file[kinds[0].bytes] ^= 1;
    write_file("t.gz", file, bytes);
    assert_error(lsi_records_load(&got, in_root("t.gz")), LS_ERR_FORMAT,
                 "t.gz' is damaged at byte 37 of 74: the compressed data "
                 "ends at byte 37, and only zeros or more compressed data");
    file[kinds[0].bytes] ^= 1;
    file[2 * kinds[0].bytes - 8] ^= 1;
    write_file("t.gz", file, bytes);
    assert_error(lsi_records_load(&got, in_root("t.gz")), LS_ERR_FORMAT,
                 "of 74 (17 bytes unpacked so far): incorrect data check");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_flipped_bits),
        cmocka_unit_test(test_cut_off),
        cmocka_unit_test(test_bytes_after_the_end),
        cmocka_unit_test(test_offset),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
