/*
 * A machine drawn as a tree. Everything is a range of its list of hardware
 * threads, in which threads that belong together are neighbours.
 */
#include "cli/commands/topology_tree.h"

#include <string.h>

#include "base/partition.h"
#include "report/size_text.h"

enum { LIST_BYTES = 1024, PART_BYTES = 512 };

/* The machine that is drawn, and the places of its ranks. */
typedef struct drawing {
    lsi_tree *tree;
    const lsi_hardware_thread *cpus;
    size_t n;
    const lsi_topology *topology;
    const lsi_cpuset *places;
    int ranks;
    bool is_hybrid;
} drawing;

static const char *plural(int n)
{
    return n == 1 ? "" : "s";
}

/* ---- ranges ----------------------------------------------------------- */

typedef int key_fn(const lsi_hardware_thread *cpu);

static int package_of(const lsi_hardware_thread *cpu)
{
    return cpu->package;
}

static int node_of(const lsi_hardware_thread *cpu)
{
    return cpu->node;
}

static int last_cache_of(const lsi_hardware_thread *cpu)
{
    return cpu->caches[2].number;
}

static int middle_cache_of(const lsi_hardware_thread *cpu)
{
    return cpu->caches[1].number;
}

static int core_of(const lsi_hardware_thread *cpu)
{
    return cpu->core;
}

/* From `begin` to the next one that differs, or the end of the range. */
static lsi_range same_from(const drawing *d, size_t begin, size_t end,
                           key_fn *key)
{
    size_t i = begin;
    while (i < end && key(&d->cpus[i]) == key(&d->cpus[begin]))
        i++;
    return (lsi_range){begin, i};
}

static int count(const drawing *d, lsi_range range, key_fn *key)
{
    int found = 0;
    for (size_t i = range.begin; i < range.end; found++)
        i = same_from(d, i, range.end, key).end;
    return found;
}

/* ---- caches and cores ------------------------------------------------- */

/* Properties that the cores of one line have in common. */
typedef struct core_form {
    int kind, threads, per_cache; /* cores that share an L2; 0: no L2 */
    uint64_t l1, l2;
} core_form;

static core_form form_of(const drawing *d, lsi_range core, lsi_range within)
{
    const lsi_hardware_thread *const cpu = &d->cpus[core.begin];
    core_form form = {.kind = cpu->kind,
                      .threads = (int)lsi_range_size(core),
                      .l1 = cpu->caches[0].bytes,
                      .l2 = cpu->caches[1].bytes};
    for (size_t i = within.begin; i < within.end && form.l2 > 0;) {
        const lsi_range other = same_from(d, i, within.end, core_of);
        form.per_cache += middle_cache_of(&d->cpus[i]) == cpu->caches[1].number;
        i = other.end;
    }
    return form;
}

static bool is_same_form(core_form a, core_form b)
{
    return a.kind == b.kind && a.threads == b.threads &&
           a.per_cache == b.per_cache && a.l1 == b.l1 && a.l2 == b.l2;
}

/* "8 cores of 2 CPUs, L2 of 1 MiB, L1 of 32 KiB" behind what is in `out`. */
static void add_form(const drawing *d, core_form form, int cores, char *out)
{
    char l1[LSI_SIZE_TEXT], l2[LSI_SIZE_TEXT], kind[32] = "", caches[128] = "";
    const size_t used = strlen(out);
    size_t length = 0;
    lsi_size_text(l1, form.l1);
    lsi_size_text(l2, form.l2);
    if (d->is_hybrid)
        snprintf(kind, sizeof(kind), " (kind %d)", form.kind);
    if (form.l2 > 0 && form.per_cache > 1)
        length =
            (size_t)snprintf(caches, sizeof(caches),
                             ", an L2 of %s for %d cores", l2, form.per_cache);
    else if (form.l2 > 0)
        length = (size_t)snprintf(caches, sizeof(caches), ", L2 of %s", l2);
    if (form.l1 > 0)
        snprintf(caches + length, sizeof(caches) - length, ", L1 of %s", l1);
    snprintf(out + used, PART_BYTES - used, "%s%d core%s%s of %d CPU%s%s",
             used > 0 ? "\n" : "", cores, plural(cores), kind, form.threads,
             plural(form.threads), caches);
}

