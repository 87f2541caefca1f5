/*
 * Typed options: good and bad command lines, defaults, help.
 */
#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/options.h"
#include "testing.h"

typedef struct args {
    int64_t epochs, bytes, any, count;
    double rate;
    bool fast, checked;
    const char *data, *mode, *sizes, *place, *json, *dtype;
    lsi_option_texts notes;
} args;

#define ROW(...) LSI_OPTION(args, __VA_ARGS__)
static const lsi_option rows[] = {
    ROW(epochs, INT, "epochs", 'e', "N", "10", "passes over the data", .min = 1,
        .max = 1e6),
    ROW(any, INT, "any", 0, "N", NULL, "any whole number"),
    ROW(count, INT, "count", 0, "N", NULL, "a few, or 'auto'", .min = 2,
        .max = 8, .choices = "auto|all"),
    ROW(bytes, BYTES, "bucket", 'b', "SIZE", "4k", "size of a bucket",
        .min = 512, .max = 1024.0 * 1024 * 1024),
    ROW(rate, REAL, "lr", 0, "X", "0.01", "learning rate", .min = 0, .max = 10),
    ROW(fast, BOOL, "fast", 'f', NULL, NULL, "be fast"),
    ROW(checked, BOOL, "checked", 0, NULL, "true", "check everything"),
    ROW(data, STRING, "data", 0, "PATH", NULL,
        "folder or archive, in one of the layouts that are published; without "
        "it the built-in set is used"),
    ROW(mode, CHOICE, "sync-bn", 0, "MODE", "fused",
        "how batch norm is synchronised", .choices = "fused|gathered|off"),
    ROW(place, MODE, "bind", 0, "core|none", "cpu", "where to run",
        .choices = "cpu|core|none"),
    ROW(sizes, LIST, "sizes", 0, "N,N,..", "1,2,4", "sizes to try"),
    ROW(json, OUTPUT, "json", 0, "FILE", NULL, "write it as JSON"),
    ROW(dtype, DTYPE, "dtype", 0, "TYPE", "f32", "type of products",
        .choices = "f32|bf16"),
    ROW(notes, TEXTS, "note", 'n', "TEXT", NULL, "what to remember"),
};

static const lsi_option_word words[] = {
    {.typed = "--all-passes", .instead = "--epochs", .retired = true},
    {.typed = "-p", .instead = "--epochs", .retired = true},
    {.command = "lockstep eval", .typed = "--rate", .instead = "--nothing"},
    {.typed = "--rate", .instead = "--missing"},
    {.typed = "--rate", .instead = "--lr"},
    {.typed = "--bf16", .instead = "--sync-bn bf16"},
    {.typed = "--minutes", .instead = "training counts --epochs"},
    {.typed = "", .instead = "give --data"},
    {.typed = "-np", .instead = "-n"},
};

static const lsi_option_set set = {rows, TEST_COUNT(rows), words,
                                   TEST_COUNT(words)};

enum { MAX_WORDS = 16 };

/* A line cut at blanks, with "lockstep train" as the command's name. */
typedef struct line {
    char text[256];
    char *argv[MAX_WORDS];
    int argc;
} line;

static line split(const char *text)
{
    static char command[] = "lockstep train";
    line l = {.argc = 1};
    l.argv[0] = command;
    snprintf(l.text, sizeof(l.text), "%s", text);
    return l;
}

/* The words point into the line, so it must not move afterwards. */
static void cut(line *l)
{
    for (char *word = strtok(l->text, " "); word; word = strtok(NULL, " "))
        l->argv[l->argc++] = word;
}

static ls_status parse(line *l, const char *text, args *out, int *rest)
{
    bool help = false;
    *l = split(text);
    cut(l);
    const ls_status status =
        lsi_options_parse(&set, l->argc, l->argv, out, rest, &help);
    assert_false(help);
    return status;
}

static void defaults(void **state)
{
    (void)state;
    line l;
    args a;
    memset(&a, 0xff, sizeof(a));
    assert_ok(parse(&l, "", &a, NULL));
    assert_int_equal(a.epochs, 10);
    assert_int_equal(a.any, 0);
    assert_int_equal(a.bytes, 4096);
    assert_true(a.rate == 0.01);
    assert_false(a.fast);
    assert_true(a.checked);
    assert_null(a.data);
    assert_string_equal(a.mode, "fused");
    assert_string_equal(a.sizes, "1,2,4");
    assert_string_equal(a.place, "cpu");
}

