/*
 * Telling jobs apart, also afterwards.
 */
#include <unistd.h>

#include "base/clock.h"
#include "comm/node/transport.h"

enum { PID_BITS = 22 }; /* of the kernel's largest */

/* The time in steps of a millisecond, and the process that makes the job. */
uint64_t lsi_job_number(void)
{
    static _Atomic uint64_t made; /* by this process */
    const uint64_t ms =
        lsi_wall_clock_ns() / 1000000 + atomic_fetch_add(&made, 1);
    return ms << PID_BITS | (uint64_t)getpid();
}
