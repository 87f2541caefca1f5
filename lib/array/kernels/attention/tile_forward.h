/*
 * The forward pass over one block of queries, with its keys in tiles. Scores
 * are computed transposed (keys down, queries across the lanes). So the
 * maximum, the exponential and the sum of a row are all vertical, and the
 * product with the values reads the scores as broadcasts.
 */
#ifndef LS_ARRAY_KERNELS_ATTENTION_TILE_FORWARD_H
#define LS_ARRAY_KERNELS_ATTENTION_TILE_FORWARD_H

#include <math.h>

#include "array/kernels/attention/tile_pack.h"
#include "base/math.h"

/* A score that no exponential survives. */
#define MASKED (-FLT_MAX)

/* One panel of queries: the state that the online softmax carries. */
typedef struct query_panel {
    float *columns; /* queries, packed */
    float *o;       /* [PANEL][width], not yet divided by l */
    float *m, *l;   /* [PANEL] */
    size_t first;   /* query of the head */
    size_t rows;
} query_panel;

typedef struct forward_memory {
    float *columns, *o, *m, *l, *alpha, *maxima, *scores, *k, *v;
    size_t total;
} forward_memory;

INLINE float *carve(float *base, size_t *used, size_t floats)
{
    float *part = base == NULL ? NULL : base + *used;
    *used += round_up(floats, 16);
    return part;
}

static inline forward_memory divide_forward(float *base, size_t d)
{
    forward_memory w;
    size_t used = 0;
    const size_t width = round_up(d, LANES);
    const size_t queries = round_up(LSI_FLASH_QUERIES, PANEL);
    w.columns = carve(base, &used, queries * d);
    w.o = carve(base, &used, queries * width);
    w.m = carve(base, &used, queries);
    w.l = carve(base, &used, queries);
    w.alpha = carve(base, &used, PANEL);
    w.maxima = carve(base, &used, PANEL);
    w.scores = carve(base, &used, LSI_FLASH_KEYS * PANEL);
    w.k = carve(base, &used, LSI_FLASH_KEYS * d);
    w.v = carve(base, &used, LSI_FLASH_KEYS * lanes_width(d));
    w.total = used;
    return w;
}

static size_t forward_workspace(size_t d)
{
    return divide_forward(NULL, d).total;
}

/* A tile as one panel of queries sees it. */
typedef struct score_tile {
    const query_panel *panel;
    const forward_memory *memory;
    operand k, v;
    size_t first; /* key of the head */
    size_t keys;  /* that some query of the panel sees */
    size_t d;
    float scale; /* times log2(e) */
    bool diagonal;
} score_tile;

/* Lanes of a vector of queries, the first `query`, that do not see `key`. */
INLINE size_t hidden_lanes(size_t key, size_t query)
{
    return key <= query ? 0 : smaller(key - query, LANES);
}

/* Keys of the tile, in whole groups of rows, that all its queries see. */
INLINE size_t keys_for_all(const score_tile *t, const bool half)
{
    if (t->panel->first < t->first)
        return 0;
    const size_t keys = smaller(t->keys, t->panel->first + 1 - t->first);
    return keys / group_rows(half) * group_rows(half);
}

/*
 * Puts MASKED where the key comes after the query, and finds the maxima, from
 * key `begin` of the tile on.
 */
INLINE void mask_scores(const score_tile *t, size_t begin)
{
    const forward_memory *w = t->memory;
    for (size_t lane = 0; lane < t->panel->rows; lane += LANES) {
        vf most = vf_load(w->maxima + lane, LANES);
        for (size_t key = begin; key < t->keys; key++) {
            float *at = w->scores + key * PANEL + lane;
            const size_t hidden =
                hidden_lanes(t->first + key, t->panel->first + lane);
            vf s = vf_set(MASKED);
            if (hidden < LANES)
                s = hidden > 0 ? vf_fill_low(vf_load(at, LANES), hidden, MASKED)
                               : vf_load(at, LANES);
            vf_store(at, s, LANES);
            most = vf_max(most, s);
        }
        vf_store(w->maxima + lane, most, LANES);
    }
}

/*
 * As score, of the keys after those that `all` has scored, LANES at a time:
 * only the lanes from a group's first key on see some of them.
 */
