/*
 * lockstep run -n N -- PROGRAM ARGS...: torchrun for any program. It accepts
 * torchrun's flags where they make sense; otherwise the error names a flag that
 * does.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/commands/rank_outputs.h"
#include "cli/commands/run_hosts.h"
#include "cli/commands/run_over_ssh.h"
#include "cli/frame/bits_flag.h"
#include "cli/frame/command.h"
#include "cli/frame/ranks.h"
#include "launch/launch.h"
#include "launch/ssh.h"
#include "report/result.h"

typedef struct args {
    int64_t ranks, ranks_torchrun; /* as of lsi_rank_flags */
    int64_t threads;
    double timeout, grace;
    const char *bind;
    bool report_bindings;
    bool deterministic;
    const char *bits;
    lsi_output_flags output;
    bool no_python, is_module, by_path;
    const char *run_id, *role;
    lsi_run_hosts_flags hosts;
    int64_t max_restarts;
    lsi_over_ssh_flags over_ssh;
} args;

#define ROW(...) LSI_OPTION(args, __VA_ARGS__)
static const lsi_option options[] = {
    ROW(ranks, INT, "ranks", 'n', "N", NULL,
        "number of ranks to start, 1 to 1024, or 'auto' for one per CPU "
        "(default: 1)",
        .min = 1, .max = LSI_LAUNCH_MAX_RANKS, .choices = LSI_RANK_WORDS),
    ROW(ranks_torchrun, INT, "nproc-per-node", 0, "N", NULL, "same as --ranks",
        .min = 1, .max = LSI_LAUNCH_MAX_RANKS, .choices = LSI_RANK_WORDS),
    ROW(threads, INT, "threads", 0, "N", NULL,
        "threads per rank; sets OMP_NUM_THREADS (default: keep its value or, "
        "if it is not set, CPUs / ranks)",
        .min = 1, .max = 1024),
    LSI_BIND_ROW(bind),
    ROW(report_bindings, BOOL, "report-bindings", 0, NULL, NULL,
        "print the numbers of ranks and threads, and their CPUs, on stderr "
        "before the ranks start (always done on a terminal)"),
    LSI_DETERMINISTIC_ROW(deterministic),
    LSI_BITS_ROW(bits),
    ROW(timeout, REAL, "timeout", 0, "S", "0",
        "end the ranks after S seconds, with exit status 124; 0: no limit. "
        "Time during which the job is suspended does not count",
        .min = 0, .max = 1e9),
    ROW(grace, REAL, "grace", 0, "S", "3",
        "seconds from the first failure to SIGTERM for the other ranks, and "
        "from SIGTERM to SIGKILL. This flag does not limit the time after a "
        "first request to end",
        .min = 0, .max = 1e6),
    ROW(max_restarts, INT, "max-restarts", 0, "K", "0",
        "restart all ranks after a failure, at most K times. The variable "
        "LOCKSTEP_RESTART contains the number of restarts so far. `lockstep "
        "train` resumes from the checkpoints of this run",
        .min = 0, .max = 1e6),
    ROW(output.tagged, BOOL, "tag-output", 0, NULL, NULL,
        "put [rank] in front of each line of output"),
    ROW(output.log_folder, STRING, "log-dir", 0, "DIR", NULL,
        "also write all output of each rank to stdout.log and stderr.log in "
        "DIR/RUN/ATTEMPT/RANK"),
    ROW(output.log_size, BYTES, "log-size", 0, "BYTES", NULL,
        "begin a new log file at the first end of a line after this many "
        "bytes, such as 64k, 10m or 1g; older files are named stdout.log.1, "
        "stdout.log.2 and so on",
        .min = 1, .max = 1e18),
    ROW(output.log_files, INT, "log-files", 0, "N", "0",
        "number of older files to keep for each log; 0: all files", .min = 0,
        .max = 1e6),
    ROW(output.console, CHOICE, "console", 0, "WHAT", "all",
        "output to show (all: every line of every rank; rank0: all lines of "
        "rank 0, and the stderr lines of other ranks as HOST:RANK: LINE; with "
        "rank0, equal stderr lines are shown once, and at most 200 lines per "
        "second)",
        .choices = "all|rank0"),
    ROW(output.report, OUTPUT, "json", 0, "FILE", NULL,
        "write a report as JSON when the run ends; it contains the attempts, "
        "the rank that failed first, the cause of the failure, and the last "
        "lines of that rank (docs/how-to/run-output.md). Without FILE, print "
        "the report "
        "after the output of the ranks"),
    ROW(output.redirects, STRING, "redirects", 'r', "STREAMS", NULL,
        "streams that go only to the logs: 1 stdout, 2 stderr, 3 both; or a "
        "list of RANK:STREAMS, such as 0:1,1:3"),
    ROW(output.tee, STRING, "tee", 't', "STREAMS", NULL,
        "streams that go to the logs and also, with [rank] in front of each "
        "line, to the console"),
    ROW(output.filter, STRING, "local-ranks-filter", 0, "RANKS", NULL,
        "show the output of these ranks only, such as 0,1"),
    ROW(is_module, BOOL, "module", 'm', NULL, NULL,
        "PROGRAM is a Python module: python3 -m PROGRAM"),
    ROW(no_python, BOOL, "no-python", 0, NULL, NULL,
        "run a PROGRAM whose name ends in .py directly, without python3"),
    ROW(by_path, BOOL, "run-path", 0, NULL, NULL,
        "run PROGRAM with Python's runpy.run_path"),
    ROW(hosts.master_port, INT, "master-port", 0, "PORT", NULL,
        "MASTER_PORT of the ranks (default: a free port)", .min = 1,
        .max = 65535),
    ROW(run_id, STRING, "rdzv-id", 0, "ID", NULL,
        "name of the run in logs and in TORCHELASTIC_RUN_ID (default: a random "
        "number)"),
    ROW(role, STRING, "role", 0, "NAME", "default", "ROLE_NAME of the ranks"),
    ROW(hosts.nodes, STRING, "nnodes", 0, "N", "1",
        "number of hosts; run this command on each of them. MIN:MAX: with "
        "--max-restarts, the job continues after the loss of a host as long as "
        "MIN hosts are left"),
    ROW(hosts.node_rank, INT, "node-rank", 0, "K", "-1",
        "number of this host, counted from 0; the address of --rdzv-endpoint "
        "must belong to host 0. -1: hosts are numbered in order of arrival",
        .min = -1, .max = LSI_LAUNCH_MAX_NODES - 1),
    ROW(hosts.endpoint, STRING, "rdzv-endpoint", 0, "HOST:PORT", NULL,
        "address at which the hosts connect: one of the hosts (default port: "
        "29400). With one host, it must be localhost"),
    ROW(hosts.backend, STRING, "rdzv-backend", 0, "NAME", NULL,
        "static (each host gives its --node-rank) or c10d (--node-rank may be "
        "left out). With static and one host, the port of --rdzv-endpoint also "
        "becomes MASTER_PORT"),
    ROW(hosts.conf, STRING, "rdzv-conf", 0, "KEY=S,...", NULL,
        "timeouts in seconds. join_timeout (default: 600): until MIN hosts "
        "have connected. last_call_timeout (default: 30): to wait for more "
        "hosts, up to MAX"),
    ROW(hosts.master_address, STRING, "master-addr", 0, "ADDRESS", "127.0.0.1",
        "address of the first of several hosts; together with --master-port, "
        "replaces --rdzv-endpoint"),
    ROW(hosts.monitor_interval, REAL, "monitor-interval", 0, "S", "0.1",
        "a host counts as lost if it has sent nothing for 50 times S seconds, "
        "but for at least 1 s. The end of a rank or of a launcher is noticed "
        "at once",
        .min = 0, .max = 1e9),
    ROW(hosts.standalone, BOOL, "standalone", 0, NULL, NULL,
        "run on one host. This is the default; the flag is accepted for "
        "compatibility with torchrun"),
    ROW(over_ssh.hosts, STRING, "hosts", 0, "HOSTS", NULL,
        "start the job on these hosts over ssh: a list such as a:2,b:2, or a "
        "file with lines such as \"a slots=2\". The numbers are ranks; the "
        "default for a host is the value of --ranks"),
    ROW(over_ssh.agent, STRING, "ssh", 0, "COMMAND", NULL,
        "command that replaces ssh, called as COMMAND HOST LINE (default: the "
        "value of LOCKSTEP_SSH, or ssh)"),
    ROW(over_ssh.exported, STRING, "export", 'x', "NAME[=VALUE]", NULL,
        "also pass this environment variable to the ranks on other hosts; the "
        "flag may be repeated"),
    ROW(over_ssh.on_host, BOOL, "on-host", 0, NULL, NULL,
        "internal: --hosts runs `lockstep run --on-host` on each host and "
        "sends the job to its standard input"),
};

