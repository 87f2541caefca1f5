#include "cli/bench/doubt.h"

#include "base/busy.h"
#include "report/paragraph.h"

bool lsi_bench_overlap(const lsi_table *table, lsi_bench_time time,
                       size_t rows[2])
{
    double mean, least[2], q3, q1;
    int found = 0;
    for (size_t i = 0; i < lsi_table_row_count(table); i++) {
        if (!lsi_table_number(table, i, time.mean, &mean))
            continue;
        const int at = found > 0 && !(mean < least[0]) ? 1 : 0;
        if (at == 1 && found > 1 && !(mean < least[1]))
            continue;
        if (at == 0 && found > 0) {
            least[1] = least[0];
            rows[1] = rows[0];
        }
        least[at] = mean;
        rows[at] = i;
        found++;
    }
    return found > 1 && lsi_table_number(table, rows[0], time.q3, &q3) &&
           lsi_table_number(table, rows[1], time.q1, &q1) && q1 <= q3;
}

void lsi_bench_doubt(const lsi_table *table, lsi_bench_time time, FILE *stream)
{
    size_t rows[2];
    double others = 0;
    int cpus = 0;
    if (lsi_bench_overlap(table, time, rows))
        lsi_paragraph(
            stream,
            "\nRows %zu and %zu are the fastest, but their interquartile "
            "ranges overlap, so this run does not show which of the two is "
            "faster. Repeat with more --iterations.",
            rows[0] + 1, rows[1] + 1);
    if (lsi_busy_now(&others, &cpus))
        lsi_paragraph(stream,
                      "\nOther processes use %.1f of the %d CPUs, so the times "
                      "are too long and the order of the rows may be wrong. "
                      "Repeat on an idle machine.",
                      others, cpus);
}
