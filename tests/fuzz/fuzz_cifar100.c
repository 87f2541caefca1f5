/*
 * CIFAR-100 as a folder: a byte of labels for each record, then how many bytes
 * there are too many. The images are zeros.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "input/data/dataset.h"

enum { MOST = 4 };

static void check(const ls_dataset *dataset, int64_t count)
{
    static float images[3 * 32 * 32];
    int64_t label = -1;
    fuzz_demand(ls_dataset_count(dataset) == count);
    for (int64_t i = 0; i < count; i++) {
        fuzz_demand(ls_dataset_label(dataset, i) >= 0);
        fuzz_demand(ls_dataset_label(dataset, i) < 100);
    }
    const int64_t last = count - 1;
    fuzz_demand(ls_dataset_read(dataset, 0, &last, 1,
                                (void *[]){images, &label}) == LS_OK);
    fuzz_demand(label == ls_dataset_label(dataset, last));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t file[(MOST + 1) * LSI_RECORD_BYTES];
    fuzz_input in = {data, size};
    ls_dataset *dataset = NULL;
    const size_t count = fuzz_byte(&in) % (MOST + 1);
    const size_t extra = fuzz_byte(&in) % 16 == 0 ? fuzz_byte(&in) : 0;
    for (size_t i = 0; i < count; i++) {
        file[i * LSI_RECORD_BYTES] = fuzz_byte(&in);
        file[i * LSI_RECORD_BYTES + 1] = fuzz_byte(&in);
    }
    fuzz_write("test.bin", file, count * LSI_RECORD_BYTES + extra);
    if (!fuzz_ok(
            ls_dataset_new_cifar100(&dataset, fuzz_folder(), LS_SUBSET_TEST)))
        return 0;
    fuzz_demand(extra == 0);
    check(dataset, (int64_t)count);
    ls_dataset_free(&dataset);
    return 0;
}
