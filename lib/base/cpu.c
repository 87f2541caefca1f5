/* Features of the processor and the operating system, from CPUID and XCR0. */
#include "base/cpu.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define X(NAME, name, architecture, needs, onednn) {#name, needs},
static const struct {
    const char *name;
    unsigned needs;
} isas[LSI_ISA_COUNT] = {
#include "base/isas.def"
};
#undef X

static const char isa_list[] =
#define X(NAME, name, architecture, needs, onednn) " " #name
#include "base/isas.def"
#undef X
    ;

static pthread_once_t detect_once = PTHREAD_ONCE_INIT;
static unsigned machine_features = 0; /* of lsi_cpu_feature */
static char machine_model[64] = "unknown processor";
static bool machine_stores_wait = false;

#if defined(__x86_64__)

#    include <cpuid.h>
#    include <sys/syscall.h>
#    include <unistd.h>

typedef struct cpuid_leaf {
    uint32_t eax, ebx, ecx, edx;
} cpuid_leaf;

/* All zero if the processor does not have the leaf. */
static cpuid_leaf read_leaf(uint32_t leaf, uint32_t subleaf)
{
    cpuid_leaf r = {0, 0, 0, 0};
    __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
    return r;
}

/* Which register states the operating system saves on a context switch. */
static uint64_t read_xcr0(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static bool has_all(uint64_t value, uint64_t mask)
{
    return (value & mask) == mask;
}

static unsigned detect_vectors(void)
{
    const uint64_t xmm_ymm = 0x6, opmask_zmm = 0xe0;
    const uint32_t fma = 1U << 12, osxsave = 1U << 27, avx = 1U << 28,
                   f16c = 1U << 29;
    const uint32_t avx2 = 1U << 5, avx512f = 1U << 16, avx512dq = 1U << 17,
                   avx512bw = 1U << 30, avx512vl = 1U << 31;
    const uint32_t avx512_bf16 = 1U << 5;

    const uint32_t basic = read_leaf(1, 0).ecx;
    const cpuid_leaf extended = read_leaf(7, 0);
    if (!has_all(basic, fma | osxsave | avx | f16c) ||
        !has_all(extended.ebx, avx2))
        return 0;
    const uint64_t saved = read_xcr0();
    if (!has_all(saved, xmm_ymm))
        return 0;
    if (!has_all(extended.ebx, avx512f | avx512dq | avx512bw | avx512vl) ||
        !has_all(saved, opmask_zmm))
        return LSI_CPU_AVX2;
    /* eax of leaf 7 is its highest subleaf. */
    if (extended.eax < 1 || !has_all(read_leaf(7, 1).eax, avx512_bf16))
        return LSI_CPU_AVX2 | LSI_CPU_AVX512;
    return LSI_CPU_AVX2 | LSI_CPU_AVX512 | LSI_CPU_AVX512_BF16;
}

/* Linux saves the tiles only of processes that have asked for it. */
static bool may_use_tiles(void)
{
#    ifdef __linux__
    enum { REQUEST = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
#    else
    return false;
#    endif
}

static bool detect_amx_bf16(void)
{
    const uint32_t osxsave = 1U << 27;
    const uint32_t amx_bf16 = 1U << 22, amx_tile = 1U << 24;
    const uint64_t tiles = UINT64_C(3) << 17; /* their shape and contents */
    return has_all(read_leaf(1, 0).ecx, osxsave) &&
           has_all(read_leaf(7, 0).edx, amx_bf16 | amx_tile) &&
           has_all(read_xcr0(), tiles) && may_use_tiles();
}

static bool detect_sha(void)
{
    const uint32_t ssse3 = 1U << 9, sse4_1 = 1U << 19, sha = 1U << 29;
    return has_all(read_leaf(1, 0).ecx, ssse3 | sse4_1) &&
           has_all(read_leaf(7, 0).ebx, sha);
}

static unsigned detect_features(void)
{
    return detect_vectors() | (detect_amx_bf16() ? LSI_CPU_AMX_BF16 : 0) |
           (detect_sha() ? LSI_CPU_SHA : 0);
}

static bool detect_amd(void)
{
    const cpuid_leaf r = read_leaf(0, 0);
    char vendor[12];
    memcpy(vendor, &r.ebx, 4);
    memcpy(vendor + 4, &r.edx, 4);
    memcpy(vendor + 8, &r.ecx, 4);
    return memcmp(vendor, "AuthenticAMD", sizeof(vendor)) == 0;
}

static unsigned detect_family(void)
{
    const uint32_t signature = read_leaf(1, 0).eax;
    const unsigned base = signature >> 8 & 0xf;
    return base == 0xf ? base + (signature >> 20 & 0xff) : base;
}

static bool detect_stores_wait(void)
{
    const unsigned zen5 = 0x1a;
    return detect_amd() && detect_family() < zen5;
}

/* The brand string: 48 bytes in three leaves, padded with blanks. */
static void detect_model(void)
{
    const uint32_t first = 0x80000002, last = 0x80000004;
    if ((uint32_t)__get_cpuid_max(0x80000000, NULL) < last)
        return;
    char brand[49] = "";
    for (uint32_t leaf = first; leaf <= last; leaf++) {
        const cpuid_leaf part = read_leaf(leaf, 0);
        memcpy(brand + 16 * (leaf - first), &part, sizeof(part));
    }
    const char *begin = brand + strspn(brand, " ");
    size_t length = strlen(begin);
    while (length > 0 && begin[length - 1] == ' ')
        length--;
    if (length == 0)
        return;
    memcpy(machine_model, begin, length);
    machine_model[length] = '\0';
}

#else

/* NEON is part of 64-bit ARM. */
static unsigned detect_features(void)
{
#    if defined(__aarch64__)
    return LSI_CPU_NEON;
#    else
    return 0;
#    endif
}

static bool detect_stores_wait(void)
{
    return false;
}

static void detect_model(void)
{
}

#endif

static void detect(void)
{
    machine_features = detect_features();
    machine_stores_wait = detect_stores_wait();
    detect_model();
}

bool lsi_isa_available(lsi_isa isa)
{
    pthread_once(&detect_once, detect);
    return (isas[isa].needs & ~machine_features) == 0;
}

lsi_isa lsi_cpu_isa(void)
{
    lsi_isa isa = LSI_ISA_COUNT - 1;
    while (!lsi_isa_available(isa))
        isa--;
    return isa;
}

const char *lsi_cpu_model(void)
{
    pthread_once(&detect_once, detect);
    return machine_model;
}

bool lsi_cpu_has_amx_bf16(void)
{
    pthread_once(&detect_once, detect);
    return (machine_features & LSI_CPU_AMX_BF16) != 0;
}

bool lsi_cpu_has_sha(void)
{
    pthread_once(&detect_once, detect);
    return (machine_features & LSI_CPU_SHA) != 0;
}

bool lsi_cpu_stores_wait(void)
{
    pthread_once(&detect_once, detect);
    return machine_stores_wait;
}

const char *lsi_isa_name(lsi_isa isa)
{
    return (unsigned)isa < LSI_ISA_COUNT ? isas[isa].name : "unknown";
}

ls_status lsi_isa_parse(const char *name, lsi_isa *out)
{
    for (int i = 0; i < LSI_ISA_COUNT; i++) {
        if (strcmp(name, isas[i].name) == 0) {
            *out = (lsi_isa)i;
            return LS_OK;
        }
    }
    return lsi_fail(LS_ERR_ARGUMENT,
                    "unknown instruction level '%s'; choose one of:%s", name,
                    isa_list);
}

/* " ref avx2": what this machine has. */
static const char *available_list(char *out, size_t bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < LSI_ISA_COUNT && used < bytes; i++) {
        if (lsi_isa_available((lsi_isa)i))
            used +=
                (size_t)snprintf(out + used, bytes - used, " %s", isas[i].name);
    }
    return out;
}

ls_status lsi_isa_from_env(lsi_isa *out)
{
    char levels[128];
    const char *name = getenv("LOCKSTEP_ISA");
    lsi_isa wanted = lsi_cpu_isa();
    if (name != NULL && *name != '\0' && lsi_isa_parse(name, &wanted) != LS_OK)
        return lsi_fail(LS_ERR_ARGUMENT, "LOCKSTEP_ISA: %s", ls_last_error());
    if (!lsi_isa_available(wanted))
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "LOCKSTEP_ISA is '%s', but this processor does not "
                        "have that instruction level; it has:%s",
                        name, available_list(levels, sizeof(levels)));
    *out = wanted;
    return LS_OK;
}
