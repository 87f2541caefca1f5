/*
 * Data parallelism for a program that has its own model and its own backward:
 * two layers learn to add up their inputs. The library sees ranges of memory
 * and nothing else.
 *
 *     lockstep run -n 2 -- own_backward
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/lockstep.h>

enum { IN = 4, HIDDEN = 8, ROWS = 16, STEPS = 200 };

static void check(ls_status status)
{
    if (status == LS_OK)
        return;
    fprintf(stderr, "own_backward: %s\n", ls_last_error());
    exit(1);
}

/* Numbers in [-1, 1) that depend on `seed` only. */
static float noise(unsigned *seed)
{
    *seed = *seed * 1664525U + 1013904223U;
    return (float)(*seed >> 8) / (float)(1 << 23) - 1;
}

/* out = second * (first * x); the gradient of second is final first. */
typedef struct layers {
    float second[HIDDEN], first[HIDDEN][IN];
} layers;

enum { SECOND, FIRST, N_RANGES }; /* in the order in which they are final */

/* Adds up squared errors, and the gradients over the rows, layer by layer. */
static double backward(const layers *w, layers *grad, ls_ddp *ddp,
                       unsigned *seed)
{
    float x[ROWS][IN], h[ROWS][HIDDEN], d[ROWS];
    double loss = 0;
    memset(grad, 0, sizeof(*grad));
    for (int r = 0; r < ROWS; r++) {
        d[r] = 0;
        for (int i = 0; i < IN; i++) {
            x[r][i] = noise(seed);
            d[r] -= x[r][i];
        }
        for (int j = 0; j < HIDDEN; j++) {
            h[r][j] = 0;
            for (int i = 0; i < IN; i++)
                h[r][j] += w->first[j][i] * x[r][i];
            d[r] += w->second[j] * h[r][j];
        }
        loss += 0.5 * (double)(d[r] * d[r]);
    }
    for (int r = 0; r < ROWS; r++)
        for (int j = 0; j < HIDDEN; j++)
            grad->second[j] += d[r] * h[r][j];
    check(ls_ddp_ready(ddp, SECOND)); /* may travel from now on */
    for (int r = 0; r < ROWS; r++)
        for (int j = 0; j < HIDDEN; j++)
            for (int i = 0; i < IN; i++)
                grad->first[j][i] += d[r] * w->second[j] * x[r][i];
    check(ls_ddp_ready(ddp, FIRST));
    return loss / ROWS;
}

static double train(layers *w, layers *grad, ls_ddp *ddp, int rank)
{
    unsigned seed = 100 + (unsigned)rank; /* each rank has different rows */
    double loss = 0;
    for (int step = 0; step < STEPS; step++) {
        check(ls_ddp_begin(ddp, ROWS));
        loss = backward(w, grad, ddp, &seed);
        check(ls_ddp_finish(ddp));
        for (int j = 0; j < HIDDEN; j++) {
            w->second[j] -= 0.1F * grad->second[j];
            for (int i = 0; i < IN; i++)
                w->first[j][i] -= 0.1F * grad->first[j][i];
        }
    }
    return loss;
}

int main(void)
{
    ls_group *group = NULL;
    ls_ddp *ddp = NULL;
    void *shared = NULL; /* which the other ranks can add up in place */
    layers w;
    unsigned seed = 1; /* the same weights on all ranks */
    check(ls_group_from_env(&group));
    check(ls_shared_alloc(group, sizeof(layers), &shared));
    layers *const grad = shared;
    for (int j = 0; j < HIDDEN; j++) {
        w.second[j] = 0.5F * noise(&seed);
        for (int i = 0; i < IN; i++)
            w.first[j][i] = 0.5F * noise(&seed);
    }
    const ls_ddp_range ranges[N_RANGES] = {
        [SECOND] = {grad->second, HIDDEN},
        [FIRST] = {grad->first[0], HIDDEN * IN}};
    ls_ddp_options options = LS_DDP_OPTIONS_INIT;
    options.strategy = LS_DDP_OVERLAP;
    check(ls_ddp_new_ranges(&ddp, group, ranges, N_RANGES, &options));

    const double loss = train(&w, grad, ddp, ls_group_rank(group));
    printf("rank %d of %d: loss %.2g\n", ls_group_rank(group),
           ls_group_size(group), loss);

    ls_ddp_free(&ddp);
    check(ls_shared_free(group, &shared));
    ls_group_close(&group);
    return loss < 1e-3 ? 0 : 1;
}
