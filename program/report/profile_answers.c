/* Profiles in sentences. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/append.h"
#include "report/profile.h"

/* Share of a step from which a kernel is mentioned; most kernels mentioned. */
#define WORTH_A_WORD 0.02
enum { FEW = 6 };

#define append(answer, ...)                                                    \
    lsi_append((answer)->text, LSI_PROFILE_ANSWER_BYTES, __VA_ARGS__)

static double ms(int64_t ns, uint64_t of)
{
    return of == 0 ? 0 : (double)ns * 1e-6 / (double)of;
}

static double percent(int64_t part, int64_t whole)
{
    return whole <= 0 ? 0 : 100.0 * (double)part / (double)whole;
}

/* ---- of the part of the steps that was asked for ------------------------- */

enum { PART_BYTES = 128 };

static const char *per_step(const lsi_profile *p)
{
    return p->no_steps ? "in total" : "per step";
}

static bool is_part(const lsi_profile *p)
{
    return p->only_range != NULL || p->only_phase != NULL;
}

void lsi_profile_part(const lsi_profile *p, char *out, size_t bytes)
{
    const char *const range = p->only_range, *const phase = p->only_phase;
    if (range != NULL && phase != NULL)
        snprintf(out, bytes, "range %s in phase %s", range, phase);
    else if (range != NULL || phase != NULL)
        snprintf(out, bytes, range != NULL ? "range %s" : "phase %s",
                 range != NULL ? range : phase);
    else
        snprintf(out, bytes, "whole steps");
}

static int64_t all_kernels(const lsi_profile *p)
{
    int64_t ns = 0;
    for (size_t i = 0; i < p->n; i++)
        ns += lsi_profile_total(&p->kernel[i]).ns;
    return ns;
}

/* Ends a sentence with the time spent waiting. */
static void append_wait(lsi_profile_answer *a, const lsi_profile *p, int64_t ns,
                        uint64_t of)
{
    if (p->size > 1)
        append(a, ", and waiting for other ranks takes %.3f ms", ms(ns, of));
    append(a, ".");
}

static void part_wall(const lsi_profile *p, lsi_profile_answer *a)
{
    char part[PART_BYTES];
    lsi_profile_part(p, part, sizeof(part));
    append(a,
           "By the wall clock, %s takes %.3f ms %s. Its kernels take %.3f ms "
           "of this time (%.1f%%)",
           part, ms(p->time, p->steps), per_step(p),
           ms(all_kernels(p), p->steps), percent(all_kernels(p), p->time));
    int64_t waited = 0;
    for (size_t i = 0; i < p->n_phases; i++)
        waited += p->waited[i];
    append_wait(a, p, waited, p->steps);
}

static void part_longest(const lsi_profile *p, lsi_profile_answer *a)
{
    char part[PART_BYTES];
    lsi_profile_part(p, part, sizeof(part));
    if (p->n == 0) {
        append(a, "No kernels run in %s.", part);
        return;
    }
    const lsi_profile_sum all = lsi_profile_total(&p->kernel[0]);
    append(a,
           "In %s, the kernel %s takes the most time: %.3f ms in %.4g calls %s "
           "(%.1f%% of the time).",
           part, p->kernel[0].name, ms(all.ns, p->steps),
           (double)all.calls / (double)p->steps, per_step(p),
           percent(all.ns, p->time));
}

/* ---- of whole steps ------------------------------------------------------ */

static int64_t kernels_in(const lsi_profile *p, int phase)
{
    int64_t ns = 0;
    for (size_t i = 0; i < p->n; i++)
        ns += p->kernel[i].in[phase].ns;
    return ns;
}

static void answer_forward(const lsi_profile *p, lsi_profile_answer *a)
{
    const int f = lsi_profile_phase(p, "forward");
    if (f < 0) {
        append(a, "These steps do not contain a phase 'forward'.");
        return;
    }
    append(a,
           "By the wall clock, a forward pass takes %.3f ms. Its kernels take "
           "%.3f ms of this time (%.1f%%)",
           ms(p->wall[f], p->entered[f]), ms(kernels_in(p, f), p->entered[f]),
           percent(kernels_in(p, f), p->wall[f]));
    append_wait(a, p, p->waited[f], p->entered[f]);
}

static const lsi_profile_kernel *longest_in(const lsi_profile *p, int phase)
{
    const lsi_profile_kernel *found = &p->kernel[0];
    for (size_t i = 1; i < p->n; i++)
        if (p->kernel[i].in[phase].ns > found->in[phase].ns)
            found = &p->kernel[i];
    return found;
}

