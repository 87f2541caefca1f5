/* The hosts of a job over ssh, from start to end; see ssh.h. */
#include "launch/ssh.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/program.h"
#include "base/requests.h"
#include "launch/environment.h"
#include "launch/launch.h"
#include "launch/signals.h"
#include "launch/spawn.h"
#include "launch/ssh_message.h"
#include "launch/ssh_state.h"

/* Without a terminal, without questions, and with a bounded wait. */
static const char usual_agent[] =
    "ssh -T -x -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5";

/* Seconds that a host may take to answer. */
#define HELLO_SECONDS 60.0

/*
 * Seconds, in addition to twice the grace, to end after another host has
 * failed.
 */
#define OTHERS_SECONDS 5.0

enum { POLL_SIGNALS, POLL_WAKE, POLL_HOSTS, MOST_WORDS = 64 };

typedef struct job {
    const lsi_ssh_config *config;
    lsi_ssh_node *nodes;
    int n, alive;
    bool started;         /* all hosts have answered and received the program */
    bool given_up;        /* the hosts are being ended */
    int verdict;          /* exit status; -1: none so far */
    double kill_at;       /* when remaining hosts are killed; 0: never */
    double others_end_at; /* when other hosts are ended; 0: never */
    double hello_until;
    sigset_t mask_before;
    lsi_requests requests;
    lsi_output output;
    lsi_ssh_line_counts shown;
    struct pollfd *polled;
} job;

/* ---- starting ----------------------------------------------------------- */

/* The words of the agent program, the host, and the command for its shell. */
static int agent_words(const job *j, const char *host, char *words[MOST_WORDS],
                       char *agent, char *command, size_t room)
{
    int n = 0;
    char *rest = NULL;
    snprintf(agent, room, "%s",
             j->config->agent != NULL ? j->config->agent : usual_agent);
    if (j->config->agent != NULL && strlen(j->config->agent) >= room)
        agent[0] = '\0';
    for (char *word = strtok_r(agent, " \t", &rest);
         word != NULL && n < MOST_WORDS - 3;
         word = strtok_r(NULL, " \t", &rest))
        words[n++] = word;
    words[n++] = (char *)(uintptr_t)host;
    words[n++] = command;
    words[n] = NULL;
    return n;
}

static ls_status start_agent(const job *j, lsi_ssh_node *node)
{
    enum { ROOM = 4096 };
    char agent[ROOM], command[LSI_PROGRAM_BYTES + 32];
    char *words[MOST_WORDS];
    char own[LSI_PROGRAM_BYTES];
    int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1};
    int error_number = 0;
    LS_TRY(lsi_program_path(own));
    snprintf(command, sizeof(command), "exec '%s' run --on-host", own);
    if (agent_words(j, node->name, words, agent, command, ROOM) < 3)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "the --ssh command is empty or too long; it must have "
                        "fewer than %d characters",
                        ROOM);
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 ||
        pipe2(err, O_CLOEXEC) != 0)
        return lsi_fail_errno(LS_ERR_SYSTEM, "cannot create pipes to a host");
    const lsi_spawn what = {
        .argv = words,
        .environment = environ,
        .mask = &j->mask_before,
        .input = in[0],
        .output = out[1],
        .error = err[1],
        .orphan_guard = -1,
    };
    const ls_status status =
        lsi_spawn_process(&what, &node->pid, &error_number);
    close(in[0]);
    close(out[1]);
    close(err[1]);
    node->in = in[1];
    node->lines[0].fd = out[0];
    node->lines[1].fd = err[0];
    if (status == LS_OK && error_number != 0) {
        errno = error_number;
        return lsi_fail_errno(LS_ERR_SYSTEM,
                              "cannot run '%s', the --ssh command that starts "
                              "programs on other hosts",
                              words[0]);
    }
    return status;
}

static void send_word(const lsi_ssh_node *node, const char *word)
{
    lsi_ssh_message_write(node->in, LSI_SSH_WORD, word);
}

/*
 * The endpoint of the hosts: the address of the first host that ssh found. ssh
 * may know it by another name than the hosts do.
 */
