/*
 * The file in which a process has recorded its memory: whatever is taken from
 * it can be counted, and is never less than nothing.
 */
#include "fuzz.h"

#include <stdlib.h>

#include "report/memory_profile.h"

static void check(const lsi_memory_file *file)
{
    lsi_memory_row *rows = NULL;
    lsi_memory_point *points = NULL;
    size_t n = 0;
    char text[64];
    for (int key = LSI_MEMORY_BY_LAYER; key <= LSI_MEMORY_BY_SIZE; key++) {
        fuzz_demand(fuzz_ok(lsi_memory_rows(file, (lsi_memory_key)key,
                                            file->live_peak_time, &rows, &n)));
        for (size_t i = 0; i < n; i++) {
            fuzz_demand(rows[i].blocks > 0);
            lsi_memory_row_text(file, (lsi_memory_key)key, &rows[i], text,
                                sizeof text);
        }
        free(rows);
    }
    fuzz_demand(fuzz_ok(lsi_memory_course(file, 8, &points, &n)));
    fuzz_demand(n <= 9);
    free(points);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lsi_memory_file *file = NULL;
    if (fuzz_ok(lsi_memory_read(fuzz_file(data, size), &file)))
        check(file);
    lsi_memory_file_free(&file);
    return 0;
}
