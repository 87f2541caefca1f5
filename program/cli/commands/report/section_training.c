/*
 * Training: the pipeline of images with either implementation, the loss of a
 * language model, and runs that are handed in.
 */
#include <stdio.h>

#include "cli/commands/report/report.h"

/* ---- images -------------------------------------------------------------- */

/* The two runs, by what they do to batch normalisation and to gradients. */
#define OURS  "fused, flat"
#define USUAL "gathered, bucketed"

static const lsi_measurement pipeline[] = {
    {"pipeline-custom", LSI_ROWS_METRICS,
     "train cifar100 -n 2 -b 32 --accumulate 2 --epochs 3 --limit 3000 "
     "--sync-bn fused --strategy flat",
     "train cifar100 -n 2 -b 32 --accumulate 2 --epochs 20 --sync-bn fused "
     "--strategy flat",
     6, 60, true},
    {"pipeline-standard", LSI_ROWS_METRICS,
     "train cifar100 -n 2 -b 32 --accumulate 2 --epochs 3 --limit 3000 "
     "--sync-bn gathered --strategy bucketed --bucket-mb 25",
     "train cifar100 -n 2 -b 32 --accumulate 2 --epochs 20 --sync-bn gathered "
     "--strategy bucketed --bucket-mb 25",
     6, 70, true},
};

/*
 * A row of one run's epochs, of one rank or of all; times and peaks are means,
 * the rest is that of the last epoch. NULL if there are none.
 */
static json_t *pipeline_row(const char *name, const char *rank,
                            const json_t *epochs)
{
    const size_t n = json_array_size(epochs);
    const json_t *const last = json_array_get(epochs, n - 1);
    double seconds = 0, rate = 0, peak = 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *const row = json_array_get(epochs, i);
        seconds += lsi_number_at(row, "train_seconds") / (double)n;
        rate += lsi_number_at(row, "images_per_second") / (double)n;
        peak += lsi_number_at(row, "peak_bytes") / (double)n;
    }
    if (n == 0)
        return NULL;
    return json_pack("{s:s, s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:f}", "run",
                     name, "rank", rank, "epochs", (json_int_t)n, "loss",
                     lsi_number_at(last, "train_loss"), "val_loss",
                     lsi_number_at(last, "val_loss"), "accuracy",
                     lsi_number_at(last, "val_accuracy"), "peak_bytes", peak,
                     "seconds", seconds, "rate", rate);
}

/* A row of all ranks: the time of the slowest, the peak of the largest. */
static void add_pipeline(json_t *all, const char *name, const json_t *file)
{
    json_t *const epochs = lsi_rows_where(file, "event=epoch");
    json_t *const row = pipeline_row(name, "all", epochs);
    if (row != NULL)
        json_array_append_new(all, row);
    json_decref(epochs);
}

/* The epochs of one rank; a new reference. */
static json_t *epochs_of_rank(const json_t *epochs, size_t rank)
{
    json_t *const found = json_array();
    size_t i;
    const json_t *epoch;
    json_array_foreach(epochs, i, epoch)
    {
        json_t *const own =
            json_array_get(json_object_get(epoch, "ranks"), rank);
        if (own != NULL)
            json_array_append(found, own);
    }
    return found;
}

/* A row for each rank, if the file has results for each rank. */
static void add_ranks(json_t *all, const char *name, const json_t *file)
{
    json_t *const epochs = lsi_rows_where(file, "event=epoch");
    const size_t n =
        json_array_size(json_object_get(json_array_get(epochs, 0), "ranks"));
    for (size_t r = 0; r < n; r++) {
        char rank[24];
        json_t *const own = epochs_of_rank(epochs, r);
        snprintf(rank, sizeof(rank), "%zu", r);
        json_t *const row = pipeline_row(name, rank, own);
        if (row != NULL)
            json_array_append_new(all, row);
        json_decref(own);
    }
    json_decref(epochs);
}

#define PIPELINE_COLUMNS(peak)                                                 \
    {"Epochs", "epochs", 0, 0}, {"Training loss", "loss", 4, 0},               \
        {"Validation loss", "val_loss", 4, 0},                                 \
        {"Validation accuracy", "accuracy", 4, 0},                             \
        {peak, "peak_bytes", 1, 1e-6}, {"Mean epoch (s)", "seconds", 3, 0},    \
        {"Images/s", "rate", 0, 0},

static const lsi_study_column run_columns[] = {
    {"Run", "run", 0, 0},
    PIPELINE_COLUMNS("Largest peak of a rank, mean over epochs (MB)")};

static const lsi_study_column rank_columns[] = {
    {"Run", "run", 0, 0},
    {"Rank", "rank", 0, 0},
    PIPELINE_COLUMNS("Mean peak (MB)")};

