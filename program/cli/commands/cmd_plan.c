/* lockstep plan: time and memory of training, by calculation. */
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "base/error.h"
#include "cli/commands/ddp_flags.h"
#include "cli/commands/kept_peaks.h"
#include "cli/commands/plan_facts.h"
#include "cli/commands/plan_training.h"
#include "cli/frame/command.h"
#include "model/nets/lm.h"
#include "plan/communication.h"
#include "plan/sharding.h"
#include "report/paragraph.h"
#include "report/result.h"
#include "report/table.h"

typedef struct args {
    const char *preset;
    lsi_plan_flags run; /* of presets, too, as far as they have a meaning */
    int64_t tokens, data_ranks, tensor_ranks, data_links, tensor_links;
    double sharded_gb;
} args;

#define ROW(...) LSI_OPTION(args, __VA_ARGS__)
#define COUNT(field_, name_, help_)                                            \
    ROW(field_, INT, name_, 0, "N", NULL, help_, .min = 1, .max = 1e15)
#define AMOUNT(field_, name_, value_, help_)                                   \
    ROW(field_, REAL, name_, 0, value_, NULL, help_, .min = 1e-9, .max = 1e15)
static const lsi_option options[] = {
    ROW(preset, CHOICE, "preset", 0, "NAME", NULL,
        "calculate an exercise instead of planning a --size "
        "(communication-accounting: memory of a large model of linear layers, "
        "and the smallest batch for which links do not limit a step; "
        "sharding-accounting: memory of a rank at three moments, with and "
        "without sharded optimizer state)",
        .choices = "communication-accounting|sharding-accounting"),
    ROW(run.model, STRING, "size", 0, "NAME", NULL,
        "size of the language model; all: memory of every size on one rank "
        "(default with --preset sharding-accounting: xl)"),
    ROW(run.ranks, INT, "ranks", 'n', "N", NULL,
        "number of ranks (default: 1; with --preset sharding-accounting: 2)",
        .min = 1, .max = 1 << 20),
    ROW(run.nodes, INT, "nodes", 0, "N", NULL,
        "number of nodes; each runs the same number of ranks (default: 1)",
        .min = 1, .max = 1 << 20),
    ROW(run.ranks_per_node, INT, "ranks-per-node", 0, "N", NULL,
        "ranks per node in a --sweep (default: number of CPUs of this machine)",
        .min = 1, .max = 1 << 20),
    ROW(run.sweep, STRING, "sweep", 0, "ranks=A..B", NULL,
        "print a row for A ranks, for 2A, 4A and so on up to B; or for each "
        "number in a list, such as ranks=1,2,6"),
    ROW(run.calibrate, BOOL, "calibrate", 0, NULL, NULL,
        "first measure steps of the model and an all-reduce on this machine, "
        "with the ranks of one node"),
    ROW(run.verify, BOOL, "verify", 0, NULL, NULL,
        "predict time and memory of steps on 1, 2 and 4 ranks with three "
        "strategies, run these steps on this machine, and print the errors; "
        "takes some minutes (default sizes: tiny and small)"),
    ROW(run.force, BOOL, "force", 0, NULL, NULL,
        "measure even if other processes use more than a quarter of the CPUs. "
        "Later plans use these rates only if they also give --force"),
    ROW(run.strategy, STRING, "strategy", 0, "NAME", NULL,
        "how gradients are exchanged (default: flat); shared keeps one copy of "
        "the weights per node, fsdp divides one over all nodes "
        "(docs/concepts/parallel.md)"),
    ROW(run.bucket_mb, REAL, "bucket-mb", 0, "X", NULL,
        "largest amount of gradients per collective, in MB (default: all "
        "gradients at once)",
        .min = 1e-6, .max = 1e9),
    LSI_PREFETCH_LAYERS_ROW(run.prefetch_layers),
    LSI_SHARD_OVER_ROW(run.shard_over),
    ROW(run.dtype, DTYPE, "dtype", 0, "TYPE", NULL,
        "data type of the inputs of matrix products (default: f32)",
        .choices = "f32|bf16|f16"),
    ROW(run.batch, INT, "batch-size", 'b', "N", NULL,
        "sequences per rank (default: 4)", .min = 1, .max = 1 << 20),
    ROW(run.context, INT, "context", 'c', "N", NULL,
        "tokens per sequence (default: 128)", .min = 1, .max = 1 << 20),
    ROW(run.recompute, BOOL, "activation-checkpointing", 0, NULL, NULL,
        "recompute blocks in backward instead of keeping their activations"),
    ROW(run.slices, INT, "slices", 0, "N", NULL,
        "number of slices of the global batch; each slice of a rank but the "
        "first needs memory for its gradients (default: one per rank)",
        .min = 1, .max = 65536),
    COUNT(run.layers, "layers",
          "number of blocks (default: from --size; with --preset "
          "communication-accounting: 126, each with two linear layers)"),
    COUNT(run.d_model, "d-model",
          "width of the model (default: from --size; with --preset "
          "communication-accounting: 16384)"),
    COUNT(run.d_ff, "d-ff",
          "width of the feed-forward layers (default: from --size; with "
          "--preset communication-accounting: 53248)"),
    COUNT(run.heads, "heads", "attention heads (default: from --size)"),
    COUNT(run.vocabulary, "vocab-size",
          "vocabulary size (default: from --size)"),
    AMOUNT(run.device_gb, "device-gb", "GB",
           "memory of a node in GB (default: 90% of the memory available on "
           "this machine). With --preset communication-accounting: memory of a "
           "device when nothing is sharded (default: 80)"),
    AMOUNT(run.tflops, "tflops", "N",
           "compute rate of a rank in TFLOP/s (default: measured on this "
           "machine; with --preset communication-accounting: 460)"),
    AMOUNT(run.device_gbps, "device-gbps", "GB/S",
           "memory bandwidth of a rank in GB/s; needed with --tflops"),
    AMOUNT(run.link_gbps, "link-gbps", "GB/S",
           "bandwidth of a node's link in each direction, in GB/s (default: "
           "1.25). With --preset communication-accounting: bandwidth of both "
           "directions together (default: 180)"),
    AMOUNT(run.link_us, "link-us", "US",
           "latency of a message between nodes, in us (default: 20)"),
    COUNT(tokens, "tokens",
          "communication-accounting: number of tokens whose activations are "
          "kept (default: 0)"),
    AMOUNT(sharded_gb, "sharded-gb", "GB",
           "communication-accounting: memory of a device in GB when everything "
           "is sharded (default: 95)"),
    COUNT(data_ranks, "data-ranks",
          "communication-accounting: number of ranks that divide the batch and "
          "the weights (default: 16)"),
    COUNT(tensor_ranks, "tensor-ranks",
          "communication-accounting: number of ranks that divide each layer "
          "(default: 4)"),
    COUNT(data_links, "data-links",
          "communication-accounting: number of link axes between the ranks of "
          "--data-ranks (default: 2)"),
    COUNT(tensor_links, "tensor-links",
          "communication-accounting: number of link axes between the ranks of "
          "--tensor-ranks (default: 1)"),
    LSI_JSON_ROW(run.json),
    LSI_MARKDOWN_ROW(run.markdown),
};

