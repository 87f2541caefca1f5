#include "cli/commands/run_summary.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The flags of a recipe, as they could be given. */
static void describe_recipe(char *out, size_t bytes, const lsi_recipe *recipe,
                            int64_t steps)
{
    lsi_run_config config = {0};
    size_t used = 0;
    lsi_recipe_describe(recipe, steps, &config);
    out[0] = '\0';
    for (size_t i = 0; i < config.n && used < bytes; i++) {
        const lsi_run_setting *const s = &config.all[i];
        if (strncmp(s->name, "--", 2) == 0)
            used += (size_t)snprintf(out + used, bytes - used, "%s%s %s",
                                     used > 0 ? " " : "", s->name, s->value);
    }
}

void lsi_run_summary_tell(lsi_run_log *log, const lsi_run_summary *summary)
{
    const lsi_run_about *const a = summary->about;
    char recipe[900];
    describe_recipe(recipe, sizeof(recipe), &summary->recipe, a->steps);
    lsi_run_log_say(log, "trained: %s: %s", a->job, summary->model);
    lsi_run_log_say(log, "data: %s, %s",
                    summary->data != NULL ? summary->data : "built-in",
                    summary->counts);
    lsi_run_log_say(log, "on: %d rank%s x %d thread%s, strategy %s, %s",
                    a->ranks, a->ranks == 1 ? "" : "s", a->threads,
                    a->threads == 1 ? "" : "s", a->strategy, a->dtype);
    lsi_run_log_say(log, "recipe: %s --seed %" PRIu64, recipe, summary->seed);
    lsi_run_log_say(log, "result: %s", summary->result);
}

void lsi_run_summary_tell_saved(lsi_run_log *log,
                                const lsi_run_summary *summary)
{
    char saved[LSI_KEEP_TEXT];
    (void)fflush(stdout); /* main looks at its errors */
    if (!lsi_keep_is_wanted(summary->keep))
        return;
    lsi_keep_describe(summary->keep, saved);
    lsi_run_log_say(log, "%s", saved);
}
