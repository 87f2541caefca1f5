/* The digest of a model's state; see state_digest.h. */
#include "model/audit/state_digest.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/compute/threads.h"
#include "base/error.h"
#include "base/memory.h"
#include "comm/api/outcome.h"
#include "model/audit/leaves.h"
#include "model/autograd/params.h"
#include "model/autograd/params/adopt.h"
#include "model/checkpoint/part.h"
#include "model/optim/param_group.h"

enum {
    LEAF_BYTES = LSI_LEAF * sizeof(float),
    WORDS_OF_DIGEST = LSI_SHA256_BYTES / sizeof(int64_t),
    LEAVES_OF_TASK = 8 * LSI_LANES
};

/* Elements of a tensor that this rank holds, contiguous. */
typedef struct piece {
    size_t tensor, begin, n;
    const char *data;
} piece;

/* A leaf, or the part of one, that this rank holds. */
typedef struct leaf {
    const void *data;
    size_t bytes;
    size_t at; /* of a leaf: its number; of a part: bytes into `cut` */
} leaf;

struct lsi_state_digest {
    ls_group *group;
    const ls_params *params;
    const ls_optimizer *optimizer;
    lsi_state_tensor *tensors;
    size_t n_tensors, tensors_capacity;
    size_t n_leaves;
    piece *pieces;
    size_t n_pieces, pieces_capacity;
    leaf *whole, *parts;
    size_t n_whole, n_parts;
    unsigned char (*digests)[LSI_SHA256_BYTES]; /* [n_leaves] */
    /* Leaves of which ranks hold parts: their numbers, and room for them. */
    size_t *cut_leaves, n_cut;
    char *cut;
    unsigned char root[LSI_SHA256_BYTES];
};

/* ---- tensors and pieces -------------------------------------------------- */

static ls_status grow(void *array, size_t used, size_t *capacity, size_t bytes)
{
    if (used < *capacity)
        return LS_OK;
    const size_t more = 2 * *capacity + 64;
    LS_TRY(lsi_alloc_larger(array, used * bytes, more * bytes, LS_MEMORY_OTHER,
                            "the tensors of an audit"));
    *capacity = more;
    return LS_OK;
}

static size_t leaves_of(size_t count)
{
    return (count + LSI_LEAF - 1) / LSI_LEAF;
}

/* Appends a tensor "kind/name", or "name" without a kind. */
static ls_status add_tensor(lsi_state_digest *d, const char *kind,
                            const char *name, const ls_tensor *like)
{
    LS_TRY(grow(&d->tensors, d->n_tensors, &d->tensors_capacity,
                sizeof(lsi_state_tensor)));
    lsi_state_tensor *const t = &d->tensors[d->n_tensors];
    *t = (lsi_state_tensor){.dtype = kind != NULL ? LS_F32 : like->dtype,
                            .count = (size_t)like->count,
                            .first_leaf = d->n_leaves,
                            .leaves = leaves_of((size_t)like->count),
                            .leaves_of_block = 1};
    while (t->leaves > t->leaves_of_block * LSI_STATE_BLOCKS)
        t->leaves_of_block *= 2;
    t->blocks = (t->leaves + t->leaves_of_block - 1) / t->leaves_of_block;
    if (asprintf(&t->name, "%s%s%s", kind != NULL ? kind : "",
                 kind != NULL ? "/" : "", name) < 0) {
        t->name = NULL;
        return lsi_fail(LS_ERR_MEMORY, "not enough memory for an audit");
    }
    d->n_leaves += t->leaves;
    d->n_tensors++;
    return LS_OK;
}

static ls_status add_piece(lsi_state_digest *d, size_t tensor, size_t begin,
                           size_t n, const void *data)
{
    if (n == 0)
        return LS_OK;
    LS_TRY(grow(&d->pieces, d->n_pieces, &d->pieces_capacity, sizeof(piece)));
    d->pieces[d->n_pieces++] = (piece){tensor, begin, n, data};
    return LS_OK;
}

