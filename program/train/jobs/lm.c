#include "train/jobs/lm.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "comm/api/outcome.h"
#include "input/text/encode.h"
#include "input/text/tokenizer.h"
#include "lockstep/version.h"
#include "model/autograd/tape.h"
#include "model/nets/lm.h"
#include "model/nn/transformer_layout.h"
#include "model/parallel/ddp.h"
#include "model/tensor/tensor.h"
#include "observe/spans.h"
#include "train/slices.h"

enum { BUILT_IN_BYTES = 1 << 18, VALIDATION_SHARE = 10 };

/* Validation draws from these steps, far above those of training. */
static const uint64_t validation_steps = UINT64_C(1) << 48;

/* Parts are made in this order and freed in reverse. */
typedef struct job {
    const lsi_lm_options *options;
    const lsi_lm_events *events;
    ls_transformer_config config;
    char *shape;    /* the configuration as text */
    int64_t length; /* tokens of a sequence */
    ls_tokens *tokens;
    int64_t train_end; /* of the tokens; validation begins there */
    ls_tensor *inputs, *targets;
    lsi_lm_kept kept; /* metadata of the tokenizer for saved files */
    lsi_lm lm;
    int slices;                    /* of this rank's batch */
    double losses[LSI_MAX_SLICES]; /* sums of the step, of each slice */
    lsi_loop loop;
    int64_t first;     /* step of the checkpoint to resume from, or 0 */
    double first_loss; /* of that step */
    lsi_lm_step step;  /* the current one */
    double begun;      /* when it began */
} job;

/* ---- settings ---------------------------------------------------------------
 */

static void collect_model_config(const ls_transformer_config *c,
                                 lsi_run_config *config)
{
    lsi_run_config_text(config, "blocks", lsi_transformer_kind_name(c->kind));
    lsi_run_config_int(config, "--layers", c->layers);
    lsi_run_config_int(config, "--d-model", c->d_model);
    lsi_run_config_int(config, "--heads", c->heads);
    lsi_run_config_int(config, "--d-ff", c->d_ff);
    lsi_run_config_int(config, "--vocab-size", c->vocabulary);
    lsi_run_config_real(config, "--norm-eps", c->norm_eps);
    lsi_run_config_before(config, "1e-05");
    lsi_run_config_text(config, "--untied-head", c->untied_head ? "on" : "off");
    lsi_run_config_before(config, "off");
    lsi_run_config_text(config, "--rope", c->rope_halves ? "halves" : "pairs");
    lsi_run_config_text(config, "--attention",
                        c->attention == LS_ATTENTION_NAIVE ? "naive" : "flash");
    if (c->kind != LS_TRANSFORMER_LLAMA)
        return;
    lsi_run_config_int(config, "key-value heads:", lsi_transformer_kv_heads(c));
    lsi_run_config_label(config, "number of key-value heads");
    lsi_run_config_int(config, "head size:", lsi_transformer_d_head(c));
    lsi_run_config_label(config, "head size");
    lsi_run_config_real(config, "theta:", lsi_transformer_theta(c));
    lsi_run_config_label(config, "RoPE base (theta)");
    lsi_run_config_text(config, "scaling of positions:",
                        lsi_transformer_scaling_name(c->rope_scaling.kind));
    lsi_run_config_label(config, "kind of RoPE scaling");
}

/* Samples the whole of the data: other data very likely differ in a sample. */
static ls_status collect_data_config(const job *j, lsi_run_config *config)
{
    enum { PIECES = 64, PIECE = 64 };
    int64_t some[PIECES * PIECE];
    const int64_t n = ls_tokens_count(j->tokens);
    const int64_t length = n < PIECE ? n : PIECE;
    for (int64_t i = 0; i < PIECES; i++)
        LS_TRY(ls_tokens_read(j->tokens, (n - length) * i / (PIECES - 1),
                              some + i * length, (size_t)length));
    lsi_run_config_int(config, "tokens of data:", n);
    lsi_run_config_label(config, "number of tokens in the data");
    lsi_run_config_digest(config, "data of sum", some,
                          (size_t)(PIECES * length));
    lsi_run_config_label(config, "checksum of the tokens");
    return LS_OK;
}

