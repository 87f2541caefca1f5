#include "report/paragraph.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "report/progress.h"

enum { MOST_BYTES = 2048 };

static void print_wrapped(FILE *stream, const char *text, size_t width)
{
    size_t column = 0;
    while (*text != '\0') {
        const size_t length = strcspn(text, " ");
        if (column > 0 && column + 1 + length > width) {
            fputc('\n', stream);
            column = 0;
        } else if (column > 0) {
            fputc(' ', stream);
            column++;
        }
        fwrite(text, 1, length, stream);
        column += length;
        text += length;
        text += strspn(text, " ");
    }
}

void lsi_paragraph(FILE *stream, const char *format, ...)
{
    char text[MOST_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (isatty(fileno(stream)))
        print_wrapped(stream, text, (size_t)lsi_terminal_width(stream));
    else
        fputs(text, stream);
    fputc('\n', stream);
}
