/* Sizes in bytes in readable form. */
#ifndef LS_REPORT_SIZE_TEXT_H
#define LS_REPORT_SIZE_TEXT_H

#include <stdint.h>

enum { LSI_SIZE_TEXT = 24 };

/* "64 GiB", "1.5 GiB", "512 KiB". */
void lsi_size_text(char out[LSI_SIZE_TEXT], uint64_t bytes);

#endif
