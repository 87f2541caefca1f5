/* Going on with a file of lines, of which the first byte says how many stay. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"
#include "report/jsonl.h"

/* The bytes of the first `keep` whole lines. */
static size_t kept(const uint8_t *data, size_t size, int keep)
{
    size_t end = 0;
    for (size_t i = 0; i < size && keep > 0; i++) {
        if (data[i] != '\n')
            continue;
        end = i + 1;
        keep--;
    }
    return end;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    lsi_jsonl *lines = NULL;
    struct stat info;
    const int keep = fuzz_byte(&in) % 8;
    const char *path = fuzz_file(in.data, in.size);
    fuzz_demand(lsi_jsonl_open(&lines, path, keep) == LS_OK);
    fuzz_demand(stat(path, &info) == 0);
    fuzz_demand((size_t)info.st_size == kept(in.data, in.size, keep));
    lsi_jsonl_close(&lines);
    return 0;
}
