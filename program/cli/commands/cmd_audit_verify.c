/*
 * lockstep audit verify: trains a segment of a run again, with the flags that
 * its audit file has, and compares each entry.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/printable.h"
#include "cli/commands/ddp_flags.h"
#include "cli/frame/config_file.h"
#include "cli/frame/ranks.h"
#include "lockstep/version.h"
#include "model/checkpoint/folder.h"
#include "train/audit.h"

typedef struct args {
    int64_t from, to;
    lsi_rank_flags ranks;
    const char *strategy, *folder, *data;
} args;

#define ROW(...) LSI_OPTION(args, __VA_ARGS__)
static const lsi_option options[] = {
    ROW(from, INT, "from", 0, "A", "0",
        "first step to compare; training begins at the newest checkpoint of "
        "at most this step, or at the beginning",
        .min = 0, .max = 1e15),
    ROW(to, INT, "to", 0, "B", NULL,
        "last step to train (default: the last one of the file)", .min = 0,
        .max = 1e15),
    ROW(ranks.n, INT, "ranks", 'n', "N", NULL,
        "number of ranks to start (default: that of the run; under another "
        "launcher, its number of ranks)",
        .min = 1, .max = LSI_LAUNCH_MAX_RANKS),
    ROW(ranks.threads, INT, "threads", 0, "N", NULL,
        "threads per rank (default: those of the run)", .min = 1, .max = 1024),
    LSI_BIND_ROW(ranks.bind),
    ROW(strategy, CHOICE, "strategy", 0, "NAME", NULL,
        "strategy to train with (default: that of the run)",
        .choices = lsi_strategy_choices),
    ROW(folder, STRING, "checkpoint-dir", 0, "DIR", NULL,
        "folder of the run's checkpoints (default: the one that the file "
        "names)"),
    ROW(data, STRING, "data", 0, "PATH", NULL,
        "data of the run (default: the path that the file names)"),
};

typedef struct session {
    const args *a;
    const char *path;
    lsi_chain chain;
    json_t *header, *run, *flags; /* flags: of the segment's run */
    int n, threads;
    int64_t start; /* step of the checkpoint to begin with; 0: none */
    lsi_audit_check check;
} session;

static const char *text_of(const json_t *object, const char *key)
{
    const char *const text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static int number_of(const json_t *object, const char *key)
{
    return (int)json_integer_value(json_object_get(object, key));
}

static const char *setting(const session *s, const char *name)
{
    return text_of(json_object_get(s->header, "settings"), name);
}

/* ---- the segment --------------------------------------------------------- */

static int64_t last_step(const lsi_chain *chain)
{
    for (size_t i = chain->n; i-- > 0;)
        if (chain->lines[i].kind == LSI_CHAIN_ENTRY ||
            chain->lines[i].kind == LSI_CHAIN_SAVED)
            return chain->lines[i].step;
    return -1;
}

static ls_status find_segment(session *s)
{
    lsi_audit_check *const c = &s->check;
    const int64_t last = last_step(&s->chain);
    *c = (lsi_audit_check){.chain = &s->chain,
                           .from = s->a->from,
                           .to = s->a->to > 0 ? s->a->to : last,
                           .began = -1};
    if (c->from > c->to || c->to > last)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "cannot verify steps %" PRId64 " to %" PRId64
                        ": '%s' has entries up to step %" PRId64
                        ". Give --from and --to in this order, up to this step",
                        c->from, c->to, s->path, last);
    for (int64_t step = c->from; step <= c->to; step++)
        if (lsi_chain_find(&s->chain, step) != NULL)
            return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT,
                    "'%s' has no entry from step %" PRId64 " to step %" PRId64
                    "; give a longer segment",
                    s->path, c->from, c->to);
}

