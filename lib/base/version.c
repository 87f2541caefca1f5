/*
 * The version that the library was built as.
 */
#include "lockstep/version.h"

int ls_version_number(void)
{
    return LS_VERSION_NUMBER;
}

const char *ls_version_string(void)
{
    return LS_VERSION_STRING;
}
