/*
 * Divides the machine between ranks. CPUs are listed so that neighbours are
 * close: a contiguous part of the list is a good place for a rank.
 */
#include "launch/binding.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static const char *const names[] = {"cpu", "core", "numa", "none"};

lsi_binding_mode lsi_binding_parse(const char *name)
{
    lsi_binding_mode mode = LSI_BINDING_CPU;
    while (name != NULL && mode < LSI_BINDING_NONE &&
           strcmp(name, names[mode]) != 0)
        mode++;
    return mode;
}

const char *lsi_binding_name(lsi_binding_mode mode)
{
    return names[mode];
}

/* ---- the machine ------------------------------------------------------ */

void lsi_topology_free(lsi_topology *machine)
{
    free(machine->cpus);
    free(machine->nodes);
    *machine = (lsi_topology){0};
}

ls_status lsi_topology_restrict(lsi_topology *machine, const lsi_cpuset *to)
{
    size_t left = 0;
    for (size_t i = 0; i < machine->n; i++)
        left += machine->cpus[i].allowed &&
                lsi_cpuset_has(to, machine->cpus[i].cpu);
    if (left == 0)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "this process is not allowed to run on any of the selected CPUs");
    for (size_t i = 0; i < machine->n; i++)
        machine->cpus[i].allowed = machine->cpus[i].allowed &&
                                   lsi_cpuset_has(to, machine->cpus[i].cpu);
    return LS_OK;
}

/* ---- parts of the list ------------------------------------------------ */

static size_t count_cores(const lsi_hardware_thread *cpus, size_t n)
{
    size_t cores = 0;
    for (size_t i = 0; i < n; i++)
        cores += i == 0 || cpus[i].core != cpus[i - 1].core;
    return cores;
}

/*
 * The index of the first CPU of core number `core` of the list; n past the end.
 */
static size_t core_begin(const lsi_hardware_thread *cpus, size_t n, size_t core)
{
    size_t seen = 0;
    for (size_t i = 0; i < n; i++) {
        seen += i == 0 || cpus[i].core != cpus[i - 1].core;
        if (seen == core + 1)
            return i;
    }
    return n;
}

lsi_range lsi_binding_share(const lsi_hardware_thread *cpus, size_t n,
                            int ranks, int rank)
{
    if (n < (size_t)ranks)
        return (lsi_range){0, 0};
    const size_t cores = count_cores(cpus, n);
    if (cores < (size_t)ranks)
        return lsi_partition(n, (size_t)ranks, (size_t)rank);
    const lsi_range share = lsi_partition(cores, (size_t)ranks, (size_t)rank);
    return (lsi_range){core_begin(cpus, n, share.begin),
                       core_begin(cpus, n, share.end)};
}

static void add_range(lsi_cpuset *set, const lsi_hardware_thread *cpus,
                      lsi_range range)
{
    for (size_t i = range.begin; i < range.end; i++)
        lsi_cpuset_add(set, cpus[i].cpu);
}

/*
 * With fewer CPUs than ranks: each CPU gets equally many ranks. The scheduler
 * lets three of four stay on one of two CPUs if they take turns there. If the
 * numbers do not divide, only the scheduler can be fair.
 */
static void share_cpus(const lsi_hardware_thread *cpus, size_t n, size_t ranks,
                       lsi_cpuset *out)
{
    if (ranks % n != 0)
        return;
    for (size_t rank = 0; rank < ranks; rank++)
        lsi_cpuset_add(&out[rank], cpus[rank * n / ranks].cpu);
}

static void divide_list(const lsi_hardware_thread *cpus, size_t n, int ranks,
                        lsi_cpuset *out)
{
    if (n < (size_t)ranks) {
        share_cpus(cpus, n, (size_t)ranks, out);
        return;
    }
    for (int rank = 0; rank < ranks; rank++)
        add_range(&out[rank], cpus, lsi_binding_share(cpus, n, ranks, rank));
}

/* ---- NUMA nodes ------------------------------------------------------- */

/* The CPUs of a NUMA node, which are neighbours in the list, and its ranks. */
typedef struct group {
    lsi_range cpus;
    size_t cores;
    int first_rank, ranks;
} group;

