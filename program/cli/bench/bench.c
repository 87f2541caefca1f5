/*
 * One process coordinates: it starts the ranks for each number of them, and
 * collects their rows through a file in memory that rank 0 inherits. Under
 * another launcher, rank 0 reports without a coordinator. In both cases rank 0
 * shows each row as soon as it is measured.
 */
#include "cli/bench/bench.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cpus.h"
#include "base/error.h"
#include "base/meminfo.h"
#include "cli/frame/list.h"
#include "launch/launch.h"
#include "lockstep/profile.h"
#include "observe/memory_record.h"
#include "observe/span_file.h"
#include "report/progress.h"
#include "report/result.h"

/*
 * For rank 0: the descriptor of the file in memory, and whether the titles are
 * still to be shown ("7 titles") or were by ranks before ("7").
 */
#define ROWS_VARIABLE "LOCKSTEP_ROWS_FD"

/* ---- the report ------------------------------------------------------- */

static ls_status check_outputs(const lsi_bench_common *flags)
{
    LS_TRY(lsi_result_check(flags->json));
    return lsi_result_check(flags->csv);
}

static ls_status write_csv(const char *path, const lsi_table *table)
{
    lsi_result_stream stream;
    LS_TRY(lsi_result_open(&stream, path));
    return lsi_result_close(&stream, lsi_table_csv(table, stream.file));
}

static const lsi_bench *bench_of(const lsi_invocation *call)
{
    return (const void *)call->command;
}

/* Whether the table goes to standard output: no JSON or CSV goes there. */
static bool shows_table(const lsi_bench_common *flags)
{
    return !lsi_result_is_stdout(flags->json) &&
           !lsi_result_is_stdout(flags->csv);
}

static ls_status new_table(const lsi_bench *bench,
                           const lsi_bench_common *flags, lsi_table **table)
{
    LS_TRY(lsi_table_new(table, bench->columns, bench->n_columns));
    lsi_table_set_runs(*table, flags->iterations);
    if (flags->wide)
        lsi_table_show_wide(*table);
    return LS_OK;
}

/* Prints the table or the lines below its rows, and writes the files. */
static ls_status report(const lsi_invocation *call,
                        const lsi_bench_common *flags, const lsi_table *table)
{
    const lsi_bench *const bench = bench_of(call);
    LS_TRY(lsi_table_status(table));
    if (shows_table(flags) && bench->at_end && !flags->hides_rows)
        LS_TRY(lsi_table_print(table, stdout));
    if (shows_table(flags) && bench->foot != NULL) {
        bench->foot(table, stdout);
        fflush(stdout);
    }
    LS_TRY(lsi_cli_write_table(call, table, flags->json));
    if (flags->csv != NULL)
        LS_TRY(write_csv(flags->csv, table));
    return LS_OK;
}

/* ---- a rank ----------------------------------------------------------- */

/*
 * Replaces the rows handed over before, which are the first of these. A line
 * feed at the end means that these are all.
 */
static ls_status write_rows_to_parent(int fd, const lsi_table *table, bool all)
{
    char *text;
    LS_TRY(lsi_table_dump(table, &text));
    ls_status status = LS_OK;
    if (ftruncate(fd, 0) != 0 || lseek(fd, 0, SEEK_SET) != 0)
        status = lsi_fail_errno(
            LS_ERR_SYSTEM, "cannot pass the results to the parent process");
    if (status == LS_OK)
        status = lsi_write_all(fd, text, strlen(text), "the results");
    if (status == LS_OK && all)
        status = lsi_write_all(fd, "\n", 1, "the results");
    free(text);
    return status;
}

/* Stores the rows of rank 0: they are the result if the job stops early. */
static ls_status keep_rows(const lsi_bench_common *common)
{
    const char *fd = getenv(ROWS_VARIABLE);
    if (fd == NULL || ls_group_rank(common->group) != 0)
        return LS_OK;
    return write_rows_to_parent((int)strtol(fd, NULL, 10), common->table,
                                false);
}

/* Prints the rows that are not printed yet, on rank 0. */
static ls_status print_new_rows(const lsi_bench *bench,
                                lsi_bench_common *common)
{
    const char *const rows = getenv(ROWS_VARIABLE);
    if (ls_group_rank(common->group) != 0 || bench->at_end ||
        !shows_table(common))
        return LS_OK;
    if (common->shown == 0 && (rows == NULL || strchr(rows, ' ') != NULL))
        LS_TRY(lsi_table_print_titles(common->table, stdout));
    LS_TRY(lsi_table_print_rows(common->table, common->shown, stdout));
    common->shown = lsi_table_row_count(common->table);
    return LS_OK;
}

