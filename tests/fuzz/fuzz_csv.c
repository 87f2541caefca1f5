/*
 * Tables of numbers: a byte for the label and the header, then the text.
 */
#include "fuzz.h"
#include "lockstep/data.h"

static void use(const ls_dataset *set)
{
    static float features[1 << 16];
    int64_t label = 0;
    const int64_t last = ls_dataset_count(set) - 1;
    void *const fields[] = {features, &label};
    fuzz_demand(last >= 0);
    fuzz_demand(ls_dataset_field(set, 0)->shape[0] <= 1 << 16);
    fuzz_demand(ls_dataset_read(set, 0, &last, 1, fields) == LS_OK);
    if (ls_dataset_field_count(set) == 2) {
        fuzz_demand(label == ls_dataset_label(set, last));
        fuzz_demand(label < ls_dataset_classes(set));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const labels[] = {NULL, "last", "b"};
    fuzz_input in = {data, size};
    ls_dataset *set = NULL;
    const unsigned choice = fuzz_byte(&in);
    const char *label = labels[choice % 3];
    const ls_csv_options options = {.header = (ls_csv_header)(choice / 3 % 3)};
    if (!fuzz_ok(ls_dataset_new_csv(&set, fuzz_file(in.data, in.size), label,
                                    &options)))
        return 0;
    use(set);
    ls_dataset_free(&set);
    return 0;
}
