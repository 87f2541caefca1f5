#include "model/parallel/replicas.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "array/compute/digest.h"
#include "base/append.h"
#include "base/memory.h"
#include "comm/core/agree.h"
#include "model/optim/param_group.h"
#include "model/parallel/ddp_state.h"
#include "observe/spans.h"

static const char what[] = "the comparison of copies"; /* for the allocator */

enum {
    WORD = sizeof(uint64_t),
    ALIGN = 64, /* bytes: where the ranks of a node divide an array */
    PARTS = 64, /* of an array whose first difference is looked for */
    MOST_NAMED = 2,
    RANKS_BYTES = 80,
    TEXT_BYTES = 500
};

/* ---- what there is ------------------------------------------------------- */

/* An array of which there are several copies. */
typedef struct replica {
    size_t number; /* among those that are compared */
    const char *kind, *name;
    const unsigned char *data;
    size_t bytes, item; /* of the array, and of an element */
    lsi_range own;      /* bytes that this rank digests */
    uint64_t first;     /* 64-bit word with which it begins in the digest */
} replica;

typedef struct walk walk;
struct walk {
    ls_ddp *ddp;
    const ls_optimizer *optimizer;         /* or NULL */
    enum { GRADIENTS, STATE, BUFFERS } of; /* STATE: weights, too */
    bool of_node; /* each node has a copy, of which its ranks digest parts */
    void (*visit)(void *context, const replica *r);
    void *context;
    size_t count; /* arrays so far */
    uint64_t words;
    uint64_t bytes; /* that this rank digests */
};

static void add(walk *w, replica r)
{
    const ls_group *const group = w->ddp->group;
    const size_t parts = w->of_node ? (size_t)ls_group_local_size(group) : 1;
    const size_t part = w->of_node ? (size_t)ls_group_local_rank(group) : 0;
    r.number = w->count++;
    r.first = w->words;
    r.own = lsi_partition_aligned(r.bytes, parts, part, ALIGN);
    w->words += (r.bytes + WORD - 1) / WORD;
    w->bytes += lsi_range_size(r.own);
    w->visit(w->context, &r);
}

static void add_gradient(walk *w, const char *name, lsi_grad_range span)
{
    add(w, (replica){.kind = "gradient",
                     .name = name,
                     .data = (const unsigned char *)span.data,
                     .bytes = span.count * sizeof(float),
                     .item = sizeof(float)});
}

static void walk_gradients(walk *w)
{
    const ls_ddp *const ddp = w->ddp;
    char name[128];
    if (ddp->shard > 0)
        return; /* a rank has only its part */
    for (size_t i = 0; i < ddp->n; i++) {
        lsi_ddp_describe(ddp, i, name, sizeof(name));
        add_gradient(w, name, ddp->spans[i]);
    }
    add_gradient(w, "(sums of weights and losses)", ddp->extra);
}

static void walk_weights(walk *w)
{
    const ls_params *const params = w->ddp->params;
    for (size_t i = 0; i < ls_params_count(params); i++) {
        const lsi_param *const param = params->params.items[i];
        const size_t item = ls_dtype_size(param->tensor->dtype);
        if (lsi_param_is_divided(param) || (w->of_node && !param->trainable))
            continue;
        add(w, (replica){.kind = "weight",
                         .name = param->name,
                         .data = lsi_tensor_raw(param->tensor),
                         .bytes = (size_t)param->tensor->count * item,
                         .item = item});
    }
}

static ls_status add_state(void *context, const lsi_state_piece *piece)
{
    walk *const w = context;
    char kind[64];
    snprintf(kind, sizeof(kind), "optimizer state %s of", piece->state);
    add(w, (replica){.kind = kind,
                     .name = ls_params_name(w->ddp->params, piece->param),
                     .data = (const unsigned char *)piece->data,
                     .bytes = piece->n * sizeof(float),
                     .item = sizeof(float)});
    return LS_OK;
}

static void walk_state(walk *w)
{
    if (w->optimizer != NULL && w->ddp->strategy->share == LSI_SHARE_NOTHING)
        ls_ignore(lsi_optimizer_pieces(
            w->optimizer, w->ddp->params->storage.whole, add_state, w));
}

