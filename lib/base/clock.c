#include "base/clock.h"

#include <time.h>

static uint64_t read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

uint64_t lsi_clock_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t lsi_wall_clock_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

lsi_instant lsi_instant_now(void)
{
    return (lsi_instant){lsi_ticks(), lsi_clock_ns()};
}

uint64_t lsi_ticks_to_ns(uint64_t ticks, lsi_instant early, lsi_instant late)
{
    if (late.ticks <= early.ticks)
        return late.ns;
    const double ns_per_tick =
        (double)(late.ns - early.ns) / (double)(late.ticks - early.ticks);
    const double before = (double)(int64_t)(late.ticks - ticks) * ns_per_tick;
    return (uint64_t)((int64_t)late.ns - (int64_t)before);
}
