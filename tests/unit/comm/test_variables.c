/*
 * Every variable of docs/reference/environment.md with values that make no
 * sense: what a program learns from its first call. Each row is a separate
 * process, because some variables are read once.
 */
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "array/compute/threads.h"
#include "base/log.h"
#include "lockstep/lockstep.h"

enum { PAIRS = 6, TEXT_BYTES = 2048 };

typedef struct row {
    const char *set[PAIRS][2]; /* the variable that the row is about first */
    ls_status status;
    const char *text; /* of the error; or of the log */
} row;

#define TWO_RANKS                                                              \
    {"RANK", "0"},                                                             \
    {                                                                          \
        "WORLD_SIZE", "2"                                                      \
    }

static const row rows[] = {
    {{{"LOCKSTEP_TIMEOUT", "soon"}}, LS_ERR_ARGUMENT, "LOCKSTEP_TIMEOUT is"},
    {{{"LOCKSTEP_TIMEOUT", "-1"}}, LS_ERR_ARGUMENT, "a number of seconds"},
    {{{"LOCKSTEP_TIMEOUT", "nan"}}, LS_ERR_ARGUMENT, "LOCKSTEP_TIMEOUT is"},
    {{{"LOCKSTEP_TIMEOUT", "5 s"}}, LS_ERR_ARGUMENT, "LOCKSTEP_TIMEOUT is"},
    {{{"LOCKSTEP_TIMEOUT", ""}}, LS_OK, NULL},
    {{{"LOCKSTEP_SELECT", "quickly"}}, LS_ERR_ARGUMENT, "LOCKSTEP_SELECT: "},
    {{{"LOCKSTEP_SELECT",
       "all_reduce:0-00000000000000000000000000000000000004k:flat"}},
     LS_ERR_ARGUMENT,
     "is too long for a size"},
    {{{"LOCKSTEP_SELECT", "all_reduce:0-inf:best"}},
     LS_ERR_ARGUMENT,
     "LOCKSTEP_SELECT: "},
    {{{"LOCKSTEP_SELECT", "@/nonexistent/table"}},
     LS_ERR_IO,
     "LOCKSTEP_SELECT: "},
    {{{"LOCKSTEP_DETERMINISTIC", "yes"}}, LS_ERR_ARGUMENT, "should be 0 or 1"},
    {{{"LOCKSTEP_BITS", "exact"}},
     LS_ERR_ARGUMENT,
     "LOCKSTEP_BITS: 'exact' names no bits; there are 'fast' and 'portable'"},
    {{{"LOCKSTEP_TUNE", "yes"}}, LS_ERR_ARGUMENT, "should be on or off"},
    /* Only groups of 8 ranks and more ask. */
    {{{"LOCKSTEP_PLACEMENT", "0/0"}}, LS_OK, NULL},
    {{{"LOCKSTEP_RECORD", "/dev/null/records"}}, LS_OK, "LOCKSTEP_RECORD: "},
    {{{"LOCKSTEP_RECORD", "/dev/null"}}, LS_OK, "'/dev/null': Not a directory"},
    {{{"LOCKSTEP_ISA", "sse9"}},
     LS_ERR_ARGUMENT,
     "LOCKSTEP_ISA: unknown instruction level 'sse9'; choose one of: ref "},
#if defined(__x86_64__)
    {{{"LOCKSTEP_ISA", "neon"}},
     LS_ERR_UNSUPPORTED,
     "this processor does not have that instruction level; it has: ref"},
#endif
    {{{"LOCKSTEP_ISA", "ref"}}, LS_OK, NULL},
    {{{"LOCKSTEP_TRACE", "/dev/null/traces"}}, LS_OK, "LOCKSTEP_TRACE: "},
    {{{"LOCKSTEP_TRACE", ""}}, LS_OK, NULL},
    {{{"LOCKSTEP_TRACE_LIMIT", "1k"}, {"LOCKSTEP_TRACE", "/tmp"}},
     LS_OK,
     "LOCKSTEP_TRACE_LIMIT '1k' is not a size of 4m or more"},
    {{{"LOCKSTEP_TRACE_LIMIT", "much"}}, LS_OK, NULL}, /* nothing is traced */
    {{{"LOCKSTEP_TRACE_STEPS", "5"}, {"LOCKSTEP_TRACE", "/tmp"}},
     LS_OK,
     "LOCKSTEP_TRACE_STEPS '5' is not FIRST:COUNT"},
    {{{"LOCKSTEP_TRACE_STEPS", ""}}, LS_OK, NULL},
    {{{"LOCKSTEP_MEMORY", "/dev/null/memory"}}, LS_OK, "LOCKSTEP_MEMORY: "},
    {{{"LOCKSTEP_MEMORY", ""}}, LS_OK, NULL},
    /* Without a place for it a crash leaves no file. */
    {{{"LOCKSTEP_CRASH_FILE", "not/from/the/root"}}, LS_OK, NULL},
    /* Only ranks that MPI has brought together ask. */
    {{{"LOCKSTEP_SIGTERM", "x"}}, LS_OK, NULL},
    {{{"LOCKSTEP_LOG", "loud"}}, LS_OK, "Using warn"},
    /* Only the launcher asks. */
    {{{"LOCKSTEP_SSH", "nonesuch"}}, LS_OK, NULL},
    /* Only the program reads its rates of this machine. */
    {{{"XDG_CACHE_HOME", "not/absolute"}}, LS_OK, NULL},
    {{{"NO_COLOR", "no"}}, LS_OK, NULL},
    {{{"HWLOC_XMLFILE", "nonesuch"}}, LS_OK, NULL},
    {{{"HWLOC_SYNTHETIC", "nonsense"}}, LS_OK, NULL},
    {{{"OMP_NUM_THREADS", "many"}}, LS_OK, NULL},
    {{{"OMP_NUM_THREADS", "0"}}, LS_OK, NULL},
    {{{"RANK", "first"}, {"WORLD_SIZE", "2"}}, LS_ERR_ARGUMENT, "RANK is"},
    {{{"RANK", "2"}, {"WORLD_SIZE", "2"}}, LS_ERR_ARGUMENT, "RANK is 2, but"},
    {{{"RANK", "0"}}, LS_ERR_ARGUMENT, "the number of ranks is not"},
    {{{"WORLD_SIZE", "-2"}, {"RANK", "0"}}, LS_ERR_ARGUMENT, "WORLD_SIZE is"},
    {{{"WORLD_SIZE", "0"}, {"RANK", "0"}}, LS_ERR_ARGUMENT, "WORLD_SIZE is 0"},
    {{{"WORLD_SIZE", "2"}}, LS_ERR_ARGUMENT, "the rank is not"},
    {{{"LOCAL_RANK", "x"}, TWO_RANKS}, LS_ERR_ARGUMENT, "LOCAL_RANK is"},
    {{{"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "2"}, TWO_RANKS},
     LS_ERR_ARGUMENT,
     "LOCAL_RANK is 2, but it must be below LOCAL_WORLD_SIZE (2)"},
    {{{"LOCAL_WORLD_SIZE", "3"}, TWO_RANKS},
     LS_ERR_ARGUMENT,
     "LOCAL_WORLD_SIZE is 3, but the job has only 2 ranks"},
    {{{"LOCAL_WORLD_SIZE", "x"}, TWO_RANKS}, LS_ERR_ARGUMENT, "LOCAL_WORLD_S"},
    {{{"OMPI_COMM_WORLD_RANK", "1"}, TWO_RANKS},
     LS_ERR_ARGUMENT,
     "contradicts"},
    {{{"PMI_RANK", "a"}, {"PMI_SIZE", "2"}}, LS_ERR_ARGUMENT, "PMI_RANK is"},
    {{{"PMI_SIZE", "a"}, {"PMI_RANK", "0"}}, LS_ERR_ARGUMENT, "PMI_SIZE is"},
    {{{"MPI_LOCALRANKID", "a"}, TWO_RANKS}, LS_ERR_ARGUMENT, "MPI_LOCALRANKID"},
    {{{"MPI_LOCALNRANKS", "9"}, TWO_RANKS}, LS_ERR_ARGUMENT, "only 2 ranks"},
    /* Slurm's are no ranks unless srun has started this process. */
    {{{"SLURM_PROCID", "a"},
      {"SLURM_STEP_ID", "0"},
      {"SLURM_STEP_NUM_TASKS", "2"}},
     LS_ERR_ARGUMENT,
     "SLURM_PROCID is"},
    {{{"SLURM_STEP_NUM_TASKS", "a"},
      {"SLURM_STEP_ID", "0"},
      {"SLURM_PROCID", "0"}},
     LS_ERR_ARGUMENT,
     "SLURM_STEP_NUM_TASKS is"},
    {{{"SLURM_LOCALID", "-1"},
      {"SLURM_STEP_ID", "0"},
      {"SLURM_PROCID", "0"},
      {"SLURM_STEP_NUM_TASKS", "2"}},
     LS_ERR_ARGUMENT,
     "SLURM_LOCALID is"},
    {{{"SLURM_STEP_ID", "4294967291"}, {"SLURM_PROCID", "a"}}, LS_OK, NULL},
    {{{"SLURM_STEP_TASKS_PER_NODE", "lots"}}, LS_OK, NULL},
    {{{"LOCKSTEP_TRANSPORT", "udp"}, TWO_RANKS},
     LS_ERR_ARGUMENT,
     "it should be shm, ucx or mpi"},
    {{{"LOCKSTEP_TRANSPORT", "ucx"}, TWO_RANKS},
     LS_ERR_ARGUMENT,
     "LOCKSTEP_RENDEZVOUS (the endpoint"},
    {{{"LOCKSTEP_RENDEZVOUS", "h0:none"},
      {"LOCAL_WORLD_SIZE", "1"},
      {"LOCKSTEP_SECRET", "0123456789abcdef"},
      TWO_RANKS},
     LS_ERR_ARGUMENT,
     "h0:none"},
    {{{"LOCKSTEP_SECRET", "short"},
      {"LOCKSTEP_RENDEZVOUS", "127.0.0.1:1"},
      {"LOCAL_WORLD_SIZE", "1"},
      TWO_RANKS},
     LS_ERR_ARGUMENT,
     "LOCKSTEP_SECRET"},
    {{{"LOCKSTEP_SECRET_FILE", "/nonexistent"},
      {"LOCKSTEP_RENDEZVOUS", "127.0.0.1:1"},
      {"LOCAL_WORLD_SIZE", "1"},
      TWO_RANKS},
     LS_ERR_ARGUMENT,
     "LOCKSTEP_SECRET_FILE: cannot read '/nonexistent'"},
    /* Any name of a job, a run or a place makes sense. */
    {{{"LOCKSTEP_JOB", "a b"}}, LS_OK, NULL},
    {{{"LOCKSTEP_RUN", "a b"}}, LS_OK, NULL},
    {{{"LOCKSTEP_RESTART", "x"}}, LS_OK, NULL},
    {{{"LOCKSTEP_HOSTID", "a b"}}, LS_OK, NULL},
    {{{"MASTER_ADDR", "a b"}}, LS_OK, NULL},
    {{{"MASTER_PORT", "x"}}, LS_OK, NULL},
    {{{"LOCKSTEP_MODULES", "/nonexistent"}}, LS_OK, NULL},
    /* Only Python's packages read it. */
    {{{"LOCKSTEP_COMM_LIBRARY", "/nonexistent"}}, LS_OK, NULL},
    /* Only ranks of several machines ask. */
    {{{"LOCKSTEP_MPI", "lam"}}, LS_OK, NULL},
    {{{"OMPI_COMM_WORLD_SIZE", "a"}, {"OMPI_COMM_WORLD_RANK", "0"}},
     LS_ERR_ARGUMENT,
     "OMPI_COMM_WORLD_SIZE is"},
    {{{"OMPI_COMM_WORLD_LOCAL_RANK", "a"},
      {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
      {"OMPI_COMM_WORLD_SIZE", "1"},
      {"OMPI_COMM_WORLD_RANK", "0"}},
     LS_ERR_ARGUMENT,
     "OMPI_COMM_WORLD_LOCAL_RANK is"},
    {{{"OMPI_COMM_WORLD_LOCAL_SIZE", "a"},
      {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
      {"OMPI_COMM_WORLD_SIZE", "1"},
      {"OMPI_COMM_WORLD_RANK", "0"}},
     LS_ERR_ARGUMENT,
     "OMPI_COMM_WORLD_LOCAL_SIZE is"},
    {{{"LOCKSTEP_INTERFACE", "=none"}}, LS_OK, NULL},
    {{{"SLURM_NODEID", "x"}}, LS_OK, NULL},
};

/* ---- a process ----------------------------------------------------------- */

static _Noreturn void play(const row *r, int out)
{
    ls_group *group = NULL;
    dup2(out, STDERR_FILENO);
    clearenv();
    for (int i = 0; i < PAIRS && r->set[i][0] != NULL; i++)
        setenv(r->set[i][0], r->set[i][1], 1);
    const ls_status status = ls_group_from_env(&group);
    if (status != LS_OK)
        dprintf(out, "%s\n", ls_last_error());
    lsi_log(LS_LOG_DEBUG, "this is heard only if LOCKSTEP_LOG says so");
    if (lsi_threads() < 1)
        dprintf(out, "no threads");
    ls_group_close(&group);
    _exit(-status);
}

/* The message of a row's process; its status in *status. */
static void outcome(const row *r, ls_status *status, char text[TEXT_BYTES])
{
    int ends[2], ended;
    size_t used = 0;
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        play(r, ends[1]);
    close(ends[1]);
    for (ssize_t got = 1; got > 0 && used < TEXT_BYTES - 1; used += (size_t)got)
        got = read(ends[0], text + used, TEXT_BYTES - 1 - used);
    text[used] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, &ended, 0), pid);
    assert_true(WIFEXITED(ended));
    *status = (ls_status)-WEXITSTATUS(ended);
}

static void bad_values_are_told(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        const row *r = &rows[i];
        char text[TEXT_BYTES];
        ls_status status;
        outcome(r, &status, text);
        if (status != r->status ||
            (r->text == NULL ? text[0] != '\0' : strstr(text, r->text) == NULL))
            fail_msg("%s=%s: %s, \"%s\"", r->set[0][0], r->set[0][1],
                     ls_status_name(status), text);
    }
}

/* ---- the page ------------------------------------------------------------ */

static bool has_row(const char *name)
{
    for (size_t i = 0; i < TEST_COUNT(rows); i++)
        if (strcmp(rows[i].set[0][0], name) == 0)
            return true;
    return false;
}

/* Checks what a line has in backquotes if it is a name; counts these. */
static int check_names(char *line)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    int found = 0;
    for (char *name = strchr(line, '`'); name != NULL;) {
        char *end = strchr(name + 1, '`');
        assert_non_null(end);
        *end = '\0';
        if (strspn(name + 1, letters) == strlen(name + 1)) {
            if (!has_row(name + 1))
                fail_msg("no row for %s", name + 1);
            found++;
        }
        name = strchr(end + 1, '`');
    }
    return found;
}

/* Those of the tables; text names some of which any value makes sense. */
static void every_variable_has_a_row(void **state)
{
    char line[1024];
    int found = 0;
    FILE *page = fopen(ENVIRONMENT_PAGE, "r");
    (void)state;
    assert_non_null(page);
    while (fgets(line, sizeof(line), page) != NULL)
        found += line[0] == '|' ? check_names(line) : 0;
    fclose(page);
    assert_true(found > 14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_values_are_told),
        cmocka_unit_test(every_variable_has_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
