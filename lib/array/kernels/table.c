/*
 * The kernel table: the reference fills every slot, then each instruction level
 * up to that of fold/fold.h replaces the kernels that it does better. For
 * portable bits the highest level that has some replaces those that vary.
 */
#include <pthread.h>
#include <stddef.h>

#include "array/kernels/kernels.h"
#include "base/bits.h"
#include "base/error.h"

static pthread_once_t fill_once = PTHREAD_ONCE_INIT;
static lsi_kernels process_tables[2]; /* by ls_bits */

/* A build with sanitizers may have the reference only (CMakeLists.txt). */
#define IF_ANY(fill) fill
#if defined(__x86_64__) && !defined(LSI_REFERENCE_ONLY)
#    define IF_X86(fill) fill
#else
#    define IF_X86(fill) NULL
#endif
#if defined(__aarch64__) && !defined(LSI_REFERENCE_ONLY)
#    define IF_ARM64(fill) fill
#else
#    define IF_ARM64(fill) NULL
#endif

/* NULL: a level that is not in this build. */
static void (*const fills[LSI_ISA_COUNT])(lsi_kernels *table) = {
#define X(NAME, name, architecture, needs, onednn)                             \
    [LSI_ISA_##NAME] = IF_##architecture(lsi_kernels_fill_##name),
#include "base/isas.def"
#undef X
};

static void (*const portables[LSI_ISA_COUNT])(lsi_kernels *table) = {
    [LSI_ISA_REF] = lsi_kernels_portable_ref,
    [LSI_ISA_NEON] = IF_ARM64(lsi_kernels_portable_neon),
    [LSI_ISA_AVX2] = IF_X86(lsi_kernels_portable_avx2),
    [LSI_ISA_AVX512] = IF_X86(lsi_kernels_portable_avx512),
};

/* As high as `fold`, whose kernels are those of all slots of these names. */
static void climb(lsi_kernels *table, const lsi_fold_table *fold)
{
    for (unsigned level = 0; level <= fold->isa; level++)
        if (fills[level] != NULL)
            fills[level](table);
#define X(name, args) table->name = fold->name;
#include "fold/fold.def"
#undef X
    table->isa = fold->isa;
}

/* No choice of kernel or layout may depend on the level. */
static void make_portable(lsi_kernels *table)
{
    unsigned level = table->isa;
    while (portables[level] == NULL)
        level--;
    portables[level](table);
    table->blocked = LSI_LAYOUT_BLOCKED_16;
    table->panels = NULL;
}

static void fill(void)
{
    climb(&process_tables[LS_BITS_FAST], lsi_fold_get());
    process_tables[LS_BITS_PORTABLE] = process_tables[LS_BITS_FAST];
    make_portable(&process_tables[LS_BITS_PORTABLE]);
}

const lsi_kernels *lsi_kernels_get(void)
{
    pthread_once(&fill_once, fill);
    return &process_tables[lsi_bits_are_portable() ? LS_BITS_PORTABLE
                                                   : LS_BITS_FAST];
}

ls_status lsi_kernels_at(lsi_isa isa, lsi_kernels *out)
{
    lsi_fold_table fold;
    LS_TRY(lsi_fold_at(isa, &fold));
    climb(out, &fold);
    return LS_OK;
}

ls_status lsi_kernels_portable_at(lsi_isa isa, lsi_kernels *out)
{
    LS_TRY(lsi_kernels_at(isa, out));
    make_portable(out);
    return LS_OK;
}
