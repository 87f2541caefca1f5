/* Growing arrays from malloc. */
#ifndef LS_BASE_GROW_H
#define LS_BASE_GROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/*
 * Makes room for one more after n elements of `size` bytes; the room doubles.
 * `array` is the address of the pointer. False: no memory.
 */
static inline bool lsi_grow_array(void *array, size_t n, size_t *room,
                                  size_t size)
{
    void *larger;
    if (n < *room)
        return true;
    const size_t more = *room == 0 ? 64 : 2 * *room;
    memcpy(&larger, array, sizeof(larger));
    larger = realloc(larger, more * size);
    if (larger == NULL)
        return false;
    memcpy(array, &larger, sizeof(larger));
    *room = more;
    return true;
}

#endif
