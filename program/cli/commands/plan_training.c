#include "cli/commands/plan_training.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpus.h"
#include "base/error.h"
#include "base/meminfo.h"
#include "cli/commands/ddp_flags.h"
#include "cli/commands/machine_peaks.h"
#include "cli/commands/plan_facts.h"
#include "cli/commands/plan_measure.h"
#include "cli/commands/plan_verify.h"
#include "cli/frame/list.h"
#include "cli/frame/lm_flags.h"
#include "lockstep/transformer.h"
#include "model/nn/transformer_lists.h"
#include "plan/model.h"
#include "plan/training.h"
#include "report/paragraph.h"
#include "report/result.h"
#include "report/table.h"

enum { USUAL_BATCH = 4, MOST_RANKS = 1 << 20 };

/* ---- the run ------------------------------------------------------------- */

static ls_status shape_of(const lsi_plan_flags *f, const char *name,
                          ls_transformer_config *out)
{
    const lsi_lm_shape_flags flags = {.size = name,
                                      .rope = "pairs",
                                      .attention = "flash",
                                      .norm_eps = 1e-5,
                                      .layers = f->layers,
                                      .d_model = f->d_model,
                                      .heads = f->heads,
                                      .d_ff = f->d_ff,
                                      .vocabulary = f->vocabulary,
                                      .context = f->context};
    return lsi_cli_lm_shape(&flags, out);
}

/* The name of the plan's model. */
static const char *name_of(const lsi_plan_flags *f, char out[LSI_LM_NAME_BYTES])
{
    ls_transformer_config config;
    if (shape_of(f, f->model, &config) == LS_OK)
        lsi_cli_lm_name(f->model, &config, out);
    else
        snprintf(out, LSI_LM_NAME_BYTES, "%s", f->model);
    return out;
}

static ls_status run_of(const lsi_plan_flags *f, const lsi_plan_model *model,
                        lsi_plan_run *out)
{
    const lsi_ddp_flags flags = {.strategy = f->strategy,
                                 .bucket_mb = f->bucket_mb,
                                 .shard_over = f->shard_over};
    ls_ddp_options how;
    LS_TRY(lsi_cli_ddp_parse(&flags, &how));
    *out = (lsi_plan_run){
        .model = model,
        .batch = f->batch > 0 ? f->batch : USUAL_BATCH,
        .context = f->context > 0 ? f->context : LSI_LM_USUAL_CONTEXT,
        .half = f->dtype != NULL && strcmp(f->dtype, "f32") != 0,
        .recompute = f->recompute,
        .slices = f->slices,
        .ahead = (size_t)f->prefetch_layers,
        .ranks = f->ranks > 0 ? f->ranks : 1,
        .nodes = f->nodes > 0 ? f->nodes : 1,
        .shard_over = (int64_t)how.shard_over,
    };
    LS_TRY(
        lsi_strategy_of(&how, out->nodes, &out->strategy, &out->bucket_bytes));
    return lsi_plan_check(out);
}

static double memory_of(const lsi_plan_flags *f)
{
    if (f->device_gb > 0)
        return f->device_gb * 1e9;
    const int64_t available = lsi_memory_available();
    return available < 0 ? -1 : 0.9 * (double)available;
}

/* ---- how long a step takes ----------------------------------------------- */

/*
 * Defaults: a network of 10 Gbit/s, and the time of meetings on this machine.
 */
static const double usual_link = 1.25e9, usual_latency = 20e-6;
static const double usual_meeting = 5e-6, crowded_meeting = 50e-6;
static const double usual_page = 3e-6; /* of virtual CPUs of an Intel Xeon */

static const char *dtype_of(const lsi_plan_flags *f)
{
    return f->dtype != NULL ? f->dtype : "f32";
}

static ls_status measure(const lsi_plan_flags *f, const lsi_plan_run *run,
                         lsi_plan_known *out)
{
    const int64_t here = run->ranks / run->nodes;
    const lsi_plan_case c = {.model = f->model,
                             .layers = f->layers,
                             .d_model = f->d_model,
                             .heads = f->heads,
                             .d_ff = f->d_ff,
                             .vocabulary = f->vocabulary,
                             .dtype = dtype_of(f),
                             .batch = run->batch,
                             .context = run->context,
                             .ranks = (int)here};
    if (out->here == here)
        return LS_OK;
    if (here > LSI_PLAN_MOST_MEASURED)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "--calibrate can measure at most %d ranks per node, not %" PRId64
            "; give --nodes or --ranks-per-node",
            LSI_PLAN_MOST_MEASURED, here);
    const double gradients = sizeof(float) * (double)run->model->parameters;
    LS_TRY(lsi_plan_measure_compute(&c, gradients, &out->compute));
    LS_TRY(lsi_plan_measure_meeting((int)here, gradients, &out->meeting,
                                    &out->memory));
    out->here = here;
    return LS_OK;
}

