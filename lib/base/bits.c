#include "base/bits.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { UNKNOWN = -1 };

static const char *const names[] = {
    [LS_BITS_FAST] = "fast",
    [LS_BITS_PORTABLE] = "portable",
};

/* Kernels look at it in every call, so it is read without a lock. */
static atomic_int process_bits = UNKNOWN;

ls_status ls_set_bits(ls_bits bits)
{
    if (bits != LS_BITS_FAST && bits != LS_BITS_PORTABLE)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "ls_set_bits: bits is %d; it should be LS_BITS_FAST or "
                        "LS_BITS_PORTABLE",
                        (int)bits);
    atomic_store_explicit(&process_bits, (int)bits, memory_order_relaxed);
    return LS_OK;
}

const char *lsi_bits_name(ls_bits bits)
{
    return names[bits];
}

ls_status lsi_bits_parse(const char *name, ls_bits *out)
{
    for (int i = LS_BITS_FAST; i <= LS_BITS_PORTABLE; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (ls_bits)i;
            return LS_OK;
        }
    return lsi_fail(LS_ERR_ARGUMENT,
                    "'%s' names no bits; there are 'fast' and 'portable'",
                    name);
}

ls_status lsi_bits_check(void)
{
    const char *value = getenv("LOCKSTEP_BITS");
    ls_bits bits = LS_BITS_FAST;
    if (atomic_load_explicit(&process_bits, memory_order_relaxed) != UNKNOWN ||
        value == NULL || *value == '\0')
        return LS_OK;
    if (lsi_bits_parse(value, &bits) != LS_OK)
        return lsi_fail(LS_ERR_ARGUMENT, "LOCKSTEP_BITS: %s", ls_last_error());
    return LS_OK;
}

bool lsi_bits_are_portable(void)
{
    int bits = atomic_load_explicit(&process_bits, memory_order_relaxed);
    if (bits == UNKNOWN) {
        const char *value = getenv("LOCKSTEP_BITS");
        int expected = UNKNOWN;
        bits = value != NULL && strcmp(value, names[LS_BITS_PORTABLE]) == 0;
        /* A thread that set another value meanwhile wins. */
        if (!atomic_compare_exchange_strong(&process_bits, &expected, bits))
            bits = expected;
    }
    return bits == LS_BITS_PORTABLE;
}

ls_bits ls_bits_in_use(void)
{
    return lsi_bits_are_portable() ? LS_BITS_PORTABLE : LS_BITS_FAST;
}
