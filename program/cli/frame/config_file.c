/* The flags of a file become words of a command line, before those given. */
#include "cli/frame/config_file.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/printable.h"
#include "cli/frame/config_rules.h"
#include "cli/frame/flags_json.h"
#include "cli/frame/ranks.h"
#include "cli/frame/words.h"

enum { MOST_BYTES = 1 << 20, MOST_WORDS = 512 };

/* Flags of a file as words; argv[0] is unused. Values of flags point to them.
 */
typedef struct word_list {
    int n;
    char *all[MOST_WORDS];
} word_list;

static word_list kept = {.n = 1};

/* A file, its flags, and the names of flags that an earlier run chose itself.
 */
typedef struct config {
    json_t *file, *flags, *chosen;
} config;

/* Chosen flags of the last file that the command line left unchanged. */
static json_t *chosen_names;

static void clear(word_list *list)
{
    while (list->n > 1)
        free(list->all[--list->n]);
}

static ls_status add(word_list *list, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static ls_status add(word_list *list, const char *format, ...)
{
    va_list args;
    if (list->n == MOST_WORDS)
        return lsi_fail(LS_ERR_FORMAT, "the file contains more than %d flags",
                        MOST_WORDS - 1);
    va_start(args, format);
    const int length = vasprintf(&list->all[list->n], format, args);
    va_end(args);
    if (length < 0)
        return lsi_fail(LS_ERR_MEMORY, "not enough memory for flags");
    list->n++;
    return LS_OK;
}

/* ---- one flag ------------------------------------------------------------ */

static const lsi_option *find_row(const lsi_command *command, const char *name)
{
    for (size_t i = 0; i < command->n_options; i++)
        if (strcmp(command->options[i].name, name) == 0)
            return &command->options[i];
    return NULL;
}

static lsi_option_set set_of(const lsi_command *command)
{
    lsi_option_set set = {.rows = command->options, .n = command->n_options};
    set.words = lsi_cli_flag_words(&set.n_words);
    return set;
}

static ls_status fail_unknown(const lsi_invocation *call, const char *name)
{
    const lsi_option_set set = set_of(call->command);
    char argument[256];
    snprintf(argument, sizeof(argument), "--%s", name);
    return lsi_options_unknown(&set, call->argv[0], argument);
}

static ls_status add_bool(word_list *list, const char *name,
                          const json_t *value)
{
    if (!json_is_boolean(value))
        return lsi_fail(LS_ERR_FORMAT, "'%s' must be true or false", name);
    return add(list, "--%s%s", json_is_true(value) ? "" : "no-", name);
}

static ls_status add_value(word_list *list, const char *name,
                           const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_STRING:
        return add(list, "--%s=%s", name, json_string_value(value));
    case JSON_INTEGER:
        return add(list, "--%s=%" JSON_INTEGER_FORMAT, name,
                   json_integer_value(value));
    case JSON_REAL:
        return add(list, "--%s=%.17g", name, json_real_value(value));
    default:
        return lsi_fail(LS_ERR_FORMAT, "'%s' must be a number or a string",
                        name);
    }
}

static ls_status add_flag(const lsi_invocation *call, word_list *list,
                          const char *name, const json_t *value)
{
    const lsi_option *const row = find_row(call->command, name);
    if (row == NULL)
        return fail_unknown(call, name);
    if (strcmp(name, LSI_CONFIG_NAME) == 0)
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s' may only be given on the "
                        "command line",
                        name);
    if (json_is_null(value))
        return LS_OK;
    return row->type == LSI_OPTION_BOOL ? add_bool(list, name, value)
                                        : add_value(list, name, value);
}

/* ---- the file ------------------------------------------------------------ */

static bool are_names(const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!json_is_string(json_array_get(list, i)))
            return false;
    return list == NULL || json_is_array(list);
}

/* Finds the flags: the whole file, or the member "flags" of a run.json. */
static ls_status find_flags(const lsi_invocation *call, config *c)
{
    json_t *const flags = json_object_get(c->file, "flags");
    const char *const command =
        json_string_value(json_object_get(c->file, "command"));
    c->flags = flags != NULL ? flags : c->file;
    c->chosen = flags != NULL ? json_object_get(c->file, "chosen") : NULL;
    if (!json_is_object(c->flags))
        return lsi_fail(LS_ERR_FORMAT,
                        "%s must be an object, such as {\"steps\": 200}",
                        flags != NULL ? "'flags'" : "the file");
    if (flags != NULL && command != NULL && strcmp(command, call->argv[0]) != 0)
        return lsi_fail(
            LS_ERR_FORMAT,
            "the file contains flags of 'lockstep %s', but the command is "
            "'lockstep %s'. Give a file with flags of this command",
            command, call->argv[0]);
    if (!are_names(c->chosen))
        return lsi_fail(
            LS_ERR_FORMAT,
            "'chosen' must be a list of flag names, such as [\"lr\"]");
    return LS_OK;
}

static ls_status make_words(const lsi_invocation *call, json_t *flags,
                            word_list *list)
{
    json_t *value;
    const char *name;
    clear(list);
    json_object_foreach(flags, name, value)
        LS_TRY(add_flag(call, list, name, value));
    return LS_OK;
}

