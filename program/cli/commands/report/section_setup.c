/* The machine of the measurements, the versions, and other load meanwhile. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/busy.h"
#include "base/cpus.h"
#include "cli/commands/report/report.h"

static const lsi_measurement info[] = {
    {"info", LSI_ROWS_OUTPUT, NULL, "info --json", 1, 1, false},
};

static json_t *read_info(void)
{
    char *const text = lsi_study_lines("info");
    json_t *const parsed = text != NULL ? json_loads(text, 0, NULL) : NULL;
    json_t *const row =
        json_incref(json_array_get(json_object_get(parsed, "rows"), 0));
    json_decref(parsed);
    free(text);
    return row;
}

static void put_value(lsi_study *r, const char *key, const json_t *value)
{
    char text[160] = "none";
    const char *const cells[] = {key, text};
    if (json_is_string(value))
        snprintf(text, sizeof(text), "%s", json_string_value(value));
    else if (json_is_number(value))
        snprintf(text, sizeof(text), "%.15g", json_number_value(value));
    lsi_document_row(r->document, cells, 2);
}

/* How much else ran when each measurement ended. */
static void put_load(lsi_study *r)
{
    const char *id;
    const json_t *one;
    double least = INFINITY, most = 0, sum = 0;
    int n = 0;
    json_object_foreach(r->measured, id, one)
    {
        const double load = lsi_number_at(one, "others_cpus");
        if (!isfinite(load) || !(lsi_number_at(one, "seconds") > 0))
            continue;
        least = fmin(least, load);
        most = fmax(most, load);
        sum += load;
        n++;
    }
    if (n == 0)
        return;
    lsi_document_paragraph(
        r->document,
        "Right after each measurement, other processes used between %.1f and "
        "%.1f of the %d CPUs. On average, they used %.1f CPUs.%s",
        least, most, lsi_cpus_available(), sum / n,
        lsi_busy_rule(sum / n, lsi_cpus_available())
            ? " The machine was busy: times are longer, and vary more, than on "
              "an idle machine."
            : "");
}

static void put_peers(lsi_study *r)
{
    const char *const recorded = lsi_string_at(r->peers, "recorded");
    if (r->peers != NULL)
        lsi_document_paragraph(
            r->document,
            "Results of other programs come from the file given with "
            "--peers%s%s%s%s.",
            recorded[0] != '\0' ? ", recorded " : "", recorded,
            lsi_string_at(r->peers, "machine")[0] != '\0' ? " on " : "",
            lsi_string_at(r->peers, "machine"));
}

static void write_setup(lsi_study *r)
{
    static const char *const titles[] = {"Property", "Value"};
    const char *key;
    const json_t *value;
    json_t *const all = read_info();
    lsi_document_paragraph(
        r->document,
        "The commands below measured every number in this report. The folder "
        "`rows` of the report contains their output.%s",
        r->quick ? " This is a quick report, with small sizes and few runs."
                 : "");
    if (json_is_object(all)) {
        lsi_document_table(r->document, titles, NULL, 2);
        json_object_foreach(all, key, value)
        {
            put_value(r, key, value);
        }
    }
    put_load(r);
    put_peers(r);
    if (!r->plots)
        lsi_document_paragraph(r->document,
                               "The report has no plots because the program "
                               "gnuplot is not installed.");
    json_decref(all);
}

const lsi_section lsi_section_setup = {
    .id = "setup",
    .title = "Setup",
    LSI_MEASUREMENTS(info),
    .write = write_setup,
};
