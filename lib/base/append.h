/* Texts in arrays of a fixed size. */
#ifndef LS_BASE_APPEND_H
#define LS_BASE_APPEND_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Appends to the text in an array of `room` bytes; what does not fit is cut. */
__attribute__((format(printf, 3, 4))) static inline void
lsi_append(char *text, size_t room, const char *format, ...)
{
    const size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, room - used, format, args);
    va_end(args);
}

#endif
