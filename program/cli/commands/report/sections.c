/* The sections of the report, in their order. */
#include "cli/commands/report/report.h"

#define LSI_REPORT_SECTIONS(X)                                                 \
    X(setup)                                                                   \
    X(warmup)                                                                  \
    X(types)                                                                   \
    X(memory)                                                                  \
    X(profile)                                                                 \
    X(attention)                                                               \
    X(all_reduce)                                                              \
    X(ring)                                                                    \
    X(batch_norm)                                                              \
    X(pipeline)                                                                \
    X(losses)                                                                  \
    X(strategies)                                                              \
    X(buckets)                                                                 \
    X(timelines)                                                               \
    X(scaling)                                                                 \
    X(plan)                                                                    \
    X(sharding)                                                                \
    X(communication)                                                           \
    X(runs)

#define X(name) extern const lsi_section lsi_section_##name;
LSI_REPORT_SECTIONS(X)
#undef X

const lsi_section *const lsi_sections[] = {
#define X(name) &lsi_section_##name,
    LSI_REPORT_SECTIONS(X)
#undef X
};

const size_t lsi_sections_count = sizeof(lsi_sections) / sizeof(*lsi_sections);