static void name_endpoint(const job *j, char *out, size_t bytes)
{
    const lsi_ssh_node *const first = &j->nodes[0];
    const char *const at = strrchr(first->name, '@');
    const char *host = at != NULL ? at + 1 : first->name;
    const bool known = strcmp(first->address, "-") != 0 &&
                       strncmp(first->address, "127.", 4) != 0 &&
                       strcmp(first->address, "::1") != 0;
    if (j->config->endpoint != NULL)
        snprintf(out, bytes, "%s", j->config->endpoint);
    else if (known && strchr(first->address, ':') != NULL)
        snprintf(out, bytes, "[%s]:%d", first->address, first->port);
    else
        snprintf(out, bytes, "%s:%d", known ? first->address : host,
                 first->port);
}

static void send_variables(const job *j, const lsi_ssh_node *node,
                           const char *secret)
{
    char text[128];
    snprintf(text, sizeof(text), "LOCKSTEP_SECRET=%s", secret);
    lsi_ssh_message_write(node->in, LSI_SSH_VARIABLE, text);
    for (char *const *v = j->config->variables; *v != NULL; v++)
        lsi_ssh_message_write(node->in, LSI_SSH_VARIABLE, *v);
}

static void send_command(const job *j, int node_rank, const char *secret)
{
    const lsi_ssh_node *const node = &j->nodes[node_rank];
    char folder[4096], endpoint[512], text[32];
    name_endpoint(j, endpoint, sizeof(endpoint));
    if (getcwd(folder, sizeof(folder)) != NULL)
        lsi_ssh_message_write(node->in, LSI_SSH_FOLDER, folder);
    send_variables(j, node, secret);
    send_word(node, "lockstep");
    send_word(node, "run");
    for (char *const *flag = j->config->flags; *flag != NULL; flag++)
        send_word(node, *flag);
    snprintf(text, sizeof(text), "%d", node->ranks);
    send_word(node, "-n");
    send_word(node, text);
    if (j->n > 1) {
        snprintf(text, sizeof(text), "%d", j->n);
        send_word(node, "--nnodes");
        send_word(node, text);
        snprintf(text, sizeof(text), "%d", node_rank);
        send_word(node, "--node-rank");
        send_word(node, text);
        send_word(node, "--rdzv-endpoint");
        send_word(node, endpoint);
    }
    send_word(node, "--");
    for (char *const *word = j->config->program; *word != NULL; word++)
        send_word(node, *word);
    lsi_ssh_message_write(node->in, LSI_SSH_GO, "");
}

/* Called once all hosts have answered. */
static ls_status start_ranks(job *j)
{
    char halves[2][33], secret[67];
    for (int i = 0; i < j->n; i++) {
        if (!j->nodes[i].greeted)
            return LS_OK;
    }
    LS_TRY(lsi_random_id(halves[0]));
    LS_TRY(lsi_random_id(halves[1]));
    snprintf(secret, sizeof(secret), "%s%s", halves[0], halves[1]);
    for (int i = 0; i < j->n; i++)
        send_command(j, i, secret);
    explicit_bzero(secret, sizeof(secret));
    explicit_bzero(halves, sizeof(halves));
    j->started = true;
    return LS_OK;
}

/* ---- ending ------------------------------------------------------------- */

/* Closes a host's input, so that it ends all that it has started. */
static void close_input(lsi_ssh_node *node)
{
    if (node->in >= 0)
        close(node->in);
    node->in = -1;
}

static void give_up(job *j, int verdict)
{
    j->given_up = true;
    if (j->verdict < 0)
        j->verdict = verdict;
    if (j->kill_at == 0)
        j->kill_at = lsi_clock_seconds() + j->config->grace;
    for (int i = 0; i < j->n; i++)
        close_input(&j->nodes[i]);
}

static void explain_start(const job *j, const lsi_ssh_node *node)
{
    const int status = WIFEXITED(node->status) ? WEXITSTATUS(node->status) : -1;
    const char *const last = node->last;
    if (status == LSI_EXIT_NOT_FOUND || status == LSI_EXIT_CANNOT_RUN)
        lsi_output_print(&j->output,
                         "host %s cannot run lockstep; install it there at the "
                         "same path: %s",
                         node->name, last);
    else if (status == LSI_EXIT_USAGE)
        lsi_output_print(
            &j->output,
            "host %s has another version of lockstep; install this "
            "version there: %s",
            node->name, last);
    else if (status == 255)
        lsi_output_print(&j->output, "host %s cannot be reached: %s",
                         node->name,
                         last[0] != '\0' ? last : "ssh gave no reason");
    else
        lsi_output_print(&j->output, "host %s did not start lockstep: %s",
                         node->name,
                         last[0] != '\0' ? last : "it sent no message");
}

