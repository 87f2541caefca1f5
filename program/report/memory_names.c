/* The names in a recording of memory. */
#include <stdio.h>

#include "report/memory_file.h"

enum { DEEPEST = 64 };

const char *lsi_memory_series_name(int kind)
{
    return kind == LSI_MEMORY_KEPT ? "kept by pools"
                                   : ls_memory_tag_name((ls_memory_tag)kind);
}

const char *lsi_memory_text(const lsi_memory_file *file, uint32_t number)
{
    const lsi_timeline_process *const p = file->process;
    return number > 0 && number <= p->n_names && p->names[number - 1] != NULL
               ? p->names[number - 1]
               : "";
}

/* A parent has a smaller number, so this ends. */
void lsi_memory_path_text(const lsi_memory_file *file, uint32_t path, char *out,
                          size_t room)
{
    uint32_t names[DEEPEST];
    int n = 0;
    size_t used = 0;
    out[0] = '\0';
    for (; path > 0 && path <= file->n_trails && n < DEEPEST;
         path = file->trails[path - 1].parent)
        names[n++] = (uint32_t)file->trails[path - 1].value;
    while (n-- > 0 && used < room) {
        const int more =
            snprintf(out + used, room - used, "%s%s", used > 0 ? "/" : "",
                     lsi_memory_text(file, names[n]));
        used += more > 0 ? (size_t)more : 0;
    }
}
