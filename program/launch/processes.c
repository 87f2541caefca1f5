/*
 * Starting, signalling and reaping ranks.
 */
#include "launch/processes.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cpus.h"
#include "base/ended.h"
#include "base/error.h"
#include "base/proc.h"
#include "launch/environment.h"
#include "launch/logs.h"
#include "launch/orphan_guard.h"
#include "launch/placement.h"
#include "launch/spawn.h"

/* ---- the order of their ends ------------------------------------------ */

/* Watches ranks 0 to n - 1. Without epoll or memory, none is watched. */
static void deaths_open(lsi_deaths *deaths, int n)
{
    *deaths = (lsi_deaths){0};
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0)
        return;
    int *const pidfds = malloc((size_t)n * sizeof(*pidfds));
    if (pidfds == NULL) {
        close(epoll);
        return;
    }
    for (int i = 0; i < n; i++)
        pidfds[i] = -1;
    *deaths = (lsi_deaths){epoll, pidfds, n};
}

static void deaths_close(lsi_deaths *deaths)
{
    for (int i = 0; i < deaths->n; i++) {
        if (deaths->pidfds[i] >= 0)
            close(deaths->pidfds[i]);
    }
    if (deaths->n > 0)
        close(deaths->epoll);
    free(deaths->pidfds);
    *deaths = (lsi_deaths){0};
}

static void deaths_watch(lsi_deaths *deaths, int rank, pid_t pid)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = rank};
    if (rank >= deaths->n)
        return;
    assert(deaths->pidfds[rank] < 0);
    /* exec closes it. Kernels before 5.3 do not have it. */
    const int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd >= 0 && epoll_ctl(deaths->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        close(fd);
    else
        deaths->pidfds[rank] = fd;
}

/* The next rank that has ended and can be reaped, each once; -1: none. */
static int deaths_next(lsi_deaths *deaths)
{
    struct epoll_event event;
    if (deaths->n == 0 || epoll_wait(deaths->epoll, &event, 1, 0) != 1)
        return -1;
    const int rank = event.data.fd;
    assert(deaths->pidfds[rank] >= 0); /* each once */
    /*
     * Closing is not enough: a rank that is just being started has a copy until
     * its exec closes it.
     */
    (void)epoll_ctl(deaths->epoll, EPOLL_CTL_DEL, deaths->pidfds[rank], NULL);
    close(deaths->pidfds[rank]);
    deaths->pidfds[rank] = -1;
    return rank;
}

/* ---- starting --------------------------------------------------------- */

/* State needed to start ranks, but not to supervise them. */
typedef struct start {
    const sigset_t *mask;
    lsi_job_identity job;
    lsi_placement placement;
    bool has_neighbours; /* other nodes, which leave it fewer threads */
    int no_input;        /* /dev/null */
    int unguarded;       /* errno of a rank without an orphan guard */
    const struct rlimit *files;
} start;

static int fail_start(const lsi_processes *ranks)
{
    lsi_output_print(ranks->output, "cannot start the ranks: %s",
                     ls_last_error());
    return 1;
}

/*
 * A hint if a file named like the program exists: programs are found by PATH,
 * and scripts need their interpreter. "" otherwise.
 */
static const char *hint_for(const char *program)
{
    const size_t length = strlen(program);
    const bool script = length > 3 && strcmp(program + length - 3, ".py") == 0;
    if (access(program, R_OK) != 0)
        return "";
    if (script)
        return "; run it with python3";
    return strchr(program, '/') == NULL
               ? "; to run the file in this folder, put ./ before its name"
               : "";
}

static bool is_missing(int error_number)
{
    return error_number == ENOENT || error_number == ENOTDIR;
}

static int fail_program(const lsi_processes *ranks, const char *program,
                        int error_number)
{
    const bool missing = is_missing(error_number);
    lsi_output_print(ranks->output, "cannot run '%s': %s%s", program,
                     missing ? "program not found" : strerror(error_number),
                     hint_for(program));
    return missing ? LSI_EXIT_NOT_FOUND : LSI_EXIT_CANNOT_RUN;
}

/*
 * Checks the script before any rank starts: otherwise the interpreter of each
 * rank would print the error. An interpreter runs a folder with a __main__.py.
 * Returns 0 or errno.
 */
static int find_script_error(const char *path)
{
    struct stat about;
    char main_file[4096];
    if (faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) != 0 ||
        stat(path, &about) != 0)
        return errno;
    snprintf(main_file, sizeof(main_file), "%s/__main__.py", path);
    return S_ISDIR(about.st_mode) && access(main_file, R_OK) != 0 ? EISDIR : 0;
}

