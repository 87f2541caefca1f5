/* The order of sums in the backward: places in a row and in a column. */
#include "array/compute/attention/flash_order.h"

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* How many of `n` do not wrap around with index k of the other kind. */
static size_t unwrapped(const lsi_flash_order *o, size_t n, size_t k)
{
    const size_t steps = o->rows > o->columns ? o->rows : o->columns;
    return smaller(n, steps - k);
}

size_t lsi_flash_place_in_row(const lsi_flash_order *o, size_t i, size_t j)
{
    const size_t length = lsi_flash_row_length(o, i);
    const size_t later = unwrapped(o, length, i);
    return j >= later ? j - later : length - later + j;
}

size_t lsi_flash_row_at(const lsi_flash_order *o, size_t j, size_t place)
{
    const size_t later = unwrapped(o, o->rows, j);
    const size_t wrapped = o->rows - later;
    return place < wrapped ? later + place : place - wrapped;
}

size_t lsi_flash_next_place(const lsi_flash_order *o, size_t j, size_t place)
{
    while (place < o->rows &&
           j >= lsi_flash_row_length(o, lsi_flash_row_at(o, j, place)))
        place++;
    return place;
}
