/*
 * Becoming several ranks, or being one.
 */
#include "cli/frame/ranks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "array/compute/threads.h"
#include "base/cpus.h"
#include "base/error.h"
#include "base/program.h"
#include "comm/bootstrap/environment.h"
#include "comm/node/rank_cpus.h"

/*
 * A descriptor that holds one token: the process that claims it may print the
 * error. Ranks inherit the descriptor.
 */
#define TOKEN_VARIABLE "LOCKSTEP_ERROR_FD"

static const double grace_seconds = 3;

/*
 * A job of one rank that Slurm describes may just be the shell of a batch
 * script; torchrun's variables and our own are set for ranks only.
 */
ls_status lsi_cli_launched(lsi_launched *out)
{
    lsi_world world;
    LS_TRY(lsi_world_from_env(&world));
    const bool is_rank = world.size > 1 || getenv("WORLD_SIZE") != NULL;
    *out = (lsi_launched){world.rank, is_rank ? world.size : 0};
    return LS_OK;
}

int lsi_cli_rank_count(int64_t flag, int usual)
{
    if (flag == LSI_OPTION_WORD)
        return lsi_cpus_available();
    return flag > 0 ? (int)flag : usual;
}

void lsi_cli_set_threads(int64_t threads, int cpus)
{
    lsi_threads_set(threads > 0 ? (int)threads : lsi_threads_default(cpus));
}

ls_status lsi_cli_open_group(int64_t threads, ls_group **out)
{
    /* The library may handle SIGTERM: this program has no handler. */
    setenv("LOCKSTEP_SIGTERM", "1", 0);
    LS_TRY(ls_group_from_env(out));
    uint64_t group_of_quota;
    lsi_cli_set_threads(threads,
                        lsi_rank_cpus_share(*out, lsi_cpus_available(),
                                            lsi_cpus_quota(&group_of_quota)));
    return LS_OK;
}

void lsi_cli_set_deterministic(bool deterministic)
{
    if (deterministic)
        setenv("LOCKSTEP_DETERMINISTIC", "1", 1);
}

/* ---- printing errors -------------------------------------------------- */

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

bool lsi_cli_is_first(void)
{
    lsi_launched launched;
    return getenv(TOKEN_VARIABLE) == NULL &&
           (lsi_cli_launched(&launched) != LS_OK || launched.rank == 0);
}

/* Without a token (other launchers) every process may print. */
static bool claim_token(void)
{
    const char *text = getenv(TOKEN_VARIABLE);
    uint64_t tokens;
    if (text == NULL)
        return true;
    const int fd = (int)strtol(text, NULL, 10);
    return read(fd, &tokens, sizeof(tokens)) == sizeof(tokens) ||
           errno != EAGAIN;
}

/* Whether the error of another rank was shared: "rank 3: cannot open ..." */
static bool names_rank(const char *text)
{
    int length = 0;
    (void)sscanf(text, "rank %*d: %n", &length);
    return length > 0;
}

int lsi_cli_rank_error(void)
{
    char text[1024]; /* the next call may fail, too */
    char rank[32] = "";
    lsi_launched launched;
    snprintf(text, sizeof(text), "%s", ls_last_error());
    if (!claim_token())
        return LSI_EXIT_ERROR;
    if (lsi_cli_launched(&launched) == LS_OK && launched.size > 1 &&
        !names_rank(text))
        snprintf(rank, sizeof(rank), "rank %d: ", launched.rank);
    return lsi_cli_complain(rank, text);
}

int lsi_cli_rank_exit(ls_status status, bool shared)
{
    if (status == LS_OK)
        return 0;
    return shared ? LSI_EXIT_ERROR : lsi_cli_rank_error();
}

/* ---- starting --------------------------------------------------------- */

ls_status lsi_cli_launch_self(const lsi_invocation *call,
                              const lsi_rank_flags *flags, int *exit_status)
{
    char path[LSI_PROGRAM_BYTES];
    int token;
    LS_TRY(lsi_program_path(path));
    LS_TRY(make_token(&token));
    char *const name = call->line_argv[0];
    call->line_argv[0] = path;
    const lsi_launch_config config = {
        .ranks = {.argv = call->line_argv,
                  .n = (int)flags->n,
                  .threads = (int)flags->threads,
                  .bind = lsi_binding_parse(flags->bind),
                  .no_input = true},
        .output.quiet_exit = true,
        .limits.grace = grace_seconds,
    };
    const ls_status status = lsi_launch(&config, exit_status);
    call->line_argv[0] = name;
    unsetenv(TOKEN_VARIABLE);
    close(token);
    return status;
}

bool lsi_cli_as_rank(const lsi_invocation *call, const lsi_rank_flags *flags,
                     int usual, int *exit_status)
{
    lsi_launched launched;
    if (lsi_cli_launched(&launched) != LS_OK) {
        *exit_status = lsi_cli_error();
        return false;
    }
    const int n = lsi_cli_rank_count(flags->n, usual);
    if (launched.size > 0 && flags->n > 0 && flags->n != launched.size) {
        *exit_status =
            lsi_cli_usage("-n %d differs from the %d ranks that the launcher "
                          "started; leave -n out, or give the same number",
                          n, launched.size);
        return false;
    }
    if (launched.size > 0 || n == 1)
        return true;
    lsi_rank_flags all = *flags;
    all.n = n;
    if (lsi_cli_launch_self(call, &all, exit_status) != LS_OK)
        *exit_status = lsi_cli_error();
    return false;
}