/* Returns 0, or prints the problem and returns the exit status of the job. */
static int check_script(const lsi_processes *ranks)
{
    const char *const path = ranks->setup->script;
    const int wrong = path != NULL ? find_script_error(path) : 0;
    if (wrong == 0)
        return 0;
    lsi_output_print(ranks->output, "run: cannot open '%s': %s", path,
                     strerror(wrong));
    return is_missing(wrong) ? LSI_EXIT_NOT_FOUND : LSI_EXIT_CANNOT_RUN;
}

/* A terminal serves one process group only, and that is the front's. */
static bool reads_input(const lsi_processes *ranks, int rank)
{
    const bool is_first = ranks->place == NULL || ranks->place->group == 0;
    return rank == 0 && is_first && !ranks->setup->no_input &&
           !isatty(STDIN_FILENO);
}

/* Whether a rank's output needs more than this process's own streams. */
static bool is_passed_on(const lsi_launch_output *wanted)
{
    return wanted->of_ranks != NULL || wanted->log_folder != NULL;
}

static lsi_rank_output output_of(const lsi_launch_output *wanted, int rank)
{
    static const lsi_rank_output everything = {.console = LSI_STREAMS};
    return wanted->of_ranks != NULL ? wanted->of_ranks[rank] : everything;
}

/* With output in files, a terminal may be shown less of it. */
static lsi_tag_style style_of(lsi_rank_output wanted, int stream, bool logged)
{
    if ((wanted.folded & stream) != 0)
        return LSI_TAG_FOLDED;
    if ((wanted.tagged & stream) != 0)
        return LSI_TAG_MARKED;
    if ((wanted.passed & stream) == 0)
        return LSI_TAG_LINES;
    return logged && isatty(stream == LSI_STREAM_OUT ? STDOUT_FILENO
                                                     : STDERR_FILENO)
               ? LSI_TAG_LIMITED
               : LSI_TAG_BYTES;
}

/*
 * Opens one stream of a rank; *end is the rank's, -1 for this process's own.
 * The log (-1: none) belongs to the tag, or is closed.
 */
static ls_status open_stream(lsi_processes *ranks, int rank, int i,
                             lsi_log_file *log, int *end)
{
    const lsi_rank_output wanted = output_of(ranks->wanted, rank);
    const int stream = i == 0 ? LSI_STREAM_OUT : LSI_STREAM_ERR;
    const bool shown = (wanted.console & stream) != 0;
    const bool changed =
        ((wanted.tagged | wanted.folded | wanted.passed) & stream) != 0;
    const lsi_tag_target target = {
        .sink = shown ? ranks->output->sinks[i] : NULL,
        .style = style_of(wanted, stream, log->fd >= 0),
        .console = ranks->console,
        .log = *log};
    if (shown && !changed && log->fd < 0)
        return LS_OK;
    assert(ranks->n_tags < 2 * ranks->n);
    lsi_tag *const tag = &ranks->tags[ranks->n_tags];
    const ls_status status =
        lsi_tag_open(tag, lsi_processes_rank(ranks, rank), target, end);
    tag->stream = stream;
    if (status == LS_OK)
        ranks->n_tags++;
    else
        lsi_log_file_close(log);
    return status;
}

/*
 * Opens the streams of a rank. *logs is filled if it has logs; otherwise its
 * names are "".
 */
static ls_status open_streams(lsi_processes *ranks, const start *s, int rank,
                              lsi_rank_logs *logs, int ends[2])
{
    *logs = (lsi_rank_logs){.files = {{.fd = -1}, {.fd = -1}}};
    const lsi_logs_of of = {ranks->wanted->log_folder, s->job.run_id,
                            s->job.restart, lsi_processes_rank(ranks, rank)};
    if (of.folder != NULL)
        LS_TRY(lsi_rank_logs_open(logs, &of, ranks->wanted->rotation));
    LS_TRY(open_stream(ranks, rank, 0, &logs->files[0], &ends[0]));
    return open_stream(ranks, rank, 1, &logs->files[1], &ends[1]);
}

/* Whether SIGUSR1 asks ranks for records, also those that have no group yet. */
static bool wants_records(void)
{
    const char *folder = getenv("LOCKSTEP_RECORD");
    return folder != NULL && *folder != '\0';
}