/* Digests all tokens, for the audit. */
static ls_status digest_data(const job *j)
{
    enum { PIECE = 1 << 16 };
    int64_t *some;
    ls_status status = LS_OK;
    const int64_t n = ls_tokens_count(j->tokens);
    if (!lsi_audit_is_wanted(j->loop.audit) ||
        ls_group_rank(j->loop.group) != 0)
        return LS_OK;
    LS_TRY(lsi_alloc(&some, PIECE * sizeof(int64_t), LS_MEMORY_DATA,
                     "tokens to digest"));
    for (int64_t i = 0; i < n && status == LS_OK; i += PIECE) {
        const size_t count = (size_t)(n - i < PIECE ? n - i : PIECE);
        status = ls_tokens_read(j->tokens, i, some, count);
        if (status == LS_OK)
            lsi_audit_add_data(j->loop.audit, some, count * sizeof(int64_t));
    }
    lsi_free(some);
    return status;
}

static const char *tokens_name(const job *j)
{
    return lsi_lm_tokens_name(ls_tokens_are_bytes(j->tokens));
}

/* All settings on which the bits, or the lines that are written, depend. */
static ls_status collect_config(const job *j, lsi_run_config *config)
{
    const lsi_lm_options *o = j->options;
    char slices[24];
    lsi_run_config_text(config, "train", "lm");
    lsi_run_config_text(config, "--data",
                        o->data != NULL ? "given" : "built-in");
    lsi_run_config_int(config, "--seed", (int64_t)o->seed);
    LS_TRY(collect_data_config(j, config));
    lsi_run_config_text(
        config, "--tokenizer",
        o->tokenizer != NULL ? lsi_lm_digest_of(o->tokenizer).text : "none");
    lsi_run_config_before(config, "none");
    lsi_run_config_text(config, "--init", o->init != NULL ? "given" : "none");
    collect_model_config(&j->config, config);
    lsi_run_config_int(config, "--context", j->length);
    lsi_run_config_int(config, "--batch-size over all ranks:",
                       o->batch_size * ls_group_size(j->loop.group));
    lsi_run_config_label(config, "batch size over all ranks");
    lsi_run_config_int(config, "--accumulate", j->loop.training.accumulate);
    snprintf(slices, sizeof(slices), "%" PRId64, o->slices);
    lsi_run_config_text(config, "--slices",
                        o->slices > 0 ? slices : "one per rank");
    lsi_run_config_before(config, "one per rank");
    lsi_run_config_real(config, "--dropout-rate", o->dropout);
    lsi_run_config_before(config, "0");
    lsi_run_config_text(config, "--dtype", ls_dtype_name(o->dtype));
    lsi_run_config_text(config, "--bits", lsi_bits_name(ls_bits_in_use()));
    lsi_run_config_before(config, "fast");
    lsi_run_config_int(config, "--validate-every", o->validate_every);
    lsi_run_config_int(config, "--validate-batches", o->validate_batches);
    lsi_recipe_describe(&o->recipe, o->steps, config);
    return LS_OK;
}

/* ---- making the parts ---------------------------------------------------- */

static ls_status encode_text(job *j)
{
    ls_tokens *text = j->tokens;
    j->tokens = NULL;
    const ls_status status =
        lsi_text_to_tokens(&j->tokens, j->options->tokenizer, text);
    ls_tokens_free(&text);
    return status;
}

static ls_status open_tokens(job *j)
{
    const lsi_lm_options *o = j->options;
    if (o->data != NULL)
        LS_TRY(ls_tokens_new(&j->tokens, o->data, o->format));
    else
        LS_TRY(ls_tokens_new_builtin(&j->tokens, BUILT_IN_BYTES, o->seed));
    if (o->tokenizer != NULL && ls_tokens_are_bytes(j->tokens))
        LS_TRY(encode_text(j));
    if (o->not_bytes && ls_tokens_are_bytes(j->tokens))
        return lsi_fail(LS_ERR_FORMAT,
                        "the data ('%s') are text, but the model's tokens are "
                        "not bytes; give a file of tokens (.u16, .u32, .bin), "
                        "or the model's tokenizer with --tokenizer FILE",
                        o->data != NULL ? o->data : "built-in");
    const int64_t n = ls_tokens_count(j->tokens);
    const int64_t length = j->length;
    j->train_end = n - n / VALIDATION_SHARE;
    if (j->train_end > length &&
        (o->validate_every == 0 || n - j->train_end > length))
        return LS_OK;
    return lsi_fail(
        LS_ERR_FORMAT,
        "the data ('%s') have too few tokens: %" PRId64
        " in total, of which %" PRId64 " to train and %" PRId64
        " to validate. A context of %" PRId64 " tokens needs at least %" PRId64
        " tokens for each of the two. Use more data or a shorter context",
        o->data != NULL ? o->data : "built-in", n, j->train_end,
        n - j->train_end, length, length + 1);
}