/* A conversion to an integer would be undefined. */
static void a_real_may_be_unset_to_infinity(void **state)
{
    (void)state;
    static const lsi_option real[] = {ROW(rate, REAL, "lr", 0, "X", NULL,
                                          "learning rate", .unset = INFINITY)};
    line l = split("");
    args a = {.rate = 0};
    bool help = false;
    feclearexcept(FE_ALL_EXCEPT);
    assert_ok(lsi_options_parse(&(lsi_option_set){real, 1, NULL, 0}, l.argc,
                                l.argv, &a, NULL, &help));
    assert_int_equal(fetestexcept(FE_INVALID), 0);
    assert_true(isinf(a.rate));
}

static void a_word_may_stand_for_a_number(void **state)
{
    (void)state;
    line l;
    args a;
    assert_ok(parse(&l, "--count 3", &a, NULL));
    assert_int_equal(a.count, 3);
    assert_ok(parse(&l, "--count auto", &a, NULL));
    assert_int_equal(a.count, LSI_OPTION_WORD);
    assert_ok(parse(&l, "--count=ALL", &a, NULL));
    assert_int_equal(a.count, LSI_OPTION_WORD);
    assert_ok(parse(&l, "", &a, NULL));
    assert_int_equal(a.count, 0);
}

/* The word behind it is never its value. */
static void a_mode_can_do_without_a_value(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"--bind", "cpu"},
                                           {"--bind=core", "core"},
                                           {"--bind=none", "none"},
                                           {"--no-bind", "none"},
                                           {"--no-bind --bind", "cpu"}};
    line l;
    args a;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        assert_ok(parse(&l, cases[i][0], &a, NULL));
        assert_string_equal(a.place, cases[i][1]);
    }
    int rest = 0;
    assert_ok(parse(&l, "--bind cores", &a, &rest));
    assert_string_equal(a.place, "cpu");
    assert_int_equal(rest, 2);
    assert_ok(parse(&l, "--bind -- core", &a, &rest));
    assert_int_equal(rest, 3);
    assert_error(parse(&l, "--bind core", &a, &rest), LS_ERR_ARGUMENT,
                 "--bind takes its value after '=': write --bind=core");
    assert_error(parse(&l, "--no-bind=core", &a, NULL), LS_ERR_ARGUMENT,
                 "--no-bind takes no value");
}

static void an_output_is_a_file_or_standard_output(void **state)
{
    (void)state;
    line l;
    args a;
    int rest = 0;
    assert_ok(parse(&l, "", &a, NULL));
    assert_null(a.json);
    assert_ok(parse(&l, "--json=x.json", &a, NULL));
    assert_string_equal(a.json, "x.json");
    assert_ok(parse(&l, "--json folder", &a, &rest));
    assert_string_equal(a.json, "-");
    assert_int_equal(rest, 2);
    assert_ok(parse(&l, "--json=-", &a, NULL));
    assert_string_equal(a.json, "-");
    assert_error(parse(&l, "--json x.json", &a, &rest), LS_ERR_ARGUMENT,
                 "--json takes a file name after '=': write --json=x.json");
    assert_error(parse(&l, "--json -", &a, &rest), LS_ERR_ARGUMENT,
                 "--json takes a file name");
    assert_error(parse(&l, "--json=", &a, NULL), LS_ERR_ARGUMENT,
                 "--json= needs a file name: write --json=FILE");
    assert_error(parse(&l, "--no-json", &a, NULL), LS_ERR_ARGUMENT,
                 "unknown flag --no-json");
}

/* By any name of a type, and in any case. */
static void choices_have_one_spelling(void **state)
{
    (void)state;
    static const char *const types[][2] = {{"--dtype float32", "f32"},
                                           {"--dtype=fp32", "f32"},
                                           {"--dtype bfloat16", "bf16"},
                                           {"--dtype bf16", "bf16"},
                                           {"", "f32"}};
    line l;
    args a;
    for (size_t i = 0; i < TEST_COUNT(types); i++) {
        assert_ok(parse(&l, types[i][0], &a, NULL));
        assert_string_equal(a.dtype, types[i][1]);
    }
    assert_error(parse(&l, "--dtype fp16", &a, NULL), LS_ERR_ARGUMENT,
                 "--dtype 'fp16' is not one of f32|bf16");
    assert_error(parse(&l, "--dtype tf32", &a, NULL), LS_ERR_ARGUMENT,
                 "--dtype 'tf32' is not one of f32|bf16");
    assert_ok(parse(&l, "--sync-bn Gathered --bind=CORE", &a, NULL));
    assert_string_equal(a.mode, "gathered");
    assert_string_equal(a.place, "core");
    assert_string_equal(l.argv[2], "gathered");
}