static void answer_longest(const lsi_profile *p, lsi_profile_answer *a)
{
    const int f = lsi_profile_phase(p, "forward");
    if (p->n == 0) {
        append(a, "The trace contains no kernels.");
        return;
    }
    const lsi_profile_sum all = lsi_profile_total(&p->kernel[0]);
    if (f >= 0 && p->entered[f] > 0) {
        const lsi_profile_kernel *const k = longest_in(p, f);
        append(a,
               "In a forward pass, the kernel %s takes the most time: %.3f ms "
               "in %.4g calls (%.1f%% of the pass). ",
               k->name, ms(k->in[f].ns, p->entered[f]),
               (double)k->in[f].calls / (double)p->entered[f],
               percent(k->in[f].ns, p->wall[f]));
    }
    append(a,
           "In a whole step, the kernel %s takes the most time: %.3f ms in "
           "%.4g calls (%.1f%% of the step).",
           p->kernel[0].name, ms(all.ns, p->steps),
           (double)all.calls / (double)p->steps, percent(all.ns, p->step_ns));
}

static void answer_rest(const lsi_profile *p, lsi_profile_answer *a)
{
    int n_named = 0;
    char part[PART_BYTES] = "a step";
    if (is_part(p))
        lsi_profile_part(p, part, sizeof(part));
    for (size_t i = 1; i < p->n && n_named < FEW; i++) {
        const lsi_profile_sum sum = lsi_profile_total(&p->kernel[i]);
        if ((double)sum.ns < WORTH_A_WORD * (double)p->time)
            break;
        append(a, "%s%s %.1f%%",
               n_named++ > 0 ? ", " : "Other kernels: ", p->kernel[i].name,
               percent(sum.ns, p->time));
    }
    append(a,
           n_named > 0 ? " of %s." : "No other kernel takes 2%% or more of %s.",
           part);
}

static int64_t products_in(const lsi_profile *p, int phase)
{
    int64_t ns = 0;
    for (size_t i = 0; i < p->n; i++)
        if (lsi_profile_is_product(p->kernel[i].name))
            ns += phase < 0 ? lsi_profile_total(&p->kernel[i]).ns
                            : p->kernel[i].in[phase].ns;
    return ns;
}

static void part_products(const lsi_profile *p, lsi_profile_answer *a)
{
    char part[PART_BYTES];
    lsi_profile_part(p, part, sizeof(part));
    append(a, "Matrix products and convolutions take %.1f%% of %s.",
           percent(products_in(p, -1), p->time), part);
}

static void answer_products(const lsi_profile *p, lsi_profile_answer *a)
{
    const int f = lsi_profile_phase(p, "forward");
    if (f >= 0)
        append(a,
               "Matrix products and convolutions take %.1f%% of a forward pass "
               "(as in inference) and ",
               percent(products_in(p, f), p->wall[f]));
    else
        append(a, "Matrix products and convolutions take ");
    append(a, "%.1f%% of a whole step.",
           percent(products_in(p, -1), p->step_ns));
}

/* Softmax against the products, in `where`. */
static void append_softmax(lsi_profile_answer *a, const lsi_profile *p,
                           const char *where, const char *products,
                           lsi_profile_sum s, lsi_profile_sum m)
{
    append(a,
           "In attention during %s, softmax takes %.3f ms %s and the %s take "
           "%.3f ms. So softmax takes %.2f times as long. Its floating-point "
           "operations are %.3f times those of the products.",
           where, ms(s.ns, p->steps), per_step(p), products, ms(m.ns, p->steps),
           (double)s.ns / (double)m.ns,
           m.work > 0 ? (double)s.work / (double)m.work : 0);
}

static void append_fused(lsi_profile_answer *a, const char *times)
{
    append(a,
           "In attention, one kernel computes softmax and the products. It "
           "takes %s. To time softmax and products separately, use naive "
           "attention.",
           times);
}

static void answer_attention(const lsi_profile *p, lsi_profile_answer *a)
{
    char times[PART_BYTES];
    const lsi_profile_attention *const f = &p->forward;
    if (f->softmax.ns > 0 && f->products.ns > 0)
        append_softmax(a, p, "forward", "two products", f->softmax,
                       f->products);
    else if (f->fused.ns + p->backward.fused.ns > 0) {
        snprintf(times, sizeof(times),
                 "%.3f ms %s in forward and %.3f ms in backward",
                 ms(f->fused.ns, p->steps), per_step(p),
                 ms(p->backward.fused.ns, p->steps));
        append_fused(a, times);
    } else
        append(a, "These steps contain no attention.");
}