static ls_status read_json(const char *path, json_t **out)
{
    char *text;
    size_t bytes;
    json_error_t error;
    LS_TRY(lsi_read_regular(path, MOST_BYTES, &text, &bytes));
    const ls_status status =
        lsi_json_loadb(text, bytes, JSON_REJECT_DUPLICATES, out, &error);
    lsi_free(text);
    if (status == LS_ERR_FORMAT)
        return lsi_fail(status, "line %d is not JSON: %s", error.line,
                        error.text);
    return status;
}

/* ---- parsing ------------------------------------------------------------- */

/* On success config->file is the caller's, and `kept` has the words. */
static ls_status read_config(const lsi_invocation *call, const char *path,
                             void *out, config *c)
{
    const lsi_option_set set = set_of(call->command);
    bool help;
    *c = (config){0};
    clear(&kept);
    LS_TRY(read_json(path, &c->file));
    ls_status status = find_flags(call, c);
    if (status == LS_OK)
        status = make_words(call, c->flags, &kept);
    if (status == LS_OK)
        status = lsi_options_parse(&set, kept.n, kept.all, out, NULL, &help);
    if (status != LS_OK)
        json_decref(c->file);
    return status;
}

ls_status lsi_cli_read_config(const lsi_invocation *call, const char *path,
                              void *out)
{
    config c;
    LS_TRY(read_config(call, path, out, &c));
    json_decref(c.file);
    return LS_OK;
}

/* Parses the words of the file and then those of the command line. */
static bool parse_both(const lsi_invocation *call, void *out, int *exit_status)
{
    lsi_invocation both = *call;
    both.argc = kept.n + call->argc - 1;
    both.argv = calloc((size_t)both.argc + 1, sizeof(char *));
    if (both.argv == NULL) {
        *exit_status =
            lsi_cli_usage("not enough memory for the flags of --config");
        return false;
    }
    memcpy(both.argv, kept.all, (size_t)kept.n * sizeof(char *));
    memcpy(both.argv + kept.n, call->argv + 1,
           (size_t)(call->argc - 1) * sizeof(char *));
    both.argv[0] = call->argv[0];
    const bool good = lsi_cli_parse(&both, out, NULL, exit_status);
    free(both.argv);
    return good;
}

/* ---- rules --------------------------------------------------------------- */

/* Flags without a value are in neither. */
static bool are_equal(const json_t *a, const json_t *b, const char *name)
{
    const json_t *const one = json_object_get(a, name);
    const json_t *const other = json_object_get(b, name);
    return one == other || json_equal(one, other);
}

/* Prints the flags of the file that the rules have dropped. */
static void note_dropped(const lsi_invocation *call, const char *path,
                         const json_t *with, const json_t *without)
{
    char names[512] = "";
    size_t used = 0;
    for (size_t i = 0; i < call->command->n_options; i++) {
        const char *const name = call->command->options[i].name;
        if (used < sizeof(names) && !are_equal(with, without, name))
            used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
                                     used > 0 ? ", " : "", name);
    }
    if (used > 0 && lsi_cli_is_first())
        fprintf(stderr,
                "lockstep: %s: ignored these flags from '%s', because flags on "
                "the command line replace them: %s\n",
                call->argv[0], lsi_printable_of(path).text, names);
}

/* Keeps the names of chosen flags that have the file's values. */
static void keep_chosen(const config *c, const json_t *file, const json_t *all)
{
    json_decref(chosen_names);
    chosen_names = json_array();
    for (size_t i = 0; i < json_array_size(c->chosen); i++) {
        json_t *const name = json_array_get(c->chosen, i);
        if (are_equal(file, all, json_string_value(name)))
            (void)json_array_append(chosen_names, name);
    }
}

/* `out` has the values of the file when it begins. */
static bool apply(const lsi_invocation *call, const char *path, config *c,
                  void *out, int *exit_status)
{
    json_t *const file = lsi_cli_flags_json(call->command, out);
    json_t *both = NULL, *all = NULL;
    bool good = parse_both(call, out, exit_status);
    if (good)
        both = lsi_cli_flags_json(call->command, out);
    if (good && lsi_config_rules_apply(file, both, c->chosen, c->flags)) {
        good = make_words(call, c->flags, &kept) == LS_OK &&
               parse_both(call, out, exit_status);
        if (good)
            all = lsi_cli_flags_json(call->command, out);
        if (good)
            note_dropped(call, path, both, all);
    }
    if (good)
        keep_chosen(c, file, all != NULL ? all : both);
    json_decref(file);
    json_decref(both);
    json_decref(all);
    return good;
}

bool lsi_cli_parse_config(const lsi_invocation *call, void *out,
                          int *exit_status)
{
    config c;
    const char *path;
    const lsi_option *const row = find_row(call->command, LSI_CONFIG_NAME);
    if (!lsi_cli_parse(call, out, NULL, exit_status))
        return false;
    memcpy((void *)&path, (const char *)out + row->offset, sizeof(path));
    if (path == NULL)
        return true;
    if (read_config(call, path, out, &c) != LS_OK) {
        *exit_status =
            lsi_cli_usage("--config '%s': %s", path, ls_last_error());
        return false;
    }
    const bool good = apply(call, path, &c, out, exit_status);
    json_decref(c.file);
    return good;
}

ls_status lsi_cli_invocation_of(const lsi_command *command, char *name,
                                json_t *flags, lsi_invocation *out)
{
    *out = (lsi_invocation){.command = command, .argv = kept.all};
    kept.all[0] = name;
    LS_TRY(make_words(out, flags, &kept));
    out->argc = kept.n;
    return LS_OK;
}

const json_t *lsi_cli_config_chosen(void)
{
    return chosen_names;
}
