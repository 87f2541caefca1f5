/* A sink of a run's log. Members that are NULL are not called. */
#ifndef LS_REPORT_RUN_SINK_H
#define LS_REPORT_RUN_SINK_H

#include "report/run_log.h"

typedef struct lsi_run_sink {
    void *self;
    ls_status (*strategy)(void *self, const lsi_run_strategy *strategy);
    ls_status (*step)(void *self, const lsi_run_step *step);
    void (*part)(void *self, const lsi_run_part *part);
    ls_status (*validation)(void *self, const lsi_run_validation *validation);
    ls_status (*epoch)(void *self, const lsi_run_epoch *epoch);
    ls_status (*saved)(void *self, int64_t step, const char *folder);
    void (*line)(void *self, const char *line, bool is_flags);
    ls_status (*end)(void *self);
    void (*close)(void *self);
} lsi_run_sink;

/*
 * Each makes a sink, or leaves *out unchanged if the outputs do not ask for it.
 * `about` must outlive the sink.
 */
ls_status lsi_run_lines(lsi_run_sink *out, const lsi_run_about *about,
                        const lsi_run_outputs *outputs);
ls_status lsi_run_metrics(lsi_run_sink *out, const lsi_run_about *about,
                          const lsi_run_outputs *outputs);
ls_status lsi_run_tensorboard(lsi_run_sink *out, const lsi_run_about *about,
                              const lsi_run_outputs *outputs);
ls_status lsi_run_prometheus(lsi_run_sink *out, const lsi_run_about *about,
                             const lsi_run_outputs *outputs);

#endif