static ls_status choose_model(job *j)
{
    j->config = j->options->model;
    if (j->options->text_vocabulary && ls_tokens_are_bytes(j->tokens))
        j->config.vocabulary = LSI_BYTE_TOKENS;
    LS_TRY(ls_transformer_check(&j->config));
    return ls_tokens_check(j->tokens, j->config.vocabulary);
}

static ls_status make_batch(job *j)
{
    const int64_t rows = j->options->batch_size, length = j->length;
    const int64_t shape[] = {rows, length}, flat = rows * length;
    LS_TRY(ls_tensor_new(&j->inputs, LS_I64, 2, shape));
    return ls_tensor_new(&j->targets, LS_I64, 1, &flat);
}

/* The given number, or the number that makes up `tokens_per_step` tokens. */
static ls_status count_micro_steps(job *j)
{
    const lsi_lm_options *const o = j->options;
    const int ranks = ls_group_size(j->loop.group);
    const int64_t each = o->batch_size * j->length * ranks;
    const int64_t n = o->tokens_per_step / each;
    j->loop.training.accumulate = o->tokens_per_step > 0 ? n : o->accumulate;
    if (n * each == o->tokens_per_step)
        return LS_OK;
    return lsi_fail(
        LS_ERR_ARGUMENT,
        "--tokens-per-step %" PRId64 " is not a multiple of the %" PRId64
        " tokens of a micro-step (batch size %" PRId64 " x context %" PRId64
        " x %d rank%s). The next multiple is %" PRId64,
        o->tokens_per_step, each, o->batch_size, j->length, ranks,
        ranks == 1 ? "" : "s", each * (n + 1));
}

static ls_status choose_slices(job *j)
{
    const int64_t size = ls_group_size(j->loop.group);
    const int64_t all = j->options->slices > 0 ? j->options->slices : size;
    return lsi_slices_of_rank(j->loop.group, all, j->options->batch_size * size,
                              "sequences", &j->slices);
}

/* Tokens of a step, on all ranks. */
static int64_t step_tokens(const job *j)
{
    return j->targets->count * j->loop.training.accumulate *
           ls_group_size(j->loop.group);
}

static ls_status set_training(job *j)
{
    const lsi_lm_options *o = j->options;
    lsi_training *const t = &j->loop.training;
    *t = (lsi_training){.ddp = o->ddp,
                        .choose_ddp = o->choose_ddp,
                        .recipe = o->recipe,
                        .total_steps = o->steps,
                        .accumulate = j->loop.training.accumulate,
                        .slices = j->slices,
                        .dtype = o->dtype,
                        .step_weight = (double)step_tokens(j),
                        .measures_norm = true,
                        .guess = log((double)j->config.vocabulary)};
    return lsi_lm_count(&j->config, &t->parameters, &t->layers);
}

/* Each rank alone: the data, and the settings that follow from them. */
static ls_status prepare(job *j)
{
    LS_TRY(open_tokens(j));
    LS_TRY(choose_model(j));
    LS_TRY(choose_slices(j));
    LS_TRY(count_micro_steps(j));
    LS_TRY(lsi_transformer_describe(&j->config, &j->shape));
    LS_TRY(lsi_recipe_check(&j->options->recipe));
    lsi_run_config_int(&j->loop.run, "--steps", j->options->steps);
    lsi_run_config_int(&j->loop.run, "--batch-size", j->options->batch_size);
    LS_TRY(collect_config(j, &j->loop.resume.config));
    LS_TRY(digest_data(j));
    LS_TRY(make_batch(j));
    return set_training(j);
}

static ls_status make(void *self, ls_params **out)
{
    job *const j = self;
    const lsi_lm_options *o = j->options;
    LS_TRY(lsi_lm_new_sliced(&j->lm, j->loop.group, &j->config, o->seed,
                             j->slices));
    *out = j->lm.params;
    ls_transformer_set_recompute(j->lm.transformer, o->recompute);
    ls_transformer_set_dropout(j->lm.transformer, o->dropout);
    return LS_OK;
}

