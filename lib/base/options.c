/*
 * Parsing of typed options. The arguments are gone through twice: first only
 * checked, then stored, so that a bad command line leaves nothing half written.
 */
#include "base/options.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/suggest.h"
#include "lockstep/types.h"

enum { NAME_BYTES = 64, MOST_NAMES = 256 };

/* One pass over argv. */
typedef struct scan {
    const lsi_option_set *set;
    int argc, next; /* next: index of the argument to look at */
    char **argv;
    char *out;    /* NULL: check only */
    size_t texts; /* of all flags that may be repeated */
} scan;

/* A flag as it was given, for messages: "--epochs" or "-e". */
typedef struct flag {
    const lsi_option *row;
    char shown[NAME_BYTES + 3];
    const char *value; /* after '=' or the letter; NULL: the next argument */
    bool negated;
} flag;

static ls_status check_range(const lsi_option *row, const char *shown,
                             const char *text, double value)
{
    if ((row->min == 0 && row->max == 0) ||
        (value >= row->min && value <= row->max))
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT, "%s %s is out of range: %.15g to %.15g",
                    shown, text, row->min, row->max);
}

/* The choice that equals the text without regard to case, or NULL. */
static const char *find_choice(const lsi_option *row, const char *text)
{
    const size_t length = strlen(text);
    for (const char *choice = row->choices; choice != NULL;) {
        const char *end = strchrnul(choice, '|');
        if ((size_t)(end - choice) == length &&
            strncasecmp(choice, text, length) == 0)
            return choice;
        choice = *end == '\0' ? NULL : end + 1;
    }
    return NULL;
}

static ls_status fail_int(const lsi_option *row, const char *shown,
                          const char *text)
{
    if (row->choices == NULL)
        return lsi_fail(LS_ERR_ARGUMENT, "%s '%s' is not a whole number", shown,
                        text);
    return lsi_fail(LS_ERR_ARGUMENT,
                    "%s '%s' is neither a whole number nor one of %s", shown,
                    text, row->choices);
}

ls_status lsi_option_int(const lsi_option *row, const char *shown,
                         const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (find_choice(row, text) != NULL) {
        *out = LSI_OPTION_WORD;
        return LS_OK;
    }
    if (end == text || *end != '\0')
        return fail_int(row, shown, text);
    if (errno == ERANGE)
        return lsi_fail(LS_ERR_ARGUMENT, "%s %s does not fit into 64 bits",
                        shown, text);
    LS_TRY(check_range(row, shown, text, (double)value));
    *out = value;
    return LS_OK;
}

static ls_status parse_real(const lsi_option *row, const char *shown,
                            const char *text, double *out)
{
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value))
        return lsi_fail(LS_ERR_ARGUMENT, "%s '%s' is not a finite number",
                        shown, text);
    LS_TRY(check_range(row, shown, text, value));
    *out = value;
    return LS_OK;
}

/* Bytes of a unit: k and KiB are 1024, kB is 1000. 0: not a unit. */
static int64_t bytes_of_unit(const char *unit)
{
    static const char letters[] = "kmg";
    if (unit[0] == '\0' || strcasecmp(unit, "b") == 0)
        return 1;
    const char *const letter = strchr(letters, unit[0] | 0x20);
    const bool decimal = strcasecmp(unit + 1, "b") == 0;
    if (letter == NULL ||
        (unit[1] != '\0' && !decimal && strcasecmp(unit + 1, "ib") != 0))
        return 0;
    int64_t bytes = 1;
    for (const char *l = letters; l <= letter; l++)
        bytes *= decimal ? 1000 : 1024;
    return bytes;
}

ls_status lsi_parse_bytes(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    const long long count = strtoll(text, &end, 10);
    const int64_t unit = bytes_of_unit(end);
    int64_t bytes;
    if (end == text || unit == 0 || count < 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "'%s' is not a size such as 512, 4k, 10m, 1g, 4KiB "
                        "(4096) or 4kB (4000)",
                        text);
    if (errno == ERANGE || __builtin_mul_overflow(count, unit, &bytes))
        return lsi_fail(LS_ERR_ARGUMENT, "%s does not fit into 64 bits", text);
    *out = bytes;
    return LS_OK;
}

