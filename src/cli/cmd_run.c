/*
 * lockstep run -n N -- PROGRAM ARGS...: torchrun for one machine and any
 * program. torchrun's flags are taken where they make sense on one machine;
 * where they do not, the error says what would.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/threads.h"
#include "command/command.h"
#include "command/ranks.h"
#include "launch/launch.h"

typedef struct args {
    const char *ranks; /* "4", or torchrun's "auto" and "cpu" */
    const char *ranks_torchrun;
    int64_t threads;
    double timeout, grace;
    bool bind, tag_output, deterministic;
    bool standalone, no_python;
    const char *nodes, *master_address;
    int64_t node_rank, master_port, max_restarts;
} args;

#define ROW(...) LSI_OPTION(args, __VA_ARGS__)
static const lsi_option options[] = {
    ROW(ranks, STRING, "ranks", 'n', "N", NULL,
        "ranks to start, 1 to 1024, or \"auto\": one for each cpu (default 1)"),
    ROW(ranks_torchrun, STRING, "nproc-per-node", 0, "N", NULL, "as --ranks"),
    ROW(threads, INT, "threads", 0, "N", NULL,
        "OMP_NUM_THREADS of each rank (default: as it is set, else the cpus "
        "divided by the ranks)",
        .min = 1, .max = 1024),
    ROW(bind, BOOL, "bind", 0, NULL, "true",
        "bind ranks to disjoint cpus if there are enough of them"),
    LSI_DETERMINISTIC_ROW(deterministic),
    ROW(timeout, REAL, "timeout", 0, "S", "0",
        "end the ranks after this many seconds, with status 124, not counting "
        "those for which the job was stopped; 0: never",
        .min = 0, .max = 1e9),
    ROW(grace, REAL, "grace", 0, "S", "3",
        "seconds that the other ranks get after one failed, and again between "
        "our SIGTERM and SIGKILL; they do not limit what ranks do after a "
        "first request to end",
        .min = 0, .max = 1e6),
    ROW(tag_output, BOOL, "tag-output", 0, NULL, NULL,
        "put [rank] in front of each line of output"),
    ROW(master_port, INT, "master-port", 0, "PORT", NULL,
        "MASTER_PORT of the ranks (default: one that is free)", .min = 1,
        .max = 65535),
    ROW(standalone, BOOL, "standalone", 0, NULL, NULL,
        "accepted for torchrun compatibility: jobs always stand alone"),
    ROW(no_python, BOOL, "no-python", 0, NULL, NULL,
        "accepted for torchrun compatibility: the program is run as it is"),
    ROW(nodes, STRING, "nnodes", 0, "1", "1",
        "accepted for torchrun compatibility: one machine"),
    ROW(node_rank, INT, "node-rank", 0, "0", "0",
        "accepted for torchrun compatibility: the first machine"),
    ROW(master_address, STRING, "master-addr", 0, "ADDRESS", "127.0.0.1",
        "accepted for torchrun compatibility: this machine"),
    ROW(max_restarts, INT, "max-restarts", 0, "0", "0",
        "accepted for torchrun compatibility: ranks are not started again"),
};

enum { N_OPTIONS = sizeof(options) / sizeof(options[0]) };

/* ---- torchrun's spelling ---------------------------------------------- */

/* torchrun's flags that cannot mean anything here, and what to do instead. */
static const struct refused {
    const char *name, *instead;
} refused[] = {
    {"rdzv-backend", "ranks of one machine find each other without one"},
    {"rdzv-endpoint", "ranks of one machine find each other without one"},
    {"rdzv-id", "every job gets an id of its own, LOCKSTEP_JOB"},
    {"rdzv-conf", "ranks of one machine find each other without one"},
    {"module", "run -- python3 -m MODULE"},
    {"tee", "--tag-output marks each line with its rank"},
    {"redirects", "redirect the output of lockstep run"},
    {"log-dir", "redirect the output of lockstep run"},
    {"role", "it has no effect on one machine"},
};

static const lsi_option *find_option(const char *name, size_t length)
{
    for (size_t i = 0; i < N_OPTIONS; i++) {
        if (strncmp(options[i].name, name, length) == 0 &&
            options[i].name[length] == '\0')
            return &options[i];
    }
    return NULL;
}

static const struct refused *find_refused(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        if (strncmp(refused[i].name, name, length) == 0 &&
            refused[i].name[length] == '\0')
            return &refused[i];
    }
    return NULL;
}

/* Whether the flag's value is the next word: not --name=value, not a switch. */
static bool takes_next(const char *word)
{
    if (word[1] != '-')
        return word[2] == '\0';
    const size_t length = strlen(word + 2);
    const lsi_option *option = find_option(word + 2, length);
    return option != NULL && option->type != LSI_OPTION_BOOL;
}

/*
 * torchrun takes --nproc_per_node for --nproc-per-node. Changes our own flags
 * only: it stops at the program.
 */
static ls_status read_torchrun_flags(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        char *word = argv[i];
        if (word[0] != '-' || word[1] == '\0' || strcmp(word, "--") == 0)
            return LS_OK;
        const size_t length = word[1] == '-' ? strcspn(word, "=") : 0;
        for (size_t k = 2; k < length; k++)
            word[k] = word[k] == '_' ? '-' : word[k];
        const struct refused *no =
            length > 2 ? find_refused(word + 2, length - 2) : NULL;
        if (no != NULL)
            return lsi_fail(LS_ERR_ARGUMENT, "run: %.*s is not supported: %s",
                            (int)length, word, no->instead);
        if (takes_next(word))
            i++;
    }
    return LS_OK;
}