/* The cores of a range, a line for each form. */
static void describe_cores(const drawing *d, lsi_range range,
                           char out[PART_BYTES])
{
    core_form before = {0};
    int cores = 0;
    out[0] = '\0';
    for (size_t i = range.begin; i < range.end;) {
        const lsi_range core = same_from(d, i, range.end, core_of);
        const core_form form = form_of(d, core, range);
        if (cores > 0 && !is_same_form(form, before)) {
            add_form(d, before, cores, out);
            cores = 0;
        }
        before = form;
        cores++;
        i = core.end;
    }
    if (cores > 0)
        add_form(d, before, cores, out);
}

/* `same` neighbours with an L3 of that size, or without one, and the cores. */
static void add_caches(const drawing *d, int depth, int same, uint64_t bytes,
                       const char *cores)
{
    char size[LSI_SIZE_TEXT];
    lsi_size_text(size, bytes);
    if (bytes > 0 && same > 1)
        lsi_tree_add(d->tree, depth++, "%d x L3 of %s, each with", same, size);
    else if (bytes > 0)
        lsi_tree_add(d->tree, depth++, "L3 of %s", size);
    for (const char *at = cores; *at != '\0';) {
        const size_t length = strcspn(at, "\n");
        lsi_tree_add(d->tree, depth, "%.*s", (int)length, at);
        at += length + (at[length] == '\n');
    }
}

static void draw_caches(const drawing *d, int depth, lsi_range range)
{
    char cores[PART_BYTES] = "", next[PART_BYTES];
    uint64_t bytes = 0;
    int same = 0;
    for (size_t i = range.begin; i < range.end;) {
        const lsi_range group = same_from(d, i, range.end, last_cache_of);
        const uint64_t size = d->cpus[i].caches[2].bytes;
        describe_cores(d, group, next);
        if (same > 0 && (size != bytes || strcmp(cores, next) != 0)) {
            add_caches(d, depth, same, bytes, cores);
            same = 0;
        }
        memcpy(cores, next, sizeof(cores));
        bytes = size;
        same++;
        i = group.end;
    }
    if (same > 0)
        add_caches(d, depth, same, bytes, cores);
}

/* ---- NUMA nodes and packages ------------------------------------------ */

static bool is_there(const drawing *d, lsi_range range, int rank)
{
    for (size_t i = range.begin; i < range.end; i++) {
        if (lsi_cpuset_has(&d->places[rank], d->cpus[i].cpu))
            return true;
    }
    return false;
}

/* "; ranks 0-3", or "" without any. */
static void ranks_text(const drawing *d, lsi_range range, char *out,
                       size_t bytes)
{
    lsi_cpuset there = {{0}}; /* numbers are numbers */
    char list[LIST_BYTES];
    for (int rank = 0; rank < d->ranks && d->places != NULL; rank++) {
        if (is_there(d, range, rank))
            lsi_cpuset_add(&there, rank);
    }
    const int n = lsi_cpuset_count(&there);
    lsi_cpuset_text(&there, list, sizeof(list));
    out[0] = '\0';
    if (n > 0)
        snprintf(out, bytes, "; rank%s %s", plural(n), list);
}

static void memory_text(const drawing *d, int node, char out[LSI_SIZE_TEXT + 2])
{
    char size[LSI_SIZE_TEXT] = "no memory";
    for (size_t i = 0; i < d->topology->n_nodes; i++) {
        if (d->topology->nodes[i].number == node &&
            d->topology->nodes[i].bytes > 0)
            lsi_size_text(size, d->topology->nodes[i].bytes);
    }
    snprintf(out, LSI_SIZE_TEXT + 2, ", %s", size);
}