void lsi_bench_note(lsi_bench_common *common, const char *format, ...)
{
    const size_t used = strlen(common->notes);
    va_list args;
    va_start(args, format);
    vsnprintf(common->notes + used, sizeof(common->notes) - used, format, args);
    va_end(args);
}

static ls_status measure_case(const lsi_bench *bench, lsi_bench_common *common,
                              size_t i, lsi_progress_bar *progress)
{
    common->notes[0] = '\0';
    LS_TRY(bench->measure(common, i));
    LS_TRY(keep_rows(common));
    lsi_progress_end(progress); /* until it is drawn again */
    LS_TRY(print_new_rows(bench, common));
    if (ls_group_rank(common->group) == 0)
        fputs(common->notes, stderr);
    return LS_OK;
}

static ls_status measure_cases(const lsi_bench *bench, lsi_bench_common *common)
{
    lsi_progress_bar progress;
    ls_status status = LS_OK;
    const bool shown =
        bench->progress != NULL && ls_group_rank(common->group) == 0;
    lsi_progress_begin(&progress, shown ? stderr : NULL, bench->progress,
                       (int64_t)common->cases);
    for (size_t i = 0; i < common->cases && status == LS_OK; i++) {
        char note[64];
        if (bench->describe != NULL)
            bench->describe(common, i, note, sizeof(note));
        lsi_progress_update(&progress, (int64_t)i,
                            bench->describe != NULL ? note : NULL);
        status = measure_case(bench, common, i, &progress);
    }
    lsi_progress_end(&progress);
    return status;
}

/* Files of several numbers of ranks have a folder each. */
static ls_status start_in(const char *flag, const char *name, bool apart,
                          ls_status (*start)(const char *folder))
{
    char folder[PATH_MAX];
    lsi_launched launched;
    if (name == NULL || !apart)
        return start(name);
    LS_TRY(lsi_cli_launched(&launched));
    if (snprintf(folder, sizeof(folder), "%s/%d-ranks", name, launched.size) >=
        (int)sizeof(folder))
        return lsi_fail(LS_ERR_IO,
                        "%s '%s': the path of this folder is too long", flag,
                        name);
    return start(folder);
}

static ls_status start_recording(const lsi_bench *bench,
                                 const lsi_bench_common *common)
{
    const char *const ranks =
        common->ranks != NULL ? common->ranks : bench->ranks;
    const bool apart = strchr(ranks, ',') != NULL;
    LS_TRY(start_in("--trace", common->trace, apart, lsi_span_start));
    return start_in("--record-memory", common->memory, apart,
                    lsi_memory_record_in);
}

static ls_status measure(const lsi_bench *bench, lsi_bench_common *common)
{
    LS_TRY(start_recording(bench, common));
    LS_TRY(lsi_cli_open_group(common->threads, &common->group));
    ls_status status = bench->open != NULL ? bench->open(common) : LS_OK;
    if (status == LS_OK)
        status = measure_cases(bench, common);
    if (bench->close != NULL)
        bench->close(common);
    ls_group_close(&common->group);
    return status;
}

/* The rows so far of a job that broke off are a result, too. */
static ls_status report_so_far(const lsi_invocation *call,
                               const lsi_bench_common *flags,
                               const lsi_table *table, ls_status status)
{
    lsi_error error = {.status = LS_OK};
    if (status != LS_OK && lsi_table_row_count(table) == 0)
        return status;
    (void)lsi_error_keep(&error, status);
    const ls_status reported = report(call, flags, table);
    return status == LS_OK ? reported : lsi_error_again(&error);
}

static int run_rank(const lsi_invocation *call, const lsi_bench *bench,
                    lsi_bench_common *common, bool reports)
{
    const char *fd = getenv(ROWS_VARIABLE);
    lsi_cli_set_deterministic(common->deterministic);
    ls_status status = LS_OK;
    if (reports && fd == NULL)
        status = check_outputs(common);
    if (status == LS_OK)
        status = new_table(bench, common, &common->table);
    if (status == LS_OK)
        status = measure(bench, common);
    if (status == LS_OK && reports && fd != NULL)
        status = write_rows_to_parent((int)strtol(fd, NULL, 10), common->table,
                                      true);
    else if (common->table != NULL && reports && fd == NULL)
        status = report_so_far(call, common, common->table, status);
    lsi_table_free(&common->table);
    if (status == LS_OK && common->wrong)
        status =
            lsi_fail(LS_ERR_STATE, "results are wrong: at least one row failed "
                                   "the check that --help describes");
    return status == LS_OK ? 0 : lsi_cli_rank_error();
}

