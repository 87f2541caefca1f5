/*
 * Flags from files of JSON: which values they give, and what is refused.
 */
#include <stdlib.h>
#include <unistd.h>

#include "cli/frame/config_file.h"
#include "testing.h"

typedef struct values {
    const char *config, *text, *choice;
    int64_t steps;
    double lr;
    bool check, verbose;
} values;

#define ROW(...) LSI_OPTION(values, __VA_ARGS__)
static const lsi_option rows[] = {
    LSI_CONFIG_ROW(config),
    ROW(text, STRING, "text", 0, "TEXT", NULL, "a text"),
    ROW(choice, CHOICE, "choice", 0, "NAME", "one", "a choice",
        .choices = "one|two"),
    ROW(steps, INT, "steps", 0, "N", "200", "a number", .min = 0, .max = 1e12),
    ROW(lr, REAL, "lr", 0, "X", NULL, "a number", .min = 0, .max = 10),
    ROW(check, BOOL, "check", 0, NULL, "true", "a flag"),
    ROW(verbose, BOOL, "no-more", 0, NULL, NULL, "a flag"),
};
static const lsi_command command = {.name = "it", LSI_COMMAND_OPTIONS(rows)};
static char path[] = "/tmp/lockstep-config-XXXXXX";

static void write_file(const char *text)
{
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* `more`: a word of the command line, or NULL. */
static bool parse(const char *text, char *more, values *out)
{
    int status = 0;
    char name[] = "train it", flag[] = "--config";
    char *argv[] = {name, flag, path, more, NULL};
    const lsi_invocation call = {
        .command = &command, .argc = more != NULL ? 4 : 3, .argv = argv};
    write_file(text);
    const bool good = lsi_cli_parse_config(&call, out, &status);
    assert_int_equal(status, good ? 0 : LSI_EXIT_USAGE);
    return good;
}

static void values_of_a_file(void **state)
{
    (void)state;
    values v;
    char more[] = "--steps=3";
    assert_true(parse("{\"steps\": 7, \"lr\": 0.1234567890123456, \"check\": "
                      "false, \"no-more\": true, \"choice\": \"Two\", "
                      "\"text\": \"a b=c\"}",
                      NULL, &v));
    assert_int_equal(v.steps, 7);
    assert_true(v.lr == 0.1234567890123456);
    assert_false(v.check);
    assert_true(v.verbose);
    assert_string_equal(v.choice, "two");
    assert_string_equal(v.text, "a b=c");
    assert_string_equal(v.config, path);
    assert_true(parse("{\"lockstep\": \"0\", \"command\": \"train it\", "
                      "\"flags\": {\"steps\": 7, \"lr\": 2, \"no-more\": "
                      "false, \"text\": null}}",
                      more, &v));
    assert_int_equal(v.steps, 3); /* the command line's */
    assert_true(v.lr == 2 && v.check && !v.verbose);
    assert_null(v.text);
    assert_true(parse("{}", NULL, &v));
    assert_int_equal(v.steps, 200);
}

static void what_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{\"learning-rate\": 1}",
         "unknown flag --learning-rate; did you mean --lr?"},
        {"{\"step\": 1}", "unknown flag --step; did you mean --steps?"},
        {"{\"steps=3\": 1}", "unknown flag --steps=3"},
        {"{\"help\": true}", "unknown flag --help"},
        {"{\"no-check\": true}", "unknown flag --no-check"},
        {"{\"check\": 1}", "'check' must be true or false"},
        {"{\"steps\": true}", "'steps' must be a number or a string"},
        {"{\"lr\": [1]}", "'lr' must be a number or a string"},
        {"{\"steps\": 1.5}", "--steps '1.5' is not a whole number"},
        {"{\"lr\": 11}", "--lr 11 is out of range: 0 to 10"},
        {"{\"choice\": \"x\"}", "--choice 'x' is not one of one|two"},
        {"{\"config\": \"x\"}", "may only be given on the command line"},
        {"{\"steps\": 1, \"steps\": 2}", "line 1 is not JSON: duplicate"},
        {"{\n\n\"steps\": }", "line 3 is not JSON: "},
        {"", "is not JSON"},
        {"[1]", "the file must be an object, such as {\"steps\": 200}"},
        {"{\"flags\": {}, \"chosen\": \"lr\"}",
         "'chosen' must be a list of flag names"},
        {"{\"flags\": {}, \"chosen\": [1]}",
         "'chosen' must be a list of flag names"},
        {"{\"flags\": 1}", "'flags' must be an object"},
        {"{\"command\": \"train lm\", \"flags\": {}}",
         "the file contains flags of 'lockstep train lm'"},
    };
    values v;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        assert_false(parse(cases[i].text, NULL, &v));
        char name[] = "train it";
        char *argv[] = {name, NULL};
        const lsi_invocation call = {
            .command = &command, .argc = 1, .argv = argv};
        assert_true(lsi_cli_read_config(&call, path, &v) != LS_OK);
        if (strstr(ls_last_error(), cases[i].message) == NULL)
            fail_msg("no \"%s\" in \"%s\"", cases[i].message, ls_last_error());
    }
    /* A word of the command line is not said to be one of the file. */
    char more[] = "--steps=x";
    assert_false(parse("{\"steps\": 7}", more, &v));
    assert_string_equal(ls_last_error(),
                        "train it: --steps 'x' is not a whole number");
}

static int make(void **state)
{
    (void)state;
    const int fd = mkstemp(path);
    return fd >= 0 ? close(fd) : -1;
}

static int drop(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_a_file),
        cmocka_unit_test(what_is_refused),
    };
    return cmocka_run_group_tests(tests, make, drop);
}
