#include "base/module.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

static const char *const from_library = "/" LSI_MODULES;
static const char *const from_program = "/" LSI_MODULES_FROM_PROGRAM;

/* The folder of the library, or of the program that it is linked into. */
static void own_folder(char *folder)
{
    Dl_info info;
    const char *end = NULL;
    folder[0] = '\0';
    if (dladdr((const void *)&from_library, &info) != 0 &&
        info.dli_fname != NULL && strchr(info.dli_fname, '/') != NULL) {
        if (realpath(info.dli_fname, folder) == NULL)
            folder[0] = '\0';
    }
    if (folder[0] == '\0') { /* started by a bare name */
        const ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
        folder[length < 0 ? 0 : length] = '\0';
    }
    end = strrchr(folder, '/');
    folder[end == NULL ? 0 : end - folder] = '\0';
}

/*
 * In the given folder; in a folder next to the library; relative to the
 * program.
 */
static bool find(const char *name, char *path, size_t bytes)
{
    char own[PATH_MAX];
    own_folder(own);
    const char *given = getenv("LOCKSTEP_MODULES");
    const char *const from[] = {given == NULL ? "" : given, own, own};
    const char *const to[] = {"", from_library, from_program};
    for (int i = 0; i < 3; i++) {
        if (from[i][0] == '\0')
            continue;
        const int length = snprintf(path, bytes, "%s%s/liblockstep-%s.so",
                                    from[i], to[i], name);
        if (length < (int)bytes && access(path, R_OK) == 0)
            return true;
    }
    return false;
}

bool lsi_module_is_there(const char *name)
{
    char path[PATH_MAX + 64];
    return find(name, path, sizeof(path));
}

ls_status lsi_module_load(const char *name, const lsi_module_kind *kind,
                          const void **table)
{
    char path[PATH_MAX + 64];
    if (!find(name, path, sizeof(path)))
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "liblockstep-%s.so was not found in " LSI_MODULES
                        " next to the library",
                        name);
    void *module =
        dlopen(path, RTLD_NOW | (kind->global ? RTLD_GLOBAL : RTLD_LOCAL));
    if (module == NULL)
        return lsi_fail(LS_ERR_UNSUPPORTED, "%s cannot be loaded: %s", path,
                        dlerror());
    const void *(*get)(void) = NULL;
    void *symbol = dlsym(module, kind->symbol);
    memcpy(&get, &symbol, sizeof(get));
    const int *version = get == NULL ? NULL : get();
    if (version == NULL || *version != kind->version)
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "%s belongs to another version of Lockstep", path);
    *table = version;
    return LS_OK;
}
