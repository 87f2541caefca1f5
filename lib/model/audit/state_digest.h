/*
 * The digest of a model's state, by tensor name and element. It does not depend
 * on the number of ranks, nor on the part that each rank holds.
 *
 * A tensor is cut into leaves of LSI_LEAF elements, in row-major order. A block
 * is a power of two of leaves, the smallest with which the tensor has at most
 * LSI_STATE_BLOCKS blocks:
 *
 *     leaf     SHA-256 of the elements' bytes, little-endian
 *     block    SHA-256 of the digests of its leaves
 *     tensor   SHA-256 of the digests of its blocks
 *     state    starts with 32 zero bytes. For each tensor it becomes the
 *              SHA-256 of itself, the tensor's name, a zero byte, the name of
 *              its type, a zero byte, and the tensor's digest
 *
 * Each rank digests the whole leaves that it holds. Ranks that hold pieces of
 * the same leaf send these to rank 0, at most 16 KiB a leaf. The order of the
 * tensors: each parameter "w" and its optimizer state "exp_avg/w", ..., in the
 * order of definition; then the buffers of rank 0 and their averages.
 */
#ifndef LS_MODEL_AUDIT_STATE_DIGEST_H
#define LS_MODEL_AUDIT_STATE_DIGEST_H

#include "base/sha256.h"
#include "lockstep/group.h"
#include "lockstep/optim.h"

enum { LSI_LEAF = 4096, LSI_STATE_BLOCKS = 16 };

typedef struct lsi_state_tensor {
    char *name;
    ls_dtype dtype;
    size_t count;      /* elements */
    size_t first_leaf; /* number of its first leaf among all tensors' */
    size_t leaves, leaves_of_block, blocks;
    /* On rank 0, of the last call of lsi_state_digest_compute. */
    unsigned char digest[LSI_SHA256_BYTES];
    unsigned char block[LSI_STATE_BLOCKS][LSI_SHA256_BYTES];
} lsi_state_tensor;

typedef struct lsi_state_digest lsi_state_digest;

/*
 * For an allocated set and its optimizer (or NULL), which must outlive it, and
 * whose division among ranks must not change. LS_ERR_UNSUPPORTED in a build
 * without SHA-256. Collective. On success *out is the caller's.
 */
ls_status lsi_state_digest_new(lsi_state_digest **out, ls_group *group,
                               const ls_params *params,
                               const ls_optimizer *optimizer);
void lsi_state_digest_free(lsi_state_digest **digest);

/* Digests the state as it is, on rank 0. Allocates nothing. Collective. */
ls_status lsi_state_digest_compute(lsi_state_digest *digest);

/* On rank 0: the digest of the state, and of its tensors. */
const unsigned char *lsi_state_digest_root(const lsi_state_digest *digest);
const lsi_state_tensor *lsi_state_digest_tensors(const lsi_state_digest *digest,
                                                 size_t *n);

#endif
