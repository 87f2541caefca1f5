/*
 * Commands that run as several ranks. They start these themselves (with -n),
 * by running the same command line again under the launcher, or run as one
 * rank of those that `lockstep run`, torchrun or mpirun started.
 *
 *     struct args { lsi_rank_flags ranks; ... };
 *     #define ROW(...) LSI_OPTION(struct args, __VA_ARGS__)
 *     static const lsi_option options[] = {LSI_RANK_ROWS(ranks, "1"), ...};
 *
 *     static int run(const lsi_invocation *call)
 *     {
 *         struct args a;
 *         int status;
 *         if (!lsi_cli_parse(call, &a, NULL, &status) ||
 *             !lsi_cli_as_rank(call, &a.ranks, 1, &status))
 *             return status;
 *         ... here this process is one rank ...
 *     }
 */
#ifndef LS_CLI_FRAME_RANKS_H
#define LS_CLI_FRAME_RANKS_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/frame/command.h"
#include "launch/binding.h"
#include "launch/launch.h"
#include "lockstep/group.h"

/*
 * The words for one rank per CPU that a number of ranks may be, as torchrun
 * has them; such a flag is LSI_OPTION_WORD.
 */
#define LSI_RANK_WORDS "auto|cpu"

/* The number of ranks that a flag stands for; `usual` where it is 0. */
int lsi_cli_rank_count(int64_t flag, int usual);

typedef struct lsi_rank_flags {
    int64_t n;       /* 0: not given; LSI_OPTION_WORD: one per CPU */
    int64_t threads; /* 0: not given */
    const char *bind;
} lsi_rank_flags;

/*
 * The rows for a field of that name, to be used where ROW is defined. A command
 * starts `usual` ranks by default.
 */
#define LSI_RANK_ROWS(field, usual)                                            \
    ROW(field.n, INT, "ranks", 'n', "N", NULL,                                 \
        "number of ranks to start, or 'auto' for one per CPU (default: " usual \
        "; under another launcher, its number of ranks)",                      \
        .min = 1, .max = LSI_LAUNCH_MAX_RANKS, .choices = LSI_RANK_WORDS),     \
        LSI_THREADS_ROW(field.threads), LSI_BIND_ROW(field.bind)

#define LSI_BIND_ROW(field)                                                    \
    ROW(field, MODE, "bind", 0, "core|numa|none", "cpu",                       \
        "CPUs that each rank may use (cpu: separate neighbouring CPUs; with "  \
        "more ranks than CPUs, one that equally many ranks share, or all if "  \
        "the numbers do not divide; core: separate cores within a NUMA node; " \
        "numa: a whole NUMA node; none or --no-bind: all CPUs)",               \
        .choices = LSI_BINDING_NAMES)

#define LSI_THREADS_ROW(field)                                                 \
    ROW(field, INT, "threads", 0, "N", NULL,                                   \
        "threads per rank (default: OMP_NUM_THREADS, or CPUs / ranks)",        \
        .min = 1, .max = 1024)

#define LSI_DETERMINISTIC_ROW(field)                                           \
    ROW(field, BOOL, "deterministic", 0, NULL, NULL,                           \
        "refuse algorithms that change the order of additions, so that "       \
        "results do not depend on the algorithm (sets "                        \
        "LOCKSTEP_DETERMINISTIC=1)")

/* Applies the flag of that row, for this process and its ranks. */
void lsi_cli_set_deterministic(bool deterministic);

/*
 * true: this process is one rank; go on.
 * false: this process has started the ranks and waited for them, or the flags
 * disagree with the environment. The command then returns *exit_status.
 * `usual` ranks are started if the flags name no number.
 */
bool lsi_cli_as_rank(const lsi_invocation *call, const lsi_rank_flags *flags,
                     int usual, int *exit_status);

/* Which rank of which job this process is, if a launcher has started it. */
typedef struct lsi_launched {
    int rank;
    int size; /* 0: no launcher has started it */
} lsi_launched;

/* LS_ERR_ARGUMENT if the launcher's variables contradict each other. */
ls_status lsi_cli_launched(lsi_launched *out);

/*
 * Whether this process may print about the command line: only one process of a
 * job, the command that starts ranks or rank 0 of another launcher.
 */
bool lsi_cli_is_first(void);

/* Sets this process's threads: as the flag says, or by OMP_NUM_THREADS. */
void lsi_cli_set_threads(int64_t threads, int cpus);

/* Opens the group of a rank and sets its threads. */
ls_status lsi_cli_open_group(int64_t threads, ls_group **out);

/*
 * Runs the whole command line of the call again as flags->n ranks. When a rank
 * exits with an error the launcher adds nothing: the rank has printed it.
 */
ls_status lsi_cli_launch_self(const lsi_invocation *call,
                              const lsi_rank_flags *flags, int *exit_status);

/*
 * As lsi_cli_error, for a rank. Of the ranks that the command has started
 * itself, only the first that fails prints its error; the errors of the others
 * follow from it. An error of another rank, which all ranks have, names that
 * rank.
 */
int lsi_cli_rank_error(void);

/*
 * The exit status of a rank. `shared`: all ranks have the error, and another
 * rank prints it.
 */
int lsi_cli_rank_exit(ls_status status, bool shared);

#endif
