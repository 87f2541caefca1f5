#include "report/profile_steps.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* ---- where they are ------------------------------------------------------ */

static bool is_phase(const lsi_timeline_process *p, const lsi_timeline_span *s,
                     const char *name)
{
    return s->kind == LSI_SPAN_PHASE &&
           strcmp(lsi_timeline_name(p, s), name) == 0;
}

static size_t count_kind(const lsi_timeline_process *p, uint8_t kind,
                         const char *phase)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++)
        n += p->spans[i].kind == kind &&
             (phase == NULL || is_phase(p, &p->spans[i], phase));
    return n;
}

static void add_step(lsi_profile_steps *steps, const lsi_timeline_span *s,
                     int64_t begin, uint64_t number)
{
    steps->step[steps->n++] =
        (lsi_profile_step){number, begin, s->end, s->thread};
}

static void find_named(const lsi_timeline_process *p, lsi_profile_steps *out)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->spans[i].kind == LSI_SPAN_STEP)
            add_step(out, &p->spans[i], p->spans[i].begin, p->spans[i].id);
}

/* The first begins with its thread's first span. */
static void find_by_optimizer(const lsi_timeline_process *p,
                              lsi_profile_steps *out)
{
    for (size_t i = 0; i < p->n; i++) {
        const lsi_timeline_span *const s = &p->spans[i];
        size_t first = 0;
        if (!is_phase(p, s, "optimizer"))
            continue;
        while (p->spans[first].thread != s->thread)
            first++;
        add_step(out, s,
                 out->n > 0 ? out->step[out->n - 1].end : p->spans[first].begin,
                 out->n + 1);
    }
}

/* On the thread that has recorded the most. */
static void find_all(const lsi_timeline_process *p, lsi_profile_steps *out)
{
    size_t most = 0;
    uint16_t busiest = 0;
    lsi_timeline_span all = {.begin = INT64_MAX};
    for (size_t t = 0; t < p->n_threads; t++) {
        size_t n = 0;
        for (size_t i = 0; i < p->n; i++)
            n += p->spans[i].thread == t;
        busiest = n > most ? (uint16_t)t : busiest;
        most = n > most ? n : most;
    }
    all.thread = busiest;
    for (size_t i = 0; i < p->n; i++) {
        const lsi_timeline_span *const s = &p->spans[i];
        if (s->thread != busiest)
            continue;
        all.begin = s->begin < all.begin ? s->begin : all.begin;
        all.end = s->end > all.end ? s->end : all.end;
    }
    if (all.begin < all.end)
        add_step(out, &all, all.begin, 1);
}

static size_t choose_first(const lsi_timeline_process *p, int64_t warmup,
                           size_t n)
{
    if (warmup >= 0)
        return (uint64_t)warmup < n ? (size_t)warmup : n;
    return n > 1 && count_kind(p, LSI_SPAN_PHASE, "warm-up") == 0 ? 1 : 0;
}

ls_status lsi_profile_find_steps(const lsi_timeline_process *process,
                                 int64_t warmup, lsi_profile_steps *out)
{
    const size_t named = count_kind(process, LSI_SPAN_STEP, NULL);
    const size_t steps = count_kind(process, LSI_SPAN_PHASE, "optimizer");
    const size_t most = 1 + (named > 0 ? named : steps);
    *out =
        (lsi_profile_steps){.step = calloc(most, sizeof(lsi_profile_step)),
                            .times = calloc(most, sizeof(lsi_profile_times))};
    if (out->step == NULL || out->times == NULL)
        return lsi_fail(LS_ERR_MEMORY, "no memory for a profile");
    if (named > 0)
        find_named(process, out);
    else if (steps > 0)
        find_by_optimizer(process, out);
    else
        find_all(process, out);
    out->none = named == 0 && steps == 0;
    out->first = choose_first(process, warmup, out->n);
    return LS_OK;
}

void lsi_profile_release_steps(lsi_profile_steps *steps)
{
    free(steps->step);
    free(steps->times);
    *steps = (lsi_profile_steps){0};
}

