/*
 * The kernel table: the reference fills every slot, then each instruction
 * level up to the wanted one replaces what it does better.
 */
#include <pthread.h>
#include <stddef.h>

#include "array/kernels/kernels.h"
#include "base/error.h"

static pthread_once_t fill_once = PTHREAD_ONCE_INIT;
static lsi_kernels process_table;
static lsi_error process_error;

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

static void climb(lsi_kernels *table, lsi_isa isa)
{
    for (unsigned level = 0; level <= isa; level++)
        if (fills[level] != NULL)
            fills[level](table);
    table->isa = isa;
}

/* Also after an error, which lsi_kernels_check tells, there is a table. */
static void fill(void)
{
    lsi_isa isa = lsi_cpu_isa();
    (void)lsi_error_keep(&process_error, lsi_isa_from_env(&isa));
    climb(&process_table, isa);
}

ls_status lsi_kernels_check(void)
{
    pthread_once(&fill_once, fill);
    return lsi_error_again(&process_error);
}

const lsi_kernels *lsi_kernels_get(void)
{
    pthread_once(&fill_once, fill);
    return &process_table;
}

ls_status lsi_kernels_at(lsi_isa isa, lsi_kernels *out)
{
    if (!lsi_isa_available(isa))
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "kernels of level %s asked for, but this processor "
                        "does not have that",
                        lsi_isa_name(isa));
    climb(out, isa);
    return LS_OK;
}