enum { N_OPTIONS = sizeof(options) / sizeof(options[0]) };

/* ---- torchrun's spelling ---------------------------------------------- */

/* torchrun's flags without a meaning here, and their alternatives. */
static const struct refused {
    const char *name, *instead;
} refused[] = {
    {"start-method", "every rank is a separate program"},
    {"local-addr",
     "set LOCKSTEP_INTERFACE to the network interface of this host"},
    {"event-log-handler", "events are printed on stderr"},
    {"logs-specs", "--log-dir, --redirects and --tee set the output to log"},
    {"duplicate-stdout-filters",
     "--log-dir DIR keeps the output of every rank"},
    {"duplicate-stderr-filters",
     "--log-dir DIR keeps the output of every rank"},
    {"numa-binding", "use --bind=numa or --bind=core"},
    {"signals-to-handle", "every signal that asks a job to end is forwarded"},
    {"virtual-local-rank", "LOCAL_RANK is always the real local rank"},
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
    return option != NULL && !lsi_option_stands_alone(option);
}

/*
 * torchrun accepts --nproc_per_node for --nproc-per-node. Changes our flags
 * only, up to the program.
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
            return lsi_fail(LS_ERR_ARGUMENT, "%.*s is not supported: %s",
                            (int)length, word, no->instead);
        if (takes_next(word))
            i++;
    }
    return LS_OK;
}

static ls_status check_torchrun(const args *a, bool several)
{
    if (!several && a->hosts.node_rank > 0)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "--node-rank %lld is out of range: with one host it must be 0. For "
            "several hosts, give their number with --nnodes",
            (long long)a->hosts.node_rank);
    if (!several && strcmp(a->hosts.master_address, "127.0.0.1") != 0 &&
        strcmp(a->hosts.master_address, "localhost") != 0)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "--master-addr %s: with one host, the address must be 127.0.0.1. "
            "For several hosts, give their number with --nnodes",
            a->hosts.master_address);
    if (a->is_module + a->by_path + a->no_python > 1)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "--module, --run-path and --no-python exclude "
                        "each other; give one");
    return LS_OK;
}

/* The port of an endpoint on this machine, or 0 if it names none. */
static ls_status read_endpoint(const char *text, int *port)
{
    const char *colon = strrchr(text, ':');
    const size_t length = colon != NULL ? (size_t)(colon - text) : strlen(text);
    char *end = NULL;
    const long value = colon != NULL ? strtol(colon + 1, &end, 10) : 0;
    const bool here = (length == 9 && (strncmp(text, "localhost", 9) == 0 ||
                                       strncmp(text, "127.0.0.1", 9) == 0)) ||
                      (length == 5 && strncmp(text, "[::1]", 5) == 0);
    if (!here)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "--rdzv-endpoint %s: with one host, the endpoint must "
                        "be localhost or 127.0.0.1, with or without :PORT. For "
                        "several hosts, give their number with --nnodes",
                        text);
    if (colon != NULL &&
        (end == colon + 1 || *end != '\0' || value < 0 || value > 65535))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "--rdzv-endpoint %s: the port must be 0 to 65535",
                        text);
    *port = (int)value;
    return LS_OK;
}

