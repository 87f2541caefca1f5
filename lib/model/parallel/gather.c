#include "model/parallel/gather.h"

#include <assert.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "comm/core/agree.h"
#include "comm/node/huge.h"
#include "comm/node/shared.h"
#include "model/autograd/tape.h"
#include "model/parallel/layer_name.h"
#include "model/tensor/tensor.h"

/*
 * A word: the number of ranks that use the parameter, and above it its state.
 * Only the rank that sets COMING or LEAVING changes the state next.
 */
enum { USERS = 0xffff, ABSENT = 0 << 16, COMING = 1 << 16, HERE = 2 << 16 };
enum { LEAVING = 3 << 16, STATE = ~USERS };

enum { NO_LAYER = -1 };

/* A pass in which a parameter was needed in a kind. */
enum { FORWARD = 1, BACKWARD = 2 };

/* A parameter in one kind. */
typedef struct item {
    _Atomic uint32_t *word;
    lsi_weight_fetch_part *parts; /* elements that other nodes own */
    size_t n, bytes;              /* of the parts */
    bool planned, held;           /* held: this rank is one of the users */
    bool asked;                   /* by this rank, and still coming */
    struct item *next;            /* of those */
    uint64_t used;                /* lsi_tensor_uses at the last use */
} item;

typedef struct layer {
    lsi_range params;
    uint64_t seen; /* the last pass in which it was entered */
    bool kept;     /* until the next step */
    size_t coming; /* items that this rank has asked for */
    lsi_span span; /* since the first of these was asked for */
} layer;

struct lsi_gather {
    ls_group *group;
    lsi_weight_fetch *fetch;
    ls_params *params;
    void *words; /* shared by the node; this rank's part */
    item *items; /* [params * LSI_WEIGHTS_KINDS] */
    item *asked; /* a list */
    layer *layers;
    size_t n_layers, ahead;
    size_t *layer_of;    /* [params] */
    unsigned char *uses; /* [params * LSI_WEIGHTS_KINDS] in which passes */
    bool walks, walked;  /* a backward pass; in an earlier step */
    bool first;          /* the first layer of the step is the current one */
    uint64_t pass;       /* counts forward passes */
    uint64_t tapes;      /* lsi_tape_passes of the pass */
    int current;         /* layer */
    lsi_range window;    /* of layers around it */
};

static item *item_of(const lsi_gather *g, size_t param, lsi_weight_kind kind)
{
    return &g->items[param * LSI_WEIGHTS_KINDS + kind];
}

static layer *layer_of(const lsi_gather *g, const item *it)
{
    return &g->layers[g->layer_of[(size_t)(it - g->items) / LSI_WEIGHTS_KINDS]];
}

/* Records a span of a layer that ends now. */
static void put_span(const lsi_gather *g, lsi_span_kind kind, const layer *of,
                     lsi_span span)
{
    lsi_layer_span_end(kind, ls_params_name(g->params, of->params.begin), span,
                       lsi_weight_fetch_node(g->fetch));
}

/* ---- one parameter ------------------------------------------------------- */

static ls_status plan(const lsi_gather *g, size_t param, lsi_weight_kind kind)
{
    item *const it = item_of(g, param, kind);
    const lsi_param *const p = g->params->params.items[param];
    const lsi_range elements = {p->offset,
                                p->offset + (size_t)p->tensor->count};
    const size_t size = kind == LSI_WEIGHTS_F32 ? 4 : 2;
    if (it->planned || !lsi_param_is_divided(p))
        return LS_OK;
    LS_TRY(lsi_weight_fetch_plan(g->fetch, elements, kind, &it->parts, &it->n));
    for (size_t i = 0; i < it->n; i++)
        it->bytes +=
            size * lsi_range_size(lsi_weight_fetch_elements(it->parts, i));
    it->planned = true;
    return LS_OK;
}

/* Every rank is charged its part of what the node gathers. */
static size_t charge_of(const lsi_gather *g, const item *it)
{
    return it->bytes / (size_t)ls_group_local_size(g->group);
}

/*
 * Tells the node which parameters have come that this rank has asked for. Other
 * ranks of the node wait for them, perhaps while this one waits in a collective
 * for those ranks.
 */
