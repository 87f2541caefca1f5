/*
 * The backward pass over one block of queries and one block of keys:
 *
 *   P = 2^(scale2 Q K^T - m) / sum     dP = dO V^T     dS = P (dP - D) scale
 *   dV += P^T dO     dK += dS^T Q     dQ += dS K     D = sum of dO * O
 *
 * As in the forward, scores are stored transposed: keys down, queries across.
 */
#ifndef LS_ARRAY_KERNELS_ATTENTION_TILE_BACKWARD_H
#define LS_ARRAY_KERNELS_ATTENTION_TILE_BACKWARD_H

#include "array/kernels/attention/tile_forward.h"

enum {
    /* Keys whose scores are in the first-level cache at once. */
    CHUNK = 64,
    /* A row of P or dS; not a power of two, which would share cache sets. */
    SCORE_LD = LSI_FLASH_BLOCK + 32
};

/* ---- packed blocks ---------------------------------------------------------
 */

typedef struct query_memory {
    float *q_columns, *dout_columns, *q_lanes, *dout_lanes;
    float *m;       /* the shift, in powers of 2 */
    float *inverse; /* 1 / sum; 0 for padding, whose P is then 0 */
    float *delta;   /* D * scale */
    size_t total;
} query_memory;

/* Floats of a block as lanes: none where the user's rows will do. */
INLINE size_t lanes_floats(size_t d, bool direct, const bool half)
{
    return direct && lanes_width(d) == d
               ? 0
               : words_of(LSI_FLASH_BLOCK, half) * lanes_width(d);
}

INLINE query_memory divide_queries(float *base, size_t d, bool direct,
                                   const bool half)
{
    query_memory w;
    size_t used = 0;
    const size_t words = words_of(d, half);
    const size_t lanes = lanes_floats(d, direct, half);
    w.q_columns = carve(base, &used, LSI_FLASH_BLOCK * words);
    w.dout_columns = carve(base, &used, LSI_FLASH_BLOCK * words);
    w.q_lanes = carve(base, &used, lanes);
    w.dout_lanes = carve(base, &used, lanes);
    w.m = carve(base, &used, LSI_FLASH_BLOCK);
    w.inverse = carve(base, &used, LSI_FLASH_BLOCK);
    w.delta = carve(base, &used, LSI_FLASH_BLOCK);
    w.total = used;
    return w;
}

typedef struct key_memory {
    float *k_rows, *v_rows, *k_lanes;
    size_t total;
} key_memory;

INLINE key_memory divide_keys(float *base, size_t d, bool direct,
                              const bool half)
{
    key_memory w;
    size_t used = 0;
    const size_t rows = direct ? 0 : LSI_FLASH_BLOCK * words_of(d, half);
    const size_t lanes = lanes_floats(d, direct, half);
    w.k_rows = carve(base, &used, rows);
    w.v_rows = carve(base, &used, rows);
    w.k_lanes = carve(base, &used, lanes);
    w.total = used;
    return w;
}

/* Up to LANES elements, zeros after the n-th. */
INLINE vf load_elements(const char *from, size_t n, const bool half)
{
    float part[LANES] = {0};
    if (n < LANES)
        from = memcpy(part, from, n * element_bytes(half));
    return half ? vf_load_bf16_bits((const uint16_t *)(const void *)from, LANES)
                : vf_load((const word *)(const void *)from, LANES);
}

INLINE vf dot_rows(const char *a, const char *b, size_t d, const bool half)
{
    vf sum = vf_set(0.0F);
    for (size_t c = 0; c < d; c += LANES) {
        const size_t at = c * element_bytes(half);
        sum = vf_fma(load_elements(a + at, d - c, half),
                     load_elements(b + at, d - c, half), sum);
    }
    return sum;
}

/* D * scale, of LANES rows at once: their sums are added up as columns. */
INLINE void find_delta(float *delta, const lsi_flash_query_block *b,
                       const lsi_flash_backward *s, const bool half)
{
    for (size_t row = 0; row < LSI_FLASH_BLOCK; row += LANES) {
        float columns[LANES * LANES];
        vf sums[LANES], total = vf_set(0.0F);
        for (size_t i = 0; i < LANES; i++)
            sums[i] = row + i < b->rows
                          ? dot_rows(row_at(b->o, row + i, half),
                                     row_at(b->dout, row + i, half), s->d, half)
                          : vf_set(0.0F);
        store_columns(columns, LANES, sums);
        for (size_t i = 0; i < LANES; i++)
            total = vf_add(total, vf_load(columns + i * LANES, LANES));
        vf_store(delta + row, vf_mul(total, vf_set(s->scale)), LANES);
    }
}

