/* lockstep audit: check and compare; cmd_audit_verify.c trains again. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/printable.h"
#include "cli/frame/command.h"
#include "model/audit/chain.h"
#include "model/audit/entry.h"

extern const lsi_command lsi_command_audit_verify;

/* A chain that is broken is a finding, not a failure of the command. */
static int end_with(ls_status status)
{
    if (status == LS_OK)
        return 0;
    (void)lsi_cli_error();
    return status == LS_ERR_FORMAT ? LSI_EXIT_DIFFERS : LSI_EXIT_ERROR;
}

static bool has_state(const lsi_chain_line *line)
{
    return line->kind == LSI_CHAIN_ENTRY || line->kind == LSI_CHAIN_SAVED;
}

/* ---- check --------------------------------------------------------------- */

typedef struct check_args {
    const char *digest;
} check_args;

#define ROW(...) LSI_OPTION(check_args, __VA_ARGS__)
static const lsi_option check_options[] = {
    ROW(digest, STRING, "digest", 0, "DIGEST", NULL,
        "final digest that the run printed, or its first 16 or more digits; "
        "the file must contain it"),
};
#undef ROW

static void print_chain(const char *path, const lsi_chain *chain)
{
    size_t entries = 0, runs = 0;
    int64_t first = -1, last = -1;
    for (size_t i = 0; i < chain->n; i++) {
        runs += chain->lines[i].kind == LSI_CHAIN_RUN;
        if (chain->lines[i].kind != LSI_CHAIN_ENTRY)
            continue;
        last = chain->lines[i].step;
        first = entries++ == 0 ? last : first;
    }
    printf("'%s': the chain is unbroken: %zu entries, steps %" PRId64
           " to %" PRId64 ", %zu run%s\nfinal digest %s\n",
           lsi_printable_of(path).text, entries, first, last, runs,
           runs == 1 ? "" : "s", lsi_chain_digest(chain, chain->n));
    if (chain->unfinished > 0)
        printf("the last line is unfinished (%zu bytes): the run was killed "
               "while it wrote\n",
               chain->unfinished);
}

/* Finds the digest among those of the chain, which a run may have printed. */
static ls_status find_digest(const char *path, const lsi_chain *chain,
                             const char *digest)
{
    const size_t digits = strlen(digest);
    for (size_t i = chain->n; digits >= 16 && i-- > 0;) {
        const lsi_chain_line *const line = &chain->lines[i];
        if (strncmp(line->digest, digest, digits) != 0 ||
            line->kind != LSI_CHAIN_ENTRY)
            continue;
        printf("the given digest is that of line %zu, step %" PRId64 "\n",
               i + 1, line->step);
        return LS_OK;
    }
    return digits < 16 ? lsi_fail(LS_ERR_ARGUMENT,
                                  "--digest '%s' has %zu digits; give at least "
                                  "16 of the 64",
                                  digest, digits)
                       : lsi_fail(LS_ERR_FORMAT,
                                  "'%s' has no entry with the digest %s: the "
                                  "file was written again, or cut off",
                                  path, digest);
}

static int run_check(const lsi_invocation *call)
{
    check_args a;
    const char *path;
    lsi_chain chain;
    int exit_status;
    if (!lsi_cli_parse_argument(call, &a, &path, &exit_status))
        return exit_status;
    if (path == NULL)
        return lsi_cli_usage("give one audit file");
    ls_status status = lsi_chain_read(path, &chain);
    if (status == LS_OK) {
        print_chain(path, &chain);
        if (a.digest != NULL)
            status = find_digest(path, &chain, a.digest);
        lsi_chain_close(&chain);
    }
    return end_with(status);
}

static const lsi_command check = {
    .name = "check",
    .summary = "Check that an audit file is unchanged",
    .arguments = "FILE",
    .text =
        "Each entry contains a digest of itself and of the entry before. The "
        "command names the first line that was changed, removed or moved, and "
        "exits with status 3. Only --digest finds a file that was written "
        "again as a whole, or that lost its last lines.",
    LSI_COMMAND_OPTIONS(check_options),
    .run = run_check,
};

