/*
 * The file in which a process has recorded its spans: whatever is taken from it
 * can be written as a timeline.
 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>

#include "report/timeline_private.h"

static void check(lsi_timeline_process *process)
{
    char *text = NULL;
    size_t bytes = 0;
    const lsi_timeline timeline = {.process = &process, .n = 1};
    FILE *const stream = open_memstream(&text, &bytes);
    for (size_t i = 0; i < process->n; i++) {
        fuzz_demand(process->spans[i].begin <= process->spans[i].end);
        fuzz_demand(process->spans[i].kind < LSI_SPAN_KINDS);
    }
    fuzz_demand(stream != NULL);
    fuzz_demand(fuzz_ok(lsi_timeline_chrome(&timeline, stream)));
    fclose(stream);
    fuzz_demand(bytes > 0 && text[0] == '{');
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lsi_timeline_process *process = NULL;
    if (fuzz_ok(lsi_timeline_add_file(fuzz_file(data, size), &process)) &&
        fuzz_ok(lsi_timeline_check(process)) &&
        fuzz_ok(lsi_timeline_load(process)))
        check(process);
    lsi_timeline_process_free(&process);
    return 0;
}