/* ---- communication ------------------------------------------------------- */

static void set(double *field, double value)
{
    if (value != 0)
        *field = value;
}

static lsi_communication_plan plan_of(const args *a)
{
    lsi_communication_plan p = lsi_communication_defaults();
    set(&p.d_model, (double)a->run.d_model);
    set(&p.d_ff, (double)a->run.d_ff);
    set(&p.blocks, (double)a->run.layers);
    set(&p.tokens, (double)a->tokens);
    set(&p.device_bytes, a->run.device_gb * 1e9);
    set(&p.sharded_bytes, a->sharded_gb * 1e9);
    set(&p.flops, a->run.tflops * 1e12);
    set(&p.link_bytes, a->run.link_gbps * 1e9);
    set(&p.data_ranks, (double)a->data_ranks);
    set(&p.tensor_ranks, (double)a->tensor_ranks);
    set(&p.data_links, (double)a->data_links);
    set(&p.tensor_links, (double)a->tensor_links);
    return p;
}

/* d: what makes a smaller batch do; none of it is calculated but the first. */
static const char *const smaller_batches[] = {
    "other numbers of data and tensor ranks, for which the ranks wait least",
    "more links, or more link axes, for data or tensor parallelism",
    "pipeline parallelism with micro-batches",
    "collectives that send fewer bytes or overlap with matrix products",
    "activations that are also sharded along the sequence",
    "hierarchical data parallelism: first within each node, then between nodes",
};

static ls_status print_communication(const lsi_facts *facts)
{
    LS_TRY(lsi_plan_print_facts(facts));
    printf("\nPart d: ways to train with a smaller batch\n");
    const size_t n = sizeof(smaller_batches) / sizeof(smaller_batches[0]);
    for (size_t i = 0; i < n; i++)
        lsi_paragraph(stdout, "- %s", smaller_batches[i]);
    return LS_OK;
}