/* The part of this rank of a tensor that every rank has. */
static ls_status add_copied(lsi_state_digest *d, size_t tensor,
                            const ls_tensor *from)
{
    const size_t count = (size_t)from->count;
    LS_TRY(lsi_tensor_check_memory(from, "ls_audit_open"));
    const lsi_range own =
        lsi_partition_aligned(count, (size_t)ls_group_size(d->group),
                              (size_t)ls_group_rank(d->group), LSI_LEAF);
    return add_piece(d, tensor, own.begin, lsi_range_size(own),
                     (const char *)lsi_tensor_raw(from) +
                         own.begin * ls_dtype_size(from->dtype));
}

static ls_status add_frozen(lsi_state_digest *d, size_t tensor,
                            const lsi_param *param)
{
    const ls_params *const p = d->params;
    if (!lsi_param_is_divided(param))
        return add_copied(d, tensor, param->tensor);
    const size_t at = param->offset;
    const lsi_range own = lsi_range_common(
        lsi_params_frozen_part(p, ls_group_rank(p->sharing.home_group)),
        (lsi_range){at, at + (size_t)param->tensor->count});
    return add_piece(d, tensor, own.begin - at, lsi_range_size(own),
                     p->storage.flat + own.begin);
}

/* Weights of a trained parameter in a range of the flat layout. */
static ls_status add_weights(lsi_state_digest *d, size_t tensor,
                             const lsi_param *param, lsi_range range)
{
    const size_t at = param->offset;
    const lsi_range own = lsi_range_common(
        range, (lsi_range){at, at + (size_t)param->tensor->count});
    for (size_t from = own.begin, n; from < own.end; from += n) {
        n = own.end - from;
        const float *const data = lsi_params_weights(d->params, from, &n);
        LS_TRY(add_piece(d, tensor, from - at, n, data));
    }
    return LS_OK;
}

/* The group that steps a parameter, or NULL. */
static const lsi_param_group *group_of(const lsi_state_digest *d, size_t param)
{
    for (size_t g = 0; d->optimizer != NULL && g < d->optimizer->n_groups; g++)
        if (d->optimizer->groups[g]->members[param])
            return d->optimizer->groups[g];
    return NULL;
}

static ls_status add_param(lsi_state_digest *d, size_t index, lsi_range part)
{
    const lsi_param *const param = d->params->params.items[index];
    const lsi_param_group *const group = group_of(d, index);
    const size_t tensor = d->n_tensors;
    size_t n;
    LS_TRY(add_tensor(d, NULL, param->name, param->tensor));
    for (int s = 0; group != NULL && s < group->n_states; s++)
        LS_TRY(
            add_tensor(d, group->state_names[s], param->name, param->tensor));
    if (!param->trainable)
        return add_frozen(d, tensor, param);
    const lsi_range *const owned = lsi_params_owned(d->params, &n);
    for (size_t i = 0; i < n; i++)
        LS_TRY(add_weights(d, tensor, param, lsi_range_common(owned[i], part)));
    return LS_OK;
}

/* The tensor "state/parameter" of the piece follows its parameter's. */
static ls_status add_state(void *context, const lsi_state_piece *given)
{
    lsi_state_digest *const d = context;
    const char *const name = ls_params_name(d->params, given->param);
    const size_t kind = strlen(given->state);
    for (size_t i = 0; i < d->n_tensors; i++) {
        const char *const own = d->tensors[i].name;
        if (strncmp(own, given->state, kind) == 0 && own[kind] == '/' &&
            strcmp(own + kind + 1, name) == 0)
            return add_piece(d, i, given->begin, given->n, given->data);
    }
    return lsi_fail(LS_ERR_STATE, "the state '%s' of '%s' has no tensor",
                    given->state, name);
}

static ls_status add_buffer(lsi_state_digest *d, size_t index)
{
    const ls_tensor *const tensor = d->params->buffers.items[index]->tensor;
    const char *const name = ls_params_buffer_name(d->params, index);
    const float *const average =
        d->optimizer != NULL ? lsi_ema_buffer(d->optimizer, index) : NULL;
    const bool first = ls_group_rank(d->group) == 0;
    const size_t n = first ? (size_t)tensor->count : 0;
    LS_TRY(add_tensor(d, NULL, name, tensor));
    LS_TRY(lsi_tensor_check_memory(tensor, "ls_audit_open"));
    LS_TRY(add_piece(d, d->n_tensors - 1, 0, n, lsi_tensor_raw(tensor)));
    if (average == NULL)
        return LS_OK;
    LS_TRY(add_tensor(d, LSI_EMA_STATE "_buffer", name, tensor));
    return add_piece(d, d->n_tensors - 1, 0, n, average);
}

