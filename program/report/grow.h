/* Arrays of the readers of recorded files, whose lengths no header says. */
#ifndef LS_REPORT_GROW_H
#define LS_REPORT_GROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

/* Makes room for one more behind n; arrays double. False: no memory. */
static inline bool lsi_grow_array(void **array, size_t n, size_t *room,
                                  size_t size)
{
    if (n < *room)
        return true;
    const size_t more = *room == 0 ? 64 : 2 * *room;
    void *const larger = realloc(*array, more * size);
    if (larger == NULL)
        return false;
    *array = larger;
    *room = more;
    return true;
}

#endif
