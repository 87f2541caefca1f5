/*
 * Calculated sizes, and next to them the measured ones of a sharded optimizer.
 */

#include "cli/commands/report/report.h"

/* ---- communication ------------------------------------------------------- */

static const lsi_measurement communication[] = {
    {"communication-accounting", LSI_ROWS_JSON, NULL,
     "plan --preset communication-accounting", 1, 1, false},
};

static void write_communication(lsi_study *r)
{
    json_t *const plan = lsi_rows_of("communication-accounting");
    size_t i;
    const json_t *option;
    if (plan == NULL)
        return;
    lsi_document_paragraph(
        r->document,
        "Calculated for %.0f blocks of two linear layers, %.0f to %.0f and "
        "back:",
        lsi_number_at(plan, "blocks"), lsi_number_at(plan, "d_model"),
        lsi_number_at(plan, "d_ff"));
    lsi_document_item(
        r->document,
        "(a) %.0f parameters; weights, gradients and both "
        "moments take %.1f GB, which is %.0f devices of %.0f GB each "
        "(%.2f); for backward %.0f bytes a token are saved",
        lsi_number_at(plan, "parameters"), lsi_number_at(plan, "state_gb"),
        lsi_number_at(plan, "devices"), lsi_number_at(plan, "device_memory_gb"),
        lsi_number_at(plan, "devices_exact"),
        lsi_number_at(plan, "saved_bytes_per_token"));
    lsi_document_item(r->document,
                      "(b) with all of it divided, %.0f devices of %.0f GB "
                      "(%.2f)",
                      lsi_number_at(plan, "sharded_devices"),
                      lsi_number_at(plan, "sharded_memory_gb"),
                      lsi_number_at(plan, "sharded_devices_exact"));
    lsi_document_item(r->document,
                      "(c) computation bounds a step from %.1f tokens a device "
                      "on, which is %.1f overall",
                      lsi_number_at(plan, "tokens_per_device"),
                      lsi_number_at(plan, "tokens_overall"));
    json_array_foreach(json_object_get(plan, "smaller_batch_options"), i,
                       option)
    {
        lsi_document_item(r->document, "(d) a smaller batch is possible by %s",
                          json_string_value(option));
    }
    json_decref(plan);
}

const lsi_section lsi_section_communication = {
    .id = "communication-accounting",
    .title = "Communication, calculated",
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
        "How ZeRO-1 as published differs: it divides the flat vector of "
        "weights evenly, adds gradients up where they are needed and gathers "
        "weights (zero1: %.1f MB sent a step by a rank, state %.1f MB); "
        "dividing whole tensors among owners adds gradients up everywhere and "
        "sends each weight from its owner (owners: %.1f MB sent, state %.1f "
        "MB). Without division (flat) it is %.1f MB and %.1f MB. Steps take "
        "%.1f, %.1f and %.1f ms.",
        lsi_number_at(zero, "bytes_sent.bytes") * 1e-6,
        lsi_number_at(zero, "state.bytes") * 1e-6,
        lsi_number_at(owners, "bytes_sent.bytes") * 1e-6,
        lsi_number_at(owners, "state.bytes") * 1e-6,
        lsi_number_at(flat, "bytes_sent.bytes") * 1e-6,
        lsi_number_at(flat, "state.bytes") * 1e-6,
        lsi_number_at(zero, "step_time_avg_s") * 1e3,
        lsi_number_at(owners, "step_time_avg_s") * 1e3,
        lsi_number_at(flat, "step_time_avg_s") * 1e3);
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
        {"Sent a step (MB)", "bytes_sent.bytes", 1, 1e-6},
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
        {"Traffic (times the model)", "traffic", 0, 0},
    };
    json_t *const file = lsi_rows_of("zero");
    json_t *const plan = lsi_rows_of("sharding-accounting");
    lsi_document_paragraph(r->document,
                           "Memory of a rank at three moments, as counted by "
                           "the allocator and as the formulas say: of the "
                           "gradients of fsdp the most there can be.");
    LSI_STUDY_TABLE(r, json_object_get(file, "rows"), columns);
    answer_sharding(r, file);
    if (plan != NULL)
        lsi_document_paragraph(r->document,
                               "Predicted by plan for the model %s (%.0f "
                               "parameters) on %.0f ranks, without "
                               "activations:",
                               lsi_string_at(plan, "model"),
                               lsi_number_at(plan, "parameters"),
                               lsi_number_at(plan, "ranks"));
    LSI_STUDY_TABLE(r, json_object_get(plan, "rows"), planned);
    json_decref(plan);
    json_decref(file);
}

const lsi_section lsi_section_sharding = {
    .id = "sharding",
    .title = "A divided optimizer",
    LSI_MEASUREMENTS(sharding),
    .write = write_sharding,
};
