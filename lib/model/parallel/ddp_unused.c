/*
 * Naming the parameters that a step has not used. Every rank learns of all.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/core/agree.h"
#include "model/parallel/ddp_state.h"

enum { TEXT_BYTES = 200, NAME_BYTES = 64 };

/* "rank 1: a, b, ..." if this rank has any, else "". */
static void describe_own(const ls_ddp *ddp, lsi_ddp_describe describe,
                         char *text, size_t bytes)
{
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < ddp->n; i++) {
        char name[NAME_BYTES];
        if (!ddp->unused[i])
            continue;
        describe(ddp, i, name, sizeof(name));
        if (at + strlen(name) + 32 > bytes) {
            snprintf(text + at, bytes - at, ", ...");
            return;
        }
        if (at == 0)
            at = (size_t)snprintf(text, bytes, "rank %d: %s",
                                  ls_group_rank(ddp->group), name);
        else
            at += (size_t)snprintf(text + at, bytes - at, ", %s", name);
    }
}

static ls_status fail_with(const char *all, size_t bytes, bool own)
{
    char text[4 * TEXT_BYTES] = "";
    size_t at = 0;
    bool more = false;
    for (size_t i = 0; i < bytes; i += TEXT_BYTES) {
        if (all[i] == '\0')
            continue;
        more = at + TEXT_BYTES + 2 > sizeof(text);
        if (more)
            break;
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s",
                               at > 0 ? "; " : "", all + i);
    }
    return lsi_fail(LS_ERR_STATE,
                    own ? "gradients were not ready at ls_ddp_finish (%s%s): "
                          "call ls_ddp_ready for each, or set unused_as_zero"
                        : "the loss did not use all parameters (%s%s): freeze "
                          "them, use them, or set unused_as_zero",
                    text, more ? "; ..." : "");
}

ls_status lsi_ddp_name_unused(const ls_ddp *ddp, lsi_ddp_describe describe)
{
    char own[TEXT_BYTES] = "";
    const size_t size = (size_t)ls_group_size(ddp->group);
    describe_own(ddp, describe, own, sizeof(own));
    char *const all = malloc(size * sizeof(own));
    ls_status status = LS_OK;
    if (all == NULL)
        status = lsi_fail(LS_ERR_MEMORY, "no memory to name unused parameters");
    status = lsi_agree_to_plan(ddp->channel, status);
    if (status == LS_OK) {
        assert(all != NULL); /* or this rank would not have agreed */
        status = ls_all_gather(ddp->channel, own, all, sizeof(own), LS_U8);
        if (status == LS_OK)
            status = fail_with(all, size * sizeof(own), ddp->begun);
    }
    free(all);
    return status;
}
