/* lockstep demo NAME: the first exercises of a course on the subject. */
#include "cli/frame/command.h"

#define X(id) extern const lsi_command lsi_command_demo_##id;
#include "cli/commands/demos.def"
#undef X

static const lsi_command *const demos[] = {
#define X(id) &lsi_command_demo_##id,
#include "cli/commands/demos.def"
#undef X
};

const lsi_command lsi_command_demo = {
    .name = "demo",
    .summary = "Show what ranks are",
    .children = demos,
    .n_children = sizeof(demos) / sizeof(demos[0]),
};
