/* lockstep bench NAME: one child for each row of benches.def. */
#include "cli/bench/bench.h"

#define X(id) extern const lsi_bench lsi_bench_##id;
#include "cli/bench/benches.def"
#undef X

static const lsi_command *const benches[] = {
#define X(id) &lsi_bench_##id.command,
#include "cli/bench/benches.def"
#undef X
};

const lsi_command lsi_command_bench = {
    .name = "bench",
    .summary = "Measure one part of the library",
    LSI_COMMAND_CHILDREN(benches),
};