INLINE void score_diagonal(const score_tile *t, product all, const bool half)
{
    for (size_t key = all.rows; key < t->keys; key += LANES) {
        const size_t at = t->first + key;
        const size_t lane =
            at <= t->panel->first ? 0 : (at - t->panel->first) / LANES * LANES;
        product q = all;
        q.a += key * q.lda;
        q.c += key * PANEL + lane;
        q.b += lane;
        q.lanes -= lane;
        q.rows = smaller(LANES, t->keys - key);
        multiply_all(&q, (product_kind){SET, false, half});
    }
    mask_scores(t, all.rows);
}

/* Scores of the tile, unscaled, and the new maxima. */
INLINE void score(const score_tile *t, const bool half)
{
    const forward_memory *w = t->memory;
    const size_t words = words_of(t->d, half);
    product p = {.c = w->scores,
                 .a = t->k.data,
                 .b = t->panel->columns,
                 .ldc = PANEL,
                 .lda = t->k.ld,
                 .ldb = PANEL,
                 .rows = t->keys,
                 .lanes = round_up(t->panel->rows, LANES),
                 .depth = words,
                 .extra = w->maxima};
    memcpy(w->maxima, t->panel->m, PANEL * sizeof(float));
    if (t->diagonal)
        p.rows = keys_for_all(t, half);
    if (p.rows > 0)
        multiply_all(&p, (product_kind){SET_MAX, false, half});
    if (t->diagonal)
        score_diagonal(t, p, half);
}

/* exp2(score * scale - m) for two keys; returns the sum of both. */
INLINE vf exponentials(float *scores, float *to, vf scale, vf m, const bool two,
                       const bool half)
{
    vf x[2] = {vf_fms(vf_load(scores, LANES), scale, m), vf_set(0.0F)};
    if (two)
        x[1] = vf_fms(vf_load(scores + PANEL, LANES), scale, m);
    vf_exp2_each(x, two ? 2 : 1);
    if (half) {
        vf_store(to, vf_pair(x[0], x[1]), LANES);
    } else {
        vf_store(scores, x[0], LANES);
        if (two)
            vf_store(scores + PANEL, x[1], LANES);
    }
    return vf_add(x[0], x[1]);
}

/* Scores to probabilities (times exp(m)); moves m, l and finds alpha. */
INLINE void soften(const score_tile *t, const bool half)
{
    const forward_memory *w = t->memory;
    const vf scale = vf_set(t->scale);
    for (size_t lane = 0; lane < t->panel->rows; lane += LANES) {
        const vf most = vf_load(w->maxima + lane, LANES);
        const vf m = vf_mul(most, scale);
        const vf before = vf_load(t->panel->m + lane, LANES);
        /* Rounded as the m before was, with which its sums were made. */
        const vf alpha = vf_exp2(vf_sub(vf_mul(before, scale), m));
        float *from = w->scores + lane, *to = from;
        vf sum = vf_set(0.0F);
        size_t key = 0;
        for (; key + 2 <= t->keys; key += 2) {
            sum = vf_add(sum, exponentials(from, to, scale, m, true, half));
            from += 2 * PANEL;
            to += PANEL;
        }
        if (key < t->keys)
            sum = vf_add(sum, exponentials(from, to, scale, m, false, half));
        float *l = t->panel->l + lane;
        vf_store(l, vf_fma(vf_load(l, LANES), alpha, sum), LANES);
        vf_store(w->alpha + lane, alpha, LANES);
        vf_store(t->panel->m + lane, most, LANES);
    }
}

/* o = o * alpha + P V. */
INLINE void add_values(const score_tile *t, const bool half)
{
    const forward_memory *w = t->memory;
    const size_t width = round_up(t->d, LANES);
    product p = {.c = t->panel->o,
                 .a = w->scores,
                 .b = (const float *)t->v.data,
                 .ldc = width,
                 .lda = PANEL,
                 .ldb = t->v.ld,
                 .rows = t->panel->rows,
                 .lanes = width,
                 .depth = words_of(t->keys, half),
                 .extra = w->alpha};
    const product_kind kind = {SCALE_ADD, true, half};
    if (!t->diagonal || (PRODUCT_TILES && half)) {
        multiply_all(&p, kind);
        return;
    }
    for (size_t row = 0; row < t->panel->rows; row += GROUP_ROWS) {
        product q = p;
        const size_t last = t->panel->first + row + GROUP_ROWS;
        q.c += row * width;
        q.a += row;
        q.extra += row;
        q.rows = smaller(GROUP_ROWS, t->panel->rows - row);
        q.depth = last <= t->first
                      ? 0
                      : words_of(smaller(t->keys, last - t->first), half);
        multiply_all(&q, kind);
    }
}