/* ---- the coordinator -------------------------------------------------- */

static ls_status collect(int fd, lsi_table *table, bool *all)
{
    struct stat info;
    *all = false;
    if (fstat(fd, &info) != 0)
        return lsi_fail_errno(LS_ERR_SYSTEM,
                              "cannot read the results of the ranks");
    if (info.st_size == 0)
        return LS_OK; /* the ranks failed, and have said so */
    const size_t bytes = (size_t)info.st_size;
    void *text = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (text == MAP_FAILED)
        return lsi_fail_errno(LS_ERR_SYSTEM,
                              "cannot read the results of the ranks");
    lsi_table_load(table, text, bytes);
    *all = ((const char *)text)[bytes - 1] == '\n';
    munmap(text, bytes);
    return lsi_table_status(table);
}

ls_status lsi_bench_map(size_t bytes, void **out)
{
    void *const block = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED)
        return lsi_fail_errno(LS_ERR_MEMORY, "cannot map buffers of %zu bytes",
                              bytes);
    *out = block;
    return LS_OK;
}

ls_status lsi_bench_set_variable(const char *name, const char *value)
{
    if (setenv(name, value, 1) != 0)
        return lsi_fail_errno(LS_ERR_MEMORY,
                              "cannot set the environment of the ranks");
    return LS_OK;
}

/* Runs the bench as n ranks and adds their rows; *all: no row is missing. */
static ls_status run_ranks(const lsi_invocation *call,
                           const lsi_bench_common *flags, int n,
                           lsi_table *table, int *exit_status, bool *all)
{
    char text[32];
    const int fd = memfd_create("lockstep-rows", 0);
    if (fd < 0)
        return lsi_fail_errno(
            LS_ERR_SYSTEM,
            "cannot create a file in memory for the results of the ranks");
    snprintf(text, sizeof(text), "%d%s", fd,
             lsi_table_row_count(table) == 0 ? " titles" : "");
    ls_status status = lsi_bench_set_variable(ROWS_VARIABLE, text);
    if (status == LS_OK)
        status = lsi_cli_launch_self(
            call, &(lsi_rank_flags){n, flags->threads, flags->bind},
            exit_status);
    unsetenv(ROWS_VARIABLE);
    if (status == LS_OK)
        status = collect(fd, table, all);
    close(fd);
    return status;
}

/* Reports the rows of ranks that this process started. */
static ls_status report_rest(const lsi_invocation *call,
                             const lsi_bench_common *flags,
                             const lsi_table *table, bool complete)
{
    const size_t rows = lsi_table_row_count(table);
    if (!complete && rows == 0)
        return LS_OK;
    if (!complete)
        fprintf(stderr, "lockstep: %s: stopped early, after %zu row%s%s\n",
                call->argv[0], rows, rows == 1 ? "" : "s",
                flags->hides_rows ? "; nothing is saved" : "");
    return report(call, flags, table);
}

/* Users of nccl-tests may take -n for a number of runs. */
static void note_many(const lsi_invocation *call, const lsi_list *ranks)
{
    const int cpus = lsi_cpus_available();
    for (size_t i = 0; i < ranks->n; i++) {
        if (ranks->values[i] <= cpus)
            continue;
        fprintf(stderr,
                "lockstep: %s: -n starts %d ranks, but only %d CPU%s "
                "available; if you meant the number of runs, use "
                "--iterations\n",
                call->argv[0], (int)ranks->values[i], cpus,
                cpus == 1 ? " is" : "s are");
        return;
    }
}

