/* lockstep version */
#include <stdio.h>

#include "cli/frame/command.h"
#include "lockstep/version.h"

static int run_version(const lsi_invocation *call)
{
    int status;
    if (lsi_cli_parse(call, NULL, NULL, &status)) {
        printf("lockstep %s\n", ls_version_string());
        status = 0;
    }
    return status;
}

const lsi_command lsi_command_version = {
    .name = "version",
    .summary = "Print the version",
    .text = "'lockstep --version' and 'lockstep -V' print the same. 'lockstep "
            "info' also prints the build and the machine.",
    .run = run_version,
};
