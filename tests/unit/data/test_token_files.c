/* The recognised kinds of token files, and sequences of several files. */
#include <zlib.h>

#include "lockstep/data.h"

#include "unit/data/own_files.h"

static ls_tokens *open_tokens(const char *name, ls_token_format format)
{
    ls_tokens *tokens = NULL;
    assert_ok(ls_tokens_new(&tokens, in_root(name), format));
    return tokens;
}

static void expect(const char *name, ls_token_format format,
                   const int64_t *want, int64_t n)
{
    ls_tokens *tokens = open_tokens(name, format);
    int64_t got[16];
    assert_int_equal(ls_tokens_count(tokens), n);
    assert_ok(ls_tokens_read(tokens, 0, got, n));
    assert_memory_equal(got, want, (size_t)n * sizeof(int64_t));
    ls_tokens_free(&tokens);
}

static void refuse(const char *name, ls_token_format format, ls_status status,
                   const char *part)
{
    ls_tokens *tokens = NULL;
    assert_error(ls_tokens_new(&tokens, in_root(name), format), status, part);
    assert_null(tokens);
}

/* ---- text ---------------------------------------------------------------- */

static void is_text(const char *text, size_t bytes, bool right)
{
    char name[] = "text";
    write_file(name, text, bytes);
    if (right) {
        ls_tokens *tokens = open_tokens(name, LS_TOKENS_BY_NAME);
        assert_int_equal(ls_tokens_count(tokens), bytes);
        assert_true(ls_tokens_are_bytes(tokens));
        ls_tokens_free(&tokens);
    } else {
        refuse(name, LS_TOKENS_BY_NAME, LS_ERR_FORMAT, "text' is not text: ");
        refuse(name, LS_TOKENS_TEXT, LS_ERR_FORMAT, "--format bytes");
    }
    ls_tokens *tokens = open_tokens(name, LS_TOKENS_BYTES);
    assert_int_equal(ls_tokens_count(tokens), bytes);
    ls_tokens_free(&tokens);
}

#define TEXT(text)    is_text(text, sizeof(text) - 1, true)
#define NO_TEXT(text) is_text(text, sizeof(text) - 1, false)

static void test_utf8(void **state)
{
    (void)state;
    TEXT("plain, and more than eight of it\r\n\t\x7f");
    TEXT("\xef\xbb\xbfwith a mark");
    TEXT("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 na\xc3\xafve, and so on");
    TEXT("\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80"
         "\x80\xf4\x8f\xbf\xbf");
    TEXT("cut off \xe2\x82");
    TEXT("cut off \xf0");
    NO_TEXT("a zero\0behind some letters");
    NO_TEXT("12345678\0");
    NO_TEXT("latin caf\xe9 is none");
    NO_TEXT("\x80");
    NO_TEXT("\xc0\x80");
    NO_TEXT("\xc1\xbf");
    NO_TEXT("\xe0\x9f\xbf");
    NO_TEXT("\xed\xa0\x80");
    NO_TEXT("\xf0\x8f\xbf\xbf");
    NO_TEXT("\xf4\x90\x80\x80");
    NO_TEXT("\xf5\x80\x80\x80");
    NO_TEXT("\xe2\x82 \xac");
    NO_TEXT("\xff\xfe");
}

/* ---- other kinds --------------------------------------------------------- */

static void write_npy(const char *name, const char *descr, const char *shape,
                      const void *data, size_t bytes)
{
    enum { LENGTH = 118 };
    uint8_t file[10 + LENGTH + 64];
    memset(file, ' ', sizeof file);
    memcpy(file, "\x93NUMPY\x01\x00\x76\x00", 10);
    const int n = snprintf((char *)file + 10, LENGTH,
                           "{'descr': '%s', 'fortran_order': False, "
                           "'shape': %s, }",
                           descr, shape);
    file[10 + n] = ' ';
    file[10 + LENGTH - 1] = '\n';
    memcpy(file + 10 + LENGTH, data, bytes);
    write_file(name, file, 10 + LENGTH + bytes);
}

