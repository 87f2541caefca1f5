/*
 * lockstep help [COMMAND...], and the whole of it as Markdown, from which
 * docs/reference/commands.md is made.
 */
#include <stdio.h>

#include "cli/frame/command.h"
#include "cli/frame/man.h"

typedef struct args {
    bool markdown;
    const char *man;
} args;

#define ROW(...) LSI_OPTION(args, __VA_ARGS__)
static const lsi_option options[] = {
    ROW(markdown, BOOL, "markdown", 0, NULL, NULL,
        "print the help of every command as Markdown "
        "(docs/reference/commands.md)"),
    ROW(man, STRING, "man", 0, "DIR", NULL,
        "write a manual page of every command into this folder"),
};

static void print_markdown(const lsi_command *command, const char *name)
{
    printf("\n## lockstep%s%s\n\n```\n", name[0] ? " " : "", name);
    lsi_cli_help(stdout, command, name);
    puts("```");
    for (size_t i = 0; i < command->n_children; i++) {
        char child[128];
        snprintf(child, sizeof(child), "%s%s%s", name, name[0] ? " " : "",
                 command->children[i]->name);
        print_markdown(command->children[i], child);
    }
}

static int print_help_of(int argc, char **words)
{
    const lsi_command *command;
    int used;
    char name[256] = "";
    if (lsi_cli_find(&lsi_command_root, argc, words, &command, &used) != LS_OK)
        return lsi_cli_usage("%s", ls_last_error());
    if (used < argc)
        return lsi_cli_usage("unexpected argument '%s'", words[used]);
    size_t length = 0;
    for (int i = 0; i < used && length < sizeof(name); i++)
        length += (size_t)snprintf(name + length, sizeof(name) - length, "%s%s",
                                   i > 0 ? " " : "", words[i]);
    lsi_cli_help(stdout, command, name);
    return 0;
}

static int run_help(const lsi_invocation *call)
{
    args a;
    int rest;
    int status;
    if (!lsi_cli_parse(call, &a, &rest, &status))
        return status;
    if (a.man != NULL)
        return lsi_man_write(&lsi_command_root, a.man) == LS_OK
                   ? 0
                   : lsi_cli_error();
    if (!a.markdown)
        return print_help_of(call->argc - rest, call->argv + rest);
    puts("# The command line\n\nMade by `lockstep help --markdown`; a test "
         "fails when this page is out of date.");
    print_markdown(&lsi_command_root, "");
    return 0;
}

const lsi_command lsi_command_help = {
    .name = "help",
    .summary = "Show the help of a command",
    .arguments = "[COMMAND...]",
    LSI_COMMAND_OPTIONS(options),
    .run = run_help,
};
