/* lockstep completion SHELL */
#include <stdio.h>
#include <string.h>

#include "cli/frame/completion.h"

static int run_completion(const lsi_invocation *call)
{
    static const struct {
        const char *name;
        void (*print)(FILE *stream, const lsi_command *root);
    } shells[] = {{"bash", lsi_completion_bash},
                  {"zsh", lsi_completion_zsh},
                  {"fish", lsi_completion_fish}};
    int rest;
    int status;
    if (!lsi_cli_parse(call, NULL, &rest, &status))
        return status;
    for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++) {
        if (rest + 1 == call->argc &&
            strcmp(call->argv[rest], shells[i].name) == 0) {
            shells[i].print(stdout, &lsi_command_root);
            return 0;
        }
    }
    return lsi_cli_usage("name one shell: 'lockstep completion bash', or zsh "
                         "or fish instead of bash");
}

const lsi_command lsi_command_completion = {
    .name = "completion",
    .summary = "Print a script that completes command lines in a shell",
    .arguments = "bash|zsh|fish",
    .text = "bash: source <(lockstep completion bash)\n\nzsh: source "
            "<(lockstep completion zsh), after compinit\n\nfish: lockstep "
            "completion fish | source\n\nThe installation also contains these "
            "scripts. A shell that searches the installation prefix finds them "
            "without these commands.",
    .run = run_completion,
};
