/* Unicode's normal form C. */
#ifndef LS_INPUT_TEXT_NFC_H
#define LS_INPUT_TEXT_NFC_H

#include "input/text/buffers.h"

/* Whether this library is built with it. */
bool lsi_nfc_is_there(void);

/* Appends the normal form of valid UTF-8. */
ls_status lsi_nfc(lsi_text text, lsi_bytes *out);

#endif
