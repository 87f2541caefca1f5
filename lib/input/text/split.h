/*
 * Dividing text into words, which are then encoded each by itself
 * ("pre-tokenization").
 *
 * The patterns of GPT-2, of GPT-4 (cl100k) and of Llama 3 are matched by
 * hand-written code. It is many times faster than a library of regular
 * expressions. It follows Unicode 16, as other tokenizers do; Debian's
 * libraries have older versions. PCRE2 matches any other pattern.
 */
#ifndef LS_INPUT_TEXT_SPLIT_H
#define LS_INPUT_TEXT_SPLIT_H

#include <stdbool.h>

#include "input/text/buffers.h"

typedef enum lsi_split_kind {
    LSI_SPLIT_GPT2,   /* the pattern of GPT-2, which ByteLevel stands for */
    LSI_SPLIT_LLAMA3, /* that of Llama 3, up to `digits` digits at once */
    LSI_SPLIT_CL100K, /* the same, but blanks at the end are one piece */
    LSI_SPLIT_DIGITS, /* numbers from the rest, up to `digits` at once */
    LSI_SPLIT_MARKS,  /* before each mark */
    LSI_SPLIT_BLANKS, /* before marks, where none stands before */
    LSI_SPLIT_PATTERN /* a regular expression */
} lsi_split_kind;

/* Parts of a text to drop: the matches of a pattern, or the rest. */
enum { LSI_DROP_MATCHES = 1, LSI_DROP_REST = 2 };

typedef struct lsi_splitter {
    lsi_split_kind kind;
    const uint8_t *classes; /* of characters; lsi_char_classes */
    size_t digits;          /* 0: any number */
    lsi_text mark;
    struct lsi_split_pattern *pattern;
    int drop;
    uint64_t digest; /* of the pattern */
} lsi_splitter;

/* Of one thread; all zeros at first. */
typedef struct lsi_split_scratch {
    void *match;
    ls_status status; /* the first error */
} lsi_split_scratch;

void lsi_split_scratch_free(lsi_split_scratch *scratch);

/*
 * The end of the piece that begins at `at` in valid UTF-8, at < text.n; *drop:
 * the piece is left out. After an error the rest is one piece.
 */
size_t lsi_split_next(const lsi_splitter *splitter, lsi_split_scratch *scratch,
                      lsi_text text, size_t at, bool *drop);

/* ---- regular expressions ------------------------------------------------- */

/* The kind and the digits of a pattern that is known; false if it is not. */
bool lsi_split_known(const char *pattern, lsi_splitter *splitter);

/* Llama 3's. */
extern const char lsi_split_llama3[];

/*
 * Compiles any other, or the literal text. LS_ERR_FORMAT if the pattern is
 * wrong, or if the library is built without PCRE2.
 */
ls_status lsi_split_pattern_new(struct lsi_split_pattern **out,
                                const char *pattern, bool literal);
void lsi_split_pattern_free(struct lsi_split_pattern *pattern);

/* The first match from `at` on that is not empty; false if not found. */
bool lsi_split_pattern_find(const struct lsi_split_pattern *pattern,
                            lsi_split_scratch *scratch, lsi_text text,
                            size_t at, size_t *begin, size_t *end);
void lsi_split_pattern_scratch_free(void *match);

#endif
