/*
 * Becoming several ranks, or being one.
 */
#include "cli/ranks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/threads.h"
#include "launch/launch.h"

/*
 * A descriptor that holds one token: who takes it may say what went wrong.
 * Ranks inherit it.
 */
#define TOKEN_VARIABLE "LOCKSTEP_ERROR_FD"

static const double grace_seconds = 3;

/* The value of the first of these variables that is a number; else -1. */
static int first_number(const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *text = getenv(names[i]);
        if (text == NULL)
            continue;
        char *end;
        const long value = strtol(text, &end, 10);
        if (end != text && *end == '\0' && value >= 0 && value <= 1 << 20)
            return (int)value;
    }
    return -1;
}

/* A shell inside an allocation has Slurm's names too, but no step. */
static size_t known_launchers(size_t n)
{
    return getenv("SLURM_STEP_ID") != NULL ? n : n - 1;
}

int lsi_cli_launched_size(void)
{
    static const char *const names[] = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE",
                                        "PMI_SIZE", "SLURM_NTASKS"};
    const size_t n = sizeof(names) / sizeof(names[0]);
    const int size = first_number(names, known_launchers(n));
    return size < 0 ? 0 : size;
}

int lsi_cli_launched_rank(void)
{
    static const char *const names[] = {"RANK", "OMPI_COMM_WORLD_RANK",
                                        "PMI_RANK", "SLURM_PROCID"};
    const size_t n = sizeof(names) / sizeof(names[0]);
    const int rank = first_number(names, known_launchers(n));
    return rank < 0 ? 0 : rank;
}

static int launched_local_size(void)
{
    static const char *const names[] = {
        "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"};
    const int size = first_number(names, sizeof(names) / sizeof(names[0]));
    return size >= 1 ? size : lsi_cli_launched_size();
}

void lsi_cli_set_threads(int64_t threads)
{
    lsi_threads_set(threads > 0 ? (int)threads
                                : lsi_threads_default(launched_local_size()));
}

/* ---- who may say what went wrong ------------------------------------------
 */

static ls_status make_token(int *fd)
{
    char text[16];
    *fd = eventfd(1, EFD_NONBLOCK);
    if (*fd < 0)
        return lsi_fail_errno(LS_ERR_SYSTEM, "cannot start ranks");
    snprintf(text, sizeof(text), "%d", *fd);
    if (setenv(TOKEN_VARIABLE, text, 1) != 0) {
        close(*fd);
        return lsi_fail_errno(LS_ERR_MEMORY, "cannot start ranks");
    }
    return LS_OK;
}

/* Without a token (other launchers) everybody may speak. */
static bool take_token(void)
{
    static const char *const name[] = {TOKEN_VARIABLE};
    const int fd = first_number(name, 1);
    uint64_t tokens;
    return fd < 0 || read(fd, &tokens, sizeof(tokens)) == sizeof(tokens) ||
           errno != EAGAIN;
}

int lsi_cli_rank_error(void)
{
    if (!take_token())
        return LSI_EXIT_ERROR;
    if (lsi_cli_launched_size() > 1)
        fprintf(stderr, "lockstep: rank %d: %s\n", lsi_cli_launched_rank(),
                ls_last_error());
    else
        fprintf(stderr, "lockstep: %s\n", ls_last_error());
    return LSI_EXIT_ERROR;
}

/* ---- starting ---------------------------------------------------------------
 */

/* The path of this program; argv[0] need not be one. */
static ls_status own_path(char out[4096])
{
    const ssize_t length = readlink("/proc/self/exe", out, 4095);
    if (length < 0)
        return lsi_fail_errno(LS_ERR_SYSTEM, "cannot find this program");
    out[length] = '\0';
    return LS_OK;
}

ls_status lsi_cli_launch_self(const lsi_call *call, int n, int64_t threads,
                              int *exit_status)
{
    char path[4096];
    int token;
    LS_TRY(own_path(path));
    LS_TRY(make_token(&token));
    char *const name = call->line_argv[0];
    call->line_argv[0] = path;
    const lsi_launch_config config = {
        .argv = call->line_argv,
        .ranks = n,
        .threads = (int)threads,
        .grace = grace_seconds,
        .bind = true,
        .quiet_exit = true,
        .no_input = true,
    };
    const ls_status status = lsi_launch(&config, exit_status);
    call->line_argv[0] = name;
    unsetenv(TOKEN_VARIABLE);
    close(token);
    return status;
}

bool lsi_cli_as_rank(const lsi_call *call, const lsi_rank_flags *flags,
                     int usual, int *exit_status)
{
    const int size = lsi_cli_launched_size();
    const int n = flags->n > 0 ? (int)flags->n : usual;
    if (size > 0 && flags->n > 0 && flags->n != size) {
        *exit_status = lsi_cli_usage(
            "%s: -n %d, but this is one of %d ranks that a launcher started; "
            "leave -n out or make them agree",
            call->argv[0], n, size);
        return false;
    }
    if (size > 0 || n == 1) {
        lsi_cli_set_threads(flags->threads);
        return true;
    }
    if (lsi_cli_launch_self(call, n, flags->threads, exit_status) != LS_OK)
        *exit_status = lsi_cli_error();
    return false;
}