/* Finds all tensors, and the pieces of this rank. */
static ls_status find(lsi_state_digest *d, lsi_range part)
{
    LS_TRY(lsi_params_fill((ls_params *)(uintptr_t)d->params));
    for (size_t i = 0; i < ls_params_count(d->params); i++)
        LS_TRY(add_param(d, i, part));
    if (d->optimizer != NULL)
        LS_TRY(lsi_optimizer_pieces(d->optimizer, part, add_state, d));
    for (size_t i = 0; i < ls_params_buffer_count(d->params); i++)
        LS_TRY(add_buffer(d, i));
    return LS_OK;
}

/* ---- leaves -------------------------------------------------------------- */

/* One leaf of a piece. */
typedef struct place {
    size_t number, elements; /* of the leaf */
    size_t begin, end;       /* elements of the tensor in the piece */
} place;

static place place_of(const lsi_state_digest *d, const piece *p, size_t at)
{
    const lsi_state_tensor *const t = &d->tensors[p->tensor];
    const size_t index = at / LSI_LEAF, first = index * LSI_LEAF;
    const size_t rest = t->count - first, left = p->begin + p->n;
    const size_t elements = rest < LSI_LEAF ? rest : LSI_LEAF;
    return (place){t->first_leaf + index, elements, at,
                   left < first + elements ? left : first + elements};
}

static bool is_whole(place p)
{
    return p.end - p.begin == p.elements;
}

static const char *data_of(const lsi_state_digest *d, const piece *p, size_t at)
{
    return p->data +
           (at - p->begin) * ls_dtype_size(d->tensors[p->tensor].dtype);
}

/* Counts leaves, and marks those of which this rank has a part. */
static void mark(lsi_state_digest *d, unsigned char *marks)
{
    for (size_t i = 0; i < d->n_pieces; i++) {
        const piece *const p = &d->pieces[i];
        for (size_t at = p->begin; at < p->begin + p->n;) {
            const place here = place_of(d, p, at);
            d->n_whole += is_whole(here);
            d->n_parts += !is_whole(here);
            if (!is_whole(here))
                marks[here.number] = 1;
            at = here.end;
        }
    }
}

static size_t slot_of(const lsi_state_digest *d, size_t number)
{
    size_t low = 0, high = d->n_cut;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (d->cut_leaves[middle] <= number)
            low = middle;
        else
            high = middle;
    }
    assert(d->cut_leaves[low] == number);
    return low;
}

static void place_leaves(lsi_state_digest *d)
{
    size_t whole = 0, parts = 0;
    for (size_t i = 0; i < d->n_pieces; i++) {
        const piece *const p = &d->pieces[i];
        const size_t size = ls_dtype_size(d->tensors[p->tensor].dtype);
        for (size_t at = p->begin; at < p->begin + p->n;) {
            const place here = place_of(d, p, at);
            leaf one = {data_of(d, p, at), (here.end - at) * size, here.number};
            if (!is_whole(here)) {
                assert(size == sizeof(float)); /* others are cut at leaves */
                one.at =
                    slot_of(d, here.number) * LEAF_BYTES + at % LSI_LEAF * size;
                d->parts[parts++] = one;
            } else {
                d->whole[whole++] = one;
            }
            at = here.end;
        }
    }
}

static ls_status alloc_leaves(lsi_state_digest *d, const unsigned char *marks)
{
    static const char what[] = "the digests of an audit";
    for (size_t i = 0; i < d->n_leaves; i++)
        d->n_cut += marks[i];
    LS_TRY(lsi_alloc(&d->digests, (d->n_leaves + 1) * LSI_SHA256_BYTES,
                     LS_MEMORY_OTHER, what));
    LS_TRY(lsi_alloc(&d->whole, (d->n_whole + 1) * sizeof(leaf),
                     LS_MEMORY_OTHER, what));
    LS_TRY(lsi_alloc(&d->parts, (d->n_parts + 1) * sizeof(leaf),
                     LS_MEMORY_OTHER, what));
    LS_TRY(lsi_alloc(&d->cut_leaves, (d->n_cut + 1) * sizeof(size_t),
                     LS_MEMORY_OTHER, what));
    LS_TRY(
        lsi_alloc(&d->cut, (d->n_cut + 1) * LEAF_BYTES, LS_MEMORY_OTHER, what));
    for (size_t i = 0, n = 0; i < d->n_leaves; i++)
        if (marks[i])
            d->cut_leaves[n++] = i;
    place_leaves(d);
    return LS_OK;
}

