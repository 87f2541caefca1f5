/* Settings about a run; see run_config.h. */
#include "train/run_config.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"

static lsi_run_setting *next(lsi_run_config *config, const char *name)
{
    assert(config->n < LSI_MAX_SETTINGS);
    lsi_run_setting *const setting = &config->all[config->n++];
    *setting = (lsi_run_setting){.name = name};
    return setting;
}

void lsi_run_config_text(lsi_run_config *config, const char *name,
                         const char *value)
{
    lsi_run_setting *const setting = next(config, name);
    snprintf(setting->value, sizeof setting->value, "%s", value);
}

void lsi_run_config_int(lsi_run_config *config, const char *name, int64_t value)
{
    lsi_run_setting *const setting = next(config, name);
    snprintf(setting->value, sizeof setting->value, "%" PRId64, value);
}

void lsi_run_config_real(lsi_run_config *config, const char *name, double value)
{
    lsi_run_setting *const setting = next(config, name);
    /* The shortest text that is this number and no other. */
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(setting->value, sizeof setting->value, "%.*g", digits, value);
        if (strtod(setting->value, NULL) == value)
            break;
    }
}

void lsi_run_config_digest(lsi_run_config *config, const char *name,
                           const int64_t *values, size_t n)
{
    lsi_run_setting *const setting = next(config, name);
    snprintf(setting->value, sizeof setting->value, "%016" PRIx64,
             lsi_hash(LSI_HASH_START, values, n * sizeof *values));
    setting->is_checksum = true;
}

void lsi_run_config_before(lsi_run_config *config, const char *value)
{
    assert(config->n > 0);
    config->all[config->n - 1].before = value;
}

void lsi_run_config_label(lsi_run_config *config, const char *label)
{
    assert(config->n > 0);
    config->all[config->n - 1].label = label;
}

void lsi_run_config_end(lsi_run_config *config)
{
    assert(config->n > 0);
    config->all[config->n - 1].end = true;
}

void lsi_run_config_schedule(lsi_run_config *config, size_t first)
{
    for (size_t i = first; i < config->n; i++)
        config->all[i].of_schedule = true;
}

static size_t index_of(const lsi_run_config *config, const char *name)
{
    size_t i = 0;
    while (i < config->n && strcmp(config->all[i].name, name) != 0)
        i++;
    assert(i < config->n);
    return i;
}

void lsi_run_config_usual(lsi_run_config *config, const char *name)
{
    config->all[index_of(config, name)].usual = true;
}

const char *lsi_run_config_value(const lsi_run_config *config, const char *name)
{
    return config->all[index_of(config, name)].value;
}

static ls_status fail_other_data(const lsi_run_setting *setting,
                                 const char *saved, int64_t step)
{
    assert(setting->label != NULL);
    return lsi_fail(LS_ERR_ARGUMENT,
                    "cannot resume from the checkpoint of step %" PRId64
                    ": it was made with other data (the %s is %s; for this "
                    "run's data it is %s). Give the same data, or start a new "
                    "run in another folder",
                    step, setting->label, saved, setting->value);
}

static ls_status fail_different(const lsi_run_setting *setting,
                                const char *saved, int64_t step)
{
    const char *const more =
        setting->of_schedule
            ? "; to continue with this run's value, use --new-schedule"
            : "";
    if (setting->end && saved != NULL)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "cannot resume from the checkpoint of step %" PRId64
                        ": its learning rate schedule ends with step %s, but "
                        "this run has %s steps. Add --new-schedule to follow "
                        "this run's schedule from here on",
                        step, saved, setting->value);
    if (setting->is_checksum && saved != NULL)
        return fail_other_data(setting, saved, step);
    if (setting->label != NULL)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "cannot resume from the checkpoint of step %" PRId64
                        ": the %s is %s in the checkpoint, but %s in this "
                        "run%s",
                        step, setting->label, saved != NULL ? saved : "unknown",
                        setting->value, more);
    return lsi_fail(LS_ERR_ARGUMENT,
                    "cannot resume from the checkpoint of step %" PRId64
                    ": it was made with %s %s, but this run has %s%s",
                    step, setting->name, saved != NULL ? saved : "unknown",
                    setting->value, more);
}

ls_status lsi_run_config_check(lsi_run_config *config, bool new_schedule,
                               const ls_checkpoint *checkpoint)
{
    for (size_t i = 0; i < config->n; i++) {
        lsi_run_setting *const setting = &config->all[i];
        if (setting->of_schedule && new_schedule)
            continue;
        const char *saved = ls_checkpoint_value(checkpoint, setting->name);
        if (saved == NULL)
            saved = setting->before;
        if (setting->usual && saved != NULL &&
            strlen(saved) < sizeof setting->value)
            memcpy(setting->value, saved, strlen(saved) + 1);
        if (saved == NULL || strcmp(saved, setting->value) != 0)
            return fail_different(setting, saved,
                                  ls_checkpoint_step(checkpoint));
    }
    return LS_OK;
}
