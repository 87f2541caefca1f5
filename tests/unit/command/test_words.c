/*
 * The answers of commands to words of other programs, and to older ones.
 */
#include "base/error.h"
#include "base/options.h"
#include "cli/frame/command.h"
#include "cli/frame/words.h"
#include "testing.h"

enum { MAX_WORDS = 12 };

/* A command line cut at blanks; its command, and the rest of the words. */
typedef struct line {
    char text[256], name[64];
    char *words[MAX_WORDS];
    const lsi_command *command;
    int n, used;
} line;

static ls_status find(line *l, const char *text)
{
    l->n = 0;
    snprintf(l->text, sizeof(l->text), "%s", text);
    for (char *word = strtok(l->text, " "); word; word = strtok(NULL, " "))
        l->words[l->n++] = word;
    return lsi_cli_find(&lsi_command_root, l->n, l->words, &l->command,
                        &l->used);
}

static ls_status parse(const char *text)
{
    static union {
        char bytes[1 << 16]; /* for the flags of any command */
        double aligned;
    } out;
    line l;
    int rest;
    bool help;
    LS_TRY(find(&l, text));
    assert_non_null(l.command->run);
    snprintf(l.name, sizeof(l.name), "%s%s%s", l.words[0],
             l.used > 1 ? " " : "", l.used > 1 ? l.words[1] : "");
    l.words[l.used - 1] = l.name;
    lsi_option_set set = {.rows = l.command->options,
                          .n = l.command->n_options};
    set.words = lsi_cli_flag_words(&set.n_words);
    return lsi_options_parse(&set, l.n - l.used + 1, l.words + l.used - 1, &out,
                             &rest, &help);
}

typedef struct
try {
    const char *text, *want;
}
try;

static void refused(const try *tries, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_error(parse(tries[i].text), LS_ERR_ARGUMENT, tries[i].want);
}

/* Words that a user types first, without reading the help. */
static void first_tries(void **state)
{
    (void)state;
    static const try tries[] = {
        {"train lm --epochs 3", "train lm: unknown flag --epochs; train lm "
                                "counts steps; give --steps N"},
        {"train lm --num-train-epochs 3",
         "train lm counts steps; give --steps N"},
        {"train lm --num_train_epochs=3",
         "unknown flag --num_train_epochs; train lm counts steps; give --steps "
         "N"},
        {"train images --num_train_epochs 3", "did you mean --epochs?"},
        {"train images --steps 3",
         "train images counts epochs; give --epochs N"},
        {"train lm --learning-rate 3e-4", "did you mean --lr?"},
        {"train lm --bf16", "did you mean --dtype bf16?"},
        {"train lm --fp16", "did you mean --dtype f16?"},
        {"train cifar10", "did you mean 'lockstep train images --data PATH'?"},
        {"train mnist", "did you mean 'lockstep train images --data PATH'?"},
        {"mnist", "did you mean 'lockstep train images --data PATH'?"},
        {"run -np 2 prog", "run: unknown flag -np; did you mean -n 2?"},
        {"bench all_reduce_perf", "did you mean 'lockstep bench all-reduce'?"},
        {"bench sendrecv_perf", "did you mean 'lockstep bench send-recv'?"},
        {"bench all-reduce --bytes 8", "unknown flag --bytes; --help lists"},
        {"generate --max-tokens 50",
         "generate: unknown flag --max-tokens; did you mean --max-new-tokens?"},
        {"benchmark", "did you mean 'lockstep bench'?"},
        {"evaluate", "did you mean 'lockstep eval'?"},
        {"man", "did you mean 'lockstep help'?"},
        {"rnu", "did you mean 'lockstep run'?"},
        {"topp", "did you mean 'lockstep top' or 'lockstep topo'?"},
        {"nope", "unknown command 'nope'; 'lockstep --help' lists"},
    };
    refused(tries, TEST_COUNT(tries));
}

