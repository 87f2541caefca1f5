#include "comm/core/combine.h"

#include <assert.h>

/* Of a rank's cell; `able` makes sense if all calls are alike. */
static lsi_summary summary_of_rank(const lsi_collective *op, int rank)
{
    const lsi_cell *cell = lsi_cell_of(op->group, op->sequence, rank);
    return (lsi_summary){.what = cell->what,
                         .count = cell->count,
                         .completed = cell->completed,
                         .able = op->offers ? lsi_offer_of(op, rank)->able
                                            : UINT64_MAX};
}

static lsi_summary summary_of_child(const lsi_collective *op, int child)
{
    if (child >= 0)
        return summary_of_rank(op, child);
    const lsi_summary *of =
        &lsi_junction_of(op->group, op->sequence, ~child)->children;
    return (lsi_summary){.what = of->what,
                         .count = of->count,
                         .completed = of->completed,
                         .able = of->able,
                         .differ = of->differ};
}

/* The stamp of `to` stays as it is. */
static void copy_summary(lsi_summary *to, const lsi_summary *from)
{
    to->what = from->what;
    to->count = from->count;
    to->completed = from->completed;
    to->able = from->able;
    to->differ = from->differ;
}

static void summarise(const lsi_collective *op, lsi_junction_shape shape,
                      lsi_summary *out)
{
    const int *child = op->group->domains->child + shape.first;
    lsi_summary all = summary_of_child(op, child[0]);
    for (int i = 1; i < shape.children; i++) {
        const lsi_summary one = summary_of_child(op, child[i]);
        all.differ |=
            one.differ | (one.what != all.what) | (one.count != all.count);
        all.able &= one.able;
        if (one.completed < all.completed)
            all.completed = one.completed;
    }
    copy_summary(out, &all);
}

/* Releases all that the ranks have stored before they arrived. */
static void tell_domains(const lsi_collective *op, uint64_t stamp,
                         const lsi_summary *all)
{
    const ls_group *group = op->group;
    for (int d = 0; d < group->domains->domains; d++) {
        lsi_summary *to = &lsi_junction_of(group, op->sequence, d)->domain;
        assert(atomic_load(&to->stamp) < stamp);
        if (op->phase == 1)
            copy_summary(to, all);
        atomic_store(&to->stamp, stamp);
    }
}

/*
 * Every rank counts each phase once, and none counts the next one before all
 * have counted this one. So the count of a junction is a multiple of its
 * children after each phase.
 */
bool lsi_combine(lsi_collective *op, uint64_t stamp)
{
    const ls_group *group = op->group;
    const lsi_domains *domains = group->domains;
    for (int at = domains->leaf[group->rank]; at >= 0;) {
        const lsi_junction_shape shape = domains->junction[at];
        lsi_junction *junction = lsi_junction_of(group, op->sequence, at);
        const uint64_t before = atomic_fetch_add(&junction->arrivals, 1);
        if ((before + 1) % (uint64_t)shape.children != 0)
            return false;
        if (op->phase == 1)
            summarise(op, shape, &junction->children);
        if (shape.parent < 0)
            tell_domains(op, stamp, &junction->children);
        at = shape.parent;
    }
    return true;
}

const lsi_summary *lsi_combined(const lsi_collective *op, uint64_t stamp)
{
    const ls_group *group = op->group;
    const int domain = group->domains->domain[group->rank];
    const lsi_summary *of =
        &lsi_junction_of(group, op->sequence, domain)->domain;
    return atomic_load(&of->stamp) >= stamp ? of : NULL;
}
