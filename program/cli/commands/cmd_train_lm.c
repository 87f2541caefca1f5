/*
 * lockstep train lm: a Transformer language model on one or more ranks.
 */
#define LSI_USUAL(all, lm) lm /* of model/optim/optimizers.h */

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "array/compute/threads.h"
#include "base/error.h"
#include "cli/commands/audit_flags.h"
#include "cli/commands/ddp_flags.h"
#include "cli/commands/keep_flags.h"
#include "cli/commands/lm_log.h"
#include "cli/commands/output_flags.h"
#include "cli/commands/recipe_flags.h"
#include "cli/commands/resume_flags.h"
#include "cli/frame/bits_flag.h"
#include "cli/frame/config_file.h"
#include "cli/frame/dtype_flag.h"
#include "cli/frame/lm_flags.h"
#include "cli/frame/ranks.h"
#include "model/checkpoint/find.h"
#include "model/nets/lm.h"
#include "observe/memory_record.h"
#include "observe/span_file.h"

typedef struct args {
    const char *config;
    lsi_rank_flags ranks;
    const char *data, *tokens, *tokenizer;
    lsi_lm_shape_flags shape;
    int64_t steps, batch_size, accumulate, tokens_per_step, slices, seed;
    lsi_recipe recipe;
    lsi_resume_options resume;
    const char *dtype;
    double dropout;
    bool recompute;
    lsi_ddp_flags ddp;
    bool deterministic;
    const char *bits;
    int64_t validate_every, validate_batches, log_every;
    const char *model, *init;
    lsi_keep_flags keep;
    lsi_run_outputs outputs;
    lsi_audit_flags audit;
} args;

#define ROW(...) LSI_OPTION(args, __VA_ARGS__)
static const lsi_option options[] = {
    LSI_CONFIG_ROW(config),
    LSI_RANK_ROWS(ranks, "1"),
    LSI_DETERMINISTIC_ROW(deterministic),
    LSI_BITS_ROW(bits),
    ROW(data, STRING, "data", 0, "PATH", NULL,
        "text or tokens: a file, a folder, or a pattern such as "
        "'shards/*.bin' (default: a built-in text)"),
    LSI_LM_TOKENS_ROW(tokens),
    ROW(tokenizer, STRING, "tokenizer", 0, "PATH", NULL,
        "tokenizer that encodes the text of --data, or that has encoded its "
        "tokens: a tokenizer.json, or GPT-2's vocab.json next to its "
        "merges.txt. The file of the trained model contains this tokenizer "
        "(default: with --weights, the tokenizer in that file)"),
    LSI_LM_SHAPE_ROWS(shape),
    ROW(steps, INT, "steps", 0, "N", "200", "optimizer steps", .min = 0,
        .max = 1e12),
    ROW(batch_size, INT, "batch-size", 'b', "N", "8",
        "sequences per micro-step on each rank", .min = 1, .max = 1e6),
    ROW(accumulate, INT, "accumulate", 0, "N", NULL,
        "micro-steps per optimizer step (default: 1, or calculated from "
        "--tokens-per-step)",
        .min = 1, .max = 1e6),
    ROW(tokens_per_step, INT, "tokens-per-step", 0, "N", "0",
        "tokens of all ranks per optimizer step; this sets the number of "
        "micro-steps. 0: use --accumulate",
        .min = 0, .max = 1e15),
    LSI_SLICES_ROW(slices, "one per rank"),
    LSI_RECIPE_ROWS("adamw", "cosine", LSI_SOME_WARMUP, "1"),
    LSI_DTYPE_ROW(dtype),
    ROW(dropout, REAL, "dropout-rate", 0, "P", "0",
        "probability of dropout of the embeddings and of each part that joins "
        "the residual stream",
        .min = 0, .max = 0.99),
    ROW(recompute, BOOL, "activation-checkpointing", 0, NULL, NULL,
        "keep only the inputs of each block and recompute the blocks in "
        "backward. This needs less memory and about a third more time; the "
        "results are bit-identical"),
    LSI_DDP_ROWS(ddp),
    ROW(seed, INT, "seed", 's', "N", "0",
        "seed of the initial weights, the order of the data and the built-in "
        "text",
        .min = 0, .max = 9e15),
    ROW(validate_every, INT, "validate-every", 0, "N", "100",
        "steps between validations on the last tenth of the data; 0: no "
        "validation",
        .min = 0, .max = 1e12),
    ROW(validate_batches, INT, "validate-batches", 0, "N", "4",
        "batches per rank in each validation; every validation uses the same "
        "batches",
        .min = 1, .max = 1e9),
    ROW(log_every, INT, "log-every", 0, "N", NULL,
        "steps between log lines (default: 10; on a terminal, a single line is "
        "updated at each step)",
        .min = 1, .max = 1e12),
    ROW(model, STRING, "weights", 0, "PATH", NULL,
        "start from this model: any PATH that `lockstep generate --weights` "
        "accepts. Its file sets the shape; the optimizer starts without state"),
    ROW(init, STRING, "init", 0, "FILE", NULL,
        "start from the weights in this safetensors file; the flags must "
        "describe the same model shape"),
    LSI_KEEP_ROWS(keep, ", for `lockstep generate`"),
    LSI_OUTPUT_ROWS("each step and each validation"),
    LSI_RESUME_ROWS(resume),
    LSI_AUDIT_ROWS(audit),
};

