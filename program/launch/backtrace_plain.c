/* Without libdw addresses have no names. */
#include "launch/backtrace.h"

lsi_symbols *lsi_symbols_open(const lsi_crash *crash)
{
    (void)crash;
    return NULL;
}

bool lsi_symbols_find(lsi_symbols *symbols, uint64_t pc, char *out, size_t room)
{
    (void)symbols;
    (void)pc;
    (void)out;
    (void)room;
    return false;
}
