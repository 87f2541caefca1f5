/*
 * Files of arrays and images: a byte says which parser, then the file.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "input/data/arrays.h"
#include "input/data/picture.h"
#include "input/data/unpack.h"

/* Reads all that it says there is. */
static void use(const lsi_file_array *a)
{
    uint64_t count = 1;
    volatile uint8_t last = 0;
    for (int i = 0; i < a->ndim; i++)
        count *= (uint64_t)a->shape[i];
    fuzz_demand(a->ndim <= LS_MAX_DIMS);
    for (uint64_t i = 0; i < count * a->size; i++)
        last = (uint8_t)(last ^ a->data[i]);
    if (count > 0 && lsi_file_array_is_int(a))
        last = (uint8_t)(last ^ lsi_file_array_int(a, (int64_t)count - 1));
}

static void parse(ls_status (*parser)(lsi_file_array *, const uint8_t *, size_t,
                                      const char *),
                  const fuzz_input *in)
{
    lsi_file_array a;
    uint8_t *copy = malloc(in->size + 1); /* ends where its memory ends */
    uint8_t *exact = realloc(copy, in->size > 0 ? in->size : 1);
    memcpy(exact, in->data, in->size);
    if (fuzz_ok(parser(&a, exact, in->size, "a file")))
        use(&a);
    free(exact);
}

/* Without checksums, which hide what comes after them. */
static void open_arrays(const fuzz_input *in)
{
    lsi_file_arrays *arrays = NULL;
    if (!fuzz_ok(
            lsi_file_arrays_open(&arrays, fuzz_file(in->data, in->size), true)))
        return;
    for (int i = 0; i < arrays->n; i++)
        use(&arrays->array[i]);
    lsi_file_arrays_free(&arrays);
}

static void decode(const fuzz_input *in)
{
    lsi_picture p;
    uint8_t out[3 * 5 * 7];
    if (!fuzz_ok(lsi_picture_decode(&p, in->data, in->size, "an image")))
        return;
    fuzz_demand(p.width > 0 && p.height > 0);
    if (p.width * p.height < 1 << 16)
        fuzz_ok(lsi_picture_fit(&p, 3, 5, 7, out));
    lsi_picture_free(&p);
}

static void load(const fuzz_input *in)
{
    lsi_records records;
    lsi_magic magic;
    const char *path = fuzz_file(in->data, in->size);
    const bool known = fuzz_ok(lsi_unpack_magic(path, &magic));
    if (!fuzz_ok(lsi_records_load(&records, path)))
        return;
    fuzz_demand(known && records.bytes > 0);
    fuzz_demand(lsi_magic_of(records.data, records.bytes) == magic ||
                lsi_magic_is_packed(magic));
    records.release(records.data, records.bytes);
}

static void read_datasets(const fuzz_input *in)
{
    static const ls_image_options images = {.skip_checksums = true};
    ls_dataset *set = NULL;
    const char *path = fuzz_file(in->data, in->size);
    if (fuzz_ok(ls_dataset_new_arrays(&set, path, NULL)))
        fuzz_demand(ls_dataset_field_count(set) > 0);
    ls_dataset_free(&set);
    if (fuzz_ok(ls_dataset_new_images(&set, path, LS_SUBSET_TEST, &images)))
        fuzz_demand(ls_dataset_classes(set) > 0);
    ls_dataset_free(&set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    switch (fuzz_byte(&in) % 6) {
    case 0:
        parse(lsi_npy_parse, &in);
        break;
    case 1:
        parse(lsi_idx_parse, &in);
        break;
    case 2:
        open_arrays(&in);
        break;
    case 3:
        decode(&in);
        break;
    case 4:
        load(&in);
        break;
    default:
        read_datasets(&in);
    }
    return 0;
}
