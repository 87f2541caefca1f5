/*
 * The flags of audits, for every command that trains, and what such a command
 * records and prints about its audit.
 *
 *     struct args { lsi_audit_flags audit; ... };
 *     #define ROW(...) LSI_OPTION(struct args, __VA_ARGS__)
 *     static const lsi_option options[] = {LSI_AUDIT_ROWS(audit), ...};
 */
#ifndef LS_CLI_COMMANDS_AUDIT_FLAGS_H
#define LS_CLI_COMMANDS_AUDIT_FLAGS_H

#include "cli/frame/command.h"
#include "train/audit.h"

typedef struct lsi_audit_flags {
    const char *file; /* or NULL */
    int64_t every;
} lsi_audit_flags;

#define LSI_AUDIT_ROWS(field)                                                  \
    ROW(field.file, STRING, "audit", 0, "FILE", NULL,                          \
        "write digests of weights, optimizer state and position to this "      \
        "file, for `lockstep audit` (docs/how-to/audit.md)"),                  \
        ROW(field.every, INT, "audit-every", 0, "K", "10",                     \
            "optimizer steps between two entries of the audit file", .min = 1, \
            .max = 1e12)

/* The audit of a run with these flags, or of a verification. */
lsi_audit_run lsi_cli_audit_of(const lsi_invocation *call,
                               const lsi_audit_flags *flags);

/*
 * Records what is needed to train again: the flags as the run uses them, and
 * its ranks, threads and processor. To be called before the run's first step.
 */
ls_status lsi_cli_audit_describe(const lsi_invocation *call, const void *used,
                                 const char *optimizer, const ls_group *group,
                                 lsi_audit_run *audit);

/* On rank 0, the last line of a run: its final digest. */
void lsi_cli_print_audit(const lsi_audit_run *audit, bool is_first);

#endif
