/*
 * lockstep predict: classes of images by a trained network.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpus.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/printable.h"
#include "cli/frame/ranks.h"
#include "input/data/image_source.h"
#include "model/checkpoint/find.h"
#include "report/result.h"
#include "report/table.h"
#include "train/jobs/image_file.h"
#include "train/jobs/predict.h"

typedef struct args {
    const char *model, *json;
    int64_t top, batch_size, threads;
} args;

#define ROW(...) LSI_OPTION(args, __VA_ARGS__)
static const lsi_option options[] = {
    ROW(model, STRING, "weights", 0, "PATH", NULL,
        "result folder of `lockstep train images` or `lockstep train "
        "cifar100`, or the file that its --save wrote"),
    ROW(top, INT, "top-classes", 0, "K", "1",
        "number of most likely classes to print for each image", .min = 1,
        .max = 1e9),
    ROW(batch_size, INT, "batch-size", 'b', "N", "64", "images per batch",
        .min = 1, .max = 1e6),
    LSI_THREADS_ROW(threads),
    LSI_JSON_ROW(json),
};

static const lsi_column columns[] = {
    LSI_COLUMN(TEXT, "image", "Image"),
    LSI_COLUMN(INT, "place", ""),
    LSI_COLUMN(TEXT, "class", "Class"),
    LSI_COLUMN(INT, "number", ""),
    LSI_COLUMN(REAL, "probability", "Probability", .decimals = 4),
    LSI_COLUMN(TEXT, "error", ""),
};

typedef struct session {
    const args *args;
    lsi_arguments arguments;
    lsi_file_names paths; /* of the images */
    char **why;           /* of each path: why it cannot be read, or NULL */
    int64_t reasons;      /* entries of `why` */
    int64_t failed;       /* paths that cannot be read */
    lsi_path weights;
    lsi_image_file file;
    ls_image_net *net;
    ls_dataset *set;
    lsi_images *images;
    ls_tape *tape;
    lsi_table *table;
} session;

/* ---- results ------------------------------------------------------------- */

/* A class without a name is called by its number. */
static void add_row(const session *s, int64_t image, int64_t place,
                    int64_t class, double probability)
{
    char number[24];
    const char *const name = lsi_image_file_class(&s->file, class);
    snprintf(number, sizeof(number), "%" PRId64, class);
    lsi_table_row(s->table);
    lsi_table_text(s->table, "image", lsi_file_names_at(&s->paths, image));
    lsi_table_int(s->table, "place", place);
    lsi_table_text(s->table, "class", name != NULL ? name : number);
    lsi_table_int(s->table, "number", class);
    lsi_table_real(s->table, "probability", probability);
}

/* Whether class a comes before class b: of equals the first one does. */
static bool is_before(const float *values, int64_t a, int64_t b)
{
    return values[a] > values[b] || (values[a] == values[b] && a < b);
}

/* The likeliest class after the one that came last, which is -1 at first. */
static int64_t next_class(const float *values, int64_t n, int64_t last)
{
    int64_t best = -1;
    for (int64_t i = 0; i < n; i++)
        if ((last < 0 || is_before(values, last, i)) &&
            (best < 0 || is_before(values, i, best)))
            best = i;
    return best;
}

/* Prints at once why an image has no class. */
static ls_status add_failed(session *s, int64_t image)
{
    s->failed++;
    (void)lsi_cli_complain("", lsi_printable_of(s->why[image]).text);
    lsi_table_row(s->table);
    lsi_table_text(s->table, "image", lsi_file_names_at(&s->paths, image));
    lsi_table_text(s->table, "error", s->why[image]);
    return LS_OK;
}

static ls_status on_predicted(void *context, int64_t image,
                              const float *probabilities, int64_t classes)
{
    session *const s = context;
    int64_t class = -1;
    if (s->why[image] != NULL)
        return add_failed(s, image);
    if (isnan(probabilities[0])) /* then all are */
        return lsi_fail(LS_ERR_FORMAT,
                        "the network '%s' computes no probabilities for '%s': "
                        "some of its weights are infinite or NaN",
                        s->weights.text, lsi_file_names_at(&s->paths, image));
    for (int64_t k = 1; k <= s->args->top && k <= classes; k++) {
        class = next_class(probabilities, classes, class);
        add_row(s, image, k, class, (double)probabilities[class]);
    }
    return LS_OK;
}

/* ---- paths --------------------------------------------------------------- */

/* Gives each added path the reason NULL. */
static ls_status add_reasons(session *s)
{
    const int64_t n = s->paths.count, added = n - s->reasons;
    char **const why = realloc(s->why, (size_t)n * sizeof(char *));
    if (why == NULL)
        return lsi_fail(LS_ERR_MEMORY,
                        "not enough memory for %" PRId64 " images", n);
    memset(why + s->reasons, 0, (size_t)added * sizeof(char *));
    s->why = why;
    s->reasons = n;
    return LS_OK;
}

