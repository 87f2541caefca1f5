#include "comm/agree.h"

#include "base/error.h"
#include "comm/collective.h"

ls_status lsi_agree(ls_group *group, const lsi_call *call, lsi_vote vote,
                    lsi_vote *votes)
{
    LS_TRY(lsi_exchange(group, call, &vote, sizeof(vote), votes));
    for (int r = 0; r < group->size; r++) {
        const ls_status status = (ls_status)votes[r].status;
        if (status == LS_OK)
            continue;
        if (vote.status != LS_OK)
            return (ls_status)vote.status;
        return lsi_fail(status, "%s failed on rank %d: %s",
                        lsi_operation_name(call->operation), r,
                        ls_status_text(status));
    }
    return LS_OK;
}
