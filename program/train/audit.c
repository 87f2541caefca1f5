#include "train/audit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/append.h"
#include "base/error.h"
#include "comm/api/outcome.h"
#include "model/optim/param_group.h"

bool lsi_audit_is_wanted(const lsi_audit_run *audit)
{
    return audit != NULL && (audit->file != NULL || audit->check != NULL);
}

int64_t lsi_audit_interval(const lsi_audit_run *audit)
{
    return audit != NULL && audit->file != NULL ? audit->every : 0;
}

bool lsi_audit_has_ended(const lsi_audit_run *audit)
{
    return audit != NULL && audit->ended;
}

void lsi_audit_add_data(lsi_audit_run *audit, const void *data, size_t bytes)
{
    const lsi_sha256_piece pieces[] = {{audit->data, sizeof(audit->data)},
                                       {data, bytes}};
    lsi_sha256(pieces, 2, audit->data);
    audit->has_data = true;
}

/* ---- what an entry records ----------------------------------------------- */

/* Random numbers follow from the seed, the step and the sample. */
typedef struct position {
    char samples[24], steps[256], scale[32], good[24], skipped[24];
    const char *pairs[11];
} position;

static void position_of(position *p, const lsi_stepper *s, int64_t samples)
{
    *p = (position){.pairs = {"samples", p->samples, "optimizer steps",
                              p->steps, "loss scale", p->scale, "good steps",
                              p->good, "skipped steps", p->skipped, NULL}};
    snprintf(p->samples, sizeof(p->samples), "%" PRId64, samples);
    for (size_t g = 0; g < s->optimizer->n_groups; g++)
        lsi_append(p->steps, sizeof(p->steps), "%s%" PRIu64, g > 0 ? "," : "",
                   s->optimizer->groups[g]->steps);
    snprintf(p->scale, sizeof(p->scale), "%.17g", s->loss_scale.scale);
    snprintf(p->good, sizeof(p->good), "%" PRId64, s->loss_scale.good_steps);
    snprintf(p->skipped, sizeof(p->skipped), "%" PRId64, s->loss_scale.skipped);
}

/* Everything on which the bits depend, as texts; NULL without memory. */
static json_t *settings_json(const lsi_audit_run *a)
{
    char data[LSI_SHA256_TEXT];
    json_t *const all = json_object();
    bool good = all != NULL;
    for (size_t i = 0; good && i < a->settings->n; i++)
        good = json_object_set_new(all, a->settings->all[i].name,
                                   json_string(a->settings->all[i].value)) == 0;
    lsi_sha256_text(a->data, sizeof(a->data), data);
    if (good && a->has_data)
        good = json_object_set_new(all, "SHA-256 of the data",
                                   json_string(data)) == 0;
    if (good)
        return all;
    json_decref(all);
    return NULL;
}

static ls_status make_settings(const lsi_audit_run *a, json_t **out)
{
    *out = NULL;
    if (ls_group_rank(a->group) != 0)
        return LS_OK;
    *out = settings_json(a);
    return *out != NULL
               ? LS_OK
               : lsi_fail(LS_ERR_MEMORY, "not enough memory for an audit");
}

/* ---- comparing ----------------------------------------------------------- */

/* On rank 0. */
static ls_status check_settings(const lsi_audit_check *c,
                                const json_t *settings)
{
    lsi_difference difference;
    return lsi_entry_same_settings(c->chain, settings, &difference)
               ? LS_OK
               : lsi_fail(LS_ERR_MISMATCH,
                          "this run is not that of the audit file: they "
                          "differ in %s",
                          difference.text);
}

/* On rank 0; sets check->differs. */
static ls_status compare_with(lsi_audit_run *a, const lsi_chain_line *line,
                              const char *const *values)
{
    lsi_audit_check *const c = a->check;
    json_t *own, *const file = lsi_chain_json(line);
    ls_status status =
        lsi_entry_new(a->digest, "step", line->step, values, &own);
    if (status == LS_OK && file == NULL)
        status = lsi_fail(LS_ERR_MEMORY, "not enough memory for an audit");
    if (status == LS_OK) {
        c->differs = !lsi_entry_equal(file, own, &c->difference);
        json_decref(own);
    }
    json_decref(file);
    return status;
}