static ls_status parse_size(const lsi_option *row, const char *shown,
                            const char *text, int64_t *out)
{
    int64_t value;
    if (lsi_parse_bytes(text, &value) != LS_OK)
        return lsi_fail(LS_ERR_ARGUMENT, "%s: %s", shown, ls_last_error());
    LS_TRY(check_range(row, shown, text, (double)value));
    *out = value;
    return LS_OK;
}

static ls_status fail_choice(const lsi_option *row, const char *shown,
                             const char *text)
{
    enum { MOST_BYTES = 512, MOST_CHOICES = 32 };
    char copy[MOST_BYTES], near[LSI_SUGGESTION_BYTES];
    const char *choices[MOST_CHOICES];
    size_t n = 0;
    char *left = copy;
    snprintf(copy, sizeof(copy), "%s", row->choices);
    while (left != NULL && n < MOST_CHOICES)
        choices[n++] = strsep(&left, "|");
    const bool is_near = lsi_suggest(
        text, strlen(text), &(lsi_known_names){choices, n, "", ""}, near);
    return lsi_fail(LS_ERR_ARGUMENT, "%s '%s' is not one of %s%s%s%s", shown,
                    text, row->choices, is_near ? "; did you mean " : "",
                    is_near ? near : "", is_near ? "?" : "");
}

/* Gives a word of argv the choice's spelling; defaults have it. */
static ls_status read_choice(const lsi_option *row, const char *shown,
                             const char *text)
{
    const char *const choice = find_choice(row, text);
    const size_t length = strlen(text);
    if (choice == NULL)
        return fail_choice(row, shown, text);
    if (strncmp(choice, text, length) != 0)
        memcpy((char *)(uintptr_t)text, choice, length);
    return LS_OK;
}

static ls_status read_dtype(const lsi_option *row, const char *shown,
                            const char *text, const char **out)
{
    ls_dtype dtype;
    if (ls_dtype_parse(text, &dtype) != LS_OK ||
        find_choice(row, ls_dtype_name(dtype)) == NULL)
        return fail_choice(row, shown, text);
    *out = ls_dtype_name(dtype);
    return LS_OK;
}

bool lsi_option_attaches(const lsi_option *row)
{
    return row->type == LSI_OPTION_MODE || row->type == LSI_OPTION_OUTPUT;
}

bool lsi_option_stands_alone(const lsi_option *row)
{
    return row->type == LSI_OPTION_BOOL || lsi_option_attaches(row);
}

/* There is room: scan_flags has counted. */
static void add_text(const lsi_option *row, const char *text, char *out)
{
    if (out == NULL)
        return;
    lsi_option_texts *const texts = (void *)(out + row->offset);
    texts->all[texts->n++] = text;
}

/* Checks `text` and, unless `out` is NULL, stores it in the row's field. */
static ls_status parse_value(const lsi_option *row, const char *shown,
                             const char *text, char *out)
{
    union {
        bool flag;
        int64_t integer;
        double real;
        const char *string;
    } value = {.string = text};
    size_t bytes = sizeof(value.string);
    switch (row->type) {
    case LSI_OPTION_BOOL:
        value.flag = strcmp(text, "true") == 0;
        bytes = sizeof(value.flag);
        break;
    case LSI_OPTION_INT:
        LS_TRY(lsi_option_int(row, shown, text, &value.integer));
        bytes = sizeof(value.integer);
        break;
    case LSI_OPTION_BYTES:
        LS_TRY(parse_size(row, shown, text, &value.integer));
        bytes = sizeof(value.integer);
        break;
    case LSI_OPTION_REAL:
        LS_TRY(parse_real(row, shown, text, &value.real));
        bytes = sizeof(value.real);
        break;
    case LSI_OPTION_CHOICE:
    case LSI_OPTION_MODE:
        LS_TRY(read_choice(row, shown, text));
        break;
    case LSI_OPTION_DTYPE:
        LS_TRY(read_dtype(row, shown, text, &value.string));
        break;
    case LSI_OPTION_STRING:
    case LSI_OPTION_OUTPUT:
    case LSI_OPTION_LIST:
        break;
    case LSI_OPTION_TEXTS:
        add_text(row, text, out);
        return LS_OK;
    }
    if (out != NULL)
        memcpy(out + row->offset, &value, bytes);
    return LS_OK;
}

