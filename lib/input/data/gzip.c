/*
 * gzip files (RFC 1952): members that follow each other, each with a CRC-32 and
 * a length that zlib compares.
 */
#define ZLIB_CONST
#include <inttypes.h>
#include <zlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "input/data/unpack.h"

typedef struct gzip {
    z_stream z;
    size_t read; /* packed bytes */
} gzip;

static ls_status damaged(const lsi_unpacker *u, const gzip *g)
{
    return lsi_fail(
        LS_ERR_FORMAT,
        "the gzip file '%s' is damaged or cut off at byte %zu of %zu (%" PRIu64
        " bytes unpacked so far): %s",
        u->path, g->read, u->packed->bytes, u->done,
        g->z.msg != NULL ? g->z.msg : "it ends too early");
}

static uInt at_most(size_t bytes)
{
    return (uInt)(bytes < 1U << 30 ? bytes : 1U << 30);
}

/* A member has ended: another may begin. */
static ls_status end_member(lsi_unpacker *u, gzip *g)
{
    const uint8_t *const next = u->packed->data + g->read;
    if (g->read < u->packed->bytes && *next == 0x1f)
        return inflateReset(&g->z) == Z_OK ? LS_OK : damaged(u, g);
    LS_TRY(lsi_unpacker_check_rest(u, g->read));
    u->ended = true;
    return LS_OK;
}

static ls_status inflate_some(lsi_unpacker *u, uint8_t *to, size_t room,
                              size_t *got)
{
    gzip *const g = u->state;
    const uInt in = at_most(u->packed->bytes - g->read);
    const uInt most = at_most(room);
    g->z.next_in = u->packed->data + g->read;
    g->z.avail_in = in;
    g->z.next_out = to;
    g->z.avail_out = most;
    const int result = inflate(&g->z, Z_NO_FLUSH);
    g->read += in - g->z.avail_in;
    *got = most - g->z.avail_out;
    if (result == Z_STREAM_END)
        return end_member(u, g);
    if (result == Z_OK && (in > g->z.avail_in || *got > 0))
        return LS_OK;
    return damaged(u, g);
}

static void free_gzip(void *state)
{
    gzip *const g = state;
    inflateEnd(&g->z);
    lsi_free(g);
}

ls_status lsi_gzip_open(lsi_unpacker *out)
{
    enum { GZIP_ALONE = 16 + MAX_WBITS };
    gzip *g;
    LS_TRY(lsi_alloc_zeroed(&g, sizeof(gzip), LS_MEMORY_DATA, "a gzip stream"));
    if (inflateInit2(&g->z, GZIP_ALONE) != Z_OK) {
        lsi_free(g);
        return lsi_unpack_no_memory(out->path);
    }
    out->state = g;
    out->read = inflate_some;
    out->free = free_gzip;
    return LS_OK;
}
