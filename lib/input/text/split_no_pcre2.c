/* In place of split_pcre2.c where the library is built without PCRE2. */
#include "base/error.h"
#include "input/text/split.h"

ls_status lsi_split_pattern_new(struct lsi_split_pattern **out,
                                const char *pattern, bool literal)
{
    (void)out;
    (void)literal;
    return lsi_fail(
        LS_ERR_UNSUPPORTED,
        "cannot split text by \"%s\": this library was built without PCRE2, "
        "and supports only the patterns of GPT-2, GPT-4 and Llama 3",
        pattern);
}

void lsi_split_pattern_free(struct lsi_split_pattern *pattern)
{
    (void)pattern;
}

bool lsi_split_pattern_find(const struct lsi_split_pattern *pattern,
                            lsi_split_scratch *scratch, lsi_text text,
                            size_t at, size_t *begin, size_t *end)
{
    (void)pattern, (void)scratch, (void)text, (void)at, (void)begin, (void)end;
    return false;
}

void lsi_split_pattern_scratch_free(void *match)
{
    (void)match;
}