/* Reports once a feature that does not work without more descriptors. */
static void warn_limit(const lsi_processes *ranks, bool *warned,
                       const char *what, int error_number)
{
    if (*warned || (error_number != EMFILE && error_number != ENFILE))
        return;
    *warned = true;
    lsi_output_print(ranks->output,
                     "%s: %s. Raise the limit of open files (ulimit -n)",
                     strerror(error_number), what);
}

static ls_status spawn_rank(lsi_processes *ranks, start *s, int rank,
                            const int outputs[2], int *error_number)
{
    char **environment;
    LS_TRY(lsi_environment_new(&s->job, rank, &environment));
    const lsi_spawn what = {
        .argv = ranks->setup->argv,
        .environment = environment,
        .mask = s->mask,
        .input = reads_input(ranks, rank) ? -1 : s->no_input,
        .output = outputs[0],
        .error = outputs[1],
        .place = lsi_placement_place(&s->placement, rank),
        .spared = wants_records(),
        .orphan_guard = ranks->orphan_guard,
        .unguarded = &s->unguarded,
        .files = s->files,
    };
    const ls_status status =
        lsi_spawn_process(&what, &ranks->pids[rank], error_number);
    lsi_environment_free(environment);
    return status;
}

/* Uses the whole name of a log folder, since a rank may change its folder. */
static void name_files(const lsi_processes *ranks, start *s, int rank,
                       const lsi_rank_logs *logs, char *error_file,
                       char *crash_file)
{
    if (ranks->wanted->log_folder != NULL) {
        snprintf(error_file, LSI_RANK_FILE_BYTES, "%s", logs->error_file);
        snprintf(crash_file, LSI_RANK_FILE_BYTES, "%.4400s/crash",
                 logs->folder);
        /* An error file of an earlier run of this name would be misleading. */
        (void)unlink(error_file);
        (void)unlink(crash_file);
    } else {
        lsi_processes_file(ranks, rank, LSI_ERROR_FILE, error_file);
        lsi_processes_file(ranks, rank, LSI_CRASH_FILE, crash_file);
    }
    s->job.error_file = error_file;
    s->job.crash_file = crash_file;
}

static int start_rank(lsi_processes *ranks, start *s, int rank)
{
    int ends[2] = {-1, -1};
    int error_number = 0;
    lsi_rank_logs logs;
    char error_file[LSI_RANK_FILE_BYTES], crash_file[LSI_RANK_FILE_BYTES];
    ls_status status = LS_OK;
    if (is_passed_on(ranks->wanted))
        status = open_streams(ranks, s, rank, &logs, ends);
    name_files(ranks, s, rank, &logs, error_file, crash_file);
    if (status == LS_OK)
        status = spawn_rank(ranks, s, rank, ends, &error_number);
    for (int i = 0; i < 2; i++) {
        if (ends[i] >= 0)
            close(ends[i]);
    }
    s->job.error_file = s->job.crash_file = NULL;
    if (status != LS_OK)
        return fail_start(ranks);
    if (error_number != 0)
        return fail_program(ranks, ranks->setup->argv[0], error_number);
    ranks->started++;
    ranks->alive++;
    deaths_watch(&ranks->deaths, rank, ranks->pids[rank]);
    return 0;
}

/* Reports once the places of the ranks, and whether they are too many. */
static void print_placement(const lsi_processes *ranks, const start *s)
{
    const lsi_placement *const p = &s->placement;
    const int online = (int)sysconf(_SC_NPROCESSORS_ONLN);
    char text[512];
    if (ranks->attempt > 0)
        return;
    if (s->has_neighbours)
        lsi_output_print(
            ranks->output,
            "this machine runs several nodes of this job: each rank "
            "gets %d thread%s, its share of the CPUs",
            p->threads, p->threads == 1 ? "" : "s");
    if (ranks->setup->tells_places) {
        lsi_placement_line(p, text, sizeof(text));
        lsi_output_print(ranks->output, "%s", text);
    }
    /*
     * A test may start more ranks than CPUs on purpose, each with one thread.
     */
    if (lsi_placement_is_crowded(p, online, text, sizeof(text)) &&
        (p->threads > 1 || ranks->setup->tells_places || isatty(STDERR_FILENO)))
        lsi_output_print(ranks->output, "%s", text);
}

/* Reports where the output of this attempt is. */
static void set_console_logs(lsi_processes *ranks)
{
    char *folder = NULL;
    if (ranks->wanted->log_folder == NULL ||
        asprintf(&folder, "%s/%s/%d", ranks->wanted->log_folder,
                 lsi_processes_run_id(ranks), ranks->attempt) < 0)
        return;
    lsi_console_set_logs(ranks->console, folder);
    free(folder);
}

