/*
 * Packing and printing of calls. The fingerprint is not a hash: it holds every
 * argument. So equal words mean equal calls, and an error can show both sides.
 */
#include "comm/state/call.h"

#include <stdbool.h>
#include <stdio.h>

#include "base/bits.h"

enum {
    DTYPE_SHIFT = 8,
    REDOP_SHIFT = 16,
    REFUSAL_SHIFT = 24, /* errors are small negative numbers */
    ROOT_SHIFT = 32
};

/* The arguments of a refused call can be anything. */
static uint64_t byte_of(int value, int shift)
{
    return (uint64_t)(value & 0xff) << shift;
}

lsi_fingerprint lsi_fingerprint_of(const lsi_call *call)
{
    return (lsi_fingerprint){byte_of((int)call->operation, 0) |
                                 byte_of((int)call->dtype, DTYPE_SHIFT) |
                                 byte_of((int)call->redop, REDOP_SHIFT) |
                                 byte_of(-(int)call->refusal, REFUSAL_SHIFT) |
                                 (uint64_t)(uint32_t)call->root << ROOT_SHIFT,
                             call->count};
}

lsi_call lsi_fingerprint_call(lsi_fingerprint fingerprint)
{
    const uint64_t what = fingerprint.what;
    return (lsi_call){
        .operation = (lsi_operation)(what & 0xff),
        .dtype = (ls_dtype)(what >> DTYPE_SHIFT & 0xff),
        .redop = (ls_reduce_op)(what >> REDOP_SHIFT & 0xff),
        .root = (int)(what >> ROOT_SHIFT),
        .count = (size_t)fingerprint.count,
        .refusal = (ls_status) - (int)(what >> REFUSAL_SHIFT & 0xff),
    };
}

static bool has_redop(lsi_operation operation)
{
    return lsi_operation_reduces(operation) ||
           lsi_operation_of(operation)->kind == LSI_KIND_PLANS;
}

static bool has_root(lsi_operation operation)
{
    const lsi_root root = lsi_operation_of(operation)->root;
    return root == LSI_ROOT_SENDER || root == LSI_ROOT_RECEIVER;
}

static bool counts_bytes(lsi_operation operation)
{
    return lsi_operation_of(operation)->kind == LSI_KIND_MEMORY;
}

static bool has_elements(lsi_operation operation)
{
    const lsi_operation_row *row = lsi_operation_of(operation);
    return row->kind != LSI_KIND_INTERNAL && !counts_bytes(operation) &&
           (row->sends != LSI_EXTENT_NOTHING ||
            row->receives != LSI_EXTENT_NOTHING);
}

ls_dtype lsi_call_dtype(const lsi_call *call)
{
    return (int)call->redop >= LSI_PREMUL
               ? (ls_dtype)((int)call->redop - LSI_PREMUL)
               : call->dtype;
}

const char *lsi_call_redop_name(const lsi_call *call)
{
    return (int)call->redop >= LSI_PREMUL ? "premul_sum"
                                          : ls_reduce_op_name(call->redop);
}

uint64_t lsi_call_bytes(const lsi_call *call)
{
    if (counts_bytes(call->operation))
        return call->count;
    return has_elements(call->operation)
               ? call->count * ls_dtype_size(call->dtype)
               : 0;
}

const char *lsi_call_text(const lsi_call *call, char *text, size_t bytes)
{
    char elements[64] = "", redop[32] = "", root[32] = "";
    if (has_elements(call->operation))
        snprintf(elements, sizeof(elements), " of %zu %s", call->count,
                 ls_dtype_name(lsi_call_dtype(call)));
    if (has_redop(call->operation))
        snprintf(redop, sizeof(redop), " (%s)", lsi_call_redop_name(call));
    if (has_root(call->operation))
        snprintf(root, sizeof(root), " at root %d", call->root);
    if (counts_bytes(call->operation))
        snprintf(elements, sizeof(elements), " of %zu bytes", call->count);
    if (call->operation == LSI_OP_SELECT && call->root > 0)
        snprintf(root, sizeof(root), " with %s bits",
                 lsi_bits_name((ls_bits)(call->root - LSI_ROOT_BITS)));
    snprintf(text, bytes, "%s%s%s%s", lsi_operation_name(call->operation),
             elements, redop, root);
    return text;
}

const char *lsi_call_difference(const lsi_call *a, const lsi_call *b)
{
    const bool message =
        lsi_operation_of(a->operation)->kind == LSI_KIND_MESSAGE;
    if (a->operation != b->operation && !message)
        return "operation";
    if (a->operation == LSI_OP_SELECT && a->root != b->root)
        return "LOCKSTEP_BITS";
    if (lsi_call_dtype(a) != lsi_call_dtype(b))
        return "type";
    if (a->count != b->count && a->operation != LSI_OP_ALL_TO_ALLV)
        return lsi_operation_of(a->operation)->count;
    if (a->redop != b->redop)
        return "reduction";
    if (a->root == b->root)
        return "nothing";
    return lsi_operation_has_counts(a->operation) ? "counts" : "root";
}
