#include "comm/bootstrap/transports.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const lsi_meeting rows[] = {
#define X(name, reaches, if_set, meet)                                         \
    {#name, LSI_REACHES_##reaches, if_set, meet},
#include "comm/bootstrap/transports.def"
#undef X
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

static bool is_offered(const lsi_meeting *row)
{
    const char *text = row->if_set == NULL ? NULL : getenv(row->if_set);
    return row->if_set == NULL || (text != NULL && *text != '\0');
}

const lsi_meeting *lsi_meeting_for(bool several)
{
    const lsi_meeting *row = rows;
    while ((several && row->reaches == LSI_REACHES_MACHINE) || !is_offered(row))
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
