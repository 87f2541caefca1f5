/* lockstep info: the build and the machine it runs on. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "array/compute/dense.h"
#include "base/cpu.h"
#include "base/cpus.h"
#include "base/cpuset.h"
#include "base/error.h"
#include "base/json.h"
#include "base/meminfo.h"
#include "base/module.h"
#include "base/proc.h"
#include "cli/commands/machine_selection.h"
#include "cli/frame/command.h"
#include "comm/net/mpi/modules.h"
#include "lockstep/version.h"
#include "report/machine.h"
#include "report/result.h"

typedef struct args {
    const char *json;
} args;

#define ROW(...) LSI_OPTION(args, __VA_ARGS__)
static const lsi_option options[] = {
    LSI_JSON_ROW(json),
};

/* "always [madvise] never" has the choice in brackets. */
static json_t *huge_pages(void)
{
    char text[128];
    if (lsi_proc_read("/sys/kernel/mm/transparent_hugepage/enabled", text,
                      sizeof(text)) < 0)
        return json_string("none");
    const char *begin = strchr(text, '[');
    const char *end = begin != NULL ? strchr(begin, ']') : NULL;
    if (end == NULL)
        return json_string("unknown");
    return json_stringn(begin + 1, (size_t)(end - begin) - 1);
}

/* Transports of this build in addition to the memory of one machine. */
static int add_optional_parts(json_t *info)
{
    char modules[64];
    lsi_mpi_modules(modules, sizeof(modules));
    return json_object_set_new(info, "mpi",
                               modules[0] == '\0' ? json_null()
                                                  : json_string(modules)) |
           json_object_set_new(info, "ucx",
                               lsi_module_is_there("ucx") ? json_string("yes")
                                                          : json_null());
}

static json_t *collect(void)
{
    char affinity[256] = "unknown", selection[LSI_SELECTION_TEXT];
    lsi_cpuset cpus;
    if (lsi_cpuset_own(&cpus))
        lsi_cpuset_text(&cpus, affinity, sizeof(affinity));
    json_t *info = json_pack("{s:s}", "lockstep", ls_version_string());
    json_object_update_new(info, lsi_machine_json());
    json_t *more =
        json_pack("{s:s, s:s, s:i, s:I, s:i, s:o, s:s}", "isa_of_cpu",
                  lsi_isa_name(lsi_cpu_isa()), "affinity", affinity, "threads",
                  lsi_threads_default(lsi_cpus_available()),
                  "memory_available_bytes", (json_int_t)lsi_memory_available(),
                  "page_bytes", (int)sysconf(_SC_PAGESIZE), "huge_pages",
                  huge_pages(), "onednn", lsi_dense_version());
    json_object_update_new(info, more);
    (void)lsi_machine_selection(selection);
    json_object_set_new(info, "selection_table",
                        lsi_json_text(selection, strlen(selection)));
    if (add_optional_parts(info) != 0) {
        json_decref(info);
        return NULL;
    }
    return info;
}

static void print_line(const char *name, const json_t *value)
{
    printf("%-24s", name);
    if (json_is_string(value))
        puts(json_string_value(value));
    else if (json_is_integer(value))
        printf("%" JSON_INTEGER_FORMAT "\n", json_integer_value(value));
    else
        puts("none");
}

static void print_text(json_t *info)
{
    const char *name;
    json_t *value;
    json_object_foreach(info, name, value) print_line(name, value);
}

/* One row, with the first members of every result file. */
static ls_status write_json(const lsi_invocation *call, json_t *info,
                            const char *path)
{
    json_t *const document =
        lsi_origin_json(call->line_argc, (const char *const *)call->line_argv);
    if (document == NULL ||
        json_object_set_new(document, "rows", json_pack("[O]", info)) != 0) {
        json_decref(document);
        return lsi_fail(LS_ERR_MEMORY, "not enough memory for '%s'", path);
    }
    return lsi_result_write_json(path, document, LSI_JSON_WIDE, path);
}

static int run_info(const lsi_invocation *call)
{
    args a;
    int status;
    if (!lsi_cli_parse(call, &a, NULL, &status))
        return status;
    lsi_isa isa;
    if (lsi_isa_from_env(&isa) != LS_OK)
        return lsi_cli_error();
    if (lsi_result_check(a.json) != LS_OK)
        return lsi_cli_error();
    json_t *const info = collect();
    if (info == NULL)
        return lsi_cli_usage(
            "not enough memory for the properties of this machine");
    if (!lsi_result_is_stdout(a.json))
        print_text(info);
    const ls_status written =
        a.json != NULL ? write_json(call, info, a.json) : LS_OK;
    json_decref(info);
    return written == LS_OK ? 0 : lsi_cli_error();
}

const lsi_command lsi_command_info = {
    .name = "info",
    .summary =
        "Print the version, the build and the properties of this machine",
    LSI_COMMAND_OPTIONS(options),
    .run = run_info,
};
