/*
 * The file that a crashed process left, followed by a zero byte as where
 * it is read.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "launch/backtrace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lsi_crash crash;
    char *const text = malloc(size + 1);
    fuzz_demand(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    if (fuzz_ok(lsi_crash_parse(text, size, &crash))) {
        fuzz_demand(crash.n > 0 && crash.n <= LSI_CRASH_FRAMES);
        fuzz_demand(crash.maps + crash.maps_bytes == text + size);
        fuzz_demand(crash.note == NULL ||
                    crash.note + crash.note_bytes < crash.maps);
        for (int i = 0; i < crash.n; i++) {
            size_t length = 0;
            uint64_t offset = 0;
            const char *const name =
                lsi_crash_module(&crash, crash.frames[i].pc, &length, &offset);
            fuzz_demand(name == NULL || (name >= text && length <= size &&
                                         name + length <= text + size));
        }
    }
    free(text);
    return 0;
}
