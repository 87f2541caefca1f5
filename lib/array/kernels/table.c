/*
 * The kernel table: the reference fills every slot, then each instruction level
 * up to that of fold/fold.h replaces the kernels that it does better.
 */
#include <pthread.h>
#include <stddef.h>

#include "array/kernels/kernels.h"
#include "base/error.h"

static pthread_once_t fill_once = PTHREAD_ONCE_INIT;
static lsi_kernels process_table;

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

static void fill(void)
{
    climb(&process_table, lsi_fold_get());
}

const lsi_kernels *lsi_kernels_get(void)
{
    pthread_once(&fill_once, fill);
    return &process_table;
}

ls_status lsi_kernels_at(lsi_isa isa, lsi_kernels *out)
{
    lsi_fold_table fold;
    LS_TRY(lsi_fold_at(isa, &fold));
    climb(out, &fold);
    return LS_OK;
}
