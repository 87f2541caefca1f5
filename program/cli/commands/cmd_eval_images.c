/*
 * lockstep eval images: how well a trained network tells images apart.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "cli/commands/ddp_flags.h"
#include "cli/commands/eval_columns.h"
#include "cli/frame/bits_flag.h"
#include "cli/frame/dtype_flag.h"
#include "cli/frame/ranks.h"
#include "comm/api/outcome.h"
#include "model/checkpoint/find.h"
#include "model/parallel/ddp_state.h"
#include "report/result.h"
#include "report/table.h"
#include "train/jobs/image_data.h"
#include "train/jobs/image_file.h"
#include "train/jobs/validate.h"

typedef struct args {
    lsi_rank_flags ranks;
    const char *model, *data, *split, *dtype, *bits, *json;
    const char *strategy;
    int64_t batch_size, prefetch_layers;
    bool verify, markdown;
} args;

#define ROW(...) LSI_OPTION(args, __VA_ARGS__)
static const lsi_option options[] = {
    LSI_RANK_ROWS(ranks, "1"),
    ROW(model, STRING, "weights", 0, "PATH", NULL,
        "result folder of `lockstep train images`, or the file that its --save "
        "wrote"),
    ROW(data, STRING, "data", 0, "PATH", NULL,
        "images of the classes that the network was trained on, in any form "
        "that `lockstep train images` reads"),
    ROW(split, CHOICE, "split", 0, "NAME", "val",
        "part of the data: val (held out from training), train, or all",
        .choices = "val|train|all"),
    ROW(batch_size, INT, "batch-size", 'b', "N", "64", "images per batch",
        .min = 1, .max = 1e6),
    LSI_USE_STRATEGY_ROW(strategy),
    LSI_PREFETCH_LAYERS_ROW(prefetch_layers),
    LSI_VERIFY_DATA_ROW(verify),
    LSI_DTYPE_ROW(dtype),
    LSI_BITS_ROW(bits),
    LSI_JSON_ROW(json),
    LSI_MARKDOWN_ROW(markdown),
};

static const lsi_column columns[] = {
    LSI_EVAL_SUBJECT,
    LSI_COLUMN(TEXT, "split", "Split"),
    LSI_EVAL_RANKS,
    LSI_COLUMN(INT, "images", "Images"),
    LSI_EVAL_LOSS,
    LSI_COLUMN(REAL, "accuracy", "Accuracy", .decimals = 4),
    LSI_EVAL_SPEED("images", "Images"),
};

typedef struct session {
    const args *args;
    const lsi_invocation *call;
    ls_group *group;
    lsi_path weights; /* the file of --weights */
    lsi_image_file file;
    lsi_image_data data;
    ls_image_net *net;
    ls_ddp *ddp; /* divides the weights, or NULL */
    ls_tape *tape;
    lsi_table *table;
    lsi_totals totals;
    bool agreed; /* all ranks have the same error */
} session;

/* Opens all that needs no other rank. */
static ls_status begin(session *s)
{
    const args *const a = s->args;
    if (ls_group_rank(s->group) == 0)
        LS_TRY(lsi_result_check(a->json));
    LS_TRY(LSI_TABLE_NEW(&s->table, columns));
    LS_TRY(lsi_checkpoint_weights(a->model, &s->weights));
    LS_TRY(lsi_image_file_read(&s->file, s->weights.text));
    const lsi_image_config *const net = &s->file.config;
    const lsi_image_data_options data = {
        .path = a->data,
        .size = net->height == net->width ? net->height : 0,
        .channels = (int)net->channels,
        .seed = s->file.seed,
        .normalization = s->file.normalization,
        .skip_checksums = !a->verify || ls_group_local_rank(s->group) != 0};
    LS_TRY(lsi_image_data_open(&s->data, &data));
    LS_TRY(lsi_image_file_check(&s->file, s->data.train, a->data));
    LS_TRY(ls_tape_new(&s->tape));
    return ls_tape_set_autocast(s->tape, lsi_cli_dtype(a->dtype));
}

static ls_status load(session *s)
{
    const args *const a = s->args;
    const bool divided =
        strcmp(a->strategy, "flat") != 0 && ls_group_size(s->group) > 1;
    const lsi_image_net_setup setup = {.config = s->file.config,
                                       .norm = LSI_NORM_LOCAL,
                                       .frozen = !divided,
                                       .divided = divided};
    LS_TRY(lsi_image_net_new(&s->net, s->group, &setup));
    if (divided)
        LS_TRY(lsi_ddp_new_inference(
            &s->ddp, s->group, ls_image_net_params(s->net),
            lsi_cli_prefetch_layers(a->prefetch_layers)));
    const ls_status own =
        ls_params_load(ls_image_net_params(s->net), s->weights.text);
    return lsi_share_outcome(s->group, own, &s->agreed);
}

