/* Monotonic time, and a cheaper counter for what happens very often. */
#ifndef LS_BASE_CLOCK_H
#define LS_BASE_CLOCK_H

#include <stdint.h>

uint64_t lsi_clock_ns(void);

/* Since 1970, for people and for comparing machines. */
uint64_t lsi_wall_clock_ns(void);

static inline double lsi_clock_seconds(void)
{
    return (double)lsi_clock_ns() * 1e-9;
}

static inline double lsi_wall_clock_seconds(void)
{
    return (double)lsi_wall_clock_ns() * 1e-9;
}

/*
 * The processor's own clock, which ticks evenly and alike on all CPUs; how
 * fast, two instants tell.
 */
static inline uint64_t lsi_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return lsi_clock_ns();
#endif
}

/* Both clocks at the same time. */
typedef struct lsi_instant {
    uint64_t ticks, ns;
} lsi_instant;

lsi_instant lsi_instant_now(void);

/* When the ticks were counted, in the time of lsi_clock_ns. */
uint64_t lsi_ticks_to_ns(uint64_t ticks, lsi_instant early, lsi_instant late);

#endif