static json_t *communication_json(const lsi_facts *facts)
{
    json_t *values = lsi_plan_facts_json(facts);
    json_t *options_d = json_array();
    const size_t n = sizeof(smaller_batches) / sizeof(smaller_batches[0]);
    for (size_t i = 0; i < n; i++)
        json_array_append_new(options_d, json_string(smaller_batches[i]));
    json_object_set_new(values, "smaller_batch_options", options_d);
    return values;
}

/* ---- sharding ------------------------------------------------------------ */

static const lsi_column byte_columns[] = {
    LSI_COLUMN(TEXT, "sharding", "Sharding"),
    LSI_COLUMN(TEXT, "moment", "Moment"),
    LSI_COLUMN(INT, "parameters", "Parameters"),
    LSI_COLUMN(INT, "gradients", "Gradients"),
    LSI_COLUMN(INT, "state", "State"),
    LSI_COLUMN(INT, "total", "Total"),
    LSI_COLUMN(REAL, "gib", "Total", .unit = "GiB", .decimals = 2),
};

static ls_status print_sharding(const lsi_state_plan *plan, const char *model)
{
    lsi_table *table = NULL;
    LS_TRY(LSI_TABLE_NEW(&table, byte_columns));
    for (int i = 0; i < LSI_STATE_PLAN_WAYS * LSI_STATE_PLAN_MOMENTS; i++) {
        const int way = i / LSI_STATE_PLAN_MOMENTS;
        const int moment = i % LSI_STATE_PLAN_MOMENTS;
        const lsi_state_plan_bytes *const b = &plan->bytes[way][moment];
        lsi_table_row(table);
        lsi_table_text(table, "sharding", lsi_state_plan_way_names[way]);
        lsi_table_text(table, "moment", lsi_state_plan_moment_names[moment]);
        lsi_table_int(table, "parameters", b->parameters);
        lsi_table_int(table, "gradients", b->gradients);
        lsi_table_int(table, "state", b->state);
        lsi_table_int(table, "total", b->total);
        lsi_table_real(table, "gib", (double)b->total / 0x1p30);
    }
    lsi_paragraph(
        stdout,
        "%s: %" PRId64
        " parameters, f32, AdamW, %d rank%s; the table shows bytes per rank, "
        "without activations\n",
        model, plan->parameters, plan->ranks, plan->ranks == 1 ? "" : "s");
    const ls_status status = lsi_table_print(table, stdout);
    lsi_table_free(&table);
    LS_TRY(status);
    lsi_paragraph(stdout,
                  "\nValues that each rank sends per step, as a multiple of "
                  "the number of parameters (for a large number of ranks):");
    lsi_paragraph(stdout, "- none: %d, for an all-reduce of the gradients",
                  plan->traffic[LSI_STATE_PLAN_NONE]);
    lsi_paragraph(stdout,
                  "- state: %d, for an all-reduce of the gradients and a "
                  "broadcast of each weight from its owner",
                  plan->traffic[LSI_STATE_PLAN_STATE]);
    lsi_paragraph(
        stdout,
        "- zero1: %d, for a reduce-scatter and an all-gather; the ranks own "
        "parts of equal size, whatever the sizes of the tensors",
        plan->traffic[LSI_STATE_PLAN_ZERO1]);
    return LS_OK;
}

static json_t *sharding_json(const lsi_state_plan *plan, const char *model)
{
    json_t *rows = json_array();
    for (int i = 0; i < LSI_STATE_PLAN_WAYS * LSI_STATE_PLAN_MOMENTS; i++) {
        const int way = i / LSI_STATE_PLAN_MOMENTS;
        const int moment = i % LSI_STATE_PLAN_MOMENTS;
        const lsi_state_plan_bytes *const b = &plan->bytes[way][moment];
        json_array_append_new(
            rows, json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:i}", "sharding",
                            lsi_state_plan_way_names[way], "moment",
                            lsi_state_plan_moment_names[moment], "parameters",
                            (json_int_t)b->parameters, "gradients",
                            (json_int_t)b->gradients, "state",
                            (json_int_t)b->state, "total", (json_int_t)b->total,
                            "traffic", plan->traffic[way]));
    }
    return json_pack("{s:s, s:I, s:i, s:o}", "model", model, "parameters",
                     (json_int_t)plan->parameters, "ranks", plan->ranks, "rows",
                     rows);
}

