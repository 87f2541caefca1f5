/* Ranks that add up their numbers, with the library of communication alone. */
#include <stdio.h>

#include <lockstep/comm.h>

int main(void)
{
    ls_group *group = NULL;
    ls_status status = ls_group_from_env(&group);
    const int size = status == LS_OK ? ls_group_size(group) : 0;
    double sum = status == LS_OK ? ls_group_rank(group) : 0;
    if (status == LS_OK)
        status = ls_all_reduce(group, &sum, &sum, 1, LS_F64, LS_REDUCE_SUM);
    if (status != LS_OK)
        fprintf(stderr, "%s\n", ls_last_error());
    ls_group_close(&group);
    return status != LS_OK || sum * 2 != size * (size - 1);
}
