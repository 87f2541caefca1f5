/*
 * Loading safetensors. The first byte says whether the rest is a whole file or
 * a header, before as many zeros as the next four say.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "model/tensor/safetensors.h"
#include "model/tensor/tensor.h"

enum { TENSORS = 3, BYTES = 24 };

static ls_named_tensor wanted[TENSORS];
static uint8_t memory[TENSORS][BYTES];

static void free_tensors(void)
{
    for (int i = 0; i < TENSORS; i++)
        ls_tensor_free(&wanted[i].tensor);
}

static void make_tensors(void)
{
    static const int64_t shapes[TENSORS][2] = {{2, 3}, {6, 0}, {2, 2}};
    static const ls_dtype dtypes[TENSORS] = {LS_F32, LS_F32, LS_I32};
    static const char *const names[TENSORS] = {"a", "b", "c"};
    if (wanted[0].tensor != NULL)
        return;
    for (int i = 0; i < TENSORS; i++) {
        wanted[i].name = names[i];
        fuzz_demand(ls_tensor_wrap(&wanted[i].tensor, memory[i], dtypes[i], 2,
                                   shapes[i], NULL) == LS_OK);
    }
    atexit(free_tensors);
}

/* Entries lie one behind the other, all in the file. */
static void check_entries(const lsi_safetensors_file *file)
{
    uint64_t end = 0;
    for (size_t i = 0; i < file->n_entries; i++) {
        const lsi_safetensors_entry *e = &file->entries[i];
        fuzz_demand(e->name != NULL && e->dtype != NULL);
        fuzz_demand(e->begin == end && e->end >= e->begin);
        end = e->end;
        for (int d = 0; d < e->ndim && d < LS_MAX_DIMS; d++)
            fuzz_demand(e->shape[d] >= 0);
    }
    fuzz_demand(end == file->data_size);
}

/* By the functions that need no names. */
static void list(const char *path)
{
    ls_safetensors *file = NULL;
    if (!fuzz_ok(ls_safetensors_open(&file, path)))
        return;
    const char *const *metadata = ls_safetensors_metadata(file);
    for (size_t i = 0; metadata[i] != NULL; i += 2)
        fuzz_demand(metadata[i + 1] != NULL);
    for (size_t i = 0; i < ls_safetensors_count(file); i++) {
        ls_stored_tensor info = {.struct_size = sizeof(info)};
        ls_tensor *tensor = NULL;
        fuzz_demand(ls_safetensors_info(file, i, &info) == LS_OK);
        fuzz_demand(info.shape != NULL || info.ndim > LS_MAX_DIMS);
        if (fuzz_ok(ls_safetensors_read(file, i, &tensor)))
            fuzz_demand(info.readable && ls_tensor_dtype(tensor) == info.dtype);
        ls_tensor_free(&tensor);
    }
    ls_safetensors_close(&file);
}

static void load(const char *path, size_t n)
{
    lsi_safetensors_file file;
    list(path);
    if (!fuzz_ok(lsi_safetensors_open(&file, path)))
        return;
    check_entries(&file);
    (void)lsi_safetensors_text(&file, "key");
    memset(memory, 0xa5, sizeof(memory));
    file.widens = n % 2 == 1;
    if (!fuzz_ok(lsi_safetensors_fill(&file, wanted, n))) {
        for (int i = 0; i < TENSORS * BYTES; i++) /* nothing, or everything */
            fuzz_demand(memory[i / BYTES][i % BYTES] == 0xa5);
    }
    lsi_safetensors_close(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    make_tensors();
    const uint8_t form = fuzz_byte(&in);
    const size_t n = form / 2 % (TENSORS + 1);
    if (form % 2 == 0) {
        load(fuzz_file(in.data, in.size), n);
        return 0;
    }
    const size_t zeros = fuzz_word(&in) % 4096;
    load(fuzz_safetensors(in.data, in.size, zeros), n);
    return 0;
}
