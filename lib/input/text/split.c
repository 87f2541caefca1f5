#include "input/text/split.h"

#include "input/text/unicode.h"

typedef struct scan {
    const uint8_t *classes, *text;
    size_t n;
} scan;

static inline lsi_char_class class_at(const scan *s, size_t at)
{
    const uint8_t c = s->text[at];
    if (c < 0x80)
        return (lsi_char_class)s->classes[c];
    if (s->n - at < lsi_utf8_length(c)) /* a part of a character */
        return LSI_CHAR_OTHER;
    return (lsi_char_class)s->classes[lsi_utf8_read(s->text + at)];
}

static inline size_t behind(const scan *s, size_t at)
{
    return at + lsi_utf8_within(s->text + at, s->n - at);
}

/* The end of the run of such characters that begins at `at`. */
static inline size_t run_of(const scan *s, size_t at, lsi_char_class kind)
{
    while (at < s->n && class_at(s, at) == kind)
        at = behind(s, at);
    return at;
}

/* The end of a run of at most `most` such characters; 0: any number. */
static size_t few_of(const scan *s, size_t at, lsi_char_class kind, size_t most)
{
    if (most == 0)
        return run_of(s, at, kind);
    for (; most > 0 && at < s->n && class_at(s, at) == kind; most--)
        at = behind(s, at);
    return at;
}

static inline bool ends_line(uint8_t c)
{
    return c == '\r' || c == '\n';
}

/* ---- the parts that patterns share --------------------------------------- */

/* "'s", "'ll", ...: the end if one begins at the apostrophe, else 0. */
static size_t contraction(const scan *s, size_t at)
{
    const uint8_t *t = s->text + at + 1;
    const size_t n = s->n - at - 1;
    if (n >= 1 && (t[0] == 's' || t[0] == 't' || t[0] == 'm' || t[0] == 'd'))
        return at + 2;
    if (n >= 2 &&
        ((t[0] == 'r' && t[1] == 'e') || (t[0] == 'v' && t[1] == 'e') ||
         (t[0] == 'l' && t[1] == 'l')))
        return at + 3;
    return 0;
}

/* The same in any case, of which the long s is one of s. */
static size_t caseless_contraction(const scan *s, size_t at)
{
    const uint8_t *t = s->text + at + 1;
    const size_t n = s->n - at - 1;
    uint8_t small[3] = {'\'', 0, 0};
    const scan lower = {s->classes, small, n < 2 ? n + 1 : 3};
    if (n >= 2 && t[0] == 0xc5 && t[1] == 0xbf)
        return at + 3;
    for (size_t i = 0; i < n && i < 2; i++)
        small[i + 1] = t[i] < 0x80 ? t[i] | 0x20 : t[i];
    const size_t end = contraction(&lower, 0);
    return end != 0 ? at + end : 0;
}

/*
 * \s+(?!\S)|\s+ where blanks are at..end-1: blanks before a word leave it the
 * last one.
 */
static size_t blanks(const scan *s, size_t at, size_t end)
{
    size_t last = end - 1;
    if (end == s->n)
        return end;
    while ((s->text[last] & 0xc0) == 0x80)
        last--;
    return last > at ? last : end;
}

/* ---- patterns ------------------------------------------------------------ */

/*
 * 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 */
static size_t gpt2(const scan *s, size_t at)
{
    const uint8_t c = s->text[at];
    size_t word = at;
    if (c == '\'') {
        const size_t end = contraction(s, at);
        if (end != 0)
            return end;
    }
    if (c == ' ' && at + 1 < s->n)
        word++;
    const lsi_char_class kind = class_at(s, word);
    if (kind != LSI_CHAR_SPACE)
        return run_of(s, behind(s, word), kind);
    return blanks(s, at, run_of(s, word, LSI_CHAR_SPACE));
}

/* \s*[\r\n]+|\s+(?!\S)|\s+, before which cl100k has \s+$ */
static size_t lines_or_blanks(const scan *s, size_t at, bool ends_whole)
{
    const size_t end = run_of(s, at, LSI_CHAR_SPACE);
    if (ends_whole && end == s->n)
        return end;
    for (size_t i = end; i > at; i--)
        if (ends_line(s->text[i - 1]))
            return i;
    return blanks(s, at, end);
}

/*
 * The pattern of Llama 3:
 *
 *   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
 *    ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 */