INLINE void start_queries(const lsi_flash_query_block *b,
                          const lsi_flash_backward *s, const bool half)
{
    const query_memory w = divide_queries(b->packed, s->d, s->direct, half);
    const size_t words = words_of(s->d, half);
    for (size_t at = 0; at < LSI_FLASH_BLOCK && at < round_up(b->rows, PANEL);
         at += PANEL) {
        const size_t n = smaller(PANEL, b->rows - at);
        pack_columns(w.q_columns + at * words, b->q, at, n, s->d, half);
        pack_columns(w.dout_columns + at * words, b->dout, at, n, s->d, half);
    }
    (void)pack_lanes(w.q_lanes, b->q, 0, b->rows, s->d, half);
    (void)pack_lanes(w.dout_lanes, b->dout, 0, b->rows, s->d, half);
    for (size_t i = 0; i < LSI_FLASH_BLOCK; i++) {
        w.m[i] = i < b->rows ? b->saved[i].max : FLT_MAX;
        w.inverse[i] = i < b->rows ? b->saved[i].scale : 0.0F;
    }
    find_delta(w.delta, b, s, half);
    memset(b->dq, 0, b->rows * s->width * sizeof(float));
}

INLINE void start_keys(const lsi_flash_key_block *b,
                       const lsi_flash_backward *s, const bool half)
{
    const key_memory w = divide_keys(b->packed, s->d, s->direct, half);
    (void)pack_rows(w.k_rows, b->k, 0, b->rows, s->d, half);
    (void)pack_rows(w.v_rows, b->v, 0, b->rows, s->d, half);
    (void)pack_lanes(w.k_lanes, b->k, 0, b->rows, s->d, half);
    memset(b->dk, 0, b->rows * s->width * sizeof(float));
    memset(b->dv, 0, b->rows * s->width * sizeof(float));
}

/* ---- one pair of blocks -----------------------------------------------------
 */

/*
 * P and dS. f32: p and ds [key][SCORE_LD]. The products write the scores and dP
 * there, and P and dS replace them. Stores that miss the first-level cache
 * delay products less than exponentials.
 *
 * bf16: the same of bf16, read as words of two queries, and ds_pairs [key / 2]
 * [SCORE_LD], words of two keys. The scores and dP have separate memory.
 */
typedef struct pair_memory {
    float *s, *dp; /* bf16: [CHUNK][PANEL] */
    float *p, *ds, *ds_pairs;
    size_t total;
} pair_memory;

INLINE pair_memory divide_pair(float *base, const bool half)
{
    pair_memory w;
    size_t used = 0;
    const size_t words = (size_t)LSI_FLASH_BLOCK * SCORE_LD / (half ? 2 : 1);
    w.s = carve(base, &used, half ? CHUNK * PANEL : 0);
    w.dp = carve(base, &used, half ? CHUNK * PANEL : 0);
    w.p = carve(base, &used, words);
    w.ds = carve(base, &used, words);
    w.ds_pairs = carve(base, &used, half ? words : 0);
    w.total = used;
    return w;
}

typedef struct pair {
    const lsi_flash_backward *s;
    const lsi_flash_query_block *q;
    const lsi_flash_key_block *k;
    query_memory qm;
    pair_memory m;
    operand k_rows, v_rows, k_lanes, q_lanes, dout_lanes;
    bool diagonal;
} pair;

INLINE void write_scores(const pair *t, size_t key, size_t query, vf p, vf ds,
                         const bool half)
{
    const size_t at = key * SCORE_LD + query;
    if (half) {
        vf_store_bf16((uint16_t *)(void *)t->m.p + at, p, LANES);
        vf_store_bf16((uint16_t *)(void *)t->m.ds + at, ds, LANES);
    } else {
        vf_store(t->m.p + at, p, LANES);
        vf_store(t->m.ds + at, ds, LANES);
    }
}

/* LANES queries: the numbers in registers that P and dS need. */
typedef struct query_lanes {
    size_t first; /* of the block */
    vf m, inverse, delta, scale, scale2;
} query_lanes;

INLINE query_lanes load_queries(const pair *t, size_t first)
{
    return (query_lanes){.first = first,
                         .m = vf_load(t->qm.m + first, LANES),
                         .inverse = vf_load(t->qm.inverse + first, LANES),
                         .delta = vf_load(t->qm.delta + first, LANES),
                         .scale = vf_set(t->s->scale),
                         .scale2 = vf_set(t->s->scale * LOG2E)};
}

