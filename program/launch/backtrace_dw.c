/*
 * Names and lines from elfutils' libdw. It is loaded after a crash, and not
 * linked: every start of a rank would pay for it.
 */
#include <dlfcn.h>
#include <elfutils/libdwfl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch/backtrace.h"

#define FUNCTIONS(X)                                                           \
    X(dwfl_begin)                                                              \
    X(dwfl_report_begin)                                                       \
    X(dwfl_report_end)                                                         \
    X(dwfl_linux_proc_maps_report)                                             \
    X(dwfl_linux_proc_find_elf)                                                \
    X(dwfl_standard_find_debuginfo)                                            \
    X(dwfl_addrmodule)                                                         \
    X(dwfl_module_addrinfo)                                                    \
    X(dwfl_module_getsrc)                                                      \
    X(dwfl_lineinfo)

struct lsi_symbols {
#define FIELD(name) __typeof__(&name) name;
    FUNCTIONS(FIELD)
#undef FIELD
    Dwfl_Callbacks callbacks;
    Dwfl *dwfl;
};

static bool load(lsi_symbols *s)
{
    void *const library = dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);
    bool all = library != NULL;
#define LOAD(name)                                                             \
    if (all) {                                                                 \
        void *const found = dlsym(library, #name);                             \
        memcpy(&s->name, &found, sizeof(found));                               \
        all = found != NULL;                                                   \
    }
    FUNCTIONS(LOAD)
#undef LOAD
    return all;
}

/* The process ends soon, which closes all that is opened here. */
lsi_symbols *lsi_symbols_open(const lsi_crash *crash)
{
    lsi_symbols *const s = calloc(1, sizeof(*s));
    if (s == NULL || !load(s)) {
        free(s);
        return NULL;
    }
    s->callbacks.find_elf = s->dwfl_linux_proc_find_elf;
    s->callbacks.find_debuginfo = s->dwfl_standard_find_debuginfo;
    s->dwfl = s->dwfl_begin(&s->callbacks);
    FILE *const maps = tmpfile();
    if (s->dwfl == NULL || maps == NULL)
        return NULL;
    fwrite(crash->maps, 1, crash->maps_bytes, maps);
    rewind(maps);
    s->dwfl_report_begin(s->dwfl);
    const bool good = s->dwfl_linux_proc_maps_report(s->dwfl, maps) == 0;
    s->dwfl_report_end(s->dwfl, NULL, NULL);
    fclose(maps);
    return good ? s : NULL;
}

bool lsi_symbols_find(lsi_symbols *s, uint64_t pc, char *out, size_t room)
{
    GElf_Off offset;
    GElf_Sym symbol;
    Dwfl_Module *const module = s->dwfl_addrmodule(s->dwfl, pc);
    if (module == NULL)
        return false;
    const char *const name =
        s->dwfl_module_addrinfo(module, pc, &offset, &symbol, NULL, NULL, NULL);
    if (name == NULL)
        return false;
    Dwfl_Line *const line = s->dwfl_module_getsrc(module, pc);
    int number = 0;
    const char *const file =
        line == NULL ? NULL
                     : s->dwfl_lineinfo(line, NULL, &number, NULL, NULL, NULL);
    const size_t bare = strcspn(name, "@"); /* without a version */
    const int length = (int)(bare < 400 ? bare : 400);
    if (file != NULL)
        snprintf(out, room, "%.*s+0x%" PRIx64 " at %.500s:%d", length, name,
                 (uint64_t)offset, file, number);
    else
        snprintf(out, room, "%.*s+0x%" PRIx64, length, name, (uint64_t)offset);
    return true;
}
