/*
 * The facts about a machine that its measurements depend on.
 */
#include "report/machine.h"

#include <stdint.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/cpus.h"

const char *lsi_compiler(void)
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
                     kernel, "compiler", lsi_compiler());
}
