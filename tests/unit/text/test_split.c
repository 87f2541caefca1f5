/* Patterns that mean no good: parts of characters, no end, places elsewhere. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "input/text/split.h"
#include "input/text/unicode.h"
#include "lockstep/lockstep.h"
#include "testing.h"

static uint8_t classes[LSI_CODE_POINTS];

/* The text at the end of a page, behind which there is none. */
static lsi_text at_page_end(const char *text, size_t n)
{
    static char *page;
    const size_t size = (size_t)sysconf(_SC_PAGESIZE);
    if (page == NULL) {
        page = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(page != MAP_FAILED);
        assert_int_equal(mprotect(page + size, size, PROT_NONE), 0);
    }
    return (lsi_text){memcpy(page + size - n, text, n), n};
}

/* The pieces of a text, each of which is not empty; the status of the last. */
static ls_status pieces_of(const lsi_splitter *p, lsi_text text, size_t *pieces)
{
    lsi_split_scratch scratch = {.match = NULL};
    *pieces = 0;
    for (size_t at = 0, end; at < text.n; at = end, ++*pieces) {
        bool drop;
        end = lsi_split_next(p, &scratch, text, at, &drop);
        assert_true(end > at && end <= text.n);
    }
    lsi_split_scratch_free(&scratch);
    return scratch.status;
}

static void parts_of_characters(void **state)
{
    (void)state;
    static const char *const cut[] = {"\xc3",  "a\xe2\x82", "1\xf0\x9f\x98",
                                      "\xa9",  " \xe2",     "\xf0",
                                      "'\xc5", "1\xd9",     "\n\xe3\x80"};
    for (int kind = LSI_SPLIT_GPT2; kind <= LSI_SPLIT_DIGITS; kind++)
        for (size_t i = 0; i < TEST_COUNT(cut); i++) {
            const lsi_splitter p = {.kind = (lsi_split_kind)kind,
                                    .classes = classes};
            size_t pieces;
            assert_ok(
                pieces_of(&p, at_page_end(cut[i], strlen(cut[i])), &pieces));
        }
}

/* Skips the test in a library that has no PCRE2. */
static lsi_splitter by_pattern(const char *pattern)
{
    lsi_splitter p = {.kind = LSI_SPLIT_PATTERN, .classes = classes};
    const ls_status status = lsi_split_pattern_new(&p.pattern, pattern, false);
    if (status == LS_ERR_UNSUPPORTED)
        skip();
    assert_ok(status);
    return p;
}

static void backslash_c_is_refused(void **state)
{
    (void)state;
    static const char *const patterns[] = {"\\C", "a(?:\\C|b)", "[^a]\\C+"};
    lsi_splitter p = by_pattern("c");
    lsi_split_pattern_free(p.pattern);
    for (size_t i = 0; i < TEST_COUNT(patterns); i++) {
        p.pattern = NULL;
        assert_error(lsi_split_pattern_new(&p.pattern, patterns[i], false),
                     LS_ERR_FORMAT, "\\C");
        assert_null(p.pattern);
    }
    /* As a text it is two characters. */
    size_t pieces;
    assert_ok(lsi_split_pattern_new(&p.pattern, "\\C", true));
    assert_ok(pieces_of(&p, at_page_end("a\\Cb", 4), &pieces));
    assert_int_equal(pieces, 3);
    lsi_split_pattern_free(p.pattern);
}

static void empty_matches_are_none(void **state)
{
    (void)state;
    size_t pieces;
    const lsi_splitter p = by_pattern("x*");
    assert_ok(pieces_of(&p, at_page_end("\xc3\xa9xx\xe2\x82\xac", 7), &pieces));
    assert_int_equal(pieces, 3);
    lsi_split_pattern_free(p.pattern);
}

/* \K in a group that a lookaround calls, which PCRE2 does not refuse. */
static void matches_elsewhere_are_refused(void **state)
{
    (void)state;
    static const char *const patterns[] = {
        "(?<n>a\\K){0}(?=(?&n))",      /* ends before it begins */
        "^a|(?<n>\\Ka){0}(?<=(?&n))b", /* begins before the place */
    };
    for (size_t i = 0; i < TEST_COUNT(patterns); i++) {
        size_t pieces;
        const lsi_splitter p = by_pattern(patterns[i]);
        assert_error(pieces_of(&p, at_page_end("abab", 4), &pieces),
                     LS_ERR_FORMAT, "\\K");
        lsi_split_pattern_free(p.pattern);
    }
}

static void backtracking_has_an_end(void **state)
{
    (void)state;
    static const char *const patterns[] = {"(?:a+)+[bc]", "(?:a|aa)+[bc]",
                                           "(?:(?:a*)*)*[bc]"};
    char text[200];
    memset(text, 'a', sizeof text);
    for (size_t i = 0; i < TEST_COUNT(patterns); i++) {
        size_t pieces;
        const lsi_splitter p = by_pattern(patterns[i]);
        assert_error(pieces_of(&p, at_page_end(text, sizeof text), &pieces),
                     LS_ERR_FORMAT, "backtracks too much");
        lsi_split_pattern_free(p.pattern);
    }
}

/* A stranger's file, as it comes. */
static void tokenizer_with_backslash_c(void **state)
{
    (void)state;
    static const char json[] =
        "{\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": "
        "\"\\\\C\"}, \"behavior\": \"Isolated\"}, \"model\": {\"type\": "
        "\"BPE\", \"unk_token\": \"u\", \"vocab\": {\"u\": 0, \"a\": 1}, "
        "\"merges\": []}}";
    char path[] = "/tmp/lockstep-split-XXXXXX";
    ls_tokenizer *t = NULL;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, json, strlen(json)), strlen(json));
    assert_int_equal(close(fd), 0);
    const ls_status status = ls_tokenizer_open(&t, path);
    assert_int_equal(unlink(path), 0);
    assert_true(status == LS_ERR_FORMAT || status == LS_ERR_UNSUPPORTED);
    assert_null(t);
}

int main(void)
{
    lsi_char_classes(classes);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_characters),
        cmocka_unit_test(backslash_c_is_refused),
        cmocka_unit_test(empty_matches_are_none),
        cmocka_unit_test(matches_elsewhere_are_refused),
        cmocka_unit_test(backtracking_has_an_end),
        cmocka_unit_test(tokenizer_with_backslash_c),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
