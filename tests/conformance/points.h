/*
 * The points of a product of choices, and which pairs of values a part of it
 * covers.
 */
#ifndef LS_TEST_CONFORMANCE_POINTS_H
#define LS_TEST_CONFORMANCE_POINTS_H

#include <stdbool.h>

/* A point of the product; MEMORY is private or shared. */
enum { RANKS, ROW, DTYPE, REDOP, COUNT, PLACE, NUMBERS, MEMORY, DIMENSIONS };
enum { MOST_VALUES = 96 };

typedef struct point {
    int at[DIMENSIONS];
} point;

/* Which pairs of values have been run. */
typedef bool pair_set[DIMENSIONS][MOST_VALUES][DIMENSIONS][MOST_VALUES];

/* Adds the pairs of a point; whether any of them is new. */
bool add_pairs(pair_set seen, const point *p);

#endif
