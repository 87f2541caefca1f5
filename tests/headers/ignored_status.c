/* A status that is ignored: the test headers_must_check wants the warning. */
#include "lockstep/lockstep.h"

void ignored(ls_group *group);

void ignored(ls_group *group)
{
    ls_barrier(group);
}
