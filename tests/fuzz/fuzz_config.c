/* Flags in a file of JSON, with options of every type that may be in one. */
#include <string.h>

#include "cli/frame/config_file.h"
#include "fuzz.h"

const lsi_command lsi_command_root = {.name = ""};

typedef struct values {
    bool flag;
    int64_t integer, bytes;
    double real;
    const char *string, *choice, *list, *config;
} values;

#define ROW(...) LSI_OPTION(values, __VA_ARGS__)
static const lsi_option rows[] = {
    LSI_CONFIG_ROW(config),
    ROW(flag, BOOL, "flag", 'f', NULL, "true", "a flag"),
    ROW(integer, INT, "integer", 'i', "N", "3", "a number", .min = -5,
        .max = 1e6),
    ROW(bytes, BYTES, "bytes", 'b', "SIZE", "4k", "a size", .max = 1e12),
    ROW(real, REAL, "real", 'r', "X", "0.5", "a number", .min = 0, .max = 2),
    ROW(string, STRING, "string", 's', "TEXT", NULL, "a text"),
    ROW(choice, CHOICE, "choice", 'c', "WHICH", "one", "a choice",
        .choices = "one|two"),
    ROW(list, LIST, "list", 'l', "A,B", "a,b", "a list"),
};
static const lsi_command command = {.name = "fuzz", LSI_COMMAND_OPTIONS(rows)};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    values v;
    char name[] = "fuzz";
    char *argv[] = {name, NULL};
    const lsi_invocation call = {.command = &command, .argc = 1, .argv = argv};
    if (!fuzz_ok(lsi_cli_read_config(&call, fuzz_file(data, size), &v)))
        return 0;
    fuzz_demand(v.config == NULL);
    fuzz_demand(v.integer >= -5 && v.integer <= 1000000);
    fuzz_demand(v.bytes >= 0 && v.bytes <= 1000000000000);
    fuzz_demand(v.real >= 0 && v.real <= 2);
    fuzz_demand(strcmp(v.choice, "one") == 0 || strcmp(v.choice, "two") == 0);
    fuzz_demand(v.list != NULL);
    return 0;
}
