#include "cli/commands/slow_layers.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "report/paragraph.h"
#include "report/table.h"

static const lsi_column columns[] = {
    LSI_COLUMN(TEXT, "layer", "Layer"),
    LSI_COLUMN(TEXT, "weight", "Weight"),
    LSI_COLUMN(TEXT, "pass", "Pass"),
    LSI_COLUMN(TEXT, "kernel", ""),
    LSI_COLUMN(TEXT, "type", "Type"),
    LSI_COLUMN(INT, "calls", "Calls"),
    LSI_COLUMN(REAL, "total_ms", "Total", .unit = "ms", .decimals = 2),
    LSI_COLUMN(REAL, "gflops", "GFLOP/s", .decimals = 1),
    LSI_COLUMN(REAL, "of_product_rate", "Of product rate", .unit = "%",
               .decimals = 1),
    LSI_COLUMN(REAL, "of_roofline", ""),
    LSI_COLUMN(REAL, "gain_ms", "Gain", .unit = "ms", .decimals = 2),
};

/* ---- rows ---------------------------------------------------------------- */

static const char *type_of(const char *kernel)
{
    return strstr(kernel, "bf16") != NULL  ? "bf16"
           : strstr(kernel, "f16") != NULL ? "f16"
                                           : "f32";
}

/* "64x3x7x7 conv1" is the weight and the layer. */
static void add_name(lsi_table *table, const char *name)
{
    char weight[128];
    const size_t n = strcspn(name, " ");
    snprintf(weight, sizeof(weight), "%.*s", (int)n, name);
    lsi_table_text(table, "weight", weight);
    lsi_table_text(table, "layer", name + n + (name[n] == ' '));
}

static void add_layer(lsi_table *table, const lsi_profile_layer *layer,
                      const lsi_profile_peaks *peaks)
{
    static const char *const passes[] = {[LSI_PASS_FORWARD] = "forward",
                                         [LSI_PASS_DATA] = "backward of data",
                                         [LSI_PASS_WEIGHT] =
                                             "backward of weights"};
    const lsi_profile_sum *const sum = &layer->sum;
    const double of_rate = lsi_profile_of_product_rate(layer, peaks);
    const double of_roof = lsi_profile_of_roofline(layer->kernel, sum, peaks);
    lsi_table_row(table);
    add_name(table, layer->name);
    lsi_table_text(table, "pass", passes[layer->pass]);
    lsi_table_text(table, "kernel", layer->kernel);
    lsi_table_text(table, "type", type_of(layer->kernel));
    lsi_table_int(table, "calls", (int64_t)sum->calls);
    lsi_table_real(table, "total_ms", (double)sum->ns * 1e-6);
    if (sum->ns > 0)
        lsi_table_real(table, "gflops", (double)sum->work / (double)sum->ns);
    if (of_roof > 0)
        lsi_table_real(table, "of_roofline", 100 * of_roof);
    if (of_rate > 0) {
        lsi_table_real(table, "of_product_rate", 100 * of_rate);
        lsi_table_real(table, "gain_ms", layer->gain * 1e-6);
    }
}

ls_status lsi_layers_json(const lsi_profile *profile,
                          const lsi_profile_peaks *peaks, json_t **out)
{
    lsi_table *table = NULL;
    char *text = NULL;
    LS_TRY(LSI_TABLE_NEW(&table, columns));
    for (size_t i = 0; i < profile->n_layers; i++)
        add_layer(table, &profile->layer[i], peaks);
    ls_status status = lsi_table_status(table);
    if (status == LS_OK)
        status = lsi_table_json(table, 0, NULL, &text);
    lsi_table_free(&table);
    LS_TRY(status);
    json_t *const whole = json_loads(text, 0, NULL);
    *out = json_incref(json_object_get(whole, "rows"));
    json_decref(whole);
    free(text);
    return LS_OK;
}

/* ---- text ---------------------------------------------------------------- */

static bool is_slow(const lsi_profile_layer *layer,
                    const lsi_profile_peaks *peaks)
{
    const double share = lsi_profile_of_product_rate(layer, peaks);
    return share > 0 && share < LSI_PROFILE_SLOW;
}

/* The time of the slow ones beyond that of the product rate. */
static void print_slow(const lsi_profile *p, size_t n, double gain)
{
    lsi_paragraph(
        stdout,
        "\nSlow layers: %zu of %zu products of layers run below "
        "%.0f%% of the product rate, the peak rate of their type. At "
        "the product rate, they would take %.3f ms %s less (%.1f%% "
        "of the time).\n",
        n, p->n_layers, 100 * LSI_PROFILE_SLOW, gain * 1e-6 / (double)p->steps,
        p->no_steps ? "in total" : "per step", 100 * gain / (double)p->time);
}

/* The sentence in place of a table. */
static const char *reason_for_none(const lsi_profile *p,
                                   const lsi_profile_peaks *peaks)
{
    if (p->n_layers == 0)
        return "The trace names no layer of a product. Traces of Lockstep "
               "0.1.0 name none";
    return peaks->f32 > 0
               ? "All products of layers reach 80% of the product rate"
               : "The peak rates are unknown, and so are slow layers";
}

ls_status lsi_slow_layers_print(const lsi_profile *profile,
                                const lsi_profile_peaks *peaks, size_t most)
{
    double gain = 0;
    size_t n = 0;
    lsi_table *table = NULL;
    LS_TRY(LSI_TABLE_NEW(&table, columns));
    for (size_t i = 0; i < profile->n_layers; i++) {
        if (!is_slow(&profile->layer[i], peaks))
            continue;
        gain += profile->layer[i].gain;
        if (n++ < most)
            add_layer(table, &profile->layer[i], peaks);
    }
    ls_status status = lsi_table_status(table);
    if (n == 0)
        lsi_paragraph(stdout, "\nSlow layers: %s.",
                      reason_for_none(profile, peaks));
    else
        print_slow(profile, n, gain);
    if (status == LS_OK && n > 0)
        status = lsi_table_print(table, stdout);
    lsi_table_free(&table);
    return status;
}