static void all_forms(void **state)
{
    (void)state;
    line l;
    args a;
    assert_ok(parse(&l,
                    "--epochs 3 --bucket=2m --lr 1e-3 --fast --no-checked "
                    "--data=--odd --sync-bn off --sizes 8 --any -5",
                    &a, NULL));
    assert_int_equal(a.epochs, 3);
    assert_int_equal(a.bytes, 2 << 20);
    assert_true(a.rate == 1e-3);
    assert_true(a.fast);
    assert_false(a.checked);
    assert_string_equal(a.data, "--odd");
    assert_string_equal(a.mode, "off");
    assert_string_equal(a.sizes, "8");
    assert_int_equal(a.any, -5);
    assert_ok(parse(&l, "-e 4 -b1k -f", &a, NULL));
    assert_int_equal(a.epochs, 4);
    assert_int_equal(a.bytes, 1024);
    assert_true(a.fast);
    assert_ok(
        parse(&l, "--epochs 4 --epochs 5 --fast --no-fast --data=", &a, NULL));
    assert_int_equal(a.epochs, 5);
    assert_false(a.fast);
    assert_string_equal(a.data, "");
    assert_ok(parse(&l, "--any -9223372036854775808", &a, NULL));
    assert_true(a.any == INT64_MIN);
}

/* One bad flag, and nothing is written. */
static void refused(const char *text, const char *want)
{
    line l;
    args a;
    memset(&a, 0x5a, sizeof(a));
    assert_error(parse(&l, text, &a, NULL), LS_ERR_ARGUMENT, want);
    const unsigned char *bytes = (const unsigned char *)&a;
    for (size_t k = 0; k < sizeof(a); k++)
        assert_int_equal(bytes[k], 0x5a);
}

static void bad_lines(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"--epochs 0",
         "lockstep train: --epochs 0 is out of range: 1 to 1000000"},
        {"--epochs -1", "--epochs -1 is out of range"},
        {"--epochs 1000001", "out of range"},
        {"--epochs ten", "--epochs 'ten' is not a whole number"},
        {"--epochs 3x", "'3x' is not a whole number"},
        {"--epochs=", "'' is not a whole number"},
        {"--epochs 1.5", "'1.5' is not a whole number"},
        {"--any 9223372036854775808", "does not fit into 64 bits"},
        {"--epochs", "--epochs needs a value: --epochs N"},
        {"-e", "-e needs a value: -e N"},
        {"-e x", "-e 'x' is not a whole number"},
        {"--count x", "'x' is neither a whole number nor one of auto|all"},
        {"--count -1", "--count -1 is out of range: 2 to 8"},
        {"--data --fast", "--data needs a value before --fast"},
        {"--lr nan", "--lr 'nan' is not a finite number"},
        {"--lr inf", "not a finite number"},
        {"--lr 1e999", "not a finite number"},
        {"--lr -0.5", "--lr -0.5 is out of range: 0 to 10"},
        {"--lr 0.1,", "not a finite number"},
        {"--bucket 4q", "--bucket: '4q' is not a size"},
        {"--bucket 4kbit", "'4kbit' is not a size such as 512, 4k,"},
        {"--bucket 511", "--bucket 511 is out of range"},
        {"--bucket -4k", "'-4k' is not a size"},
        {"--bucket 9999999999g", "does not fit into 64 bits"},
        {"--sync-bn fuse", "--sync-bn 'fuse' is not one of fused|gathered|off"},
        {"--sync-bn=", "'' is not one of"},
        {"--bind=socket", "--bind 'socket' is not one of cpu|core|none"},
        {"--bind=", "'' is not one of"},
        {"--fast=yes", "--fast takes no value; use --fast or --no-fast"},
        {"-fe", "-f takes no value"},
        {"--epochs 3 stray", "unexpected argument 'stray'; give --data"},
        {"-", "unexpected argument '-'"},
        {"-- x", "unexpected argument 'x'"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++)
        refused(cases[i].text, cases[i].want);
}

