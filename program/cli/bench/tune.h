/*
 * From measured times to a selection line. Pure.
 *
 * An entry of the line serves private and shared buffers alike. So the choice
 * for a size is the list of algorithms with the least product of the two times.
 * It is one algorithm for all memory, or `direct` for shared buffers and
 * another for private ones.
 */
#ifndef LS_CLI_BENCH_TUNE_H
#define LS_CLI_BENCH_TUNE_H

#include <stdbool.h>
#include <stddef.h>

enum { LSI_TUNE_ALGORITHMS = 12, LSI_TUNE_SIZES = 24, LSI_TUNE_NAMES = 64 };

enum { LSI_TUNE_PRIVATE, LSI_TUNE_SHARED, LSI_TUNE_KINDS };

typedef struct lsi_tune_algorithm {
    const char *name;
    bool in_cells; /* stands alone, for little data */
    bool direct;   /* for shared buffers only */
    bool limited;  /* does not work everywhere: needs a fallback */
} lsi_tune_algorithm;

/* Seconds at one size; 0 where an algorithm cannot be used. */
typedef struct lsi_tune_times {
    size_t bytes;
    double seconds[LSI_TUNE_KINDS][LSI_TUNE_ALGORITHMS];
} lsi_tune_times;

/* Indices of the algorithms that serve a size. */
typedef struct lsi_tune_choice {
    int shared, other; /* equal if one serves all memory */
} lsi_tune_choice;

typedef struct lsi_tune {
    const char *operation;
    lsi_tune_algorithm algorithms[LSI_TUNE_ALGORITHMS];
    int n_algorithms;
    lsi_tune_times times[LSI_TUNE_SIZES];  /* ascending sizes */
    lsi_tune_choice usual[LSI_TUNE_SIZES]; /* without a measurement */
    lsi_tune_choice choices[LSI_TUNE_SIZES];
    int n_sizes;
    double margin; /* 0.05: another choice must win by more than 5% */
} lsi_tune;

/*
 * Fills in the choices. This is the usual one, unless the fastest wins by more
 * than the margin; then the one of the size before, under the same condition;
 * then the fastest.
 */
void lsi_tune_choose(lsi_tune *tune);

/*
 * "all_reduce:0-8k:flat;8k-inf:direct|staged"; `most_in_cells` is what an
 * algorithm in cells can serve. Cut to fit. Returns text.
 */
char *lsi_tune_line(const lsi_tune *tune, size_t most_in_cells, char *text,
                    size_t bytes);

#endif