static lsi_profile_sum sum_of(lsi_profile_sum a, lsi_profile_sum b)
{
    return (lsi_profile_sum){.work = a.work + b.work, .ns = a.ns + b.ns};
}

static void part_attention(const lsi_profile *p, lsi_profile_answer *a)
{
    char part[PART_BYTES], times[PART_BYTES + 64];
    const lsi_profile_attention *const f = &p->forward, *const b = &p->backward;
    const lsi_profile_sum softmax = sum_of(f->softmax, b->softmax);
    const lsi_profile_sum products = sum_of(f->products, b->products);
    const int64_t fused = f->fused.ns + b->fused.ns;
    lsi_profile_part(p, part, sizeof(part));
    if (p->only_phase == NULL && (fused > 0 || f->softmax.ns > 0)) {
        answer_attention(p, a); /* in the range, each direction */
        return;
    }
    if (softmax.ns > 0 && products.ns > 0)
        append_softmax(a, p, part, "products", softmax, products);
    else if (fused > 0) {
        snprintf(times, sizeof(times), "%.3f ms %s in %s", ms(fused, p->steps),
                 per_step(p), part);
        append_fused(a, times);
    } else
        append(a, "Attention does not occur in %s.", part);
}

/* Share of a phase itself, without waiting for other ranks. */
static double busy_share(const lsi_profile *p, const char *name)
{
    const int phase = lsi_profile_phase(p, name);
    return phase < 0 ? 0
                     : (double)(p->alone[phase] - p->waited[phase]) /
                           (double)p->step_ns;
}

bool lsi_profile_split_of(const lsi_profile *profile, lsi_profile_split *out)
{
    if (is_part(profile) || profile->step_ns <= 0)
        return false;
    *out = (lsi_profile_split){
        .forward = busy_share(profile, "forward"),
        .backward = busy_share(profile, "backward"),
        .optimizer = busy_share(profile, "optimizer"),
        .exposed = busy_share(profile, "gradient sync"),
    };
    const double named = out->forward + out->backward + out->optimizer;
    for (size_t i = 0; i < profile->n_phases; i++)
        out->exposed += (double)profile->waited[i] / (double)profile->step_ns;
    out->rest = 1 - named - out->exposed;
    return named > 0;
}

double lsi_profile_overlap(const lsi_profile *profile)
{
    return profile->under_way <= 0 || profile->size <= 1 ||
                   !profile->has_kernels
               ? -1
               : 1 - (double)profile->exposed / (double)profile->under_way;
}

static void answer_overlap(const lsi_profile *p, lsi_profile_answer *a)
{
    const double overlap = lsi_profile_overlap(p);
    if (p->size <= 1) {
        append(a, "The run has only one rank, so it does not communicate.");
        return;
    }
    if (overlap < 0) {
        append(a, p->under_way <= 0
                      ? "The trace contains no collectives."
                      : "The trace contains no kernels, so the overlap with "
                        "computation is unknown.");
        return;
    }
    append(a,
           "Computation hides %.1f%% of communication. In a step, collectives "
           "are in flight for %.3f ms. During %.3f ms of this time, the rank "
           "only waits.",
           100 * overlap, ms(p->under_way, p->steps), ms(p->exposed, p->steps));
}

/* The time waited for weights by phase, and in all. */
static int64_t append_phases(lsi_profile_answer *a, const lsi_profile *p)
{
    const lsi_profile_weights *const w = &p->weights;
    const char *before = ":";
    int64_t all = 0;
    for (size_t i = 0; i < p->n_phases; i++)
        all += w->waited[i];
    append(a,
           "A rank asks other nodes for %.2f MB of weights %s, which are in "
           "flight for %.3f ms. It waits for weights for %.3f ms",
           (double)w->gathers.bytes * 1e-6 / (double)p->steps, per_step(p),
           ms(w->gathers.ns, p->steps), ms(all, p->steps));
    for (size_t i = 0; i < p->n_phases; i++) {
        if (w->waited[i] == 0)
            continue;
        append(a, "%s %.3f ms %s%s", before, ms(w->waited[i], p->steps),
               i > 0 ? "in " : "", p->phase[i]);
        before = ",";
    }
    append(a, ".");
    return all;
}

static void append_reasons(lsi_profile_answer *a, const lsi_profile *p)
{
    static const char *const why[LSI_WHYS] = {
        "the first layer of the step", "layers that were not asked for ahead",
        "owners that answered late because they computed",
        "transfers slower than computation"};
    const char *before = " Reasons:";
    for (int i = 0; i < LSI_WHYS; i++) {
        if (p->weights.because[i] == 0)
            continue;
        append(a, "%s %.3f ms %s", before, ms(p->weights.because[i], p->steps),
               why[i]);
        before = ",";
    }
    append(a, ".");
}

