/*
 * A text is written in one piece, since other ranks may write to the stream,
 * too.
 */
#include "report/paragraph.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "report/progress.h"

/* A line break replaces a blank, or adds two bytes. */
enum { MOST_BYTES = 2048, MOST_ADDED = 2 * MOST_BYTES };

typedef struct lines {
    char text[MOST_BYTES + MOST_ADDED];
    size_t used, column;
} lines;

static void add(lines *out, const char *text, size_t length)
{
    if (length > sizeof(out->text) - out->used)
        length = sizeof(out->text) - out->used;
    memcpy(out->text + out->used, text, length);
    out->used += length;
    out->column += length;
}

static void end_line(lines *out, const char *end)
{
    add(out, end, strlen(end));
    out->column = 0;
}

/* Adds a piece, on the next line if it would exceed the width. */
static void add_piece(lines *out, const char *piece, size_t length,
                      size_t width, const char *end)
{
    if (out->column > 0 && out->column + 1 + length > width)
        end_line(out, end);
    else if (out->column > 0)
        add(out, " ", 1);
    add(out, piece, length);
}

static void write_out(FILE *stream, lines *out)
{
    end_line(out, "\n");
    fwrite(out->text, 1, out->used, stream);
}

static size_t width_of(FILE *stream)
{
    return (size_t)lsi_terminal_width(stream);
}

static void add_words(lines *out, const char *text, size_t width)
{
    while (*text != '\0') {
        const size_t length = strcspn(text, " ");
        add_piece(out, text, length, width, "\n");
        text += length;
        text += strspn(text, " ");
    }
}

void lsi_paragraph(FILE *stream, const char *format, ...)
{
    char text[MOST_BYTES];
    lines out = {.used = 0};
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (isatty(fileno(stream)))
        add_words(&out, text, width_of(stream));
    else
        add(&out, text, strlen(text));
    write_out(stream, &out);
}

/* The bytes up to the next flag, without the blank before it. */
static size_t flag_length(const char *text)
{
    const char *const next = strstr(text, " -");
    return next != NULL ? (size_t)(next - text) : strlen(text);
}

void lsi_paragraph_of_flags(FILE *stream, const char *text)
{
    static const char end[] = " \\\n"; /* two columns */
    lines out = {.used = 0};
    const size_t width =
        isatty(fileno(stream)) ? width_of(stream) : sizeof(out.text);
    while (*text != '\0') {
        const size_t length = flag_length(text);
        add_piece(&out, text, length, width > 2 ? width - 2 : 1, end);
        text += length;
        text += *text == ' ';
    }
    write_out(stream, &out);
}