/* One table: of each run its ranks, and all of them. */
static void rank_table(lsi_study *r, const json_t *ours, const json_t *usual)
{
    json_t *const rows = json_array();
    add_ranks(rows, OURS, ours);
    add_pipeline(rows, OURS, ours);
    add_ranks(rows, USUAL, usual);
    add_pipeline(rows, USUAL, usual);
    LSI_STUDY_TABLE(r, rows, rank_columns);
    if (json_array_size(rows) > 0)
        lsi_document_paragraph(
            r->document, "The row of a rank shows the loss and accuracy for "
                         "its share of the images. The row of all ranks shows "
                         "the loss and accuracy for all images, the time of "
                         "the slowest rank, and the largest peak of a rank.");
    json_decref(rows);
}

static void add_epochs(lsi_study_plot *p, const char *run, const char *name,
                       const json_t *file, const char *y)
{
    json_t *const epochs = lsi_rows_where(file, "event=epoch");
    lsi_study_series *const s =
        lsi_study_plot_series(p, LSI_PLOT_LINES_POINTS, "%s%s%s", run,
                              name[0] != '\0' ? ", " : "", name);
    for (size_t i = 0; i < json_array_size(epochs); i++)
        lsi_study_point(s, lsi_number_at(json_array_get(epochs, i), "epoch"),
                        lsi_number_at(json_array_get(epochs, i), y));
    json_decref(epochs);
}

static void answer_pipeline(lsi_study *r, const json_t *all)
{
    const json_t *const ours = json_array_get(all, 0);
    const json_t *const usual = json_array_get(all, 1);
    if (usual == NULL)
        return;
    lsi_document_paragraph(
        r->document,
        "With fused batch normalisation and one all-reduce for all gradients "
        "(" OURS "), an epoch takes %.3f s. The validation accuracy is "
        "%.4f, and the mean peak of memory is %.1f MB. With the usual batch "
        "normalisation and buckets (" USUAL "), an epoch takes %.3f "
        "s. The validation accuracy is %.4f, and the mean peak of memory is "
        "%.1f MB.",
        lsi_number_at(ours, "seconds"), lsi_number_at(ours, "accuracy"),
        lsi_number_at(ours, "peak_bytes") * 1e-6,
        lsi_number_at(usual, "seconds"), lsi_number_at(usual, "accuracy"),
        lsi_number_at(usual, "peak_bytes") * 1e-6);
}

static void write_pipeline(lsi_study *r)
{
    json_t *const ours = lsi_rows_of("pipeline-custom");
    json_t *const usual = lsi_rows_of("pipeline-standard");
    json_t *const all = json_array();
    static const lsi_study_column others[] = {
        {"Program", "peer", 0, 0},  {"Ranks", "ranks", 0, 0},
        {"Images", "images", 0, 0}, {"Epoch (s)", "seconds", 3, 0},
        {"Images/s", "rate", 0, 0},
    };
    add_pipeline(all, OURS, ours);
    add_pipeline(all, USUAL, usual);
    lsi_document_paragraph(
        r->document, r->data != NULL
                         ? "The dataset is CIFAR-100."
                         : "The dataset is a built-in set with the shape of "
                           "CIFAR-100; `--data PATH` selects CIFAR-100.");
    rank_table(r, ours, usual);
    answer_pipeline(r, all);
    LSI_STUDY_PEERS(r, "cifar100", others);
    lsi_study_plot p = lsi_study_plot_new(
        "pipeline-loss", "Training loss and validation loss by epoch");
    p.plot.x = (lsi_plot_axis){.label = "epoch", .whole = true};
    p.plot.y = (lsi_plot_axis){.label = "loss"};
    add_epochs(&p, OURS, "training", ours, "train_loss");
    add_epochs(&p, OURS, "validation", ours, "val_loss");
    add_epochs(&p, USUAL, "training", usual, "train_loss");
    add_epochs(&p, USUAL, "validation", usual, "val_loss");
    lsi_study_draw(r, &p);
    lsi_study_plot q = lsi_study_plot_new(
        "pipeline-accuracy",
        "Training accuracy and validation accuracy by epoch");
    q.plot.x = p.plot.x;
    q.plot.y = (lsi_plot_axis){.label = "accuracy", .from_zero = true};
    add_epochs(&q, OURS, "training", ours, "train_accuracy");
    add_epochs(&q, OURS, "validation", ours, "val_accuracy");
    add_epochs(&q, USUAL, "training", usual, "train_accuracy");
    add_epochs(&q, USUAL, "validation", usual, "val_accuracy");
    lsi_study_draw(r, &q);
    json_decref(all);
    json_decref(ours);
    json_decref(usual);
}

const lsi_section lsi_section_pipeline = {
    .id = "pipeline",
    .title = "Training on images",
    LSI_MEASUREMENTS(pipeline),
    .write = write_pipeline,
};

/* ---- a language model ---------------------------------------------------- */

