/*
 * Paths of ranges and stacks of calls. A trail is its last part and the trail
 * that leads there. Equal trails have one number: 1, 2, ... Not thread-safe;
 * the table's memory is not counted.
 */
#ifndef LS_OBSERVE_TRAILS_H
#define LS_OBSERVE_TRAILS_H

#include <stdbool.h>
#include <stdint.h>

enum { LSI_MOST_TRAILS = 1 << 20 }; /* of a file; readers refuse more */

typedef struct lsi_trail {
    uint64_t value;  /* number of a range's name, or address of a call */
    uint32_t parent; /* number of the range or call around it; 0: none */
    bool call;
} lsi_trail;

typedef struct lsi_trails {
    lsi_trail *all; /* by number - 1 */
    uint32_t n, room;
    uint32_t *slots; /* two for each in `room`; 0: free */
} lsi_trails;

/*
 * The number of a trail; 0: a new one without memory for it, or one too many.
 * *is_new: the trail is new.
 */
uint32_t lsi_trail_number(lsi_trails *trails, lsi_trail trail, bool *is_new);

void lsi_trails_free(lsi_trails *trails);

#endif
