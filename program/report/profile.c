/* Computes a profile by walking a timeline. */
#include "report/profile.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/grow.h"
#include "report/profile_layers.h"
#include "report/profile_steps.h"
#include "report/profile_weights.h"

enum { DEEPEST = 256 };

/* An open span, with properties inherited from the spans around it. */
typedef struct open_span {
    int64_t end;
    int phase;
    bool within;   /* inside the range of the filter */
    int attention; /* inside attention: 1, inside its backward: 2, else 0 */
    bool leaf;     /* a kernel or a wait: spans inside it are counted with it */
} open_span;

typedef struct walk {
    lsi_profile *profile;
    const lsi_profile_filter *filter;
    const lsi_timeline_process *process;
    int32_t *kernel_of; /* by name of the process: 1 + index, 0: none yet */
    size_t room;        /* for kernels */
    lsi_profile_layers layers;
    lsi_profile_waits waits;
    open_span open[DEEPEST];
    size_t depth;
    lsi_profile_times *times; /* times of the current step */
} walk;

/* ---- names --------------------------------------------------------------- */

int lsi_profile_phase(const lsi_profile *profile, const char *name)
{
    for (size_t i = 0; i < profile->n_phases; i++)
        if (strcmp(profile->phase[i], name) == 0)
            return (int)i;
    return -1;
}

static int phase_of(lsi_profile *p, const char *name)
{
    const int found = lsi_profile_phase(p, name);
    if (found >= 0)
        return found;
    if (p->n_phases == LSI_PROFILE_PHASES)
        return 0;
    p->phase[p->n_phases] = name;
    return (int)p->n_phases++;
}

static lsi_profile_kernel *add_kernel(walk *w, const char *name)
{
    lsi_profile *const p = w->profile;
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->kernel[i].name, name) == 0)
            return &p->kernel[i];
    if (!lsi_grow_array(&p->kernel, p->n, &w->room, sizeof(*p->kernel)))
        return NULL;
    p->kernel[p->n] = (lsi_profile_kernel){.name = name};
    return &p->kernel[p->n++];
}

static lsi_profile_kernel *kernel_of(walk *w, const lsi_timeline_span *s)
{
    const char *const name = lsi_timeline_name(w->process, s);
    if (s->name >= w->process->n_names)
        return add_kernel(w, name);
    if (w->kernel_of[s->name] == 0) {
        const lsi_profile_kernel *const added = add_kernel(w, name);
        if (added == NULL)
            return NULL;
        w->kernel_of[s->name] = (int32_t)(added - w->profile->kernel) + 1;
    }
    return &w->profile->kernel[w->kernel_of[s->name] - 1];
}

bool lsi_profile_is_product(const char *kernel)
{
    return strncmp(kernel, "gemm", 4) == 0 || strncmp(kernel, "conv2d", 6) == 0;
}

/* ---- one span ------------------------------------------------------------ */

void lsi_profile_add(lsi_profile_sum *sum, const lsi_timeline_span *span)
{
    sum->calls++;
    sum->bytes += span->bytes;
    sum->work += span->work;
    sum->ns += span->end - span->begin;
}

static void add_attention(lsi_profile_attention *at, const char *name,
                          const lsi_timeline_span *s)
{
    if (strstr(name, "flash") != NULL)
        lsi_profile_add(&at->fused, s);
    else if (strstr(name, "softmax") != NULL)
        lsi_profile_add(&at->softmax, s);
    else if (lsi_profile_is_product(name))
        lsi_profile_add(&at->products, s);
}

static bool passes(const walk *w, const open_span *in)
{
    return in->within &&
           (w->filter->phase == NULL ||
            strcmp(w->profile->phase[in->phase], w->filter->phase) == 0);
}

static ls_status count_kernel(walk *w, const open_span *in,
                              const lsi_timeline_span *s)
{
    w->profile->has_kernels = true;
    if (!passes(w, in))
        return LS_OK;
    lsi_profile_kernel *const kernel = kernel_of(w, s);
    if (kernel == NULL)
        return lsi_profile_no_memory();
    lsi_profile_add(&kernel->in[in->phase], s);
    if (in->attention != 0)
        add_attention(in->attention == 1 ? &w->profile->forward
                                         : &w->profile->backward,
                      kernel->name, s);
    return lsi_profile_count_layer(&w->layers, w->profile, w->process, s,
                                   kernel->name);
}

