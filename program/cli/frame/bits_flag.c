#include "cli/frame/bits_flag.h"

#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/error.h"
#include "cli/frame/command.h"

static ls_status apply(const char *name)
{
    ls_bits bits;
    if (name == NULL)
        return lsi_bits_check();
    LS_TRY(lsi_bits_parse(name, &bits));
    setenv("LOCKSTEP_BITS", name, 1);
    return ls_set_bits(bits);
}

bool lsi_cli_set_bits(const char *bits, const char *dtype, int *exit_status)
{
    if (apply(bits) != LS_OK)
        *exit_status = lsi_cli_usage("%s", ls_last_error());
    else if (dtype != NULL && strcmp(dtype, "f32") != 0 &&
             lsi_bits_are_portable())
        *exit_status = lsi_cli_usage(
            "--dtype %s does not go with --bits portable: only f32 has the "
            "same bits on every processor; give --dtype f32 or --bits fast",
            dtype);
    else
        return true;
    return false;
}