/* The run that made the first entry after `from`. */
static ls_status find_run(session *s)
{
    const lsi_chain_line *run = NULL;
    for (size_t i = 0; i < s->chain.n; i++) {
        const lsi_chain_line *const line = &s->chain.lines[i];
        if (line->kind == LSI_CHAIN_RUN &&
            (run == NULL || line->step <= s->check.from + 1))
            run = line;
    }
    json_t *const json = lsi_chain_json(run);
    s->header = lsi_chain_json(&s->chain.lines[0]);
    s->run = json_incref(json_object_get(json, "run"));
    json_decref(json);
    s->flags = json_object_get(s->run, "flags");
    return json_is_object(s->flags)
               ? LS_OK
               : lsi_fail(LS_ERR_ARGUMENT,
                          "'%s' does not say how to train again, since another "
                          "program wrote it. Train again with that program, "
                          "and compare by `lockstep audit compare`",
                          s->path);
}

static ls_status find_start(session *s)
{
    const char *const folder = s->a->folder != NULL
                                   ? s->a->folder
                                   : text_of(s->flags, "checkpoint-dir");
    int64_t *steps;
    size_t n;
    if (folder[0] == '\0' || s->check.from == 0)
        return LS_OK;
    LS_TRY(lsi_steps_list(folder, &steps, &n));
    for (size_t i = n; i-- > 0;)
        if (steps[i] <= s->check.from &&
            lsi_step_find_state(folder, steps[i]) == LSI_STEP_ENDED)
            s->start = steps[i];
    lsi_free(steps);
    return LS_OK;
}

/* ---- the promise of equal bits ------------------------------------------- */

/* Slices of all ranks; 0: as many as ranks. */
static int slices_of(const session *s)
{
    return (int)strtol(setting(s, "--slices"), NULL, 10);
}

static bool is_power_of_two(int n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

/* Whether as many slices give the same bits on both numbers of ranks. */
static bool slices_fit(int slices, int one, int other)
{
    return slices > 0 && is_power_of_two(slices) && slices % one == 0 &&
           slices % other == 0;
}

static ls_status check_ranks(const session *s, const json_t *run, int64_t step)
{
    const int ranks = number_of(run, "ranks");
    const int slices = slices_of(s);
    if (s->n == ranks || slices_fit(slices, s->n, ranks))
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT,
                    "the steps from %" PRId64 " on were trained on %d rank%s, "
                    "so %d rank%s would give other bits. Use "
                    "-n %d%s",
                    step, ranks, ranks == 1 ? "" : "s", s->n,
                    s->n == 1 ? "" : "s", ranks,
                    slices > 0 ? ", or a power of two that divides the slices"
                               : ". Runs with --slices do not have this limit");
}

/* Bits that are not portable depend on these, too. */
static ls_status check_machine(const session *s, const json_t *run)
{
    lsi_isa isa;
    const int threads = number_of(run, "threads");
    const int nodes = number_of(run, "nodes");
    lsi_launched launched;
    LS_TRY(lsi_cli_launched(&launched));
    LS_TRY(lsi_isa_from_env(&isa));
    if (strcmp(lsi_isa_name(isa), text_of(run, "isa")) != 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "the run used instruction level '%s', and this process "
                        "uses '%s': the bits differ. Set LOCKSTEP_ISA=%s on a "
                        "processor that has it",
                        text_of(run, "isa"), lsi_isa_name(isa),
                        text_of(run, "isa"));
    if (s->threads != threads)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "the run used %d threads per rank, so %d would give "
                        "other bits. Use --threads %d",
                        threads, s->threads, threads);
    if (nodes > 1 && nodes < number_of(run, "ranks") && launched.size == 0 &&
        !json_is_true(json_object_get(s->flags, "deterministic")))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "the run placed %d ranks on %d nodes, so one node "
                        "would give other bits. Verify on as many nodes",
                        number_of(run, "ranks"), nodes);
    if (strcmp(lsi_cpu_model(), text_of(run, "cpu")) != 0 && lsi_cli_is_first())
        fprintf(stderr,
                "lockstep: audit verify: the run used the processor '%s', and "
                "this is '%s'; with --bits fast the bits may differ\n",
                text_of(run, "cpu"), lsi_cpu_model());
    return LS_OK;
}