static void unknown_flags(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"--no-data", "unknown flag --no-data"},
        {"--epoch 3", "unknown flag --epoch; did you mean --epochs?"},
        {"--dta x", "did you mean --data?"},
        {"--sync_bn off", "did you mean --sync-bn?"},
        {"--s x", "unknown flag --s; --help lists"},
        {"--si x", "unknown flag --si; did you mean --sizes?"},
        {"--DATA x", "did you mean --data?"},
        {"--datafiles x", "did you mean --data?"},
        {"--rlx", "unknown flag --rlx; --help lists"},
        {"--rl 1", "did you mean --lr?"},
        {"--all_passes=3", "lockstep train: --all_passes is now --epochs"},
        {"-p3", "lockstep train: -p is now --epochs"},
        {"-p 3", "-p is now --epochs"},
        {"--rate 1", "unknown flag --rate; did you mean --lr?"},
        {"--bf16", "unknown flag --bf16; did you mean --sync-bn bf16?"},
        {"--minutes 1", "unknown flag --minutes; training counts --epochs"},
        {"-np 2", "unknown flag -np; did you mean -n 2?"},
        {"-np x", "unknown flag -np; did you mean -n?"},
        {"-np", "unknown flag -np; did you mean -n?"},
        {"--zzzzzzzzzz", "unknown flag --zzzzzzzzzz; --help lists"},
        {"--x", "unknown flag --x; --help lists"},
        {"--=3", "unknown flag --; --help"},
        {"-q", "unknown flag -q"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++)
        refused(cases[i].text, cases[i].want);
}

/* Each time one more, in their order. */
static void texts_are_collected(void **state)
{
    (void)state;
    enum { MOST = LSI_OPTION_TEXTS_MOST };
    static char command[] = "lockstep train", note[] = "--note=x";
    char *argv[MOST + 2] = {command};
    args a;
    bool help;
    line l = split("--note a -n b -nc --note= --lr 1 --note=--d");
    cut(&l);
    assert_ok(lsi_options_parse(&set, l.argc, l.argv, &a, NULL, &help));
    static const char *const want[] = {"a", "b", "c", "", "--d"};
    assert_int_equal(a.notes.n, 5);
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(a.notes.all[i], want[i]);
    l = split("--fast");
    cut(&l);
    assert_ok(lsi_options_parse(&set, l.argc, l.argv, &a, NULL, &help));
    assert_int_equal(a.notes.n, 0);
    for (int i = 1; i < MOST + 2; i++)
        argv[i] = note;
    assert_ok(lsi_options_parse(&set, MOST + 1, argv, &a, NULL, &help));
    assert_int_equal(a.notes.n, MOST);
    assert_error(lsi_options_parse(&set, MOST + 2, argv, &a, NULL, &help),
                 LS_ERR_ARGUMENT, "--note is given more than 256 times");
}

static void the_rest(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int want;
    } cases[] = {{"", 1},
                 {"--fast", 2},
                 {"prog --epochs nonsense", 1},
                 {"-e 3 prog -x", 3},
                 {"-e 3 -- --fast", 4},
                 {"--", 2},
                 {"- x", 1}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        line l;
        args a;
        int rest = -1;
        assert_ok(parse(&l, cases[i].text, &a, &rest));
        assert_int_equal(rest, cases[i].want);
    }
    line l;
    args a;
    assert_ok(parse(&l, "--fast --", &a, NULL));
}

static void asks_for_help(void **state)
{
    (void)state;
    static const char *const lines[] = {"--help", "-h", "--fast --help",
                                        "--help --nonsense", "-h stray"};
    for (size_t i = 0; i < TEST_COUNT(lines); i++) {
        line l = split(lines[i]);
        cut(&l);
        args a;
        bool help = false;
        assert_ok(lsi_options_parse(&set, l.argc, l.argv, &a, NULL, &help));
        assert_true(help);
    }
}

/* -h belongs to a row that wants it; --help is always there. */
static void a_row_may_take_the_letter_h(void **state)
{
    (void)state;
    static const lsi_option host[] = {
        ROW(data, STRING, "host", 'h', "NAME", NULL, "a machine")};
    line l = split("-h here");
    cut(&l);
    args a;
    bool help = true;
    assert_ok(lsi_options_parse(&(lsi_option_set){host, 1, NULL, 0}, l.argc,
                                l.argv, &a, NULL, &help));
    assert_false(help);
    assert_string_equal(a.data, "here");
}

