/*
 * From the words of a command line to a function.
 */
#include "cli/frame/command.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/printable.h"
#include "base/suggest.h"
#include "cli/frame/words.h"
#include "report/result.h"

enum { NAME_BYTES = 128, MOST_NAMES = 64 };

/* The command that runs, "train lm"; or "". */
static const char *running = "";

int lsi_cli_complain(const char *rank, const char *text)
{
    fprintf(stderr, "lockstep: %s%s%s%s\n", running,
            running[0] != '\0' ? ": " : "", rank, text);
    return LSI_EXIT_ERROR;
}

int lsi_cli_usage(const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    (void)lsi_cli_complain("", lsi_printable_of(text).text);
    return LSI_EXIT_USAGE;
}

int lsi_cli_error(void)
{
    return lsi_cli_complain("", ls_last_error());
}

ls_status lsi_cli_write_table(const lsi_invocation *call,
                              const lsi_table *table, const char *json)
{
    if (json == NULL)
        return LS_OK;
    return lsi_table_json_write(table, call->line_argc,
                                (const char *const *)call->line_argv, json);
}

ls_status lsi_cli_show_table(const lsi_invocation *call, const lsi_table *table,
                             const char *json)
{
    if (!lsi_result_is_stdout(json))
        LS_TRY(lsi_table_print(table, stdout));
    return lsi_cli_write_table(call, table, json);
}

/* "all_reduce" is "all-reduce". */
static bool is_name(const char *typed, const char *name)
{
    while (*name != '\0' &&
           (*typed == *name || (*typed == '_' && *name == '-')))
        typed++, name++;
    return *typed == *name;
}

static const lsi_command *find_child(const lsi_command *parent,
                                     const char *name)
{
    for (size_t i = 0; i < parent->n_children; i++) {
        if (is_name(name, parent->children[i]->name))
            return parent->children[i];
    }
    return NULL;
}

/* "lockstep" or "lockstep bench", to be followed by more. */
static const char *shown_name(const lsi_command *command)
{
    static char text[NAME_BYTES];
    snprintf(text, sizeof(text), "lockstep%s%s",
             command == &lsi_command_root ? "" : " ",
             command == &lsi_command_root ? "" : command->name);
    return text;
}

/* "'lockstep bench ring'", or several such, or the word's. */
static bool suggest(const lsi_command *parent, const lsi_command_word *word,
                    const char *name, char out[LSI_SUGGESTION_BYTES])
{
    char start[NAME_BYTES + 2];
    const char *names[MOST_NAMES];
    size_t n = 0;
    if (word != NULL) {
        snprintf(out, LSI_SUGGESTION_BYTES, "'lockstep %s'", word->instead);
        return true;
    }
    for (; n < parent->n_children && n < MOST_NAMES; n++)
        names[n] = parent->children[n]->name;
    snprintf(start, sizeof(start), "'%s ", shown_name(parent));
    return lsi_suggest(name, strlen(name),
                       &(lsi_known_names){names, n, start, "'"}, out);
}

/* Fails because `name`, a word or a flag, is not a command of `parent`. */
static ls_status fail_unknown(const lsi_command *parent, const char *name)
{
    const bool flag = name[0] == '-';
    const char *const quote = flag ? "" : "'";
    char near[LSI_SUGGESTION_BYTES];
    const lsi_command_word *const word =
        lsi_cli_command_word(parent->name, name);
    const bool is_near = suggest(parent, word, name, near);
    if (word != NULL && word->retired)
        return lsi_fail(LS_ERR_ARGUMENT, "'%s %s' is now %s",
                        shown_name(parent), name, near);
    if (is_near)
        return lsi_fail(LS_ERR_ARGUMENT, "unknown %s %s%s%s; did you mean %s?",
                        flag ? "flag" : "command", quote, name, quote, near);
    return lsi_fail(
        LS_ERR_ARGUMENT, "unknown %s %s%s%s; '%s --help' lists the valid ones",
        flag ? "flag" : "command", quote, name, quote, shown_name(parent));
}

ls_status lsi_cli_find(const lsi_command *root, int argc, char **argv,
                       const lsi_command **out, int *used)
{
    const lsi_command *command = root;
    int next = 0;
    while (command->n_children > 0 && next < argc && argv[next][0] != '-') {
        const lsi_command *child = find_child(command, argv[next]);
        if (child == NULL)
            return fail_unknown(command, argv[next]);
        command = child;
        next++;
    }
    *out = command;
    *used = next;
    return LS_OK;
}

