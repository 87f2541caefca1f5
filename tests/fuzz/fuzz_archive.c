/*
 * CIFAR-100 as an archive: any bytes, and the records that are found in them.
 * If the first byte is set so, blocks that look like tar headers get a valid
 * checksum.
 */
#include <stdio.h>
#include <string.h>

#include "fuzz.h"
#include "input/data/dataset.h"

enum { BLOCK = 512, MOST = 32 * BLOCK, SUM = 148, SUM_BYTES = 8, MAGIC = 257 };

static void sign(uint8_t *block)
{
    char text[SUM_BYTES + 1];
    unsigned sum = 0;
    memset(block + SUM, ' ', SUM_BYTES);
    for (int i = 0; i < BLOCK; i++)
        sum += block[i];
    snprintf(text, sizeof(text), "%06o", sum);
    memcpy(block + SUM, text, SUM_BYTES - 1);
}

static const char *make_file(fuzz_input *in)
{
    static uint8_t file[MOST];
    const bool sound = fuzz_byte(in) % 4 != 0;
    const size_t size = in->size < MOST ? in->size : MOST;
    if (size > 0)
        memcpy(file, in->data, size);
    for (size_t at = 0; sound && at + BLOCK <= size; at += BLOCK)
        if (memcmp(file + at + MAGIC, "ustar", 5) == 0)
            sign(file + at);
    return fuzz_file(file, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    ls_dataset *dataset = NULL;
    const char *path = make_file(&in);
    if (!fuzz_ok(ls_dataset_new_cifar100(&dataset, path, LS_SUBSET_TEST)))
        return 0;
    const int64_t count = ls_dataset_count(dataset);
    fuzz_demand(count > 0);
    fuzz_demand(ls_dataset_label(dataset, count - 1) >= 0);
    ls_dataset_free(&dataset);
    return 0;
}
