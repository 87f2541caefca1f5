/* In place of records_archive.c, in a build without libarchive. */
#include "base/error.h"
#include "base/magic.h"
#include "input/data/dataset.h"
#include "input/data/unpack.h"

ls_status lsi_records_read_archive(lsi_records *out, const char *path,
                                   const char *const *members, int n)
{
    (void)out, (void)n;
    return lsi_fail(
        LS_ERR_UNSUPPORTED,
        "cannot read '%s' as an archive: this library was built without "
        "libarchive. Unpack the archive, and give the folder that holds %s",
        path, members[0]);
}

ls_status lsi_archive_open(lsi_unpacker *out)
{
    const lsi_records *const packed = out->packed;
    return lsi_fail(LS_ERR_UNSUPPORTED,
                    "cannot unpack '%s' (%s): this library was built without "
                    "libarchive. Unpack the file first",
                    out->path,
                    lsi_magic_name(lsi_magic_of(packed->data, packed->bytes)));
}
