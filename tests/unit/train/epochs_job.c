#include "epochs_job.h"

#include "base/error.h"

static lsi_forward forward(void *self, int64_t micro_step)
{
    (void)micro_step;
    return lsi_epochs_forward(self);
}

static ls_status add(void *self, const lsi_forward *out)
{
    return lsi_epochs_add(self, out);
}

void epochs_job_init(lsi_loop *loop, lsi_epochs *epochs, ls_group *group,
                     const lsi_model *model)
{
    static const lsi_train_job job = {.forward = forward, .add = add};
    static const lsi_resume_options never = {0};
    *loop = lsi_loop_of(group, &job, epochs, &never, NULL);
    loop->phase = LSI_LOOP_OPEN;
    loop->training.params = model->params;
    *epochs = (lsi_epochs){.loop = loop, .model = model};
}

ls_status epochs_job_run(lsi_loop *loop, lsi_epochs *epochs)
{
    lsi_epochs_begin(epochs);
    for (int64_t n; (n = lsi_epochs_next(epochs)) > 0;) {
        LS_TRY(lsi_epochs_step(epochs, n));
        lsi_loop_end_step(loop);
    }
    return lsi_totals_reduce(&epochs->report.totals, loop->group);
}
