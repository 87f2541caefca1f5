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
    return child >= 0 ? summary_of_rank(op, child)
                      : lsi_junction_of(op->group, op->sequence, ~child)->below;
}

static lsi_summary summarise(const lsi_collective *op, lsi_junction_shape shape)
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
    return all;
}

/* Releases all that the ranks have stored before they arrived. */
static void tell_domains(const lsi_collective *op, uint64_t stamp,
                         const lsi_summary *all)
{
    const ls_group *group = op->group;
    for (int d = 0; d < group->domains->domains; d++) {
        lsi_domain *domain = lsi_domain_of(group, op->sequence, d);
        assert(atomic_load(&domain->stamp) < stamp);
        if (op->phase == 1)
            domain->all = *all;
        atomic_store(&domain->stamp, stamp);
    }
}

/*
 * Every rank counts each phase once, and none counts the next one before all
 * have counted this one. So the count of a junction is a multiple of its
 * children after each phase. A rank that went on without the domain's stamp
 * would break this: a later phase would seem complete too early.
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
            junction->below = summarise(op, shape);
        if (shape.parent < 0)
            tell_domains(op, stamp, &junction->below);
        at = shape.parent;
    }
    return true;
}

const lsi_summary *lsi_combined(const lsi_collective *op, uint64_t stamp)
{
    const ls_group *group = op->group;
    const lsi_domain *domain =
        lsi_domain_of(group, op->sequence, group->domains->domain[group->rank]);
    return atomic_load(&domain->stamp) >= stamp ? &domain->all : NULL;
}
