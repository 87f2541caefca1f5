/*
 * Typed command-line options. A command describes its flags as rows; parsing,
 * checking, help and the documentation come from the rows.
 *
 *     struct args { int64_t epochs; const char *data; };
 *     #define ROW(...) LSI_OPTION(struct args, __VA_ARGS__)
 *     static const lsi_option rows[] = {
 *         ROW(epochs, INT, "epochs", 'e', "N", "10", "passes over the data",
 *             .min = 1, .max = 1e6),
 *         ROW(data, STRING, "data", 0, "PATH", NULL, "folder or archive"),
 *     };
 *
 * Flags are --name VALUE or --name=VALUE, -x VALUE for a one-letter name;
 * BOOL flags take no value and are negated by --no-name; MODE and OUTPUT flags
 * take one after '=' only and can do without.
 */
#ifndef LS_BASE_OPTIONS_H
#define LS_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lockstep/status.h"

typedef enum lsi_option_type {
    LSI_OPTION_BOOL,   /* bool */
    LSI_OPTION_INT,    /* int64_t; min..max, or LSI_OPTION_WORD for one of
                          `choices` in place of a number */
    LSI_OPTION_BYTES,  /* int64_t; a size as of lsi_parse_bytes */
    LSI_OPTION_REAL,   /* double; min..max */
    LSI_OPTION_STRING, /* const char * into argv or the default */
    LSI_OPTION_CHOICE, /* const char *; one of `choices`, "a|b|c" */
    LSI_OPTION_DTYPE, /* the same of types: ls_dtype_name of any of its names */
    LSI_OPTION_MODE,  /* the same; --name alone is the default, --no-name the
                         last choice */
    LSI_OPTION_OUTPUT, /* const char *; --name=FILE, or --name alone: "-" */
    LSI_OPTION_LIST,   /* const char *; comma-separated, checked by the user */
    LSI_OPTION_TEXTS   /* lsi_option_texts; the flag may be repeated */
} lsi_option_type;

/* Of a flag that is given once for each, in that order. */
enum { LSI_OPTION_TEXTS_MOST = 256 };
typedef struct lsi_option_texts {
    size_t n;
    const char *all[LSI_OPTION_TEXTS_MOST]; /* into argv */
} lsi_option_texts;

enum { LSI_OPTION_WORD = -1 };

typedef struct lsi_option {
    const char *name;
    char letter; /* or 0 */
    lsi_option_type type;
    size_t offset;             /* of the field */
    const char *value;         /* placeholder in help: "N", "PATH" */
    const char *default_value; /* as text; NULL: 0, false, NULL, no texts */
    double unset; /* of an INT or REAL without a default: instead of 0 */
    const char *help;
    double min, max; /* INT, BYTES, REAL; both 0: unchecked */
    const char *choices;
} lsi_option;

#define LSI_OPTION(type_, field_, kind_, name_, letter_, value_, default_,     \
                   help_, ...)                                                 \
    {                                                                          \
        .name = (name_), .letter = (letter_), .type = LSI_OPTION_##kind_,      \
        .offset = offsetof(type_, field_), .value = (value_),                  \
        .default_value = (default_), .help = (help_), __VA_ARGS__              \
    }

/*
 * A flag as other programs call it, or as this one did: what to say to it.
 */
typedef struct lsi_option_word {
    const char *command; /* whose flag; NULL: of every command */
    const char *typed;   /* "--epochs", "-t"; "": an argument, not a flag */
    /* "--lr", "--dtype bf16", or a clause, such as "train lm counts --steps".
       Rows without one of its flags skip the word. */
    const char *instead;
    bool retired; /* an older name of the same */
} lsi_option_word;

/* The description of a command line. */
typedef struct lsi_option_set {
    const lsi_option *rows;
    size_t n;
    const lsi_option_word *words; /* the first that fits is said */
    size_t n_words;
} lsi_option_set;

/*
 * Fills `out` with the defaults and then from argv[1..argc-1] (argv[0] names
 * the command in errors). *rest gets the index of the first argument that is
 * not a flag, or of the one after "--"; pass NULL to make such arguments
 * errors. LS_ERR_ARGUMENT names the flag, the fault and a right value; an
 * unknown flag names one of the set's words, or the nearest flags. --help and
 * -h set *help. Choices are read without regard to case; one that differs in it
 * is changed in argv.
 */
ls_status lsi_options_parse(const lsi_option_set *set, int argc, char **argv,
                            void *out, int *rest, bool *help);

/* Whether a flag's value, which may be left out, follows a "=": MODE, OUTPUT.
 */
bool lsi_option_attaches(const lsi_option *row);

/*
 * The error that lsi_options_parse makes of `argument`, "--name", if no row has
 * it; `command` is what would be argv[0].
 */
ls_status lsi_options_unknown(const lsi_option_set *set, const char *command,
                              const char *argument);

/* Whether the next word is never a flag's value: BOOL, MODE and OUTPUT. */
bool lsi_option_stands_alone(const lsi_option *row);

/* Prints the rows, a line or two each, with defaults. */
void lsi_options_help(FILE *stream, const lsi_option *rows, size_t n);

/* Parses a value of an INT; `shown` is the flag in errors, "--epochs". */
ls_status lsi_option_int(const lsi_option *row, const char *shown,
                         const char *text, int64_t *out);

/*
 * Parses a size to bytes: 512; 4k, 10m, 1g or 4KiB, 10MiB, 1GiB in powers of
 * 1024; 4kB, 10MB, 1GB in powers of 1000. Case does not count.
 */
ls_status lsi_parse_bytes(const char *text, int64_t *out);

#endif