/* Agrees on the leaves of which ranks have parts. */
static ls_status plan_leaves(lsi_state_digest *d)
{
    unsigned char *marks = NULL;
    bool agreed;
    ls_status status = lsi_alloc_zeroed(
        &marks, d->n_leaves + 1, LS_MEMORY_OTHER, "the leaves of an audit");
    status = lsi_share_outcome(d->group, status, &agreed);
    if (status == LS_OK) {
        mark(d, marks);
        status = ls_all_reduce(d->group, marks, marks, d->n_leaves, LS_U8,
                               LS_REDUCE_MAX);
    }
    if (status == LS_OK)
        status = lsi_share_outcome(d->group, alloc_leaves(d, marks), &agreed);
    lsi_free(marks);
    return status;
}

static ls_status check(const lsi_state_digest *d)
{
    if (!lsi_sha256_is_there())
        return lsi_fail(LS_ERR_UNSUPPORTED,
                        "an audit needs SHA-256, which this build of Lockstep "
                        "lacks. Install nettle (Debian: nettle-dev) and build "
                        "again with -DLOCKSTEP_NETTLE=ON");
    return d->optimizer == NULL
               ? LS_OK
               : lsi_ema_check_place(d->optimizer, "ls_audit_step");
}

static ls_status plan(lsi_state_digest *d)
{
    bool agreed;
    lsi_range part = {0, 0};
    LS_TRY(lsi_share_outcome(d->group, check(d), &agreed));
    LS_TRY(lsi_params_part(d->group, d->params, &part));
    LS_TRY(lsi_share_outcome(d->group, find(d, part), &agreed));
    return plan_leaves(d);
}

ls_status lsi_state_digest_new(lsi_state_digest **out, ls_group *group,
                               const ls_params *params,
                               const ls_optimizer *optimizer)
{
    lsi_state_digest *d = NULL;
    bool agreed;
    ls_status status = lsi_alloc_zeroed(&d, sizeof(lsi_state_digest),
                                        LS_MEMORY_OTHER, "an audit");
    status = lsi_share_outcome(group, status, &agreed);
    if (status == LS_OK) {
        d->group = group;
        d->params = params;
        d->optimizer = optimizer;
        status = plan(d);
    }
    if (status != LS_OK) {
        lsi_state_digest_free(&d);
        return status;
    }
    *out = d;
    return LS_OK;
}

void lsi_state_digest_free(lsi_state_digest **digest)
{
    lsi_state_digest *const d = *digest;
    if (d == NULL)
        return;
    for (size_t i = 0; i < d->n_tensors; i++)
        free(d->tensors[i].name);
    lsi_free(d->tensors);
    lsi_free(d->pieces);
    lsi_free(d->whole);
    lsi_free(d->parts);
    lsi_free(d->digests);
    lsi_free(d->cut_leaves);
    lsi_free(d->cut);
    lsi_free(d);
    *digest = NULL;
}

/* ---- the digest ---------------------------------------------------------- */

/* Whether leaves from `i` on, as many as there are lanes, are digested at once.
 */
static bool fill_lanes(const lsi_state_digest *d, size_t i, size_t end,
                       lsi_lanes *lanes)
{
    if (end - i < LSI_LANES || d->whole[i].bytes % LSI_LANE_BLOCK != 0)
        return false;
    for (size_t l = 0; l < LSI_LANES; l++) {
        const leaf *const from = &d->whole[i + l];
        if (from->bytes != d->whole[i].bytes)
            return false;
        lanes->data[l] = from->data;
        lanes->digest[l] = d->digests[from->at];
    }
    return true;
}