static ls_status load(void *self, ls_ddp *ddp)
{
    const job *const j = self;
    const char *const path = j->options->init;
    lsi_weights_file file = {.file = {.fd = -1}};
    ls_status status = LS_OK;
    if (path == NULL)
        return LS_OK;
    if (ddp == NULL)
        return ls_transformer_load(j->lm.transformer, path);
    if (ls_group_rank(j->loop.group) == 0)
        status = lsi_weights_open(j->lm.transformer, path, &file);
    status = lsi_ddp_load(ddp, &file.file, file.weights.views, file.weights.n,
                          status);
    lsi_weights_close(&file);
    return status;
}

static void unmake(void *self)
{
    job *const j = self;
    lsi_lm_free(&j->lm);
}

/* Every rehearsed step uses the batches of the first step. */
static int64_t rehearse(void *self)
{
    job *const j = self;
    j->step = (lsi_lm_step){.step = j->first + 1};
    return INT64_MAX;
}

/* ---- checkpoints --------------------------------------------------------- */

/* The step to go on from. */
static ls_status find_place(job *j)
{
    const ls_checkpoint *const found = j->loop.found;
    const char *const loss = ls_checkpoint_value(found, "loss");
    j->first = ls_checkpoint_step(found);
    j->first_loss = loss != NULL ? strtod(loss, NULL) : 0.0;
    if (j->first <= j->options->steps)
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT,
                    "cannot resume from the checkpoint of step %" PRId64
                    ": this run has --steps %" PRId64 "; use %" PRId64
                    " or more",
                    j->first, j->options->steps, j->first);
}

/* Called before the validation that follows the step. */
static ls_status checkpoint(job *j)
{
    char loss[32];
    snprintf(loss, sizeof(loss), "%.17g", j->step.loss);
    const char *const values[] = {
        "loss",         loss, LSI_TRANSFORMER_KEY, j->shape, LSI_LM_TOKENS_KEY,
        tokens_name(j), NULL};
    return lsi_loop_save(&j->loop, values);
}

/* Steps and validations before the place of a checkpoint. */
static int64_t reported_before(const job *j)
{
    const int64_t every = j->options->validate_every;
    const bool any = every > 0 && j->first > 0;
    return j->first + (any ? 1 + (j->first - 1) / every : 0);
}

/* ---- starting ------------------------------------------------------------ */

static ls_status begin(const job *j)
{
    const int64_t n = ls_tokens_count(j->tokens);
    const lsi_lm_start start = {.model = &j->config,
                                .parameters = ls_params_numel(j->lm.params),
                                .length = j->length,
                                .train_tokens = j->train_end,
                                .val_tokens = n - j->train_end,
                                .step_tokens = step_tokens(j),
                                .step = j->first,
                                .loss = j->first_loss,
                                .told = reported_before(j),
                                .recipe = &j->loop.training.recipe,
                                .choice = &j->loop.choice,
                                .choices = j->loop.choices};
    return j->events->begin(j->events->context, &start);
}

static void release(job *j)
{
    ls_tensor_free(&j->targets);
    ls_tensor_free(&j->inputs);
    ls_tokens_free(&j->tokens);
    free(j->shape);
}

/* ---- steps --------------------------------------------------------------- */

/*
 * Reads the sequences of a micro-step. Those of a step are numbered: first
 * those of all ranks in its first micro-step, then those of its second. Within
 * a micro-step they are dealt to the ranks as ls_tape_samples says. So the
 * sequences do not depend on the number of ranks.
 */
static ls_status read_batch(job *j, uint64_t step, int64_t micro,
                            bool validation)
{
    const int64_t rows = j->options->batch_size;
    const ls_tape_samples samples =
        lsi_samples_of_rank(j->loop.group, rows, j->slices);
    int64_t *const inputs = lsi_tensor_raw(j->inputs);
    int64_t *const targets = lsi_tensor_raw(j->targets);
    ls_token_batch one = {.begin = validation ? j->train_end : 0,
                          .end = validation ? ls_tokens_count(j->tokens)
                                            : j->train_end,
                          .rows = 1,
                          .length = j->length,
                          .seed = j->options->seed,
                          .step = step + (validation ? validation_steps : 0)};
    LS_TRY(ls_tape_set_samples(j->loop.tape, &samples));
    for (int64_t i = 0; i < rows; i++) {
        one.rank =
            (int)(micro * rows * samples.places + ls_tape_sample(&samples, i));
        LS_TRY(ls_tokens_batch(j->tokens, &one, inputs + i * j->length,
                               targets + i * j->length));
    }
    return LS_OK;
}