static bool uses_rates(const lsi_plan_flags *f)
{
    return !f->calibrate && f->tflops == 0;
}

static ls_status find_rates(const lsi_plan_flags *f, lsi_machine_rates *rates)
{
    const lsi_rates_wanted wanted = {.threads = lsi_cpus_available(),
                                     .force = f->force};
    bool refused;
    if (rates->threads != 0)
        return LS_OK;
    const ls_status status = lsi_machine_peaks(&wanted, rates, &refused);
    return refused
               ? lsi_fail(
                     status,
                     "%s, or give the rates with --tflops and --device-gbps",
                     ls_last_error())
               : status;
}

/* By the rates of a device as given, or of this machine, which ranks share. */
static ls_status device_of(const lsi_plan_flags *f, const lsi_plan_run *run,
                           lsi_plan_known *known, lsi_plan_device *out)
{
    const int64_t on_a_node = run->ranks / run->nodes;
    const double here = (double)on_a_node;
    const lsi_profile_peaks *const peaks = &known->rates.found.peaks;
    if (!uses_rates(f)) {
        *out = (lsi_plan_device){f->tflops * 1e12, f->device_gbps * 1e9};
        return LS_OK;
    }
    LS_TRY(find_rates(f, &known->rates));
    *out = (lsi_plan_device){(run->half ? peaks->bf16 : peaks->f32) / here,
                             peaks->bytes / here};
    return LS_OK;
}

/* Finds the cost of a page; a device given by flags has a usual cost. */
static ls_status find_page(const lsi_plan_flags *f, lsi_plan_place *place,
                           lsi_plan_known *measured)
{
    if (f->tflops == 0 && measured->page == 0)
        LS_TRY(lsi_plan_measure_page(&measured->page));
    place->page = f->tflops > 0 ? usual_page : measured->page;
    return LS_OK;
}

static ls_status add_times(const lsi_plan_flags *f, lsi_trained_plan *plan,
                           lsi_plan_known *measured)
{
    const lsi_plan_run *const run = &plan->run;
    const int64_t here = run->ranks / run->nodes;
    lsi_plan_device device;
    plan->timed = true;
    plan->place = (lsi_plan_place){
        .nodes = run->nodes,
        .here = here,
        .link = {f->link_gbps > 0 ? f->link_gbps * 1e9 : usual_link,
                 f->link_us > 0 ? f->link_us * 1e-6 : usual_latency},
        .meeting =
            here > lsi_cpus_available() ? crowded_meeting : usual_meeting,
        .rails = lsi_plan_steps_of((int)run->nodes)};
    if (run->strategy->share == LSI_SHARE_ALL && run->ranks > 1)
        LS_TRY(find_page(f, &plan->place, measured));
    if (f->calibrate) {
        LS_TRY(measure(f, run, measured));
        plan->compute = measured->compute;
        plan->place.meeting = measured->meeting;
        plan->place.memory = measured->memory;
        return LS_OK;
    }
    LS_TRY(device_of(f, run, measured, &device));
    plan->compute =
        lsi_plan_compute_of(run, device, lsi_plan_memory_of(run).activations);
    plan->place.memory = device.memory;
    return LS_OK;
}

/* ---- one model ----------------------------------------------------------- */

static void print_head(const lsi_plan_flags *f, const lsi_plan_run *run)
{
    char name[LSI_LM_NAME_BYTES];
    lsi_paragraph(stdout,
                  "%s: %" PRId64 " parameters, %s, AdamW, strategy %s; bytes "
                  "are per rank, times follow from %s",
                  name_of(f, name), run->model->parameters, dtype_of(f),
                  ls_ddp_strategy_name(run->strategy->id),
                  f->calibrate ? "measurements of this model on this machine"
                  : f->tflops > 0
                      ? "the rates of --tflops and --device-gbps"
                      : "the peak rates of this machine (use --calibrate to "
                        "measure the model instead)");
}

static json_t *rates_json(const lsi_plan_flags *f, const lsi_plan_known *known)
{
    return uses_rates(f) ? lsi_machine_rates_json(&known->rates) : json_null();
}