static void retired_words(void **state)
{
    (void)state;
    static const try tries[] = {
        {"train lm --batch 8", "train lm: --batch is now --batch-size"},
        {"bench lm --batch=8", "--batch is now --batch-size"},
        {"train lm --vocab 300", "--vocab is now --vocab-size"},
        {"plan --recompute", "--recompute is now --activation-checkpointing"},
        {"bench sync-batch-norm --implementation fused",
         "--implementation is now --impl"},
        {"bench all-reduce --datatype float", "--datatype is now --dtype"},
        {"train lm --model tiny",
         "--model is now --weights PATH for a trained model, --size NAME for a "
         "new one"},
        {"train images --model resnet18", "--model is now --arch"},
        {"plan --model xl", "--model is now --size"},
        {"bench ddp --model lm:tiny",
         "--model is now --arch mlp for mlp, --size"},
        {"generate -m model", "generate: -m is now --weights"},
        {"eval images --model model", "--model is now --weights"},
        {"bench tune", "'lockstep bench tune' is now 'lockstep tune'"},
        {"tune --save select.txt", "tune: --save is now --out"},
        {"generate --tokens 50", "--tokens is now --max-new-tokens"},
        {"generate -t50", "-t is now --max-new-tokens"},
        {"train lm --tokens u16", "--tokens is now --format"},
        {"eval lm --tokens u16", "--tokens is now --format"},
        {"memory --steps 1", "--steps is now --iterations"},
        {"profile --top 3 x", "--top is now --rows"},
        {"bench ring --memory x", "--memory is now --record-memory"},
        {"bench reduce -o avg", "-o is now --op"},
        {"bench reduce -r 1", "-r is now --root"},
        {"bench reduce -c 1", "-c is now --check"},
        {"bench reduce -t 2", "-t is now --nthreads"},
        {"bench flash -d 64", "-d is now --head-size"},
        {"bench flash -q", "-q is now --quick"},
        {"profile -r 0 x", "-r is now --rank"},
        {"bench ring -J x", "-J is now --json=FILE"},
        {"run --report x true", "--report is now --json=FILE"},
        {"memory --json rows.json", "--json takes a file name after '=': "
                                    "write --json=rows.json"},
        {"top -i 1 x", "-i is now --interval"},
        {"top -c 1 x", "-c is now --count"},
        {"train images --no-verify", "--no-verify is now --no-verify-data"},
    };
    refused(tries, TEST_COUNT(tries));
}

/* Names of types and choices, as other programs spell them. */
static void other_spellings(void **state)
{
    (void)state;
    static const char *const lines[] = {"train lm --dtype bfloat16",
                                        "train lm --dtype fp16",
                                        "train lm --dtype float32",
                                        "train lm --optimizer AdamW",
                                        "train images --arch ResNet18",
                                        "train lm --size 2.7b",
                                        "plan --size xl --dtype bfloat16",
                                        "eval images --dtype half",
                                        "bench all-reduce -b 8 -e 1MB",
                                        "bench all_reduce -b 1KiB -d bfloat16"};
    for (size_t i = 0; i < TEST_COUNT(lines); i++)
        assert_ok(parse(lines[i]));
    assert_error(parse("train lm --optimizer adam"), LS_ERR_ARGUMENT,
                 "'adam' is not one of sgd|adamw|lion; did you mean adamw?");
}

static void underscores_are_dashes_in_commands(void **state)
{
    (void)state;
    line l;
    assert_ok(find(&l, "bench all_reduce"));
    assert_string_equal(l.command->name, "all-reduce");
    assert_int_equal(l.used, 2);
    assert_error(find(&l, "bench all__reduce"), LS_ERR_ARGUMENT,
                 "did you mean 'lockstep bench all-reduce'?");
}

/* ---- one vocabulary ------------------------------------------------------ */

enum { MOST_FLAGS = 2048 };

/* A flag of a command. */
typedef struct use {
    const lsi_option *row;
    const lsi_command *command;
} use;

static size_t collect(const lsi_command *command, use *out, size_t n)
{
    for (size_t i = 0; i < command->n_options; i++) {
        assert_true(n < MOST_FLAGS);
        out[n++] = (use){&command->options[i], command};
    }
    for (size_t i = 0; i < command->n_children; i++)
        n = collect(command->children[i], out, n);
    return n;
}