/* Without data the tape has failed, and backward returns the error. */
static lsi_forward forward(void *self, int64_t micro_step)
{
    job *const j = self;
    const int64_t step = j->step.step - 1;
    ls_tape_set_random(
        j->loop.tape, j->options->seed, 0,
        (uint64_t)(step * j->loop.training.accumulate + micro_step));
    const ls_status read = read_batch(j, (uint64_t)step, micro_step, false);
    if (read != LS_OK)
        lsi_tape_stop(j->loop.tape, read);
    return lsi_lm_forward(&j->lm, j->loop.tape, j->inputs, j->targets);
}

static ls_status add(void *self, const lsi_forward *out)
{
    job *const j = self;
    return lsi_tape_add_loss(j->loop.tape, out->loss, out->weight, j->losses);
}

/* Sequences. */
static int64_t samples(void *self)
{
    const job *const j = self;
    return j->loop.stepper.steps * (step_tokens(j) / j->length);
}

/* A rank that cannot write its output notifies the other ranks. */
static ls_status report_step(job *j)
{
    LSI_SPAN(PHASE, "reporting", 0, 0);
    const lsi_loop *const l = &j->loop;
    lsi_lm_step *const out = &j->step;
    out->lr = l->stepper.lr;
    out->gradient_norm = l->stepper.norm;
    out->loss_scale = l->stepper.loss_scale.scale;
    out->skipped = l->stepper.loss_scale.skipped;
    out->compared = lsi_ddp_compared(l->ddp);
    out->seconds = lsi_clock_seconds() - j->begun;
    return lsi_loop_report(&j->loop, j->events->step(j->events->context, out));
}

/*
 * Divides the sum of all ranks' losses by the number of all their tokens, where
 * all have `own` ones.
 */
static ls_status share_loss(const job *j, ls_status status, int64_t own,
                            double *loss)
{
    LS_TRY(lsi_share_mean(j->loop.group, status, loss, j->loop.agreed));
    *loss /= (double)own;
    return LS_OK;
}

/* The sum over this rank's pieces, which are the same each time. */
static ls_status evaluate(job *j, double *loss)
{
    memset(j->losses, 0, sizeof(j->losses));
    for (int64_t b = 0; b < j->options->validate_batches; b++) {
        LS_TRY(read_batch(j, (uint64_t)b, 0, true));
        const lsi_forward out =
            lsi_lm_forward(&j->lm, j->loop.tape, j->inputs, j->targets);
        LS_TRY(ls_tape_status(j->loop.tape));
        LS_TRY(
            lsi_tape_add_loss(j->loop.tape, out.loss, out.weight, j->losses));
        ls_tape_reset(j->loop.tape);
    }
    *loss = lsi_slices_fold(j->losses, j->slices);
    return LS_OK;
}

static bool validates_after(const lsi_lm_options *o, int64_t steps)
{
    return o->validate_every > 0 &&
           (steps % o->validate_every == 0 || steps == o->steps);
}

static ls_status validate(job *j, int64_t steps)
{
    lsi_loop *const l = &j->loop;
    double loss = 0.0;
    LS_TRY(lsi_stepper_swap_averages(&l->stepper));
    ls_tape_set_training(l->tape, false);
    const ls_status own = evaluate(j, &loss);
    ls_tape_set_training(l->tape, true);
    LS_TRY(share_loss(j, own, j->targets->count * j->options->validate_batches,
                      &loss));
    LS_TRY(lsi_stepper_swap_averages(&l->stepper));
    const ls_status status = lsi_loop_check_validation(l, loss);
    return lsi_loop_report(
        l, status != LS_OK
               ? status
               : j->events->validation(j->events->context, steps, loss));
}

