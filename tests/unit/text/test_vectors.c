/*
 * Tokens and texts equal those of Hugging Face's `tokenizers`:
 * tests/tokenizers/make_vectors.py has made them.
 */
#include <stdio.h>
#include <stdlib.h>

#include "lockstep/lockstep.h"
#include "testing.h"

enum { MAX_LINE = 1 << 16 };

typedef struct vector {
    char *file;
    bool special;
    char *text;
    size_t bytes;
    int64_t *ids;
    size_t n;
    char *decoded, *plain;
    size_t decoded_bytes, plain_bytes;
} vector;

static char *unhex(const char *hex, size_t *bytes)
{
    char *out = malloc(strlen(hex) / 2 + 1);
    *bytes = 0;
    for (; hex[0] != '-' && hex[0] != '\0'; hex += 2) {
        const char digits[] = {hex[0], hex[1], '\0'};
        out[(*bytes)++] = (char)strtol(digits, NULL, 16);
    }
    return out;
}

static int64_t *numbers(char *text, size_t *n)
{
    int64_t *out = malloc((strlen(text) + 1) * sizeof *out);
    *n = 0;
    for (char *word = strtok(text, ","); word != NULL && word[0] != '-';
         word = strtok(NULL, ","))
        out[(*n)++] = atoll(word);
    return out;
}

static void parse(char *line, vector *v)
{
    char *words[6];
    for (size_t i = 0; i < TEST_COUNT(words); i++) {
        words[i] = strsep(&line, " \n");
        assert_non_null(words[i]);
    }
    v->file = words[0];
    v->special = words[1][0] == '1';
    v->text = unhex(words[2], &v->bytes);
    v->ids = numbers(words[3], &v->n);
    v->decoded = unhex(words[4], &v->decoded_bytes);
    v->plain = unhex(words[5], &v->plain_bytes);
}

static void free_vector(vector *v)
{
    free(v->text);
    free(v->ids);
    free(v->decoded);
    free(v->plain);
}

static ls_tokenizer_flags flags_of(bool special)
{
    return special ? LS_TOKENIZER_SPECIAL : LS_TOKENIZER_PLAIN;
}

static void check_encode(const ls_tokenizer *t, const vector *v)
{
    int64_t *ids = NULL;
    size_t n = SIZE_MAX;
    assert_ok(ls_tokenizer_encode(t, v->text, v->bytes, flags_of(v->special),
                                  &ids, &n));
    assert_int_equal(n, v->n);
    if (n > 0)
        assert_memory_equal(ids, v->ids, (size_t)n * sizeof *ids);
    ls_free(ids);
}

static void check_decode(const ls_tokenizer *t, const vector *v, bool special)
{
    char *text = NULL;
    size_t bytes;
    const char *expected = special ? v->decoded : v->plain;
    assert_ok(
        ls_tokenizer_decode(t, v->ids, v->n, flags_of(special), &text, &bytes));
    assert_int_equal(bytes, special ? v->decoded_bytes : v->plain_bytes);
    assert_int_equal(text[bytes], '\0');
    if (bytes > 0)
        assert_memory_equal(text, expected, bytes);
    ls_free(text);
}

/* Token by token the same text comes, whole characters at a time. */
static void check_stream(const ls_tokenizer *t, const vector *v)
{
    ls_decoder *d = NULL;
    const char *part;
    size_t at = 0, bytes;
    assert_ok(ls_decoder_new(&d, t, LS_TOKENIZER_SPECIAL));
    for (size_t i = 0; i <= v->n; i++) {
        if (i < v->n)
            assert_ok(ls_decoder_push(d, v->ids[i], &part, &bytes));
        else
            assert_ok(ls_decoder_finish(d, &part, &bytes));
        assert_true(at + bytes <= v->decoded_bytes);
        assert_memory_equal(part, v->decoded + at, bytes);
        at += bytes;
        if (at < v->decoded_bytes)
            assert_int_not_equal(v->decoded[at] & 0xc0, 0x80);
    }
    assert_int_equal(at, v->decoded_bytes);
    ls_decoder_free(&d);
}

static void check_file(const char *path, const char *name)
{
    static char line[MAX_LINE];
    ls_tokenizer *t = NULL;
    int checked = 0;
    assert_ok(ls_tokenizer_open(&t, path));
    FILE *file = fopen(TOKENIZERS "/vectors.txt", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        vector v;
        if (strncmp(line, name, strlen(name)) != 0)
            continue;
        assert_non_null(strchr(line, '\n'));
        parse(line, &v);
        check_encode(t, &v);
        check_decode(t, &v, true);
        check_decode(t, &v, false);
        check_stream(t, &v);
        free_vector(&v);
        checked++;
    }
    fclose(file);
    assert_true(checked > 100);
    ls_tokenizer_close(&t);
}

static void gpt2(void **state)
{
    (void)state;
    check_file(TOKENIZERS "/gpt2.json", "gpt2.json");
}

static void gpt2_in_two_files(void **state)
{
    (void)state;
    check_file(TOKENIZERS "/gpt2", "gpt2.json");
    check_file(TOKENIZERS "/gpt2/merges.txt", "gpt2.json");
}

static void llama3(void **state)
{
    (void)state;
    check_file(TOKENIZERS "/llama3.json", "llama3.json");
}

static void cl100k(void **state)
{
    (void)state;
    check_file(TOKENIZERS "/cl100k.json", "cl100k.json");
}

static void llama2(void **state)
{
    (void)state;
    check_file(TOKENIZERS "/llama2.json", "llama2.json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2),   cmocka_unit_test(gpt2_in_two_files),
        cmocka_unit_test(llama3), cmocka_unit_test(cl100k),
        cmocka_unit_test(llama2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