static bool is_over(const lsi_ssh_node *node)
{
    return node->pid == 0 && node->lines[0].fd < 0 && node->lines[1].fd < 0;
}

static void reap(job *j)
{
    int status;
    for (int i = 0; i < j->n; i++) {
        lsi_ssh_node *const node = &j->nodes[i];
        if (node->pid == 0 || waitpid(node->pid, &status, WNOHANG) <= 0)
            continue;
        node->pid = 0;
        node->status = status;
        close_input(node); /* its processes may live and hold the pipes */
    }
}

static void kill_rest(job *j)
{
    for (int i = 0; i < j->n; i++) {
        if (j->nodes[i].pid != 0)
            (void)kill(-j->nodes[i].pid, SIGKILL);
    }
    j->kill_at = 0;
}

/* ---- the loop ----------------------------------------------------------- */

static void send_signal(const job *j, int number)
{
    char text[16];
    snprintf(text, sizeof(text), "%d", number);
    for (int i = 0; i < j->n; i++) {
        if (j->started && j->nodes[i].in >= 0)
            lsi_ssh_message_write(j->nodes[i].in, LSI_SSH_SIGNAL, text);
    }
}

static void pass_on(job *j, int number)
{
    send_signal(j, number);
    if (!j->started && lsi_signal_ends(number))
        give_up(j, 128 + number);
    if (number == SIGTSTP)
        raise(SIGSTOP);
}

static void read_signal(job *j)
{
    struct signalfd_siginfo info;
    if (read(j->polled[POLL_SIGNALS].fd, &info, sizeof(info)) != sizeof(info))
        return;
    const int number = (int)info.ssi_signo;
    const siginfo_t as_info = {.si_signo = number, .si_code = info.ssi_code};
    if (number == SIGCHLD)
        return;
    if (lsi_signal_ends(number) &&
        !lsi_request_counts(&j->requests, &as_info, lsi_clock_seconds()))
        return;
    pass_on(j, number);
}

/*
 * The launchers of the other hosts end by themselves when one has failed. A
 * launcher that was asked to end, but not by us, has told no other. A job whose
 * hosts disagree must end, too.
 */
static void end_others(job *j, int status)
{
    if (j->requests.n > 0 || j->others_end_at > 0)
        return;
    j->others_end_at =
        lsi_clock_seconds() + 2 * j->config->grace + OTHERS_SECONDS;
    if (lsi_signal_ends(status - 128))
        send_signal(j, status - 128);
}

/* Called after its output has been read to its end. */
static void handle_end(job *j, lsi_ssh_node *node)
{
    const int status = lsi_signal_exit_status(node->status);
    close_input(node);
    if (!node->greeted) {
        if (!j->given_up && !node->refused)
            explain_start(j, node);
        give_up(j, 1);
        return;
    }
    if (status == 0 || j->given_up)
        return;
    if (status == 255 || WIFSIGNALED(node->status))
        lsi_output_print(&j->output, "the connection to host %s is lost",
                         node->name);
    if (j->verdict < 0 || j->verdict == 255)
        j->verdict = status;
    end_others(j, status);
}

static void fill_polled(job *j)
{
    for (int i = 0; i < j->n; i++) {
        for (int stream = 0; stream < 2; stream++) {
            const int fd = j->nodes[i].lines[stream].fd;
            j->polled[POLL_HOSTS + 2 * i + stream] = (struct pollfd){
                .fd = lsi_ssh_can_read(&j->output, stream) ? fd : -1,
                .events = POLLIN};
        }
    }
}

static void read_hosts(job *j)
{
    for (int i = 0; i < j->n; i++) {
        for (int stream = 0; stream < 2; stream++) {
            const struct pollfd *p = &j->polled[POLL_HOSTS + 2 * i + stream];
            if (p->fd >= 0 && p->revents != 0)
                lsi_ssh_read_lines(&j->nodes[i], &j->output, stream);
        }
    }
}

