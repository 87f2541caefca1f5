/*
 * Loss, hits and samples, summed in double.
 */
#include "train/jobs/totals.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "lockstep/nn.h"

ls_status lsi_totals_add(lsi_totals *totals, const lsi_forward *forward)
{
    double loss;
    int64_t hits;
    LS_TRY(ls_tensor_item(forward->loss, &loss));
    LS_TRY(ls_count_correct(forward->logits, forward->labels, &hits));
    totals->loss += loss * forward->weight;
    totals->hits += (double)hits;
    totals->weight += forward->weight;
    return LS_OK;
}

ls_status lsi_totals_reduce(lsi_totals *totals, ls_group *group)
{
    double sums[3] = {totals->loss, totals->hits, totals->weight};
    LS_TRY(ls_reduce(group, sums, sums, 3, LS_F64, LS_REDUCE_SUM, 0));
    if (ls_group_rank(group) == 0)
        *totals = (lsi_totals){sums[0], sums[1], sums[2]};
    return LS_OK;
}

double lsi_totals_loss(const lsi_totals *totals)
{
    return totals->weight > 0 ? totals->loss / totals->weight : 0.0;
}

double lsi_totals_accuracy(const lsi_totals *totals)
{
    return totals->weight > 0 ? totals->hits / totals->weight : 0.0;
}

/* ---- as a value of a checkpoint ------------------------------------------ */

/* A number is written with the digits to restore its exact value. */
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
    LS_TRY(lsi_alloc(out, bytes, LS_MEMORY_OTHER, "the totals as text"));
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
                     "the totals of all ranks"));
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
        return lsi_fail(LS_ERR_FORMAT, "the checkpoint is damaged: the sums of "
                                       "its unfinished epoch are incomplete");
    return LS_OK;
}
