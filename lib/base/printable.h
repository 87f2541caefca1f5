/*
 * Text for people: names of files and classes may hold any byte, and a terminal
 * obeys escape sequences.
 */
#ifndef LS_BASE_PRINTABLE_H
#define LS_BASE_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Writes text as valid UTF-8 without control characters: these, and bytes that
 * are not UTF-8, become \xNN. Ends with the last character that fits.
 */
void lsi_printable(char *out, size_t room, const char *text);

/* The same of a text of several lines, whose ends stay. False: it was cut. */
bool lsi_printable_lines(char *out, size_t room, const char *text);

/* The same of a name in a message. */
typedef struct lsi_printable_name {
    char text[1024];
} lsi_printable_name;
lsi_printable_name lsi_printable_of(const char *name);

#endif
