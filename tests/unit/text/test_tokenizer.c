/* Promises of tokenizers apart from the tokens: errors, parts, properties. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "array/compute/threads.h"
#include "input/text/byte_level.h"
#include "input/text/merges.h"
#include "input/text/normalize.h"
#include "input/text/split.h"
#include "input/text/tokenizer.h"
#include "input/text/unicode.h"
#include "lockstep/lockstep.h"
#include "testing.h"

/* ---- files --------------------------------------------------------------- */

static char path[] = "/tmp/lockstep-tokenizer-XXXXXX";

static int make_file(void **state)
{
    (void)state;
    const int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static const char *file_of(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    return path;
}

/* A tokenizer.json with these members and a model of a few tokens. */
#define SMALL(more, model)                                                     \
    "{" more "\"model\": {" model "\"type\": \"BPE\","                         \
    "\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"<e>\": 5},"                  \
    "\"merges\": [\"a b\"]}}"

static void refuses(const char *text, ls_status status, const char *part)
{
    ls_tokenizer *t = NULL;
    assert_error(ls_tokenizer_open(&t, file_of(text)), status, part);
    assert_error(ls_tokenizer_open(&t, path), status, path);
    assert_null(t);
}

static void refuses_what_is_wrong(void **state)
{
    (void)state;
    refuses("", LS_ERR_FORMAT, "is not JSON");
    refuses("[1, 2", LS_ERR_FORMAT, "line 1");
    refuses("{\"a\": 1}", LS_ERR_FORMAT, "no \"model\"");
    refuses("{\"model\": {}}", LS_ERR_FORMAT, "no \"vocab\"");
    refuses("{\"model\": {\"vocab\": {\"a\": -1}, \"merges\": []}}",
            LS_ERR_FORMAT, "id of the token \"a\" is not");
    refuses("{\"model\": {\"vocab\": {\"a\": 1e9}, \"merges\": []}}",
            LS_ERR_FORMAT, "id of the token \"a\" is not");
    refuses("{\"model\": {\"vocab\": {\"a\": 1, \"b\": 1}, \"merges\": []}}",
            LS_ERR_FORMAT, "both have the id 1");
    refuses("{\"model\": {\"vocab\": {\"a\": 1}}}", LS_ERR_FORMAT,
            "no \"merges\" list");
    refuses("{\"model\": {\"vocab\": {\"a\": 1}, \"merges\": [\"a\"]}}",
            LS_ERR_FORMAT, "merge 0 does not consist of two tokens");
    refuses("{\"model\": {\"vocab\": {\"a\": 1}, \"merges\": [\"a a\"]}}",
            LS_ERR_FORMAT, "merge 0 joins \"a\" and \"a\" into \"aa\"");
    refuses(SMALL("", "\"unk_token\": \"u\","), LS_ERR_FORMAT, "unk_token");
    refuses(SMALL("\"added_tokens\": [{\"id\": 1, \"content\": \"x\"}],", ""),
            LS_ERR_FORMAT, "the id 1, but the vocabulary has another");
}

static void refuses_by_name(void **state)
{
    (void)state;
    refuses("{\"model\": {\"type\": \"Unigram\", \"vocab\": []}}",
            LS_ERR_UNSUPPORTED, "\"Unigram\"");
    refuses(SMALL("\"normalizer\": {\"type\": \"NFKC\"},", ""),
            LS_ERR_UNSUPPORTED, "normalizer asks for \"NFKC\"");
    refuses(SMALL("\"pre_tokenizer\": {\"type\": \"Whitespace\"},", ""),
            LS_ERR_UNSUPPORTED, "pre_tokenizer asks for \"Whitespace\"");
    refuses(SMALL("\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": "
                  "{\"Regex\": \"a{1,3}+\"}, \"behavior\": \"Isolated\"},",
                  ""),
            LS_ERR_UNSUPPORTED, "{1,3}+");
    refuses(SMALL("\"post_processor\": {\"type\": \"BertProcessing\"},", ""),
            LS_ERR_UNSUPPORTED, "post_processor asks for \"BertProcessing\"");
    refuses(SMALL("\"decoder\": {\"type\": \"WordPiece\"},", ""),
            LS_ERR_UNSUPPORTED, "decoder asks for \"WordPiece\"");
    refuses(SMALL("\"added_tokena\": [],", ""), LS_ERR_UNSUPPORTED,
            "a key \"added_tokena\"");
    refuses(SMALL("\"truncation\": {\"max_length\": 5},", ""),
            LS_ERR_UNSUPPORTED, "truncation");
    refuses(SMALL("", "\"dropout\": 0.1,"), LS_ERR_UNSUPPORTED, "dropout");
    refuses(SMALL("", "\"end_of_word_suffix\": \"</w>\","), LS_ERR_UNSUPPORTED,
            "end_of_word_suffix");
    refuses(SMALL("\"added_tokens\": [{\"id\": 5, \"content\": \"<e>\","
                  "\"single_word\": true}],",
                  ""),
            LS_ERR_UNSUPPORTED, "\"<e>\" sets single_word");
}

static void refuses_missing_files(void **state)
{
    ls_tokenizer *t = NULL;
    (void)state;
    assert_error(ls_tokenizer_open(&t, "/nowhere/at/all"), LS_ERR_IO,
                 "/nowhere/at/all");
    assert_error(ls_tokenizer_open(&t, "/tmp/.."), LS_ERR_NOT_FOUND,
                 "neither a tokenizer.json nor both");
}

/* ---- properties ---------------------------------------------------------- */

/* Also of a file, as which a model of bytes has it. */
static void bytes_are_their_numbers(void **state)
{
    (void)state;
    static const char text[] = "A dog's 12\r\n\t  \xc3\xbc \xe2\x82\xac\x01";
    const size_t bytes = sizeof text - 1;
    ls_tokenizer *made = NULL, *t = NULL;
    int64_t *ids = NULL;
    size_t n = 0;
    assert_ok(lsi_tokenizer_new_bytes(&made));
    assert_ok(ls_tokenizer_save(made, path));
    assert_ok(ls_tokenizer_open(&t, path));
    assert_true(ls_tokenizer_digest(t) == ls_tokenizer_digest(made));
    assert_int_equal(ls_tokenizer_vocabulary(t), 256);
    assert_int_equal(ls_tokenizer_end(t), -1);
    assert_ok(
        ls_tokenizer_encode(t, text, bytes, LS_TOKENIZER_SPECIAL, &ids, &n));
    assert_int_equal(n, bytes);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(ids[i], (unsigned char)text[i]);
    ls_free(ids);
    for (int b = 0; b < 256; b++) {
        char letter[8] = "";
        (void)lsi_utf8_write(lsi_byte_char((uint8_t)b), (uint8_t *)letter);
        assert_int_equal(ls_tokenizer_id(t, letter), b);
    }
    ls_tokenizer_close(&t);
    ls_tokenizer_close(&made);
}

static void knows_its_tokens(void **state)
{
    ls_tokenizer *t = NULL, *same = NULL, *other = NULL;
    (void)state;
    assert_ok(ls_tokenizer_open(
        &t, file_of(SMALL("\"added_tokens\": [{\"id\": 5, \"content\": "
                          "\"<e>\", \"special\": true}],",
                          ""))));
    assert_int_equal(ls_tokenizer_vocabulary(t), 6);
    assert_int_equal(ls_tokenizer_id(t, "ab"), 2);
    assert_int_equal(ls_tokenizer_id(t, "ba"), -1);
    assert_true(ls_tokenizer_is_special(t, 5));
    assert_false(ls_tokenizer_is_special(t, 2));
    assert_false(ls_tokenizer_is_special(t, 99));
    assert_int_equal(ls_tokenizer_end(t), -1);
    ls_tokenizer_close(&t);
    assert_ok(ls_tokenizer_open(&t, TOKENIZERS "/gpt2.json"));
    assert_ok(ls_tokenizer_open(&same, TOKENIZERS "/gpt2/vocab.json"));
    assert_ok(ls_tokenizer_open(&other, TOKENIZERS "/llama3.json"));
    assert_int_equal(ls_tokenizer_end(t), 0);
    assert_int_equal(ls_tokenizer_end(other), 1);
    assert_true(ls_tokenizer_digest(t) == ls_tokenizer_digest(same));
    assert_true(ls_tokenizer_digest(t) != ls_tokenizer_digest(other));
    ls_tokenizer_close(&other);
    ls_tokenizer_close(&same);
    char made[sizeof path + 8], name[sizeof made + 8];
    snprintf(made, sizeof made, "%s.d", path);
    snprintf(name, sizeof name, "%s/t.json", made);
    assert_ok(ls_tokenizer_save(t, name));
    assert_ok(ls_tokenizer_open(&same, name));
    assert_true(unlink(name) == 0 && rmdir(made) == 0);
    assert_true(ls_tokenizer_digest(t) == ls_tokenizer_digest(same));
    ls_tokenizer_close(&same);
    ls_tokenizer_close(&t);
}

static void refuses_what_is_no_text(void **state)
{
    ls_tokenizer *t = NULL;
    int64_t *ids = NULL;
    size_t n;
    size_t bytes;
    char *text = NULL;
    (void)state;
    assert_ok(ls_tokenizer_open(&t, TOKENIZERS "/gpt2.json"));
    assert_error(
        ls_tokenizer_encode(t, "ab\xff", 3, LS_TOKENIZER_PLAIN, &ids, &n),
        LS_ERR_FORMAT, "byte 2 is 0xff");
    assert_error(
        ls_tokenizer_encode(t, "ab\xe2\x82", 4, LS_TOKENIZER_PLAIN, &ids, &n),
        LS_ERR_FORMAT, "byte 2 is 0xe2");
    assert_error(ls_tokenizer_decode(t, &(int64_t){500}, 1,
                                     LS_TOKENIZER_SPECIAL, &text, &bytes),
                 LS_ERR_ARGUMENT, "no token 500");
    assert_error(ls_tokenizer_decode(t, &(int64_t){-1}, 1, LS_TOKENIZER_SPECIAL,
                                     &text, &bytes),
                 LS_ERR_ARGUMENT, "no token -1");
    ls_tokenizer_close(&t);
}

/* Characters and marks that are one in the normal form; quickly, and not. */
static void brings_text_into_normal_form(void **state)
{
    static const char both[] = "e\xcc\x81 \xe2\x84\xab\xea\xb0\x80";
    ls_tokenizer *t = NULL;
    int64_t *ids = NULL;
    size_t n;
    (void)state;
    if (!lsi_nfc_is_there())
        skip();
    assert_ok(ls_tokenizer_open(
        &t, file_of("{\"normalizer\": {\"type\": \"NFC\"}, \"model\": {"
                    "\"vocab\": {\"\xc3\xa9\": 0, \" \": 1, "
                    "\"\xc3\x85\": 2, \"\xea\xb0\x80\": 3, \"a\": 4},"
                    "\"merges\": []}}")));
    assert_ok(ls_tokenizer_encode(t, both, sizeof both - 1, LS_TOKENIZER_PLAIN,
                                  &ids, &n));
    assert_int_equal(n, 4);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(ids[i], i);
    ls_free(ids);
    assert_ok(
        ls_tokenizer_encode(t, "a\xc3\xa9", 3, LS_TOKENIZER_PLAIN, &ids, &n));
    assert_int_equal(n, 2);
    assert_int_equal(ids[0], 4);
    assert_int_equal(ids[1], 0);
    ls_free(ids);
    ls_tokenizer_close(&t);
}

/* ---- long texts ---------------------------------------------------------- */

/* Words, numbers, marks and special tokens, all of valid UTF-8. */
static char *long_text(size_t bytes, size_t *n)
{
    static const char *const parts[] = {
        "some",  " words",       " and",
        " more", "\n",           "  ",
        "'s",    "12345",        "\xc3\xa9t\xc3\xa9",
        "<s>",   "</s>",         " a",
        "aaa",   "\xe2\x96\x81", "<|endoftext|>",
        "!?\n",  "\t",           "\xe6\x97\xa5\xe6\x9c\xac"};
    uint64_t state = 1;
    char *out = malloc(bytes + 64);
    for (*n = 0; *n < bytes;) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
        const char *part = parts[(state >> 33) % TEST_COUNT(parts)];
        memcpy(out + *n, part, strlen(part));
        *n += strlen(part);
    }
    return out;
}