/* A path that cannot be listed stands for its missing images. */
static ls_status add_path(session *s, const char *path)
{
    lsi_error error = {0};
    (void)lsi_error_keep(&error, lsi_file_names_add_images(&s->paths, path));
    if (error.status != LS_OK)
        LS_TRY(lsi_file_names_add(&s->paths, path));
    LS_TRY(add_reasons(s));
    if (error.status != LS_OK)
        s->why[s->reasons - 1] = strdup(error.text);
    return LS_OK;
}

static void free_reasons(session *s)
{
    for (int64_t i = 0; i < s->reasons; i++)
        free(s->why[i]);
    free(s->why);
}

/* ---- the run ------------------------------------------------------------- */

static ls_status open_net(session *s)
{
    LS_TRY(lsi_checkpoint_weights(s->args->model, &s->weights));
    LS_TRY(lsi_image_file_read(&s->file, s->weights.text));
    const lsi_image_net_setup setup = {
        .config = s->file.config, .norm = LSI_NORM_LOCAL, .frozen = true};
    LS_TRY(lsi_image_net_new(&s->net, NULL, &setup));
    return ls_params_load(ls_image_net_params(s->net), s->weights.text);
}

static ls_status open_images(session *s)
{
    const lsi_image_config *const c = &s->file.config;
    const lsi_image_shape shape = {.channels = (int)c->channels,
                                   .height = c->height,
                                   .width = c->width,
                                   .normalization = s->file.normalization};
    const lsi_images_options how = {.batch_size = s->args->batch_size,
                                    .size = 1};
    for (int i = 0; i < s->arguments.n; i++)
        LS_TRY(add_path(s, s->arguments.all[i]));
    LS_TRY(lsi_dataset_of_files(&s->set, &s->paths, &shape, s->why));
    return lsi_images_new(&s->images, s->set, &how);
}

/* Prints no table if no image has a class. */
static ls_status show(const session *s, const lsi_invocation *call)
{
    if (s->failed == s->paths.count)
        return lsi_cli_write_table(call, s->table, s->args->json);
    return lsi_cli_show_table(call, s->table, s->args->json);
}

static ls_status run_all(session *s, const lsi_invocation *call)
{
    LS_TRY(lsi_result_check(s->args->json));
    LS_TRY(LSI_TABLE_NEW(&s->table, columns));
    LS_TRY(open_net(s));
    LS_TRY(open_images(s));
    LS_TRY(ls_tape_new(&s->tape));
    LS_TRY(lsi_predict(lsi_image_net_model(s->net), s->tape, s->images,
                       on_predicted, s));
    return show(s, call);
}

static void release(session *s)
{
    lsi_table_free(&s->table);
    ls_tape_free(&s->tape);
    lsi_images_free(&s->images);
    ls_dataset_free(&s->set);
    ls_image_net_free(&s->net);
    lsi_image_file_free(&s->file);
    free_reasons(s);
    lsi_file_names_free(&s->paths);
}

/* The exit status. */
static int predict(session *s, const lsi_invocation *call)
{
    if (s->args->model == NULL)
        return lsi_cli_usage("--weights PATH is missing");
    if (s->arguments.n == 0)
        return lsi_cli_usage("give an image file, or a folder of images");
    lsi_cli_set_threads(s->args->threads, lsi_cpus_available());
    const ls_status status = run_all(s, call);
    const int64_t failed = s->failed, all = s->paths.count;
    release(s);
    if (status != LS_OK)
        return lsi_cli_error();
    if (failed > 0 && all > 1)
        fprintf(stderr,
                "lockstep: %s: %" PRId64 " of %" PRId64
                " images could not be read\n",
                call->argv[0], failed, all);
    return failed > 0 ? LSI_EXIT_ERROR : 0;
}

static int run_predict(const lsi_invocation *call)
{
    args a;
    int exit_status;
    session s = {.args = &a};
    if (!lsi_cli_parse_arguments(call, &a, &s.arguments, &exit_status))
        return exit_status;
    exit_status = predict(&s, call);
    lsi_free(s.arguments.all);
    return exit_status;
}

const lsi_command lsi_command_predict = {
    .name = "predict",
    .summary = "Predict the classes of images with a trained network",
    .arguments = "PATH ...",
    .text =
        "PATH is a PNG or JPEG file, or a folder; a folder is read with its "
        "subfolders. The file of the network records how images are resized "
        "and normalised, as for `lockstep eval images`. If the training data "
        "had no name for a class, its number is printed. Each row of --json "
        "contains \"image\", \"place\" (1: the most likely class), \"class\", "
        "\"number\", \"probability\" and \"error\". If an image cannot be "
        "read, the command prints an error on stderr, and the row of the image "
        "contains \"error\" but no class. The command continues with the other "
        "images and exits with status 1.",
    LSI_COMMAND_OPTIONS(options),
    .run = run_predict,
};
