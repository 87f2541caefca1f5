/*
 * CIFAR-10 and CIFAR-100 (Krizhevsky, "Learning Multiple Layers of Features
 * from Tiny Images", 2009) as they are published in binary form: records of one
 * or two labels and three planes of pixels. Everything that can be wrong with
 * the files is found when they are opened.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "array/compute/compute.h"
#include "base/error.h"
#include "base/memory.h"
#include "input/data/image_source.h"

enum { MOST_FILES = 5, MOST_LABELS = 2 };

typedef struct kind {
    const char *folder; /* that the published archive makes */
    const char *files[2][MOST_FILES + 1];
    int n_labels;
    struct {
        const char *name;
        int classes;
    } labels[MOST_LABELS]; /* the last is the one that is trained */
} kind;

static const kind kinds[] = {
    {"cifar-100-binary",
     {[LS_SUBSET_TRAIN] = {"train.bin"}, [LS_SUBSET_TEST] = {"test.bin"}},
     2,
     {{"coarse label", LSI_COARSE_CLASSES}, {"fine label", LSI_FINE_CLASSES}}},
    {"cifar-10-batches-bin",
     {[LS_SUBSET_TRAIN] = {"data_batch_1.bin", "data_batch_2.bin",
                           "data_batch_3.bin", "data_batch_4.bin",
                           "data_batch_5.bin"},
      [LS_SUBSET_TEST] = {"test_batch.bin"}},
     1,
     {{"label", 10}}},
};

enum { CIFAR_100, CIFAR_10, N_KINDS };

static size_t record_bytes(const kind *k)
{
    return (size_t)k->n_labels + LSI_IMAGE_BYTES;
}

/* ---- files --------------------------------------------------------------- */

static ls_status check_size(const kind *k, size_t bytes, const char *where)
{
    const size_t record = record_bytes(k);
    if (bytes == 0)
        return lsi_fail(LS_ERR_FORMAT, "%s is empty", where);
    if (bytes % record != 0)
        return lsi_fail(LS_ERR_FORMAT,
                        "%s is damaged or cut off: its size (%zu bytes) is not "
                        "a multiple of the record size (%zu bytes). The file "
                        "holds %zu whole records and %zu more bytes",
                        where, bytes, record, bytes / record, bytes % record);
    return LS_OK;
}

static ls_status check_labels(const kind *k, const lsi_records *records,
                              const char *where)
{
    const size_t record = record_bytes(k);
    for (size_t i = 0; i < records->bytes / record; i++) {
        const uint8_t *r = records->data + i * record;
        for (int l = 0; l < k->n_labels; l++) {
            if (r[l] < k->labels[l].classes)
                continue;
            return lsi_fail(
                LS_ERR_FORMAT, "%s: record %zu has the %s %d; expected 0 to %d",
                where, i, k->labels[l].name, r[l], k->labels[l].classes - 1);
        }
    }
    return LS_OK;
}

/* The file in the folder itself, or in the folder that the archive makes. */
static ls_status find_file(const kind *k, char file[PATH_MAX],
                           const char *folder, const char *name)
{
    errno = ENAMETOOLONG; /* unless access says otherwise */
    int length = snprintf(file, PATH_MAX, "%s/%s", folder, name);
    if (length < PATH_MAX && access(file, F_OK) == 0)
        return LS_OK;
    length = snprintf(file, PATH_MAX, "%s/%s/%s", folder, k->folder, name);
    if (length < PATH_MAX && access(file, F_OK) == 0)
        return LS_OK;
    return lsi_fail_errno(
        LS_ERR_IO, "the file %s was not found in the folder '%s' or in '%s/%s'",
        name, folder, folder, k->folder);
}

static ls_status check_records(const kind *k, const lsi_records *records,
                               const char *where)
{
    LS_TRY(check_size(k, records->bytes, where));
    return check_labels(k, records, where);
}

static ls_status map_files(const kind *k, lsi_records *out, const char *folder,
                           const char *const *names)
{
    char where[PATH_MAX];
    for (int f = 0; names[f] != NULL; f++) {
        LS_TRY(find_file(k, where, folder, names[f]));
        LS_TRY(lsi_records_map(&out[f], where));
        LS_TRY(check_records(k, &out[f], where));
    }
    return LS_OK;
}

static ls_status read_files(const kind *k, lsi_records *out, const char *path,
                            const char *const *names)
{
    char where[PATH_MAX + 64];
    int n = 0;
    while (names[n] != NULL)
        n++;
    LS_TRY(lsi_records_read_archive(out, path, names, n));
    for (int f = 0; f < n; f++) {
        snprintf(where, sizeof where, "%s in the archive %s", names[f], path);
        LS_TRY(check_records(k, &out[f], where));
    }
    return LS_OK;
}

static void release_files(lsi_records files[MOST_FILES])
{
    for (int f = 0; f < MOST_FILES; f++)
        lsi_records_release(&files[f]);
}