static ls_status make_room(lsi_processes *ranks)
{
    const size_t n = (size_t)ranks->setup->n;
    ranks->n = ranks->setup->n;
    ranks->pids = calloc(n, sizeof(*ranks->pids));
    ranks->ended = malloc(n * sizeof(*ranks->ended));
    if (is_passed_on(ranks->wanted))
        ranks->tags = calloc(2 * n, sizeof(*ranks->tags));
    for (size_t i = 0; i < n && ranks->ended != NULL; i++)
        ranks->ended[i] = -1;
    if (ranks->pids == NULL || ranks->ended == NULL ||
        (is_passed_on(ranks->wanted) && ranks->tags == NULL))
        return lsi_fail(LS_ERR_MEMORY, "not enough memory for %d ranks",
                        ranks->n);
    return LS_OK;
}

static ls_status prepare(lsi_processes *ranks, start *s)
{
    const lsi_launch_ranks *const setup = ranks->setup;
    lsi_placement_here(setup->bind, setup->n, setup->threads, &s->placement);
    if (ranks->place != NULL && ranks->place->threads > 0)
        s->has_neighbours = lsi_placement_limit(&s->placement, setup->threads,
                                                ranks->place->threads);
    if (ranks->place != NULL) {
        lsi_job_identity_of_place(&s->job, ranks->place, setup->n,
                                  s->placement.threads);
        ranks->attempt = ranks->place->restart;
    } else
        LS_TRY(lsi_job_identity_new(&s->job, setup->n, s->placement.threads,
                                    setup->master_port));
    memcpy(ranks->job, s->job.id, sizeof(ranks->job));
    if (ranks->attempt == 0)
        memcpy(ranks->run_id, s->job.id, sizeof(ranks->run_id));
    s->job.run_id = lsi_processes_run_id(ranks);
    s->job.restart = ranks->attempt;
    s->job.max_restarts =
        ranks->place != NULL ? ranks->place->restarts : ranks->max_restarts;
    if (setup->role != NULL)
        s->job.role = setup->role;
    if (ranks->console != NULL)
        set_console_logs(ranks);
    print_placement(ranks, s);
    LS_TRY(make_room(ranks));
    deaths_open(&ranks->deaths, ranks->n);
    s->no_input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (s->no_input < 0)
        return lsi_fail_errno(LS_ERR_SYSTEM, "cannot open /dev/null");
    if (ranks->orphan_guard == 0) {
        ranks->orphan_guard = lsi_orphan_guard_open();
        s->unguarded = ranks->orphan_guard < 0 ? errno : 0;
    }
    return LS_OK;
}

int lsi_processes_start(lsi_processes *ranks, const sigset_t *mask)
{
    start s = {.mask = mask, .no_input = -1, .files = ranks->files};
    assert(ranks->n == 0 && ranks->alive == 0); /* after lsi_processes_next */
    int failed = prepare(ranks, &s) == LS_OK ? 0 : fail_start(ranks);
    if (failed == 0)
        failed = check_script(ranks);
    for (int rank = 0; rank < ranks->setup->n && failed == 0; rank++)
        failed = start_rank(ranks, &s, rank);
    warn_limit(ranks, &ranks->warned_unguarded,
               "if the launcher is killed, children of ranks may keep running",
               s.unguarded);
    lsi_placement_free(&s.placement);
    if (s.no_input >= 0)
        close(s.no_input);
    return failed;
}

void lsi_processes_next(lsi_processes *ranks)
{
    assert(ranks->alive == 0);
    deaths_close(&ranks->deaths);
    for (int i = 0; i < ranks->n && ranks->ended != NULL; i++) {
        if (ranks->ended[i] >= 0)
            close(ranks->ended[i]);
    }
    free(ranks->ended);
    ranks->ended = NULL;
    free(ranks->pids);
    free(ranks->tags);
    ranks->pids = NULL;
    ranks->started = 0;
    ranks->n = 0; /* children that end before the next attempt are not ranks */
    ranks->tags = NULL;
    ranks->n_tags = 0;
    ranks->attempt++;
}

static const char *folder_for_files(void)
{
    const char *const folder = getenv("TMPDIR");
    return folder == NULL || folder[0] != '/' ? "/tmp" : folder;
}

/*
 * Nobody can guess the job's name in advance, so no other file has this name.
 */
