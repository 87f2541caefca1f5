/*
 * Prefixes first, then edit distance: the beginning of a name means that name
 * more often than a name with similar spelling.
 */
#include "base/suggest.h"

#include <stdio.h>
#include <string.h>

enum { LONGEST = 64, MOST_NAMES = 3, SHORTEST_STEM = 4 };

char lsi_name_letter(char letter)
{
    if (letter == '_')
        return '-';
    return letter >= 'A' && letter <= 'Z' ? (char)(letter | 0x20) : letter;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Of one letter of `b`, from the costs of the letters before it. */
static size_t cost(const char *a, const char *b, size_t i, size_t row,
                   size_t (*costs)[LONGEST + 1])
{
    const size_t now = row % 3, before = (row + 2) % 3, twice = (row + 1) % 3;
    size_t best = smaller(costs[before][i], costs[now][i - 1]) + 1;
    best = smaller(best, costs[before][i - 1] + (a[i - 1] != b[row - 1]));
    if (row > 1 && i > 1 && a[i - 1] == b[row - 2] && a[i - 2] == b[row - 1])
        best = smaller(best, costs[twice][i - 2] + 1);
    return best;
}

size_t lsi_edit_distance(const char *a, size_t a_length, const char *b)
{
    size_t costs[3][LONGEST + 1];
    const size_t columns = smaller(a_length, LONGEST);
    size_t row = 0;
    for (size_t i = 0; i <= columns; i++)
        costs[0][i] = i;
    for (row = 1; b[row - 1] != '\0'; row++) {
        costs[row % 3][0] = row;
        for (size_t i = 1; i <= columns; i++)
            costs[row % 3][i] = cost(a, b, i, row, costs);
    }
    return costs[(row - 1) % 3][columns];
}

/* The typed text, as names are compared. */
typedef struct word {
    char text[LONGEST + 1];
    size_t length;
} word;

static bool begins(const word *typed, const char *name)
{
    return typed->length >= 2 && strncmp(name, typed->text, typed->length) == 0;
}

/* A name that the word continues: "bench" of "benchmark". */
static bool continues(const word *typed, const char *name)
{
    const size_t length = strlen(name);
    return length >= SHORTEST_STEM && strncmp(typed->text, name, length) == 0;
}

typedef struct found {
    const char *names[MOST_NAMES];
    size_t n; /* may be more than there is room for */
} found;

/* Adds a name to those found. */
static void add(found *f, const char *name)
{
    if (f->n < MOST_NAMES)
        f->names[f->n] = name;
    f->n++;
}

static void find_if(bool (*is)(const word *, const char *), const word *typed,
                    const lsi_known_names *known, found *out)
{
    out->n = 0;
    for (size_t i = 0; i < known->n; i++)
        if (is(typed, known->names[i]))
            add(out, known->names[i]);
}

/* One change for each three letters, at least one of two. */
static void find_nearest(const word *typed, const lsi_known_names *known,
                         found *out)
{
    size_t best = (typed->length + 1) / 3;
    out->n = 0;
    for (size_t i = 0; i < known->n; i++) {
        const size_t distance =
            lsi_edit_distance(typed->text, typed->length, known->names[i]);
        if (distance > best || distance >= typed->length)
            continue;
        if (distance < best)
            out->n = 0;
        best = distance;
        add(out, known->names[i]);
    }
}

static void print(const found *f, const lsi_known_names *known,
                  char out[LSI_SUGGESTION_BYTES])
{
    size_t used = 0;
    for (size_t i = 0; i < f->n && used < LSI_SUGGESTION_BYTES; i++) {
        const char *const joint = i == 0 ? "" : i + 1 == f->n ? " or " : ", ";
        used += (size_t)snprintf(out + used, LSI_SUGGESTION_BYTES - used,
                                 "%s%s%s%s", joint, known->before, f->names[i],
                                 known->after);
    }
}

bool lsi_suggest(const char *typed, size_t length, const lsi_known_names *known,
                 char out[LSI_SUGGESTION_BYTES])
{
    word w = {.length = smaller(length, LONGEST)};
    found f;
    for (size_t i = 0; i < w.length; i++)
        w.text[i] = lsi_name_letter(typed[i]);
    find_if(begins, &w, known, &f);
    if (f.n == 0 || f.n > MOST_NAMES)
        find_nearest(&w, known, &f);
    if (f.n == 0)
        find_if(continues, &w, known, &f);
    if (f.n == 0 || f.n > MOST_NAMES)
        return false;
    print(&f, known, out);
    return true;
}
