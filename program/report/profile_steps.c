#include "report/profile_steps.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/grow.h"

/* ---- where they are ------------------------------------------------------ */

/* Totals of a thread's recorded spans. */
typedef struct thread_sum {
    size_t spans;
    int64_t begin, end;
} thread_sum;

/* State of a search through all spans of a process. */
typedef struct search {
    const lsi_timeline_process *process;
    thread_sum *threads;              /* threads that have a name */
    lsi_timeline_span *steps, *calls; /* steps; calls of the optimizer */
    size_t n_steps, step_room, n_calls, call_room;
    bool has_warm_up;
} search;

ls_status lsi_profile_no_memory(void)
{
    return lsi_fail(LS_ERR_MEMORY, "not enough memory for a profile");
}

static ls_status append_span(lsi_timeline_span **list, size_t *n, size_t *room,
                             const lsi_timeline_span *span)
{
    if (!lsi_grow_array(&*list, *n, room, sizeof(*span)))
        return lsi_profile_no_memory();
    (*list)[(*n)++] = *span;
    return LS_OK;
}

static ls_status visit_span(void *context, const lsi_timeline_span *span)
{
    search *const s = context;
    if (span->thread < s->process->n_threads) {
        thread_sum *const t = &s->threads[span->thread];
        t->begin =
            t->spans == 0 || span->begin < t->begin ? span->begin : t->begin;
        t->end = t->spans == 0 || span->end > t->end ? span->end : t->end;
        t->spans++;
    }
    if (span->kind == LSI_SPAN_STEP)
        return append_span(&s->steps, &s->n_steps, &s->step_room, span);
    if (span->kind != LSI_SPAN_PHASE)
        return LS_OK;
    const char *const name = lsi_timeline_name(s->process, span);
    s->has_warm_up = s->has_warm_up || strcmp(name, "warm-up") == 0;
    if (strcmp(name, "optimizer") == 0)
        return append_span(&s->calls, &s->n_calls, &s->call_room, span);
    return LS_OK;
}

static void add_step(lsi_profile_steps *steps, const lsi_timeline_span *s,
                     int64_t begin, uint64_t number)
{
    steps->step[steps->n++] =
        (lsi_profile_step){number, begin, s->end, s->thread};
}

/* The first step begins with its thread's first span. */
static void find_by_optimizer(const search *s, lsi_profile_steps *out)
{
    for (size_t i = 0; i < s->n_calls; i++) {
        const lsi_timeline_span *const call = &s->calls[i];
        int64_t begin = call->begin;
        if (out->n > 0)
            begin = out->step[out->n - 1].end;
        else if (call->thread < s->process->n_threads)
            begin = s->threads[call->thread].begin;
        add_step(out, call, begin, out->n + 1);
    }
}

/*
 * All of the trace as one step, on the thread with the most spans. A step ends
 * before its end, and the last span may be shorter than a tick of the clock.
 */
static void find_all(const search *s, lsi_profile_steps *out)
{
    size_t busiest = 0;
    for (size_t t = 1; t < s->process->n_threads; t++)
        if (s->threads[t].spans > s->threads[busiest].spans)
            busiest = t;
    const lsi_timeline_span all = {.begin = s->threads[busiest].begin,
                                   .end = s->threads[busiest].end + 1,
                                   .thread = (uint16_t)busiest};
    if (all.begin + 1 < all.end)
        add_step(out, &all, all.begin, 1);
}

static size_t choose_first(const search *s, int64_t warmup, size_t n)
{
    if (warmup >= 0)
        return (uint64_t)warmup < n ? (size_t)warmup : n;
    return n > 1 && !s->has_warm_up ? 1 : 0;
}

static ls_status find_steps(search *s, int64_t warmup, lsi_profile_steps *out)
{
    LS_TRY(lsi_timeline_scan(s->process, ~0U, visit_span, s));
    const size_t most = 1 + (s->n_steps > 0 ? s->n_steps : s->n_calls);
    *out =
        (lsi_profile_steps){.step = calloc(most, sizeof(lsi_profile_step)),
                            .times = calloc(most, sizeof(lsi_profile_times))};
    if (out->step == NULL || out->times == NULL)
        return lsi_profile_no_memory();
    if (s->n_steps > 0)
        qsort(s->steps, s->n_steps, sizeof(s->steps[0]), lsi_timeline_order);
    if (s->n_calls > 0)
        qsort(s->calls, s->n_calls, sizeof(s->calls[0]), lsi_timeline_order);
    for (size_t i = 0; i < s->n_steps; i++)
        add_step(out, &s->steps[i], s->steps[i].begin, s->steps[i].id);
    if (s->n_steps == 0 && s->n_calls > 0)
        find_by_optimizer(s, out);
    else if (s->n_steps == 0)
        find_all(s, out);
    out->none = s->n_steps == 0 && s->n_calls == 0;
    out->first = choose_first(s, warmup, out->n);
    return LS_OK;
}

ls_status lsi_profile_find_steps(const lsi_timeline_process *process,
                                 int64_t warmup, lsi_profile_steps *out)
{
    search s = {.process = process,
                .threads = calloc(process->n_threads + 1, sizeof(thread_sum))};
    const ls_status status = s.threads == NULL ? lsi_profile_no_memory()
                                               : find_steps(&s, warmup, out);
    free(s.threads);
    free(s.steps);
    free(s.calls);
    return status;
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

/* Time beyond the other ranks' median, in a phase or (-1) in all */
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

/* The step with this number, most likely at this index. */
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
    return there ? LS_OK : lsi_profile_no_memory();
}