static json_t *plan_json(const lsi_plan_flags *f, const lsi_plan_run *run,
                         const lsi_facts *facts)
{
    json_t *const json = lsi_plan_facts_json(facts);
    char name[LSI_LM_NAME_BYTES];
    const double bucket = (double)run->bucket_bytes;
    json_object_set_new(json, "model", json_string(name_of(f, name)));
    json_object_set_new(json, "strategy",
                        json_string(ls_ddp_strategy_name(run->strategy->id)));
    json_object_set_new(json, "dtype", json_string(dtype_of(f)));
    json_object_set_new(json, "recompute", json_boolean(run->recompute));
    json_object_set_new(json, "calibrated", json_boolean(f->calibrate));
    json_object_set_new(json, "bucket_mb",
                        f->bucket_mb > 0 ? json_real(bucket / 1e6)
                                         : json_null());
    return json;
}

static ls_status plan_one(const lsi_invocation *call, const lsi_plan_flags *f,
                          const lsi_plan_model *model)
{
    lsi_trained_plan plan = {.device_bytes = memory_of(f)};
    lsi_plan_known measured = {.here = 0};
    lsi_facts facts;
    LS_TRY(run_of(f, model, &plan.run));
    LS_TRY(add_times(f, &plan, &measured));
    LS_TRY(lsi_trained_plan_account(&plan, &facts));
    if (!lsi_result_is_stdout(f->json)) {
        print_head(f, &plan.run);
        if (uses_rates(f))
            lsi_machine_rates_print(&measured.rates);
        putchar('\n');
        LS_TRY(lsi_plan_print_facts(&facts));
    }
    if (f->json == NULL)
        return LS_OK;
    json_t *const json = plan_json(f, &plan.run, &facts);
    json_object_set_new(json, "rates", rates_json(f, &measured));
    return lsi_plan_write(call, f->json, NULL, json);
}

/* ---- many ranks ---------------------------------------------------------- */

static const lsi_column sweep_columns[] = {
    LSI_COLUMN(INT, "ranks", "Ranks"),
    LSI_COLUMN(INT, "nodes", "Nodes"),
    LSI_COLUMN(REAL, "total_gb", "Memory", .unit = "GB", .decimals = 2),
    LSI_COLUMN(REAL, "step_seconds", "Step", .unit = "s", .decimals = 4),
    LSI_COLUMN(REAL, "communication_seconds", "Comm", .decimals = 4),
    LSI_COLUMN(REAL, "exposed_seconds", "Exposed", .decimals = 4),
    LSI_COLUMN(REAL, "tokens_per_second", "Tokens/s", .decimals = 0),
    LSI_COLUMN(REAL, "efficiency", "Efficiency", .decimals = 3),
    LSI_COLUMN(TEXT, "bound", "Bound by"),
};

static void record_ranks(lsi_table *table, const lsi_plan_run *run,
                         const lsi_facts *facts)
{
    static const char *const same[] = {"step_seconds", "communication_seconds",
                                       "exposed_seconds", "tokens_per_second",
                                       "efficiency"};
    lsi_table_row(table);
    lsi_table_int(table, "ranks", run->ranks);
    lsi_table_int(table, "nodes", run->nodes);
    lsi_table_real(table, "total_gb",
                   lsi_facts_get(facts, "total_bytes") / 1e9);
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
        lsi_table_real(table, same[i], lsi_facts_get(facts, same[i]));
    lsi_table_text(table, "bound",
                   lsi_facts_get(facts, "communication_bound") > 0 ? "comm"
                                                                   : "compute");
}

typedef struct sweep {
    lsi_plan_flags flags;
    const lsi_plan_model *model;
    lsi_plan_known measured;
    lsi_table *table;
    json_t *rows;
} sweep;

static ls_status add_ranks(sweep *s, int64_t ranks)
{
    lsi_trained_plan plan = {.device_bytes = memory_of(&s->flags)};
    lsi_facts facts;
    const int64_t here = s->flags.ranks_per_node > 0 ? s->flags.ranks_per_node
                                                     : lsi_cpus_available();
    if (ranks > here && ranks % here != 0)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "--sweep: %" PRId64 " ranks do not fill nodes of %" PRId64
            " ranks evenly; give a multiple, or change --ranks-per-node",
            ranks, here);
    s->flags.ranks = ranks;
    s->flags.nodes = ranks > here ? ranks / here : 1;
    LS_TRY(run_of(&s->flags, s->model, &plan.run));
    LS_TRY(add_times(&s->flags, &plan, &s->measured));
    LS_TRY(lsi_trained_plan_account(&plan, &facts));
    record_ranks(s->table, &plan.run, &facts);
    json_array_append_new(s->rows, plan_json(&s->flags, &plan.run, &facts));
    return LS_OK;
}

