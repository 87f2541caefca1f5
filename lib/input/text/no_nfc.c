/* In place of nfc.c where the library is built without utf8proc. */
#include "base/error.h"
#include "input/text/normalize.h"

bool lsi_nfc_is_there(void)
{
    return false;
}

ls_status lsi_nfc(lsi_text text, lsi_bytes *out)
{
    (void)text;
    (void)out;
    return lsi_fail(LS_ERR_UNSUPPORTED,
                    "cannot convert text to Unicode normal form C: this "
                    "library was built without utf8proc");
}