/* Scores and dP of a chunk, from one of its queries on. */
typedef struct chunk_scores {
    float *s, *dp;
    size_t ld;
} chunk_scores;

INLINE chunk_scores scores_at(const pair *t, size_t key0, size_t query,
                              const bool half)
{
    const size_t at = key0 * SCORE_LD + query, lane = query % PANEL;
    return half ? (chunk_scores){t->m.s + lane, t->m.dp + lane, PANEL}
                : (chunk_scores){t->m.p + at, t->m.ds + at, SCORE_LD};
}

/* P and dS of one key, c's first, and LANES queries; returns dS. */
INLINE vf differentiate(const pair *t, size_t key, chunk_scores c,
                        const query_lanes *q, const bool masked,
                        const bool half)
{
    vf p = vf_exp2(vf_fms(vf_load(c.s, LANES), q->scale2, q->m));
    p = vf_mul(p, q->inverse);
    vf ds = vf_mul(p, vf_fms(vf_load(c.dp, LANES), q->scale, q->delta));
    if (masked) {
        const size_t hidden =
            hidden_lanes(t->k->first + key, t->q->first + q->first);
        p = vf_fill_low(p, hidden, 0.0F);
        ds = vf_fill_low(ds, hidden, 0.0F);
    }
    write_scores(t, key, q->first, p, ds, half);
    return ds;
}

INLINE void differentiate_keys(const pair *t, size_t key0, size_t keys,
                               const query_lanes *q, const bool masked,
                               const bool half)
{
    chunk_scores c = scores_at(t, key0, q->first, half);
    for (size_t i = 0; i < keys; i += 2) {
        const size_t key = key0 + i;
        const vf even = differentiate(t, key, c, q, masked, half);
        vf odd = vf_set(0.0F);
        c.s += c.ld;
        c.dp += c.ld;
        if (i + 1 < keys)
            odd = differentiate(t, key + 1, c, q, masked, half);
        c.s += c.ld;
        c.dp += c.ld;
        if (half)
            vf_store(t->m.ds_pairs + key / 2 * SCORE_LD + q->first,
                     vf_pair(even, odd), LANES);
    }
}

INLINE void differentiate_chunk(const pair *t, size_t key0, size_t keys,
                                size_t panel, const bool half)
{
    for (size_t lane = 0; lane < PANEL; lane += LANES) {
        const query_lanes q = load_queries(t, panel + lane);
        if (t->diagonal)
            differentiate_keys(t, key0, keys, &q, true, half);
        else
            differentiate_keys(t, key0, keys, &q, false, half);
    }
}

/* Terms of the gradients from keys that no query of the panel sees: zeros. */
INLINE void clear_chunk(const pair *t, size_t key0, size_t keys, size_t panel,
                        const bool half)
{
    for (size_t key = key0; key < key0 + keys; key++) {
        for (size_t lane = panel; lane < panel + PANEL; lane += LANES) {
            write_scores(t, key, lane, vf_set(0.0F), vf_set(0.0F), half);
            if (half && key % 2 == 0)
                vf_store(t->m.ds_pairs + key / 2 * SCORE_LD + lane,
                         vf_set(0.0F), LANES);
        }
    }
}

/*
 * Keys of a chunk that some query of the panel sees. The number is even if
 * other keys follow, as keys that share a word are cleared together.
 */
INLINE size_t seen_keys(const pair *t, size_t key0, size_t keys, size_t panel)
{
    const size_t first = t->k->first + key0;
    const size_t end = t->q->first + panel + PANEL;
    return end <= first ? 0 : smaller(keys, round_up(end - first, 2));
}

INLINE void score_chunk(const pair *t, size_t key0, size_t keys, size_t panel,
                        const bool half)
{
    const size_t words = words_of(t->s->d, half);
    if (t->diagonal) {
        const size_t seen = seen_keys(t, key0, keys, panel);
        clear_chunk(t, key0 + seen, keys - seen, panel, half);
        keys = seen;
    }
    if (keys == 0)
        return;
    const chunk_scores c = scores_at(t, key0, panel, half);
    const product_kind kind = {SET, false, half};
    product p = {.c = c.s,
                 .a = t->k_rows.data + key0 * t->k_rows.ld,
                 .b = t->qm.q_columns + panel * words,
                 .ldc = c.ld,
                 .lda = t->k_rows.ld,
                 .ldb = PANEL,
                 .rows = keys,
                 .lanes = PANEL,
                 .depth = words};
    multiply_all(&p, kind);
    p.c = c.dp;
    p.a = t->v_rows.data + key0 * t->v_rows.ld;
    p.b = t->qm.dout_columns + panel * words;
    multiply_all(&p, kind);
    differentiate_chunk(t, key0, keys, panel, half);
}