static void note_arrivals(void *context)
{
    lsi_gather *const g = context;
    item **link = &g->asked;
    while (*link != NULL) {
        item *const it = *link;
        if (!lsi_weight_fetch_has_come(it->parts, it->n)) {
            link = &it->next;
            continue;
        }
        *link = it->next;
        it->asked = false;
        atomic_fetch_add(it->word, HERE - COMING);
        layer *const of = layer_of(g, it);
        if (--of->coming == 0)
            put_span(g, LSI_SPAN_GATHER, of, of->span);
    }
}

static unsigned char *address_of(const lsi_gather *g, lsi_weight_kind kind,
                                 size_t element)
{
    return kind == LSI_WEIGHTS_F32
               ? (unsigned char *)(g->params->storage.flat + element)
               : (unsigned char *)(g->params->sharing.halves.first + element);
}

/* Much of a gathered layer's time is that of the first touch of its pages. */
static void use_huge_pages(const lsi_gather *g, const item *it,
                           lsi_weight_kind kind)
{
    for (size_t i = 0; i < it->n; i++) {
        const lsi_range part = lsi_weight_fetch_elements(it->parts, i);
        unsigned char *const begin = address_of(g, kind, part.begin);
        lsi_use_huge_pages(begin,
                           (size_t)(address_of(g, kind, part.end) - begin));
    }
}

static void ask(lsi_gather *g, item *it, lsi_weight_kind kind)
{
    layer *const of = layer_of(g, it);
    if (of->coming++ == 0)
        of->span = (lsi_span){.begin = lsi_span_begin()};
    of->span.bytes += it->bytes;
    it->asked = true;
    it->next = g->asked;
    g->asked = it;
    use_huge_pages(g, it, kind);
    lsi_weight_fetch_ask(g->fetch, it->parts, it->n);
}

static lsi_page_guard *guard_of(const lsi_gather *g, lsi_weight_kind kind)
{
    return kind == LSI_WEIGHTS_F32 ? &g->params->sharing.guard
                                   : &g->params->sharing.halves.guard;
}

static void close_pages(const lsi_gather *g, const item *it, size_t parts,
                        lsi_weight_kind kind)
{
    for (size_t i = 0; i < parts; i++)
        lsi_page_guard_close(guard_of(g, kind),
                             lsi_weight_fetch_elements(it->parts, i));
}

static ls_status open_pages(const lsi_gather *g, const item *it,
                            lsi_weight_kind kind)
{
    for (size_t i = 0; i < it->n; i++) {
        const ls_status status = lsi_page_guard_open(
            guard_of(g, kind), lsi_weight_fetch_elements(it->parts, i));
        if (status != LS_OK) {
            close_pages(g, it, i, kind);
            return status;
        }
    }
    return LS_OK;
}

/* Becomes a user; asks for the parameter if it is the first. */
static ls_status begin(lsi_gather *g, item *it, lsi_weight_kind kind)
{
    uint32_t word = atomic_load(it->word);
    if (it->n == 0 || it->held)
        return LS_OK;
    LS_TRY(lsi_memory_charge(charge_of(g, it), LS_MEMORY_GATHERED,
                             "weights of other nodes"));
    const ls_status status = open_pages(g, it, kind);
    if (status != LS_OK) {
        lsi_memory_discharge(charge_of(g, it), LS_MEMORY_GATHERED);
        return status;
    }
    for (;;) {
        const bool first = (word & STATE) == ABSENT;
        if ((word & STATE) == LEAVING) {
            sched_yield();
            word = atomic_load(it->word);
            continue;
        }
        if (!atomic_compare_exchange_weak(it->word, &word,
                                          first ? COMING | 1 : word + 1))
            continue;
        it->held = true;
        if (first)
            ask(g, it, kind);
        return LS_OK;
    }
}

static bool is_here(const void *goal)
{
    const item *const it = goal;
    return (atomic_load(it->word) & STATE) == HERE;
}