/* The name of a folder of the logs. */
static ls_status check_run_id(const char *id)
{
    if (id == NULL || (id[0] != '\0' && id[0] != '.' &&
                       strchr(id, '/') == NULL && strlen(id) < 200))
        return LS_OK;
    return lsi_fail(
        LS_ERR_ARGUMENT,
        "--rdzv-id '%s' cannot be the name of a folder for logs; give 1 to 199 "
        "characters without '/' that do not begin with a dot",
        id);
}

/*
 * Reads the rendezvous flags: at most MASTER_PORT and the run's id count here.
 */
static ls_status read_rendezvous(args *a, bool several)
{
    int port = 0;
    const bool is_static =
        a->hosts.backend == NULL || strcmp(a->hosts.backend, "static") == 0;
    LS_TRY(check_run_id(a->run_id));
    if (!is_static && strcmp(a->hosts.backend, "c10d") != 0)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "--rdzv-backend %s is not supported; use static or c10d",
            a->hosts.backend);
    if (several)
        return LS_OK;
    if (a->hosts.endpoint != NULL)
        LS_TRY(read_endpoint(a->hosts.endpoint, &port));
    if (is_static && a->hosts.master_port == 0)
        a->hosts.master_port = port;
    return LS_OK;
}

/* ---- the rest --------------------------------------------------------- */

