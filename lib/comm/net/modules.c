#include "comm/net/modules.h"

#include "base/error.h"
#include "base/module.h"

ls_status lsi_wire_load(const char *name, const lsi_wire **out)
{
    /* Libraries load parts of their own, which look for their symbols. */
    static const lsi_module_kind wires = {LSI_WIRE_SYMBOL, LSI_WIRE_VERSION,
                                          true};
    const void *table = NULL;
    LS_TRY(lsi_module_load(name, &wires, &table));
    *out = table;
    return LS_OK;
}
