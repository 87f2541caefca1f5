#include "model/audit/leaves.h"

#include "base/cpu.h"
#include "fold/fold.h"

bool lsi_lanes_are_there(void)
{
    return lsi_sha256_is_there() && lsi_cpu_has_sha() &&
           lsi_fold_get()->isa != LSI_ISA_REF;
}

#if !defined(__x86_64__)
void lsi_sha256_lanes(const lsi_lanes *lanes, size_t bytes)
{
    for (int l = 0; l < LSI_LANES; l++)
        lsi_sha256(&(lsi_sha256_piece){lanes->data[l], bytes}, 1,
                   lanes->digest[l]);
}
#endif