static void walk_buffer(walk *w, const char *kind, const lsi_param *buffer,
                        const void *data, size_t item)
{
    add(w, (replica){.kind = kind,
                     .name = buffer->name,
                     .data = data,
                     .bytes = (size_t)buffer->tensor->count * item,
                     .item = item});
}

/* Buffers that a layer computes of the rows of all ranks, and their EMA. */
static void walk_buffers(walk *w)
{
    const ls_params *const params = w->ddp->params;
    for (size_t i = 0; i < ls_params_buffer_count(params); i++) {
        const lsi_param *const buffer = params->buffers.items[i];
        const float *const average =
            w->optimizer != NULL ? lsi_ema_buffer(w->optimizer, i) : NULL;
        if (buffer->equal_on != w->ddp->group)
            continue;
        walk_buffer(w, "buffer", buffer, lsi_tensor_raw(buffer->tensor),
                    ls_dtype_size(buffer->tensor->dtype));
        if (average != NULL)
            walk_buffer(w, "EMA of buffer", buffer, average, sizeof(float));
    }
}

static bool has_equal_buffers(const ls_ddp *ddp)
{
    const ls_params *const params = ddp->params;
    for (size_t i = 0; i < ls_params_buffer_count(params); i++)
        if (params->buffers.items[i]->equal_on == ddp->group)
            return true;
    return false;
}

static void walk_all(walk *w, void (*visit)(void *, const replica *),
                     void *context)
{
    w->visit = visit;
    w->context = context;
    w->count = 0;
    w->words = w->bytes = 0;
    if (w->of == GRADIENTS)
        walk_gradients(w);
    if (w->of == STATE) {
        walk_weights(w);
        walk_state(w);
    }
    if (w->of == BUFFERS)
        walk_buffers(w);
    w->context = NULL;
}

static uint64_t digest_of(const replica *r, lsi_range range)
{
    const lsi_range own = lsi_range_common(r->own, range);
    return own.begin < own.end
               ? lsi_array_digest(r->data + own.begin, lsi_range_size(own),
                                  r->first + own.begin / WORD)
               : 0;
}

/* ---- copies -------------------------------------------------------------- */

/* Numbers of all ranks; those of a node's ranks are parts of one sum. */
typedef struct gathered {
    const ls_group *group;
    bool of_node;
    const uint64_t *of; /* rank 0's; the others follow, `stride` apart */
    size_t stride;
} gathered;

static gathered gathered_of(const walk *w, const uint64_t *of, size_t stride)
{
    return (gathered){w->ddp->group, w->of_node, of, stride};
}

static size_t copies(const gathered *g)
{
    return (size_t)(g->of_node ? lsi_node_count(g->group)
                               : ls_group_size(g->group));
}

static size_t copy_of(const gathered *g, int rank)
{
    return (size_t)(g->of_node ? lsi_node_of(g->group, rank) : rank);
}

static uint64_t value_of(const gathered *g, size_t copy)
{
    uint64_t sum = 0;
    if (!g->of_node)
        return g->of[copy * g->stride];
    for (int r = 0; r < ls_group_size(g->group); r++)
        sum += copy_of(g, r) == copy ? g->of[(size_t)r * g->stride] : 0;
    return sum;
}

static bool differs(const gathered *g)
{
    const uint64_t first = value_of(g, 0);
    for (size_t c = 1; c < copies(g); c++)
        if (value_of(g, c) != first)
            return true;
    return false;
}

/* *copy: one whose value more than half of the copies have; 0 if none has. */
static bool has_majority(const gathered *g, size_t *copy)
{
    const size_t n = copies(g);
    for (*copy = 0; *copy < n; (*copy)++) {
        size_t same = 0;
        for (size_t c = 0; c < n; c++)
            same += value_of(g, c) == value_of(g, *copy);
        if (2 * same > n)
            return true;
    }
    *copy = 0;
    return false;
}

