/*
 * Sentences and command lines on a terminal, which has a width, and elsewhere.
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

/*
 * Prints flags, "recipe: --lr 1 --seed 2", and a line break. On a terminal a
 * line ends after a flag's value and with " \\", so that a shell reads the
 * lines as one.
 */
void lsi_paragraph_of_flags(FILE *stream, const char *text);

#endif