static size_t llama3(const scan *s, size_t at, const lsi_splitter *how)
{
    const uint8_t c = s->text[at];
    const lsi_char_class kind = class_at(s, at);
    const size_t next = behind(s, at);
    if (kind == LSI_CHAR_LETTER)
        return run_of(s, next, LSI_CHAR_LETTER);
    if (kind == LSI_CHAR_NUMBER)
        return few_of(s, at, LSI_CHAR_NUMBER, how->digits);
    if (c == '\'') {
        const size_t end = caseless_contraction(s, at);
        if (end != 0)
            return end;
    }
    const lsi_char_class follows =
        next < s->n ? class_at(s, next) : LSI_CHAR_SPACE;
    if (!ends_line(c) && follows == LSI_CHAR_LETTER)
        return run_of(s, next, LSI_CHAR_LETTER);
    if (kind == LSI_CHAR_SPACE && (c != ' ' || follows != LSI_CHAR_OTHER))
        return lines_or_blanks(s, at, how->kind == LSI_SPLIT_CL100K);
    size_t end = run_of(s, next, LSI_CHAR_OTHER);
    while (end < s->n && ends_line(s->text[end]))
        end++;
    return end;
}

static size_t numbers_apart(const scan *s, size_t at, size_t digits)
{
    if (class_at(s, at) == LSI_CHAR_NUMBER)
        return few_of(s, at, LSI_CHAR_NUMBER, digits);
    while (at < s->n && class_at(s, at) != LSI_CHAR_NUMBER)
        at = behind(s, at);
    return at;
}

/* ---- marks --------------------------------------------------------------- */

static bool mark_at(const lsi_splitter *p, lsi_text text, size_t at)
{
    return text.n - at >= p->mark.n &&
           memcmp(text.at + at, p->mark.at, p->mark.n) == 0;
}

/* Where the next mark begins, from `at` on; the text's end if not found. */
static size_t find_mark(const lsi_splitter *p, lsi_text text, size_t at)
{
    while (at < text.n) {
        const uint8_t *found = memchr(text.at + at, p->mark.at[0], text.n - at);
        if (found == NULL)
            return text.n;
        at = (size_t)(found - text.at);
        if (mark_at(p, text, at))
            return at;
        at++;
    }
    return text.n;
}

static size_t before_marks(const lsi_splitter *p, lsi_text text, size_t at)
{
    const size_t skip = mark_at(p, text, at) ? p->mark.n : 1;
    return find_mark(p, text, at + skip);
}

static size_t before_blanks(const lsi_splitter *p, lsi_text text, size_t at)
{
    while (at < text.n && mark_at(p, text, at))
        at += p->mark.n;
    return find_mark(p, text, at);
}

/* ---- any ----------------------------------------------------------------- */

static size_t by_pattern(const lsi_splitter *p, lsi_split_scratch *scratch,
                         lsi_text text, size_t at, bool *drop)
{
    size_t begin, end;
    if (scratch->status != LS_OK ||
        !lsi_split_pattern_find(p->pattern, scratch, text, at, &begin, &end))
        begin = end = text.n;
    *drop = (p->drop & (begin > at ? LSI_DROP_REST : LSI_DROP_MATCHES)) != 0;
    return begin > at ? begin : end;
}

size_t lsi_split_next(const lsi_splitter *splitter, lsi_split_scratch *scratch,
                      lsi_text text, size_t at, bool *drop)
{
    const scan s = {splitter->classes, text.at, text.n};
    *drop = false;
    switch (splitter->kind) {
    case LSI_SPLIT_GPT2:
        return gpt2(&s, at);
    case LSI_SPLIT_LLAMA3:
    case LSI_SPLIT_CL100K:
        return llama3(&s, at, splitter);
    case LSI_SPLIT_DIGITS:
        return numbers_apart(&s, at, splitter->digits);
    case LSI_SPLIT_MARKS:
        return before_marks(splitter, text, at);
    case LSI_SPLIT_BLANKS:
        return before_blanks(splitter, text, at);
    case LSI_SPLIT_PATTERN:
        break;
    }
    return by_pattern(splitter, scratch, text, at, drop);
}

void lsi_split_scratch_free(lsi_split_scratch *scratch)
{
    lsi_split_pattern_scratch_free(scratch->match);
    scratch->match = NULL;
}

const char lsi_split_llama3[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
    "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+"
    "|\\s+(?!\\S)|\\s+";

bool lsi_split_known(const char *pattern, lsi_splitter *splitter)
{
    static const struct known {
        lsi_split_kind kind;
        size_t digits;
        const char *pattern;
    } known[] = {
        {LSI_SPLIT_GPT2, 0,
         "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+"
         "|\\s+(?!\\S)|\\s+"},
        {LSI_SPLIT_GPT2, 0,
         "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+"
         "|\\s+(?!\\S)|\\s+"},
        {LSI_SPLIT_LLAMA3, 3, lsi_split_llama3},
        {LSI_SPLIT_CL100K, 3,
         "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++"
         "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$"
         "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s"},
        {LSI_SPLIT_LLAMA3, 1,
         "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
         "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+"
         "|\\s+(?!\\S)|\\s+"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(known[i].pattern, pattern) != 0)
            continue;
        splitter->kind = known[i].kind;
        splitter->digits = known[i].digits;
        return true;
    }
    return false;
}
