/*
 * The kernel table: the reference fills every slot, then each instruction
 * level up to the wanted one replaces what it does better.
 */
#include <pthread.h>
#include <stddef.h>

#include "base/error.h"
#include "base/log.h"
#include "kernels/kernels.h"

static pthread_once_t fill_once = PTHREAD_ONCE_INIT;
static lsi_kernels process_table;

static void climb(lsi_kernels *table, lsi_isa isa)
{
    lsi_kernels_fill_ref(table);
#if defined(__x86_64__)
    if (isa >= LSI_ISA_AVX2)
        lsi_kernels_fill_avx2(table);
    if (isa >= LSI_ISA_AVX512)
        lsi_kernels_fill_avx512(table);
#endif
    table->isa = isa;
}

/* A bad LOCKSTEP_ISA is refused when a program starts; here it is too late. */
static void fill(void)
{
    lsi_isa isa;
    if (lsi_isa_from_env(&isa) != LS_OK) {
        isa = lsi_cpu_isa();
        lsi_log(LSI_LOG_WARN, "%s; using %s", ls_last_error(),
                lsi_isa_name(isa));
    }
    climb(&process_table, isa);
}

const lsi_kernels *lsi_kernels_get(void)
{
    pthread_once(&fill_once, fill);
    return &process_table;
}

ls_status lsi_kernels_at(lsi_isa isa, lsi_kernels *out)
{
    if (isa > lsi_cpu_isa())
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "kernels of level %s asked for, but this machine has "
                        "%s at most",
                        lsi_isa_name(isa), lsi_isa_name(lsi_cpu_isa()));
    climb(out, isa);
    return LS_OK;
}
