#include "cli/bench/foot.h"

void lsi_bench_foot(const lsi_table *table, FILE *stream)
{
    double wrong = 0, bandwidth = 0, value;
    const size_t rows = lsi_table_row_count(table);
    size_t checked = 0;
    for (size_t row = 0; row < rows; row++) {
        if (lsi_table_number(table, row, "wrong", &value)) {
            wrong += value;
            checked++;
        }
        if (lsi_table_number(table, row, "busbw_gbps", &value))
            bandwidth += value / (double)rows;
    }
    fprintf(stream, "\n# Out of bounds values : ");
    if (checked == 0)
        fprintf(stream, "not checked\n");
    else
        fprintf(stream, "%.0f %s\n", wrong, wrong == 0 ? "OK" : "FAILED");
    fprintf(stream, "# Avg bus bandwidth    : %g\n", bandwidth);
}