INLINE void store_elements(char *to, vf x, const bool half)
{
    if (half)
        vf_store_bf16((uint16_t *)(void *)to, x, LANES);
    else
        vf_store((float *)(void *)to, x, LANES);
}

/* n elements of the user's type from floats that are padded to LANES. */
INLINE void store_row(char *to, const float *from, float factor, size_t n,
                      const bool half)
{
    const vf factors = vf_set(factor);
    size_t c = 0;
    for (; c + LANES <= n; c += LANES)
        store_elements(to + c * element_bytes(half),
                       vf_mul(vf_load(from + c, LANES), factors), half);
    if (c == n)
        return;
    float out[LANES];
    store_elements((char *)out, vf_mul(vf_load(from + c, LANES), factors),
                   half);
    memcpy(to + c * element_bytes(half), out, (n - c) * element_bytes(half));
}

INLINE void write_row(const lsi_flash_forward *f, const query_panel *panel,
                      size_t row, size_t index, const bool half)
{
    const float l = panel->l[row];
    const float *o = panel->o + row * round_up(f->d, LANES);
    char *to = (char *)f->o + index * f->ldo * element_bytes(half);
    store_row(to, o, f->keys == 0 ? 0.0F : 1.0F / l, f->d, half);
    if (f->keys == 0) {
        f->l[index] = LSI_FLASH_NO_KEYS;
        f->saved[index] = (lsi_softmax_row){LSI_FLASH_NO_KEYS, 1.0F};
        return;
    }
    f->l[index] = panel->m[row] * f->scale + (float)lsi_ln((double)l);
    f->saved[index] =
        (lsi_softmax_row){panel->m[row] * (f->scale * LOG2E), 1.0F / l};
}

INLINE query_panel start_panel(const lsi_flash_forward *f,
                               const forward_memory *w, size_t at,
                               const bool half)
{
    const size_t width = round_up(f->d, LANES);
    const query_panel panel = {.columns = w->columns + at * f->d,
                               .o = w->o + at * width,
                               .m = w->m + at,
                               .l = w->l + at,
                               .first = f->first + at,
                               .rows = smaller(PANEL, f->rows - at)};
    pack_columns(panel.columns, f->q, at, panel.rows, f->d, half);
    memset(panel.o, 0, PANEL * width * sizeof(float));
    for (size_t i = 0; i < PANEL; i++) {
        panel.m[i] = MASKED;
        panel.l[i] = 0.0F;
    }
    return panel;
}

enum { MAX_PANELS = (LSI_FLASH_QUERIES + PANEL - 1) / PANEL };

INLINE void visit_tile(const lsi_flash_forward *f, const query_panel *panel,
                       score_tile tile, const bool half)
{
    const size_t end = panel->first + panel->rows; /* sees keys below this */
    if (f->causal && end <= tile.first)
        return;
    tile.panel = panel;
    if (f->causal) {
        tile.keys = smaller(tile.keys, end - tile.first);
        tile.diagonal = tile.first + tile.keys > panel->first + 1;
    }
    score(&tile, half);
    soften(&tile, half);
    add_values(&tile, half);
}

INLINE void forward(const lsi_flash_forward *f, const bool half)
{
    const forward_memory w = divide_forward(f->workspace, f->d);
    query_panel panels[MAX_PANELS];
    tile_config before;
    size_t n = 0;
    if (half)
        begin_tiles(&before);
    for (size_t at = 0; at < f->rows; at += PANEL)
        panels[n++] = start_panel(f, &w, at, half);
    const size_t seen =
        f->causal ? smaller(f->keys, f->first + f->rows) : f->keys;
    for (size_t key = 0; key < seen; key += LSI_FLASH_KEYS) {
        const size_t keys = smaller(LSI_FLASH_KEYS, seen - key);
        const score_tile tile = {
            .memory = &w,
            .k = pack_rows(w.k, f->k, key, keys, f->d, half),
            .v = pack_lanes(w.v, f->v, key, keys, f->d, half),
            .first = key,
            .keys = keys,
            .d = f->d,
            .scale = f->scale * LOG2E};
        for (size_t i = 0; i < n; i++)
            visit_tile(f, &panels[i], tile, half);
    }
    if (half)
        end_tiles(&before);
    for (size_t row = 0; row < f->rows; row++)
        write_row(f, &panels[row / PANEL], row % PANEL, row, half);
}

#endif
