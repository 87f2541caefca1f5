/*
 * .npy, IDX and .npz under damage. An .npy file has no checksum: its values may
 * change. In an .npz every member has one, and the names of members are there
 * twice: what is accepted is what was saved. Without the checks, what is
 * accepted must still be safe.
 */
#define DAMAGE_ARRAYS
#include "damage.h"
#include "damage_files.h"

#include <stdio.h>

#include "base/hash.h"
#include "input/data/arrays.h"

static size_t bytes_of(const lsi_file_array *a)
{
    size_t bytes = a->size;
    for (int i = 0; i < a->ndim; i++)
        bytes *= (size_t)a->shape[i];
    return bytes;
}

static void describe(const lsi_file_array *a, damage_seen *seen)
{
    size_t n = strlen(seen->shape);
    n += (size_t)snprintf(seen->shape + n, sizeof seen->shape - n, "%s %c%zu",
                          a->name, a->kind, a->size);
    for (int i = 0; i < a->ndim && n < sizeof seen->shape; i++)
        n += (size_t)snprintf(seen->shape + n, sizeof seen->shape - n, " %lld",
                              (long long)a->shape[i]);
    seen->values = damage_digest(seen->values, a->data, bytes_of(a));
}

static ls_status read_with(const char *path, bool skip_checksums,
                           damage_seen *seen)
{
    lsi_file_arrays *arrays = NULL;
    const ls_status status =
        lsi_file_arrays_open(&arrays, path, skip_checksums);
    if (status != LS_OK)
        return status;
    seen->values = LSI_HASH_START;
    for (int i = 0; i < arrays->n; i++)
        describe(&arrays->array[i], seen);
    lsi_file_arrays_free(&arrays);
    return LS_OK;
}

static ls_status read_arrays(const char *path, damage_seen *seen)
{
    return read_with(path, false, seen);
}

static ls_status read_unchecked(const char *path, damage_seen *seen)
{
    return read_with(path, true, seen);
}

static void npy(void **state)
{
    (void)state;
    const damage_case c = {.format = "npy",
                           .path = damage_path("a.npy"),
                           .data = npy_file,
                           .bytes = sizeof npy_file,
                           .read = read_arrays,
                           .flips = {.usual = DAMAGE_SHAPE}};
    damage_check(&c);
}

static void idx(void **state)
{
    (void)state;
    const damage_case c = {.format = "IDX",
                           .path = damage_path("a.idx"),
                           .data = npy_idx_file,
                           .bytes = sizeof npy_idx_file,
                           .read = read_arrays,
                           .flips = {.usual = DAMAGE_SHAPE}};
    damage_check(&c);
}

static void npz_stored(void **state)
{
    (void)state;
    const damage_case c = {
        .format = "npz, stored",
        .path = damage_path("stored.npz"),
        .data = npz_stored_file,
        .bytes = sizeof npz_stored_file,
        .read = read_arrays,
        .flips = {DAMAGE_VALUES, npz_stored_flips,
                  TEST_COUNT(npz_stored_flips)},
    };
    damage_check(&c);
}

static void npz_deflated(void **state)
{
    (void)state;
    const damage_case c = {.format = "npz, deflated",
                           .path = damage_path("deflated.npz"),
                           .data = npz_deflated_file,
                           .bytes = sizeof npz_deflated_file,
                           .read = read_arrays,
                           .flips = {.usual = DAMAGE_VALUES}};
    damage_check(&c);
}

static void npz_unchecked(void **state)
{
    (void)state;
    const damage_case stored = {.format = "npz, stored, unchecked",
                                .path = damage_path("stored.npz"),
                                .data = npz_stored_file,
                                .bytes = sizeof npz_stored_file,
                                .read = read_unchecked,
                                .flips = {.usual = DAMAGE_SHAPE}};
    const damage_case deflated = {.format = "npz, deflated, unchecked",
                                  .path = damage_path("deflated.npz"),
                                  .data = npz_deflated_file,
                                  .bytes = sizeof npz_deflated_file,
                                  .read = read_unchecked,
                                  .flips = {.usual = DAMAGE_ANY}};
    damage_check(&stored);
    damage_check(&deflated);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(npy),           cmocka_unit_test(idx),
        cmocka_unit_test(npz_stored),    cmocka_unit_test(npz_deflated),
        cmocka_unit_test(npz_unchecked),
    };
    return cmocka_run_group_tests(tests, damage_begin, damage_end);
}
