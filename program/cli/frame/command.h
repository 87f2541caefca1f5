/*
 * Commands form a tree: `lockstep bench all-reduce` is the child "all-reduce"
 * of the child "bench" of the root. A command describes itself by one
 * constant, from which dispatch, help and docs/reference/commands.md come.
 */
#ifndef LS_CLI_FRAME_COMMAND_H
#define LS_CLI_FRAME_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/options.h"
#include "launch/exit_status.h"
#include "lockstep/status.h"
#include "report/table.h"

typedef struct lsi_command lsi_command;

/* One use of a command. */
typedef struct lsi_invocation {
    const lsi_command *command;
    int argc;
    char **argv; /* the command's words; argv[0]: "bench all-reduce" */
    int line_argc;
    char **line_argv;              /* the words of the whole command line */
    struct lsi_audit_check *check; /* of `audit verify`; else NULL */
} lsi_invocation;

struct lsi_command {
    const char *name;
    const char *summary;   /* one line, no full stop */
    const char *arguments; /* after the flags in the usage; or NULL */
    const char *text;      /* further text of the help; or NULL */
    const lsi_option *options;
    size_t n_options;
    int (*run)(const lsi_invocation *call); /* returns the exit status */
    const lsi_command *const *children;     /* then run is NULL */
    size_t n_children;
};

/* The members of a command for an array of options, or of children. */
#define LSI_COMMAND_OPTIONS(array)                                             \
    .options = (array), .n_options = sizeof(array) / sizeof((array)[0])
#define LSI_COMMAND_CHILDREN(array)                                            \
    .children = (array), .n_children = sizeof(array) / sizeof((array)[0])

/* The program itself: its children are the rows of commands.def. */
extern const lsi_command lsi_command_root;

/* Finds the command that a command line names, and runs it. */
int lsi_cli_dispatch(int argc, char **argv);

/*
 * The child that argv[0] names, its child that argv[1] names, ...: *used is the
 * number of words used. LS_ERR_ARGUMENT names the nearest one there is.
 */
ls_status lsi_cli_find(const lsi_command *root, int argc, char **argv,
                       const lsi_command **out, int *used);

/*
 * Parses a call's flags into the command's struct. false: do no more, the exit
 * status is in *exit_status (help or an error was printed).
 */
bool lsi_cli_parse(const lsi_invocation *call, void *out, int *rest,
                   int *exit_status);

/*
 * As lsi_cli_parse, for a command with one argument before or after its flags.
 * *argument is NULL without one, or with several.
 */
bool lsi_cli_parse_argument(const lsi_invocation *call, void *out,
                            const char **argument, int *exit_status);

/*
 * As lsi_cli_parse, for a command with any number of arguments before, between
 * or after its flags. All words after "--" are arguments. If it returns true,
 * `all` is to be freed (lsi_free).
 */
typedef struct lsi_arguments {
    char **all;
    int n;
} lsi_arguments;
bool lsi_cli_parse_arguments(const lsi_invocation *call, void *out,
                             lsi_arguments *arguments, int *exit_status);

/* The help text; `name` is the full name, "" for the program itself. */
void lsi_cli_help(FILE *stream, const lsi_command *command, const char *name);

/* The row of --json, of every command that has it. */
#define LSI_JSON_HELP                                                          \
    "write the result as JSON to FILE; without FILE, print the JSON instead "  \
    "of the text"
#define LSI_JSON_ROW(field)                                                    \
    ROW(field, OUTPUT, "json", 0, "FILE", NULL, LSI_JSON_HELP)

/*
 * The row of --markdown, for every command that prints tables; lsi_cli_parse
 * applies it.
 */
#define LSI_MARKDOWN_ROW(field)                                                \
    ROW(field, BOOL, "markdown", 0, NULL, NULL,                                \
        "print tables as Markdown even on a terminal (default: aligned text "  \
        "on a terminal, Markdown elsewhere)")

/* The row of --verify-data, of every command that reads images. */
#define LSI_VERIFY_DATA_ROW(field)                                             \
    ROW(field, BOOL, "verify-data", 0, NULL, "true",                           \
        "verify the CRC-32 checksums in an .npz file; one rank of each node "  \
        "does this (docs/how-to/data.md)")

/* The help of --trace and --record-memory. */
#define LSI_TRACE_HELP                                                         \
    "record a trace of each rank in DIR, for `lockstep trace` and `lockstep "  \
    "profile`"
#define LSI_RECORD_MEMORY_HELP                                                 \
    "record the memory of each rank in DIR, for `lockstep memory`"

/* Writes a table as JSON with the whole command line; nothing without a path.
 */
ls_status lsi_cli_write_table(const lsi_invocation *call,
                              const lsi_table *table, const char *json);

/* The same after printing it, unless the JSON goes to standard output. */
ls_status lsi_cli_show_table(const lsi_invocation *call, const lsi_table *table,
                             const char *json);

/*
 * Prints "lockstep: COMMAND: text" on stderr, with the command that runs; with
 * `rank` before the text, "rank 3: " or "". The text is printable
 * (base/printable.h), as ls_last_error() is, and may have several lines.
 * Returns LSI_EXIT_ERROR.
 */
int lsi_cli_complain(const char *rank, const char *text);

/* Prints the error of a wrong command line; returns LSI_EXIT_USAGE. */
int lsi_cli_usage(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* Prints the error of ls_last_error(). See also ranks.h. */
int lsi_cli_error(void);

#endif