static void test_arrays(void **state)
{
    (void)state;
    static const int64_t want[] = {7, 50256, 3};
    static const uint16_t halves[] = {7, 50256, 3};
    static const int32_t words[] = {7, 50256, 3}, negative[] = {1, -2};
    write_npy("a.npy", "<u2", "(3,)", halves, sizeof halves);
    expect("a.npy", LS_TOKENS_BY_NAME, want, 3);
    write_npy("a.anything", "<i4", "(3,)", words, sizeof words);
    expect("a.anything", LS_TOKENS_BY_NAME, want, 3);
    expect("a.anything", LS_TOKENS_NPY, want, 3);
    write_npy("a.npy", "<i8", "(3,)", want, sizeof want);
    expect("a.npy", LS_TOKENS_BY_NAME, want, 3);
    write_npy("a.npy", "<f4", "(3,)", words, sizeof words);
    refuse("a.npy", LS_TOKENS_BY_NAME, LS_ERR_FORMAT,
           "a.npy' is an array of type f4 with 1 dimensions; tokens must");
    write_npy("a.npy", "<u2", "(1, 3)", halves, sizeof halves);
    refuse("a.npy", LS_TOKENS_BY_NAME, LS_ERR_FORMAT, "with 2 dimensions");
    write_npy("a.npy", "<i4", "(2,)", negative, sizeof negative);
    ls_tokens *tokens = open_tokens("a.npy", LS_TOKENS_BY_NAME);
    assert_ok(ls_tokens_check(tokens, INT64_C(1) << 32));
    assert_error(ls_tokens_check(tokens, 50257), LS_ERR_FORMAT, "token 1 is");
    ls_tokens_free(&tokens);
    write_npy("a.npy", "<i8", "(1,)", (int64_t[]){-1}, 8);
    tokens = open_tokens("a.npy", LS_TOKENS_BY_NAME);
    assert_error(ls_tokens_check(tokens, 50257), LS_ERR_FORMAT,
                 "token 0 is -1, but");
    ls_tokens_free(&tokens);
}

static void test_other_kinds_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *name, *bytes;
        size_t n;
        const char *part;
    } kinds[] = {
        {"a.txt", "PAR1\x15\x04\x15", 7, "a.txt' is a parquet file; tokens"},
        {"b.safetensors", "\x10\0\0\0\0\0\0\0{\"a\":{}}       ", 24,
         "is a safetensors file"},
        {"c", "PK\x03\x04", 4, "is a zip archive"},
        {"d.bin", "\x89PNG\r\n\x1a\n", 8, "is a PNG image"},
        {"e", "\x80\x04\x95\0\0", 5, "is a Python pickle"},
        {"f", "\x89HDF\r\n\x1a\n", 8, "is an HDF5 file"},
        {"g", "\x80\x02\x8a\nl\xfc", 6, "is a Python pickle"},
        {"h", "GGUF\3\0\0\0", 8, "is a GGUF file"},
        {"i", "version https://git-lfs.github.com/spec/v1", 42,
         "is a Git LFS pointer"},
    };
    for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
        write_file(kinds[i].name, kinds[i].bytes, kinds[i].n);
        refuse(kinds[i].name, LS_TOKENS_BY_NAME, LS_ERR_FORMAT, kinds[i].part);
        ls_tokens *tokens = open_tokens(kinds[i].name, LS_TOKENS_BYTES);
        assert_int_equal(ls_tokens_count(tokens), kinds[i].n);
        ls_tokens_free(&tokens);
    }
    /* Raw numbers may look like anything. */
    write_file("g.u16", "PK\x03\x04", 4);
    expect("g.u16", LS_TOKENS_BY_NAME, (int64_t[]){0x4b50, 0x0403}, 2);
}

static void write_gzip(const char *name, const void *data, size_t bytes,
                       const char *mode)
{
    gzFile file = gzopen(in_root(name), mode);
    assert_non_null(file);
    assert_int_equal(gzwrite(file, data, (unsigned)bytes), bytes);
    assert_int_equal(gzclose(file), Z_OK);
}

