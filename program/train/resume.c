/* Checkpoints of a training job; see resume.h. */
#include "train/resume.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/api/outcome.h"
#include "model/checkpoint/folder.h"
#include "model/checkpoint/load.h"
#include "model/checkpoint/save.h"

/* Which run of a launcher has made a checkpoint. */
#define RUN_VALUE "launcher_run"

/* ---- going on ------------------------------------------------------------ */

static ls_status fail_existing(const lsi_resume_options *o, int64_t step)
{
    return lsi_fail(LS_ERR_STATE,
                    "'%s' already has a checkpoint of step %" PRId64
                    "; continue from it with --resume, or give another "
                    "--checkpoint-dir",
                    o->folder, step);
}

/* Fails at once where a save would fail after hours. */
static ls_status prepare(lsi_resume *r)
{
    const lsi_resume_options *const o = r->options;
    int64_t newest;
    if (o->every > 0) {
        LS_TRY(lsi_folder_make(o->folder));
        LS_TRY(lsi_folder_lock_acquire(&r->lock, o->folder, LSI_LOCK_FILE));
    }
    if (o->resume)
        return LS_OK;
    LS_TRY(lsi_steps_newest(o->folder, &newest));
    return newest < 0 ? LS_OK : fail_existing(o, newest);
}

static ls_status check_run(const lsi_resume_options *o,
                           const ls_checkpoint *checkpoint)
{
    const char *const run = ls_checkpoint_value(checkpoint, RUN_VALUE);
    if (!o->of_run_only || (run != NULL && strcmp(run, o->run) == 0))
        return LS_OK;
    return fail_existing(o, ls_checkpoint_step(checkpoint));
}

/* The job begins at its beginning only if the folder has no save. */
static ls_status open_and_check(lsi_resume *r, ls_checkpoint **out)
{
    const int64_t most = r->options->most;
    ls_status status = lsi_checkpoint_open(out, r->group, r->options->folder,
                                           most > 0 ? most : INT64_MAX);
    if (status == LS_ERR_NOT_FOUND) {
        *out = NULL;
        return LS_OK;
    }
    LS_TRY(status);
    status = check_run(r->options, *out);
    if (status == LS_OK)
        status =
            lsi_run_config_check(&r->config, r->options->new_schedule, *out);
    if (status != LS_OK)
        ls_checkpoint_close(out);
    return status;
}

ls_status lsi_resume_open(lsi_resume *resume, ls_checkpoint **out)
{
    ls_status status = LS_OK;
    *out = NULL;
    if (resume->options->folder == NULL)
        return LS_OK;
    if (ls_group_rank(resume->group) == 0)
        status = prepare(resume);
    LS_TRY(lsi_share_outcome(resume->group, status, resume->agreed));
    if (!resume->options->resume)
        return LS_OK;
    return lsi_share_outcome(resume->group, open_and_check(resume, out),
                             resume->agreed);
}

void lsi_resume_close(lsi_resume *resume)
{
    lsi_folder_lock_drop(&resume->lock);
}

ls_status lsi_resume_number(const ls_checkpoint *checkpoint, const char *key,
                            int64_t *out)
{
    const char *const text = ls_checkpoint_value(checkpoint, key);
    char *end = NULL;
    errno = 0;
    *out = text != NULL ? strtoll(text, &end, 10) : -1;
    if (end != NULL && end != text && *end == '\0' && errno == 0 && *out >= 0)
        return LS_OK;
    return lsi_fail(
        LS_ERR_FORMAT,
        "the checkpoint of step %" PRId64
        " is damaged: '%s' is missing or not an integer of at least 0",
        ls_checkpoint_step(checkpoint), key);
}

ls_status lsi_resume_real(const ls_checkpoint *checkpoint, const char *key,
                          double *out)
{
    const char *const text = ls_checkpoint_value(checkpoint, key);
    char *end = NULL;
    *out = text != NULL ? strtod(text, &end) : 0;
    if (end != NULL && end != text && *end == '\0' && *out >= 0 &&
        isfinite(*out))
        return LS_OK;
    return lsi_fail(
        LS_ERR_FORMAT,
        "the checkpoint of step %" PRId64
        " is damaged: %s is '%s', not a finite number of at least 0",
        ls_checkpoint_step(checkpoint), key, text != NULL ? text : "");
}

/* 0 if losses were not scaled. */
static ls_status read_scale(const ls_checkpoint *checkpoint, double *out)
{
    static const char key[] = "loss_scale";
    *out = 0;
    return ls_checkpoint_value(checkpoint, key) == NULL
               ? LS_OK
               : lsi_resume_real(checkpoint, key, out);
}

ls_status lsi_resume_load(const ls_checkpoint *checkpoint, ls_params *params,
                          lsi_stepper *stepper)
{
    ls_loss_scale *const s = &stepper->loss_scale;
    LS_TRY(lsi_resume_number(checkpoint, "good_steps", &s->good_steps));
    LS_TRY(lsi_resume_number(checkpoint, "skipped", &s->skipped));
    LS_TRY(read_scale(checkpoint, &s->scale));
    stepper->steps = ls_checkpoint_step(checkpoint);
    return ls_checkpoint_load(checkpoint, params, stepper->optimizer);
}

/* ---- saving -------------------------------------------------------------- */

bool lsi_resume_is_due(const lsi_resume *resume, int64_t step)
{
    const lsi_resume_options *const o = resume->options;
    return o->folder != NULL && o->every > 0 && step % o->every == 0;
}

/* Three pairs are the stepper's, one is the launcher's. */
enum { MAX_VALUES = 2 * (LSI_MAX_SETTINGS + LSI_JOB_VALUES + 4) };

/* Joins the values in order: of the settings, the job and the stepper. */
static void join(const lsi_resume *r, const char *const *job,
                 const char *const *stepper, const char **out)
{
    size_t n = 0;
    for (size_t i = 0; i < r->config.n; i++) {
        out[n++] = r->config.all[i].name;
        out[n++] = r->config.all[i].value;
    }
    while (*job != NULL)
        out[n++] = *job++;
    while (*stepper != NULL)
        out[n++] = *stepper++;
    assert(n <= MAX_VALUES);
    out[n] = NULL;
}

/* Allocates no memory: a rank without memory must not stay away. */
static ls_status save(lsi_resume *r, const ls_params *params,
                      const lsi_stepper *stepper, const char *const *job)
{
    const ls_loss_scale *const s = &stepper->loss_scale;
    char scale[32], good[24], skipped[24];
    snprintf(scale, sizeof scale, "%.17g", s->scale);
    snprintf(good, sizeof good, "%" PRId64, s->good_steps);
    snprintf(skipped, sizeof skipped, "%" PRId64, s->skipped);
    const char *const run = r->options->run;
    const char *const own[] = {"loss_scale",
                               scale,
                               "good_steps",
                               good,
                               "skipped",
                               skipped,
                               run != NULL ? RUN_VALUE : NULL,
                               run,
                               NULL};
    const char *values[MAX_VALUES + 1];
    join(r, job, own, values);
    const ls_checkpoint_parts parts = {.params = params,
                                       .optimizer = stepper->optimizer,
                                       .values = values,
                                       .metadata = r->metadata};
    return lsi_checkpoint_save(r->group, &r->lock, r->options->folder,
                               stepper->steps, &parts, (int)r->options->keep);
}

ls_status lsi_resume_save(lsi_resume *resume, const ls_params *params,
                          const lsi_stepper *stepper, const char *const *values)
{
    return lsi_share_outcome(
        resume->group, save(resume, params, stepper, values), resume->agreed);
}
