/*
 * The last steps of opening a group that no launcher describes.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "comm/api/group.h"
#include "comm/bootstrap/open.h"
#include "comm/bootstrap/open_ucx.h"
#include "comm/node/rank_cpus.h"

/* The address of a host becomes the host of an endpoint. */
ls_status lsi_open_prepare(void *context, const lsi_world *world,
                           const char *address, double seconds,
                           lsi_opened_wire *out)
{
    char endpoint[80];
    const char *to = address[0] == '\0' ? "127.0.0.1" : address;
    (void)context;
    snprintf(endpoint, sizeof(endpoint),
             strchr(to, ':') == NULL ? "%s" : "[%s]", to);
    return lsi_open_ucx(world, endpoint, seconds, out);
}

ls_status lsi_open_finish(ls_group *made, double seconds, ls_group **out)
{
    ls_status status = ls_group_set_timeout(made, seconds);
    if (status == LS_OK)
        status = lsi_group_settle(made);
    if (status != LS_OK) {
        ls_group_close(&made);
        return status;
    }
    lsi_rank_cpus_limit(made);
    *out = made;
    return LS_OK;
}
