/*
 * Which instructions kernels may use. A level counts only if both the CPU and
 * the operating system (XCR0) support it. LOCKSTEP_ISA lowers the level;
 * asking for more than the machine has is an error.
 */
#ifndef LS_BASE_CPU_H
#define LS_BASE_CPU_H

#include <stdbool.h>

#include "lockstep/status.h"

typedef enum lsi_isa {
#define X(NAME, name, architecture, needs, onednn) LSI_ISA_##NAME,
#include "base/isas.def"
#undef X
    LSI_ISA_COUNT
} lsi_isa;

/* Features that levels need, as bits; AVX-512 requires those before it. */
typedef enum lsi_cpu_feature {
    LSI_CPU_AVX2 = 1,   /* with FMA and F16C */
    LSI_CPU_AVX512 = 2, /* F, BW, DQ and VL */
    LSI_CPU_AVX512_BF16 = 4,
    LSI_CPU_AMX_BF16 = 8,
    LSI_CPU_NEON = 16,
    LSI_CPU_SHA = 32 /* with SSE4.1 */
} lsi_cpu_feature;

/* Whether the machine has the level; the highest of which that is true. */
bool lsi_isa_available(lsi_isa isa);
lsi_isa lsi_cpu_isa(void);

/* The level to use: the machine's, or LOCKSTEP_ISA if that is lower. */
ls_status lsi_isa_from_env(lsi_isa *out);

ls_status lsi_isa_parse(const char *name, lsi_isa *out);
const char *lsi_isa_name(lsi_isa isa);

/* "AMD EPYC 9654" or what the processor calls itself. Static. */
const char *lsi_cpu_model(void);

/*
 * Whether a store to a line that another core's cache holds waits for that core
 * and keeps later stores waiting: AMD before Zen 5.
 */
bool lsi_cpu_stores_wait(void);

/* Whether there are x86's instructions for SHA-256. */
bool lsi_cpu_has_sha(void);

/* Whether matrices of bf16 can be multiplied by AMX's tiles. */
bool lsi_cpu_has_amx_bf16(void);

/*
 * Fetches a line that will be written soon, away from the caches of other
 * cores. A hint, which some processors ignore.
 */
static inline void lsi_cpu_fetch_to_write(const void *line)
{
#if defined(__x86_64__)
    /* Compilers use this instruction only if told that it exists. */
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
    __builtin_prefetch(line, 1);
#endif
}

/* One spin of a waiting loop. */
static inline void lsi_cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