typedef struct ranks_text {
    char text[RANKS_BYTES];
} ranks_text;

/* "rank 2" or "ranks 0, 1": those outside the majority, or all without one. */
static ranks_text name_ranks(const gathered *g)
{
    ranks_text out = {""};
    size_t usual;
    const bool majority = has_majority(g, &usual);
    int named = 0;
    for (int r = 0; r < ls_group_size(g->group); r++)
        named += !majority || value_of(g, copy_of(g, r)) != value_of(g, usual);
    lsi_append(out.text, sizeof(out.text), "rank%s", named == 1 ? "" : "s");
    const char *before = " ";
    for (int r = 0; r < ls_group_size(g->group); r++) {
        if (majority && value_of(g, copy_of(g, r)) == value_of(g, usual))
            continue;
        if (strlen(out.text) + 16 > sizeof(out.text)) {
            lsi_append(out.text, sizeof(out.text), ", ...");
            break;
        }
        lsi_append(out.text, sizeof(out.text), "%s%d", before, r);
        before = ", ";
    }
    return out;
}

/* ---- naming what differs ------------------------------------------------- */

typedef struct search {
    walk *w;
    size_t n;            /* arrays */
    uint64_t *own, *all; /* [n], [ranks * n] digests of them */
    uint64_t *parts;     /* [(1 + ranks) * PARTS] digests of parts of one */
    size_t differing;    /* arrays that differ */
    bool majority;       /* of each of them, most copies are equal */
    ls_status status;
    char text[TEXT_BYTES];
} search;

static void note_digest(void *context, const replica *r)
{
    const search *const s = context;
    s->own[r->number] = digest_of(r, (lsi_range){0, r->bytes});
}

static ls_status gather(const search *s, uint64_t *own, uint64_t *all, size_t n)
{
    return ls_all_gather(s->w->ddp->channel, own, all, n * WORD, LS_U8);
}

static lsi_range part_of(lsi_range range, size_t part)
{
    const lsi_range p =
        lsi_partition_aligned(lsi_range_size(range), PARTS, part, WORD);
    return (lsi_range){range.begin + p.begin, range.begin + p.end};
}

/* *range becomes its first part that differs; empty if none does. */
static ls_status narrow(const search *s, const replica *r, lsi_range *range)
{
    uint64_t *const all = s->parts + PARTS;
    for (size_t p = 0; p < PARTS; p++)
        s->parts[p] = digest_of(r, part_of(*range, p));
    LS_TRY(gather(s, s->parts, all, PARTS));
    for (size_t p = 0; p < PARTS; p++) {
        const gathered g = gathered_of(s->w, all + p, PARTS);
        if (differs(&g)) {
            *range = part_of(*range, p);
            return LS_OK;
        }
    }
    range->end = range->begin;
    return LS_OK;
}

/* The first element of a word that differs, and its bits. */
static void name_element(search *s, const gathered *g, const replica *r,
                         size_t begin)
{
    size_t usual, odd = 0, at = 0;
    (void)has_majority(g, &usual);
    while (value_of(g, odd) == value_of(g, usual))
        odd++;
    const uint64_t a = value_of(g, odd), b = value_of(g, usual);
    const uint64_t mask = UINT64_MAX >> (64 - 8 * r->item);
    while (((a ^ b) >> 8 * at & mask) == 0)
        at += r->item;
    lsi_append(s->text, TEXT_BYTES,
               " (element %zu: 0x%0*" PRIx64 " instead of 0x%0*" PRIx64 ")",
               (begin + at) / r->item, (int)(2 * r->item), a >> 8 * at & mask,
               (int)(2 * r->item), b >> 8 * at & mask);
}

/* Collective. */
static ls_status find_element(search *s, const replica *r)
{
    uint64_t *const all = s->parts + PARTS;
    uint64_t word = 0;
    lsi_range range = {0, r->bytes};
    while (lsi_range_size(range) > WORD)
        LS_TRY(narrow(s, r, &range));
    const lsi_range own = lsi_range_common(r->own, range);
    memcpy(&word, r->data + own.begin, lsi_range_size(own));
    LS_TRY(gather(s, &word, all, 1));
    const gathered g = gathered_of(s->w, all, 1);
    if (differs(&g)) /* or it was read wrongly before */
        name_element(s, &g, r, range.begin);
    return LS_OK;
}

