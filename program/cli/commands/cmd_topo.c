/*
 * lockstep topo: the machine, and where ranks would run or do run.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/cgroup.h"
#include "base/error.h"
#include "cli/commands/topology_tree.h"
#include "cli/frame/command.h"
#include "cli/frame/ranks.h"
#include "launch/job_name.h"
#include "launch/launch.h"
#include "launch/placement.h"
#include "launch/running_jobs.h"
#include "report/machine.h"
#include "report/result.h"
#include "report/table.h"

typedef struct args {
    lsi_rank_flags ranks;
    const char *cpus, *json;
    bool ascii, markdown;
} args;

#define ROW(...) LSI_OPTION(args, __VA_ARGS__)
static const lsi_option options[] = {
    ROW(ranks.n, INT, "ranks", 'n', "N", NULL,
        "show where N ranks would run, or 'auto' for one rank per CPU "
        "(default: show only the machine)",
        .min = 1, .max = LSI_LAUNCH_MAX_RANKS, .choices = LSI_RANK_WORDS),
    LSI_THREADS_ROW(ranks.threads),
    LSI_BIND_ROW(ranks.bind),
    ROW(cpus, STRING, "cpus", 0, "LIST", NULL,
        "show the machine as if only these CPUs were allowed, such as 0-7,16"),
    ROW(ascii, BOOL, "ascii", 0, NULL, NULL,
        "draw with ASCII characters (default if the locale is not UTF-8)"),
    LSI_JSON_ROW(json),
    LSI_MARKDOWN_ROW(markdown),
};

/* The machine and the ranks that are shown. */
typedef struct view {
    lsi_topology topology;
    lsi_placement at; /* of ranks to come, or of those of a job; or of none */
    lsi_rank_found *found; /* of a job that runs; or NULL */
    lsi_job_found job;
} view;

/* ---- the machine and the ranks ---------------------------------------- */

static ls_status read_machine(const args *a, view *v)
{
    lsi_cpuset only;
    LS_TRY(lsi_topology_read(&v->topology));
    if (!v->topology.is_described)
        v->at.quota =
            lsi_cgroup_cpu_limit("/proc/self/cgroup", "/sys/fs/cgroup");
    if (a->cpus == NULL)
        return LS_OK;
    if (!lsi_cpuset_parse(a->cpus, &only))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "--cpus '%s' is not a list of CPUs such as 0-7,16",
                        a->cpus);
    return lsi_topology_restrict(&v->topology, &only);
}

/* Plans where `lockstep run` would put the ranks. */
static ls_status plan_ranks(const args *a, view *v)
{
    return lsi_placement_new(
        &v->topology, v->at.quota, lsi_binding_parse(a->ranks.bind),
        lsi_cli_rank_count(a->ranks.n, 1), (int)a->ranks.threads, &v->at);
}

/* Finds where the ranks of a job run. */
static ls_status find_ranks(const char *name, view *v)
{
    size_t n = 0;
    LS_TRY(lsi_find_job(name, &v->job));
    LS_TRY(lsi_find_ranks(v->job.id, &v->found, &n));
    v->at.ranks = (int)n;
    v->at.places = calloc(n + 1, sizeof(*v->at.places));
    if (v->at.places == NULL)
        return lsi_fail(LS_ERR_MEMORY, "not enough memory for %zu ranks", n);
    for (size_t i = 0; i < n; i++)
        v->at.places[i] = v->found[i].cpus;
    return LS_OK;
}

/* ---- a place in words ------------------------------------------------- */

/* The nodes and the cores of a set of CPUs. */
typedef struct place {
    lsi_cpuset nodes, cores, cpus;
} place;

static place place_of(const view *v, int rank)
{
    const lsi_cpuset *const bound = lsi_placement_place(&v->at, rank);
    place p = {.cpus = bound != NULL ? *bound : v->at.allowed};
    for (size_t i = 0; i < v->topology.n; i++) {
        const lsi_hardware_thread *const cpu = &v->topology.cpus[i];
        if (!lsi_cpuset_has(&p.cpus, cpu->cpu))
            continue;
        lsi_cpuset_add(&p.cores, cpu->core);
        lsi_cpuset_add(&p.nodes, cpu->node);
    }
    return p;
}