static ls_status store_defaults(const lsi_option *rows, size_t n, char *out)
{
    for (size_t i = 0; i < n; i++) {
        const lsi_option *row = &rows[i];
        if (row->default_value != NULL) {
            LS_TRY(parse_value(row, row->name, row->default_value, out));
            continue;
        }
        const size_t bytes = row->type == LSI_OPTION_BOOL    ? sizeof(bool)
                             : row->type == LSI_OPTION_TEXTS ? sizeof(size_t)
                                                             : 8;
        memset(out + row->offset, 0, bytes);
        if (row->type == LSI_OPTION_REAL)
            memcpy(out + row->offset, &row->unset, sizeof(row->unset));
        if (row->type == LSI_OPTION_INT) {
            const int64_t whole = (int64_t)row->unset;
            memcpy(out + row->offset, &whole, sizeof(whole));
        }
    }
    return LS_OK;
}

static const lsi_option *find_name(const lsi_option_set *set, const char *name,
                                   size_t length)
{
    for (size_t i = 0; i < set->n; i++) {
        const char *known = set->rows[i].name;
        if (strncmp(known, name, length) == 0 && known[length] == '\0')
            return &set->rows[i];
    }
    return NULL;
}

static const lsi_option *find_letter(const lsi_option_set *set, char letter)
{
    for (size_t i = 0; i < set->n; i++) {
        if (set->rows[i].letter == letter)
            return &set->rows[i];
    }
    return NULL;
}

/* Whether a word is the first `length` letters of an argument. */
static bool is_typed(const lsi_option_word *word, const char *argument,
                     size_t length)
{
    const char *const typed = word->typed;
    if (strncmp(typed, "--", 2) != 0 || length < 2)
        return strncmp(typed, argument, length) == 0 && typed[length] == '\0';
    for (size_t i = 0; i < length; i++)
        if (typed[i] != lsi_name_letter(argument[i]))
            return false;
    return typed[length] == '\0';
}

/* Whether the command has the flag that a text begins with: --name or -n. */
static bool has_flag(const scan *s, const char *text)
{
    if (text[1] != '-')
        return find_letter(s->set, text[1]) != NULL;
    const char *const name = text + (strncmp(text, "--no-", 5) == 0 ? 5 : 2);
    return find_name(s->set, name, strcspn(name, " =,;")) != NULL;
}

/* Whether a word fits the command, which has all flags that it leads to. */
static bool applies(const lsi_option_word *word, const scan *s)
{
    const char *text = word->instead;
    if (word->command != NULL && strcmp(word->command, s->argv[0]) != 0)
        return false;
    if (text[0] == '-' && !has_flag(s, text))
        return false;
    while ((text = strstr(text, "--")) != NULL) {
        if (!has_flag(s, text))
            return false;
        text += 2;
    }
    return true;
}

/* The suggestion for the first `length` letters of an argument, or NULL. */
static const lsi_option_word *find_word(const scan *s, const char *argument,
                                        size_t length)
{
    for (size_t i = 0; i < s->set->n_words; i++)
        if (is_typed(&s->set->words[i], argument, length) &&
            applies(&s->set->words[i], s))
            return &s->set->words[i];
    return NULL;
}

/* `value`: the argument's value, or "". */
static ls_status fail_word(const lsi_option_word *word, const char *argument,
                           size_t length, const char *value)
{
    const bool leads_to = word->instead[0] == '-';
    const char *const space = *value != '\0' ? " " : "";
    if (word->retired)
        lsi_fail(LS_ERR_ARGUMENT, "%.*s is now %s", (int)length, argument,
                 word->instead);
    else
        lsi_fail(LS_ERR_ARGUMENT, "unknown flag %.*s; %s%s%s%s%s", (int)length,
                 argument, leads_to ? "did you mean " : "", word->instead,
                 leads_to ? space : "", leads_to ? value : "",
                 leads_to ? "?" : "");
    return LS_ERR_ARGUMENT;
}

