/* Unicode's normal form C, by utf8proc. */
#include "input/text/normalize.h"

#include <utf8proc.h>

#include "base/error.h"
#include "base/memory.h"

static const utf8proc_option_t form = UTF8PROC_STABLE | UTF8PROC_COMPOSE;

/* Characters below U+0300 are their own normal form. */
static bool is_simple(lsi_text text)
{
    for (size_t i = 0; i < text.n; i++)
        if (text.at[i] >= 0xcc)
            return false;
    return true;
}

bool lsi_nfc_is_there(void)
{
    return true;
}

static ls_status fail(utf8proc_ssize_t error)
{
    return lsi_fail(LS_ERR_FORMAT,
                    "cannot convert a text to Unicode normal form C: %s",
                    utf8proc_errmsg(error));
}

/* `codes` has room for n code points and one more, in which bytes are put. */
static ls_status compose(lsi_text text, int32_t *codes, utf8proc_ssize_t n,
                         lsi_bytes *out)
{
    const utf8proc_ssize_t made =
        utf8proc_decompose(text.at, (utf8proc_ssize_t)text.n, codes, n, form);
    if (made < 0)
        return fail(made);
    const utf8proc_ssize_t bytes = utf8proc_reencode(codes, made, form);
    return bytes < 0 ? fail(bytes) : lsi_bytes_add(out, codes, (size_t)bytes);
}

ls_status lsi_nfc(lsi_text text, lsi_bytes *out)
{
    void *codes = NULL;
    if (is_simple(text))
        return lsi_bytes_add(out, text.at, text.n);
    const utf8proc_ssize_t n =
        utf8proc_decompose(text.at, (utf8proc_ssize_t)text.n, NULL, 0, form);
    if (n < 0)
        return fail(n);
    LS_TRY(lsi_alloc(&codes, ((size_t)n + 1) * sizeof(int32_t), LS_MEMORY_DATA,
                     "the normal form of a text"));
    const ls_status status = compose(text, codes, n, out);
    lsi_free(codes);
    return status;
}
