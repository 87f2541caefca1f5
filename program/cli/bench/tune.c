#include "cli/bench/tune.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- choosing --------------------------------------------------------- */

/* The logarithm of both times' product; infinite if it cannot be. */
static double cost_of(const lsi_tune *tune, int size, lsi_tune_choice c)
{
    const lsi_tune_times *times = &tune->times[size];
    const double shared = times->seconds[LSI_TUNE_SHARED][c.shared];
    const double other = times->seconds[LSI_TUNE_PRIVATE][c.other];
    return shared > 0 && other > 0 ? log(shared) + log(other) : INFINITY;
}

static bool is_possible(const lsi_tune *tune, lsi_tune_choice c)
{
    const lsi_tune_algorithm *shared = &tune->algorithms[c.shared];
    const lsi_tune_algorithm *other = &tune->algorithms[c.other];
    return !other->direct &&
           (c.shared == c.other || (shared->direct && !other->in_cells));
}

static lsi_tune_choice best_of(const lsi_tune *tune, int size)
{
    lsi_tune_choice best = {0, 0};
    double least = INFINITY;
    for (int s = 0; s < tune->n_algorithms; s++)
        for (int o = 0; o < tune->n_algorithms; o++) {
            const lsi_tune_choice c = {s, o};
            const double cost = cost_of(tune, size, c);
            if (is_possible(tune, c) && cost < least) {
                least = cost;
                best = c;
            }
        }
    return best;
}

static bool is_as_good(const lsi_tune *tune, int size, lsi_tune_choice c,
                       lsi_tune_choice best)
{
    return is_possible(tune, c) &&
           cost_of(tune, size, c) <= cost_of(tune, size, best) + tune->margin;
}

void lsi_tune_choose(lsi_tune *tune)
{
    for (int i = 0; i < tune->n_sizes; i++) {
        const lsi_tune_choice best = best_of(tune, i);
        const lsi_tune_choice usual = tune->usual[i];
        const lsi_tune_choice before = i == 0 ? usual : tune->choices[i - 1];
        tune->choices[i] = is_as_good(tune, i, usual, best)    ? usual
                           : is_as_good(tune, i, before, best) ? before
                                                               : best;
    }
}

/* ---- the line --------------------------------------------------------- */

static bool same(lsi_tune_choice a, lsi_tune_choice b)
{
    return a.shared == b.shared && a.other == b.other;
}

/*
 * "direct|ring|staged": an algorithm that may not work precedes one that does.
 */
static void name_choice(const lsi_tune *tune, lsi_tune_choice c, char *text)
{
    const lsi_tune_algorithm *other = &tune->algorithms[c.other];
    const bool falls_back =
        other->limited && strcmp(other->name, "staged") != 0;
    snprintf(text, LSI_TUNE_NAMES, "%s%s%s%s",
             c.shared == c.other ? "" : tune->algorithms[c.shared].name,
             c.shared == c.other ? "" : "|", other->name,
             falls_back ? "|staged" : "");
}

/* The geometric mean of this size and the next measured size. */
static size_t end_of(const lsi_tune *tune, int size)
{
    if (size + 1 == tune->n_sizes)
        return (size_t)-1;
    return (size_t)sqrt((double)tune->times[size].bytes *
                        (double)tune->times[size + 1].bytes);
}

static void name_size(size_t bytes, char *text)
{
    if (bytes == (size_t)-1)
        snprintf(text, LSI_TUNE_NAMES, "inf");
    else if (bytes % 1024 == 0 && bytes > 0)
        snprintf(text, LSI_TUNE_NAMES, "%zuk", bytes / 1024);
    else
        snprintf(text, LSI_TUNE_NAMES, "%zu", bytes);
}

static size_t append_range(const lsi_tune *tune, size_t begin, size_t end,
                           lsi_tune_choice c, char *text)
{
    char from[LSI_TUNE_NAMES], to[LSI_TUNE_NAMES], names[LSI_TUNE_NAMES];
    name_size(begin, from);
    name_size(end, to);
    name_choice(tune, c, names);
    return (size_t)sprintf(text, "%s%s-%s:%s", begin == 0 ? ":" : ";", from, to,
                           names);
}

char *lsi_tune_line(const lsi_tune *tune, size_t most_in_cells, char *text,
                    size_t bytes)
{
    enum { RANGE = 4 * LSI_TUNE_NAMES };
    size_t begin = 0;
    size_t used = (size_t)snprintf(text, bytes, "%s", tune->operation);
    for (int i = 0; i < tune->n_sizes && used + RANGE < bytes; i++) {
        const lsi_tune_choice c = tune->choices[i];
        size_t end = end_of(tune, i);
        if (i + 1 < tune->n_sizes && same(c, tune->choices[i + 1]))
            continue; /* one range with the next */
        /* Larger sizes are left to the default. */
        if (tune->algorithms[c.other].in_cells && end > most_in_cells)
            end = most_in_cells;
        used += append_range(tune, begin, end, c, text + used);
        begin = end;
    }
    return text;
}