static void append_longest_waits(lsi_profile_answer *a, const lsi_profile *p)
{
    for (size_t i = 0; i < p->weights.n && i < 3; i++)
        append(a, "%s %s %.3f ms",
               i > 0 ? "," : " Longest waits:", p->weights.layer[i].name,
               ms(p->weights.layer[i].ns, p->steps));
    append(a, ".");
}

static void answer_weights(const lsi_profile *p, lsi_profile_answer *a)
{
    const lsi_profile_sum *const late = &p->weights.late;
    if (p->weights.gathers.calls == 0 && p->weights.n == 0)
        return;
    if (append_phases(a, p) == 0)
        return;
    append_reasons(a, p);
    append_longest_waits(a, p);
    if (late->calls > 0)
        append(a,
               " A late layer of %.2f MB takes %.3f ms (%.1f MB/s) and was "
               "asked for %.3f ms before use.",
               (double)late->bytes * 1e-6 / (double)late->calls,
               ms(late->ns, late->calls),
               late->ns > 0 ? (double)late->bytes * 1e3 / (double)late->ns : 0,
               ms(p->weights.ahead, late->calls));
}

bool lsi_profile_judge(const lsi_profile *profile, lsi_profile_verdict *out)
{
    *out = (lsi_profile_verdict){.rank = -1};
    for (size_t i = 0; i < profile->n_slowest; i++) {
        const lsi_profile_slowest *const one = &profile->slowest[i];
        lsi_profile_verdict v = {.rank = one->rank, .phase = one->phase};
        for (size_t j = 0; j < profile->n_slowest; j++) {
            const lsi_profile_slowest *const other = &profile->slowest[j];
            if (other->rank != v.rank || other->phase != v.phase)
                continue;
            v.steps++;
            v.ns += (double)other->ns;
        }
        v.ns /= (double)v.steps;
        if (v.steps > out->steps)
            *out = v;
        if (2 * v.steps > profile->n_slowest)
            break; /* no other pair can win */
    }
    return out->steps > 0;
}

static void answer_slowest(const lsi_profile *p, lsi_profile_answer *a)
{
    lsi_profile_verdict v;
    if (p->size <= 1) {
        append(a, "The run has only one rank.");
        return;
    }
    if (!lsi_profile_judge(p, &v)) {
        append(a,
               p->ranks == 1
                   ? "The profile contains the steps of only one of %d ranks."
                   : "The trace contains no step that two or more of the %d "
                     "ranks ran.",
               p->size);
        return;
    }
    append(a,
           "Rank %d was the slowest in %zu of %zu steps, mostly in '%s': %.3f "
           "ms longer than on the other ranks.",
           v.rank, v.steps, p->n_slowest, p->phase[v.phase], v.ns * 1e-6);
}

void lsi_profile_answer_all(const lsi_profile *profile,
                            lsi_profile_answer out[LSI_PROFILE_ANSWERS])
{
    static const struct {
        const char *key, *title;
        void (*answer)(const lsi_profile *p, lsi_profile_answer *a);
        const char *part_title;
        void (*part)(const lsi_profile *p, lsi_profile_answer *a);
    } all[LSI_PROFILE_ANSWERS] = {
        {"forward", "Forward pass and its kernels", answer_forward,
         "Wall-clock time and kernels", part_wall},
        {"longest", "Longest kernel", answer_longest, NULL, part_longest},
        {"rest", "Other kernels", answer_rest, NULL, answer_rest},
        {"products", "Share of matrix products", answer_products, NULL,
         part_products},
        {"attention", "Softmax compared with matrix products", answer_attention,
         NULL, part_attention},
        {"overlap", "Overlap of communication", answer_overlap,
         "Overlap of communication (of the whole step)", answer_overlap},
        {"weights", "Weights of other nodes", answer_weights, NULL,
         answer_weights},
        {"slowest", "Slowest rank", answer_slowest,
         "Slowest rank (of the whole step)", answer_slowest},
    };
    const bool part = is_part(profile);
    for (int i = 0; i < LSI_PROFILE_ANSWERS; i++) {
        const bool renamed = part && all[i].part_title != NULL;
        out[i] = (lsi_profile_answer){.key = all[i].key,
                                      .title = renamed ? all[i].part_title
                                                       : all[i].title};
        (part ? all[i].part : all[i].answer)(profile, &out[i]);
    }
}