/* Of each run that made entries of the segment. */
static ls_status check_promise(const session *s)
{
    const bool portable = strcmp(setting(s, "--bits"), "portable") == 0;
    const char *const version = text_of(s->header, "version");
    for (size_t i = 0; i < s->chain.n; i++) {
        const lsi_chain_line *const line = &s->chain.lines[i];
        bool covers = line->kind == LSI_CHAIN_RUN && line->step <= s->check.to;
        for (size_t k = i + 1; k < s->chain.n && covers; k++)
            if (s->chain.lines[k].kind == LSI_CHAIN_RUN)
                covers = s->chain.lines[k].step > s->start + 1;
        if (!covers)
            continue;
        json_t *const json = lsi_chain_json(line);
        const json_t *const run = json_object_get(json, "run");
        ls_status status = check_ranks(s, run, line->step);
        if (status == LS_OK && !portable)
            status = check_machine(s, run);
        json_decref(json);
        LS_TRY(status);
    }
    if (strcmp(version, ls_version_string()) != 0 && lsi_cli_is_first())
        fprintf(stderr,
                "lockstep: audit verify: version %s made the file, and this is "
                "version %s; the bits may differ\n",
                version, ls_version_string());
    return LS_OK;
}

/* ---- the command that trains again --------------------------------------- */

static void set_text(json_t *flags, const char *name, const char *value)
{
    if (value != NULL)
        (void)json_object_set_new(flags, name, json_string(value));
}

static void set_number(json_t *flags, const char *name, json_int_t value)
{
    (void)json_object_set_new(flags, name, json_integer(value));
}

/* The ranks share the run's global batch. */
static ls_status set_batch(const session *s)
{
    const char *const text = setting(s, "--batch-size over all ranks:");
    const json_int_t all = strtoll(text, NULL, 10);
    if (all < s->n || all % s->n != 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "cannot divide the batch of %s over %d ranks; -n must "
                        "divide it",
                        text, s->n);
    set_number(s->flags, "batch-size", all / s->n);
    return LS_OK;
}

static ls_status set_flags(const session *s)
{
    json_t *const f = s->flags;
    const args *const a = s->a;
    lsi_launched launched;
    LS_TRY(lsi_cli_launched(&launched));
    LS_TRY(set_batch(s));
    if (launched.size == 0)
        set_number(f, "ranks", s->n);
    set_number(f, "threads", s->threads);
    set_text(f, "bind", a->ranks.bind);
    set_text(f, "data", a->data);
    set_text(f, "checkpoint-dir", a->folder);
    if (slices_of(s) > 0)
        set_number(f, "slices", slices_of(s));
    if (a->strategy != NULL) {
        set_text(f, "strategy", a->strategy);
        (void)json_object_del(f, "bucket-mb");
        (void)json_object_del(f, "shard-over");
    }
    (void)json_object_set_new(f, "no-save", json_true());
    (void)json_object_set_new(f, "quiet", json_true());
    if (s->start > 0)
        (void)json_object_set_new(f, "resume", json_true());
    else
        (void)json_object_del(f, "checkpoint-dir");
    return LS_OK;
}

/* Words of "train lm". */
static ls_status find_command(const session *s, const lsi_command **out)
{
    char kind[16] = "";
    char *words[] = {(char[]){"train"}, kind};
    int used = 0;
    const char *const name = text_of(s->run, "command");
    if (strncmp(name, "train ", 6) == 0)
        snprintf(kind, sizeof(kind), "%s", name + 6);
    LS_TRY(lsi_cli_find(&lsi_command_root, 2, words, out, &used));
    return used == 2 && (*out)->run != NULL
               ? LS_OK
               : lsi_fail(LS_ERR_FORMAT,
                          "'%s' is of the unknown command 'lockstep %s'",
                          s->path, name);
}

