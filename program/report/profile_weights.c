#include "report/profile_weights.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/grow.h"
#include "report/profile_steps.h"

/* ---- waits --------------------------------------------------------------- */

/* The index of a layer in the profile's list; n if it is not there. */
static size_t index_of(const lsi_profile_weights *weights, const char *layer)
{
    size_t i = 0;
    while (i < weights->n && strcmp(weights->layer[i].name, layer) != 0)
        i++;
    return i;
}

ls_status lsi_profile_add_wait(lsi_profile_waits *waits, lsi_profile *profile,
                               const lsi_timeline_process *process,
                               const lsi_timeline_span *span, int phase)
{
    lsi_profile_weights *const weights = &profile->weights;
    const char *const name = lsi_timeline_name(process, span);
    const size_t at = index_of(weights, name);
    if (!lsi_grow_array(&waits->wait, waits->n, &waits->room,
                        sizeof(*waits->wait)) ||
        (at == weights->n &&
         !lsi_grow_array(&weights->layer, weights->n, &waits->layer_room,
                         sizeof(*weights->layer))))
        return lsi_profile_no_memory();
    if (at == weights->n)
        weights->layer[weights->n++] = (lsi_profile_gathered){.name = name};
    waits->wait[waits->n++] = (lsi_profile_wait){.begin = span->begin,
                                                 .end = span->end,
                                                 .node = span->id,
                                                 .need = span->work,
                                                 .layer = at};
    weights->waited[phase] += span->end - span->begin;
    return LS_OK;
}

/* ---- gathers and answers ------------------------------------------------- */

typedef struct event {
    int64_t begin, end;
    uint64_t bytes, node;
    size_t layer, process;
    bool counted; /* in the profile's sums of late gathers */
} event;

/* Sorted by layer, node and beginning. */
typedef struct events {
    event *all;
    size_t n, room;
} events;

typedef struct search {
    const lsi_profile_weights *weights;
    const lsi_timeline *timeline;
    size_t process; /* index of the one that is read */
    events gathers, answers;
} search;

static ls_status take_event(void *context, const lsi_timeline_span *s)
{
    search *const in = context;
    events *const to = s->kind == LSI_SPAN_GATHER ? &in->gathers : &in->answers;
    const size_t layer = index_of(
        in->weights, lsi_timeline_name(in->timeline->process[in->process], s));
    if (layer == in->weights->n)
        return LS_OK; /* no rank waited for it */
    if (!lsi_grow_array(&to->all, to->n, &to->room, sizeof(event)))
        return lsi_profile_no_memory();
    to->all[to->n++] = (event){.begin = s->begin,
                               .end = s->end,
                               .bytes = s->bytes,
                               .node = s->id,
                               .layer = layer,
                               .process = in->process};
    return LS_OK;
}

static int by_place(const void *a, const void *b)
{
    const event *const x = a, *const y = b;
    if (x->layer != y->layer)
        return x->layer < y->layer ? -1 : 1;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static ls_status read_events(search *in)
{
    const unsigned kinds = 1U << LSI_SPAN_GATHER | 1U << LSI_SPAN_ANSWER;
    for (; in->process < in->timeline->n; in->process++)
        LS_TRY(lsi_timeline_scan(in->timeline->process[in->process], kinds,
                                 take_event, in));
    if (in->gathers.n > 0)
        qsort(in->gathers.all, in->gathers.n, sizeof(event), by_place);
    if (in->answers.n > 0)
        qsort(in->answers.all, in->answers.n, sizeof(event), by_place);
    return LS_OK;
}

/* The index of the first event of the wait's layer and node from then on. */
static size_t first_from(const events *in, const lsi_profile_wait *wait,
                         int64_t begin)
{
    const event key = {
        .begin = begin, .node = wait->node, .layer = wait->layer};
    size_t low = 0, high = in->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (by_place(&in->all[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_of(const event *e, const lsi_profile_wait *wait)
{
    return e->layer == wait->layer && e->node == wait->node;
}

/*
 * The gather that was in flight when the wait began; NULL: none. A rank has at
 * most one of a layer at a time.
 */
static event *gather_of(const search *in, const lsi_profile_wait *wait)
{
    size_t i = first_from(&in->gathers, wait, wait->begin);
    for (size_t n = 0; n < in->timeline->n && i-- > 0; n++) {
        event *const e = &in->gathers.all[i];
        if (is_of(e, wait) && e->end > wait->begin)
            return e;
    }
    return NULL;
}

/* When the last of the owners that took part had begun to answer. */
static int64_t answered(const search *in, const event *gather,
                        const lsi_profile_wait *wait)
{
    const size_t first = first_from(&in->answers, wait, gather->begin);
    int64_t last = gather->begin;
    for (size_t i = first; i < in->answers.n; i++) {
        const event *const e = &in->answers.all[i];
        bool again = false;
        if (!is_of(e, wait) || e->begin > wait->end)
            break;
        for (size_t j = first; j < i && !again; j++)
            again = in->answers.all[j].process == e->process;
        last = again ? last : e->begin;
    }
    return last;
}

/* ---- reasons ------------------------------------------------------------- */

static void count(lsi_profile_weights *weights, const lsi_profile_wait *wait,
                  lsi_profile_why why, int64_t ns)
{
    weights->because[why] += ns;
    weights->layer[wait->layer].because[why] += ns;
}

static void explain(const search *in, lsi_profile_weights *weights,
                    const lsi_profile_wait *wait)
{
    const int64_t ns = wait->end - wait->begin;
    event *const gather = gather_of(in, wait);
    weights->layer[wait->layer].waits++;
    weights->layer[wait->layer].ns += ns;
    if (wait->need == LSI_NEED_FIRST) {
        count(weights, wait, LSI_WHY_FIRST, ns);
        return;
    }
    if (wait->need == LSI_NEED_NEW || gather == NULL) {
        count(weights, wait, LSI_WHY_NOT_AHEAD, ns);
        return;
    }
    const int64_t begun = answered(in, gather, wait);
    const int64_t unanswered = begun > wait->begin ? begun - wait->begin : 0;
    count(weights, wait, LSI_WHY_OWNER, unanswered);
    count(weights, wait, LSI_WHY_LINK, ns - unanswered);
    if (gather->counted)
        return;
    gather->counted = true;
    weights->late.calls++;
    weights->late.bytes += gather->bytes;
    weights->late.ns += gather->end - begun;
    weights->ahead += wait->begin - gather->begin;
}

static int by_wait(const void *a, const void *b)
{
    const lsi_profile_gathered *const x = a, *const y = b;
    return (x->ns < y->ns) - (x->ns > y->ns);
}

ls_status lsi_profile_explain_waits(lsi_profile_waits *waits,
                                    lsi_profile *profile,
                                    const lsi_timeline *timeline)
{
    lsi_profile_weights *const weights = &profile->weights;
    search in = {.weights = weights, .timeline = timeline};
    ls_status status = waits->n > 0 ? read_events(&in) : LS_OK;
    for (size_t i = 0; status == LS_OK && i < waits->n; i++)
        explain(&in, weights, &waits->wait[i]);
    if (weights->n > 0)
        qsort(weights->layer, weights->n, sizeof(*weights->layer), by_wait);
    free(in.gathers.all);
    free(in.answers.all);
    return status;
}
