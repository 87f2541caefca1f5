#include "cli/bench/tune_table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/busy.h"
#include "base/cache_path.h"
#include "base/cpus.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "cli/bench/bench.h"
#include "report/paragraph.h"
#include "report/result.h"

/* "FD MS": the file in memory, and the milliseconds of a job. */
#define JOB_VARIABLE "LOCKSTEP_TUNE_JOB"

/* The whole command may take 20 s; jobs also start and end. */
enum { MOST_RANKS = 8, TOTAL_SECONDS = 14 };

/* ---- planning ------------------------------------------------------------ */

static ls_status no_folder(void)
{
    return lsi_fail(
        LS_ERR_IO,
        "cannot save the selection table of this machine: " LSI_NO_CACHE_PATH
        "; set one of them, or use --out FILE");
}

ls_status lsi_tune_table_plan(lsi_tune_table *table, lsi_list *ranks)
{
    const int cpus = lsi_cpus_available();
    lsi_machine_table *const found = &table->found;
    if (!lsi_cpuset_own(&table->cpus))
        return lsi_fail_errno(LS_ERR_SYSTEM,
                              "cannot read the CPUs of this process");
    if (!lsi_machine_key_of(&table->cpus, &table->key))
        return no_folder();
    LS_TRY(lsi_make_parents(table->key.path));
    LS_TRY(lsi_result_check(table->key.path));
    found->available = cpus;
    (void)lsi_busy_now(&found->others, &found->available);
    ranks->n = 0;
    for (int n = 2; n <= cpus && n <= MOST_RANKS; n++)
        ranks->values[ranks->n++] = n;
    ranks->values[ranks->n++] = cpus < 2 ? 2 : 4;
    table->jobs = ranks->n;
    table->fd = memfd_create("lockstep-lines", 0);
    if (table->fd < 0)
        return lsi_fail_errno(LS_ERR_SYSTEM,
                              "cannot create a file in memory for the "
                              "selection lines");
    return LS_OK;
}

/*
 * The ranks of the last job get two CPUs, or one if a quota leaves no more, so
 * that there are more ranks.
 */
static ls_status share_cpus(const lsi_tune_table *table)
{
    const int most = table->found.available < 2 ? 1 : 2;
    lsi_cpuset few = {{0}};
    int found = 0;
    for (int cpu = 0; cpu < LSI_CPUSET_MAX && found < most; cpu++)
        if (lsi_cpuset_has(&table->cpus, cpu)) {
            lsi_cpuset_add(&few, cpu);
            found++;
        }
    return lsi_cpuset_bind(&few)
               ? LS_OK
               : lsi_fail_errno(LS_ERR_SYSTEM,
                                "cannot bind the ranks to %d CPUs", found);
}

ls_status lsi_tune_table_before(lsi_tune_table *table, size_t job, int ranks)
{
    char text[64];
    const bool crowded = job + 1 == table->jobs;
    if (crowded)
        LS_TRY(share_cpus(table));
    snprintf(text, sizeof(text), "%d %d", table->fd,
             1000 * TOTAL_SECONDS / (int)table->jobs);
    LS_TRY(lsi_bench_set_variable(JOB_VARIABLE, text));
    lsi_machine_table_title(ranks, crowded, text, sizeof(text));
    return lsi_write_all(table->fd, text, strlen(text), "the selection lines");
}

/* ---- a rank -------------------------------------------------------------- */

bool lsi_tune_table_job(int *fd, double *seconds)
{
    const char *const text = getenv(JOB_VARIABLE);
    char *end;
    if (text == NULL)
        return false;
    *fd = (int)strtol(text, &end, 10);
    *seconds = (double)strtol(end, NULL, 10) * 1e-3;
    return true;
}

ls_status lsi_tune_table_hand_over(int fd, const char *line)
{
    LS_TRY(lsi_write_all(fd, line, strlen(line), "the selection lines"));
    return lsi_write_all(fd, "\n", 1, "the selection lines");
}

/* ---- the file ------------------------------------------------------------ */

static ls_status write_file(lsi_tune_table *table, char *lines, char *text)
{
    size_t bytes;
    if (lseek(table->fd, 0, SEEK_SET) != 0)
        return lsi_fail_errno(LS_ERR_SYSTEM, "cannot read the selection lines");
    LS_TRY(lsi_read_up_to(table->fd, "the selection lines", lines,
                          LSI_MACHINE_TABLE_BYTES - 1, &bytes));
    lines[bytes] = '\0';
    table->found.lines = lines;
    LS_TRY(lsi_machine_table_text(&table->key, &table->found, text,
                                  LSI_MACHINE_TABLE_BYTES));
    LS_TRY(lsi_result_write(table->key.path, text, strlen(text)));
    /* Whatever the umask leaves: a file that others can write is ignored. */
    if (chmod(table->key.path, S_IRUSR | S_IWUSR) != 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot change the mode of '%s'",
                              table->key.path);
    return LS_OK;
}

static void print_path(const lsi_tune_table *table, FILE *stream)
{
    const lsi_machine_table *const found = &table->found;
    lsi_paragraph(stream,
                  "Saved the selection table of this machine in %s. Groups on "
                  "these CPUs use it from now on, unless LOCKSTEP_TUNE=off or "
                  "LOCKSTEP_SELECT is set.",
                  table->key.path);
    if (lsi_busy_rule(found->others, found->available))
        lsi_paragraph(stream,
                      "\nOther processes used %.1f of the %d CPUs, so the "
                      "table may be wrong. Repeat on an idle machine.",
                      found->others, found->available);
}

ls_status lsi_tune_table_keep(lsi_tune_table *table, FILE *stream)
{
    char *memory;
    LS_TRY(lsi_alloc(&memory, 2 * (size_t)LSI_MACHINE_TABLE_BYTES,
                     LS_MEMORY_OTHER, "the selection table"));
    const ls_status status =
        write_file(table, memory, memory + LSI_MACHINE_TABLE_BYTES);
    table->found.lines = NULL;
    lsi_free(memory);
    if (status == LS_OK && stream != NULL)
        print_path(table, stream);
    return status;
}
