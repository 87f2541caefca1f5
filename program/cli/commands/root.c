/*
 * The table of commands: lsi_command_root.
 */
#include "cli/bench/bench.h"
#include "cli/frame/command.h"

#define X(id)     extern const lsi_command lsi_command_##id;
#define BENCH(id) extern const lsi_bench lsi_bench_##id;
#include "cli/commands/commands.def"
#undef X
#undef BENCH

static const lsi_command *const commands[] = {
#define X(id)     &lsi_command_##id,
#define BENCH(id) &lsi_bench_##id.command,
#include "cli/commands/commands.def"
#undef X
#undef BENCH
};

const lsi_command lsi_command_root = {
    .name = "",
    .summary = "Data-parallel training on the CPUs of one machine or several",
    .text = "Pages named docs/... are in the folder share/doc/lockstep of an "
            "installation.",
    LSI_COMMAND_CHILDREN(commands),
};