static ls_status count_wait(walk *w, const open_span *in,
                            const lsi_timeline_span *s)
{
    const int64_t ns = s->end - s->begin;
    w->times->busy[in->phase] -= ns;
    if (!passes(w, in))
        return LS_OK;
    w->profile->waited[in->phase] += ns;
    return s->kind == LSI_SPAN_AWAIT
               ? lsi_profile_add_wait(&w->waits, w->profile, w->process, s,
                                      in->phase)
               : LS_OK;
}

/* A phase's own time stops while a nested phase runs. */
static void count_phase(const walk *w, const open_span *in, int outer,
                        const lsi_timeline_span *s)
{
    lsi_profile *const p = w->profile;
    const int64_t ns = s->end - s->begin;
    w->times->busy[in->phase] += ns;
    w->times->busy[outer] -= ns;
    p->alone[in->phase] += ns;
    p->alone[outer] -= ns;
    p->wall[in->phase] += ns;
    p->entered[in->phase]++;
    if (w->filter->range == NULL && w->filter->phase != NULL &&
        strcmp(w->filter->phase, p->phase[in->phase]) == 0)
        p->time += ns;
}

static bool begins_range(const walk *w, const open_span *outer,
                         const lsi_timeline_span *s)
{
    return !outer->within && w->filter->range != NULL &&
           s->kind != LSI_SPAN_KERNEL && s->kind != LSI_SPAN_WAIT &&
           s->kind < LSI_SPAN_GATHER &&
           strcmp(lsi_timeline_name(w->process, s), w->filter->range) == 0;
}

static ls_status count_span(walk *w, const lsi_timeline_span *s)
{
    while (w->depth > 1 && w->open[w->depth - 1].end <= s->begin)
        w->depth--;
    const open_span *const outer = &w->open[w->depth - 1];
    open_span in = *outer;
    ls_status status = LS_OK;
    in.end = s->end;
    if (outer->leaf || w->depth == DEEPEST)
        return LS_OK;
    if (begins_range(w, outer, s)) {
        in.within = true;
        w->profile->time += s->end - s->begin;
    }
    if (s->kind == LSI_SPAN_PHASE) {
        in.phase = phase_of(w->profile, lsi_timeline_name(w->process, s));
        count_phase(w, &in, outer->phase, s);
    } else if (s->kind == LSI_SPAN_OPERATION) {
        const char *const name = lsi_timeline_name(w->process, s);
        if (strcmp(name, "attention backward") == 0)
            in.attention = 2;
        else if (in.attention == 0 && strcmp(name, "attention") == 0)
            in.attention = 1;
    } else if (s->kind == LSI_SPAN_KERNEL) {
        in.leaf = true;
        status = count_kernel(w, &in, s);
    } else if (s->kind == LSI_SPAN_WAIT || s->kind == LSI_SPAN_AWAIT) {
        in.leaf = true;
        status = count_wait(w, &in, s);
    }
    w->open[w->depth++] = in;
    return status;
}

/* ---- a step -------------------------------------------------------------- */

/* Consecutive stretches of time in which something is active. */
typedef struct stretch {
    int64_t begin, end, total;
} stretch;

