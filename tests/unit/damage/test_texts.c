/*
 * Tokenizers, files of tokens and tables under damage. None has a checksum.
 * Names, numbers and the lines of a text may change; but not the
 * size that a file states.
 */
#define DAMAGE_TEXTS
#include "damage.h"
#include "damage_files.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "input/text/tokenizer.h"
#include "lockstep/data.h"

/* ---- tokenizers ---------------------------------------------------------- */

static const char text[] = "hello <|endoftext|> hell, \xc3\xa9 123";

/* Every id that a tokenizer gives decodes. */
static void use(const ls_tokenizer *t, damage_seen *seen)
{
    int64_t *ids = NULL;
    size_t n = 0;
    char *back = NULL;
    size_t bytes = 0;
    if (ls_tokenizer_encode(t, text, sizeof text - 1, LS_TOKENIZER_SPECIAL,
                            &ids, &n) != LS_OK)
        return; /* a character that is in the vocabulary no more */
    for (size_t i = 0; i < n; i++)
        assert_in_range(ids[i], 0, ls_tokenizer_vocabulary(t) - 1);
    assert_ok(
        ls_tokenizer_decode(t, ids, n, LS_TOKENIZER_PLAIN, &back, &bytes));
    seen->values = damage_digest(LSI_HASH_START, back, bytes);
    ls_free(back);
    ls_free(ids);
}

/* The tokens that are there; numbers between them may be left out. */
static size_t count_tokens(const ls_tokenizer *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->vocabulary.n; i++)
        n += (t->vocabulary.tokens[i].flags & LSI_TOKEN_THERE) != 0;
    return n;
}

static ls_status read_tokenizer(const char *path, damage_seen *seen)
{
    ls_tokenizer *t = NULL;
    const ls_status status = ls_tokenizer_open(&t, path);
    if (status != LS_OK)
        return status;
    snprintf(seen->shape, sizeof seen->shape, "%zu tokens", count_tokens(t));
    use(t, seen);
    ls_tokenizer_close(&t);
    return LS_OK;
}

static void tokenizer(void **state)
{
    (void)state;
    const damage_case c = {.format = "tokenizer.json",
                           .path = damage_path("tokenizer.json"),
                           .data = tokenizer_file,
                           .bytes = sizeof tokenizer_file,
                           .read = read_tokenizer,
                           .flips = {.usual = DAMAGE_SHAPE}};
    damage_check(&c);
}

static void vocabulary(void **state)
{
    (void)state;
    damage_write(damage_path("merges.txt"), merges_file, sizeof merges_file);
    const damage_case c = {.format = "vocab.json",
                           .path = damage_path("vocab.json"),
                           .data = vocabulary_file,
                           .bytes = sizeof vocabulary_file,
                           .read = read_tokenizer,
                           .flips = {.usual = DAMAGE_SHAPE}};
    damage_check(&c);
}

/* Lines that are missing at the end are missing merges. */
static void merges(void **state)
{
    (void)state;
    damage_write(damage_path("vocab.json"), vocabulary_file,
                 sizeof vocabulary_file);
    const damage_case c = {.format = "merges.txt",
                           .path = damage_path("merges.txt"),
                           .data = merges_file,
                           .bytes = sizeof merges_file,
                           .read = read_tokenizer,
                           .flips = {.usual = DAMAGE_SHAPE},
                           .cuts = {.usual = DAMAGE_SHAPE}};
    damage_check(&c);
}

/* ---- tokens -------------------------------------------------------------- */

enum { HEADER_WORDS = 256, TOKENS = 5 };

static ls_status read_tokens(const char *path, damage_seen *seen)
{
    ls_tokens *tokens = NULL;
    int64_t ids[4096];
    const ls_status status = ls_tokens_new(&tokens, path, LS_TOKENS_BY_NAME);
    if (status != LS_OK)
        return status;
    const int64_t n = ls_tokens_count(tokens);
    assert_in_range(n, 0, TEST_COUNT(ids));
    assert_ok(ls_tokens_read(tokens, 0, ids, n));
    seen->values = damage_digest(LSI_HASH_START, ids, (size_t)n * sizeof *ids);
    snprintf(seen->shape, sizeof seen->shape, "%lld tokens", (long long)n);
    ls_tokens_free(&tokens);
    return LS_OK;
}