/* Waits for a parameter that has been needed since `begin`, in that way. */
static ls_status await(const lsi_gather *g, const item *it, uint64_t begin,
                       lsi_weight_need need)
{
    if (it->n == 0 || is_here(it))
        return LS_OK;
    LS_TRY(lsi_weight_fetch_wait(g->fetch, is_here, it));
    put_span(g, LSI_SPAN_AWAIT, layer_of(g, it),
             (lsi_span){.begin = begin, .bytes = it->bytes, .work = need});
    return LS_OK;
}

/* Whole pages; what shares one with a neighbour stays. */
static void give_pages_back(const lsi_gather *g, const item *it,
                            lsi_weight_kind kind)
{
    enum { PAGE = 4096 };
    for (size_t i = 0; i < it->n; i++) {
        const lsi_range part = lsi_weight_fetch_elements(it->parts, i);
        unsigned char *const begin = address_of(g, kind, part.begin);
        unsigned char *const end = address_of(g, kind, part.end);
        const size_t skip = (PAGE - (uintptr_t)begin % PAGE) % PAGE;
        const size_t rest = (uintptr_t)end % PAGE;
        if ((size_t)(end - begin) > skip + rest)
            lsi_shared_discard(g->group, begin + skip,
                               (size_t)(end - begin) - skip - rest);
    }
}

/*
 * Ends this rank's use, which has begun completely. Returns the bytes that the
 * node gives back.
 */
static size_t end(const lsi_gather *g, item *it, lsi_weight_kind kind)
{
    uint32_t word = atomic_load(it->word), next;
    assert(it->held && !it->asked);
    close_pages(g, it, it->n, kind);
    do {
        next = word - 1;
        if ((next & USERS) == 0 && (word & STATE) == HERE)
            next = LEAVING;
    } while (!atomic_compare_exchange_weak(it->word, &word, next));
    if (next == LEAVING) {
        give_pages_back(g, it, kind);
        atomic_store(it->word, ABSENT);
    }
    it->held = false;
    lsi_memory_discharge(charge_of(g, it), LS_MEMORY_GATHERED);
    return next == LEAVING ? it->bytes : 0;
}

/* ---- layers -------------------------------------------------------------- */

static void find_layers(lsi_gather *g)
{
    const size_t n = ls_params_count(g->params);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || !lsi_is_same_layer(ls_params_name(g->params, i - 1),
                                         ls_params_name(g->params, i)))
            g->layers[g->n_layers++].params.begin = i;
        g->layers[g->n_layers - 1].params.end = i + 1;
        g->layer_of[i] = g->n_layers - 1;
    }
}

/* Lets go what the running operation does not use. */
static void leave_layer(const lsi_gather *g, const layer *of)
{
    const uint64_t now = lsi_tensor_uses();
    lsi_span span = {.begin = lsi_span_begin()};
    for (size_t i = of->params.begin * LSI_WEIGHTS_KINDS;
         i < of->params.end * LSI_WEIGHTS_KINDS; i++) {
        item *const it = &g->items[i];
        if (it->held && it->used != now && !it->asked &&
            g->params->params.items[i / LSI_WEIGHTS_KINDS]->fetched == 0)
            span.bytes += end(g, it, (lsi_weight_kind)(i % LSI_WEIGHTS_KINDS));
    }
    if (span.bytes > 0)
        put_span(g, LSI_SPAN_RELEASE, of, span);
}

/* Lets go what is outside the window. */
static void leave(const lsi_gather *g, lsi_range window)
{
    for (size_t at = 0; at < g->n_layers; at++) {
        if (!g->layers[at].kept && (at < window.begin || at >= window.end))
            leave_layer(g, &g->layers[at]);
    }
}

/*
 * Asks for a layer in the kinds in which it was needed before. The first
 * backward pass is taken to need what forward did.
 */
static ls_status begin_layer(lsi_gather *g, size_t at, bool forward)
{
    const unsigned char pass = forward || !g->walked ? FORWARD : BACKWARD;
    const lsi_range params = g->layers[at].params;
    for (size_t p = params.begin; p < params.end; p++) {
        for (int k = 0; k < LSI_WEIGHTS_KINDS; k++) {
            item *const it = item_of(g, p, (lsi_weight_kind)k);
            if ((g->uses[p * LSI_WEIGHTS_KINDS + (size_t)k] & pass) == 0 ||
                it->held)
                continue;
            LS_TRY(begin(g, it, (lsi_weight_kind)k));
            it->used = 0;
        }
    }
    return LS_OK;
}

