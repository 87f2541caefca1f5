#include "comm/bootstrap/transports.h"

#include <stdio.h>
#include <string.h>

static const lsi_meeting rows[] = {
#define X(name, reaches, meet) {#name, LSI_REACHES_##reaches, meet},
#include "comm/bootstrap/transports.def"
#undef X
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

const lsi_meeting *lsi_meeting_for(bool several)
{
    const lsi_meeting *row = rows;
    while (several && row->reaches == LSI_REACHES_MACHINE)
        row++;
    return row;
}

const lsi_meeting *lsi_meeting_find(const char *name)
{
    for (int i = 0; i < ROWS; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

const char *lsi_meeting_names(char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < ROWS && used < bytes; i++) {
        const char *before = i == 0 ? "" : i == ROWS - 1 ? " or " : ", ";
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", before,
                                 rows[i].name);
    }
    return text;
}
