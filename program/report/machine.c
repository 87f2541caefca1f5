/*
 * The facts about a machine that its measurements depend on.
 */
#include "report/machine.h"

#include <stdint.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/cpus.h"
#include "base/json.h"
#include "lockstep/version.h"

/* The compiler of the library: "gcc 12.2.0" or "clang 14.0.6". */
static const char *compiler(void)
{
#if defined(__clang__)
    return "clang " __clang_version__;
#else
    return "gcc " __VERSION__;
#endif
}

static int64_t memory_bytes(void)
{
    return (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
}

json_t *lsi_machine_json(void)
{
    struct utsname name;
    const char *kernel = uname(&name) == 0 ? name.release : "unknown";
    lsi_isa isa;
    if (lsi_isa_from_env(&isa) != LS_OK)
        isa = lsi_cpu_isa();
    return json_pack("{s:s, s:s, s:i, s:I, s:s, s:s}", "cpu", lsi_cpu_model(),
                     "isa", lsi_isa_name(isa), "cpus", lsi_cpus_available(),
                     "memory_bytes", (json_int_t)memory_bytes(), "kernel",
                     kernel, "compiler", compiler());
}

static json_t *command_line(int argc, const char *const *argv)
{
    json_t *command = json_array();
    for (int i = 0; i < argc; i++) {
        json_array_append_new(command, lsi_json_text(argv[i], strlen(argv[i])));
    }
    return command;
}

json_t *lsi_origin_json(int argc, const char *const *argv)
{
    return json_pack("{s:s, s:o, s:o}", "lockstep", ls_version_string(),
                     "command", command_line(argc, argv), "machine",
                     lsi_machine_json());
}
