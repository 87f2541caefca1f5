/*
 * Sleeping until a peer does something.
 */
#ifndef LS_COMM_CORE_SLEEP_H
#define LS_COMM_CORE_SLEEP_H

#include "comm/state/state.h"

/*
 * Looks once more, and sleeps if nothing has moved: for at most `ns`, or until
 * something happens in the group, or with `coprogress` in another group of this
 * thread. *late_ns: nanoseconds from the ring of the group's bell until this
 * rank ran again; 0 if something else has ended the sleep.
 */
ls_status lsi_sleep(ls_group *group, bool coprogress, uint64_t ns,
                    uint64_t *late_ns);

#endif
