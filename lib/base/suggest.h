/*
 * Names that a mistyped one may stand for.
 */
#ifndef LS_BASE_SUGGEST_H
#define LS_BASE_SUGGEST_H

#include <stdbool.h>
#include <stddef.h>

enum { LSI_SUGGESTION_BYTES = 256 };

/* Names that exist, and what is written before and after each. */
typedef struct lsi_known_names {
    const char *const *names;
    size_t n;
    const char *before, *after;
} lsi_known_names;

/*
 * Writes up to three names that the first `length` letters of `typed` may
 * stand for, as "--a", "--a or --b" or "--a, --b or --c". A name that begins
 * with `typed` comes first, then the nearest by spelling, then a name that
 * `typed` begins with. Case and the difference of '_' and '-' do not count.
 * False: nothing is near enough.
 */
bool lsi_suggest(const char *typed, size_t length, const lsi_known_names *known,
                 char out[LSI_SUGGESTION_BYTES]);

/*
 * Insertions, deletions, changes, and exchanges of neighbours that turn the
 * first `a_length` letters of `a` (64 at most) into `b`.
 */
size_t lsi_edit_distance(const char *a, size_t a_length, const char *b);

/* The letter in lower case, and '-' for '_': names are compared by this. */
char lsi_name_letter(char letter);

#endif