typedef struct session {
    const lsi_invocation *call;
    const args *args;
    lsi_keep keep;
    lsi_path metrics; /* of the folder of the run */
    ls_group *group;
    lsi_lm_log log;
    lsi_path weights; /* of --weights */
    ls_tokenizer *tokenizer;
    lsi_audit_run audit;
} session;

/* Users of other programs give the name of a size here. */
static ls_status find_weights(const char *path, lsi_path *out)
{
    ls_transformer_config config = LS_TRANSFORMER_CONFIG_INIT;
    if (access(path, F_OK) != 0 && ls_transformer_size(path, &config) == LS_OK)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "--weights %s: no such file; for a new model of that "
                        "size give --size %s",
                        path, path);
    return lsi_checkpoint_weights(path, out);
}

static ls_status read_model(session *s, lsi_lm_options *out)
{
    const args *a = s->args;
    bool bytes;
    if (a->init != NULL)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "--weights and --init exclude each other; give one of them");
    LS_TRY(find_weights(a->model, &s->weights));
    LS_TRY(
        lsi_cli_lm_shape_of(&a->shape, s->weights.text, &out->model, &bytes));
    out->init = s->weights.text;
    out->length = a->shape.context;
    out->not_bytes = !bytes;
    return LS_OK;
}

/* The model has its vocabulary unless the flags or --weights say otherwise. */
static ls_status open_tokenizer(session *s, lsi_lm_options *job)
{
    const args *a = s->args;
    if (a->tokenizer != NULL)
        LS_TRY(ls_tokenizer_open(&s->tokenizer, a->tokenizer));
    else if (a->model != NULL)
        LS_TRY(lsi_lm_kept_tokenizer(s->weights.text, &s->tokenizer));
    if (s->tokenizer == NULL)
        return LS_OK;
    const int64_t n = ls_tokenizer_vocabulary(s->tokenizer);
    job->tokenizer = s->tokenizer;
    if (a->model != NULL)
        return lsi_lm_check_tokenizer(
            s->weights.text, job->model.vocabulary, s->tokenizer,
            a->tokenizer != NULL ? a->tokenizer : s->weights.text);
    if (a->shape.vocabulary == 0)
        job->model.vocabulary = n;
    if (n <= job->model.vocabulary)
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT,
                    "the tokenizer '%s' has %" PRId64
                    " tokens, more than --vocab-size %" PRId64
                    "; give a larger --vocab-size, or leave --vocab-size out",
                    a->tokenizer, n, job->model.vocabulary);
}

