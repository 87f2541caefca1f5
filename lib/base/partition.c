#include "base/partition.h"

#include <assert.h>

/* Where part `part` begins; part == parts gives n. */
static size_t part_begin(size_t n, size_t parts, size_t part)
{
    size_t quotient = n / parts;
    size_t larger = n % parts;
    return part * quotient + (part < larger ? part : larger);
}

lsi_range lsi_partition(size_t n, size_t parts, size_t part)
{
    assert(parts >= 1 && part < parts);
    return (lsi_range){part_begin(n, parts, part),
                       part_begin(n, parts, part + 1)};
}

lsi_range lsi_partition_aligned(size_t n, size_t parts, size_t part,
                                size_t unit)
{
    assert(unit >= 1);
    size_t whole_units = n / unit;
    size_t units = whole_units + (n % unit != 0);
    lsi_range range = lsi_partition(units, parts, part);
    /* Only the last unit can be short; past it, unit * end could overflow. */
    range.begin = range.begin > whole_units ? n : range.begin * unit;
    range.end = range.end > whole_units ? n : range.end * unit;
    return range;
}