/* Parts that threads encode give what one gives. */
static void any_number_of_threads(void **state)
{
    static const char *const names[] = {"/gpt2.json", "/llama3.json",
                                        "/llama2.json"};
    const int threads = lsi_threads();
    size_t bytes;
    char *text = long_text(400000, &bytes);
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        char file[256];
        ls_tokenizer *t = NULL;
        int64_t *one = NULL, *more = NULL;
        size_t n, m;
        snprintf(file, sizeof file, "%s%s", TOKENIZERS, names[i]);
        assert_ok(ls_tokenizer_open(&t, file));
        lsi_threads_set(1);
        assert_ok(
            ls_tokenizer_encode(t, text, bytes, LS_TOKENIZER_PLAIN, &one, &n));
        for (int k = 2; k <= 5; k++) {
            lsi_threads_set(k);
            assert_ok(ls_tokenizer_encode(t, text, bytes, LS_TOKENIZER_PLAIN,
                                          &more, &m));
            assert_int_equal(n, m);
            assert_memory_equal(one, more, (size_t)n * sizeof *one);
            ls_free(more);
        }
        ls_free(one);
        ls_tokenizer_close(&t);
    }
    lsi_threads_set(threads);
    free(text);
}

/* ---- merging ------------------------------------------------------------- */