/* Joins the words of a command with blanks; "_" becomes "-". */
static void join(char out[NAME_BYTES], char **words, int n)
{
    out[0] = '\0';
    size_t used = 0;
    for (int i = 0; i < n && used < NAME_BYTES; i++)
        used += (size_t)snprintf(out + used, NAME_BYTES - used, "%s%s",
                                 i == 0 ? "" : " ", words[i]);
    for (char *letter = out; *letter != '\0'; letter++)
        *letter = *letter == '_' ? '-' : *letter;
}

static bool asks_for_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* Whether a command has the flag of a word such as "--lr=1" or "-n2". */
static bool has_flag(const lsi_command *command, const char *word)
{
    const size_t length = strcspn(word, "=");
    for (size_t i = 0; i < command->n_options; i++) {
        const lsi_option *const row = &command->options[i];
        if (word[1] == '-' ? strlen(row->name) + 2 == length &&
                                 strncmp(word + 2, row->name, length - 2) == 0
                           : row->letter == word[1])
            return true;
    }
    return false;
}

/* The first child that has that flag, or NULL. */
static const lsi_command *child_with(const lsi_command *parent,
                                     const char *flag)
{
    for (size_t i = 0; i < parent->n_children; i++)
        if (has_flag(parent->children[i], flag))
            return parent->children[i];
    return NULL;
}

/* "cifar100, images or lm"; of many children, where they are listed. */
static void list_children(const lsi_command *parent, char out[NAME_BYTES])
{
    enum { MOST = 6 };
    size_t used = 0;
    if (parent->n_children > MOST) {
        snprintf(out, NAME_BYTES, "'lockstep %.64s --help' lists them",
                 parent->name);
        return;
    }
    for (size_t i = 0; i < parent->n_children && used < NAME_BYTES; i++)
        used += (size_t)snprintf(out + used, NAME_BYTES - used, "%s%s",
                                 i == 0                        ? ""
                                 : i + 1 == parent->n_children ? " or "
                                                               : ", ",
                                 parent->children[i]->name);
}

/* words[0] is a flag in the place of a group's sub-command. */
static ls_status fail_early_flag(const lsi_command *group, char **words)
{
    char names[NAME_BYTES];
    const lsi_command *const child = child_with(group, words[0]);
    const bool valued = words[1] != NULL && words[1][0] != '-';
    if (group == &lsi_command_root)
        return fail_unknown(group, words[0]);
    list_children(group, names);
    if (child == NULL)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "%s: name a sub-command (%s) before the flag %s",
                        group->name, names, words[0]);
    return lsi_fail(LS_ERR_ARGUMENT,
                    "%s: name a sub-command (%s) before the flag %s; for "
                    "example 'lockstep %s %s %s%s%s'",
                    group->name, names, words[0], group->name, child->name,
                    words[0], valued ? " " : "", valued ? words[1] : "");
}

/* Handles a command line that names a group without a sub-command. */
static int group_alone(const lsi_command *command, const char *name,
                       char **words)
{
    if (words[0] == NULL && command != &lsi_command_root) {
        lsi_cli_help(stderr, command, name);
        return LSI_EXIT_USAGE;
    }
    if (words[0] == NULL || asks_for_help(words[0])) {
        lsi_cli_help(stdout, command, name);
        return 0;
    }
    fail_early_flag(command, words);
    return lsi_cli_usage("%s", ls_last_error());
}

/* Passes a copy of argv: ranks are started with the original. */
static int run_command(const lsi_command *command, char *name, int used,
                       int argc, char **argv)
{
    char **words = calloc((size_t)(argc - used) + 1, sizeof(char *));
    if (words == NULL)
        return lsi_cli_usage("not enough memory for the command line");
    words[0] = name;
    for (int i = 1; i < argc - used; i++)
        words[i] = argv[used + i];
    const lsi_invocation call = {
        .command = command,
        .argc = argc - used,
        .argv = words,
        .line_argc = argc,
        .line_argv = argv,
    };
    running = name;
    const int status = command->run(&call);
    running = "";
    free(words);
    return status;
}

