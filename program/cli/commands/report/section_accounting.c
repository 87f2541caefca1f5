/*
 * Calculated sizes, and next to them the measured ones of a sharded optimizer.
 */

#include "base/append.h"
#include "cli/commands/report/report.h"

enum { LIST_BYTES = 1024 };

/* ---- communication ------------------------------------------------------- */

static const lsi_measurement communication[] = {
    {"communication-accounting", LSI_ROWS_JSON, NULL,
     "plan --preset communication-accounting", 1, 1, false},
};

/* One sentence with all options. */
static void put_smaller_batch(lsi_study *r, const json_t *options)
{
    char list[LIST_BYTES] = "";
    size_t i;
    const json_t *option;
    json_array_foreach(options, i, option)
    {
        lsi_append(list, sizeof(list), "%s%s", i > 0 ? "; " : "",
                   json_string_value(option));
    }
    if (list[0] != '\0')
        lsi_document_item(r->document,
                          "Each of these changes allows a smaller batch: %s.",
                          list);
}

static void write_communication(lsi_study *r)
{
    json_t *const plan = lsi_rows_of("communication-accounting");
    if (plan == NULL)
        return;
    lsi_document_paragraph(r->document,
                           "`lockstep plan` calculates these numbers for a "
                           "model of %.0f blocks. Each block has two linear "
                           "layers, from %.0f to %.0f features and back:",
                           lsi_number_at(plan, "blocks"),
                           lsi_number_at(plan, "d_model"),
                           lsi_number_at(plan, "d_ff"));
    lsi_document_item(
        r->document,
        "The model has %.0f parameters. Weights, gradients and both moments of "
        "AdamW take %.1f GB and need %.0f devices of %.0f GB (%.2f before "
        "rounding up). Activations for backward take %.0f bytes per token.",
        lsi_number_at(plan, "parameters"), lsi_number_at(plan, "state_gb"),
        lsi_number_at(plan, "devices"), lsi_number_at(plan, "device_memory_gb"),
        lsi_number_at(plan, "devices_exact"),
        lsi_number_at(plan, "saved_bytes_per_token"));
    lsi_document_item(r->document,
                      "If everything is sharded, %.0f devices of %.0f GB are "
                      "enough (%.2f before rounding up).",
                      lsi_number_at(plan, "sharded_devices"),
                      lsi_number_at(plan, "sharded_memory_gb"),
                      lsi_number_at(plan, "sharded_devices_exact"));
    lsi_document_item(r->document,
                      "A step is compute-bound if each device processes at "
                      "least %.1f tokens (all devices together: %.1f tokens).",
                      lsi_number_at(plan, "tokens_per_device"),
                      lsi_number_at(plan, "tokens_overall"));
    put_smaller_batch(r, json_object_get(plan, "smaller_batch_options"));
    json_decref(plan);
}

const lsi_section lsi_section_communication = {
    .id = "communication-accounting",
    .title = "Calculated memory and communication",
    LSI_MEASUREMENTS(communication),
    .write = write_communication,
};

/* ---- sharding ------------------------------------------------------------ */

static const lsi_measurement sharding[] = {
    {"zero", LSI_ROWS_JSON, "bench zero --size tiny -n 2 -w 1 --iterations 2",
     "bench zero --size small -n 2", 8, 120, false},
    {"sharding-accounting", LSI_ROWS_JSON, NULL,
     "plan --preset sharding-accounting", 1, 1, false},
};

