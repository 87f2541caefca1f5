/*
 * The help text of options: flags on the left, wrapped help on the right.
 */
#include "base/options.h"

#include <string.h>

enum { LEFT_WIDTH = 28, LINE_WIDTH = 79, TEXT_BYTES = 512 };

static void print_left(FILE *stream, const lsi_option *row)
{
    char left[TEXT_BYTES];
    int used = row->letter
                   ? snprintf(left, sizeof(left), "  -%c, --%s", row->letter,
                              row->name)
                   : snprintf(left, sizeof(left), "      --%s", row->name);
    if (lsi_option_attaches(row))
        used += snprintf(left + used, sizeof(left) - (size_t)used, "[=%s]",
                         row->value);
    else if (row->type != LSI_OPTION_BOOL && row->value != NULL)
        used +=
            snprintf(left + used, sizeof(left) - (size_t)used, " %s%s",
                     row->value, row->type == LSI_OPTION_TEXTS ? " ..." : "");
    if (used >= LEFT_WIDTH)
        fprintf(stream, "%s\n%*s", left, LEFT_WIDTH, "");
    else
        fprintf(stream, "%-*s", LEFT_WIDTH, left);
}

/* Length of the next word. A word longer than a line is broken after a '|'. */
static size_t word_length(const char *text)
{
    enum { MOST = LINE_WIDTH - LEFT_WIDTH };
    size_t length = strcspn(text, " ");
    if (length > MOST) {
        length = MOST;
        while (length > 1 && text[length - 1] != '|')
            length--;
    }
    return length > 1 ? length : strcspn(text, " ");
}

/* Words of `text` from column LEFT_WIDTH on, then a line break. */
static void print_wrapped(FILE *stream, const char *text)
{
    size_t column = LEFT_WIDTH;
    while (*text != '\0') {
        const size_t length = word_length(text);
        const bool first = column == LEFT_WIDTH;
        if (!first && column + 1 + length > LINE_WIDTH) {
            fprintf(stream, "\n%*s", LEFT_WIDTH, "");
            column = LEFT_WIDTH;
        } else if (!first) {
            fputc(' ', stream);
            column++;
        }
        fwrite(text, 1, length, stream);
        column += length;
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', stream);
}

static void print_row(FILE *stream, const lsi_option *row)
{
    char text[TEXT_BYTES];
    const char *default_text = row->default_value;
    const bool on = default_text != NULL && strcmp(default_text, "true") == 0;
    size_t used = (size_t)snprintf(text, sizeof(text), "%s", row->help);
    if (row->choices != NULL && row->type != LSI_OPTION_INT &&
        used < sizeof(text))
        used += (size_t)snprintf(text + used, sizeof(text) - used, ": %s",
                                 row->choices);
    if (row->type == LSI_OPTION_BOOL && on && used < sizeof(text))
        snprintf(text + used, sizeof(text) - used, " (on; --no-%s)", row->name);
    else if (row->type != LSI_OPTION_BOOL && default_text != NULL &&
             used < sizeof(text))
        snprintf(text + used, sizeof(text) - used, " (default %s)",
                 default_text);
    print_left(stream, row);
    print_wrapped(stream, text);
}

void lsi_options_help(FILE *stream, const lsi_option *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        print_row(stream, &rows[i]);
    fprintf(stream, "%-*sthis text\n", LEFT_WIDTH, "      --help");
}
