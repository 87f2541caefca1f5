#include "cli/commands/memory_code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch/backtrace.h"

struct lsi_memory_code {
    const lsi_memory_file *file;
    lsi_symbols *symbols;
};

/*
 * Files and folders between a model and the allocator, which are not blamed for
 * a block. tests/integration/cli/test_memory.py checks that they exist.
 */
static const char *const inner[] = {
    "lib/base/",
    "lib/observe/",
    "lib/model/tensor/",
    "lib/model/autograd/",
    "lib/array/compute/",
    "lib/model/nn/layer.c",
    "lib/model/optim/",
    "lib/model/parallel/",
    "lib/model/nn/transformer_params.c",
};

/*
 * The lines of the C library may be known where those of the program are not.
 */
static bool is_start(const char *text)
{
    return strncmp(text, "__libc_start", 12) == 0 ||
           strncmp(text, "_start", 6) == 0;
}

lsi_memory_code *lsi_memory_code_open(const lsi_memory_file *file)
{
    const lsi_crash maps = {.maps = file->maps, .maps_bytes = file->maps_bytes};
    if (file->maps_bytes == 0)
        return NULL;
    lsi_symbols *const symbols = lsi_symbols_open(&maps);
    lsi_memory_code *const code = malloc(sizeof(*code));
    if (symbols == NULL || code == NULL) {
        free(code);
        return NULL;
    }
    *code = (lsi_memory_code){file, symbols};
    return code;
}

void lsi_memory_code_free(lsi_memory_code **code)
{
    free(*code); /* symbols stay: the process ends soon */
    *code = NULL;
}

static bool is_inner(const char *text)
{
    for (size_t i = 0; i < sizeof(inner) / sizeof(inner[0]); i++) {
        if (strstr(text, inner[i]) != NULL)
            return true;
    }
    return false;
}

/* Shortens "attend+0x1f at ../../lib/model/nn/a.c:12". */
static void tidy(const char *text, char *out, size_t room)
{
    const size_t function = strcspn(text, "+");
    const char *place = strstr(text, " at ");
    const char *file = place != NULL ? place + 4 : "";
    const char *source = strstr(file, "/lib/");
    if (source == NULL)
        source = strstr(file, "/program/");
    if (source != NULL)
        file = source + 1;
    while (strncmp(file, "../", 3) == 0)
        file += 3;
    snprintf(out, room, "%.*s at %s", (int)function, text, file);
}

void lsi_memory_code_of(lsi_memory_code *code, const lsi_memory_block *block,
                        char *out, size_t room)
{
    char text[1024];
    out[0] = '\0';
    if (code == NULL)
        return;
    const lsi_trail *const trails = code->file->trails;
    for (uint32_t call = block->stack; call != 0;
         call = trails[call - 1].parent) {
        if (!lsi_symbols_find(code->symbols, trails[call - 1].value, text,
                              sizeof(text)))
            continue;
        if (strstr(text, " at ") != NULL && !is_inner(text) &&
            !is_start(text)) {
            tidy(text, out, room);
            return;
        }
    }
}