static ls_status check_torchrun(const args *a)
{
    if (strcmp(a->nodes, "1") != 0 && strcmp(a->nodes, "1:1") != 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "run: --nnodes %s: ranks are started on this machine "
                        "only; use mpirun for several",
                        a->nodes);
    if (a->node_rank != 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "run: --node-rank %lld: there is one machine, number 0",
                        (long long)a->node_rank);
    if (strcmp(a->master_address, "127.0.0.1") != 0 &&
        strcmp(a->master_address, "localhost") != 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "run: --master-addr %s: it is always 127.0.0.1",
                        a->master_address);
    if (a->max_restarts != 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "run: --max-restarts %lld: ranks that "
                        "fail are not started again",
                        (long long)a->max_restarts);
    return LS_OK;
}

/* ---- the rest --------------------------------------------------------- */

static ls_status read_ranks(const args *a, int *out)
{
    const char *text = a->ranks ? a->ranks : a->ranks_torchrun;
    const char *name = a->ranks ? "-n" : "--nproc-per-node";
    if (a->ranks != NULL && a->ranks_torchrun != NULL)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "run: -n and --nproc-per-node mean the same; give one");
    if (text == NULL) {
        *out = 1;
        return LS_OK;
    }
    if (strcmp(text, "auto") == 0 || strcmp(text, "cpu") == 0) {
        *out = lsi_cpus_available();
        return LS_OK;
    }
    char *end;
    const long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < 1 ||
        value > LSI_LAUNCH_MAX_RANKS)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "run: %s \"%s\" is not a number of ranks: 1 to %d",
                        name, text, LSI_LAUNCH_MAX_RANKS);
    *out = (int)value;
    return LS_OK;
}

static int launch(const args *a, int ranks, char **argv)
{
    const lsi_launch_config config = {
        .argv = argv,
        .ranks = ranks,
        .threads = (int)a->threads,
        .master_port = (int)a->master_port,
        .timeout = a->timeout,
        .grace = a->grace,
        .bind = a->bind,
        .tag_output = a->tag_output,
    };
    int exit_status;
    if (lsi_launch(&config, &exit_status) != LS_OK)
        return lsi_cli_error();
    return exit_status;
}

static int run(const lsi_invocation *call)
{
    args a;
    int rest;
    int status;
    int ranks = 1;
    if (read_torchrun_flags(call->argc, call->argv) != LS_OK)
        return lsi_cli_usage("%s", ls_last_error());
    if (!lsi_cli_parse(call, &a, &rest, &status))
        return status;
    if (check_torchrun(&a) != LS_OK || read_ranks(&a, &ranks) != LS_OK)
        return lsi_cli_usage("%s", ls_last_error());
    if (rest >= call->argc)
        return lsi_cli_usage("run: which program? lockstep run -n %d -- "
                             "PROGRAM [ARGS...]",
                             ranks);
    lsi_cli_set_deterministic(a.deterministic);
    return launch(&a, ranks, call->argv + rest);
}

const lsi_command lsi_command_run = {
    .name = "run",
    .summary = "Start ranks of any program on this machine",
    .arguments = "[--] PROGRAM [ARGS...]",
    .text =
        "Each rank finds RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, "
        "GROUP_RANK, MASTER_ADDR, MASTER_PORT and LOCKSTEP_JOB in its "
        "environment, as torchrun sets them. Rank 0 reads the standard input "
        "unless that is a terminal; the others read nothing.\n\n"
        "Signals (INT, TERM, HUP, QUIT, USR1, USR2, TSTP, CONT) go to all "
        "ranks. A first request to end (INT, TERM, HUP, QUIT) leaves them all "
        "the time that they take to save what they have; a second one sends "
        "SIGTERM and, after the grace, SIGKILL. Requests within a second are "
        "one, as is one that is sent to every process of the job; but each "
        "Ctrl-C counts. A rank that dies of such a signal, or ends with 128 + "
        "its number, has not failed then.\n\n"
        "When a rank fails it is named, the others get a grace, then SIGTERM, "
        "then, a grace later, SIGKILL. Nothing that a rank started outlives "
        "the job. Only if the launcher and the supervisor below it are both "
        "killed by SIGKILL at once, there is nobody to end what a rank has "
        "put into a process group of its own.\n\n"
        "With --tag-output, lines pass through a buffer of 256 KB a stream. "
        "When nobody reads (a pager, Ctrl-S) and it is full, ranks wait when "
        "they write, as they would for the reader itself: nothing is lost. "
        "When they have ended, the launcher waits for the reader; if the job "
        "was to end (a request, the timeout), only until nobody has read for "
        "the grace, and it says that output is lost. Ranks whose reader is "
        "gone get SIGPIPE; any other error of writing costs what was to be "
        "written.\n\n"
        "Exit status: 0 if all ranks ended with 0; that of the first that "
        "failed, 128 + n if signal n killed it; 1 output could not be written; "
        "2 wrong usage; 124 timeout; "
        "126 the program cannot be run; 127 there is no such program.",
    .options = options,
    .n_options = N_OPTIONS,
    .run = run,
};