static ls_status compare(lsi_audit_run *a, const lsi_stepper *stepper,
                         int64_t samples)
{
    lsi_audit_check *const c = a->check;
    const lsi_chain_line *const line = lsi_chain_find(c->chain, stepper->steps);
    position at;
    bool agreed;
    int32_t differs = 0;
    a->ended = stepper->steps >= c->to;
    if (line == NULL)
        return LS_OK;
    position_of(&at, stepper, samples);
    LS_TRY(lsi_state_digest_compute(a->digest));
    LS_TRY(lsi_share_outcome(
        a->group,
        ls_group_rank(a->group) == 0 ? compare_with(a, line, at.pairs) : LS_OK,
        &agreed));
    differs = c->differs;
    LS_TRY(ls_broadcast(a->group, &differs, 1, LS_I32, 0));
    c->differs = differs != 0;
    c->step = stepper->steps;
    c->compared++;
    a->ended |= c->differs;
    return LS_OK;
}

/* ---- the run ------------------------------------------------------------- */

static ls_status begin_check(lsi_audit_run *a, const ls_params *params,
                             const lsi_stepper *stepper)
{
    json_t *settings;
    bool agreed;
    ls_status status = make_settings(a, &settings);
    if (status == LS_OK && settings != NULL)
        status = check_settings(a->check, settings);
    json_decref(settings);
    LS_TRY(lsi_share_outcome(a->group, status, &agreed));
    a->check->began = stepper->steps;
    a->check->rank = ls_group_rank(a->group);
    return lsi_state_digest_new(&a->digest, a->group, params,
                                stepper->optimizer);
}

static ls_status begin_file(lsi_audit_run *a, const ls_params *params,
                            const lsi_stepper *stepper)
{
    json_t *settings;
    bool agreed;
    LS_TRY(lsi_share_outcome(a->group, make_settings(a, &settings), &agreed));
    const lsi_audit_plan plan = {.path = a->file,
                                 .settings = settings,
                                 .run = a->run,
                                 .resume = a->resume,
                                 .step = stepper->steps};
    const ls_status status =
        lsi_audit_open(&a->audit, a->group, params, stepper->optimizer, &plan);
    json_decref(settings);
    return status;
}

/* Keeps the digest for the last line that the run prints. */
static ls_status add(lsi_audit_run *a, const lsi_stepper *stepper,
                     int64_t samples, bool saved)
{
    position at;
    position_of(&at, stepper, samples);
    LS_TRY(saved ? lsi_audit_saved(a->audit, stepper->steps, at.pairs)
                 : ls_audit_step(a->audit, stepper->steps, at.pairs));
    snprintf(a->final, sizeof(a->final), "%s", ls_audit_digest(a->audit));
    return LS_OK;
}

ls_status lsi_audit_begin(lsi_audit_run *audit, const ls_params *params,
                          const lsi_stepper *stepper, int64_t samples)
{
    if (audit->check != NULL) {
        LS_TRY(begin_check(audit, params, stepper));
        return compare(audit, stepper, samples);
    }
    LS_TRY(begin_file(audit, params, stepper));
    return add(audit, stepper, samples, false);
}

ls_status lsi_audit_step(lsi_audit_run *audit, const lsi_stepper *stepper,
                         int64_t samples, bool saved, bool last)
{
    if (audit->check != NULL)
        return compare(audit, stepper, samples);
    const bool entry = last || stepper->steps % audit->every == 0;
    return entry || saved ? add(audit, stepper, samples, !entry) : LS_OK;
}

void lsi_audit_end(lsi_audit_run *audit)
{
    if (audit == NULL)
        return;
    ls_audit_close(&audit->audit);
    lsi_state_digest_free(&audit->digest);
    json_decref(audit->run);
    audit->run = NULL;
}
