#include "input/data/magic.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

typedef struct row {
    lsi_magic magic;
    const char *name;
    size_t at; /* where the bytes are */
    const char *begins;
    size_t n;
} row;

#define ROW(magic, name, at, text)                                             \
    {                                                                          \
        magic, name, at, text, sizeof(text) - 1                                \
    }

static const row rows[] = {
    ROW(LSI_MAGIC_GZIP, "a gzip file", 0, "\x1f\x8b\x08"),
    ROW(LSI_MAGIC_ZSTD, "a zstd file", 0, "\x28\xb5\x2f\xfd"),
    ROW(LSI_MAGIC_XZ, "an xz file", 0,
        "\xfd"
        "7zXZ\0"),
    ROW(LSI_MAGIC_BZIP2, "a bzip2 file", 4, "1AY&SY"),
    ROW(LSI_MAGIC_ZIP, "a zip archive", 0, "PK\x03\x04"),
    ROW(LSI_MAGIC_ZIP, "a zip archive", 0, "PK\x05\x06"),
    ROW(LSI_MAGIC_NPY, "an .npy array", 0, "\x93NUMPY"),
    ROW(LSI_MAGIC_PARQUET, "a parquet file", 0, "PAR1"),
    ROW(LSI_MAGIC_HDF5, "an HDF5 file", 0, "\x89HDF\r\n\x1a\n"),
    ROW(LSI_MAGIC_PICKLE, "a Python pickle", 0, "\x80\x02}"),
    ROW(LSI_MAGIC_PICKLE, "a Python pickle", 0, "\x80\x03}"),
    ROW(LSI_MAGIC_PICKLE, "a Python pickle", 0, "\x80\x04\x95"),
    ROW(LSI_MAGIC_PICKLE, "a Python pickle", 0, "\x80\x05\x95"),
    ROW(LSI_MAGIC_PNG, "a PNG image", 0, "\x89PNG\r\n\x1a\n"),
    ROW(LSI_MAGIC_JPEG, "a JPEG image", 0, "\xff\xd8\xff"),
    ROW(LSI_MAGIC_GIF, "a GIF image", 0, "GIF8"),
    ROW(LSI_MAGIC_WEBP, "a WebP image", 8, "WEBP"),
    ROW(LSI_MAGIC_TIFF, "a TIFF image", 0, "II*\0"),
    ROW(LSI_MAGIC_TIFF, "a TIFF image", 0, "MM\0*"),
    ROW(LSI_MAGIC_LLMC, "a token file of llm.c", 0, "\x88\xd8\x34\x01"),
    ROW(LSI_MAGIC_LLMC, "a token file of llm.c", 0, "\xa1\xd9\x34\x01"),
    ROW(LSI_MAGIC_TAR, "a tar archive", 257, "ustar"),
};

enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };

/* Eight bytes of a length, then a JSON object. */
static bool is_safetensors(const uint8_t *data, size_t bytes)
{
    uint64_t length = 0;
    if (bytes < 10 || data[8] != '{')
        return false;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | data[i];
    return length >= 2 && length < UINT64_C(1) << 32 &&
           (data[9] == '"' || data[9] == '}' || data[9] == ' ');
}

/* Two zeros, a type, one to four dimensions of which the first is below 2^28.
 */
static bool is_idx(const uint8_t *data, size_t bytes)
{
    return bytes >= 8 && data[0] == 0 && data[1] == 0 && data[2] >= 0x08 &&
           data[2] <= 0x0e && data[3] >= 1 && data[3] <= 4 && data[4] < 16;
}

/* "BM", a size, four zeros. */
static bool is_bmp(const uint8_t *data, size_t bytes)
{
    return bytes >= 14 && memcmp(data, "BM", 2) == 0 &&
           memcmp(data + 6, "\0\0\0", 4) == 0;
}

lsi_magic lsi_magic_of(const void *data, size_t bytes)
{
    for (const row *r = rows; r < rows + N_ROWS; r++) {
        if (bytes >= r->at + r->n &&
            memcmp((const uint8_t *)data + r->at, r->begins, r->n) == 0)
            return r->magic;
    }
    if (is_safetensors(data, bytes))
        return LSI_MAGIC_SAFETENSORS;
    if (is_bmp(data, bytes))
        return LSI_MAGIC_BMP;
    return is_idx(data, bytes) ? LSI_MAGIC_IDX : LSI_MAGIC_NONE;
}

const char *lsi_magic_name(lsi_magic magic)
{
    for (const row *r = rows; r < rows + N_ROWS; r++) {
        if (r->magic == magic)
            return r->name;
    }
    switch (magic) {
    case LSI_MAGIC_SAFETENSORS:
        return "a safetensors file";
    case LSI_MAGIC_BMP:
        return "a BMP image";
    case LSI_MAGIC_IDX:
        return "an IDX file";
    default:
        return "a file of no known kind";
    }
}

bool lsi_magic_is_packed(lsi_magic magic)
{
    return magic == LSI_MAGIC_GZIP || magic == LSI_MAGIC_ZSTD ||
           magic == LSI_MAGIC_XZ || magic == LSI_MAGIC_BZIP2;
}

ls_status lsi_magic_of_file(const char *path, lsi_magic *out)
{
    uint8_t head[LSI_MAGIC_BYTES];
    uint64_t size;
    size_t bytes = 0;
    int fd;
    LS_TRY(lsi_open_regular(path, 0, &fd, &size));
    const ls_status status =
        lsi_read_up_to(fd, path, head, sizeof head, &bytes);
    close(fd);
    if (status == LS_OK)
        *out = lsi_magic_of(head, bytes);
    return status;
}
