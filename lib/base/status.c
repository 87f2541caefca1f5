/*
 * Names and texts of the status codes, both from lists.h.
 */
#include "lockstep/status.h"
#include "base/lists.h"

const char *ls_status_name(ls_status status)
{
    switch (status) {
#define X(name, value, text)                                                   \
    case LS_##name:                                                            \
        return "LS_" #name;
        LSI_STATUS_LIST(X)
#undef X
    }
    return "LS_UNKNOWN";
}

const char *ls_status_text(ls_status status)
{
    switch (status) {
#define X(name, value, text)                                                   \
    case LS_##name:                                                            \
        return text;
        LSI_STATUS_LIST(X)
#undef X
    }
    return "unknown status";
}
