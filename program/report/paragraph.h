/* Sentences and command lines, wrapped to the width of a terminal. */
#ifndef LS_REPORT_PARAGRAPH_H
#define LS_REPORT_PARAGRAPH_H

#include <stdio.h>

/*
 * Prints a text and a line break; the text may begin and end with further
 * breaks. On a terminal, lines are wrapped at blanks to its width.
 */
void lsi_paragraph(FILE *stream, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Prints flags, such as "recipe: --lr 1 --seed 2", and a line break. On a
 * terminal, a line ends after a flag's value and with " \\", so that a shell
 * reads the lines as one.
 */
void lsi_paragraph_of_flags(FILE *stream, const char *text);

#endif