static ls_status read_ranks(const args *a, int *out)
{
    if (a->ranks != 0 && a->ranks_torchrun != 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "-n and --nproc-per-node mean the same; give one");
    *out = lsi_cli_rank_count(a->ranks != 0 ? a->ranks : a->ranks_torchrun, 1);
    return LS_OK;
}

/* ---- Python ----------------------------------------------------------- */

enum { MAX_PREFIX = 5 };

/* Whether python3 opens the program as a file. */
static bool is_script(const args *a, const char *program)
{
    const size_t length = strlen(program);
    return !a->no_python && !a->is_module &&
           (a->by_path ||
            (length > 3 && strcmp(program + length - 3, ".py") == 0));
}

/* The words ahead of the program: an interpreter, if it needs one. */
static int choose_prefix(const args *a, const char *program,
                         char *prefix[MAX_PREFIX])
{
    static char python[] = "python3", unbuffered[] = "-u", module[] = "-m",
                code[] = "-c",
                by_path[] = "import runpy, sys; del sys.argv[0]; "
                            "runpy.run_path(sys.argv[0], run_name='__main__')";
    int n = 0;
    if (!a->is_module && !is_script(a, program))
        return 0;
    prefix[n++] = python;
    prefix[n++] = unbuffered;
    if (a->is_module)
        prefix[n++] = module;
    if (a->by_path) {
        prefix[n++] = code;
        prefix[n++] = by_path;
    }
    return n;
}

/* The program with its interpreter; freed by the caller with free(). */
static char **command_line(const args *a, int argc, char **argv)
{
    char *prefix[MAX_PREFIX];
    const int n = choose_prefix(a, argv[0], prefix);
    char **line = calloc((size_t)(n + argc) + 1, sizeof(*line));
    if (line == NULL)
        return NULL;
    memcpy(line, prefix, (size_t)n * sizeof(*line));
    memcpy(line + n, argv, (size_t)argc * sizeof(*line));
    return line;
}

/* ---- starting --------------------------------------------------------- */

static int launch(const args *a, lsi_launch_ranks what, const lsi_run_hosts *h,
                  lsi_launch_output output)
{
    const lsi_launch_config config = {
        .ranks = {.argv = what.argv,
                  .script = what.script,
                  .n = what.n,
                  .threads = (int)a->threads,
                  .master_port = (int)a->hosts.master_port,
                  .bind = lsi_binding_parse(a->bind),
                  .tells_places = a->report_bindings || isatty(STDERR_FILENO),
                  .run_id = a->run_id,
                  .role = a->role},
        .output = output,
        .limits = {.timeout = a->timeout,
                   .grace = a->grace,
                   .max_restarts = (int)a->max_restarts},
        .nodes = h->several ? &h->nodes : NULL};
    /* Check the path now, not after the ranks have run for days. */
    if (!lsi_result_is_stdout(output.report) &&
        lsi_result_check_file(output.report) != LS_OK) {
        (void)lsi_fail(LS_ERR_IO, "cannot write the report of --json: %s",
                       ls_last_error());
        return lsi_cli_error();
    }
    int exit_status;
    if (lsi_launch(&config, &exit_status) != LS_OK)
        return lsi_cli_error();
    return exit_status;
}

static int run_launcher(const lsi_invocation *call)
{
    args a;
    int rest;
    int status;
    int ranks = 1;
    lsi_launch_output output = {0};
    lsi_run_hosts h;
    lsi_rank_output *outputs = NULL;
    if (read_torchrun_flags(call->argc, call->argv) != LS_OK)
        return lsi_cli_usage("%s", ls_last_error());
    if (!lsi_cli_parse(call, &a, &rest, &status))
        return status;
    if (a.over_ssh.on_host)
        return lsi_ssh_serve();
    if (a.over_ssh.hosts != NULL && rest < call->argc)
        return lsi_run_over_ssh(&a.over_ssh, call, rest, options, N_OPTIONS);
    if (lsi_run_hosts_read(&a.hosts, &h) != LS_OK ||
        check_torchrun(&a, h.several) != LS_OK ||
        read_rendezvous(&a, h.several) != LS_OK ||
        read_ranks(&a, &ranks) != LS_OK ||
        lsi_rank_outputs_read(&a.output, ranks, &output, &outputs) != LS_OK)
        return lsi_cli_usage("%s", ls_last_error());
    char **line = NULL;
    if (rest >= call->argc)
        status = lsi_cli_usage(
            "name a program: lockstep run -n %d -- PROGRAM [ARGS...]", ranks);
    else if ((line = command_line(&a, call->argc - rest, call->argv + rest)) ==
             NULL) {
        (void)lsi_fail(LS_ERR_MEMORY, "not enough memory for the command line");
        status = lsi_cli_error();
    } else {
        const char *const program = call->argv[rest];
        const lsi_launch_ranks what = {
            .argv = line,
            .script = is_script(&a, program) ? program : NULL,
            .n = ranks};
        lsi_cli_set_deterministic(a.deterministic);
        if (lsi_cli_set_bits(a.bits, NULL, &status))
            status = launch(&a, what, &h, output);
    }
    free(line);
    free(outputs);
    return status;
}