/* `length` letters of the argument are the flag. */
static ls_status fail_unknown(const scan *s, const char *argument,
                              size_t length)
{
    const char *names[MOST_NAMES];
    char near[LSI_SUGGESTION_BYTES];
    size_t n = 0;
    const lsi_option_word *const word = find_word(s, argument, length);
    if (word != NULL)
        return fail_word(word, argument, length, "");
    for (; n < s->set->n && n < MOST_NAMES; n++)
        names[n] = s->set->rows[n].name;
    if (argument[1] == '-' &&
        lsi_suggest(argument + 2, length - 2,
                    &(lsi_known_names){names, n, "--", ""}, near))
        lsi_fail(LS_ERR_ARGUMENT, "unknown flag %.*s; did you mean %s?",
                 (int)length, argument, near);
    else
        lsi_fail(LS_ERR_ARGUMENT,
                 "unknown flag %.*s; --help lists the valid flags", (int)length,
                 argument);
    return LS_ERR_ARGUMENT;
}

ls_status lsi_options_unknown(const lsi_option_set *set, const char *command,
                              const char *argument)
{
    char *argv[] = {(char *)(uintptr_t)command};
    const scan s = {.set = set, .argc = 1, .argv = argv};
    return fail_unknown(&s, argument, strlen(argument));
}

/* --name, --name=VALUE, --no-name */
static ls_status read_long(const scan *s, const char *argument, flag *out)
{
    const char *name = argument + 2;
    const char *end = strchrnul(name, '=');
    const size_t length = (size_t)(end - name);
    *out = (flag){.row = find_name(s->set, name, length),
                  .value = *end == '=' ? end + 1 : NULL};
    if (out->row == NULL && strncmp(name, "no-", 3) == 0) {
        out->row = find_name(s->set, name + 3, length - 3);
        out->negated = true;
        if (out->row != NULL && out->row->type != LSI_OPTION_BOOL &&
            out->row->type != LSI_OPTION_MODE)
            out->row = NULL;
    }
    if (out->row == NULL)
        return fail_unknown(s, argument, length + 2);
    snprintf(out->shown, sizeof(out->shown), "--%.*s", (int)length, name);
    return LS_OK;
}

/* -x, -xVALUE */
static ls_status read_short(const scan *s, const char *argument, flag *out)
{
    const char *const next = s->next < s->argc ? s->argv[s->next] : "";
    /* "-np 2" of other launchers would be the number "p". */
    const lsi_option_word *const word =
        argument[2] == '\0' ? NULL : find_word(s, argument, strlen(argument));
    if (word != NULL)
        return fail_word(word, argument, strlen(argument),
                         isdigit((unsigned char)*next) ? next : "");
    *out = (flag){.row = find_letter(s->set, argument[1]),
                  .value = argument[2] == '\0' ? NULL : argument + 2};
    if (out->row == NULL)
        return fail_unknown(s, argument, 2);
    snprintf(out->shown, sizeof(out->shown), "-%c", argument[1]);
    return LS_OK;
}

static ls_status parse_bool(const flag *f, char *out)
{
    if (f->value != NULL)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "%s takes no value; use --%s or --no-%s", f->shown,
                        f->row->name, f->row->name);
    return parse_value(f->row, f->shown, f->negated ? "false" : "true", out);
}

static ls_status parse_mode(const scan *s, const flag *f)
{
    const char *value = f->row->default_value;
    const char *const next = s->next < s->argc ? s->argv[s->next] : "";
    if (f->negated && f->value != NULL)
        return lsi_fail(LS_ERR_ARGUMENT, "%s takes no value", f->shown);
    if (f->negated)
        value = strrchr(f->row->choices, '|') + 1;
    else if (f->value != NULL)
        value = f->value;
    else if (find_choice(f->row, next) != NULL)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "%s takes its value after '=': write %s=%s. If '%s' is "
                        "another argument, write -- before '%s'",
                        f->shown, f->shown, next, next, next);
    return parse_value(f->row, f->shown, value, s->out);
}

/* Whether a word is more likely the file of a flag: "-" or "x.json". */
static bool is_file_of(const lsi_option *row, const char *word)
{
    const char *const dot = strrchr(word, '.');
    return strcmp(word, "-") == 0 ||
           (dot != NULL && strcmp(dot + 1, row->name) == 0);
}

