/* Monotonic time. */
#ifndef LS_BASE_CLOCK_H
#define LS_BASE_CLOCK_H

#include <stdint.h>

uint64_t lsi_clock_ns(void);

static inline double lsi_clock_seconds(void)
{
    return (double)lsi_clock_ns() * 1e-9;
}

#endif
