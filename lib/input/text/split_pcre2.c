/* Patterns that are not read by hand: PCRE2, with its compiler (JIT). */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/error.h"
#include "base/memory.h"
#include "input/text/split.h"
#include "input/text/unicode.h"

/*
 * Patterns come with tokenizers, and so from strangers. Backtracking of one
 * match from one place ends here: patterns of tokenizers stay far below.
 */
enum { MOST_STEPS = 1000 * 1000, MOST_HEAP_KIB = 256 << 10 };

struct lsi_split_pattern {
    pcre2_code *code;
    pcre2_match_context *limits;
};

ls_status lsi_split_pattern_new(struct lsi_split_pattern **out,
                                const char *pattern, bool literal)
{
    /* \C would match a part of a character. */
    const uint32_t flags =
        PCRE2_UTF | (literal ? PCRE2_LITERAL
                             : (uint32_t)PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C);
    int error;
    PCRE2_SIZE where;
    PCRE2_UCHAR text[128];
    void *block = NULL;
    LS_TRY(lsi_alloc(&block, sizeof(struct lsi_split_pattern), LS_MEMORY_DATA,
                     "a pattern"));
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern, strlen(pattern),
                                     flags, &error, &where, NULL);
    if (code == NULL) {
        lsi_free(block);
        pcre2_get_error_message(error, text, sizeof text);
        return lsi_fail(LS_ERR_FORMAT,
                        "the split pattern \"%s\" is invalid at byte %zu: %s",
                        pattern, (size_t)where, (const char *)text);
    }
    pcre2_match_context *const limits = pcre2_match_context_create(NULL);
    if (limits == NULL) {
        lsi_free(block);
        pcre2_code_free(code);
        return lsi_fail(LS_ERR_MEMORY,
                        "not enough memory to compile the split pattern");
    }
    (void)pcre2_set_match_limit(limits, MOST_STEPS);
    (void)pcre2_set_heap_limit(limits, MOST_HEAP_KIB);
    /* Without it the pattern is interpreted, which is slower. */
    (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
    *out = block;
    **out = (struct lsi_split_pattern){code, limits};
    return LS_OK;
}

void lsi_split_pattern_free(struct lsi_split_pattern *pattern)
{
    if (pattern == NULL)
        return;
    pcre2_code_free(pattern->code);
    pcre2_match_context_free(pattern->limits);
    lsi_free(pattern);
}

static ls_status fail_match(int error)
{
    PCRE2_UCHAR text[128];
    pcre2_get_error_message(error, text, sizeof text);
    if (error == PCRE2_ERROR_MATCHLIMIT || error == PCRE2_ERROR_HEAPLIMIT ||
        error == PCRE2_ERROR_DEPTHLIMIT || error == PCRE2_ERROR_JIT_STACKLIMIT)
        return lsi_fail(
            LS_ERR_FORMAT,
            "the split pattern backtracks too much (%s; the limit is %d steps "
            "per word). Use a tokenizer with a simpler pattern",
            (const char *)text, MOST_STEPS);
    return lsi_fail(
        error == PCRE2_ERROR_NOMEMORY ? LS_ERR_MEMORY : LS_ERR_FORMAT,
        "matching the split pattern failed: %s", (const char *)text);
}

/* \K in a group that a lookaround calls moves the begin to anywhere. */
static ls_status fail_place(size_t begin, size_t end, size_t at)
{
    return lsi_fail(
        LS_ERR_FORMAT,
        "the split pattern matched bytes %zu to %zu, but it must match from "
        "byte %zu on. Use a tokenizer with a pattern without \\K",
        begin, end, at);
}

bool lsi_split_pattern_find(const struct lsi_split_pattern *pattern,
                            lsi_split_scratch *scratch, lsi_text text,
                            size_t at, size_t *begin, size_t *end)
{
    if (scratch->match == NULL)
        scratch->match = pcre2_match_data_create(1, NULL);
    pcre2_match_data *const match = scratch->match;
    if (match == NULL) {
        scratch->status = fail_match(PCRE2_ERROR_NOMEMORY);
        return false;
    }
    while (at < text.n) {
        const int found =
            pcre2_match(pattern->code, text.at, text.n, at, PCRE2_NO_UTF_CHECK,
                        match, pattern->limits);
        if (found == PCRE2_ERROR_NOMATCH)
            return false;
        if (found < 0) {
            scratch->status = fail_match(found);
            return false;
        }
        const PCRE2_SIZE *const place = pcre2_get_ovector_pointer(match);
        if (place[0] < at || place[1] < place[0]) {
            scratch->status = fail_place(place[0], place[1], at);
            return false;
        }
        *begin = place[0];
        *end = place[1];
        if (*end > *begin)
            return true;
        at = *end + (*end < text.n ? lsi_utf8_length(text.at[*end]) : 0);
    }
    return false;
}

void lsi_split_pattern_scratch_free(void *match)
{
    pcre2_match_data_free(match);
}
