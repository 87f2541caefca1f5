/*
 * The settings that a run's results depend on, by name, as text: a run that
 * resumes from a checkpoint must have those that were saved with it.
 */
#ifndef LS_TRAIN_RUN_CONFIG_H
#define LS_TRAIN_RUN_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/checkpoint.h"

enum { LSI_MAX_SETTINGS = 48 };

typedef struct lsi_run_setting {
    const char *name; /* of the flag, as a rule */
    char value[48];
    const char *before; /* its value in checkpoints without it, or NULL */
    bool of_schedule;   /* of the learning rate over the steps */
    bool usual;         /* nobody has asked for it */
    bool end;           /* the step with which the schedule ends */
    const char *label;  /* its name in messages, after "the"; NULL: `name` */
    bool is_checksum;   /* of the data */
} lsi_run_setting;

typedef struct lsi_run_config {
    size_t n;
    lsi_run_setting all[LSI_MAX_SETTINGS];
} lsi_run_config;

/* Names must outlive the settings. */
void lsi_run_config_text(lsi_run_config *config, const char *name,
                         const char *value);
void lsi_run_config_int(lsi_run_config *config, const char *name,
                        int64_t value);
void lsi_run_config_real(lsi_run_config *config, const char *name,
                         double value);

/*
 * For the last setting: checkpoints of older versions do not have it, and were
 * made with this value, which must outlive the settings.
 */
void lsi_run_config_before(lsi_run_config *config, const char *value);

/* For the last setting: the name in messages; it must outlive the settings. */
void lsi_run_config_label(lsi_run_config *config, const char *label);

/* For all settings from the one of index `first` on: they are the schedule's.
 */
void lsi_run_config_schedule(lsi_run_config *config, size_t first);

/* For the last setting: with this step the schedule ends. */
void lsi_run_config_end(lsi_run_config *config);

/*
 * For the setting of that name: it is a default that nobody has asked for. A
 * run that resumes uses the checkpoint's value.
 */
void lsi_run_config_usual(lsi_run_config *config, const char *name);

/* The value of a setting that exists. */
const char *lsi_run_config_value(const lsi_run_config *config,
                                 const char *name);

/* A checksum of values, to recognise other data. */
void lsi_run_config_digest(lsi_run_config *config, const char *name,
                           const int64_t *values, size_t n);

/*
 * LS_ERR_ARGUMENT names the first that differs from the checkpoint's. With
 * new_schedule those of the schedule may. Usual ones become the checkpoint's.
 */
ls_status lsi_run_config_check(lsi_run_config *config, bool new_schedule,
                               const ls_checkpoint *checkpoint);

#endif
