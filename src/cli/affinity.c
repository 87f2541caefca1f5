/* The kernel's own rendering of the affinity mask. */
#include "cli/affinity.h"

#include <stdio.h>
#include <string.h>

void lsi_affinity_text(char *out, size_t bytes)
{
    static const char key[] = "Cpus_allowed_list:";
    char line[4096];
    snprintf(out, bytes, "unknown");
    FILE *file = fopen("/proc/self/status", "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, key, sizeof(key) - 1) != 0)
            continue;
        const char *value = line + sizeof(key) - 1;
        value += strspn(value, " \t");
        snprintf(out, bytes, "%.*s", (int)strcspn(value, "\n"), value);
        break;
    }
    if (file != NULL)
        fclose(file);
}