static ls_status step(job *j)
{
    lsi_loop *const l = &j->loop;
    j->step = (lsi_lm_step){.step = l->stepper.steps + 1};
    j->begun = lsi_clock_seconds();
    memset(j->losses, 0, sizeof(j->losses));
    LS_TRY(lsi_loop_gradients(l, j->loop.training.accumulate));
    j->step.loss = lsi_slices_fold(j->losses, j->slices);
    LS_TRY(share_loss(j, LS_OK, j->targets->count * l->training.accumulate,
                      &j->step.loss));
    LS_TRY(lsi_loop_update(l));
    LS_TRY(report_step(j));
    if (lsi_loop_is_due(l))
        LS_TRY(checkpoint(j));
    lsi_loop_end_step(l);
    return LS_OK;
}

/* ---- the job ------------------------------------------------------------- */

/* A folder has the layout of other programs, too; one file has our format. */
static ls_status write(const job *j, const char *path,
                       const char *const *metadata)
{
    lsi_keep *const keep = j->options->keep;
    const lsi_lm_tokens tokens = {.tokenizer = j->options->tokenizer,
                                  .bytes = ls_tokens_are_bytes(j->tokens)};
    if (keep->file != NULL)
        return ls_transformer_save(j->lm.transformer, path, metadata);
    if (tokens.tokenizer == NULL && !tokens.bytes)
        keep->note =
            "without a tokenizer, because the data were already tokens";
    return lsi_lm_save_folder(&j->lm, keep->place.text, &tokens, metadata);
}

static ls_status save(void *self, const char *path)
{
    const job *const j = self;
    char steps[24], seed[24];
    snprintf(steps, sizeof(steps), "%" PRId64, j->loop.stepper.steps);
    snprintf(seed, sizeof(seed), "%" PRIu64, j->options->seed);
    const char *metadata[8 + sizeof(j->kept.pairs) / sizeof(char *)] = {
        "lockstep", ls_version_string(), "steps",       steps, "seed",
        seed,       LSI_LM_TOKENS_KEY,   tokens_name(j)};
    memcpy(metadata + 8, j->kept.pairs, sizeof(j->kept.pairs));
    return write(j, path, metadata);
}

static ls_status steps(job *j)
{
    lsi_loop *const l = &j->loop;
    while (!lsi_loop_is_ending(l)) {
        const int64_t done = l->stepper.steps;
        if (validates_after(j->options, done))
            LS_TRY(validate(j, done));
        if (done == j->options->steps)
            return LS_OK;
        LS_TRY(step(j));
    }
    return LS_OK;
}

static ls_status train(job *j)
{
    lsi_loop *const l = &j->loop;
    LS_TRY(lsi_loop_agree(l, prepare(j)));
    LS_TRY(lsi_loop_plan(l));
    if (l->found != NULL)
        LS_TRY(lsi_loop_share(l, find_place(j)));
    LS_TRY(lsi_loop_make(l));
    LS_TRY(lsi_loop_share(l, begin(j)));
    LS_TRY(lsi_loop_open(l));
    LS_TRY(steps(j));
    return lsi_loop_finish(l);
}

ls_status lsi_train_lm(ls_group *group, const lsi_lm_options *options,
                       const lsi_lm_events *events, bool *agreed)
{
    static const lsi_train_job lm = {.make = make,
                                     .load = load,
                                     .unmake = unmake,
                                     .rehearse = rehearse,
                                     .forward = forward,
                                     .add = add,
                                     .samples = samples,
                                     .save = save};
    job j = {.options = options,
             .events = events,
             .length = options->length > 0 ? options->length
                                           : options->model.context};
    lsi_lm_keep(&j.kept, options->tokenizer);
    if (j.kept.pairs[0] != NULL && j.kept.pairs[2] == NULL &&
        ls_group_rank(group) == 0)
        lsi_log(
            LS_LOG_WARN,
            "tokenizer.json is larger than 40 MB, so the model file does not "
            "include it; `generate` and `eval lm` will need --tokenizer FILE");
    j.loop = lsi_loop_of(group, &lm, &j, &options->resume, agreed);
    j.loop.resume.metadata = j.kept.pairs;
    j.loop.keep = options->keep;
    j.loop.audit = options->audit;
    if (j.loop.keep != NULL && options->tokenizer != NULL)
        j.loop.keep->others = options->tokenizer->source.n;
    j.loop.on_saved = events->saved;
    j.loop.context = events->context;
    *agreed = false;
    const ls_status status = train(&j);
    lsi_loop_close(&j.loop);
    release(&j);
    return status;
}