/* Text has 256 tokens unless the flags say otherwise. */
static ls_status job_of(session *s, lsi_lm_options *out)
{
    const args *a = s->args;
    *out = (lsi_lm_options){.data = a->data,
                            .format = lsi_cli_token_format(a->tokens),
                            .init = a->init,
                            .steps = a->steps,
                            .batch_size = a->batch_size,
                            .accumulate = a->accumulate > 0 ? a->accumulate : 1,
                            .tokens_per_step = a->tokens_per_step,
                            .slices = a->slices,
                            .recipe = a->recipe,
                            .dtype = lsi_cli_dtype(a->dtype),
                            .dropout = a->dropout,
                            .recompute = a->recompute,
                            .validate_every = a->validate_every,
                            .validate_batches = a->validate_batches,
                            .seed = (uint64_t)a->seed,
                            .keep = &s->keep,
                            .resume = a->resume,
                            .audit = &s->audit};
    if (a->model != NULL)
        return read_model(s, out);
    out->text_vocabulary = a->shape.vocabulary == 0 && a->tokenizer == NULL;
    return lsi_cli_lm_shape(&a->shape, &out->model);
}

/* The flags as the run uses them. */
static args settled(const session *s, const lsi_lm_start *start)
{
    args a = *s->args;
    const ls_transformer_config *const c = start->model;
    lsi_cli_settle_flags(s->group, &a.ranks, start->recipe, &a.recipe,
                         start->choice, &a.ddp);
    a.shape.context = start->length;
    if (a.accumulate == 0 && a.tokens_per_step == 0)
        a.accumulate = 1;
    if (a.model != NULL)
        return a; /* its file has the shape */
    a.shape.layers = c->layers;
    a.shape.d_model = c->d_model;
    a.shape.heads = c->heads;
    a.shape.d_ff = c->d_ff;
    a.shape.vocabulary = c->vocabulary;
    return a;
}

static ls_status on_begin(void *context, const lsi_lm_start *start)
{
    session *s = context;
    const args *const a = s->args;
    const args used = settled(s, start);
    lsi_run_outputs outputs = a->outputs;
    lsi_cli_keep_metrics(&s->keep, &outputs, &s->metrics);
    LS_TRY(lsi_lm_log_open(&s->log, start, &outputs));
    if (s->log.is_first && !a->outputs.quiet) {
        lsi_cli_dtype_advise(lsi_cli_dtype(a->dtype));
        lsi_cli_print_resume(&a->resume, start->step);
    }
    LS_TRY(lsi_cli_audit_describe(s->call, &used, used.recipe.optimizer,
                                  s->group, &s->audit));
    return lsi_cli_keep_flags(s->call, a, &used, used.recipe.optimizer,
                              &s->keep);
}

static ls_status on_step(void *context, const lsi_lm_step *step)
{
    session *s = context;
    return lsi_lm_log_step(&s->log, step);
}

static ls_status on_validation(void *context, int64_t step, double loss)
{
    session *s = context;
    return lsi_lm_log_validation(&s->log, step, loss);
}

static void on_saved(void *context, int64_t step, const char *folder)
{
    session *s = context;
    lsi_run_log_saved(s->log.run, step, folder);
}

/* Runs as one rank. */
static int train(session *s, lsi_lm_options *job)
{
    const lsi_lm_events events = {.context = s,
                                  .begin = on_begin,
                                  .step = on_step,
                                  .validation = on_validation,
                                  .saved = on_saved};
    bool agreed = false;
    ls_status status = open_tokenizer(s, job);
    if (status == LS_OK)
        status = lsi_train_lm(s->group, job, &events, &agreed);
    if (status == LS_OK && s->call->check == NULL)
        status = lsi_lm_log_summary(&s->log);
    lsi_cli_print_audit(&s->audit, s->log.is_first);
    lsi_lm_log_close(&s->log);
    ls_tokenizer_close(&s->tokenizer);
    return lsi_cli_train_exit(status, agreed && !s->log.is_first);
}

static bool check_shape(const lsi_lm_options *job, int *exit_status)
{
    if (ls_transformer_check(&job->model) == LS_OK)
        return true;
    *exit_status = lsi_cli_usage("%s", ls_last_error());
    return false;
}