/* Collective, as all ranks find the same differences. */
static void name_array(void *context, const replica *r)
{
    search *const s = context;
    const gathered g = gathered_of(s->w, s->all + r->number, s->n);
    size_t usual;
    if (s->status != LS_OK || !differs(&g))
        return;
    s->differing++;
    s->majority &= has_majority(&g, &usual);
    if (s->differing > MOST_NAMED)
        return;
    lsi_append(s->text, TEXT_BYTES, "%s%s '%.80s'",
               s->differing > 1 ? "; " : "", r->kind, r->name);
    if (s->differing == 1)
        s->status = find_element(s, r);
    lsi_append(s->text, TEXT_BYTES, " on %s", name_ranks(&g).text);
}

static ls_status search_arrays(search *s)
{
    walk_all(s->w, note_digest, s);
    LS_TRY(gather(s, s->own, s->all, s->n));
    s->majority = true;
    walk_all(s->w, name_array, s);
    LS_TRY(s->status);
    if (s->differing == 0)
        lsi_append(s->text, TEXT_BYTES,
                   "digests that were equal when they were computed again");
    if (s->differing > MOST_NAMED)
        lsi_append(s->text, TEXT_BYTES, "; and %zu more",
                   s->differing - MOST_NAMED);
    return LS_OK;
}

/* Finds which arrays differ, and on which ranks. Collective. */
static ls_status find_differences(search *s)
{
    const size_t ranks = (size_t)ls_group_size(s->w->ddp->group);
    ls_status status = lsi_alloc_zeroed(
        &s->own, (1 + ranks) * (s->n + PARTS) * WORD, LS_MEMORY_COMM, what);
    status = lsi_agree_to_plan(s->w->ddp->channel, status);
    if (status == LS_OK) {
        s->all = s->own + s->n;
        s->parts = s->all + ranks * s->n;
        status = search_arrays(s);
    }
    lsi_free(s->own);
    return status;
}

/* ---- comparing ----------------------------------------------------------- */

static void add_digest(void *context, const replica *r)
{
    uint64_t *const sum = context;
    *sum += digest_of(r, (lsi_range){0, r->bytes});
}

static ls_status fail_different(walk *w, int64_t step)
{
    const int64_t equal = w->ddp->comparison.equal_in;
    search s = {.w = w, .n = w->count};
    char segment[160] = "";
    LS_TRY(find_differences(&s));
    if (equal >= 0)
        snprintf(segment, sizeof(segment),
                 ". Weights were equal in step %" PRId64
                 ": train steps %" PRId64 " to %" PRId64 " again to verify",
                 equal, equal, step);
    return lsi_fail(
        LS_ERR_CORRUPT,
        "silent data corruption in step %" PRId64 ": %s differ%s %s. Likely "
        "causes are a fault of memory or CPU, or a program that changes data "
        "on some ranks only%s",
        step, s.text, s.differing == 1 ? "s" : "",
        s.majority ? "from the copies of all other ranks"
                   : "among copies of which none has a majority",
        segment);
}

/* Collective. */
static ls_status compare(walk *w, int64_t step)
{
    lsi_comparison *const c = &w->ddp->comparison;
    uint64_t own = 0;
    const gathered g = gathered_of(w, c->all, 1);
    if (copies(&g) > 1)
        walk_all(w, add_digest, &own);
    LS_TRY(ls_all_gather(w->ddp->channel, &own, c->all, WORD, LS_U8));
    if (differs(&g))
        return fail_different(w, step);
    c->compared += w->bytes;
    return LS_OK;
}

/* Other ranks get the error where they wait for this one. */
static ls_status refuse(const ls_ddp *ddp, ls_status status)
{
    const lsi_call call = {
        .operation = LSI_OP_ALL_GATHER, .dtype = LS_U8, .count = WORD};
    return lsi_refuse(ddp->channel, &call, status);
}