static size_t find_groups(const lsi_hardware_thread *cpus, size_t n,
                          group *groups)
{
    size_t found = 0;
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || cpus[i].node != cpus[i - 1].node)
            groups[found++] = (group){.cpus = {i, i}};
        groups[found - 1].cpus.end = i + 1;
    }
    for (size_t g = 0; g < found; g++)
        groups[g].cores = count_cores(cpus + groups[g].cpus.begin,
                                      lsi_range_size(groups[g].cpus));
    return found;
}

/*
 * Whether a further rank gets more cores there or, if equal, fewer neighbours.
 */
static bool is_better(const group *a, const group *b)
{
    const size_t at_a = a->cores * (size_t)(b->ranks + 1);
    const size_t at_b = b->cores * (size_t)(a->ranks + 1);
    return at_a > at_b || (at_a == at_b && a->ranks < b->ranks);
}

/*
 * Each rank in turn goes where it gets the most cores. This maximises the cores
 * of the rank that has the fewest. Neighbouring ranks stay together.
 */
static void deal_ranks(group *groups, size_t n, int ranks)
{
    for (int k = 0; k < ranks; k++) {
        group *best = &groups[0];
        for (group *g = groups + 1; g < groups + n; g++) {
            if (is_better(g, best))
                best = g;
        }
        best->ranks++;
    }
    for (size_t g = 1; g < n; g++)
        groups[g].first_rank = groups[g - 1].first_rank + groups[g - 1].ranks;
}

/*
 * With fewer cores than ranks: each core gets equally many ranks, or one more.
 */
static void share_cores(const lsi_hardware_thread *cpus, const group *g,
                        lsi_cpuset *out)
{
    const lsi_hardware_thread *const first = cpus + g->cpus.begin;
    const size_t n = lsi_range_size(g->cpus);
    for (int i = 0; i < g->ranks; i++) {
        const size_t core = (size_t)i * g->cores / (size_t)g->ranks;
        add_range(&out[g->first_rank + i], first,
                  (lsi_range){core_begin(first, n, core),
                              core_begin(first, n, core + 1)});
    }
}

static size_t count_of_kind(const lsi_hardware_thread *cpus, lsi_range range,
                            int kind)
{
    size_t cores = 0;
    for (size_t i = range.begin; i < range.end; i++)
        cores += cpus[i].kind == kind &&
                 (i == range.begin || cpus[i].core != cpus[i - 1].core);
    return cores;
}

/* Adds the cores in a range of a kind, counted from 0. */
static void add_cores(const lsi_hardware_thread *cpus, lsi_range range,
                      int kind, lsi_range cores, lsi_cpuset *set)
{
    size_t seen = 0;
    for (size_t i = range.begin; i < range.end; i++) {
        if (cpus[i].kind != kind)
            continue;
        seen += i == range.begin || cpus[i].core != cpus[i - 1].core;
        if (seen > cores.begin && seen <= cores.end)
            lsi_cpuset_add(set, cpus[i].cpu);
    }
}

/*
 * Divides the cores of a kind among the ranks of a group. The remaining cores
 * go to the ranks from number `next` on. Returns the next rank, for the next
 * kind. So over all kinds, no rank has two cores more than another.
 */
static size_t divide_kind(const lsi_hardware_thread *cpus, const group *g,
                          int kind, size_t next, lsi_cpuset *out)
{
    const size_t ranks = (size_t)g->ranks;
    const size_t cores = count_of_kind(cpus, g->cpus, kind);
    const size_t rest = cores % ranks;
    size_t begin = 0;
    for (size_t rank = 0; rank < ranks; rank++) {
        const bool one_more = (rank + ranks - next) % ranks < rest;
        const size_t end = begin + cores / ranks + one_more;
        add_cores(cpus, g->cpus, kind, (lsi_range){begin, end},
                  &out[(size_t)g->first_rank + rank]);
        begin = end;
    }
    return (next + rest) % ranks;
}