/* For the table of the result. The vocabulary follows the data. */
static const char *shown_size(const args *a, const ls_transformer_config *shape,
                              char out[LSI_LM_NAME_BYTES])
{
    ls_transformer_config of_size = LS_TRANSFORMER_CONFIG_INIT, shown = *shape;
    if (a->model != NULL)
        return a->model;
    if (ls_transformer_size(a->shape.size, &of_size) == LS_OK)
        shown.vocabulary = of_size.vocabulary;
    lsi_cli_lm_name(a->shape.size, &shown, out);
    return out;
}

static int run_train_lm(const lsi_invocation *call)
{
    args a;
    int exit_status;
    char size[LSI_LM_NAME_BYTES];
    lsi_lm_options job;
    session s = {.call = call, .args = &a};
    if (!lsi_cli_parse_config(call, &a, &exit_status) ||
        !lsi_cli_check_resume(&a.resume, &exit_status) ||
        !lsi_cli_check_keep(&a.keep, &exit_status))
        return exit_status;
    s.keep = lsi_cli_keep_of("lm", &a.keep, &a.resume);
    s.audit = lsi_cli_audit_of(call, &a.audit);
    a.resume.most = call->check != NULL ? call->check->from : 0;
    if (!lsi_cli_set_bits(a.bits, a.dtype, &exit_status))
        return exit_status;
    if (lsi_span_limit_steps("--trace-steps", a.outputs.trace_steps) != LS_OK)
        return lsi_cli_usage("%s", ls_last_error());
    if (a.accumulate > 0 && a.tokens_per_step > 0)
        return lsi_cli_usage("--accumulate and --tokens-per-step both set the "
                             "number of micro-steps per step; give one");
    if (job_of(&s, &job) != LS_OK)
        return a.model != NULL ? lsi_cli_error()
                               : lsi_cli_usage("%s", ls_last_error());
    if (!check_shape(&job, &exit_status) ||
        !lsi_cli_ddp_options(&a.ddp, &job.ddp, &job.choose_ddp, &exit_status) ||
        !lsi_cli_as_rank(call, &a.ranks, 1, &exit_status))
        return exit_status;
    lsi_cli_set_deterministic(a.deterministic);
    if (lsi_span_start(a.outputs.trace) != LS_OK ||
        lsi_memory_record_in(a.outputs.memory) != LS_OK ||
        lsi_cli_open_group(a.ranks.threads, &s.group) != LS_OK)
        return lsi_cli_rank_error();
    s.log = (lsi_lm_log){.is_first = ls_group_rank(s.group) == 0,
                         .size = shown_size(&a, &job.model, size),
                         .about = {.job = "lm",
                                   .unit = "tokens",
                                   .resumes = a.resume.resume,
                                   .perplexity = true,
                                   .steps = a.steps,
                                   .every = a.log_every,
                                   .ranks = ls_group_size(s.group),
                                   .threads = lsi_threads(),
                                   .strategy = a.ddp.strategy,
                                   .dtype = a.dtype,
                                   .optimizer = a.recipe.optimizer},
                         .summary = {.data = a.data,
                                     .batch_size = a.batch_size,
                                     .seed = (uint64_t)a.seed,
                                     .keep = &s.keep}};
    exit_status = train(&s, &job);
    ls_group_close(&s.group);
    return exit_status;
}

const lsi_command lsi_command_train_lm = {
    .name = "lm",
    .summary = "Train a Transformer language model on text or tokens",
    .text =
        "Progress goes to stderr, the summary to stdout "
        "(docs/reference/training-output.md). Each line of --metrics is "
        "{\"event\":\"step\", \"step\", \"loss\", \"lr\", \"gradient_norm\", "
        "\"seconds\", \"tokens_per_second\"} or {\"event\":\"validation\", "
        "\"step\", \"val_loss\"}. With --dtype f16, the line of a step also "
        "contains \"loss_scale\", the scale after the step, and \"skipped\", "
        "the number of steps skipped so far. The loss is the mean over the "
        "step's sequences on all ranks, before the update. The data of a step "
        "depend on the seed and on the total number of sequences per step. "
        "They do not depend on the numbers of ranks and micro-steps.",
    LSI_COMMAND_OPTIONS(options),
    .run = run_train_lm,
};