static void stretch_to(stretch *s, int64_t begin, int64_t end)
{
    if (begin > s->end || s->end == 0) {
        s->begin = begin;
        s->end = begin;
    }
    if (end > s->end) {
        s->total += end - s->end;
        s->end = end;
    }
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/*
 * Times with collectives or gathers in flight, and times in which this thread
 * waits, but not for weights. All are in the order of their beginnings, and
 * none begins before the step.
 */
typedef struct communication {
    stretch under_way, gathers, waits;
    int64_t weights; /* end of the last wait for weights */
} communication;

static void count_communication(communication *c, const lsi_profile_step *step,
                                const lsi_timeline_span *s)
{
    const int64_t end = least(s->end, step->end);
    if (s->kind == LSI_SPAN_GATHERING || s->kind == LSI_SPAN_TRANSFER)
        stretch_to(&c->under_way, s->begin, end);
    else if (s->kind == LSI_SPAN_GATHER)
        stretch_to(&c->gathers, s->begin, end);
    else if (s->kind == LSI_SPAN_AWAIT)
        c->weights = s->end;
    else if (s->kind == LSI_SPAN_WAIT && c->under_way.end != 0 &&
             s->begin >= c->weights)
        stretch_to(&c->waits, s->begin, end);
}

/* Spans that other spans of their thread may overlap. */
static bool is_apart(const lsi_timeline_span *s)
{
    return s->kind == LSI_SPAN_GATHER || s->kind == LSI_SPAN_ANSWER;
}

static void count_gather(lsi_profile_sum *gathers, const lsi_timeline_span *s)
{
    if (s->kind != LSI_SPAN_GATHER)
        return;
    gathers->calls++;
    gathers->bytes += s->bytes;
}

static void begin_step(walk *w, const lsi_profile_step *step)
{
    lsi_profile *const out = w->profile;
    const int64_t ns = step->end - step->begin;
    w->depth = 1;
    w->open[0] =
        (open_span){.end = INT64_MAX, .within = w->filter->range == NULL};
    w->times->busy[0] += ns;
    out->alone[0] += ns;
    out->step_ns += ns;
    out->steps++;
    if (w->filter->range == NULL && w->filter->phase == NULL)
        out->time += ns;
}

/* *next is the first span that was not consumed yet, or NULL. */
static ls_status count_step(walk *w, const lsi_profile_step *step,
                            lsi_timeline_cursor *cursor,
                            const lsi_timeline_span **next)
{
    communication c = {0};
    begin_step(w, step);
    while (*next != NULL && (*next)->begin < step->begin)
        LS_TRY(lsi_timeline_cursor_next(cursor, next));
    while (*next != NULL && (*next)->begin < step->end) {
        if ((*next)->thread == step->thread) {
            count_communication(&c, step, *next);
            count_gather(&w->profile->weights.gathers, *next);
            if (!is_apart(*next))
                LS_TRY(count_span(w, *next));
        }
        LS_TRY(lsi_timeline_cursor_next(cursor, next));
    }
    w->profile->under_way += c.under_way.total;
    w->profile->weights.gathers.ns += c.gathers.total;
    w->profile->exposed += least(c.waits.total, c.under_way.total);
    return LS_OK;
}

static ls_status count_steps(walk *w, const lsi_profile_steps *steps)
{
    lsi_timeline_cursor *cursor;
    const lsi_timeline_span *next = NULL;
    LS_TRY(lsi_timeline_cursor_open(w->process, &cursor));
    ls_status status = lsi_timeline_cursor_next(cursor, &next);
    for (size_t i = steps->first; i < steps->n && status == LS_OK; i++) {
        w->times = &steps->times[i];
        status = count_step(w, &steps->step[i], cursor, &next);
    }
    lsi_timeline_cursor_close(&cursor);
    return status;
}

/* ---- all of it ----------------------------------------------------------- */

static int by_time(const void *a, const void *b)
{
    const int64_t x = lsi_profile_total(a).ns, y = lsi_profile_total(b).ns;
    return (x < y) - (x > y);
}

static ls_status walk_process(walk *w, const lsi_profile_steps *steps)
{
    w->kernel_of = calloc(w->process->n_names + 1, sizeof(int32_t));
    if (w->kernel_of == NULL)
        return lsi_profile_no_memory();
    ls_status status = lsi_profile_layers_begin(&w->layers, w->process);
    if (status == LS_OK)
        status = count_steps(w, steps);
    lsi_profile_layers_end(&w->layers);
    free(w->kernel_of);
    return status;
}

static ls_status walk_all(const lsi_timeline *t, walk *w,
                          lsi_profile_steps *steps)
{
    w->profile->size = 1;
    for (size_t i = 0; i < t->n; i++) {
        const lsi_timeline_process *const p = t->process[i];
        if (p->size > w->profile->size)
            w->profile->size = p->size;
        if (w->filter->rank >= 0 && p->rank != w->filter->rank)
            continue;
        w->process = p;
        LS_TRY(lsi_profile_find_steps(p, w->filter->warmup, &steps[i]));
        w->profile->ranks += steps[i].n > steps[i].first;
        w->profile->no_steps |= steps[i].none;
        LS_TRY(walk_process(w, &steps[i]));
    }
    if (w->profile->steps == 0)
        return lsi_fail(LS_ERR_NOT_FOUND,
                        "the trace contains no steps after the warm-up%s",
                        w->filter->rank >= 0 ? " on the selected rank" : "");
    if (w->profile->time == 0)
        return lsi_fail(
            LS_ERR_NOT_FOUND,
            "the steps after the warm-up do not contain the %s '%s'",
            w->filter->range != NULL ? "range" : "phase",
            w->filter->range != NULL ? w->filter->range : w->filter->phase);
    if (w->profile->n > 0)
        qsort(w->profile->kernel, w->profile->n, sizeof(lsi_profile_kernel),
              by_time);
    LS_TRY(lsi_profile_explain_waits(&w->waits, w->profile, t));
    return lsi_profile_compare(t, steps, w->profile);
}

ls_status lsi_profile_of(const lsi_timeline *timeline,
                         const lsi_profile_filter *filter, lsi_profile **out)
{
    lsi_profile *p = calloc(1, sizeof(*p));
    lsi_profile_steps *const steps =
        calloc(timeline->n, sizeof(lsi_profile_steps));
    walk *const w = calloc(1, sizeof(*w));
    ls_status status = LS_OK;
    if (p == NULL || steps == NULL || w == NULL) {
        status = lsi_profile_no_memory();
    } else {
        *w = (walk){.profile = p, .filter = filter};
        p->phase[p->n_phases++] = "outside of phases";
        p->only_range = filter->range;
        p->only_phase = filter->phase;
        status = walk_all(timeline, w, steps);
    }
    for (size_t i = 0; steps != NULL && i < timeline->n; i++)
        lsi_profile_release_steps(&steps[i]);
    free(steps);
    if (w != NULL)
        free(w->waits.wait);
    free(w);
    if (status == LS_OK)
        *out = p;
    else
        lsi_profile_free(&p);
    return status;
}

void lsi_profile_free(lsi_profile **profile)
{
    if (profile == NULL || *profile == NULL)
        return;
    free((*profile)->kernel);
    free((*profile)->layer);
    free((*profile)->weights.layer);
    free((*profile)->slowest);
    free(*profile);
    *profile = NULL;
}

lsi_profile_sum lsi_profile_total(const lsi_profile_kernel *kernel)
{
    lsi_profile_sum sum = {0};
    for (int i = 0; i < LSI_PROFILE_PHASES; i++) {
        sum.calls += kernel->in[i].calls;
        sum.bytes += kernel->in[i].bytes;
        sum.work += kernel->in[i].work;
        sum.ns += kernel->in[i].ns;
    }
    return sum;
}

double lsi_profile_product_rate(const char *kernel,
                                const lsi_profile_peaks *peaks)
{
    return strstr(kernel, "bf16") != NULL ? peaks->bf16 : peaks->f32;
}

double lsi_profile_of_roofline(const char *kernel, const lsi_profile_sum *sum,
                               const lsi_profile_peaks *peaks)
{
    const double seconds = (double)sum->ns * 1e-9;
    const double peak = lsi_profile_product_rate(kernel, peaks);
    if (sum->ns <= 0 || sum->bytes == 0 || peaks->bytes <= 0 || peak <= 0)
        return 0;
    const double work = (double)sum->work / seconds;
    const double bytes = (double)sum->bytes / seconds;
    const double by_work = work / peak, by_bytes = bytes / peaks->bytes;
    return by_work > by_bytes ? by_work : by_bytes;
}
