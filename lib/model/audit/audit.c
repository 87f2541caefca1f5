/*
 * Writing an audit file. Rank 0 has the file; all ranks digest the state and
 * share the outcome of each write.
 */
#include "model/audit/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/structs.h"
#include "comm/api/outcome.h"
#include "lockstep/version.h"
#include "model/audit/chain.h"
#include "model/audit/entry.h"
#include "observe/spans.h"

struct ls_audit {
    ls_group *group;
    lsi_state_digest *digest;
    int fd;          /* -1 on other ranks than 0 */
    char *path;      /* NULL on other ranks */
    off_t bytes;     /* of whole lines */
    json_t *known;   /* entry of the step with which a run continues, or NULL */
    int64_t at_step; /* of `known` */
    char before[LSI_SHA256_TEXT]; /* digest of the chain's last line */
};

/* ---- writing ------------------------------------------------------------- */

static ls_status fail_to_write(const ls_audit *a)
{
    const ls_status status =
        lsi_fail_errno(LS_ERR_IO, "cannot write to '%s'", a->path);
    /* A part of a line would end the chain. */
    if (ftruncate(a->fd, a->bytes) != 0)
        return status;
    return status;
}

static ls_status write_text(ls_audit *a, const char *text)
{
    size_t done = 0;
    const size_t all = strlen(text);
    while (done < all) {
        const ssize_t n =
            pwrite(a->fd, text + done, all - done, a->bytes + (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return fail_to_write(a);
        done += (size_t)n;
    }
    a->bytes += (off_t)all;
    return LS_OK;
}

/* Writes a line of the chain, or a branch. Releases the object. */
static ls_status append(ls_audit *a, json_t *object, bool in_chain)
{
    char *line, digest[LSI_SHA256_TEXT];
    LS_TRY(lsi_chain_seal(object, a->before, &line, digest));
    const ls_status status = write_text(a, line);
    free(line);
    if (status == LS_OK && in_chain)
        memcpy(a->before, digest, sizeof(digest));
    return status;
}

/* ---- opening ------------------------------------------------------------- */

static json_t *run_line(const lsi_audit_plan *plan)
{
    return json_pack("{s:O}", "run", (json_t *)(uintptr_t)plan->run);
}

static ls_status begin_file(ls_audit *a, const lsi_audit_plan *plan)
{
    if (ftruncate(a->fd, 0) != 0)
        return fail_to_write(a);
    LS_TRY(append(a,
                  json_pack("{s:i, s:s, s:O}", "lockstep audit", 1, "version",
                            ls_version_string(), "settings",
                            (json_t *)(uintptr_t)plan->settings),
                  true));
    return append(a, run_line(plan), false);
}

static ls_status check_settings(const ls_audit *a, const lsi_chain *chain,
                                const json_t *settings)
{
    lsi_difference difference;
    return lsi_entry_same_settings(chain, settings, &difference)
               ? LS_OK
               : lsi_fail(LS_ERR_MISMATCH,
                          "the audit file '%s' and this run differ in %s. "
                          "Give another file with --audit",
                          a->path, difference.text);
}

/* Keeps the lines up to the step, and its entry to compare with. */
static ls_status cut_file(ls_audit *a, const lsi_chain *chain, int64_t step)
{
    const lsi_chain_line *const last = lsi_chain_find(chain, step);
    if (last == NULL)
        return lsi_fail(LS_ERR_STATE,
                        "the audit file '%s' has no entry for step %" PRId64
                        ", with which this run continues. Give another file",
                        a->path, step);
    const size_t n = (size_t)(last - chain->lines) + 1;
    memcpy(a->before, lsi_chain_digest(chain, n), sizeof(a->before));
    a->bytes = (off_t)(last->text + last->bytes - chain->text);
    a->known = lsi_chain_json(last);
    a->at_step = step;
    return a->known == NULL || ftruncate(a->fd, a->bytes) != 0
               ? fail_to_write(a)
               : LS_OK;
}

static bool has_entries(const lsi_chain *chain)
{
    for (size_t i = 0; i < chain->n; i++)
        if (chain->lines[i].kind == LSI_CHAIN_ENTRY ||
            chain->lines[i].kind == LSI_CHAIN_SAVED)
            return true;
    return false;
}

/* A run that was killed before its first entry has nothing to continue. */
static ls_status continue_file(ls_audit *a, const lsi_audit_plan *plan)
{
    lsi_chain chain;
    LS_TRY(lsi_chain_read(a->path, &chain));
    const bool any = has_entries(&chain);
    ls_status status = check_settings(a, &chain, plan->settings);
    if (status == LS_OK && any)
        status = cut_file(a, &chain, plan->step);
    lsi_chain_close(&chain);
    LS_TRY(status);
    return any ? append(a, run_line(plan), false) : begin_file(a, plan);
}

static ls_status lock(const ls_audit *a)
{
    return lsi_lock_file(a->fd) == LSI_FILE_IS_LOCKED
               ? lsi_fail(LS_ERR_STATE,
                          "another run writes to the audit file '%s'", a->path)
               : LS_OK;
}

/* On rank 0. */
static ls_status open_file(ls_audit *a, const lsi_audit_plan *plan)
{
    LS_TRY(lsi_make_parents(plan->path));
    a->path = strdup(plan->path);
    if (a->path == NULL)
        return lsi_fail(LS_ERR_MEMORY, "not enough memory for a path");
    a->fd = open(a->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    const bool exists = a->fd < 0 && errno == EEXIST;
    if (exists && !plan->resume)
        return lsi_fail(LS_ERR_STATE,
                        "the audit file '%s' already exists. Give another "
                        "file, or continue its run with --resume",
                        a->path);
    if (exists)
        a->fd = open(a->path, O_RDWR | O_CLOEXEC);
    if (a->fd < 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot write to '%s'", a->path);
    LS_TRY(lock(a));
    return exists ? continue_file(a, plan) : begin_file(a, plan);
}

ls_status lsi_audit_open(ls_audit **out, ls_group *group,
                         const ls_params *params, const ls_optimizer *optimizer,
                         const lsi_audit_plan *plan)
{
    ls_audit *a = NULL;
    bool agreed;
    ls_status status =
        lsi_alloc_zeroed(&a, sizeof(ls_audit), LS_MEMORY_OTHER, "an audit");
    status = lsi_share_outcome(group, status, &agreed);
    if (status == LS_OK) {
        a->group = group;
        a->fd = -1;
        status = lsi_state_digest_new(&a->digest, group, params, optimizer);
    }
    if (status == LS_OK)
        status = lsi_share_outcome(
            group, ls_group_rank(group) == 0 ? open_file(a, plan) : LS_OK,
            &agreed);
    if (status == LS_OK)
        status = ls_broadcast(group, a->before, sizeof(a->before), LS_U8, 0);
    if (status != LS_OK) {
        ls_audit_close(&a);
        return status;
    }
    *out = a;
    return LS_OK;
}

/* Objects of the public options. */
static ls_status make_plan(lsi_audit_plan *plan, json_t **settings,
                           json_t **run, const ls_group *group,
                           const ls_audit_setup *given)
{
    if (ls_group_rank(group) != 0)
        return LS_OK;
    *settings = lsi_entry_pairs(given->settings);
    *run = json_pack("{s:i}", "ranks", ls_group_size(group));
    plan->settings = *settings;
    plan->run = *run;
    return *settings != NULL && *run != NULL
               ? LS_OK
               : lsi_fail(LS_ERR_ARGUMENT,
                          "ls_audit_open: a setting is not UTF-8 text");
}

ls_status ls_audit_open(ls_audit **out, ls_group *group, const char *path,
                        const ls_audit_setup *setup)
{
    LS_NEED(out, group, path, setup);
    ls_audit_setup own;
    json_t *settings = NULL, *run = NULL;
    bool agreed;
    LS_TRY(LSI_STRUCT_READ(&own, setup, ls_audit_setup, step));
    setup = &own;
    LS_NEED(setup->params);
    lsi_audit_plan plan = {
        .path = path, .resume = own.resume, .step = own.step};
    ls_status status = lsi_share_outcome(
        group, make_plan(&plan, &settings, &run, group, &own), &agreed);
    if (status == LS_OK)
        status = lsi_audit_open(out, group, own.params, own.optimizer, &plan);
    json_decref(settings);
    json_decref(run);
    return status;
}

/* ---- entries ------------------------------------------------------------- */

static ls_status compare_known(const ls_audit *a, const json_t *entry)
{
    lsi_difference difference;
    if (lsi_entry_equal(a->known, entry, &difference))
        return LS_OK;
    return lsi_fail(LS_ERR_MISMATCH,
                    "the state of step %" PRId64
                    " is not that of the audit file '%s'. They differ in %s. "
                    "The checkpoint was changed, or is of another run",
                    a->at_step, a->path, difference.text);
}

/* On rank 0. */
static ls_status put(ls_audit *a, bool saved, int64_t step,
                     const char *const *values)
{
    json_t *entry;
    LS_TRY(lsi_entry_new(a->digest, saved ? "saved" : "step", step, values,
                         &entry));
    if (a->known == NULL || step != a->at_step)
        return append(a, entry, !saved);
    const ls_status status = compare_known(a, entry);
    json_decref(entry);
    return status;
}

static ls_status add(ls_audit *a, bool saved, int64_t step,
                     const char *const *values)
{
    LSI_SPAN(PHASE, "audit", 0, 0);
    bool agreed;
    LS_TRY(lsi_state_digest_compute(a->digest));
    LS_TRY(lsi_share_outcome(
        a->group,
        ls_group_rank(a->group) == 0 ? put(a, saved, step, values) : LS_OK,
        &agreed));
    return ls_broadcast(a->group, a->before, sizeof(a->before), LS_U8, 0);
}

ls_status ls_audit_step(ls_audit *audit, int64_t step,
                        const char *const *values)
{
    LS_NEED(audit);
    return add(audit, false, step, values);
}

ls_status lsi_audit_saved(ls_audit *audit, int64_t step,
                          const char *const *values)
{
    LS_TRY(add(audit, true, step, values));
    if (audit->fd >= 0)
        (void)fdatasync(audit->fd);
    return LS_OK;
}

const char *ls_audit_digest(const ls_audit *audit)
{
    return audit != NULL ? audit->before : NULL;
}

void ls_audit_close(ls_audit **audit)
{
    if (audit == NULL || *audit == NULL)
        return;
    ls_audit *const a = *audit;
    if (a->fd >= 0) {
        (void)fdatasync(a->fd);
        close(a->fd);
    }
    json_decref(a->known);
    free(a->path);
    lsi_state_digest_free(&a->digest);
    lsi_free(a);
    *audit = NULL;
}
