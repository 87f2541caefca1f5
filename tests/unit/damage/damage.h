/*
 * Damages a small valid file in every way that one bit or one cut can: flips
 * each bit, and cuts the file to each length below
 * its length. After each damage the reader must refuse the file or report the
 * same content. A rule for each byte and each length states which. In either
 * case, a read must neither crash nor hang, and must give back the memory and
 * descriptors it used.
 */
#ifndef TESTS_DAMAGE_H
#define TESTS_DAMAGE_H

#include "lockstep/status.h"

#include "testing.h"

enum { DAMAGE_TEXT = 256, DAMAGE_MORE = 8 };

/* The content that a reader found in an accepted file. */
typedef struct damage_seen {
    char shape[DAMAGE_TEXT]; /* shapes and counts */
    uint64_t values;         /* digest of all contents (damage_digest) */
    bool cut_off;            /* the reader reported that the end is missing */
} damage_seen;

/* The permitted outcomes of a damage. */
typedef enum damage_rule {
    DAMAGE_REFUSED, /* only an error */
    DAMAGE_VALUES,  /* an error, or exactly what the valid file holds */
    DAMAGE_SHAPE,   /* an error, the same shape, or `cut_off` */
    DAMAGE_ANY,     /* an error, or anything */
    DAMAGE_UNTRIED  /* not flipped, as the bytes before are like these */
} damage_rule;

/* The rule for bytes (or lengths) from begin to end - 1. */
typedef struct damage_range {
    size_t begin, end;
    damage_rule rule;
} damage_range;

typedef struct damage_rules {
    damage_rule usual;         /* outside the ranges */
    const damage_range *range; /* the first that fits counts */
    size_t n;
} damage_rules;

typedef struct damage_case {
    const char *format; /* in messages */
    const char *path;   /* file to write the damaged bytes to */
    const char *opened; /* path to read; NULL: the same */
    const uint8_t *data;
    size_t bytes;
    ls_status (*read)(const char *path, damage_seen *seen);
    damage_rules flips; /* by byte */
    damage_rules cuts;  /* by length */
    damage_rule junk;   /* after the whole file: DAMAGE_MORE bytes of letters */
    damage_rule zeros;  /* after the whole file: DAMAGE_MORE zeros */
    size_t memory;      /* most bytes a read may allocate; 0: 32 MiB */
} damage_case;

/* The outcomes of all damages. */
typedef struct damage_count {
    size_t refused, accepted; /* reads */
    size_t untried;           /* flips */
    size_t broken;            /* rules */
    size_t most_bytes;        /* that a read allocated through the library */
    char first[DAMAGE_TEXT];  /* the first broken rule */
} damage_count;

/* Reads all damaged forms of the case's file. Prints each broken rule. */
damage_count damage_walk(const damage_case *c);

/* As above; fails the test if a rule was broken, or nothing was refused. */
void damage_check(const damage_case *c);

/* Extends a digest by the contents of a file. */
uint64_t damage_digest(uint64_t digest, const void *data, size_t bytes);

/* ---- the files of a test ------------------------------------------------- */

/* Makes and removes a folder for the test: cmocka's setup and teardown. */
int damage_begin(void **state);
int damage_end(void **state);

/* A path in that folder; valid until the eighth call after. */
const char *damage_path(const char *name);

void damage_write(const char *path, const void *data, size_t bytes);

/* The contents of a file, for the caller to free. */
uint8_t *damage_read(const char *path, size_t *bytes);

#endif
