/*
 * Sets of CPUs, by the numbers of the operating system.
 */
#ifndef LS_BASE_CPUSET_H
#define LS_BASE_CPUSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LSI_CPUSET_MAX = 8192, /* more than Linux can be built for */
    LSI_CPUSET_WORDS = LSI_CPUSET_MAX / 64
};

/* Zeroed: the empty set. */
typedef struct lsi_cpuset {
    uint64_t words[LSI_CPUSET_WORDS];
} lsi_cpuset;

static inline bool lsi_cpuset_has(const lsi_cpuset *set, int cpu)
{
    return cpu >= 0 && cpu < LSI_CPUSET_MAX &&
           (set->words[cpu / 64] >> (cpu % 64) & 1) != 0;
}

/* Numbers that no CPU can have are left out. */
static inline void lsi_cpuset_add(lsi_cpuset *set, int cpu)
{
    if (cpu >= 0 && cpu < LSI_CPUSET_MAX)
        set->words[cpu / 64] |= UINT64_C(1) << (cpu % 64);
}

int lsi_cpuset_count(const lsi_cpuset *set);

/* Whether all of `inner` are in `outer`. */
bool lsi_cpuset_within(const lsi_cpuset *inner, const lsi_cpuset *outer);

/* From the kernel's form, "0-3,8", with a line break or not; "" is none. */
bool lsi_cpuset_parse(const char *text, lsi_cpuset *out);

/*
 * To that form. If it does not fit it ends with "..."; `bytes` is at least 4.
 * "none" for the empty set.
 */
void lsi_cpuset_text(const lsi_cpuset *set, char *out, size_t bytes);

/*
 * The affinity mask of the calling thread. False if the kernel does not tell,
 * as in a sandbox that denies the call.
 */
bool lsi_cpuset_own(lsi_cpuset *out);

/* Binds the calling thread to a set (not empty); false if it cannot be. */
bool lsi_cpuset_bind(const lsi_cpuset *set);

#endif