static int coordinate(const lsi_invocation *call, lsi_bench_common *flags,
                      const lsi_bench *bench, const lsi_list *ranks)
{
    lsi_table *table = NULL;
    int exit_status = 0;
    bool complete = true;
    ls_status status = new_table(bench, flags, &table);
    for (size_t i = 0; i < ranks->n && status == LS_OK && complete; i++) {
        int ended;
        const int n = lsi_cli_rank_count(ranks->values[i], 1);
        if (bench->before != NULL)
            status = bench->before(flags, i, n);
        if (status == LS_OK)
            status = run_ranks(call, flags, n, table, &ended, &complete);
        if (status == LS_OK && exit_status == 0)
            exit_status = ended;
    }
    if (status == LS_OK)
        status = report_rest(call, flags, table, complete);
    if (status == LS_OK && complete && exit_status == 0 &&
        bench->conclude != NULL)
        status = bench->conclude(flags);
    lsi_table_free(&table);
    return status == LS_OK ? exit_status : lsi_cli_error();
}

/* ---- numbers of ranks ------------------------------------------------- */

static ls_status add_ranks(void *list, const char *word)
{
    static const lsi_option row = {
        .min = 1, .max = LSI_LAUNCH_MAX_RANKS, .choices = LSI_RANK_WORDS};
    lsi_list *const ranks = list;
    if (ranks->n == LSI_LIST_MAX)
        return lsi_fail(LS_ERR_ARGUMENT, "--ranks lists more than %d numbers",
                        LSI_LIST_MAX);
    return lsi_option_int(&row, "--ranks", word, &ranks->values[ranks->n++]);
}

static ls_status read_ranks(const char *text, lsi_list *out)
{
    out->n = 0;
    return lsi_each_word("--ranks", text, add_ranks, out);
}

/* A rank may run on fewer CPUs than its job, so that "auto" is any number. */
static bool contains(const lsi_list *list, int64_t value)
{
    for (size_t i = 0; i < list->n; i++) {
        if (list->values[i] == value || list->values[i] == LSI_OPTION_WORD)
            return true;
    }
    return false;
}

static int run_parsed(const lsi_invocation *call, const lsi_bench *bench,
                      lsi_bench_common *common)
{
    lsi_list ranks;
    lsi_launched launched;
    if (lsi_cli_launched(&launched) != LS_OK)
        return lsi_cli_error();
    if (lsi_span_limit_steps("--trace-steps", common->trace_steps) != LS_OK ||
        (bench->parse != NULL && bench->parse(common) != LS_OK))
        return lsi_cli_usage("%s", ls_last_error());
    const char *text = common->ranks != NULL ? common->ranks : bench->ranks;
    if (read_ranks(text, &ranks) != LS_OK)
        return lsi_cli_usage("%s", ls_last_error());
    if (launched.size > 0 && common->ranks != NULL &&
        !contains(&ranks, launched.size))
        return lsi_cli_usage("--ranks %s does not match the %d ranks that the "
                             "launcher started; remove --ranks",
                             text, launched.size);
    if (lsi_result_is_stdout(common->json) && lsi_result_is_stdout(common->csv))
        return lsi_cli_usage(
            "--json and --csv cannot both print to standard output; write one "
            "of them to a file, such as --csv=FILE");
    if (launched.size > 0)
        return run_rank(call, bench, common, launched.rank == 0);
    if (check_outputs(common) != LS_OK)
        return lsi_cli_error();
    if (bench->plan != NULL && bench->plan(common, &ranks) != LS_OK)
        return lsi_cli_error();
    if (common->ranks != NULL && shows_table(common))
        note_many(call, &ranks);
    return coordinate(call, common, bench, &ranks);
}

/* The state does not count as memory; the measured data does. */
int lsi_bench_run(const lsi_invocation *call)
{
    const lsi_bench *const bench = bench_of(call);
    lsi_bench_common *const state = calloc(1, bench->state_bytes);
    int exit_status;
    if (state == NULL)
        return lsi_cli_usage("not enough memory for the benchmark");
    state->name = bench->command.name;
    if (lsi_cli_parse(call, state, NULL, &exit_status))
        exit_status = run_parsed(call, bench, state);
    free(state);
    return exit_status;
}

void lsi_bench_set_budget(int64_t bytes)
{
    const int64_t available = lsi_memory_available();
    if (bytes <= 0) /* not known: no limit */
        bytes = available < 0 ? 0 : available / 10 * 9;
    ls_memory_set_budget((size_t)bytes);
}

ls_status lsi_bench_no_times(size_t n)
{
    return lsi_fail(LS_ERR_MEMORY,
                    "not enough memory to store %zu measured times; use fewer "
                    "--iterations",
                    n);
}
