/*
 * Width of text on a terminal: a Chinese character has two columns, a combining
 * mark has none.
 */
#ifndef LS_REPORT_COLUMNS_H
#define LS_REPORT_COLUMNS_H

#include <stddef.h>

/* Columns of the first `bytes` bytes of a UTF-8 text. */
int lsi_columns_of_text(const char *text, size_t bytes);

/*
 * Bytes of the longest beginning of a text that fits into `columns` columns, at
 * least one character. Combining marks on the last character belong to it.
 */
size_t lsi_columns_fitting(const char *text, int columns);

#endif
