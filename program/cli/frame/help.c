/*
 * Help texts, from the constants by which commands describe themselves.
 */
#include <string.h>

#include "cli/frame/command.h"

enum { LINE_WIDTH = 79 };

/* Words wrapped to lines; an empty line stays one. */
static void print_paragraphs(FILE *stream, const char *text)
{
    size_t column = 0;
    while (*text != '\0') {
        const size_t length = strcspn(text, " \n");
        if (column > 0 && column + 1 + length > LINE_WIDTH) {
            fputc('\n', stream);
            column = 0;
        }
        if (length > 0)
            column += (size_t)fprintf(stream, "%s%.*s", column > 0 ? " " : "",
                                      (int)length, text);
        text += length;
        if (*text == '\n') {
            fputc('\n', stream);
            column = 0;
        }
        text += *text != '\0';
    }
    fputc('\n', stream);
}

static void print_usage(FILE *stream, const lsi_command *command,
                        const char *name)
{
    fprintf(stream, "usage: lockstep%s%s", name[0] ? " " : "", name);
    if (command->n_children > 0)
        fputs(" COMMAND", stream);
    fputs(" [FLAGS]", stream);
    if (command->arguments != NULL)
        fprintf(stream, " %s", command->arguments);
    fputs("\n\n", stream);
}

static void print_children(FILE *stream, const lsi_command *command)
{
    int width = 0;
    for (size_t i = 0; i < command->n_children; i++) {
        const int length = (int)strlen(command->children[i]->name);
        width = length > width ? length : width;
    }
    fputs("\nCommands:\n", stream);
    for (size_t i = 0; i < command->n_children; i++)
        fprintf(stream, "  %-*s  %s\n", width, command->children[i]->name,
                command->children[i]->summary);
}

void lsi_cli_help(FILE *stream, const lsi_command *command, const char *name)
{
    print_usage(stream, command, name);
    fprintf(stream, "%s.\n", command->summary);
    if (command->text != NULL) {
        fputc('\n', stream);
        print_paragraphs(stream, command->text);
    }
    if (command->n_children > 0)
        print_children(stream, command);
    if (command->n_children == 0) {
        fputs("\nFlags:\n", stream);
        lsi_options_help(stream, command->options, command->n_options);
    }
    if (command->n_children > 0)
        fprintf(stream,
                "\n'lockstep help%s%s COMMAND' shows the help of a command.\n",
                name[0] ? " " : "", name);
}
