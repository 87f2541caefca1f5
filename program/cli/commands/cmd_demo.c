/* lockstep demo NAME: the first exercises of a course on the subject. */
#include "cli/frame/command.h"

extern const lsi_command lsi_command_demo_hello,
    lsi_command_demo_mixed_precision, lsi_command_demo_sequential;

static const lsi_command *const demos[] = {&lsi_command_demo_hello,
                                           &lsi_command_demo_mixed_precision,
                                           &lsi_command_demo_sequential};

const lsi_command lsi_command_demo = {
    .name = "demo",
    .summary = "Run short examples of ranks and data types",
    LSI_COMMAND_CHILDREN(demos),
};