static const lsi_measurement losses[] = {
    {"train-lm", LSI_ROWS_METRICS,
     "train lm -n 2 --layers 2 --d-model 128 --context 64 --steps 100",
     "train lm -n 2 --size tiny --steps 1000", 10, 300, false},
};

static void write_losses(lsi_study *r)
{
    json_t *const file = lsi_rows_of("train-lm");
    json_t *const steps = lsi_rows_where(file, "event=step");
    const size_t n = json_array_size(steps);
    if (n > 0)
        lsi_document_paragraph(
            r->document,
            "The loss is %.3f in the first step and %.3f in the last step "
            "(step %zu). The last step processes %.0f tokens per second.",
            lsi_number_at(json_array_get(steps, 0), "loss"),
            lsi_number_at(json_array_get(steps, n - 1), "loss"), n,
            lsi_number_at(json_array_get(steps, n - 1), "tokens_per_second"));
    lsi_study_plot p =
        lsi_study_plot_new("train-lm", "Loss of a language model by step");
    p.plot.x = (lsi_plot_axis){.label = "step"};
    p.plot.y = (lsi_plot_axis){.label = "loss (nats per token)"};
    lsi_study_points(lsi_study_plot_series(&p, LSI_PLOT_LINES, "training"),
                     steps, "step", "loss");
    lsi_study_draw(r, &p);
    json_decref(steps);
    json_decref(file);
}

const lsi_section lsi_section_losses = {
    .id = "train-lm",
    .title = "Training a language model",
    LSI_MEASUREMENTS(losses),
    .write = write_losses,
};

/* ---- runs that are handed in --------------------------------------------- */

static void compare_steps(lsi_study *r, const char *y, const char *plot,
                          const char *label)
{
    size_t i;
    const json_t *run;
    lsi_study_plot p = lsi_study_plot_new(plot, label);
    p.plot.x = (lsi_plot_axis){.label = "step"};
    p.plot.y = (lsi_plot_axis){.label = label};
    json_array_foreach(r->compared, i, run)
    {
        json_t *const rows = lsi_rows_where(run, "event=step");
        lsi_study_points(lsi_study_plot_series(&p, LSI_PLOT_LINES, "%s",
                                               lsi_string_at(run, "name")),
                         rows, "step", y);
        json_decref(rows);
    }
    lsi_study_draw(r, &p);
}

static void compare_epochs(lsi_study *r, const char *y, const char *plot,
                           const char *label)
{
    size_t i;
    const json_t *run;
    lsi_study_plot p = lsi_study_plot_new(plot, label);
    p.plot.x = (lsi_plot_axis){.label = "epoch", .whole = true};
    p.plot.y = (lsi_plot_axis){.label = label};
    json_array_foreach(r->compared, i, run)
    {
        add_epochs(&p, lsi_string_at(run, "name"), "", run, y);
    }
    lsi_study_draw(r, &p);
}

/* The last step of each run that reports steps. */
static void add_steps(json_t *all, const json_t *run)
{
    json_t *const steps = lsi_rows_where(run, "event=step");
    const size_t n = json_array_size(steps);
    const json_t *const last = json_array_get(steps, n - 1);
    double seconds = 0;
    for (size_t i = 0; i < n; i++)
        seconds += lsi_number_at(json_array_get(steps, i), "seconds");
    if (n > 0)
        json_array_append_new(
            all, json_pack("{s:s, s:f, s:f, s:f, s:f}", "run",
                           lsi_string_at(run, "name"), "step",
                           lsi_number_at(last, "step"), "loss",
                           lsi_number_at(last, "loss"), "seconds",
                           seconds / (double)n, "rate",
                           lsi_number_at(last, "tokens_per_second")));
    json_decref(steps);
}

static void write_runs(lsi_study *r)
{
    static const lsi_study_column columns[] = {
        {"Run", "run", 0, 0},
        {"Steps", "step", 0, 0},
        {"Last loss", "loss", 4, 0},
        {"Mean step (s)", "seconds", 4, 0},
        {"Tokens/s in the last step", "rate", 0, 0},
    };
    json_t *const epochs = json_array(), *const steps = json_array();
    size_t i;
    const json_t *run;
    json_array_foreach(r->compared, i, run)
    {
        add_pipeline(epochs, lsi_string_at(run, "name"), run);
        add_steps(steps, run);
    }
    LSI_STUDY_TABLE(r, epochs, run_columns);
    LSI_STUDY_TABLE(r, steps, columns);
    compare_epochs(r, "train_loss", "runs-train-loss", "training loss");
    compare_epochs(r, "val_accuracy", "runs-accuracy", "validation accuracy");
    compare_steps(r, "loss", "runs-loss", "loss");
    json_decref(epochs);
    json_decref(steps);
}

const lsi_section lsi_section_runs = {
    .id = "runs",
    .title = "Runs compared",
    .write = write_runs,
};