/* The files of a subset, from out[0] on; zeros follow the last one. */
static ls_status open_files(const kind *k, lsi_records out[MOST_FILES],
                            const char *path, bool is_folder, ls_subset subset)
{
    const char *const *const names = k->files[subset];
    memset(out, 0, MOST_FILES * sizeof *out);
    const ls_status status = is_folder ? map_files(k, out, path, names)
                                       : read_files(k, out, path, names);
    if (status != LS_OK)
        release_files(out);
    return status;
}

ls_status ls_dataset_new_cifar100(ls_dataset **out, const char *path,
                                  ls_subset subset)
{
    LS_NEED(out, path);
    LS_TRY(lsi_compute_check());
    if (path[0] == '\0')
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "cifar100: the path is empty; expected a folder or an archive");
    if (subset != LS_SUBSET_TRAIN && subset != LS_SUBSET_TEST)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "cifar100: subset %d is neither LS_SUBSET_TRAIN nor LS_SUBSET_TEST",
            (int)subset);
    struct stat info;
    if (stat(path, &info) != 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot open '%s'", path);
    const kind *const k = &kinds[CIFAR_100];
    lsi_records records[MOST_FILES];
    LS_TRY(open_files(k, records, path, S_ISDIR(info.st_mode), subset));
    const ls_status status = lsi_dataset_of_records(out, &records[0]);
    if (status != LS_OK)
        release_files(records);
    return status;
}

/* ---- as a source --------------------------------------------------------- */

typedef struct cifar {
    const kind *kind;
    lsi_records files[MOST_FILES]; /* zeros follow the last one */
} cifar;

static const uint8_t *record_at(const cifar *c, int64_t index)
{
    const size_t record = record_bytes(c->kind);
    int f = 0;
    for (; index >= (int64_t)(c->files[f].bytes / record); f++)
        index -= (int64_t)(c->files[f].bytes / record);
    return c->files[f].data + (size_t)index * record;
}

static int64_t label_of(void *context, int64_t index)
{
    const cifar *const c = context;
    return record_at(c, index)[c->kind->n_labels - 1];
}

static ls_status read_image(void *context, int64_t index, lsi_picture *out)
{
    const cifar *const c = context;
    *out = (lsi_picture){.pixels = record_at(c, index) + c->kind->n_labels,
                         .width = LSI_IMAGE_SIDE,
                         .height = LSI_IMAGE_SIDE,
                         .channels = LSI_IMAGE_CHANNELS,
                         .row = LSI_IMAGE_SIDE,
                         .column = 1,
                         .plane = LSI_IMAGE_PIXELS};
    return LS_OK;
}

static void free_cifar(void *context)
{
    cifar *const c = context;
    release_files(c->files);
    lsi_free(c);
}

static bool holds(const kind *k, const char *folder)
{
    char file[PATH_MAX];
    return find_file(k, file, folder, k->files[LS_SUBSET_TEST][0]) == LS_OK &&
           find_file(k, file, folder, k->files[LS_SUBSET_TRAIN][0]) == LS_OK;
}

bool lsi_is_cifar(const char *folder)
{
    return holds(&kinds[CIFAR_100], folder) || holds(&kinds[CIFAR_10], folder);
}

static ls_status open_kind(lsi_image_source *out, const kind *k,
                           const char *path, bool is_folder, ls_subset subset)
{
    cifar *c;
    LS_TRY(lsi_alloc_zeroed(&c, sizeof(cifar), LS_MEMORY_DATA, "CIFAR"));
    c->kind = k;
    const ls_status status = open_files(k, c->files, path, is_folder, subset);
    if (status != LS_OK) {
        lsi_free(c);
        return status;
    }
    *out = (lsi_image_source){.classes = k->labels[k->n_labels - 1].classes,
                              .height = LSI_IMAGE_SIDE,
                              .width = LSI_IMAGE_SIDE,
                              .channels = LSI_IMAGE_CHANNELS,
                              .divided = true,
                              .read = read_image,
                              .label = label_of,
                              .context = c,
                              .free = free_cifar};
    for (int f = 0; f < MOST_FILES; f++)
        out->count += (int64_t)(c->files[f].bytes / record_bytes(k));
    return LS_OK;
}

/* An archive is of the kind whose first file it has. */
ls_status lsi_image_source_cifar(lsi_image_source *out, const char *path,
                                 ls_subset subset, bool skip_checksums)
{
    (void)skip_checksums;
    struct stat info;
    const bool is_folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    if (is_folder)
        return open_kind(
            out, &kinds[holds(&kinds[CIFAR_100], path) ? CIFAR_100 : CIFAR_10],
            path, true, subset);
    if (open_kind(out, &kinds[CIFAR_100], path, false, subset) == LS_OK)
        return LS_OK;
    if (open_kind(out, &kinds[CIFAR_10], path, false, subset) == LS_OK)
        return LS_OK;
    return open_kind(out, &kinds[CIFAR_100], path, false, subset);
}
