/*
 * Printing past the buffer of stdio, which every process has for itself.
 */
#include "cli/commands/print.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "report/result.h"

ls_status lsi_print_now(const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return lsi_write_all(STDOUT_FILENO, text, strlen(text), "standard output");
}
