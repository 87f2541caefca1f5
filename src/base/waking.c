#include "base/waking.h"

#include "base/clock.h"

uint64_t lsi_waking_ns(void)
{
    static _Thread_local lsi_waking own;
    return lsi_waking_look(&own, lsi_clock_ns());
}