/* ---- compare ------------------------------------------------------------- */

typedef struct comparison {
    const char *paths[2];
    lsi_chain chains[2];
    size_t equal; /* entries */
    bool differs;
    int64_t step;
    lsi_difference difference;
} comparison;

static ls_status compare_lines(comparison *c, const lsi_chain_line *one,
                               const lsi_chain_line *other)
{
    json_t *const a = lsi_chain_json(one), *const b = lsi_chain_json(other);
    const bool there = a != NULL && b != NULL;
    c->differs = there && !lsi_entry_equal(a, b, &c->difference);
    c->step = one->step;
    c->equal += there && !c->differs;
    json_decref(a);
    json_decref(b);
    return there ? LS_OK
                 : lsi_fail(LS_ERR_MEMORY, "not enough memory to compare");
}

static ls_status compare_all(comparison *c)
{
    const lsi_chain *const one = &c->chains[0];
    for (size_t i = 0; i < one->n && !c->differs; i++) {
        const lsi_chain_line *const line = &one->lines[i];
        const lsi_chain_line *const other =
            has_state(line) ? lsi_chain_find(&c->chains[1], line->step) : NULL;
        if (other != NULL)
            LS_TRY(compare_lines(c, line, other));
    }
    return c->equal > 0 || c->differs
               ? LS_OK
               : lsi_fail(LS_ERR_ARGUMENT,
                          "'%s' and '%s' have no entry of the same step",
                          c->paths[0], c->paths[1]);
}

static void print_settings(const comparison *c)
{
    lsi_difference difference;
    json_t *const a = lsi_chain_json(&c->chains[0].lines[0]);
    json_t *const b = lsi_chain_json(&c->chains[1].lines[0]);
    if (!lsi_entry_same_pairs(json_object_get(a, "settings"),
                              json_object_get(b, "settings"), "setting",
                              &difference))
        printf("the runs differ in %s\n", difference.text);
    json_decref(a);
    json_decref(b);
}

static ls_status compare(comparison *c)
{
    LS_TRY(lsi_chain_read(c->paths[0], &c->chains[0]));
    LS_TRY(lsi_chain_read(c->paths[1], &c->chains[1]));
    print_settings(c);
    LS_TRY(compare_all(c));
    if (c->differs)
        printf("step %" PRId64 " is the first that differs: %s\n", c->step,
               c->difference.text);
    else
        printf("%zu entries of equal steps are equal, up to step %" PRId64 "\n",
               c->equal, c->step);
    return LS_OK;
}

static int run_compare(const lsi_invocation *call)
{
    char nothing;
    lsi_arguments arguments;
    comparison c = {.equal = 0};
    int exit_status;
    if (!lsi_cli_parse_arguments(call, &nothing, &arguments, &exit_status))
        return exit_status;
    if (arguments.n != 2) {
        lsi_free(arguments.all);
        return lsi_cli_usage("give two audit files");
    }
    c.paths[0] = arguments.all[0];
    c.paths[1] = arguments.all[1];
    const ls_status status = compare(&c);
    lsi_chain_close(&c.chains[0]);
    lsi_chain_close(&c.chains[1]);
    lsi_free(arguments.all);
    return status == LS_OK && c.differs ? LSI_EXIT_DIFFERS : end_with(status);
}

static const lsi_command compare_files = {
    .name = "compare",
    .summary = "Find the first step in which two runs differ",
    .arguments = "FILE FILE",
    .text = "Compares the entries of equal steps, whatever the numbers of "
            "ranks and strategies of the two runs. Names the first step, "
            "tensor and block of elements that differ, and exits with status "
            "3. The chains of both files are checked first.",
    .run = run_compare,
};

/* ---- the command --------------------------------------------------------- */

static const lsi_command *const audits[] = {&check, &compare_files,
                                            &lsi_command_audit_verify};

const lsi_command lsi_command_audit = {
    .name = "audit",
    .summary = "Prove how a model was trained",
    LSI_COMMAND_CHILDREN(audits),
};
