#include "clocks.h"

#include "base/clock.h"

_Atomic uint64_t clock_ahead_ns, clock_step_ns;
atomic_int clock_looks;

/* The names that the linker's --wrap=lsi_clock_ns asks for. */
uint64_t clock_of_test(void) __asm__("__wrap_lsi_clock_ns");
uint64_t real_clock(void) __asm__("__real_lsi_clock_ns");

uint64_t clock_of_test(void)
{
    atomic_fetch_add(&clock_looks, 1);
    const uint64_t step = atomic_load(&clock_step_ns);
    return real_clock() + atomic_fetch_add(&clock_ahead_ns, step) + step;
}

void clock_reset(void)
{
    atomic_store(&clock_step_ns, 0);
    atomic_store(&clock_ahead_ns, 0);
    atomic_store(&clock_looks, 0);
}