static void check_shard(const char *format, uint32_t magic, uint32_t version,
                        size_t width)
{
    const size_t header = HEADER_WORDS * sizeof(uint32_t);
    const size_t bytes = header + TOKENS * width;
    uint8_t *data = calloc(1, bytes);
    const uint32_t words[] = {magic, version, TOKENS};
    memcpy(data, words, sizeof words);
    for (size_t i = 0; i < TOKENS; i++)
        data[header + i * width] = (uint8_t)(200 + i);
    const damage_case c = {.format = format,
                           .path = damage_path("tokens.bin"),
                           .data = data,
                           .bytes = bytes,
                           .read = read_tokens,
                           .flips = {.usual = DAMAGE_SHAPE}};
    damage_check(&c);
    free(data);
}

static void llmc_u16(void **state)
{
    (void)state;
    check_shard("tokens of llm.c, u16", 20240520, 1, 2);
}

static void llmc_u32(void **state)
{
    (void)state;
    check_shard("tokens of llm.c, u32", 20240801, 7, 4);
}

/* Raw tokens have no header: only half a token shows that they were cut. */
static void raw_tokens(void **state)
{
    (void)state;
    static const uint8_t data[2 * TOKENS] = {1, 0, 2, 1, 3, 2, 4, 3, 5, 255};
    const damage_range cuts[] = {
        {0, 1, DAMAGE_ANY}, {2, 3, DAMAGE_ANY}, {4, 5, DAMAGE_ANY},
        {6, 7, DAMAGE_ANY}, {8, 9, DAMAGE_ANY},
    };
    const damage_case c = {.format = "raw tokens, u16",
                           .path = damage_path("tokens.u16"),
                           .data = data,
                           .bytes = sizeof data,
                           .read = read_tokens,
                           .flips = {.usual = DAMAGE_SHAPE},
                           .cuts = {DAMAGE_REFUSED, cuts, TEST_COUNT(cuts)},
                           .junk = DAMAGE_ANY,
                           .zeros = DAMAGE_ANY};
    damage_check(&c);
}

/* ---- tables -------------------------------------------------------------- */

static ls_csv_options options;

/*
 * The columns of a table may not change. Its rows may in number where the
 * reader guesses whether the first one is data.
 */
static ls_status read_table(const char *path, damage_seen *seen)
{
    ls_dataset *set = NULL;
    float features[8];
    int64_t label = 0;
    void *const fields[] = {features, &label};
    const ls_status status = ls_dataset_new_csv(&set, path, "last", &options);
    if (status != LS_OK)
        return status;
    const int64_t columns = ls_dataset_field(set, 0)->shape[0];
    const int64_t rows = ls_dataset_count(set);
    assert_in_range(columns, 1, TEST_COUNT(features));
    for (int64_t i = 0; i < rows; i++) {
        assert_ok(ls_dataset_read(set, 0, &i, 1, fields));
        seen->values = damage_digest(seen->values + (uint64_t)label, features,
                                     (size_t)columns * sizeof *features);
    }
    snprintf(seen->shape, sizeof seen->shape, "%lld columns, %zu fields, %lld",
             (long long)columns, ls_dataset_field_count(set),
             options.header == LS_CSV_AUTO ? 0 : (long long)rows);
    ls_dataset_free(&set);
    return LS_OK;
}

static void check_table(const char *format, ls_csv_header header,
                        const uint8_t *data, size_t bytes)
{
    const damage_case c = {.format = format,
                           .path = damage_path("table.csv"),
                           .data = data,
                           .bytes = bytes,
                           .read = read_table,
                           .flips = {.usual = DAMAGE_SHAPE},
                           .cuts = {.usual = DAMAGE_ANY},
                           .junk = DAMAGE_ANY};
    options.header = header;
    damage_check(&c);
}

static void csv(void **state)
{
    (void)state;
    check_table("CSV with names", LS_CSV_HEADER, csv_file, sizeof csv_file);
    check_table("CSV with names, guessed", LS_CSV_AUTO, csv_file,
                sizeof csv_file);
}

static void csv_plain(void **state)
{
    (void)state;
    check_table("CSV without names", LS_CSV_NO_HEADER, csv_plain_file,
                sizeof csv_plain_file);
    check_table("CSV without names, guessed", LS_CSV_AUTO, csv_plain_file,
                sizeof csv_plain_file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokenizer), cmocka_unit_test(vocabulary),
        cmocka_unit_test(merges),    cmocka_unit_test(llmc_u16),
        cmocka_unit_test(llmc_u32),  cmocka_unit_test(raw_tokens),
        cmocka_unit_test(csv),       cmocka_unit_test(csv_plain),
    };
    return cmocka_run_group_tests(tests, damage_begin, damage_end);
}
