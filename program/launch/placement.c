/* Places the ranks of a job, and describes the result. */
#include "launch/placement.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cgroup.h"
#include "base/cpus.h"
#include "base/error.h"

int lsi_placement_available(const lsi_placement *placement)
{
    int cpus = lsi_cpuset_count(&placement->allowed);
    if (placement->quota > 0 && placement->quota < cpus)
        cpus = (int)ceil(placement->quota);
    return cpus < 1 ? 1 : cpus;
}

static void choose_threads(lsi_placement *p, int threads)
{
    const int available = lsi_placement_available(p);
    if (threads <= 0)
        threads = lsi_threads_default(
            p->places == NULL
                ? available / p->ranks
                : lsi_binding_threads(p->mode, p->places, p->ranks, available));
    p->threads = threads;
}

/* On a CPU that ranks share, the threads of a rank would wait for turns. */
static bool shares_cpus_with_threads(const lsi_placement *p)
{
    return p->mode == LSI_BINDING_CPU && p->threads > 1 &&
           p->ranks > lsi_cpuset_count(&p->allowed);
}

ls_status lsi_placement_new(const lsi_topology *topology, double quota,
                            lsi_binding_mode mode, int ranks, int threads,
                            lsi_placement *out)
{
    lsi_placement p = {.mode = mode, .ranks = ranks, .quota = quota};
    for (size_t i = 0; i < topology->n; i++) {
        if (topology->cpus[i].allowed)
            lsi_cpuset_add(&p.allowed, topology->cpus[i].cpu);
    }
    if (mode != LSI_BINDING_NONE && !(mode == LSI_BINDING_CPU && ranks == 1)) {
        p.places = calloc((size_t)ranks, sizeof(*p.places));
        ls_status status = LS_OK;
        if (p.places == NULL)
            status = lsi_fail(LS_ERR_MEMORY, "not enough memory for %d ranks",
                              ranks);
        else
            status = lsi_binding_divide(topology, mode, ranks, p.places);
        if (status != LS_OK) {
            free(p.places);
            return status;
        }
    }
    choose_threads(&p, threads);
    if (shares_cpus_with_threads(&p))
        lsi_placement_free(&p);
    *out = p;
    return LS_OK;
}

void lsi_placement_here(lsi_binding_mode mode, int ranks, int threads,
                        lsi_placement *out)
{
    lsi_placement p = {
        .mode = LSI_BINDING_NONE,
        .ranks = ranks,
        .quota = lsi_cgroup_cpu_limit("/proc/self/cgroup", "/sys/fs/cgroup")};
    const bool is_known = lsi_cpuset_own(&p.allowed);
    const bool binds =
        mode != LSI_BINDING_NONE && !(mode == LSI_BINDING_CPU && ranks == 1);
    lsi_topology machine;
    if (is_known && binds && lsi_topology_read(&machine) == LS_OK) {
        /* A machine described by variables is not this one. */
        const bool is_here =
            lsi_topology_restrict(&machine, &p.allowed) == LS_OK &&
            lsi_placement_new(&machine, p.quota, mode, ranks, threads, out) ==
                LS_OK;
        lsi_topology_free(&machine);
        if (is_here)
            return;
    }
    choose_threads(&p, threads);
    *out = p;
}

bool lsi_placement_limit(lsi_placement *placement, int threads, int most)
{
    if (threads > 0 || lsi_threads_requested() > 0 ||
        placement->threads <= most)
        return false;
    placement->threads = most;
    return true;
}

void lsi_placement_free(lsi_placement *placement)
{
    free(placement->places);
    placement->places = NULL;
}

const lsi_cpuset *lsi_placement_place(const lsi_placement *placement, int rank)
{
    const lsi_cpuset *const place =
        placement->places != NULL ? &placement->places[rank] : NULL;
    return place != NULL && lsi_cpuset_count(place) > 0 ? place : NULL;
}

/* ---- in words --------------------------------------------------------- */

static const char *plural(int n)
{
    return n == 1 ? "" : "s";
}

void lsi_placement_line(const lsi_placement *p, char *out, size_t bytes)
{
    char cpus[25], quota[64] = "", bound[32] = "not bound";
    const int n = lsi_cpuset_count(&p->allowed);
    lsi_cpuset_text(&p->allowed, cpus, sizeof(cpus));
    if (p->quota > 0)
        snprintf(quota, sizeof(quota), ", a cgroup quota of %g CPUs", p->quota);
    if (lsi_placement_place(p, 0) != NULL)
        snprintf(bound, sizeof(bound), "bound by %s",
                 lsi_binding_name(p->mode));
    snprintf(out, bytes, "%d rank%s x %d thread%s on %d CPU%s (%s)%s, %s",
             p->ranks, plural(p->ranks), p->threads, plural(p->threads), n,
             plural(n), cpus, quota, bound);
}

/* The reason for the limit on CPUs, or "". */
static void reason(const lsi_placement *p, int online, char *out, size_t bytes)
{
    const int allowed = lsi_cpuset_count(&p->allowed);
    out[0] = '\0';
    if (p->quota > 0 && p->quota < allowed)
        snprintf(out, bytes, " (limited by the cgroup quota cpu.max to %g)",
                 p->quota);
    else if (allowed < online)
        snprintf(
            out, bytes,
            " (this machine has %d; taskset, a cpuset or the batch system, for "
            "example Slurm's --cpus-per-task, excludes the other CPUs)",
            online);
}

bool lsi_placement_is_crowded(const lsi_placement *p, int online, char *out,
                              size_t bytes)
{
    const int cpus = lsi_placement_available(p);
    char why[160], advice[64];
    if ((long)p->ranks * p->threads <= cpus)
        return false;
    reason(p, online, why, sizeof(why));
    if (p->ranks <= cpus)
        snprintf(advice, sizeof(advice), "--threads %d", cpus / p->ranks);
    else
        snprintf(advice, sizeof(advice), "-n %d%s", cpus,
                 p->threads > 1 ? " --threads 1" : "");
    snprintf(out, bytes,
             "warning: %d rank%s x %d thread%s share %d CPU%s%s and will slow "
             "each other down; use %s",
             p->ranks, plural(p->ranks), p->threads, plural(p->threads), cpus,
             plural(cpus), why, advice);
    return true;
}
