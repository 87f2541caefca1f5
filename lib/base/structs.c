#include "base/structs.h"

#include <string.h>

#include "base/error.h"
#include "lockstep/version.h"

static ls_status check_rest(const unsigned char *rest, size_t size,
                            const lsi_struct_layout *layout)
{
    for (size_t i = layout->known; i < size; i++) {
        if (rest[i] != 0)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "the size of the program's %s is %zu bytes, but "
                            "this library (version " LS_VERSION_STRING
                            ") knows only the first %zu bytes. Byte %zu is not "
                            "0, so the program needs a newer library",
                            layout->name, size, layout->known, i);
    }
    return LS_OK;
}

/* The bytes that the program's struct has. */
static ls_status read_size(const void *program, const lsi_struct_layout *layout,
                           size_t *out)
{
    size_t size;
    memcpy(&size, program, sizeof(size));
    if (size == 0)
        size = layout->first;
    /* A size that was never set may be any number; no version is this large. */
    if (size < layout->first || size > layout->known + 4096)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "%s.struct_size is %zu, but the struct does not have this size in "
            "any version (in this library: %zu). Set struct_size to "
            "sizeof(%s), or to 0 to use only the members of version 0.1",
            layout->name, size, layout->known, layout->name);
    *out = size;
    return LS_OK;
}

ls_status lsi_struct_read(void *to, const void *from,
                          const lsi_struct_layout *layout)
{
    size_t size;
    LS_TRY(read_size(from, layout, &size));
    if (size > layout->known)
        LS_TRY(check_rest(from, size, layout));
    memset(to, 0, layout->known);
    memcpy(to, from, size < layout->known ? size : layout->known);
    memcpy(to, &layout->known, sizeof(layout->known));
    return LS_OK;
}

ls_status lsi_struct_write(void *to, const void *from,
                           const lsi_struct_layout *layout)
{
    const size_t begin = sizeof(size_t); /* after struct_size */
    size_t size;
    LS_TRY(read_size(to, layout, &size));
    const size_t both = size < layout->known ? size : layout->known;
    memcpy((char *)to + begin, (const char *)from + begin, both - begin);
    memset((char *)to + both, 0, size - both);
    return LS_OK;
}