/* ---- the command --------------------------------------------------------- */

static int report(const session *s)
{
    const lsi_audit_check *const c = &s->check;
    if (c->rank == 0 && c->differs)
        printf("step %" PRId64 " is the first that differs: %s%s\n", c->step,
               c->difference.text,
               c->step == c->began && c->began > 0
                   ? ". This is the state of the checkpoint, before training"
                   : "");
    else if (c->rank == 0)
        printf("'%s': %" PRId64 " entries are equal, up to step %" PRId64
               ". Trained again from step %" PRId64 " on %d rank%s\n",
               lsi_printable_of(s->path).text, c->compared, c->step, c->began,
               s->n, s->n == 1 ? "" : "s");
    return c->differs ? LSI_EXIT_DIFFERS : 0;
}

static ls_status prepare(session *s, const lsi_invocation *call,
                         lsi_invocation *train)
{
    lsi_launched launched;
    const lsi_command *command = NULL;
    LS_TRY(find_segment(s));
    LS_TRY(find_run(s));
    LS_TRY(find_start(s));
    LS_TRY(lsi_cli_launched(&launched));
    s->n = launched.size > 0   ? launched.size
           : s->a->ranks.n > 0 ? (int)s->a->ranks.n
                               : number_of(s->run, "ranks");
    s->threads = s->a->ranks.threads > 0 ? (int)s->a->ranks.threads
                                         : number_of(s->run, "threads");
    if (setenv("LOCKSTEP_BITS", setting(s, "--bits"), 1) != 0)
        return lsi_fail(LS_ERR_MEMORY, "not enough memory to verify");
    LS_TRY(check_promise(s));
    LS_TRY(set_flags(s));
    LS_TRY(find_command(s, &command));
    LS_TRY(lsi_cli_invocation_of(command,
                                 (char *)(uintptr_t)text_of(s->run, "command"),
                                 s->flags, train));
    train->line_argc = call->line_argc;
    train->line_argv = call->line_argv;
    train->check = &s->check;
    return LS_OK;
}

static int verify(session *s, const lsi_invocation *call)
{
    lsi_invocation train;
    if (prepare(s, call, &train) != LS_OK)
        return lsi_cli_usage("%s", ls_last_error());
    const int exit_status = train.command->run(&train);
    /* The process that starts ranks has trained nothing. */
    return exit_status == 0 && s->check.began >= 0 ? report(s) : exit_status;
}

static int run_verify(const lsi_invocation *call)
{
    args a;
    int exit_status;
    session s = {.a = &a};
    if (!lsi_cli_parse_argument(call, &a, &s.path, &exit_status))
        return exit_status;
    if (s.path == NULL)
        return lsi_cli_usage("give one audit file");
    const ls_status status = lsi_chain_read(s.path, &s.chain);
    if (status != LS_OK) {
        (void)lsi_cli_rank_error();
        return status == LS_ERR_FORMAT ? LSI_EXIT_DIFFERS : LSI_EXIT_ERROR;
    }
    exit_status = verify(&s, call);
    json_decref(s.header);
    json_decref(s.run);
    lsi_chain_close(&s.chain);
    return exit_status;
}

const lsi_command lsi_command_audit_verify = {
    .name = "verify",
    .summary = "Train a segment of a run again, and compare",
    .arguments = "FILE",
    .text =
        "Trains with the flags that the file has, on any allowed number of "
        "ranks and by any strategy, and names the first step, tensor and block "
        "of elements that differ. The exit status is then 3. Nothing is "
        "written. Numbers of ranks are allowed if they give the same bits "
        "(docs/concepts/numerics.md). If the run did not use portable bits, "
        "threads and instruction level must be those of the run.",
    LSI_COMMAND_OPTIONS(options),
    .run = run_verify,
};