static void bytes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t want;
    } cases[] = {{"0", 0},
                 {"512", 512},
                 {"4k", 4096},
                 {"10m", 10 << 20},
                 {"1g", 1 << 30},
                 {"2G", INT64_C(2) << 30},
                 {"3K", 3072},
                 {"9223372036854775807", INT64_MAX},
                 {"512B", 512},
                 {"1M", 1 << 20},
                 {"1MiB", 1 << 20},
                 {"1MB", 1000000},
                 {"3kB", 3000},
                 {"2GB", 2000000000},
                 {"9223372036GB", INT64_C(9223372036000000000)},
                 {"8589934591g", INT64_C(8589934591) << 30}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        int64_t got = -1;
        assert_ok(lsi_parse_bytes(cases[i].text, &got));
        assert_true(got == cases[i].want);
    }
    static const char *const bad[] = {
        "",      "k",  "1t",           "1kk",         "-1",
        "1 k",   "0x", "1.5",          "x1",          "1i",
        "1KiBs", "iB", "9223372037GB", "8589934592g", "9223372036854775808"};
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        int64_t got = -1;
        assert_int_equal(lsi_parse_bytes(bad[i], &got), LS_ERR_ARGUMENT);
        assert_int_equal(got, -1);
    }
}

/* A default that does not parse is reported, not taken as 0. */
static void bad_defaults_fail(void **state)
{
    (void)state;
    static const lsi_option broken[] = {
        ROW(epochs, INT, "epochs", 0, "N", "many", "passes")};
    line l = split("");
    args a;
    bool help;
    assert_error(lsi_options_parse(&(lsi_option_set){broken, 1, NULL, 0},
                                   l.argc, l.argv, &a, NULL, &help),
                 LS_ERR_ARGUMENT, "'many'");
}

static void help_text(void **state)
{
    (void)state;
    static const char want[] =
        "  -e, --epochs N            passes over the data (default 10)\n"
        "      --any N               any whole number\n"
        "      --count N             a few, or 'auto'\n"
        "  -b, --bucket SIZE         size of a bucket (default 4k)\n"
        "      --lr X                learning rate (default 0.01)\n"
        "  -f, --fast                be fast\n"
        "      --checked             check everything (on; --no-checked)\n"
        "      --data PATH           folder or archive, in one of the layouts "
        "that are\n"
        "                            published; without it the built-in set is "
        "used\n"
        "      --sync-bn MODE        how batch norm is synchronised: "
        "fused|gathered|off\n"
        "                            (default fused)\n"
        "      --bind[=core|none]    where to run: cpu|core|none (default "
        "cpu)\n"
        "      --sizes N,N,..        sizes to try (default 1,2,4)\n"
        "      --json[=FILE]         write it as JSON\n"
        "      --dtype TYPE          type of products: f32|bf16 (default f32)\n"
        "  -n, --note TEXT ...       what to remember\n"
        "      --help                this text\n";
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    assert_non_null(stream);
    lsi_options_help(stream, rows, TEST_COUNT(rows));
    fclose(stream);
    assert_string_equal(text, want);
    free(text);
}

/* A left side that is too wide gets a separate line. */
static void wide_names_in_help(void **state)
{
    (void)state;
    static const lsi_option wide[] = {
        ROW(data, STRING, "a-name-of-some-length", 0, "ARGUMENT", NULL, "x")};
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    lsi_options_help(stream, wide, 1);
    fclose(stream);
    assert_string_equal(text, "      --a-name-of-some-length ARGUMENT\n"
                              "                            x\n"
                              "      --help                this text\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(a_real_may_be_unset_to_infinity),
        cmocka_unit_test(an_output_is_a_file_or_standard_output),
        cmocka_unit_test(choices_have_one_spelling),
        cmocka_unit_test(all_forms),
        cmocka_unit_test(a_word_may_stand_for_a_number),
        cmocka_unit_test(a_mode_can_do_without_a_value),
        cmocka_unit_test(texts_are_collected),
        cmocka_unit_test(bad_lines),
        cmocka_unit_test(unknown_flags),
        cmocka_unit_test(the_rest),
        cmocka_unit_test(asks_for_help),
        cmocka_unit_test(a_row_may_take_the_letter_h),
        cmocka_unit_test(bytes),
        cmocka_unit_test(bad_defaults_fail),
        cmocka_unit_test(help_text),
        cmocka_unit_test(wide_names_in_help),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