/* ---- who was slow -------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t median(int64_t *values, size_t n)
{
    qsort(values, n, sizeof(values[0]), by_value);
    return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static int64_t busy(const lsi_profile_times *t, size_t phases)
{
    int64_t sum = 0;
    for (size_t i = 0; i < phases; i++)
        sum += t->busy[i];
    return sum;
}

/* How much longer it took than the others' median, in a phase or (-1) in all */
static int64_t excess(const lsi_profile_comparison *c, size_t slow, int phase)
{
    size_t n = 0;
    int64_t own = 0;
    for (size_t i = 0; i < c->n; i++) {
        const int64_t value =
            phase < 0 ? busy(c->times[i], c->phases) : c->times[i]->busy[phase];
        if (i == slow)
            own = value;
        else
            c->spare[n++] = value;
    }
    return own - median(c->spare, n);
}

lsi_profile_slowest lsi_profile_slowest_of(const lsi_profile_comparison *c,
                                           uint64_t step)
{
    size_t slow = 0;
    for (size_t i = 1; i < c->n; i++)
        if (busy(c->times[i], c->phases) > busy(c->times[slow], c->phases))
            slow = i;
    lsi_profile_slowest found = {.step = step,
                                 .rank = c->ranks[slow],
                                 .ns = INT64_MIN,
                                 .all = excess(c, slow, -1)};
    for (size_t p = 0; p < c->phases; p++) {
        const int64_t more = excess(c, slow, (int)p);
        if (more > found.ns) {
            found.ns = more;
            found.phase = (int)p;
        }
    }
    return found;
}

/* The step of that number, most likely the one with that index. */
static const lsi_profile_times *find_times(const lsi_profile_steps *steps,
                                           size_t index, uint64_t number)
{
    if (index < steps->n && steps->step[index].number == number)
        return &steps->times[index];
    for (size_t i = steps->first; i < steps->n; i++)
        if (steps->step[i].number == number)
            return &steps->times[i];
    return NULL;
}

static void compare_steps(const lsi_timeline *t, const lsi_profile_steps *steps,
                          lsi_profile *profile, lsi_profile_comparison *c,
                          int *ranks)
{
    const lsi_profile_steps *first = NULL;
    for (size_t i = 0; i < t->n && first == NULL; i++)
        first = steps[i].n > 0 ? &steps[i] : NULL;
    if (first == NULL)
        return;
    for (size_t s = first->first; s < first->n; s++) {
        c->n = 0;
        for (size_t i = 0; i < t->n; i++) {
            const lsi_profile_times *const times =
                steps[i].n == 0
                    ? NULL
                    : find_times(&steps[i], s, first->step[s].number);
            if (times == NULL || t->process[i]->rank < 0)
                continue;
            ranks[c->n] = t->process[i]->rank;
            c->times[c->n++] = times;
        }
        if (c->n > 1)
            profile->slowest[profile->n_slowest++] =
                lsi_profile_slowest_of(c, first->step[s].number);
    }
}

ls_status lsi_profile_compare(const lsi_timeline *timeline,
                              const lsi_profile_steps *steps,
                              lsi_profile *profile)
{
    size_t most = 1;
    for (size_t i = 0; i < timeline->n; i++)
        most = steps[i].n > most ? steps[i].n : most;
    const size_t n = timeline->n > 0 ? timeline->n : 1;
    int *const ranks = calloc(n, sizeof(int));
    lsi_profile_comparison c = {.times = calloc(n, sizeof(*c.times)),
                                .spare = calloc(n, sizeof(int64_t)),
                                .ranks = ranks,
                                .phases = profile->n_phases};
    profile->slowest = calloc(most, sizeof(*profile->slowest));
    const bool there = ranks != NULL && c.times != NULL && c.spare != NULL &&
                       profile->slowest != NULL;
    if (there)
        compare_steps(timeline, steps, profile, &c, ranks);
    free(c.times);
    free(c.spare);
    free(ranks);
    return there ? LS_OK : lsi_fail(LS_ERR_MEMORY, "no memory for a profile");
}
