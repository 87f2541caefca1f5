/*
 * Audits: a file that proves how a model was trained.
 *
 * Every few steps a program appends an entry to the file: SHA-256 digests of
 * all parameters, optimizer state and buffers, by tensor name and element. An
 * entry does not depend on the number of ranks or on the strategy. Each entry
 * also contains the digest of the entry before. So the last digest covers the
 * whole file, and whoever keeps it can prove that the file was changed later.
 * `lockstep audit` checks and compares such files (docs/how-to/audit.md).
 *
 *     const char *const settings[] = {"seed", "7", "batch size", "32", NULL};
 *     ls_audit_setup setup = {.params = params, .optimizer = optimizer,
 *                                 .settings = settings};
 *     check(ls_audit_open(&audit, group, "run.audit", &setup));
 *     check(ls_audit_step(audit, 0, NULL));
 *     for (int64_t step = 1; step <= steps; step++) {
 *         train();
 *         if (step % 10 == 0)
 *             check(ls_audit_step(audit, step, NULL));
 *     }
 *     if (ls_group_rank(group) == 0)
 *         printf("final digest %s\n", ls_audit_digest(audit));
 *     ls_audit_close(&audit);
 *
 * Rank 0 writes the file, a line at a time: the file of a killed run is valid.
 * Each rank digests the part of the state that it holds, in all its threads.
 */
#ifndef LOCKSTEP_AUDIT_H
#define LOCKSTEP_AUDIT_H

#include "lockstep/group.h"
#include "lockstep/optim.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_audit ls_audit;

typedef struct ls_audit_setup {
    size_t struct_size; /* sizeof, or 0: as in 0.1 (docs/reference/abi.md) */
    /* Parameters, after ls_ddp_new; they must outlive the audit. */
    const ls_params *params;
    /* Their optimizer, with all its groups, or NULL. */
    const ls_optimizer *optimizer;
    /*
     * Everything else on which the bits of the training depend, as a
     * NULL-terminated array of name, value, name, value, ... or NULL.
     */
    const char *const *settings;
    /*
     * true: the file exists if the run has been interrupted, and the run
     * continues after `step` steps, such as those of a checkpoint. Later
     * entries of the file are removed. Without a file, a new one is made.
     */
    bool resume;
    int64_t step; /* with resume: steps done */
} ls_audit_setup;

/*
 * Creates the file, or continues it. LS_ERR_STATE if it exists and is not to be
 * continued, or has no entry for `step`. LS_ERR_MISMATCH if its settings
 * differ. LS_ERR_FORMAT if its chain is broken. LS_ERR_UNSUPPORTED in a build
 * without nettle. On success *out is the caller's. Collective.
 */
LS_API LS_EXPERIMENTAL LS_MUST_CHECK ls_status
ls_audit_open(ls_audit **out, ls_group *group, const char *path,
              const ls_audit_setup *setup);

/*
 * Appends an entry after `step` steps. `values` are pairs as above, or NULL:
 * the position in the data and the state of random numbers, if they do not
 * follow from the step. Steps ascend. If the file has an entry for the step
 * of options.step, nothing is appended: LS_ERR_MISMATCH names the tensor and
 * block in which the state differs. Collective.
 */
LS_API LS_EXPERIMENTAL LS_MUST_CHECK ls_status
ls_audit_step(ls_audit *audit, int64_t step, const char *const *values);

/*
 * The digest of the last entry, as 64 digits; valid until the next call. The
 * same on every rank. NULL for NULL.
 */
LS_API LS_EXPERIMENTAL const char *ls_audit_digest(const ls_audit *audit);

/* Local. Frees it and sets *audit to NULL. Accepts NULLs. */
LS_API LS_EXPERIMENTAL void ls_audit_close(ls_audit **audit);

#ifdef __cplusplus
}
#endif

#endif
