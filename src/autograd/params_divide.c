/*
 * Parameters that are divided among ranks. Each rank keeps its part of the flat
 * layout, in memory that the others map; there is no whole anywhere. Whoever
 * asks for a parameter's memory borrows it: it is gathered into a window then,
 * from the parts where they lie, and taken back when the operation has ended.
 * Parts change in an optimizer's step only, so nobody need meet for that.
 *
 * The window is address space for all parameters, of which a step touches what
 * its largest operation needs. So lending cannot fail, and a save that borrows
 * more than that gives the rest back.
 */
#include <string.h>
#include <sys/mman.h>

#include "autograd/params.h"
#include "autograd/span.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "comm/shared.h"
#include "tensor/tensor.h"

enum {
    LINE = 64,
    PAGE_BYTES = 4096,
    PAGE_FLOATS = PAGE_BYTES / (int)sizeof(float),
    COPY_GRAIN = 1 << 16 /* floats */
};

#define HUGE_PAGE ((size_t)2 << 20)

struct lsi_loans {
    lsi_lender lender;
    ls_params *set;
    size_t shard; /* floats of a rank's part */
    lsi_range own;
    unsigned char *window;
    size_t window_bytes;
    size_t used;    /* bytes of it that are lent */
    size_t kept;    /* bytes that stay when they come back */
    size_t counted; /* bytes that have been touched and stay */
    lsi_storage **out;
    size_t n_out;
    double seconds;
};

/* ---- gathering ----------------------------------------------------------- */

typedef struct copying {
    float *to;
    const float *from;
} copying;

static void copy_part(void *context, size_t begin, size_t end)
{
    const copying *const c = context;
    memcpy(c->to + begin, c->from + begin, (end - begin) * sizeof(float));
}

static void take(void *to, ls_dtype dtype, const float *from, size_t n)
{
    copying c = {to, from};
    if (dtype == LS_F32)
        lsi_parallel_for(n, COPY_GRAIN, copy_part, &c);
    else
        lsi_span_convert(to, dtype, from, LS_F32, n);
}

/* Elements of the flat layout, from the ranks that have them. */
static void gather(const lsi_loans *loans, lsi_range range, ls_dtype dtype,
                   unsigned char *to)
{
    const ls_params *const set = loans->set;
    const int size = ls_group_size(set->home_group);
    const int self = ls_group_rank(set->home_group);
    size_t pulled = 0;
    for (int r = 0; r < size; r++) {
        const size_t first = (size_t)r * loans->shard;
        const lsi_range part =
            lsi_range_common(range, (lsi_range){first, first + loans->shard});
        const size_t n = lsi_range_size(part);
        if (n == 0)
            continue;
        const float *const home = ls_shared_peer(set->home_group, set->home, r);
        take(to + (part.begin - range.begin) * ls_dtype_size(dtype), dtype,
             home + (part.begin - first), n);
        pulled += r != self ? n : 0;
    }
    lsi_shared_count(set->home_group, pulled * sizeof(float));
}

/* ---- lending ------------------------------------------------------------- */

static lsi_loans *of(lsi_lender *lender)
{
    return (lsi_loans *)(void *)lender;
}

/* The elements of the flat layout that a storage is for. */
static lsi_range elements_of(const lsi_loans *loans, const lsi_storage *storage)
{
    const lsi_param *const param = loans->set->params.items[storage->borrower];
    return (lsi_range){param->offset,
                       param->offset + (size_t)param->tensor->count};
}

static ls_dtype dtype_of(const lsi_loans *loans, const lsi_storage *storage)
{
    const lsi_param *const param = loans->set->params.items[storage->borrower];
    return storage == param->tensor->storage ? LS_F32 : param->half->dtype;
}

/* What is over the budget is used all the same: nobody could be told. */
static void count_use(lsi_loans *loans)
{
    if (loans->used > loans->counted &&
        lsi_memory_charge(loans->used - loans->counted, LS_MEMORY_PARAMETERS,
                          "gathered parameters") == LS_OK)
        loans->counted = loans->used;
}

static void lend(lsi_lender *self, lsi_storage *storage, bool fill)
{
    lsi_loans *const loans = of(self);
    const double begin = lsi_clock_seconds();
    unsigned char *const at = loans->window + loans->used;
    loans->used += (storage->bytes + LINE - 1) / LINE * LSI_LINE;
    loans->out[loans->n_out++] = storage;
    storage->data = at;
    count_use(loans);
    if (fill)
        gather(loans, elements_of(loans, storage), dtype_of(loans, storage),
               at);
    loans->seconds += lsi_clock_seconds() - begin;
}