static ls_status parse_output(const scan *s, const flag *f)
{
    const char *const next = s->next < s->argc ? s->argv[s->next] : "";
    if (f->value == NULL && is_file_of(f->row, next))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "%s takes a file name after '=': write %s=%s", f->shown,
                        f->shown, next);
    if (f->value != NULL && f->value[0] == '\0')
        return lsi_fail(LS_ERR_ARGUMENT, "%s= needs a file name: write %s=FILE",
                        f->shown, f->shown);
    return parse_value(f->row, f->shown, f->value != NULL ? f->value : "-",
                       s->out);
}

/* The value of `f`, from the next argument if it was not attached. */
static ls_status parse_flag(scan *s, const flag *f)
{
    if (f->row->type == LSI_OPTION_BOOL)
        return parse_bool(f, s->out);
    if (f->row->type == LSI_OPTION_MODE)
        return parse_mode(s, f);
    if (f->row->type == LSI_OPTION_OUTPUT)
        return parse_output(s, f);
    const char *value = f->value;
    if (value == NULL) {
        if (s->next >= s->argc)
            return lsi_fail(LS_ERR_ARGUMENT, "%s needs a value: %s %s",
                            f->shown, f->shown, f->row->value);
        value = s->argv[s->next++];
        /* More likely a forgotten value than a value that looks so. */
        if (strncmp(value, "--", 2) == 0)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "%s needs a value before %s. If the value begins "
                            "with --, write --%s=VALUE",
                            f->shown, value, f->row->name);
    }
    if (f->row->type == LSI_OPTION_TEXTS && s->texts++ == LSI_OPTION_TEXTS_MOST)
        return lsi_fail(LS_ERR_ARGUMENT, "%s is given more than %d times",
                        f->shown, LSI_OPTION_TEXTS_MOST);
    return parse_value(f->row, f->shown, value, s->out);
}

static bool asks_for_help(const scan *s, const char *argument)
{
    return strcmp(argument, "--help") == 0 ||
           (strcmp(argument, "-h") == 0 && find_letter(s->set, 'h') == NULL);
}

/* Stops at "--", at the first argument that is not a flag, and at --help. */
static ls_status scan_flags(scan *s, bool *help)
{
    while (s->next < s->argc) {
        const char *argument = s->argv[s->next];
        if (argument[0] != '-' || argument[1] == '\0')
            return LS_OK;
        s->next++;
        if (strcmp(argument, "--") == 0)
            return LS_OK;
        if (asks_for_help(s, argument)) {
            *help = true;
            return LS_OK;
        }
        flag f;
        if (argument[1] == '-')
            LS_TRY(read_long(s, argument, &f));
        else
            LS_TRY(read_short(s, argument, &f));
        assert(f.row != NULL);
        LS_TRY(parse_flag(s, &f));
    }
    return LS_OK;
}

/* The next argument is not a flag, and the command accepts none. */
static ls_status fail_unexpected(const scan *s)
{
    const lsi_option_word *const word = find_word(s, "", 0);
    return lsi_fail(LS_ERR_ARGUMENT, "unexpected argument '%s'%s%s",
                    s->argv[s->next], word != NULL ? "; " : "",
                    word != NULL ? word->instead : "");
}

/* argv[0] names the command in front of the message. */
static ls_status with_command(ls_status status, const char *command)
{
    if (status == LS_OK || command == NULL)
        return status;
    return lsi_fail(status, "%s: %s", command, ls_last_error());
}

ls_status lsi_options_parse(const lsi_option_set *set, int argc, char **argv,
                            void *out, int *rest, bool *help)
{
    const char *command = argc > 0 ? argv[0] : NULL;
    const scan start = {.set = set, .argc = argc, .next = 1, .argv = argv};
    bool wants_help = false;
    scan check = start;
    LS_TRY(with_command(scan_flags(&check, &wants_help), command));
    if (!wants_help && rest == NULL && check.next < argc)
        return with_command(fail_unexpected(&check), command);
    LS_TRY(with_command(store_defaults(set->rows, set->n, out), command));
    scan store = start;
    store.out = out;
    LS_TRY(with_command(scan_flags(&store, &wants_help), command));
    *help = wants_help;
    if (rest != NULL)
        *rest = store.next;
    return LS_OK;
}
