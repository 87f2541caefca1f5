/*
 * Safetensors and an index of two of them under damage. The format has no
 * checksum; names and values may change. Its header states every length.
 */
#define DAMAGE_TENSORS
#include "damage.h"
#include "damage_files.h"

#include <stdio.h>

#include "base/hash.h"
#include "model/tensor/safetensors.h"

/* Of the tensors in the valid files, in the order of their bytes. */
static const ls_dtype dtypes[] = {LS_F32, LS_BF16, LS_I64};
static const ls_dtype dtypes_of_shards[] = {LS_F32, LS_F32};

/* Loads an entry, whatever its name, as a tensor of that type. */
static ls_status load(const lsi_safetensors_file *file,
                      const lsi_safetensors_entry *e, ls_dtype dtype,
                      damage_seen *seen)
{
    ls_named_tensor wanted = {.name = e->name};
    assert_in_range(e->ndim, 0, LS_MAX_DIMS);
    assert_ok(ls_tensor_new(&wanted.tensor, dtype, e->ndim, e->shape));
    const ls_status status = lsi_safetensors_fill(file, &wanted, 1);
    if (status == LS_OK)
        seen->values = damage_digest(seen->values, tensor_data(wanted.tensor),
                                     (size_t)ls_tensor_count(wanted.tensor) *
                                         ls_dtype_size(dtype));
    ls_tensor_free(&wanted.tensor);
    return status;
}

static void describe(const lsi_safetensors_entry *e, damage_seen *seen)
{
    const size_t room = sizeof seen->shape;
    size_t n = strlen(seen->shape);
    n += (size_t)snprintf(seen->shape + n, room - n, "%s", e->dtype);
    for (int i = 0; i < e->ndim && n < room; i++)
        n += (size_t)snprintf(seen->shape + n, room - n, " %lld",
                              (long long)e->shape[i]);
    snprintf(seen->shape + n, room - n, "; ");
}

static ls_status read_all(const lsi_safetensors_file *file, damage_seen *seen)
{
    const bool shards = file->shards != NULL;
    assert_in_range(file->n_entries, 0, TEST_COUNT(dtypes));
    seen->values = LSI_HASH_START;
    for (size_t i = 0; i < file->n_entries; i++) {
        const ls_status status =
            load(file, &file->entries[i],
                 shards ? dtypes_of_shards[i] : dtypes[i], seen);
        if (status != LS_OK)
            return status;
        describe(&file->entries[i], seen);
    }
    return LS_OK;
}

/* The public functions see what the reader does. */
static void list(const char *path, const lsi_safetensors_file *as)
{
    ls_safetensors *file = NULL;
    assert_ok(ls_safetensors_open(&file, path));
    assert_int_equal(ls_safetensors_count(file), as->n_entries);
    for (size_t i = 0; i < as->n_entries; i++) {
        ls_stored_tensor info = {.struct_size = sizeof info};
        ls_tensor *tensor = NULL;
        assert_ok(ls_safetensors_info(file, i, &info));
        assert_string_equal(info.name, as->entries[i].name);
        assert_string_equal(info.type, as->entries[i].dtype);
        assert_int_equal(ls_safetensors_read(file, i, &tensor) == LS_OK,
                         info.readable);
        ls_tensor_free(&tensor);
    }
    ls_safetensors_close(&file);
}

static ls_status read_tensors(const char *path, damage_seen *seen)
{
    lsi_safetensors_file file;
    ls_status status = lsi_safetensors_open(&file, path);
    if (status != LS_OK)
        return status;
    list(path, &file);
    status = read_all(&file, seen);
    lsi_safetensors_close(&file);
    return status;
}

static void safetensors(void **state)
{
    (void)state;
    const damage_case c = {.format = "safetensors",
                           .path = damage_path("a.safetensors"),
                           .data = safetensors_file,
                           .bytes = sizeof safetensors_file,
                           .read = read_tensors,
                           .flips = {.usual = DAMAGE_SHAPE}};
    damage_check(&c);
}

/* Only its last byte, the end of the last line, can be missing. */
static void safetensors_index(void **state)
{
    (void)state;
    const size_t bytes = sizeof safetensors_index_file;
    const damage_range last[] = {{bytes - 1, bytes, DAMAGE_VALUES}};
    damage_write(damage_path("one.safetensors"), shard_one_file,
                 sizeof shard_one_file);
    damage_write(damage_path("two.safetensors"), shard_two_file,
                 sizeof shard_two_file);
    const damage_case c = {.format = "safetensors index",
                           .path = damage_path("model.safetensors.index.json"),
                           .data = safetensors_index_file,
                           .bytes = bytes,
                           .read = read_tensors,
                           .flips = {.usual = DAMAGE_SHAPE},
                           .cuts = {DAMAGE_REFUSED, last, 1}};
    damage_check(&c);
}

static void a_shard(void **state)
{
    (void)state;
    damage_write(damage_path("model.safetensors.index.json"),
                 safetensors_index_file, sizeof safetensors_index_file);
    damage_write(damage_path("two.safetensors"), shard_two_file,
                 sizeof shard_two_file);
    const damage_case c = {.format = "a shard of safetensors",
                           .path = damage_path("one.safetensors"),
                           .opened =
                               damage_path("model.safetensors.index.json"),
                           .data = shard_one_file,
                           .bytes = sizeof shard_one_file,
                           .read = read_tensors,
                           .flips = {.usual = DAMAGE_SHAPE}};
    damage_check(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(safetensors),
        cmocka_unit_test(safetensors_index),
        cmocka_unit_test(a_shard),
    };
    return cmocka_run_group_tests(tests, damage_begin, damage_end);
}