void lsi_processes_file(const lsi_processes *ranks, int rank, lsi_end_file file,
                        char out[LSI_RANK_FILE_BYTES])
{
    static const char *const names[] = {
        [LSI_ERROR_FILE] = "error.json", [LSI_CRASH_FILE] = "crash"};
    const int number = lsi_processes_rank(ranks, rank);
    const char *const logs = ranks->wanted->log_folder;
    if (logs != NULL)
        snprintf(out, LSI_RANK_FILE_BYTES, "%.4000s/%.300s/%d/%d/%s", logs,
                 lsi_processes_run_id(ranks), ranks->attempt, number,
                 names[file]);
    else
        snprintf(out, LSI_RANK_FILE_BYTES, "%.4000s/lockstep-%s-%d-%s",
                 folder_for_files(), ranks->job, number, names[file]);
}

void lsi_processes_clean(const lsi_processes *ranks)
{
    char path[LSI_RANK_FILE_BYTES];
    const bool logged = ranks->wanted->log_folder != NULL;
    for (int rank = 0; !logged && rank < ranks->n; rank++) {
        for (int i = 0; i < LSI_RANK_FILES; i++) {
            lsi_processes_file(ranks, rank, (lsi_end_file)i, path);
            (void)unlink(path);
        }
    }
}

const lsi_tag *lsi_processes_errors(const lsi_processes *ranks, int rank)
{
    for (int i = 0; i < ranks->n_tags; i++) {
        const lsi_tag *const tag = &ranks->tags[i];
        if (tag->rank == lsi_processes_rank(ranks, rank) &&
            tag->stream == LSI_STREAM_ERR)
            return tag;
    }
    return NULL;
}

const char *lsi_processes_run_id(const lsi_processes *ranks)
{
    if (ranks->place != NULL)
        return ranks->place->run;
    const char *const given = ranks->setup->run_id;
    return given != NULL ? given : ranks->run_id;
}

int lsi_processes_rank(const lsi_processes *ranks, int local)
{
    return local + (ranks->place != NULL ? ranks->place->offset : 0);
}

void lsi_processes_signal(const lsi_processes *ranks, int number)
{
    for (int i = 0; i < ranks->n; i++) {
        if (ranks->pids != NULL && ranks->pids[i] != 0)
            kill(-ranks->pids[i], number);
    }
}

static void record_end(lsi_processes *ranks, int rank, int status,
                       lsi_process_end *ended)
{
    assert(ranks->pids[rank] != 0 && ranks->ended[rank] < 0); /* once each */
    assert(ranks->alive > 0 && ranks->alive <= ranks->started);
    *ended = (lsi_process_end){
        .rank = rank, .pid = ranks->pids[rank], .status = status};
    ranks->pids[rank] = 0;
    ranks->alive--;
    /* After a failure all ranks are ended anyway. */
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return;
    ranks->ended[rank] =
        lsi_ended_publish(ranks->job, lsi_processes_rank(ranks, rank));
    if (ranks->ended[rank] < 0)
        warn_limit(ranks, &ranks->warned_unannounced,
                   "a rank that waits for an ended rank notices this only "
                   "after LOCKSTEP_TIMEOUT",
                   errno);
}

bool lsi_processes_reap(lsi_processes *ranks, lsi_process_end *ended)
{
    int status, rank;
    pid_t pid;
    while ((rank = deaths_next(&ranks->deaths)) >= 0) {
        if (ranks->pids[rank] != 0 &&
            waitpid(ranks->pids[rank], &status, WNOHANG) > 0) {
            record_end(ranks, rank, status, ended);
            return true;
        }
    }
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        /* Other children were left by ranks and adopted by this process. */
        for (rank = 0; rank < ranks->n; rank++) {
            if (ranks->pids[rank] != pid)
                continue;
            record_end(ranks, rank, status, ended);
            return true;
        }
    }
    return false;
}

/*
 * Whether the process has begun to end. Its sockets are closed, and peers fail
 * because of that, before it can be reaped. Giving back much memory takes a
 * long time.
 */
static bool is_ending(pid_t pid)
{
    static const unsigned long exiting = 4; /* PF_EXITING */
    lsi_process_stat stat;
    return lsi_process_stat_read(pid, &stat) && (stat.flags & exiting) != 0;
}

bool lsi_processes_are_ending(const lsi_processes *ranks)
{
    for (int i = 0; i < ranks->n; i++) {
        if (ranks->pids[i] != 0 && is_ending(ranks->pids[i]))
            return true;
    }
    return false;
}
