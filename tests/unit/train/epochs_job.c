#include "epochs_job.h"

#include "base/error.h"

static ls_status next(void *self, int64_t *micro_steps)
{
    *micro_steps = lsi_epochs_next(self);
    return LS_OK;
}

static lsi_forward forward(void *self, int64_t micro_step)
{
    (void)micro_step;
    return lsi_epochs_forward(self);
}

static ls_status add(void *self, const lsi_forward *out)
{
    return lsi_epochs_add(self, out);
}

static ls_status stepped(void *self)
{
    lsi_epochs_stepped(self);
    return LS_OK;
}

void epochs_job_init(lsi_loop *loop, lsi_epochs *epochs, ls_group *group,
                     const lsi_model *model)
{
    static const lsi_train_job job = {
        .next = next, .forward = forward, .add = add, .stepped = stepped};
    static const lsi_resume_options never = {0};
    *loop = lsi_loop_of(group, &job, epochs, &never, NULL);
    loop->training.params = model->params;
    *epochs = (lsi_epochs){.loop = loop, .model = model};
}

ls_status epochs_job_run(lsi_loop *loop, lsi_epochs *epochs)
{
    lsi_epochs_begin(epochs);
    LS_TRY(lsi_loop_steps(loop));
    return lsi_totals_reduce(&epochs->report.totals, loop->group);
}