/*
 * dK or dV: rows of keys, summed over queries. On the diagonal the queries
 * before a group of keys are left out.
 */
INLINE void add_to_keys(const pair *t, float *to, const float *scores,
                        operand lanes, const bool half)
{
    const size_t per_word = half ? 2 : 1, width = t->s->width;
    const product_kind kind = {ADD, false, half};
    const size_t step = t->diagonal ? group_rows(half) : t->k->rows;
    for (size_t key = 0; key < t->k->rows; key += step) {
        size_t skip = 0;
        if (t->diagonal && t->k->first + key > t->q->first)
            skip = (t->k->first + key - t->q->first) / per_word;
        if (PRODUCT_TILES && half)
            skip = skip / 16 * 16;
        const size_t depth = words_of(t->q->rows, half);
        const size_t lda = SCORE_LD / per_word;
        product p = {.c = to + key * width,
                     .a = (const word *)scores + key * lda + skip,
                     .b = (const float *)lanes.data + skip * lanes.ld,
                     .ldc = width,
                     .lda = lda,
                     .ldb = lanes.ld,
                     .rows = smaller(step, t->k->rows - key),
                     .lanes = width,
                     .depth = skip < depth ? depth - skip : 0};
        multiply_all(&p, kind);
    }
}

/* dQ: rows of queries, summed over the keys that they see. */
INLINE void add_to_queries(const pair *t, const bool half)
{
    const size_t width = t->s->width;
    const float *scores = half ? t->m.ds_pairs : t->m.ds;
    const product_kind kind = {ADD, true, half};
    const size_t step = t->diagonal ? group_rows(half) : t->q->rows;
    for (size_t row = 0; row < t->q->rows; row += step) {
        size_t keys = t->k->rows;
        const size_t group_end = t->q->first + row + step;
        const size_t end =
            PRODUCT_TILES && half ? round_up(group_end, 32) : group_end;
        if (t->diagonal)
            keys = end <= t->k->first ? 0 : smaller(keys, end - t->k->first);
        product p = {.c = t->q->dq + row * width,
                     .a = (const word *)scores + row,
                     .b = (const float *)t->k_lanes.data,
                     .ldc = width,
                     .lda = SCORE_LD,
                     .ldb = t->k_lanes.ld,
                     .rows = smaller(step, t->q->rows - row),
                     .lanes = width,
                     .depth = words_of(keys, half)};
        multiply_all(&p, kind);
    }
}

INLINE void pass_pair(const lsi_flash_backward *s,
                      const lsi_flash_query_block *q,
                      const lsi_flash_key_block *k, float *workspace,
                      const bool half)
{
    const key_memory km = divide_keys(k->packed, s->d, s->direct, half);
    const query_memory qm = divide_queries(q->packed, s->d, s->direct, half);
    const pair t = {.s = s,
                    .q = q,
                    .k = k,
                    .qm = qm,
                    .m = divide_pair(workspace, half),
                    .k_rows = rows_operand(km.k_rows, k->k, 0, s->d, half),
                    .v_rows = rows_operand(km.v_rows, k->v, 0, s->d, half),
                    .k_lanes = lanes_operand(km.k_lanes, k->k, 0, s->d, half),
                    .q_lanes = lanes_operand(qm.q_lanes, q->q, 0, s->d, half),
                    .dout_lanes =
                        lanes_operand(qm.dout_lanes, q->dout, 0, s->d, half),
                    .diagonal = s->causal && k->first + k->rows > q->first + 1};
    tile_config before;
    if (half)
        begin_tiles(&before);
    for (size_t panel = 0; panel < q->rows; panel += PANEL)
        for (size_t key = 0; key < k->rows; key += CHUNK)
            score_chunk(&t, key, smaller(CHUNK, k->rows - key), panel, half);
    add_to_keys(&t, k->dv, t.m.p, t.dout_lanes, half);
    add_to_keys(&t, k->dk, t.m.ds, t.q_lanes, half);
    add_to_queries(&t, half);
    if (half)
        end_tiles(&before);
}

#endif
