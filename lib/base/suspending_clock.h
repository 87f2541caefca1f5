/*
 * Time for waits. A process that was stopped (Ctrl-Z, a freezer, a paused
 * container) comes back to a clock that has gone on, and its peers were most
 * likely stopped with it. So the suspending clock advances by at most two
 * slices between two looks, and a waiting thread looks at least every slice.
 */
#ifndef LS_BASE_SUSPENDING_CLOCK_H
#define LS_BASE_SUSPENDING_CLOCK_H

#include <stdint.h>

#define LSI_SLICE_MS 100
#define LSI_SLICE_NS ((uint64_t)LSI_SLICE_MS * 1000 * 1000)

/* Starts as zero; then `ns` is time of the suspending clock since some moment.
 */
typedef struct lsi_suspending_clock {
    uint64_t seen_ns; /* by the clock, at the last look */
    uint64_t ns;
} lsi_suspending_clock;

static inline uint64_t lsi_suspending_clock_read(lsi_suspending_clock *time,
                                                 uint64_t clock_ns)
{
    const uint64_t passed = clock_ns - time->seen_ns;
    const uint64_t most = 2 * LSI_SLICE_NS;
    if (time->seen_ns == 0)
        time->ns = clock_ns;
    else
        time->ns += passed < most ? passed : most;
    time->seen_ns = clock_ns;
    return time->ns;
}

/* The time of this thread; never 0. Times of two threads cannot be compared. */
uint64_t lsi_suspending_clock_ns(void);

static inline double lsi_suspending_clock_seconds(void)
{
    return (double)lsi_suspending_clock_ns() * 1e-9;
}

#endif
