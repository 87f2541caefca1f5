#include "base/suspending_clock.h"

#include "base/clock.h"

uint64_t lsi_suspending_clock_ns(void)
{
    static _Thread_local lsi_suspending_clock own;
    return lsi_suspending_clock_read(&own, lsi_clock_ns());
}