const lsi_command lsi_command_run = {
    .name = "run",
    .summary = "Start ranks of any program on this machine, or on several",
    .arguments = "[--] PROGRAM [ARGS...]",
    .text =
        "The environment of each rank contains RANK, WORLD_SIZE, LOCAL_RANK, "
        "LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR, MASTER_PORT, LOCKSTEP_JOB "
        "and the other variables that torchrun sets. A PROGRAM that ends in "
        ".py is run by python3. Rank 0 reads the standard input unless it is a "
        "terminal; the other ranks have an empty input.\n\nSignals (INT, TERM, "
        "HUP, QUIT, USR2, TSTP, CONT) go to all ranks. After a first request "
        "to end (INT, TERM, HUP, QUIT), the launcher waits until the ranks "
        "have saved their state and ended. A second request sends SIGTERM and, "
        "after the grace period, SIGKILL. Requests that arrive within one "
        "second count as one, because a signal may reach the launcher and "
        "every rank. Ctrl-C is an exception: each press counts. A rank that "
        "dies of the "
        "requested signal, or exits with 128 + the number of the signal, does "
        "not count as failed. USR1 goes only to processes that handle USR1, "
        "and the launcher prints the state of each rank.\n\nWith --nnodes, run "
        "the same command on each of the N hosts. "
        "The hosts connect at --rdzv-endpoint and form one job; each may start "
        "any number of ranks. The first failure on any host ends the job on "
        "all hosts, with the same status. All hosts need the same secret "
        "(LOCKSTEP_SECRET_FILE or LOCKSTEP_SECRET) unless the endpoint is a "
        "loopback address. If a host is lost, --max-restarts restarts the "
        "ranks of the other hosts. The restart needs a new host in place of "
        "the lost host. With --nnodes MIN:MAX, MIN hosts are enough. A signal "
        "to one launcher "
        "goes to all ranks (USR1 and USR2: to the ranks of its host).\n\nWhen "
        "a rank fails, the launcher reports it. The other ranks have a grace "
        "period to end; then they receive SIGTERM, and a grace period later "
        "SIGKILL. No process that a rank started outlives the job. The only "
        "exception: if SIGKILL kills the launcher and its supervisor at once, "
        "processes that a rank has moved to another process group survive. "
        "After a failure, --max-restarts restarts all ranks as a new job "
        "(LOCKSTEP_JOB) of the same run (LOCKSTEP_RUN). Ranks are not "
        "restarted after exit status 2 (wrong command line) or 65 (training "
        "has diverged; docs/reference/exit-status.md).\n\nWith --tag-output, "
        "--log-dir, --console rank0 or --local-ranks-filter "
        "(docs/how-to/run-output.md), lines pass through a buffer of 256 KB "
        "per stream. If the reader pauses (for example after Ctrl-S) and the "
        "buffer is full, ranks wait when they write, and nothing is lost. "
        "After the "
        "ranks have ended, the launcher waits for the reader. If the job was "
        "asked to end or ran into the timeout, the launcher stops waiting when "
        "nothing was read for one grace period, and reports the lost output. "
        "If the reader is gone, "
        "ranks receive SIGPIPE. After any other write error, the affected "
        "output is lost.\n\nExit status: 0 if all ranks ended with 0; "
        "otherwise the status of the first rank that failed, or 128 + n if "
        "signal n killed that rank. The launcher itself ends with 1 if output "
        "could not be written, hosts could not connect, or a host was lost. "
        "Other values: 2 wrong usage, 124 timeout, 126 the program cannot be "
        "run, 127 the program was not found.",
    LSI_COMMAND_OPTIONS(options),
    .run = run_launcher,
};
