/*
 * The kernel table: raw pointers and sizes in, numbers out.
 *
 * One row of kernels.def is one kernel. ref/ fills every slot and is the
 * definition of truth; each instruction level that the machine has then
 * replaces the slots it is better at. Unless a row says otherwise:
 *
 *   - arrays are dense f32, any alignment, any length including 0;
 *   - an output may be the same array as an input of the same length, but must
 *     not overlap it otherwise;
 *   - a kernel is single-threaded; the operations (lib/array/compute), which
 * alone see the table, divide work among threads;
 *   - kernels do not allocate and cannot fail.
 *
 * The slots `reduce` and `convert` (fold/fold.def) are those of fold/fold.h.
 */
#ifndef LS_ARRAY_KERNELS_KERNELS_H
#define LS_ARRAY_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "array/kernels/amx/panel.h"
#include "array/kernels/arguments.h"
#include "array/kernels/chains.h"
#include "array/kernels/dense.h"
#include "array/kernels/portable_gemm.h"
#include "array/kernels/winograd.h"
#include "array/kernels/winograd4.h"
#include "base/cpu.h"
#include "base/rng.h"
#include "fold/fold.h"
#include "lockstep/types.h"

typedef struct lsi_kernels {
#define X(name, args) void(*name) args;
#include "array/kernels/kernels.def"
#include "fold/fold.def"
#undef X
    lsi_isa isa;

    /* Parts of the level other than single kernels. */
    const struct lsi_flash_ops *flash[2]; /* attention: of f32, of bf16 */
    lsi_layout blocked;                   /* of images, for convolutions */
    lsi_layout bf16_layout;             /* of bf16 images with many channels */
    int64_t bf16_channels;              /* least for bf16_layout; 0: never */
    const lsi_portable_ops *portable;   /* f32 products of portable bits */
    const lsi_panel_ops *panels;        /* of f32 products; NULL if none */
    const lsi_winograd_ops *winograd;   /* of bf16 convolutions; NULL if none */
    const lsi_winograd4_ops *winograd4; /* of f32 ones */
    const lsi_chain_ops *chains;        /* in portable bits */
} lsi_kernels;

/*
 * The table for this process, filled on first use. Never NULL. If bits are
 * portable (base/bits.h) it is one whose kernels give the same bits at every
 * level, as portable.h says.
 */
const lsi_kernels *lsi_kernels_get(void);

/*
 * The table at one level, for tests, and that with portable bits.
 * LS_ERR_UNSUPPORTED above the machine's.
 */
ls_status lsi_kernels_at(lsi_isa isa, lsi_kernels *out);
ls_status lsi_kernels_portable_at(lsi_isa isa, lsi_kernels *out);

/* Each level's changes to a table that lower levels have filled. */
#define X(NAME, name, architecture, needs, onednn)                             \
    void lsi_kernels_fill_##name(lsi_kernels *table);
#include "base/isas.def"
#undef X

/* Of some levels: the kernels of `table` become portable. */
void lsi_kernels_portable_ref(lsi_kernels *table);
void lsi_kernels_portable_neon(lsi_kernels *table);
void lsi_kernels_portable_avx2(lsi_kernels *table);
void lsi_kernels_portable_avx512(lsi_kernels *table);

#endif
