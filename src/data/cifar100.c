/*
 * CIFAR-100 (Krizhevsky, "Learning Multiple Layers of Features from Tiny
 * Images", 2009) as it is published in binary form. Everything that can be
 * wrong with the files is found when they are opened.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "compute/compute.h"
#include "data/dataset.h"

static const char *const file_names[] = {
    [LS_SPLIT_TRAIN] = "train.bin",
    [LS_SPLIT_TEST] = "test.bin",
};
static const char folder_name[] = "cifar-100-binary";

static ls_status check_size(size_t bytes, const char *where)
{
    if (bytes == 0)
        return lsi_fail(LS_ERR_FORMAT, "%s is empty", where);
    if (bytes % LSI_RECORD_BYTES != 0)
        return lsi_fail(LS_ERR_FORMAT,
                        "%s has %zu bytes, which is not a multiple of the "
                        "record of %d bytes: %zu whole records, then %zu bytes",
                        where, bytes, LSI_RECORD_BYTES,
                        bytes / LSI_RECORD_BYTES, bytes % LSI_RECORD_BYTES);
    return LS_OK;
}

static ls_status bad_label(const char *where, size_t index, const char *kind,
                           int label, int classes)
{
    return lsi_fail(LS_ERR_FORMAT,
                    "%s: record %zu has the %s label %d; valid are 0 to %d",
                    where, index, kind, label, classes - 1);
}

static ls_status check_labels(const lsi_records *records, const char *where)
{
    const size_t count = records->bytes / LSI_RECORD_BYTES;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *r = records->data + i * LSI_RECORD_BYTES;
        if (r[LSI_RECORD_COARSE] >= LSI_COARSE_CLASSES)
            return bad_label(where, i, "coarse", r[LSI_RECORD_COARSE],
                             LSI_COARSE_CLASSES);
        if (r[LSI_RECORD_FINE] >= LSI_FINE_CLASSES)
            return bad_label(where, i, "fine", r[LSI_RECORD_FINE],
                             LSI_FINE_CLASSES);
    }
    return LS_OK;
}

/* Makes a dataset of records, or gives them back. */
static ls_status adopt(ls_dataset **out, const lsi_records *records,
                       const char *where)
{
    ls_status status = check_size(records->bytes, where);
    if (status == LS_OK)
        status = check_labels(records, where);
    if (status == LS_OK)
        status = lsi_dataset_of_records(out, records);
    if (status != LS_OK)
        records->release(records->data, records->bytes);
    return status;
}

/* The file in the folder itself, or in the folder that the archive makes. */
static ls_status find_file(char file[PATH_MAX], const char *folder,
                           const char *name)
{
    errno = ENAMETOOLONG; /* unless access says otherwise */
    int length = snprintf(file, PATH_MAX, "%s/%s", folder, name);
    if (length < PATH_MAX && access(file, F_OK) == 0)
        return LS_OK;
    length = snprintf(file, PATH_MAX, "%s/%s/%s", folder, folder_name, name);
    if (length < PATH_MAX && access(file, F_OK) == 0)
        return LS_OK;
    return lsi_fail_errno(LS_ERR_IO, "no %s in the folder '%s' nor in '%s/%s'",
                          name, folder, folder, folder_name);
}

static ls_status open_folder(ls_dataset **out, const char *path,
                             const char *name)
{
    char file[PATH_MAX];
    lsi_records records;
    LS_TRY(find_file(file, path, name));
    LS_TRY(lsi_records_map(&records, file));
    return adopt(out, &records, file);
}

static ls_status open_archive(ls_dataset **out, const char *path,
                              const char *name)
{
    lsi_records records;
    LS_TRY(lsi_records_read_archive(&records, path, name));
    char where[PATH_MAX];
    snprintf(where, sizeof where, "%s in the archive %s", name, path);
    return adopt(out, &records, where);
}

ls_status ls_dataset_new_cifar100(ls_dataset **out, const char *path,
                                  ls_split split)
{
    LS_NEED(out);
    LS_NEED(path);
    LS_TRY(lsi_compute_check());
    if (path[0] == '\0')
        return lsi_fail(LS_ERR_ARGUMENT,
                        "cifar100: no path; expected a folder or an archive");
    if (split != LS_SPLIT_TRAIN && split != LS_SPLIT_TEST)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "cifar100: split %d is neither LS_SPLIT_TRAIN nor LS_SPLIT_TEST",
            (int)split);
    struct stat info;
    if (stat(path, &info) != 0)
        return lsi_fail_errno(LS_ERR_IO, "cannot open '%s'", path);
    if (S_ISDIR(info.st_mode))
        return open_folder(out, path, file_names[split]);
    return open_archive(out, path, file_names[split]);
}
