/* In place of records_archive.c, in a build without libarchive. */
#include "base/error.h"
#include "data/dataset.h"

ls_status lsi_records_read_archive(lsi_records *out, const char *path,
                                   const char *member)
{
    (void)out;
    return lsi_fail(LS_ERR_UNSUPPORTED,
                    "'%s' is not a folder, and this library was built without "
                    "libarchive; unpack it, and name the folder that holds %s",
                    path, member);
}