static void digest_leaves(void *context, size_t task, int worker)
{
    lsi_state_digest *const d = context;
    const bool in_lanes = lsi_lanes_are_there();
    const size_t begin = task * LEAVES_OF_TASK;
    const size_t last = begin + LEAVES_OF_TASK;
    const size_t end = last < d->n_whole ? last : d->n_whole;
    lsi_lanes lanes;
    (void)worker;
    for (size_t i = begin; i < end;) {
        const leaf *const one = &d->whole[i];
        if (in_lanes && fill_lanes(d, i, end, &lanes)) {
            lsi_sha256_lanes(&lanes, one->bytes);
            i += LSI_LANES;
            continue;
        }
        lsi_sha256(&(lsi_sha256_piece){one->data, one->bytes}, 1,
                   d->digests[one->at]);
        i++;
    }
}

/* Each byte is that of one rank and zero on the others. */
static ls_status collect(const lsi_state_digest *d, void *data, size_t words)
{
    return ls_group_size(d->group) > 1 && words > 0
               ? ls_reduce(d->group, data, data, words, LS_I64, LS_REDUCE_BOR,
                           0)
               : LS_OK;
}

static size_t elements_of(const lsi_state_digest *d, size_t number)
{
    size_t low = 0, high = d->n_tensors;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (d->tensors[middle].first_leaf <= number)
            low = middle;
        else
            high = middle;
    }
    const lsi_state_tensor *const t = &d->tensors[low];
    const size_t rest = t->count - (number - t->first_leaf) * LSI_LEAF;
    return rest < LSI_LEAF ? rest : LSI_LEAF;
}

static void digest_cut(lsi_state_digest *d)
{
    for (size_t i = 0; i < d->n_cut; i++) {
        const size_t number = d->cut_leaves[i];
        lsi_sha256(&(lsi_sha256_piece){d->cut + i * LEAF_BYTES,
                                       elements_of(d, number) * sizeof(float)},
                   1, d->digests[number]);
    }
}

static void digest_tensor(const lsi_state_digest *d, lsi_state_tensor *t)
{
    for (size_t b = 0; b < t->blocks; b++) {
        const size_t first = b * t->leaves_of_block;
        const size_t rest = t->leaves - first;
        const size_t n = rest < t->leaves_of_block ? rest : t->leaves_of_block;
        lsi_sha256(&(lsi_sha256_piece){d->digests[t->first_leaf + first],
                                       n * LSI_SHA256_BYTES},
                   1, t->block[b]);
    }
    lsi_sha256(&(lsi_sha256_piece){t->block, t->blocks * LSI_SHA256_BYTES}, 1,
               t->digest);
}

static void digest_state(lsi_state_digest *d)
{
    memset(d->root, 0, sizeof(d->root));
    for (size_t i = 0; i < d->n_tensors; i++) {
        lsi_state_tensor *const t = &d->tensors[i];
        const char *const type = ls_dtype_name(t->dtype);
        digest_tensor(d, t);
        const lsi_sha256_piece pieces[] = {{d->root, sizeof(d->root)},
                                           {t->name, strlen(t->name) + 1},
                                           {type, strlen(type) + 1},
                                           {t->digest, sizeof(t->digest)}};
        lsi_sha256(pieces, 4, d->root);
    }
}

ls_status lsi_state_digest_compute(lsi_state_digest *digest)
{
    lsi_state_digest *const d = digest;
    if (d->optimizer != NULL)
        LS_TRY(lsi_ema_check_place(d->optimizer, "ls_audit_step"));
    memset(d->digests, 0, d->n_leaves * LSI_SHA256_BYTES);
    memset(d->cut, 0, d->n_cut * LEAF_BYTES);
    lsi_parallel_tasks((d->n_whole + LEAVES_OF_TASK - 1) / LEAVES_OF_TASK,
                       digest_leaves, d);
    for (size_t i = 0; i < d->n_parts; i++)
        memcpy(d->cut + d->parts[i].at, d->parts[i].data, d->parts[i].bytes);
    LS_TRY(collect(d, d->digests, d->n_leaves * WORDS_OF_DIGEST));
    LS_TRY(collect(d, d->cut, d->n_cut * (LEAF_BYTES / sizeof(int64_t))));
    if (ls_group_rank(d->group) != 0)
        return LS_OK;
    digest_cut(d);
    digest_state(d);
    return LS_OK;
}

const unsigned char *lsi_state_digest_root(const lsi_state_digest *digest)
{
    return digest->root;
}

const lsi_state_tensor *lsi_state_digest_tensors(const lsi_state_digest *digest,
                                                 size_t *n)
{
    *n = digest->n_tensors;
    return digest->tensors;
}
