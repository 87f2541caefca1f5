/* Sequences of tokens: formats, what is refused, which pieces ranks see. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lockstep/data.h"
#include "testing.h"

static char folder[] = "/tmp/lockstep-tokens-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

typedef struct path {
    char text[64];
} path;

static path write_file(const char *name, const void *data, size_t bytes)
{
    path p;
    snprintf(p.text, sizeof p.text, "%s/%s", folder, name);
    FILE *file = fopen(p.text, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    return p;
}

static void expect_tokens(const char *name, const void *data, size_t bytes,
                          const int64_t *want, int64_t n)
{
    ls_tokens *tokens = NULL;
    const path p = write_file(name, data, bytes);
    assert_ok(ls_tokens_new(&tokens, p.text, LS_TOKENS_BY_NAME));
    assert_int_equal(ls_tokens_count(tokens), n);
    for (int64_t i = 0; i < n; i++) {
        int64_t token;
        assert_ok(ls_tokens_read(tokens, i, &token, 1));
        assert_int_equal(token, want[i]);
    }
    ls_tokens_free(&tokens);
    assert_null(tokens);
    unlink(p.text);
}

static void expect_refused(const char *name, const void *data, size_t bytes,
                           const char *part)
{
    ls_tokens *tokens = NULL;
    const path p = write_file(name, data, bytes);
    assert_error(ls_tokens_new(&tokens, p.text, LS_TOKENS_BY_NAME),
                 LS_ERR_FORMAT, part);
    assert_null(tokens);
    unlink(p.text);
}

/* A file of llm.c with the tokens 7, 50256. */
typedef struct llmc {
    uint32_t header[256];
    uint16_t tokens[2];
} llmc;

static void formats(void **state)
{
    (void)state;
    const int64_t want[] = {7, 50256}, wide[] = {7, 128000}, text[] = {97, 98};
    const uint16_t halves[] = {7, 50256};
    const uint32_t words[] = {7, 128000};
    const llmc small = {{20240520, 1, 2}, {7, 50256}};
    uint32_t large[258] = {20240801, 7, 2};
    large[256] = 7;
    large[257] = 128000;
    expect_tokens("a.txt", "ab", 2, text, 2);
    expect_tokens("a.u16", halves, sizeof halves, want, 2);
    expect_tokens("a.u32", words, sizeof words, wide, 2);
    expect_tokens("a.bin", &small, sizeof small, want, 2);
    expect_tokens("b.bin", large, sizeof large, wide, 2);
}

static void wrong_files_are_refused(void **state)
{
    (void)state;
    const llmc other = {{20240520, 2, 2}, {7, 8}};
    const llmc fewer = {{20240520, 1, 3}, {7, 8}};
    expect_refused("a.u16", "abc", 3, "(3 bytes) is not a multiple");
    expect_refused("a.txt", "", 0, "is empty");
    expect_refused("a.bin", "abc", 3,
                   "3 bytes, but the header alone needs 1024");
    expect_refused("a.bin", &other, sizeof other, "numbers are 20240520 and 2");
    expect_refused("a.bin", &fewer, sizeof fewer,
                   "header promises 3 tokens of 2 bytes");
    ls_tokens *tokens = NULL;
    assert_error(ls_tokens_new(&tokens, "/nowhere/x", LS_TOKENS_TEXT),
                 LS_ERR_IO, "/nowhere/x");
    assert_error(ls_tokens_new(&tokens, "/dev/zero", LS_TOKENS_TEXT), LS_ERR_IO,
                 "not a regular file");
}

static void tokens_are_checked(void **state)
{
    (void)state;
    ls_tokens *tokens = NULL;
    int64_t out[4];
    const path p = write_file("a.txt", "abcd", 4);
    assert_ok(ls_tokens_new(&tokens, p.text, LS_TOKENS_BY_NAME));
    assert_true(ls_tokens_are_bytes(tokens));
    assert_ok(ls_tokens_check(tokens, 101));
    assert_error(ls_tokens_check(tokens, 99), LS_ERR_FORMAT,
                 "token 2 is 99, but the vocabulary has 99");
    assert_ok(ls_tokens_read(tokens, 0, out, 4));
    assert_error(ls_tokens_read(tokens, INT64_MAX, out, SIZE_MAX),
                 LS_ERR_ARGUMENT, "tokens from token 9223372036854775807 on");
    assert_error(ls_tokens_read(tokens, 1, out, SIZE_MAX), LS_ERR_ARGUMENT,
                 "18446744073709551615 tokens from token 1 on");
    assert_error(ls_tokens_read(tokens, 1, out, 4), LS_ERR_ARGUMENT,
                 "4 tokens from token 1 on");
    const ls_token_batch batch = {.end = 4, .rows = 1, .length = 4};
    assert_error(ls_tokens_batch(tokens, &batch, out, out), LS_ERR_ARGUMENT,
                 "4 tokens are too few for sequences of 4");
    ls_tokens_free(&tokens);
    unlink(p.text);
}

/* ---- pieces -------------------------------------------------------------- */

enum { NUMBERS = 1000, LENGTH = 7, ROWS = 4 };

static ls_tokens *numbers(void)
{
    uint16_t data[NUMBERS];
    ls_tokens *tokens = NULL;
    for (int i = 0; i < NUMBERS; i++)
        data[i] = (uint16_t)i;
    const path p = write_file("n.u16", data, sizeof data);
    assert_ok(ls_tokens_new(&tokens, p.text, LS_TOKENS_BY_NAME));
    unlink(p.text);
    return tokens;
}