int lsi_cli_dispatch(int argc, char **argv)
{
    const lsi_command *command = &lsi_command_root;
    int used = 0;
    char name[NAME_BYTES];
    /* --version and -V are usual flags of other programs. */
    static char version[] = "version";
    if (argc > 1 &&
        (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0))
        argv[1] = version;
    if (lsi_cli_find(&lsi_command_root, argc - 1, argv + 1, &command, &used) !=
        LS_OK)
        return lsi_cli_usage("%s", ls_last_error());
    join(name, argv + 1, used);
    if (command->run == NULL)
        return group_alone(command, name, argv + 1 + used);
    return run_command(command, name, used, argc, argv);
}

/* Chooses the form of tables by the parsed flag of LSI_MARKDOWN_ROW. */
static void choose_tables(const lsi_command *command, const void *flags)
{
    for (size_t i = 0; i < command->n_options; i++) {
        const lsi_option *const row = &command->options[i];
        bool markdown;
        if (row->type != LSI_OPTION_BOOL || strcmp(row->name, "markdown") != 0)
            continue;
        memcpy(&markdown, (const char *)flags + row->offset, sizeof(markdown));
        lsi_tables_use_markdown(markdown);
    }
}

bool lsi_cli_parse(const lsi_invocation *call, void *out, int *rest,
                   int *exit_status)
{
    const lsi_command *command = call->command;
    bool help = false;
    lsi_option_set set = {.rows = command->options, .n = command->n_options};
    set.words = lsi_cli_flag_words(&set.n_words);
    if (lsi_options_parse(&set, call->argc, call->argv, out, rest, &help) !=
        LS_OK) {
        /* The message has the name of the command already. */
        running = "";
        *exit_status = lsi_cli_usage("%s", ls_last_error());
        return false;
    }
    if (help) {
        lsi_cli_help(stdout, command, call->argv[0]);
        *exit_status = 0;
        return false;
    }
    choose_tables(command, out);
    return true;
}

/* Removes and returns an argument in front of the flags; NULL: none. */
static const char *leading_argument(lsi_invocation *call)
{
    if (call->argc < 2 || call->argv[1][0] == '-')
        return NULL;
    const char *const argument = call->argv[1];
    call->argv[1] = call->argv[0];
    call->argv++;
    call->argc--;
    return argument;
}

bool lsi_cli_parse_argument(const lsi_invocation *call, void *out,
                            const char **argument, int *exit_status)
{
    int rest;
    lsi_invocation flags = *call;
    *argument = leading_argument(&flags);
    if (!lsi_cli_parse(&flags, out, &rest, exit_status))
        return false;
    if (*argument == NULL && rest < flags.argc)
        *argument = flags.argv[rest++];
    if (rest != flags.argc)
        *argument = NULL;
    return true;
}

/* The number of words from `at` on that are not flags. */
static int count_arguments(const lsi_invocation *call, int at)
{
    if (at >= call->argc || strcmp(call->argv[at - 1], "--") == 0)
        return call->argc - at;
    int n = 1;
    while (at + n < call->argc && call->argv[at + n][0] != '-')
        n++;
    return n;
}

/* Parses the remaining words, and removes the next arguments from them. */
static bool extract_arguments(lsi_invocation *flags, void *out,
                              lsi_arguments *arguments, int *exit_status)
{
    int rest, n;
    do {
        if (!lsi_cli_parse(flags, out, &rest, exit_status))
            return false;
        n = count_arguments(flags, rest);
        memcpy(arguments->all + arguments->n, flags->argv + rest,
               (size_t)n * sizeof(char *));
        memmove(flags->argv + rest, flags->argv + rest + n,
                (size_t)(flags->argc - rest - n) * sizeof(char *));
        arguments->n += n;
        flags->argc -= n;
    } while (n > 0);
    return true;
}

bool lsi_cli_parse_arguments(const lsi_invocation *call, void *out,
                             lsi_arguments *arguments, int *exit_status)
{
    const size_t n = (size_t)call->argc;
    lsi_invocation flags = *call;
    *arguments = (lsi_arguments){0};
    if (lsi_alloc(&arguments->all, 2 * n * sizeof(char *), LS_MEMORY_OTHER,
                  "the arguments") != LS_OK) {
        *exit_status = lsi_cli_error();
        return false;
    }
    flags.argv = arguments->all + n;
    memcpy(flags.argv, call->argv, n * sizeof(char *));
    if (extract_arguments(&flags, out, arguments, exit_status))
        return true;
    lsi_free(arguments->all);
    return false;
}
