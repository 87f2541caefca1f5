/* Texts of words for tests: larger than what one rank takes at once. */
#ifndef TESTS_UNIT_TEXT_CORPUS_FILE_H
#define TESTS_UNIT_TEXT_CORPUS_FILE_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "testing.h"

enum { WORDS = 300, WORD_BYTES = 16, CORPUS_BYTES = 9000000 };

typedef struct corpus_file {
    char path[64];
    char words[WORDS][WORD_BYTES]; /* of a, b and c, all different */
    int64_t counts[WORDS];         /* with a blank before */
    int first;                     /* the word without one */
} corpus_file;

static inline uint32_t corpus_draw(uint64_t *state)
{
    *state =
        *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

static inline bool corpus_has(const corpus_file *c, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(c->words[i], c->words[n]) == 0)
            return true;
    return false;
}

/* To be removed by its path. */
static inline void corpus_make(corpus_file *c, uint64_t seed)
{
    memset(c, 0, sizeof *c);
    for (int i = 0; i < WORDS; i++) {
        do {
            const uint32_t n = 1 + corpus_draw(&seed) % (WORD_BYTES - 2);
            memset(c->words[i], 0, WORD_BYTES);
            for (uint32_t k = 0; k < n; k++)
                c->words[i][k] = (char)('a' + corpus_draw(&seed) % 3);
        } while (corpus_has(c, i));
    }
    snprintf(c->path, sizeof c->path, "/tmp/lockstep-corpus-XXXXXX");
    const int fd = mkstemp(c->path);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    c->first = (int)(corpus_draw(&seed) % WORDS);
    fputs(c->words[c->first], file);
    for (size_t bytes = 0; bytes < CORPUS_BYTES;) {
        /* Some words are much more frequent than others. */
        const uint32_t limit = 1 + corpus_draw(&seed) % WORDS;
        const uint32_t i = corpus_draw(&seed) % limit;
        c->counts[i]++;
        bytes += (size_t)fprintf(file, " %s", c->words[i]);
    }
    fclose(file);
}

#endif