static ls_status check_reduced(const ls_ddp *ddp)
{
    static const char function[] = "ls_ddp_compare_gradients: ";
    if (ddp->begun || ddp->spoiled)
        return lsi_fail(LS_ERR_STATE, "%sgradients of rank %d are %s", function,
                        ls_group_rank(ddp->group),
                        ddp->begun ? "in flight: call ls_ddp_finish first"
                                   : "incomplete, as the last backward failed: "
                                     "call ls_params_zero_grad and repeat the "
                                     "step");
    return lsi_ddp_check_synced(ddp, function, "call ls_ddp_backward first");
}

ls_status ls_ddp_compare_gradients(ls_ddp *ddp, int64_t step)
{
    LS_NEED(ddp);
    LSI_SPAN(PHASE, "replica check", 0, 0);
    walk w = {.ddp = ddp, .of = GRADIENTS};
    const ls_status status = check_reduced(ddp);
    if (status != LS_OK)
        return refuse(ddp, status);
    return compare(&w, step);
}

static ls_status check_state(const ls_ddp *ddp, const ls_optimizer *optimizer)
{
    if (ddp->params == NULL)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "ls_ddp_compare_state: this ls_ddp has no parameter "
                        "set; create it with ls_ddp_new");
    if (optimizer != NULL && optimizer->params != ddp->params)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "ls_ddp_compare_state: the optimizer of rank %d is "
                        "one of another ls_params",
                        ls_group_rank(ddp->group));
    return LS_OK;
}

ls_status ls_ddp_compare_state(ls_ddp *ddp, const ls_optimizer *optimizer,
                               int64_t step)
{
    LS_NEED(ddp);
    LSI_SPAN(PHASE, "replica check", 0, 0);
    const ls_status status = check_state(ddp, optimizer);
    if (status != LS_OK)
        return refuse(ddp, status);
    walk w = {.ddp = ddp,
              .optimizer = optimizer,
              .of = STATE,
              .of_node = ddp->params->sharing.one_copy};
    walk buffers = {.ddp = ddp, .optimizer = optimizer, .of = BUFFERS};
    LS_TRY(compare(&w, step));
    if (has_equal_buffers(ddp)) /* each rank's, under all strategies */
        LS_TRY(compare(&buffers, step));
    ddp->comparison.equal_in = step;
    return LS_OK;
}

const char *lsi_ddp_copies(const ls_ddp *ddp, bool *any, bool *all)
{
    static const char *const names[][2] = {
        {"nothing", "running statistics"},
        {"the weights of nodes",
         "the weights of nodes, and running statistics"},
        {"weights", "weights and running statistics"},
        {"gradients and weights", "gradients, weights and running statistics"},
        {"gradients, weights and optimizer state",
         "gradients, weights, optimizer state and running statistics"}};
    const bool one = ddp->params->sharing.one_copy;
    const size_t ranks = (size_t)ls_group_size(ddp->group);
    const size_t n = one ? (size_t)lsi_node_count(ddp->group) : ranks;
    const bool weights = n > 1 && !ddp->params->sharing.divided;
    const bool buffers = ranks > 1 && has_equal_buffers(ddp);
    size_t row = weights ? (one ? 1 : 2) : 0;
    if (weights && ddp->strategy->share == LSI_SHARE_TENSORS)
        row = 3;
    if (weights && ddp->strategy->share == LSI_SHARE_NOTHING)
        row = 4;
    *any = weights || buffers;
    *all = row == 4;
    return names[row][buffers];
}

uint64_t lsi_ddp_compared(const ls_ddp *ddp)
{
    return ddp->comparison.compared;
}

ls_status lsi_comparison_init(lsi_comparison *comparison, ls_group *group)
{
    comparison->equal_in = -1;
    return lsi_alloc(&comparison->all, (size_t)ls_group_size(group) * WORD,
                     LS_MEMORY_COMM, what);
}

void lsi_comparison_release(lsi_comparison *comparison)
{
    lsi_free(comparison->all);
}