/* This rank's part of what has been written. */
static void keep_own(const lsi_loans *loans, const lsi_storage *storage)
{
    const lsi_range range = elements_of(loans, storage);
    const lsi_range part = lsi_range_common(range, loans->own);
    const float *const data = storage->data;
    if (lsi_range_size(part) > 0 && dtype_of(loans, storage) == LS_F32)
        memcpy(loans->set->flat + (part.begin - loans->own.begin),
               data + (part.begin - range.begin),
               lsi_range_size(part) * sizeof(float));
}

/* Gives back what an unusual borrower has touched. */
static void trim(lsi_loans *loans)
{
    if (loans->used > loans->kept)
        (void)madvise(loans->window + loans->kept,
                      (loans->used + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES -
                          loans->kept,
                      MADV_DONTNEED);
    if (loans->counted > loans->kept) {
        lsi_memory_discharge(loans->counted - loans->kept,
                             LS_MEMORY_PARAMETERS);
        loans->counted = loans->kept;
    }
}

static void take_back(lsi_lender *self, bool written)
{
    lsi_loans *const loans = of(self);
    for (size_t i = 0; i < loans->n_out; i++) {
        if (written)
            keep_own(loans, loans->out[i]);
        loans->out[i]->data = NULL;
    }
    trim(loans);
    loans->n_out = 0;
    loans->used = 0;
}

void lsi_params_take_back(const ls_params *params, bool written)
{
    if (params->loans != NULL)
        take_back(&params->loans->lender, written);
}

double lsi_params_gather_seconds(const ls_params *params)
{
    return params->loans != NULL ? params->loans->seconds : 0;
}

ls_status lsi_param_lend_half(lsi_param *param, ls_dtype dtype)
{
    const ls_tensor *const tensor = param->tensor;
    if (param->half != NULL && param->half->dtype == dtype)
        return LS_OK;
    ls_tensor_free(&param->half);
    LS_TRY(lsi_tensor_make_empty(&param->half, dtype, tensor->ndim,
                                 tensor->shape));
    LS_TRY(lsi_tensor_set_memory(param->half, NULL));
    param->half->storage->lender = &param->set->loans->lender;
    param->half->storage->borrower = param->index;
    return LS_OK;
}

/* ---- gradients ----------------------------------------------------------- */

/* Bytes of a gradient that this rank does not keep. */
static size_t foreign_bytes(const ls_params *params, size_t index)
{
    const lsi_range range = lsi_params_range(params, index);
    const lsi_range own = lsi_range_common(range, params->loans->own);
    return (lsi_range_size(range) - lsi_range_size(own)) * sizeof(float);
}

ls_status lsi_params_count_grad(const ls_params *params, size_t index)
{
    lsi_param *const param = params->params.items[index];
    if (params->loans == NULL || params->group == NULL || param->grad_counted)
        return LS_OK;
    LS_TRY(lsi_memory_charge(foreign_bytes(params, index), LS_MEMORY_GRADIENTS,
                             "a gradient"));
    param->grad_counted = true;
    return LS_OK;
}

static void discard(const ls_params *params, size_t begin, size_t end)
{
    if (begin < end)
        lsi_shared_discard(params->group, params->flat_grad + begin,
                           (end - begin) * sizeof(float));
}

void lsi_params_drop_grads(const ls_params *params, lsi_range range)
{
    if (params->loans == NULL || params->group == NULL)
        return;
    const lsi_range own = params->loans->own;
    const size_t begin = range.begin / PAGE_FLOATS * PAGE_FLOATS;
    const size_t end = range.end / PAGE_FLOATS * PAGE_FLOATS;
    discard(params, begin, end < own.begin ? end : own.begin);
    discard(params, begin > own.end ? begin : own.end, end);
    for (size_t i = 0; i < params->params.count; i++) {
        lsi_param *const param = params->params.items[i];
        if (!param->grad_counted || param->offset < range.begin ||
            param->offset >= range.end)
            continue;
        lsi_memory_discharge(foreign_bytes(params, i), LS_MEMORY_GRADIENTS);
        param->grad_counted = false;
    }
}

/* What ls_params_allocate has counted, and nobody has touched. */
static void uncount_grads(ls_params *params)
{
    const size_t kept = lsi_range_size(params->loans->own);
    if (params->group == NULL)
        return;
    params->grads_uncounted = (params->count - kept) * sizeof(float);
    lsi_memory_discharge(params->grads_uncounted, LS_MEMORY_GRADIENTS);
}

static void recount_grads(ls_params *params)
{
    if (params->grads_uncounted == 0)
        return;
    lsi_params_drop_grads(params, params->whole);
    lsi_memory_undo_discharge(params->grads_uncounted, LS_MEMORY_GRADIENTS);
    params->grads_uncounted = 0;
}

/* ---- dividing ------------------------------------------------------------ */

static ls_status alloc_window(lsi_loans *loans)
{
    size_t bytes = PAGE_BYTES, largest = 0;
    const ls_params *const set = loans->set;
    for (size_t i = 0; i < set->params.count; i++) {
        if (set->params.items[i]->offset == SIZE_MAX)
            continue;
        const size_t floats = lsi_range_size(lsi_params_range(set, i));
        bytes += floats * (sizeof(float) + sizeof(uint16_t));
        bytes += LINE;
        largest = floats > largest ? floats : largest;
    }
    void *const at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return lsi_fail_errno(LS_ERR_MEMORY,
                              "cannot reserve %zu bytes to gather parameters",
                              bytes);
    loans->window = at;
    loans->window_bytes = bytes;
    loans->kept = (2 * largest * sizeof(float) / PAGE_BYTES + 1) * PAGE_BYTES;
    if (loans->kept >= HUGE_PAGE)
        (void)madvise(at, bytes, MADV_HUGEPAGE);
    return LS_OK;
}

static void free_loans(lsi_loans *loans)
{
    if (loans->window != NULL)
        munmap(loans->window, loans->window_bytes);
    lsi_memory_discharge(loans->counted, LS_MEMORY_PARAMETERS);
    lsi_free(loans->out);
    lsi_free(loans);
}

static ls_status make_loans(lsi_loans **out, ls_params *params, size_t shard,
                            lsi_range own)
{
    void *block;
    LS_TRY(lsi_alloc_zeroed(&block, sizeof(lsi_loans), LS_MEMORY_OTHER,
                            "divided parameters"));
    lsi_loans *const loans = block;
    *loans = (lsi_loans){
        .lender = {lend, take_back}, .set = params, .shard = shard, .own = own};
    ls_status status =
        lsi_alloc(&block, 2 * params->params.count * sizeof(lsi_storage *),
                  LS_MEMORY_OTHER, "divided parameters");
    if (status == LS_OK) {
        loans->out = block;
        status = alloc_window(loans);
    }
    if (status != LS_OK) {
        free_loans(loans);
        return status;
    }
    *out = loans;
    return LS_OK;
}

/* From now on parameters have to be borrowed. */
static void let_go(ls_params *params, float *home)
{
    const lsi_range own = params->loans->own;
    if (lsi_range_size(own) > 0)
        memcpy(home, params->flat + own.begin,
               lsi_range_size(own) * sizeof(float));
    lsi_free(params->flat);
    params->flat = home;
    params->flat_begin = own.begin;
    for (size_t i = 0; i < params->params.count; i++) {
        lsi_param *const param = params->params.items[i];
        if (!param->trainable)
            continue;
        ls_tensor_free(&param->half);
        param->tensor->storage->data = NULL;
        param->tensor->storage->lender = &params->loans->lender;
        param->tensor->storage->borrower = i;
    }
    uncount_grads(params);
}

/* All ranks get as far as this, or none. */
static ls_status agree(ls_group *group, ls_status status)
{
    int32_t failed = status != LS_OK;
    LS_TRY(ls_all_reduce(group, &failed, &failed, 1, LS_I32, LS_MAX));
    if (failed != 0 && status == LS_OK)
        return lsi_fail(LS_ERR_STATE, "another rank could not divide its "
                                      "parameters; see its own error");
    return status;
}

ls_status lsi_params_divide(ls_params *params, ls_group *group, size_t shard,
                            lsi_range own)
{
    lsi_loans *loans = NULL;
    void *home = NULL;
    const size_t bytes = shard * sizeof(float);
    if (params->loans != NULL && params->home_group == group)
        return LS_OK;
    if (params->home != NULL)
        return lsi_fail(LS_ERR_STATE, "the parameters are shared in another "
                                      "way; free and make the set anew");
    ls_status status = agree(group, make_loans(&loans, params, shard, own));
    if (status == LS_OK)
        status = ls_shared_alloc(group, bytes, &home);
    if (status != LS_OK) {
        if (loans != NULL)
            free_loans(loans);
        return status;
    }
    lsi_params_set_home(params, group, home, bytes, bytes);
    params->loans = loans;
    let_go(params, home);
    return ls_barrier(group);
}

void lsi_params_undivide(ls_params *params)
{
    if (params->loans == NULL)
        return;
    lsi_params_take_back(params, false);
    recount_grads(params);
    free_loans(params->loans);
    params->loans = NULL;
}