static ls_status evaluate(session *s, const ls_dataset *set)
{
    const lsi_images_options how = {.batch_size = s->args->batch_size,
                                    .rank = ls_group_rank(s->group),
                                    .size = ls_group_size(s->group)};
    lsi_images *images = NULL;
    lsi_validated found;
    ls_status status = lsi_share_outcome(
        s->group, lsi_images_new(&images, set, &how), &s->agreed);
    if (status == LS_OK)
        status = lsi_validate(s->group, lsi_image_net_model(s->net), s->tape,
                              images, &found, &s->agreed);
    lsi_images_free(&images);
    LS_TRY(status);
    s->totals.loss += found.all.loss;
    s->totals.hits += found.all.hits;
    s->totals.weight += found.all.weight;
    return LS_OK;
}

static ls_status show_result(const session *s, double seconds)
{
    const args *const a = s->args;
    if (ls_group_rank(s->group) != 0)
        return LS_OK;
    lsi_table_row(s->table);
    lsi_table_text(s->table, "model", a->model);
    lsi_table_text(s->table, "data", a->data);
    lsi_table_text(s->table, "split", a->split);
    lsi_table_int(s->table, "ranks", ls_group_size(s->group));
    lsi_table_int(s->table, "images", (int64_t)s->totals.weight);
    lsi_table_real(s->table, "loss", lsi_totals_loss(&s->totals));
    lsi_table_real(s->table, "accuracy", lsi_totals_accuracy(&s->totals));
    lsi_table_real(s->table, "seconds", seconds);
    lsi_table_real(s->table, "images_per_second", s->totals.weight / seconds);
    return lsi_cli_show_table(s->call, s->table, a->json);
}

static ls_status run_all(session *s)
{
    LS_TRY(lsi_share_outcome(s->group, begin(s), &s->agreed));
    LS_TRY(load(s));
    const double begun = lsi_clock_seconds();
    if (strcmp(s->args->split, "train") != 0)
        LS_TRY(evaluate(s, s->data.val));
    if (strcmp(s->args->split, "val") != 0)
        LS_TRY(evaluate(s, s->data.train));
    return lsi_share_outcome(
        s->group, show_result(s, lsi_clock_seconds() - begun), &s->agreed);
}

static void release(session *s)
{
    lsi_table_free(&s->table);
    ls_tape_free(&s->tape);
    ls_ddp_free(&s->ddp);
    ls_image_net_free(&s->net);
    lsi_image_data_free(&s->data);
    lsi_image_file_free(&s->file);
}

static int run_eval_images(const lsi_invocation *call)
{
    args a;
    int exit_status;
    session s = {.args = &a, .call = call};
    if (!lsi_cli_parse(call, &a, NULL, &exit_status))
        return exit_status;
    if (a.model == NULL || a.data == NULL)
        return lsi_cli_usage("--%s is missing",
                             a.model == NULL ? "weights PATH" : "data PATH");
    if (!lsi_cli_set_bits(a.bits, a.dtype, &exit_status) ||
        !lsi_cli_as_rank(call, &a.ranks, 1, &exit_status))
        return exit_status;
    if (lsi_cli_open_group(a.ranks.threads, &s.group) != LS_OK)
        return lsi_cli_rank_error();
    const bool first = ls_group_rank(s.group) == 0;
    const ls_status status = run_all(&s);
    exit_status = lsi_cli_rank_exit(status, s.agreed && !first);
    release(&s);
    ls_group_close(&s.group);
    return exit_status;
}

const lsi_command lsi_command_eval_images = {
    .name = "images",
    .summary = "Measure the loss and accuracy of a network on images",
    .text = "Images are resized to the size that the network was trained on. "
            "If the data have no validation set, `val` means the tenth of the "
            "images that training held out. The seed in the file of the "
            "network selects the same images again. The ranks divide the "
            "batches among themselves. With equal --threads and --batch-size "
            "the results have the same bits on any number of ranks. Each row "
            "of --json "
            "contains \"model\", \"data\", \"split\", \"ranks\", \"images\", "
            "\"loss\", \"accuracy\", \"seconds\" and \"images_per_second\".",
    LSI_COMMAND_OPTIONS(options),
    .run = run_eval_images,
};