/* The best pair is searched again each time. */
static size_t merge_simply(const lsi_merges *merges, uint32_t *ids, size_t n)
{
    for (;;) {
        const lsi_merge *best = NULL;
        size_t place = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            const lsi_merge *it = lsi_merges_find(merges, ids[i], ids[i + 1]);
            if (it != NULL && (best == NULL || it->rank < best->rank)) {
                best = it;
                place = i;
            }
        }
        if (best == NULL)
            return n;
        ids[place] = best->whole;
        n--;
        memmove(ids + place + 1, ids + place + 2,
                (n - place - 1) * sizeof *ids);
    }
}

/* Words of any length: by looking through all pairs, and by a heap. */
static void merges_as_a_simple_loop(void **state)
{
    enum { TOKENS = 40, LETTERS = 4, LONGEST = 300 };
    uint32_t ids[LONGEST], expected[LONGEST];
    uint64_t seed = 7;
    lsi_merges merges;
    lsi_merge_scratch scratch = {.bytes = 0};
    (void)state;
    assert_ok(lsi_merges_new(&merges, TOKENS));
    for (uint32_t whole = LETTERS; whole < TOKENS; whole++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        const lsi_merge merge = {(uint32_t)(seed >> 33) % whole,
                                 (uint32_t)(seed >> 48) % whole, whole, whole};
        lsi_merges_add(&merges, &merge);
    }
    for (size_t n = 0; n < LONGEST; n++) {
        for (size_t i = 0; i < n; i++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
            ids[i] = expected[i] = (uint32_t)(seed >> 33) % LETTERS;
        }
        size_t left = n;
        assert_ok(lsi_merges_apply(&merges, &scratch, ids, &left));
        assert_int_equal(left, merge_simply(&merges, expected, n));
        assert_memory_equal(ids, expected, left * sizeof *ids);
    }
    lsi_merge_scratch_free(&scratch);
    lsi_merges_free(&merges);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_what_is_wrong),
        cmocka_unit_test(refuses_by_name),
        cmocka_unit_test(refuses_missing_files),
        cmocka_unit_test(bytes_are_their_numbers),
        cmocka_unit_test(knows_its_tokens),
        cmocka_unit_test(refuses_what_is_no_text),
        cmocka_unit_test(brings_text_into_normal_form),
        cmocka_unit_test(any_number_of_threads),
        cmocka_unit_test(merges_as_a_simple_loop),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
