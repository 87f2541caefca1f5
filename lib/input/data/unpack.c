#include "input/data/unpack.h"

#include <inttypes.h>

#include "base/error.h"
#include "input/data/magic.h"

ls_status lsi_unpacker_open(lsi_unpacker *out, const lsi_records *packed,
                            const char *path)
{
    lsi_unpacker made = {.packed = packed, .path = path};
    if (lsi_magic_of(packed->data, packed->bytes) == LSI_MAGIC_GZIP)
        LS_TRY(lsi_gzip_open(&made));
    else
        LS_TRY(lsi_archive_open(&made));
    *out = made;
    return LS_OK;
}

ls_status lsi_unpacker_read(lsi_unpacker *u, uint8_t *to, size_t room,
                            size_t *got)
{
    size_t done = 0;
    while (done < room && !u->ended) {
        size_t some = 0;
        LS_TRY(u->read(u, to + done, room - done, &some));
        u->done += some;
        done += some;
    }
    *got = done;
    return LS_OK;
}

void lsi_unpacker_close(lsi_unpacker *u)
{
    u->free(u->state);
    *u = (lsi_unpacker){0};
}

ls_status lsi_unpacker_check_rest(const lsi_unpacker *u, size_t at)
{
    for (size_t i = at; i < u->packed->bytes; i++) {
        if (u->packed->data[i] != 0)
            return lsi_fail(LS_ERR_FORMAT,
                            "'%s' is damaged at byte %zu of %zu: only another "
                            "member or zeros may follow the member that ends "
                            "at byte %zu",
                            u->path, i, u->packed->bytes, at);
    }
    return LS_OK;
}
