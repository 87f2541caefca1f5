/* Patterns that are not read by hand: PCRE2, with its compiler (JIT). */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/error.h"
#include "base/memory.h"
#include "text/split.h"
#include "text/unicode.h"

struct lsi_split_pattern {
    pcre2_code *code;
};

ls_status lsi_split_pattern_new(struct lsi_split_pattern **out,
                                const char *pattern, bool literal)
{
    const uint32_t flags =
        PCRE2_UTF | (literal ? PCRE2_LITERAL : (uint32_t)PCRE2_UCP);
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
                        "the pattern \"%s\" by which text is split is wrong at "
                        "its character %zu: %s",
                        pattern, (size_t)where, (const char *)text);
    }
    /* Without it the pattern is interpreted, which is slower. */
    (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
    *out = block;
    (*out)->code = code;
    return LS_OK;
}

void lsi_split_pattern_free(struct lsi_split_pattern *pattern)
{
    if (pattern == NULL)
        return;
    pcre2_code_free(pattern->code);
    lsi_free(pattern);
}

static ls_status fail_match(int error)
{
    PCRE2_UCHAR text[128];
    pcre2_get_error_message(error, text, sizeof text);
    return lsi_fail(
        error == PCRE2_ERROR_NOMEMORY ? LS_ERR_MEMORY : LS_ERR_FORMAT,
        "the pattern by which text is split fails: %s", (const char *)text);
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
        const int found = pcre2_match(pattern->code, text.at, text.n, at,
                                      PCRE2_NO_UTF_CHECK, match, NULL);
        if (found == PCRE2_ERROR_NOMATCH)
            return false;
        if (found < 0) {
            scratch->status = fail_match(found);
            return false;
        }
        const PCRE2_SIZE *const place = pcre2_get_ovector_pointer(match);
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