static void pieces_are_pieces(void **state)
{
    (void)state;
    ls_tokens *tokens = numbers();
    int64_t in[ROWS * LENGTH], out[ROWS * LENGTH];
    int64_t least = NUMBERS, most = 0;
    for (uint64_t step = 0; step < 500; step++) {
        const ls_token_batch batch = {.begin = 100,
                                      .end = 200,
                                      .rows = ROWS,
                                      .length = LENGTH,
                                      .step = step};
        assert_ok(ls_tokens_batch(tokens, &batch, in, out));
        for (int i = 0; i < ROWS * LENGTH; i++) {
            assert_int_equal(out[i], in[i] + 1);
            if (i % LENGTH != 0)
                assert_int_equal(in[i], in[i - 1] + 1);
            least = in[i] < least ? in[i] : least;
            most = out[i] > most ? out[i] : most;
        }
    }
    /* 2,000 draws from 93 places: all are hit but for one case in 10^7. */
    assert_int_equal(least, 100);
    assert_int_equal(most, 199);
    ls_tokens_free(&tokens);
}

static void limits_are_checked(void **state)
{
    (void)state;
    static const int64_t wrong[][2] = {
        {INT64_MIN, INT64_MAX}, {INT64_MIN, 0},        {-1, NUMBERS},
        {0, NUMBERS + 1},       {0, INT64_MAX},        {INT64_MAX, INT64_MIN},
        {NUMBERS, 0},           {INT64_MAX, INT64_MAX}};
    ls_tokens *tokens = numbers();
    int64_t in[LENGTH], out[LENGTH];
    ls_token_batch batch = {.rows = 1, .length = LENGTH};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        batch.begin = wrong[i][0];
        batch.end = wrong[i][1];
        assert_error(ls_tokens_batch(tokens, &batch, in, out), LS_ERR_ARGUMENT,
                     "cannot draw a batch from tokens");
    }
    batch.begin = 0;
    batch.end = NUMBERS;
    batch.length = INT64_MAX;
    assert_error(ls_tokens_batch(tokens, &batch, in, out), LS_ERR_ARGUMENT,
                 "too few for sequences of 9223372036854775807");
    ls_tokens_free(&tokens);
}

/* Two ranks see what one with twice the rows sees; steps and seeds differ. */
static void ranks_share_a_step(void **state)
{
    (void)state;
    ls_tokens *tokens = numbers();
    int64_t whole[ROWS * LENGTH], half[ROWS * LENGTH], unused[ROWS * LENGTH];
    ls_token_batch batch = {
        .end = NUMBERS, .rows = ROWS, .length = LENGTH, .seed = 5, .step = 9};
    assert_ok(ls_tokens_batch(tokens, &batch, whole, unused));
    batch.rows = ROWS / 2;
    for (int rank = 0; rank < 2; rank++) {
        batch.rank = rank;
        assert_ok(ls_tokens_batch(tokens, &batch, half, unused));
        assert_memory_equal(half, whole + rank * ROWS / 2 * LENGTH,
                            ROWS / 2 * LENGTH * sizeof half[0]);
    }
    batch.rank = 0;
    batch.rows = ROWS;
    batch.step = 10;
    assert_ok(ls_tokens_batch(tokens, &batch, half, unused));
    assert_memory_not_equal(half, whole, sizeof half);
    batch.step = 9;
    batch.seed = 6;
    assert_ok(ls_tokens_batch(tokens, &batch, half, unused));
    assert_memory_not_equal(half, whole, sizeof half);
    ls_tokens_free(&tokens);
}

static void the_built_in_text(void **state)
{
    (void)state;
    enum { BYTES = 5000 };
    ls_tokens *a = NULL, *b = NULL;
    static int64_t x[BYTES], y[BYTES];
    assert_ok(ls_tokens_new_builtin(&a, BYTES, 1));
    assert_ok(ls_tokens_new_builtin(&b, BYTES, 1));
    assert_error(ls_tokens_check(a, 10), LS_ERR_FORMAT,
                 "'the built-in text': token 0 is ");
    assert_ok(ls_tokens_read(a, 0, x, BYTES));
    assert_ok(ls_tokens_read(b, 0, y, BYTES));
    assert_memory_equal(x, y, sizeof x);
    ls_tokens_free(&b);
    assert_ok(ls_tokens_new_builtin(&b, BYTES, 2));
    assert_ok(ls_tokens_read(b, 0, y, BYTES));
    assert_memory_not_equal(x, y, sizeof x);
    for (int i = 0; i < BYTES; i++) /* letters, blanks, full stops, commas */
        assert_true((x[i] >= 'a' && x[i] <= 'z') || x[i] == ' ' ||
                    x[i] == '.' || x[i] == ',' || x[i] == '\n');
    assert_error(ls_tokens_new_builtin(&b, 0, 2), LS_ERR_ARGUMENT,
                 "count is 0");
    ls_tokens_free(&a);
    ls_tokens_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(tokens_are_checked),
        cmocka_unit_test(pieces_are_pieces),
        cmocka_unit_test(limits_are_checked),
        cmocka_unit_test(ranks_share_a_step),
        cmocka_unit_test(the_built_in_text),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