static bool is_one_of(const char *word, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

/* The kind of value of a flag: "N,..." is several of "N", and a folder is a
 * path. */
static const char *kind_of(const lsi_option *row, char *out, size_t bytes)
{
    static const char *const paths[] = {"FILE", "FILES", "DIR", "FILE.svg"};
    if (row->value == NULL)
        return "nothing";
    snprintf(out, bytes, "%s", row->value);
    char *const more = strstr(out, ",...");
    if (more != NULL)
        *more = '\0';
    return is_one_of(out, paths, TEST_COUNT(paths)) ? "PATH" : out;
}

static void flags_take_the_same_in_all_commands(void **state)
{
    (void)state;
    static use all[MOST_FLAGS];
    const size_t n = collect(&lsi_command_root, all, 0);
    assert_true(n > 300);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++) {
            char texts[2][32];
            const char *const one = kind_of(all[i].row, texts[0], 32);
            const char *const other = kind_of(all[k].row, texts[1], 32);
            if (strcmp(all[i].row->name, all[k].row->name) != 0 ||
                strcmp(one, other) == 0)
                continue;
            fail_msg("--%s: %s of %s, %s of %s", all[i].row->name, one,
                     all[i].command->name, other, all[k].command->name);
        }
}

/* Those of nccl-tests, in the benchmarks that have its flags. */
static bool is_nccl_letter(const use *u)
{
    static const char *const names[] = {"minbytes", "maxbytes", "stepfactor"};
    return is_one_of(u->row->name, names, TEST_COUNT(names));
}

static void letters_stand_for_one_flag(void **state)
{
    (void)state;
    static const struct {
        char letter;
        const char *name;
    } reserved[] = {{'n', "ranks"},
                    {'b', "batch-size"},
                    {'q', "quiet"},
                    {'o', "out"},
                    {'s', "seed"}};
    const char *names[256] = {NULL};
    static use all[MOST_FLAGS];
    const size_t n = collect(&lsi_command_root, all, 0);
    for (size_t i = 0; i < TEST_COUNT(reserved); i++)
        names[(unsigned char)reserved[i].letter] = reserved[i].name;
    for (size_t i = 0; i < n; i++) {
        const char **const name = &names[(unsigned char)all[i].row->letter];
        if (all[i].row->letter == 0 || is_nccl_letter(&all[i]))
            continue;
        if (*name != NULL && strcmp(*name, all[i].row->name) != 0)
            fail_msg("-%c: --%s, and --%s of %s", all[i].row->letter, *name,
                     all[i].row->name, all[i].command->name);
        *name = all[i].row->name;
    }
}

/* `trace` and `audit` read what flags write; `tokenize --train` trains. */
static void flags_are_not_called_as_commands(void **state)
{
    (void)state;
    static const char *const same[] = {"trace", "train", "audit"};
    static use all[MOST_FLAGS];
    const size_t n = collect(&lsi_command_root, all, 0);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < lsi_command_root.n_children; k++)
            if (strcmp(all[i].row->name, lsi_command_root.children[k]->name) ==
                    0 &&
                !is_one_of(all[i].row->name, same, TEST_COUNT(same)))
                fail_msg("--%s of %s is a command", all[i].row->name,
                         all[i].command->name);
}

/* A row that no command can use says nothing. */
static void words_lead_somewhere(void **state)
{
    (void)state;
    static use all[MOST_FLAGS];
    size_t n_words;
    const size_t n = collect(&lsi_command_root, all, 0);
    const lsi_option_word *const words = lsi_cli_flag_words(&n_words);
    for (size_t i = 0; i < n_words; i++) {
        const char *name = words[i].instead;
        bool is_there = strncmp(name, "--", 2) != 0;
        name += strncmp(name, "--no-", 5) == 0 ? 5 : 2;
        const size_t length = strcspn(name, " =,");
        for (size_t k = 0; k < n && !is_there; k++)
            is_there = strlen(all[k].row->name) == length &&
                       strncmp(all[k].row->name, name, length) == 0;
        if (!is_there)
            fail_msg("%s leads to %s", words[i].typed, words[i].instead);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_tries),
        cmocka_unit_test(retired_words),
        cmocka_unit_test(other_spellings),
        cmocka_unit_test(underscores_are_dashes_in_commands),
        cmocka_unit_test(flags_take_the_same_in_all_commands),
        cmocka_unit_test(flags_are_not_called_as_commands),
        cmocka_unit_test(letters_stand_for_one_flag),
        cmocka_unit_test(words_lead_somewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
