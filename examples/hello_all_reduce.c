/*
 * The first thing to do with a group of ranks: everyone has some numbers, and
 * afterwards everyone has their sum.
 *
 *     lockstep run -n 4 -- hello_all_reduce
 *
 * Alone it is a group of one rank.
 */
#include <stdio.h>

#include <lockstep/lockstep.h>

/* The numbers of rank `rank`: known to all, so that the sum can be checked. */
static void fill(int32_t numbers[3], int rank)
{
    for (int i = 0; i < 3; i++)
        numbers[i] = (rank + 1) * (i + 1);
}

static ls_status hello(ls_group *group, int *wrong)
{
    const int rank = ls_group_rank(group), size = ls_group_size(group);
    int32_t mine[3], sum[3], expected[3] = {0, 0, 0};
    fill(mine, rank);
    const ls_status status =
        ls_all_reduce(group, mine, sum, 3, LS_I32, LS_REDUCE_SUM);
    if (status != LS_OK)
        return status;
    printf("rank %d of %d: %d %d %d, sum %d %d %d\n", rank, size, mine[0],
           mine[1], mine[2], sum[0], sum[1], sum[2]);

    for (int r = 0; r < size; r++) {
        fill(mine, r);
        for (int i = 0; i < 3; i++)
            expected[i] += mine[i];
    }
    for (int i = 0; i < 3; i++)
        *wrong += sum[i] != expected[i];
    return LS_OK;
}

int main(void)
{
    ls_group *group = NULL;
    int wrong = 0;
    ls_status status = ls_group_from_env(&group);
    if (status == LS_OK)
        status = hello(group, &wrong);
    if (status != LS_OK)
        fprintf(stderr, "hello_all_reduce: %s\n", ls_last_error());
    ls_group_close(&group);
    return status != LS_OK || wrong > 0;
}