/* ---- the command --------------------------------------------------------- */

static bool prints(const args *a)
{
    return !lsi_result_is_stdout(a->run.json);
}

static ls_status account_communication(const lsi_invocation *call,
                                       const args *a)
{
    const lsi_communication_plan plan = plan_of(a);
    lsi_facts facts;
    LS_TRY(lsi_communication_account(&plan, &facts));
    if (prints(a))
        LS_TRY(print_communication(&facts));
    return a->run.json != NULL ? lsi_plan_write(call, a->run.json, a->preset,
                                                communication_json(&facts))
                               : LS_OK;
}

static ls_status account_sharding(const lsi_invocation *call, const args *a)
{
    const char *const model = a->run.model != NULL ? a->run.model : "xl";
    ls_transformer_config config = LS_TRANSFORMER_CONFIG_INIT;
    lsi_state_plan plan;
    int64_t parameters;
    LS_TRY(ls_transformer_size(model, &config));
    LS_TRY(lsi_lm_count(&config, &parameters, NULL));
    LS_TRY(lsi_state_plan_fill(
        parameters, a->run.ranks > 0 ? (int)a->run.ranks : 2, &plan));
    if (prints(a))
        LS_TRY(print_sharding(&plan, model));
    return a->run.json != NULL ? lsi_plan_write(call, a->run.json, a->preset,
                                                sharding_json(&plan, model))
                               : LS_OK;
}

/* Kinds of plans, as bits: a flag may have a meaning for several. */
enum { COMMUNICATION = 1, SHARDING = 2, TRAINING = 4 };

enum { USUAL_AHEAD = 2 }; /* default of --prefetch-layers */

/* The flag that has no meaning for the kind; NULL: all have one. */
static const char *stray_flag(const args *a, unsigned what)
{
    const lsi_plan_flags *const r = &a->run;
    const struct {
        const char *name;
        bool given;
        unsigned of;
    } all[] = {
        {"--size", r->model != NULL, SHARDING | TRAINING},
        {"--ranks", r->ranks != 0, SHARDING | TRAINING},
        {"--nodes", r->nodes != 0, TRAINING},
        {"--ranks-per-node", r->ranks_per_node != 0, TRAINING},
        {"--sweep", r->sweep != NULL, TRAINING},
        {"--calibrate", r->calibrate, TRAINING},
        {"--verify", r->verify, TRAINING},
        {"--force", r->force, TRAINING},
        {"--strategy", r->strategy != NULL, TRAINING},
        {"--bucket-mb", r->bucket_mb != 0, TRAINING},
        {"--prefetch-layers", r->prefetch_layers != USUAL_AHEAD, TRAINING},
        {"--shard-over", r->shard_over != NULL, TRAINING},
        {"--dtype", r->dtype != NULL, TRAINING},
        {"--batch-size", r->batch != 0, TRAINING},
        {"--context", r->context != 0, TRAINING},
        {"--activation-checkpointing", r->recompute, TRAINING},
        {"--slices", r->slices != 0, TRAINING},
        {"--layers", r->layers != 0, COMMUNICATION | TRAINING},
        {"--d-model", r->d_model != 0, COMMUNICATION | TRAINING},
        {"--d-ff", r->d_ff != 0, COMMUNICATION | TRAINING},
        {"--heads", r->heads != 0, TRAINING},
        {"--vocab-size", r->vocabulary != 0, TRAINING},
        {"--device-gb", r->device_gb != 0, COMMUNICATION | TRAINING},
        {"--tflops", r->tflops != 0, COMMUNICATION | TRAINING},
        {"--device-gbps", r->device_gbps != 0, TRAINING},
        {"--link-gbps", r->link_gbps != 0, COMMUNICATION | TRAINING},
        {"--link-us", r->link_us != 0, TRAINING},
        {"--tokens", a->tokens != 0, COMMUNICATION},
        {"--sharded-gb", a->sharded_gb != 0, COMMUNICATION},
        {"--data-ranks", a->data_ranks != 0, COMMUNICATION},
        {"--tensor-ranks", a->tensor_ranks != 0, COMMUNICATION},
        {"--data-links", a->data_links != 0, COMMUNICATION},
        {"--tensor-links", a->tensor_links != 0, COMMUNICATION},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i].given && (all[i].of & what) == 0)
            return all[i].name;
    return NULL;
}