static void pass_deadlines(job *j)
{
    const double now = lsi_clock_seconds();
    if (j->kill_at > 0 && now >= j->kill_at)
        kill_rest(j);
    if (j->others_end_at > 0 && now >= j->others_end_at && !j->given_up) {
        lsi_output_print(
            &j->output,
            "ending the job on the hosts where it is still running");
        give_up(j, 1);
    }
    if (j->started || j->given_up || now < j->hello_until)
        return;
    for (int i = 0; i < j->n; i++) {
        if (!j->nodes[i].greeted)
            lsi_output_print(&j->output, "host %s did not answer within %g s",
                             j->nodes[i].name, HELLO_SECONDS);
    }
    give_up(j, 1);
}

static void handle_ends(job *j)
{
    j->alive = 0;
    for (int i = 0; i < j->n; i++) {
        lsi_ssh_node *const node = &j->nodes[i];
        const bool was_over = node->ranks == 0;
        if (node->refused && !j->given_up)
            give_up(j, 1);
        if (!is_over(node))
            j->alive++;
        else if (!was_over) {
            node->ranks = 0; /* handled */
            handle_end(j, node);
        }
    }
}

static ls_status step(job *j)
{
    enum { SLICE_MS = 100 };
    const bool times = j->kill_at > 0 || j->others_end_at > 0 || !j->started;
    uint64_t changes;
    fill_polled(j);
    if (poll(j->polled, (nfds_t)(POLL_HOSTS + 2 * j->n),
             times ? SLICE_MS : -1) < 0)
        return LS_OK;
    if (j->polled[POLL_SIGNALS].revents != 0)
        read_signal(j);
    if (j->polled[POLL_WAKE].revents != 0 &&
        read(j->polled[POLL_WAKE].fd, &changes, sizeof(changes)) < 0)
        return LS_OK;
    read_hosts(j);
    reap(j);
    handle_ends(j);
    pass_deadlines(j);
    return j->started || j->given_up ? LS_OK : start_ranks(j);
}

/* ---- all of it ---------------------------------------------------------- */

static ls_status open_job(job *j)
{
    const lsi_ssh_hosts *const hosts = &j->config->hosts;
    sigset_t set;
    lsi_signals_passed_on(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGPIPE);
    sigprocmask(SIG_BLOCK, &set, &j->mask_before);
    sigdelset(&set, SIGPIPE);
    j->n = hosts->n;
    j->nodes = calloc((size_t)j->n, sizeof(*j->nodes));
    j->polled = calloc((size_t)(POLL_HOSTS + 2 * j->n), sizeof(*j->polled));
    if (j->nodes == NULL || j->polled == NULL)
        return lsi_fail(LS_ERR_MEMORY, "not enough memory for %d hosts", j->n);
    j->polled[POLL_SIGNALS].fd = -1;
    for (int i = 0; i < j->n; i++) {
        j->nodes[i] = (lsi_ssh_node){.name = hosts->hosts[i].name,
                                     .ranks = hosts->hosts[i].ranks,
                                     .shown = &j->shown,
                                     .in = -1};
        j->nodes[i].lines[0].fd = j->nodes[i].lines[1].fd = -1;
    }
    LS_TRY(lsi_output_open(&j->output));
    const int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0)
        return lsi_fail_errno(LS_ERR_SYSTEM,
                              "cannot create a signalfd to receive signals");
    j->polled[POLL_SIGNALS] = (struct pollfd){.fd = signals, .events = POLLIN};
    j->polled[POLL_WAKE] =
        (struct pollfd){.fd = j->output.wake, .events = POLLIN};
    for (int i = 0; i < j->n; i++)
        LS_TRY(start_agent(j, &j->nodes[i]));
    return LS_OK;
}

ls_status lsi_ssh_launch(const lsi_ssh_config *config, int *exit_status)
{
    job j = {.config = config, .verdict = -1};
    j.hello_until = lsi_clock_seconds() + HELLO_SECONDS;
    ls_status status = open_job(&j);
    j.alive = status == LS_OK ? j.n : 0;
    while (status == LS_OK && j.alive > 0)
        status = step(&j);
    if (status != LS_OK) { /* the launcher of a rank sees it by its input */
        give_up(&j, 1);
        kill_rest(&j);
    }
    if (j.output.sinks[0] != NULL) {
        lsi_ssh_write_rest(&j.output, j.polled[POLL_SIGNALS].fd, config->grace);
        lsi_output_close(&j.output);
    }
    *exit_status = j.verdict < 0 ? 0 : j.verdict;
    free(j.nodes);
    free(j.polled);
    return status;
}