static void test_packed_files(void **state)
{
    (void)state;
    write_gzip("t.txt.gz", "ab", 2, "wb");
    expect("t.txt.gz", LS_TOKENS_BY_NAME, (int64_t[]){97, 98}, 2);
    write_gzip("t.txt.gz", "cd", 2, "ab"); /* a second member */
    expect("t.txt.gz", LS_TOKENS_BY_NAME, (int64_t[]){97, 98, 99, 100}, 4);
    write_gzip("t.txt.gz", "\0", 1, "wb");
    refuse("t.txt.gz", LS_TOKENS_BY_NAME, LS_ERR_FORMAT, "is not text");
    write_gzip("t.gz", "", 0, "wb");
    refuse("t.gz", LS_TOKENS_BY_NAME, LS_ERR_FORMAT,
           "t.gz' is empty after unpacking");
    write_file("t.gz", "\x1f\x8b\x08\0\0\0\0\0\0\x03", 10);
    refuse("t.gz", LS_TOKENS_BY_NAME, LS_ERR_FORMAT, "the gzip file '");
    char large[200000];
    for (size_t i = 0; i < sizeof large; i++)
        large[i] = (char)('a' + i * i % 26);
    write_gzip("large.gz", large, sizeof large, "wb");
    ls_tokens *tokens = open_tokens("large.gz", LS_TOKENS_BY_NAME);
    assert_int_equal(ls_tokens_count(tokens), sizeof large);
    int64_t last;
    assert_ok(ls_tokens_read(tokens, sizeof large - 1, &last, 1));
    assert_int_equal(last, large[sizeof large - 1]);
    ls_tokens_free(&tokens);
}

/* ---- several files ------------------------------------------------------- */

static void test_several_files(void **state)
{
    (void)state;
    static const uint16_t parts[] = {1, 2, 3, 4, 5, 6, 7};
    static const int64_t want[] = {1, 2, 3, 4, 5, 6, 7};
    make_dir("shards");
    make_dir("shards/more");
    write_file("shards/part-2.u16", parts + 4, 6);
    write_file("shards/part-0.u16", parts, 2);
    write_file("shards/part-1.u16", parts + 1, 6);
    write_file("shards/.hidden", "x", 1);
    expect("shards", LS_TOKENS_BY_NAME, want, 7);
    expect("shards/part-*.u16", LS_TOKENS_BY_NAME, want, 7);
    expect("shards/part-[12].u16", LS_TOKENS_BY_NAME, want + 1, 6);
    ls_tokens *tokens = open_tokens("shards", LS_TOKENS_BY_NAME);
    for (int64_t begin = 0; begin <= 7; begin++)
        for (int64_t n = 0; n <= 7 - begin; n++) {
            int64_t got[8];
            assert_ok(ls_tokens_read(tokens, begin, got, n));
            assert_memory_equal(got, want + begin, (size_t)n * 8);
        }
    assert_error(ls_tokens_check(tokens, 6), LS_ERR_FORMAT,
                 "part-2.u16': token 1 is 6");
    ls_tokens_free(&tokens);
    refuse("shards/none-*.bin", LS_TOKENS_BY_NAME, LS_ERR_IO,
           "no file matches");
    refuse("shards/more", LS_TOKENS_BY_NAME, LS_ERR_IO, "more' holds no files");
    write_file("shards/part-3.txt", "text", 4);
    refuse("shards", LS_TOKENS_BY_NAME, LS_ERR_FORMAT,
           "part-3.txt' together: one holds text");
}

/* Wherever the files are divided, ranks see the same pieces. */
static void test_pieces_of_several_files(void **state)
{
    (void)state;
    char text[100];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('0' + i % 64);
    make_dir("divided");
    write_file("whole.txt", text, sizeof text);
    write_file("divided/a", text, 13);
    write_file("divided/b", text + 13, 1);
    write_file("divided/c", text + 14, sizeof text - 14);
    ls_tokens *whole = open_tokens("whole.txt", LS_TOKENS_BY_NAME);
    ls_tokens *divided = open_tokens("divided", LS_TOKENS_BY_NAME);
    for (uint64_t step = 0; step < 20; step++) {
        const ls_token_batch b = {
            .end = 100, .rows = 3, .length = 20, .seed = 4, .step = step};
        int64_t in[2][60], out[2][60];
        assert_ok(ls_tokens_batch(whole, &b, in[0], out[0]));
        assert_ok(ls_tokens_batch(divided, &b, in[1], out[1]));
        assert_memory_equal(in[0], in[1], sizeof in[0]);
        assert_memory_equal(out[0], out[1], sizeof out[0]);
    }
    ls_tokens_free(&divided);
    ls_tokens_free(&whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_other_kinds_are_named),
        cmocka_unit_test(test_packed_files),
        cmocka_unit_test(test_several_files),
        cmocka_unit_test(test_pieces_of_several_files),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
