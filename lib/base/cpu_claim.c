#include "base/cpu_claim.h"

#include <math.h>

#include "base/cpus.h"
#include "base/hash.h"
#include "base/proc.h"

static uint64_t own_machine(void)
{
    char text[64];
    const ssize_t got =
        lsi_proc_read("/proc/sys/kernel/random/boot_id", text, sizeof(text));
    return got <= 0 ? 0 : lsi_hash(LSI_HASH_START, text, (size_t)got);
}

void lsi_cpu_claim_here(int ranks, lsi_cpu_claim *out)
{
    *out = (lsi_cpu_claim){.machine = own_machine(), .ranks = ranks};
    out->quota = lsi_cpus_quota(&out->quota_of);
    if (!lsi_cpuset_own(&out->cpus))
        out->machine = 0;
}

static int ranks_on(const lsi_cpu_claim *all, size_t n, uint64_t machine,
                    int cpu)
{
    int ranks = 0;
    for (size_t i = 0; i < n; i++)
        if (all[i].machine == machine && lsi_cpuset_has(&all[i].cpus, cpu))
            ranks += all[i].ranks;
    return ranks;
}

/* As elsewhere, a quota of 2.5 CPUs counts as 3. */
static double share_of_quota(const lsi_cpu_claim *all, size_t n,
                             const lsi_cpu_claim *own)
{
    int ranks = 0;
    for (size_t i = 0; i < n; i++)
        if (all[i].machine == own->machine && all[i].quota_of == own->quota_of)
            ranks += all[i].ranks;
    return ceil(own->quota) / ranks;
}

int lsi_cpu_claim_share(const lsi_cpu_claim *all, size_t n, size_t which)
{
    const lsi_cpu_claim *const own = &all[which];
    bool alone = true;
    double share = 1e-9; /* makes up for rounding */
    for (size_t i = 0; i < n; i++)
        alone = alone && (i == which || all[i].machine != own->machine);
    if (alone || own->machine == 0)
        return 0;
    for (int cpu = 0; cpu < LSI_CPUSET_MAX; cpu++)
        if (lsi_cpuset_has(&own->cpus, cpu))
            share += 1.0 / ranks_on(all, n, own->machine, cpu);
    if (own->quota > 0)
        share = fmin(share, share_of_quota(all, n, own) + 1e-9);
    return share < 1 ? 1 : (int)share;
}