static unsigned what_of(const args *a)
{
    if (a->preset == NULL)
        return TRAINING;
    return strcmp(a->preset, "sharding-accounting") == 0 ? SHARDING
                                                         : COMMUNICATION;
}

/* The error of flags that exclude each other; NULL: they are compatible. */
static const char *contradiction(const lsi_plan_flags *r)
{
    const bool all = r->model != NULL && strcmp(r->model, "all") == 0;
    const bool changed = r->layers != 0 || r->d_model != 0 || r->d_ff != 0 ||
                         r->heads != 0 || r->vocabulary != 0;
    if ((r->tflops != 0) != (r->device_gbps != 0))
        return "--tflops and --device-gbps must be given together";
    if (r->tflops != 0 && (r->calibrate || r->verify))
        return "--tflops describes another machine, but --calibrate and "
               "--verify measure this one; leave --tflops out, or leave "
               "--calibrate and --verify out";
    if (changed && r->verify)
        return "--verify measures named sizes only; leave out --layers, "
               "--d-model, --d-ff, --heads and --vocab-size";
    if (r->recompute && (r->calibrate || r->verify))
        return "--calibrate and --verify cannot measure "
               "--activation-checkpointing; leave --activation-checkpointing "
               "out";
    if (r->slices != 0 && (r->calibrate || r->verify))
        return "--calibrate and --verify cannot measure --slices; leave "
               "--slices out";
    if (r->force && (r->tflops != 0 || all))
        return "--force applies only to measurements, but with --tflops or "
               "--size all nothing is measured; leave --force out";
    if (r->sweep != NULL && (r->ranks != 0 || r->nodes != 0))
        return "--sweep sets the ranks; leave --ranks and --nodes out";
    if (r->ranks_per_node != 0 && r->sweep == NULL)
        return "--ranks-per-node needs --sweep; without a sweep, give --nodes";
    if (r->verify && (r->sweep != NULL || r->ranks != 0 || r->nodes != 0 ||
                      r->strategy != NULL))
        return "--verify chooses ranks and strategies itself; leave out "
               "--sweep, --ranks, --nodes and --strategy";
    if (all && (r->sweep != NULL || r->calibrate || r->verify))
        return "--size all calculates only memory, but --sweep, --calibrate "
               "and --verify also need times; give one size";
    return NULL;
}

static ls_status account(const lsi_invocation *call, const args *a,
                         unsigned what)
{
    if (what == TRAINING)
        return lsi_plan_training(call, &a->run);
    return what == SHARDING ? account_sharding(call, a)
                            : account_communication(call, a);
}

static int run_plan(const lsi_invocation *call)
{
    args a;
    int status;
    if (!lsi_cli_parse(call, &a, NULL, &status))
        return status;
    if (a.preset == NULL && a.run.model == NULL && !a.run.verify)
        return lsi_cli_usage(
            "choose what to calculate: --size NAME, --size all, --preset "
            "communication-accounting or --preset sharding-accounting");
    const unsigned what = what_of(&a);
    const char *const stray = stray_flag(&a, what);
    if (stray != NULL && a.preset != NULL)
        return lsi_cli_usage("%s cannot be used with --preset %s; leave %s out",
                             stray, a.preset, stray);
    if (stray != NULL)
        return lsi_cli_usage("%s can only be used with --preset "
                             "communication-accounting; leave %s out",
                             stray, stray);
    const char *const wrong = what == TRAINING ? contradiction(&a.run) : NULL;
    if (wrong != NULL)
        return lsi_cli_usage("%s", wrong);
    if (lsi_result_check(a.run.json) != LS_OK)
        return lsi_cli_error();
    const ls_status made = account(call, &a, what);
    if (made == LS_ERR_ARGUMENT)
        return lsi_cli_usage("%s", ls_last_error());
    return made == LS_OK ? 0 : lsi_cli_error();
}

const lsi_command lsi_command_plan = {
    .name = "plan",
    .summary = "Calculate the time and memory of training",
    .text =
        "Prints numbers with their formulas (docs/how-to/plan.md). Nothing is "
        "trained, so a plan may describe any number of parameters, and more "
        "ranks than this machine can run. Only --calibrate and --verify run "
        "steps. Without these flags, and without --tflops, times follow from "
        "the peak rates of this machine. Lockstep measures these rates with N "
        "threads, one per CPU, and saves them for 30 days "
        "in " LSI_KEPT_PEAKS_HELP
        ". If the kernel or the set of CPUs changes, the rates are measured "
        "again.",
    LSI_COMMAND_OPTIONS(options),
    .run = run_plan,
};
