#include "report/size_text.h"

#include <stdbool.h>
#include <stdio.h>

void lsi_size_text(char out[LSI_SIZE_TEXT], uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    const bool is_whole = value >= 100 || value - (double)(int)value < 0.05;
    snprintf(out, LSI_SIZE_TEXT, is_whole ? "%.0f %s" : "%.1f %s", value,
             units[unit]);
}
