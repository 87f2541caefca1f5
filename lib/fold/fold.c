/* Which level's kernels this process uses. */
#include "fold/fold.h"

#include <pthread.h>
#include <stddef.h>

#include "base/bits.h"
#include "base/error.h"
#include "fold/levels.h"

static pthread_once_t choose_once = PTHREAD_ONCE_INIT;
static lsi_fold_table process_fold;
static lsi_error process_error;

static const lsi_fold_table ref = {
#define X(name, args) .name = lsi_ref_##name,
#include "fold/fold.def"
#undef X
};

/* NULL: a level of another architecture, or without code for these kernels. */
static const lsi_fold_table *const levels[LSI_ISA_COUNT] = {
    [LSI_ISA_REF] = &ref,
#if defined(__aarch64__)
    [LSI_ISA_NEON] = &lsi_fold_neon,
#elif defined(__x86_64__)
    [LSI_ISA_AVX2] = &lsi_fold_avx2,
    [LSI_ISA_AVX512] = &lsi_fold_avx512,
#endif
};

/* The kernels of the highest level up to `isa` that has some. */
static void choose(lsi_isa isa, lsi_fold_table *out)
{
    for (unsigned level = 0; level <= isa; level++)
        if (levels[level] != NULL)
            *out = *levels[level];
    out->isa = isa;
}

/* Kernels are chosen even after an error, which lsi_fold_check reports. */
static void choose_for_process(void)
{
    lsi_isa isa = lsi_cpu_isa();
    (void)lsi_error_keep(&process_error, lsi_isa_from_env(&isa));
    choose(isa, &process_fold);
}

ls_status lsi_fold_check(void)
{
    pthread_once(&choose_once, choose_for_process);
    LS_TRY(lsi_error_again(&process_error));
    return lsi_bits_check();
}

const lsi_fold_table *lsi_fold_get(void)
{
    pthread_once(&choose_once, choose_for_process);
    return &process_fold;
}

ls_status lsi_fold_at(lsi_isa isa, lsi_fold_table *out)
{
    if (!lsi_isa_available(isa))
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "this processor lacks instructions that the kernels of "
                        "level '%s' use",
                        lsi_isa_name(isa));
    choose(isa, out);
    return LS_OK;
}
