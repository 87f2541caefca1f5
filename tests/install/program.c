/*
 * The calls of a user's first program, to check that an installed library
 * is found, links and runs. The build is given the version to expect.
 */
#include <lockstep/lockstep.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
    ls_dtype dtype;
    if (ls_dtype_parse("bf16", &dtype) != LS_OK || ls_dtype_size(dtype) != 2)
        return 1;
    if (ls_dtype_parse("nothing", &dtype) != LS_ERR_ARGUMENT ||
        strstr(ls_last_error(), "nothing") == NULL)
        return 2;
    if (ls_version_number() != LS_VERSION_NUMBER)
        return 3;
    puts(ls_version_string());
    return strcmp(ls_version_string(), EXPECTED_VERSION) == 0 ? 0 : 4;
}