static void divide_cores(const lsi_hardware_thread *cpus, const group *g,
                         lsi_cpuset *out)
{
    size_t next = 0;
    int fastest = 0;
    if (g->cores < (size_t)g->ranks) {
        share_cores(cpus, g, out);
        return;
    }
    for (size_t i = g->cpus.begin; i < g->cpus.end; i++)
        fastest = cpus[i].kind > fastest ? cpus[i].kind : fastest;
    for (int kind = fastest; kind >= 0; kind--)
        next = divide_kind(cpus, g, kind, next, out);
}

static void divide_groups(const lsi_hardware_thread *cpus, group *groups,
                          size_t n, bool by_core, int ranks, lsi_cpuset *out)
{
    deal_ranks(groups, n, ranks);
    for (size_t g = 0; g < n; g++) {
        if (by_core && groups[g].ranks > 0)
            divide_cores(cpus, &groups[g], out);
        for (int r = 0; r < groups[g].ranks && !by_core; r++)
            add_range(&out[groups[g].first_rank + r], cpus, groups[g].cpus);
    }
}

/* With fewer ranks than nodes. */
static void divide_nodes(const lsi_hardware_thread *cpus, const group *groups,
                         size_t n, int ranks, lsi_cpuset *out)
{
    for (int rank = 0; rank < ranks; rank++) {
        const lsi_range own = lsi_partition(n, (size_t)ranks, (size_t)rank);
        for (size_t g = own.begin; g < own.end; g++)
            add_range(&out[rank], cpus, groups[g].cpus);
    }
}

/* ---- all of it -------------------------------------------------------- */

ls_status lsi_binding_divide(const lsi_topology *machine, lsi_binding_mode mode,
                             int ranks, lsi_cpuset *out)
{
    memset(out, 0, (size_t)ranks * sizeof(*out));
    if (mode == LSI_BINDING_NONE)
        return LS_OK;
    lsi_hardware_thread *const cpus = calloc(machine->n + 1, sizeof(*cpus));
    group *const groups = calloc(machine->n + 1, sizeof(*groups));
    size_t n = 0;
    for (size_t i = 0; i < machine->n && cpus != NULL; i++) {
        if (machine->cpus[i].allowed)
            cpus[n++] = machine->cpus[i];
    }
    ls_status status = LS_OK;
    if (cpus == NULL || groups == NULL)
        status = lsi_fail(
            LS_ERR_MEMORY,
            "not enough memory to divide %zu CPUs among the ranks", machine->n);
    if (status == LS_OK && n > 0) {
        const size_t n_groups = find_groups(cpus, n, groups);
        const bool enough = (size_t)ranks >= n_groups;
        if (mode == LSI_BINDING_CPU || (mode == LSI_BINDING_CORE && !enough))
            divide_list(cpus, n, ranks, out);
        else if (enough)
            divide_groups(cpus, groups, n_groups, mode == LSI_BINDING_CORE,
                          ranks, out);
        else
            divide_nodes(cpus, groups, n_groups, ranks, out);
    }
    free(cpus);
    free(groups);
    return status;
}

/* CPUs of the rank with the fewest; a shared CPU counts as a fraction. */
static double least_share(const lsi_cpuset *sets, int ranks)
{
    uint16_t sharers[LSI_CPUSET_MAX] = {0};
    double least = LSI_CPUSET_MAX;
    for (int rank = 0; rank < ranks; rank++) {
        for (int cpu = 0; cpu < LSI_CPUSET_MAX; cpu++)
            sharers[cpu] += lsi_cpuset_has(&sets[rank], cpu);
    }
    for (int rank = 0; rank < ranks; rank++) {
        double own = 0;
        for (int cpu = 0; cpu < LSI_CPUSET_MAX; cpu++)
            own += lsi_cpuset_has(&sets[rank], cpu) ? 1.0 / sharers[cpu] : 0;
        if (own > 0 && own < least)
            least = own;
    }
    return least;
}

int lsi_binding_threads(lsi_binding_mode mode, const lsi_cpuset *sets,
                        int ranks, int available)
{
    static const double rounding = 1e-9;
    int threads = available / ranks;
    if (mode == LSI_BINDING_CORE || mode == LSI_BINDING_NUMA) {
        const double least = least_share(sets, ranks) + rounding;
        threads = least < threads ? (int)least : threads;
    }
    return threads < 1 ? 1 : threads;
}