/* "1..4096": powers of two between them; "1,2,4". */
static ls_status add_all_ranks(sweep *s)
{
    static const char key[] = "ranks=";
    lsi_list list;
    char *end;
    const char *const text = s->flags.sweep + sizeof(key) - 1;
    if (strncmp(s->flags.sweep, key, sizeof(key) - 1) != 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "--sweep '%s' must have a form such as ranks=1..4096 "
                        "or ranks=1,2,4",
                        s->flags.sweep);
    int64_t first = strtoll(text, &end, 10);
    if (end == text || strncmp(end, "..", 2) != 0) {
        LS_TRY(
            lsi_list_of_numbers("--sweep ranks", text, 1, MOST_RANKS, &list));
        for (size_t i = 0; i < list.n; i++)
            LS_TRY(add_ranks(s, list.values[i]));
        return LS_OK;
    }
    LS_TRY(lsi_list_of_numbers("--sweep ranks", end + 2, 1, MOST_RANKS, &list));
    if (first < 1 || first > list.values[0] || list.n > 1)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "--sweep '%s': the first number must be at least 1 and "
                        "at most the second",
                        s->flags.sweep);
    for (; first <= list.values[0]; first *= 2)
        LS_TRY(add_ranks(s, first));
    return LS_OK;
}

static ls_status print_sweep(const lsi_plan_flags *f, const sweep *s)
{
    if (uses_rates(f)) {
        lsi_machine_rates_print(&s->measured.rates);
        putchar('\n');
    }
    return lsi_table_print(s->table, stdout);
}

static ls_status plan_sweep(const lsi_invocation *call, const lsi_plan_flags *f,
                            const lsi_plan_model *model)
{
    sweep s = {.flags = *f, .model = model};
    LS_TRY(LSI_TABLE_NEW(&s.table, sweep_columns));
    s.rows = json_array();
    ls_status status = add_all_ranks(&s);
    if (status == LS_OK && !lsi_result_is_stdout(f->json))
        status = print_sweep(f, &s);
    if (status == LS_OK && f->json != NULL)
        status = lsi_plan_write(call, f->json, NULL,
                                json_pack("{s:o, s:O}", "rates",
                                          rates_json(f, &s.measured), "rows",
                                          s.rows));
    json_decref(s.rows);
    lsi_table_free(&s.table);
    return status;
}

/* ---- all sizes ----------------------------------------------------------- */

static const struct {
    const char *name;
    int d_model, d_ff, layers;
} sizes[] = {
#define X(name, KIND, d_model, d_ff, layers, heads, vocabulary)                \
    {name, d_model, d_ff, layers},
    LSI_TRANSFORMER_SIZE_LIST(X)
#undef X
};

/* Whether a size is the one before under another name. */
static bool is_another_name(size_t i)
{
    return i > 0 && sizes[i].d_model == sizes[i - 1].d_model &&
           sizes[i].d_ff == sizes[i - 1].d_ff &&
           sizes[i].layers == sizes[i - 1].layers;
}

#define BYTES(name_, title_)                                                   \
    LSI_COLUMN(REAL, name_, title_, .unit = "GB", .decimals = 3)
static const lsi_column size_columns[] = {
    LSI_COLUMN(TEXT, "model", "Model"),
    LSI_COLUMN(INT, "parameters", "Parameters"),
    BYTES("parameter_gb", "Weights"),
    BYTES("gradient_gb", "Gradients"),
    BYTES("state_gb", "State"),
    BYTES("activation_gb", "Activations"),
    BYTES("total_gb", "Total"),
    LSI_COLUMN(TEXT, "fits", "Fits"),
};

static const char *fits_text(const lsi_trained_plan *plan,
                             const lsi_facts *facts)
{
    if (plan->device_bytes < 0)
        return "?";
    return lsi_facts_get(facts, "fits") > 0 ? "yes" : "no";
}

