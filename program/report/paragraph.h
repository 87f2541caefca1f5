/*
 * Sentences on standard output.
 */
#ifndef LS_REPORT_PARAGRAPH_H
#define LS_REPORT_PARAGRAPH_H

#include <stdio.h>

/*
 * Prints a text and a line break; more breaks may stand at its beginning and
 * end. On a terminal lines are broken at blanks, so that they fit its width.
 */
void lsi_paragraph(FILE *stream, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