/* The layers around the current one, in the direction of the pass. */
static lsi_range window_of(const lsi_gather *g, bool forward)
{
    const size_t at = (size_t)g->current, n = g->n_layers;
    const size_t wide = g->ahead + 1 < n ? g->ahead + 1 : n;
    size_t begin = forward ? at : at + 1 > wide ? at + 1 - wide : 0;
    if (begin + wide > n)
        begin = n - wide;
    return (lsi_range){begin, begin + wide};
}

static ls_status move_window(lsi_gather *g, bool forward)
{
    const lsi_range window = window_of(g, forward);
    const size_t at = (size_t)g->current;
    g->window = window;
    leave(g, window);
    LS_TRY(begin_layer(g, at, forward));
    for (size_t i = 1; i <= g->ahead; i++) {
        const size_t next = forward ? at + i : at - i;
        if (next >= window.begin && next < window.end)
            LS_TRY(begin_layer(g, next, forward));
    }
    return LS_OK;
}

static ls_status enter(lsi_gather *g, int at)
{
    layer *const to = &g->layers[at];
    const int before = g->current;
    if (g->tapes != lsi_tape_passes()) {
        g->tapes = lsi_tape_passes();
        g->pass++;
    }
    const bool again = to->seen == g->pass;
    to->seen = g->pass;
    if (at == before || to->kept)
        return LS_OK;
    if (again && before != NO_LAYER && (at > before + 1 || at < before - 1)) {
        to->kept = true;
        return LS_OK;
    }
    g->current = at;
    g->first = before == NO_LAYER;
    return move_window(g, before == NO_LAYER || at > before || !again);
}

/* ---- for the parameter set ----------------------------------------------- */

static ls_status need_in(lsi_gather *g, size_t param, lsi_weight_kind kind,
                         unsigned char pass)
{
    item *const it = item_of(g, param, kind);
    LS_TRY(lsi_weight_fetch_poll(g->fetch));
    LS_TRY(plan(g, param, kind));
    const uint64_t began = lsi_span_begin();
    const bool held = it->held;
    it->used = lsi_tensor_uses();
    if (pass != 0) {
        g->uses[param * LSI_WEIGHTS_KINDS + kind] |= pass;
        LS_TRY(enter(g, (int)g->layer_of[param]));
    } else {
        leave(g, g->window);
    }
    LS_TRY(begin(g, it, kind));
    const bool first = pass != 0 && (g->first || g->current == NO_LAYER);
    return await(g, it, began,
                 first                ? LSI_NEED_FIRST
                 : !held && it->asked ? LSI_NEED_NEW
                                      : LSI_NEED_ON);
}

ls_status lsi_gather_need(lsi_gather *g, size_t param, lsi_weights_need need)
{
    return need_in(g, param, need.half ? LSI_WEIGHTS_HALF : LSI_WEIGHTS_F32,
                   need.in_pass ? FORWARD : 0);
}

ls_status lsi_gather_need_again(lsi_gather *g, size_t param)
{
    g->walks = true;
    for (int k = 0; k < LSI_WEIGHTS_KINDS; k++) {
        if ((g->uses[param * LSI_WEIGHTS_KINDS + (size_t)k] & FORWARD) != 0)
            LS_TRY(need_in(g, param, (lsi_weight_kind)k, BACKWARD));
    }
    return LS_OK;
}

static ls_status check_released(const lsi_gather *g)
{
    for (size_t i = 0; i < ls_params_count(g->params); i++) {
        if (g->params->params.items[i]->fetched > 0)
            return lsi_fail(LS_ERR_STATE,
                            "'%s' is still in use: call ls_params_release "
                            "before the step",
                            ls_params_name(g->params, i));
    }
    return LS_OK;
}