static void record_size(lsi_table *table, const lsi_plan_flags *f,
                        const lsi_trained_plan *plan, const lsi_facts *facts)
{
    static const char *const kinds[] = {"parameter", "gradient", "state",
                                        "activation", "total"};
    char name[LSI_LM_NAME_BYTES];
    lsi_table_row(table);
    lsi_table_text(table, "model", name_of(f, name));
    lsi_table_int(table, "parameters", plan->run.model->parameters);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        char from[64], to[64];
        snprintf(from, sizeof(from), "%s_bytes", kinds[i]);
        snprintf(to, sizeof(to), "%s_gb", kinds[i]);
        lsi_table_real(table, to, lsi_facts_get(facts, from) / 1e9);
    }
    lsi_table_text(table, "fits", fits_text(plan, facts));
}

static ls_status add_size(lsi_plan_flags f, const char *name, lsi_table *table,
                          json_t *rows)
{
    ls_transformer_config config = LS_TRANSFORMER_CONFIG_INIT;
    lsi_trained_plan plan = {.device_bytes = memory_of(&f)};
    lsi_plan_model model;
    lsi_facts facts;
    f.model = name;
    LS_TRY(shape_of(&f, name, &config));
    ls_status status = lsi_plan_model_open(&model, &config);
    if (status == LS_OK)
        status = run_of(&f, &model, &plan.run);
    if (status == LS_OK)
        status = lsi_trained_plan_account(&plan, &facts);
    if (status == LS_OK) {
        record_size(table, &f, &plan, &facts);
        json_array_append_new(rows, plan_json(&f, &plan.run, &facts));
    }
    lsi_plan_model_close(&model);
    return status;
}

static ls_status print_sizes(const lsi_plan_flags *f, const lsi_table *table)
{
    const double memory = memory_of(f);
    LS_TRY(lsi_table_print(table, stdout));
    if (memory >= 0)
        lsi_paragraph(stdout,
                      "\nFits: yes if all ranks of a node together need at "
                      "most %.1f GB (%s).",
                      memory / 1e9,
                      f->device_gb > 0
                          ? "the value of --device-gb"
                          : "90% of the memory available on this machine now");
    return LS_OK;
}

static ls_status plan_sizes(const lsi_invocation *call, const lsi_plan_flags *f)
{
    const size_t n = sizeof(sizes) / sizeof(sizes[0]);
    lsi_table *table;
    LS_TRY(LSI_TABLE_NEW(&table, size_columns));
    json_t *const rows = json_array();
    ls_status status = LS_OK;
    for (size_t i = 0; i < n && status == LS_OK; i++)
        if (!is_another_name(i))
            status = add_size(*f, sizes[i].name, table, rows);
    if (status == LS_OK && !lsi_result_is_stdout(f->json))
        status = print_sizes(f, table);
    if (status == LS_OK && f->json != NULL)
        status = lsi_plan_write(call, f->json, NULL,
                                json_pack("{s:O}", "rows", rows));
    json_decref(rows);
    lsi_table_free(&table);
    return status;
}

ls_status lsi_plan_predict(const lsi_plan_flags *f, lsi_plan_known *measured,
                           lsi_facts *out)
{
    lsi_trained_plan plan = {.device_bytes = -1};
    ls_transformer_config config = LS_TRANSFORMER_CONFIG_INIT;
    lsi_plan_model model;
    LS_TRY(shape_of(f, f->model, &config));
    ls_status status = lsi_plan_model_open(&model, &config);
    if (status == LS_OK)
        status = run_of(f, &model, &plan.run);
    if (status == LS_OK)
        status = add_times(f, &plan, measured);
    if (status == LS_OK)
        status = lsi_trained_plan_account(&plan, out);
    lsi_plan_model_close(&model);
    return status;
}

ls_status lsi_plan_training(const lsi_invocation *call, const lsi_plan_flags *f)
{
    ls_transformer_config config = LS_TRANSFORMER_CONFIG_INIT;
    lsi_plan_model model;
    if ((f->calibrate || f->verify) && !f->force)
        LS_TRY(lsi_refuse_busy("steps of the model",
                               f->verify ? "--verify is given"
                                         : "--calibrate is given"));
    if (f->verify)
        return lsi_plan_verify(call, f);
    if (strcmp(f->model, "all") == 0)
        return plan_sizes(call, f);
    LS_TRY(shape_of(f, f->model, &config));
    ls_status status = lsi_plan_model_open(&model, &config);
    if (status == LS_OK)
        status = f->sweep != NULL ? plan_sweep(call, f, &model)
                                  : plan_one(call, f, &model);
    lsi_plan_model_close(&model);
    return status;
}
