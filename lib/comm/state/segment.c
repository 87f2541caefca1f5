#include "comm/state/segment.h"

static size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* Streams are numerous (ranks squared), so they shrink as ranks grow. */
static size_t channel_capacity(size_t ranks)
{
    if (ranks <= 16)
        return 64 * 1024;
    return ranks <= 64 ? 32 * 1024 : 8 * 1024;
}

lsi_region_layout lsi_region_layout_of(int ranks)
{
    const size_t n = (size_t)ranks;
    lsi_region_layout at = {.ranks = n};
    /*
     * An odd number of lines between cells: with a power of two the first
     * lines of all cells would compete for the same few cache sets.
     */
    at.cell_stride = round_up(sizeof(lsi_cell), LSI_LINE);
    if (at.cell_stride / LSI_LINE % 2 == 0)
        at.cell_stride += LSI_LINE;
    at.channel_bytes = channel_capacity(n);
    at.channel_stride = sizeof(lsi_channel) + at.channel_bytes;
    at.members = round_up(sizeof(lsi_header), LSI_LINE);
    at.cells = round_up(at.members + n * sizeof(lsi_member), LSI_PAGE);
    at.junctions =
        round_up(at.cells + LSI_CELLS * n * at.cell_stride, LSI_PAGE);
    at.domains = at.junctions + LSI_CELLS * n * sizeof(lsi_junction);
    at.staging =
        round_up(at.domains + LSI_CELLS * n * sizeof(lsi_domain), LSI_PAGE);
    at.channels = at.staging + n * LSI_STAGING_BYTES;
    at.bytes =
        round_up(at.channels + LSI_CHANNEL_CLASSES * n * n * at.channel_stride,
                 LSI_PAGE);
    return at;
}

/* The pages that are in a range as a whole; maybe none. */
static lsi_range whole_pages(size_t begin, size_t bytes)
{
    const size_t first = round_up(begin, LSI_PAGE);
    const size_t last = (begin + bytes) / LSI_PAGE * LSI_PAGE;
    return (lsi_range){first, last > first ? last : first};
}

void lsi_region_own(const lsi_region_layout *at, int rank,
                    lsi_range out[LSI_REGION_OWN])
{
    const size_t n = at->ranks, me = (size_t)rank;
    for (size_t i = 0; i < LSI_CELLS; i++)
        *out++ = whole_pages(at->cells + (i * n + me) * at->cell_stride,
                             at->cell_stride);
    *out++ =
        whole_pages(at->staging + me * LSI_STAGING_BYTES, LSI_STAGING_BYTES);
    for (size_t i = 0; i < LSI_CHANNEL_CLASSES; i++)
        *out++ =
            whole_pages(at->channels + (i * n + me) * n * at->channel_stride,
                        n * at->channel_stride);
}
