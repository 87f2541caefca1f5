/*
 * Command lines, a word a line: with options of every type, and as `lockstep
 * run` reads them, which is taught torchrun's spelling.
 */
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "cli/frame/words.h"
#include "fuzz.h"

#include "cli/commands/cmd_run.c" /* the functions of its own that read words */

enum { WORDS = 12 };

const lsi_command lsi_command_root = {.name = ""};

typedef struct values {
    bool flag;
    int64_t integer, bytes, free_integer;
    double real;
    const char *string, *choice, *list;
    lsi_option_texts texts;
} values;

#define VALUE(...) LSI_OPTION(values, __VA_ARGS__)
static const lsi_option every[] = {
    VALUE(flag, BOOL, "flag", 'f', NULL, "true", "a flag"),
    VALUE(integer, INT, "integer", 'i', "N", "3", "a number", .min = -5,
          .max = 1e6),
    VALUE(free_integer, INT, "any-integer", 0, "N", NULL, "a number"),
    VALUE(bytes, BYTES, "bytes", 'b', "SIZE", "4k", "a size", .max = 1e12),
    VALUE(real, REAL, "real", 'r', "X", "0.5", "a number", .min = 0, .max = 2),
    VALUE(string, STRING, "string", 's', "TEXT", NULL, "a text"),
    VALUE(choice, CHOICE, "choice", 'c', "WHICH", "one", "a choice",
          .choices = "one|two"),
    VALUE(list, LIST, "list", 'l', "A,B", "a,b", "a list"),
    VALUE(texts, TEXTS, "text", 't', "TEXT", NULL, "texts"),
};

static void check(const values *v)
{
    fuzz_demand(v->integer >= -5 && v->integer <= 1000000);
    fuzz_demand(v->bytes >= 0 && v->bytes <= 1000000000000);
    fuzz_demand(v->real >= 0 && v->real <= 2);
    fuzz_demand(strcmp(v->choice, "one") == 0 || strcmp(v->choice, "two") == 0);
    fuzz_demand(v->list != NULL);
    fuzz_demand(v->texts.n <= WORDS);
    for (size_t i = 0; i < v->texts.n; i++)
        fuzz_demand(v->texts.all[i] != NULL);
}

static void parse_every(int argc, char **argv, bool more)
{
    values v;
    int rest = 0;
    bool help = false;
    static const lsi_option_word words[] = {
        {.typed = "--number", .instead = "--integer", .retired = true},
        {.typed = "-x", .instead = "--real"},
        {.typed = "-xx", .instead = "a clause"}};
    static const lsi_option_set set = {every, sizeof(every) / sizeof(every[0]),
                                       words, sizeof(words) / sizeof(words[0])};
    if (!fuzz_ok(lsi_options_parse(&set, argc, argv, &v, more ? &rest : NULL,
                                   &help)))
        return;
    check(&v);
    fuzz_demand(!more || (rest >= 1 && rest <= argc));
}

static void parse_run(int argc, char **argv)
{
    args a;
    lsi_run_hosts hosts;
    int rest = 0, ranks = 0;
    bool help = false;
    lsi_option_set set = {.rows = options, .n = N_OPTIONS};
    set.words = lsi_cli_flag_words(&set.n_words);
    if (!fuzz_ok(read_torchrun_flags(argc, argv)) ||
        !fuzz_ok(lsi_options_parse(&set, argc, argv, &a, &rest, &help)) ||
        !fuzz_ok(lsi_run_hosts_read(&a.hosts, &hosts)) ||
        !fuzz_ok(check_torchrun(&a, hosts.several)) ||
        !fuzz_ok(read_rendezvous(&a, hosts.several)) ||
        !fuzz_ok(read_ranks(&a, &ranks)))
        return;
    fuzz_demand(ranks >= 1 && ranks <= LSI_LAUNCH_MAX_RANKS);
    fuzz_demand(a.hosts.master_port >= 0 && a.hosts.master_port <= 65535);
    fuzz_demand(hosts.nodes.least >= 1 &&
                hosts.nodes.most >= hosts.nodes.least &&
                hosts.nodes.most <= LSI_LAUNCH_MAX_NODES);
    fuzz_demand(!hosts.several || hosts.nodes.endpoint[0] != '\0');
    lsi_launch_output wanted = {0};
    lsi_rank_output *outputs = NULL;
    if (fuzz_ok(lsi_rank_outputs_read(&a.output, ranks, &wanted, &outputs)) &&
        outputs != NULL)
        for (int i = 0; i < ranks; i++)
            fuzz_demand(outputs[i].console <= LSI_STREAMS &&
                        outputs[i].tagged <= LSI_STREAMS &&
                        outputs[i].folded <= LSI_STREAMS);
    free(outputs);
    fuzz_demand(a.threads >= 0 && a.threads <= 1024);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    char command[] = "fuzz";
    char *argv[WORDS + 2] = {command};
    int argc = 1;
    const uint8_t form = fuzz_byte(&in);
    while (in.size > 0 && argc <= WORDS)
        argv[argc++] = fuzz_line(&in);
    if (form % 2 == 0)
        parse_every(argc, argv, form % 4 == 0);
    else
        parse_run(argc, argv);
    for (int i = 1; i < argc; i++)
        free(argv[i]);
    return 0;
}