static bool is_same(const lsi_cpuset *a, const lsi_cpuset *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

static void join(lsi_cpuset *all, const lsi_cpuset *more)
{
    for (int w = 0; w < LSI_CPUSET_WORDS; w++)
        all->words[w] |= more->words[w];
}

/* ---- text ------------------------------------------------------------- */

static const lsi_column plan_columns[] = {
    LSI_COLUMN(TEXT, "ranks", "Ranks"),   LSI_COLUMN(TEXT, "nodes", "Node"),
    LSI_COLUMN(TEXT, "each", "Each has"), LSI_COLUMN(TEXT, "cores", "Cores"),
    LSI_COLUMN(TEXT, "cpus", "CPUs"),
};

static const lsi_column job_columns[] = {
    LSI_COLUMN(TEXT, "ranks", "Rank"),       LSI_COLUMN(INT, "pid", "PID"),
    LSI_COLUMN(INT, "threads", "Threads"),   LSI_COLUMN(TEXT, "nodes", "Node"),
    LSI_COLUMN(TEXT, "cores", "Cores"),      LSI_COLUMN(TEXT, "cpus", "CPUs"),
    LSI_COLUMN(INT, "last_cpu", "Last CPU"),
};

/* So that a table keeps within 100 columns; JSON has the whole lists. */
enum { LIST_COLUMNS = 22 };

static void set_list(lsi_table *table, const char *column,
                     const lsi_cpuset *list)
{
    char text[LIST_COLUMNS + 1];
    lsi_cpuset_text(list, text, sizeof(text));
    lsi_table_text(table, column, text);
}

/* Ranks first..last-1, of which this is the place, or all places together. */
static void add_row(lsi_table *table, int first, int last, const place *p,
                    const place *one)
{
    char ranks[32], each[64];
    const int cores = lsi_cpuset_count(&one->cores);
    const int cpus = lsi_cpuset_count(&one->cpus);
    const bool is_shared = last > first + 1 && is_same(&p->cpus, &one->cpus);
    snprintf(ranks, sizeof(ranks), last > first + 1 ? "%d-%d" : "%d", first,
             last - 1);
    snprintf(each, sizeof(each), "%d core%s, %d CPU%s%s", cores,
             cores == 1 ? "" : "s", cpus, cpus == 1 ? "" : "s",
             is_shared ? ", shared" : "");
    lsi_table_row(table);
    lsi_table_text(table, "ranks", ranks);
    lsi_table_text(table, "each", each);
    set_list(table, "nodes", &p->nodes);
    set_list(table, "cores", &p->cores);
    set_list(table, "cpus", &p->cpus);
}

/*
 * Ranks of one place are one row. With more than 16 ranks, consecutive ranks on
 * the same nodes are also one row, if each has the same number of cores and
 * CPUs.
 */
static void fill_plan(lsi_table *table, const view *v)
{
    enum { FEW = 16 };
    for (int rank = 0; rank < v->at.ranks;) {
        const place one = place_of(v, rank);
        place all = one;
        int end = rank + 1;
        for (; end < v->at.ranks; end++) {
            const place p = place_of(v, end);
            const bool alike =
                is_same(&p.nodes, &one.nodes) &&
                lsi_cpuset_count(&p.cores) == lsi_cpuset_count(&one.cores) &&
                lsi_cpuset_count(&p.cpus) == lsi_cpuset_count(&one.cpus);
            if (!is_same(&p.cpus, &one.cpus) && !(alike && v->at.ranks > FEW))
                break;
            join(&all.cores, &p.cores);
            join(&all.cpus, &p.cpus);
        }
        add_row(table, rank, end, &all, &one);
        rank = end;
    }
}

static void fill_job(lsi_table *table, const view *v)
{
    for (int i = 0; i < v->at.ranks; i++) {
        const place p = place_of(v, i);
        char rank[16];
        snprintf(rank, sizeof(rank), "%d", v->found[i].rank);
        lsi_table_row(table);
        lsi_table_text(table, "ranks", rank);
        lsi_table_int(table, "pid", v->found[i].pid);
        lsi_table_int(table, "threads", v->found[i].threads);
        set_list(table, "nodes", &p.nodes);
        set_list(table, "cores", &p.cores);
        set_list(table, "cpus", &p.cpus);
        lsi_table_int(table, "last_cpu", v->found[i].last_cpu);
    }
}

static void print_heading(const view *v)
{
    char line[512];
    if (v->found != NULL)
        snprintf(line, sizeof(line),
                 "job %s: %d of %d %s running, launcher process %d", v->job.run,
                 v->at.ranks, v->job.size,
                 v->job.size == 1 ? "rank is" : "ranks are",
                 (int)v->job.launcher);
    else
        lsi_placement_line(&v->at, line, sizeof(line));
    printf("\n%s\n\n", line);
}

static ls_status print_places(const view *v)
{
    lsi_table *table = NULL;
    const bool runs = v->found != NULL;
    const lsi_column *const columns = runs ? job_columns : plan_columns;
    const size_t n = runs ? sizeof(job_columns) / sizeof(job_columns[0])
                          : sizeof(plan_columns) / sizeof(plan_columns[0]);
    LS_TRY(lsi_table_new(&table, columns, n));
    if (runs)
        fill_job(table, v);
    else
        fill_plan(table, v);
    print_heading(v);
    const ls_status status = lsi_table_print(table, stdout);
    lsi_table_free(&table);
    return status;
}

static ls_status print(const args *a, const view *v)
{
    enum { COLUMNS = 100 };
    lsi_tree *tree = NULL;
    LS_TRY(lsi_tree_new(&tree));
    lsi_draw_topology(tree, &v->topology, v->at.places, v->at.ranks);
    const ls_status status = lsi_tree_print(tree, stdout, COLUMNS,
                                            a->ascii || lsi_locale_is_ascii());
    lsi_tree_free(&tree);
    LS_TRY(status);
    if (v->at.quota > 0)
        printf("cgroup quota: %.3g CPUs\n", v->at.quota);
    return v->at.ranks > 0 || v->found != NULL ? print_places(v) : LS_OK;
}

/* ---- JSON ------------------------------------------------------------- */

static json_t *list_json(const lsi_cpuset *list)
{
    static const size_t longest = 5 * (size_t)LSI_CPUSET_MAX;
    char *const text = malloc(longest);
    if (text == NULL)
        return NULL;
    lsi_cpuset_text(list, text, longest);
    json_t *const string = json_string(lsi_cpuset_count(list) > 0 ? text : "");
    free(text);
    return string;
}

static json_t *cache_json(lsi_cpu_cache cache)
{
    return cache.number < 0 ? json_null()
                            : json_pack("{s:i, s:I}", "number", cache.number,
                                        "bytes", (json_int_t)cache.bytes);
}

static json_t *topology_json(const lsi_topology *topology)
{
    json_t *cpus = json_array(), *nodes = json_array();
    for (size_t i = 0; i < topology->n; i++) {
        const lsi_hardware_thread *const c = &topology->cpus[i];
        json_array_append_new(
            cpus,
            json_pack("{s:i, s:b, s:i, s:i, s:i, s:i, s:o, s:o, s:o}", "cpu",
                      c->cpu, "allowed", c->allowed, "core", c->core, "kind",
                      c->kind, "package", c->package, "node", c->node, "l1",
                      cache_json(c->caches[0]), "l2", cache_json(c->caches[1]),
                      "l3", cache_json(c->caches[2])));
    }
    for (size_t i = 0; i < topology->n_nodes; i++)
        json_array_append_new(
            nodes, json_pack("{s:i, s:I}", "node", topology->nodes[i].number,
                             "bytes", (json_int_t)topology->nodes[i].bytes));
    return json_pack("{s:b, s:o, s:o}", "described", topology->is_described,
                     "nodes", nodes, "cpus", cpus);
}

static json_t *rank_json(const view *v, int i)
{
    const place p = place_of(v, i);
    const bool runs = v->found != NULL;
    json_t *const rank =
        json_pack("{s:i, s:o, s:o, s:o, s:i}", "rank",
                  runs ? v->found[i].rank : i, "cpus", list_json(&p.cpus),
                  "cores", list_json(&p.cores), "nodes", list_json(&p.nodes),
                  "threads", runs ? v->found[i].threads : v->at.threads);
    if (runs) {
        json_object_set_new(rank, "pid", json_integer(v->found[i].pid));
        json_object_set_new(rank, "last_cpu",
                            json_integer(v->found[i].last_cpu));
    }
    return rank;
}

static ls_status write_json(const lsi_invocation *call, const view *v,
                            const char *path)
{
    json_t *ranks = json_array();
    json_t *document =
        lsi_origin_json(call->line_argc, (const char *const *)call->line_argv);
    for (int i = 0; i < v->at.ranks; i++)
        json_array_append_new(ranks, rank_json(v, i));
    const bool is_plan = v->at.ranks > 0 && v->found == NULL;
    json_object_set_new(document, "topology", topology_json(&v->topology));
    json_object_set_new(document, "quota_cpus",
                        v->at.quota > 0 ? json_real(v->at.quota) : json_null());
    json_object_set_new(document, "bind",
                        is_plan ? json_string(lsi_binding_name(v->at.mode))
                                : json_null());
    json_object_set_new(document, "run",
                        v->found != NULL ? json_string(v->job.run)
                                         : json_null());
    json_object_set_new(document, "ranks", ranks);
    return lsi_result_write_json(path, document, LSI_JSON_WIDE,
                                 "the machine as JSON");
}

/* ---- the command ------------------------------------------------------ */

static ls_status show(const args *a, const char *job,
                      const lsi_invocation *call)
{
    view v = {0};
    ls_status status = read_machine(a, &v);
    if (status == LS_OK && job != NULL)
        status = find_ranks(job, &v);
    else if (status == LS_OK && a->ranks.n != 0)
        status = plan_ranks(a, &v);
    if (status == LS_OK && !lsi_result_is_stdout(a->json))
        status = print(a, &v);
    if (status == LS_OK && a->json != NULL)
        status = write_json(call, &v, a->json);
    lsi_placement_free(&v.at);
    free(v.found);
    lsi_topology_free(&v.topology);
    return status;
}

static int run_topo(const lsi_invocation *call)
{
    args a;
    int rest;
    int exit_status;
    if (!lsi_cli_parse(call, &a, &rest, &exit_status))
        return exit_status;
    const char *const job = rest < call->argc ? call->argv[rest] : NULL;
    if (rest + 1 < call->argc || (job != NULL && job[0] == '\0'))
        return lsi_cli_usage(
            "give one JOB after the flags; `lockstep jobs` lists the jobs");
    if (job != NULL && a.ranks.n != 0)
        return lsi_cli_usage("-n and JOB exclude each other: -n plans new "
                             "ranks, JOB shows running ones; give one");
    return show(&a, job, call) == LS_OK ? 0 : lsi_cli_error();
}

const lsi_command lsi_command_topo = {
    .name = "topo",
    .summary = "Show the machine, and where ranks run on it",
    .arguments = "[JOB]",
    .text = "Draws packages, NUMA nodes, caches and cores, and the CPUs that "
            "this process may use. Equal parts share a line. With -n N, shows "
            "where `lockstep run -n N` with the same --bind would place the "
            "ranks and their threads. With JOB, shows for each rank of the job "
            "the CPUs that its first thread may use, and the CPU on which this "
            "thread ran last. " LSI_JOB_NAME_HELP
            "\n\nTo show another machine, set HWLOC_XMLFILE to a file that "
            "hwloc's lstopo wrote, or HWLOC_SYNTHETIC to a description such as "
            "\"pack:2 core:8 pu:2\".",
    LSI_COMMAND_OPTIONS(options),
    .run = run_topo,
};