static void answer_sharding(lsi_study *r, const json_t *file)
{
    const json_t *const flat =
        lsi_row_where(file, "strategy=flat moment=after_step");
    const json_t *const owners =
        lsi_row_where(file, "strategy=owners moment=after_step");
    const json_t *const zero =
        lsi_row_where(file, "strategy=zero1 moment=after_step");
    if (flat == NULL || owners == NULL || zero == NULL)
        return;
    lsi_document_paragraph(
        r->document,
        "Without sharding (flat), a rank sends %.1f MB per step and holds %.1f "
        "MB of optimizer state; a step takes %.1f ms. With ZeRO-1 (zero1), it "
        "sends %.1f MB and holds %.1f MB; a step takes %.1f ms. With one owner "
        "for each parameter (owners), it sends %.1f MB and holds %.1f MB; a "
        "step takes %.1f ms. Strategy zero1 reduces each part of the gradients "
        "only on the rank that needs this part, and then gathers the weights. "
        "Strategy owners reduces all gradients on all ranks, and then "
        "broadcasts each weight from its owner.",
        lsi_number_at(flat, "bytes_sent.bytes") * 1e-6,
        lsi_number_at(flat, "state.bytes") * 1e-6,
        lsi_number_at(flat, "step_time_avg_s") * 1e3,
        lsi_number_at(zero, "bytes_sent.bytes") * 1e-6,
        lsi_number_at(zero, "state.bytes") * 1e-6,
        lsi_number_at(zero, "step_time_avg_s") * 1e3,
        lsi_number_at(owners, "bytes_sent.bytes") * 1e-6,
        lsi_number_at(owners, "state.bytes") * 1e-6,
        lsi_number_at(owners, "step_time_avg_s") * 1e3);
}

static void write_sharding(lsi_study *r)
{
    static const lsi_study_column columns[] = {
        {"Strategy", "strategy", 0, 0},
        {"Batch", "batch", 0, 0},
        {"Moment", "moment", 0, 0},
        {"Parameters (MB)", "parameters.bytes", 1, 1e-6},
        {"Formula", "parameters.formula", 1, 1e-6},
        {"Gradients (MB)", "gradients.bytes", 1, 1e-6},
        {"Formula", "gradients.formula", 1, 1e-6},
        {"State (MB)", "state.bytes", 1, 1e-6},
        {"Formula", "state.formula", 1, 1e-6},
        {"Activations (MB)", "activations.bytes", 1, 1e-6},
        {"Total (MB)", "total.bytes", 1, 1e-6},
        {"Sent per step (MB)", "bytes_sent.bytes", 1, 1e-6},
        {"Step (ms)", "step_time_avg_s", 1, 1e3},
        {"Status", "status", 0, 0},
    };
    static const lsi_study_column planned[] = {
        {"Sharding", "sharding", 0, 0},
        {"Moment", "moment", 0, 0},
        {"Parameters (GB)", "parameters", 2, 1e-9},
        {"Gradients (GB)", "gradients", 2, 1e-9},
        {"State (GB)", "state", 2, 1e-9},
        {"Total (GB)", "total", 2, 1e-9},
        {"Sent per rank and step (x parameters)", "traffic", 0, 0},
    };
    json_t *const file = lsi_rows_of("zero");
    json_t *const plan = lsi_rows_of("sharding-accounting");
    lsi_document_paragraph(
        r->document,
        "The table compares the memory of a rank at three moments, as counted "
        "by the allocator, with the formulas. For the gradients of fsdp, the "
        "formula is an upper bound.");
    LSI_STUDY_TABLE(r, json_object_get(file, "rows"), columns);
    answer_sharding(r, file);
    if (plan != NULL)
        lsi_document_paragraph(
            r->document,
            "For the model %s (%.0f parameters) on %.0f ranks, `lockstep plan` "
            "predicts this memory and traffic, without activations:",
            lsi_string_at(plan, "model"), lsi_number_at(plan, "parameters"),
            lsi_number_at(plan, "ranks"));
    LSI_STUDY_TABLE(r, json_object_get(plan, "rows"), planned);
    json_decref(plan);
    json_decref(file);
}

const lsi_section lsi_section_sharding = {
    .id = "sharding",
    .title = "Sharded optimizer state",
    LSI_MEASUREMENTS(sharding),
    .write = write_sharding,
};