/* Lets a layer go, also what is still coming. */
static ls_status end_layer(const lsi_gather *g, const layer *of)
{
    const size_t first = of->params.begin * LSI_WEIGHTS_KINDS;
    const size_t last = of->params.end * LSI_WEIGHTS_KINDS;
    for (size_t i = first; i < last; i++)
        if (g->items[i].held)
            LS_TRY(await(g, &g->items[i], lsi_span_begin(), LSI_NEED_ON));
    lsi_span span = {.begin = lsi_span_begin()};
    for (size_t i = first; i < last; i++)
        if (g->items[i].held)
            span.bytes +=
                end(g, &g->items[i], (lsi_weight_kind)(i % LSI_WEIGHTS_KINDS));
    if (span.bytes > 0)
        put_span(g, LSI_SPAN_RELEASE, of, span);
    return LS_OK;
}

ls_status lsi_gather_let_go(lsi_gather *g)
{
    LS_TRY(check_released(g));
    for (size_t at = 0; at < g->n_layers; at++)
        LS_TRY(end_layer(g, &g->layers[at]));
    g->current = NO_LAYER;
    g->window = (lsi_range){0, 0};
    g->walked = g->walks;
    return LS_OK;
}

/* ---- life ---------------------------------------------------------------- */

static ls_status alloc(lsi_gather *g)
{
    const char *const what = "gathering weights";
    const size_t n = ls_params_count(g->params);
    const size_t items = n * LSI_WEIGHTS_KINDS;
    LS_TRY(lsi_alloc_zeroed(&g->items, items * sizeof(item), LS_MEMORY_COMM,
                            what));
    LS_TRY(lsi_alloc_zeroed(&g->uses, items, LS_MEMORY_COMM, what));
    LS_TRY(
        lsi_alloc_zeroed(&g->layers, n * sizeof(layer), LS_MEMORY_COMM, what));
    LS_TRY(lsi_alloc_zeroed(&g->layer_of, n * sizeof(size_t), LS_MEMORY_COMM,
                            what));
    find_layers(g);
    return LS_OK;
}

/* Words of the node's first rank; fresh shared memory is zero: all ABSENT. */
static ls_status share_words(lsi_gather *g)
{
    const size_t items = ls_params_count(g->params) * LSI_WEIGHTS_KINDS;
    LS_TRY(ls_shared_alloc(g->group, items * sizeof(uint32_t), &g->words));
    _Atomic uint32_t *const words = lsi_shared_first_here(g->group, g->words);
    for (size_t i = 0; i < items; i++)
        g->items[i].word = &words[i];
    return LS_OK;
}

ls_status lsi_gather_new(lsi_gather **out, ls_group *group, ls_params *params,
                         size_t shard, size_t ahead)
{
    lsi_gather *g = NULL;
    ls_status status = lsi_alloc_zeroed(&g, sizeof(lsi_gather), LS_MEMORY_COMM,
                                        "gathering weights");
    if (status == LS_OK) {
        g->group = group;
        g->params = params;
        g->ahead = ahead;
        g->current = NO_LAYER;
        g->pass = 1;
        status = alloc(g);
    }
    status = lsi_agree_to_plan(group, status);
    if (status == LS_OK)
        status = share_words(g);
    if (status == LS_OK)
        status = lsi_weight_fetch_new(&g->fetch, group, params, shard,
                                      note_arrivals, g);
    if (status != LS_OK) {
        lsi_gather_free(&g);
        return status;
    }
    *out = g;
    return LS_OK;
}

void lsi_gather_free(lsi_gather **out)
{
    lsi_gather *const g = *out;
    if (g == NULL)
        return;
    *out = NULL;
    const size_t items = ls_params_count(g->params) * LSI_WEIGHTS_KINDS;
    for (size_t i = 0; i < ls_params_count(g->params); i++)
        g->params->params.items[i]->fetched = 0;
    if (g->fetch != NULL)
        ls_ignore(lsi_gather_let_go(g));
    lsi_weight_fetch_free(&g->fetch);
    if (g->words != NULL)
        ls_ignore(ls_shared_free(g->group, &g->words));
    for (size_t i = 0; g->items != NULL && i < items; i++)
        lsi_free(g->items[i].parts);
    lsi_free(g->items);
    lsi_free(g->uses);
    lsi_free(g->layers);
    lsi_free(g->layer_of);
    lsi_free(g);
}