static void draw_node(const drawing *d, int depth, lsi_range range)
{
    const int node = d->cpus[range.begin].node;
    const int cores = count(d, range, core_of);
    lsi_cpuset all = {{0}}, barred = {{0}};
    char cpus[LIST_BYTES], not_allowed[LIST_BYTES], ranks[LIST_BYTES + 16];
    char name[32] = "CPUs without a node", memory[LSI_SIZE_TEXT + 2] = "";
    for (size_t i = range.begin; i < range.end; i++) {
        lsi_cpuset_add(&all, d->cpus[i].cpu);
        if (!d->cpus[i].allowed)
            lsi_cpuset_add(&barred, d->cpus[i].cpu);
    }
    if (node >= 0) {
        snprintf(name, sizeof(name), "node %d", node);
        if (d->topology->n_nodes > 0)
            memory_text(d, node, memory);
    }
    lsi_cpuset_text(&all, cpus, sizeof(cpus));
    lsi_cpuset_text(&barred, not_allowed, sizeof(not_allowed));
    ranks_text(d, range, ranks, sizeof(ranks));
    const bool any_barred = lsi_cpuset_count(&barred) > 0;
    lsi_tree_add(d->tree, depth, "%s%s: %d core%s, CPUs %s%s%s%s", name, memory,
                 cores, plural(cores), cpus,
                 any_barred ? "; not allowed: " : "",
                 any_barred ? not_allowed : "", ranks);
    draw_caches(d, depth + 1, range);
}

static void draw_package(const drawing *d, int depth, lsi_range range)
{
    const int cores = count(d, range, core_of);
    const int cpus = (int)lsi_range_size(range);
    lsi_tree_add(d->tree, depth, "package %d: %d core%s, %d CPU%s",
                 d->cpus[range.begin].package, cores, plural(cores), cpus,
                 plural(cpus));
    for (size_t i = range.begin; i < range.end;) {
        const lsi_range node = same_from(d, i, range.end, node_of);
        draw_node(d, depth + 1, node);
        i = node.end;
    }
}

static void draw_memory_alone(const drawing *d, const lsi_memory_node *node)
{
    char size[LSI_SIZE_TEXT];
    for (size_t i = 0; i < d->n; i++) {
        if (d->cpus[i].node == node->number)
            return;
    }
    lsi_size_text(size, node->bytes);
    lsi_tree_add(d->tree, 1, "node %d, %s, without CPUs", node->number, size);
}

static void draw_machine(const drawing *d)
{
    const lsi_range all = {0, d->n};
    const int cores = count(d, all, core_of);
    const int packages = count(d, all, package_of);
    int allowed = 0;
    uint64_t memory = 0;
    char size[LSI_SIZE_TEXT], has[64] = "";
    for (size_t i = 0; i < d->n; i++)
        allowed += d->cpus[i].allowed;
    for (size_t i = 0; i < d->topology->n_nodes; i++)
        memory += d->topology->nodes[i].bytes;
    lsi_size_text(size, memory);
    if (memory > 0)
        snprintf(has, sizeof(has), "; %s in %zu NUMA node%s", size,
                 d->topology->n_nodes, plural((int)d->topology->n_nodes));
    lsi_tree_add(d->tree, 0,
                 "%s: %d package%s, %d core%s, %zu CPU%s (%d allowed)%s%s",
                 d->topology->is_described ? "described machine" : "machine",
                 packages, plural(packages), cores, plural(cores), d->n,
                 plural((int)d->n), allowed, has,
                 d->is_hybrid ? "; cores of a higher kind are faster" : "");
}

void lsi_draw_topology(lsi_tree *tree, const lsi_topology *topology,
                       const lsi_cpuset *places, int ranks)
{
    drawing d = {.tree = tree,
                 .cpus = topology->cpus,
                 .n = topology->n,
                 .topology = topology,
                 .places = places,
                 .ranks = ranks};
    for (size_t i = 1; i < d.n; i++)
        d.is_hybrid = d.is_hybrid || d.cpus[i].kind != d.cpus[0].kind;
    draw_machine(&d);
    for (size_t i = 0; i < d.n;) {
        const lsi_range package = same_from(&d, i, d.n, package_of);
        draw_package(&d, 1, package);
        i = package.end;
    }
    for (size_t i = 0; i < topology->n_nodes; i++)
        draw_memory_alone(&d, &topology->nodes[i]);
}
