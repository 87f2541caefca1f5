/* Parts of epochs as text; see partial.h. */
#include "train/jobs/partial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"

/* A number is written so that it comes back as it was. */
enum { NUMBERS = 5, NUMBER_BYTES = 26 };

static void to_numbers(const lsi_partial *p, double numbers[NUMBERS])
{
    numbers[0] = p->totals.loss;
    numbers[1] = p->totals.hits;
    numbers[2] = p->totals.weight;
    numbers[3] = p->seconds;
    numbers[4] = p->peak_bytes;
}

static ls_status print(const double *numbers, size_t n, char **out)
{
    const size_t bytes = n * NUMBER_BYTES + 1;
    LS_TRY(lsi_alloc(out, bytes, LS_MEMORY_OTHER, "numbers as text"));
    size_t at = 0;
    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(*out + at, bytes - at, "%s%.17g",
                               i > 0 ? " " : "", numbers[i]);
    return LS_OK;
}

ls_status lsi_partial_text(ls_group *group, const lsi_partial *own, char **out)
{
    double numbers[NUMBERS];
    void *all;
    const size_t n = NUMBERS * (size_t)ls_group_size(group);
    to_numbers(own, numbers);
    LS_TRY(lsi_alloc(&all, n * sizeof(double), LS_MEMORY_OTHER,
                     "the numbers of all ranks"));
    ls_status status = ls_all_gather(group, numbers, all, NUMBERS, LS_F64);
    if (status == LS_OK)
        status = print(all, n, out);
    lsi_free(all);
    return status;
}

/* The next NUMBERS numbers; false if there are fewer. */
static bool scan(const char **text, double numbers[NUMBERS])
{
    for (int i = 0; i < NUMBERS; i++) {
        char *end;
        numbers[i] = strtod(*text, &end);
        if (end == *text)
            return false;
        *text = end;
    }
    return true;
}

ls_status lsi_partial_parse(lsi_partial *own, const char *text, int rank,
                            int size)
{
    double numbers[NUMBERS];
    *own = (lsi_partial){0};
    int saved = 0;
    for (; scan(&text, numbers); saved++) {
        own->seconds = fmax(own->seconds, numbers[3]);
        own->peak_bytes = fmax(own->peak_bytes, numbers[4]);
        if (saved % size != rank)
            continue;
        own->totals.loss += numbers[0];
        own->totals.hits += numbers[1];
        own->totals.weight += numbers[2];
    }
    if (saved == 0 || *text != '\0')
        return lsi_fail(LS_ERR_FORMAT,
                        "the checkpoint's sums of its epoch are incomplete");
    return LS_OK;
}
