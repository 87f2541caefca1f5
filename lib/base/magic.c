#include "base/magic.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

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

typedef struct sign {
    size_t at; /* where the bytes are */
    const char *bytes;
    size_t n;
    bool (*is)(const uint8_t *data, size_t bytes); /* or NULL */
} sign;

enum { MOST_SIGNS = 5 };

static const struct {
    const char *name;
    sign signs[MOST_SIGNS];
} kinds[] = {
    [LSI_MAGIC_NONE] = {"a file of an unknown kind", {{0}}},
#define AT(at, text)       {at, text, sizeof(text) - 1, NULL},
#define BY(function)       {0, "", 0, function},
#define X(id, name, signs) [LSI_MAGIC_##id] = {name, {signs}},
#include "base/magics.def"
#undef X
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static bool fits(const sign *s, const uint8_t *data, size_t bytes)
{
    if (s->is != NULL)
        return s->is(data, bytes);
    return s->n > 0 && bytes >= s->at + s->n &&
           memcmp(data + s->at, s->bytes, s->n) == 0;
}

lsi_magic lsi_magic_of(const void *data, size_t bytes)
{
    for (int k = LSI_MAGIC_NONE + 1; k < KINDS; k++) {
        for (int i = 0; i < MOST_SIGNS; i++) {
            if (fits(&kinds[k].signs[i], data, bytes))
                return (lsi_magic)k;
        }
    }
    return LSI_MAGIC_NONE;
}

const char *lsi_magic_name(lsi_magic magic)
{
    return kinds[magic].name;
}

bool lsi_magic_is_packed(lsi_magic magic)
{
    return magic == LSI_MAGIC_GZIP || magic == LSI_MAGIC_ZSTD ||
           magic == LSI_MAGIC_XZ || magic == LSI_MAGIC_BZIP2;
}

bool lsi_has_extension(const char *path, const char *extension)
{
    static const char *const packed[] = {".gz", ".zst", ".xz", ".bz2"};
    size_t n = strlen(path);
    const size_t m = strlen(extension);
    for (size_t i = 0; i < sizeof packed / sizeof packed[0]; i++) {
        const size_t k = strlen(packed[i]);
        if (n > k && memcmp(path + n - k, packed[i], k) == 0) {
            n -= k;
            break;
        }
    }
    return n >= m && memcmp(path + n - m, extension, m) == 0;
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
