/* Lists in flags: "2,4,6", "4k,10m". */
#ifndef LS_CLI_FRAME_LIST_H
#define LS_CLI_FRAME_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "lockstep/status.h"

enum { LSI_LIST_MAX = 256 };

typedef struct lsi_list {
    int64_t values[LSI_LIST_MAX];
    size_t n;
} lsi_list;

/*
 * Parses a list of numbers, or of sizes (512, 4k, 10m, 1g), each within min
 * and max. `flag` names it in errors. At least one value.
 */
ls_status lsi_list_of_numbers(const char *flag, const char *text, int64_t min,
                              int64_t max, lsi_list *out);
ls_status lsi_list_of_sizes(const char *flag, const char *text, int64_t min,
                            int64_t max, lsi_list *out);

/* From min to max, each `add` more than the one before, or if that is 0
 * `factor` times as much. */
typedef struct lsi_list_steps {
    int64_t min, max, add, factor;
} lsi_list_steps;

/* For the flags -b and -e. A size of 0 is followed by 1. */
ls_status lsi_list_of_steps(const lsi_list_steps *steps, lsi_list *out);

/*
 * Calls fn for each word of a list; each is given the same context. Ends at the
 * first that fails.
 */
typedef ls_status (*lsi_word_fn)(void *context, const char *word);
ls_status lsi_each_word(const char *flag, const char *text, lsi_word_fn fn,
                        void *context);

#endif
