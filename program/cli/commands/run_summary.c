#include "cli/commands/run_summary.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/append.h"
#include "report/size_text.h"

/* The flags of a recipe, as they could be given. */
static void add_recipe(char *out, size_t bytes, const lsi_recipe *recipe,
                       int64_t steps)
{
    lsi_run_config config = {0};
    lsi_recipe_describe(recipe, steps, &config);
    for (size_t i = 0; i < config.n; i++) {
        const lsi_run_setting *const s = &config.all[i];
        if (strncmp(s->name, "--", 2) == 0)
            lsi_append(out, bytes, " %s %s", s->name, s->value);
    }
}

/* Logs flags of a command line that repeats the training. */
static void log_recipe(lsi_run_log *log, const lsi_run_summary *summary)
{
    const lsi_run_about *const a = summary->about;
    const bool epochs = a->epochs > 0;
    char flags[1000];
    snprintf(flags, sizeof(flags),
             "recipe: -n %d --strategy %s --dtype %s --batch-size %" PRId64
             " --accumulate %" PRId64 " --%s %" PRId64,
             a->ranks, a->strategy, a->dtype, summary->batch_size,
             summary->accumulate, epochs ? "epochs" : "steps",
             epochs ? a->epochs : a->steps);
    add_recipe(flags, sizeof(flags), &summary->recipe, a->steps);
    lsi_append(flags, sizeof(flags), " --seed %" PRIu64, summary->seed);
    lsi_run_log_say_flags(log, flags);
}

/* With --check-replicas. */
static void log_compared(lsi_run_log *log, uint64_t bytes)
{
    char size[LSI_SIZE_TEXT];
    if (bytes == 0)
        return;
    lsi_size_text(size, bytes);
    lsi_run_log_say(log, "copies: %s of each rank compared, all equal", size);
}

void lsi_run_summary_log(lsi_run_log *log, const lsi_run_summary *summary)
{
    const lsi_run_about *const a = summary->about;
    lsi_run_log_say(log, "trained: %s: %s", a->job, summary->model);
    lsi_run_log_say(log, "data: %s, %s",
                    summary->data != NULL ? summary->data : "built-in",
                    summary->counts);
    lsi_run_log_say(log, "on: %d rank%s x %d thread%s, strategy %s, %s",
                    a->ranks, a->ranks == 1 ? "" : "s", a->threads,
                    a->threads == 1 ? "" : "s", a->strategy, a->dtype);
    log_recipe(log, summary);
    log_compared(log, summary->compared);
    lsi_run_log_say(log, "result: %s", summary->result);
}

void lsi_run_summary_log_saved(lsi_run_log *log, const lsi_run_summary *summary)
{
    char saved[LSI_KEEP_TEXT];
    (void)fflush(stdout); /* main looks at its errors */
    if (!lsi_keep_is_wanted(summary->keep))
        return;
    lsi_keep_describe(summary->keep, saved);
    lsi_run_log_say(log, "%s", saved);
}
