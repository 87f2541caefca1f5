/*
 * How wide text is on a terminal: a Chinese character takes two columns, a
 * combining mark none.
 */
#ifndef LS_REPORT_COLUMNS_H
#define LS_REPORT_COLUMNS_H

#include <stddef.h>

/* Columns of the first bytes of a text, which are UTF-8. */
int lsi_columns_of_text(const char *text, size_t bytes);

/*
 * Bytes of the longest beginning of a text that fits into so many columns, but
 * of one character at least; marks on the last character belong to it.
 */
size_t lsi_columns_fitting(const char *text, int columns);

#endif
