/*
 * Language models that nodes divide to use them (lsi_lm_open_divided): the
 * logits of one rank, and the memory of the types in their file.
 */
#include "testing.h"

#include <unistd.h>

#include "lockstep/profile.h"
#include "lockstep/tensor.h"
#include "model/nets/lm.h"
#include "unit/comm/nodes.h"

enum { TOKENS = 16, VOCABULARY = 300, LOGITS = TOKENS * VOCABULARY };

typedef struct model {
    ls_transformer_config config;
    char path[64];
    double halves, floats; /* elements that stay halves, and others */
    float logits[LOGITS];  /* of one rank */
    double gathered;       /* bytes: the most of all nodes together */
} model;

static size_t live(ls_memory_tag tag)
{
    ls_memory_stats stats;
    ls_memory_of(tag, &stats);
    return stats.live_bytes;
}

/* Saves the model, its tensors rounded to `dtype`, unless that is f32. */
static void save(model *m, ls_dtype dtype)
{
    ls_named_tensor items[64];
    lsi_lm lm;
    CHECK_OK(lsi_lm_new_frozen(&lm, &m->config, 7));
    const size_t n = ls_params_count(lm.params);
    m->halves = m->floats = 0;
    CHECK(n <= TEST_COUNT(items));
    for (size_t i = 0; i < n; i++) {
        ls_tensor *const from = ls_params_get(lm.params, i);
        const bool stays = dtype != LS_F32 && ls_tensor_ndim(from) == 2;
        *(stays ? &m->halves : &m->floats) += (double)ls_tensor_count(from);
        items[i].name = ls_params_name(lm.params, i);
        CHECK_OK(ls_tensor_new(&items[i].tensor, dtype, ls_tensor_ndim(from),
                               ls_tensor_shape(from)));
        CHECK_OK(ls_tensor_copy(items[i].tensor, from));
    }
    CHECK_OK(ls_safetensors_save(m->path, items, n, NULL));
    for (size_t i = 0; i < n; i++)
        ls_tensor_free(&items[i].tensor);
    lsi_lm_free(&lm);
}

static void compute(const lsi_lm *lm, float logits[LOGITS])
{
    ls_tape *tape;
    CHECK_OK(ls_tape_new(&tape));
    ls_tape_set_training(tape, false);
    ls_tensor *const tokens =
        ls_tape_output(tape, LS_I64, 2, (const int64_t[]){1, TOKENS});
    int64_t *values;
    CHECK_OK(ls_tensor_map_i64(tokens, &values));
    for (int64_t i = 0; i < TOKENS; i++)
        values[i] = i * 37 % VOCABULARY;
    ls_tensor *const out =
        ls_transformer_forward(lm->transformer, tape, tokens);
    CHECK_OK(ls_tape_status(tape));
    float *found;
    CHECK_OK(ls_tensor_map_f32(out, &found));
    memcpy(logits, found, LOGITS * sizeof(float));
    ls_tape_free(&tape);
}

/* The counters are those of the ranks of all nodes, which are threads. */
static void check_memory(const model *m)
{
    const double bytes = 2 * m->halves + 4 * m->floats;
    const double counted = (double)live(LS_MEMORY_PARAMETERS);
    CHECK(counted >= bytes && counted <= 1.01 * bytes);
    CHECK(live(LS_MEMORY_GRADIENTS) < 1000); /* a few floats of each rank */
}

static void play(ls_group *group, void *argument)
{
    model *const m = argument;
    float logits[LOGITS];
    lsi_lm lm;
    ls_ddp *ddp = NULL;
    CHECK_OK(lsi_lm_open_divided(&lm, &ddp, group, &m->config, m->path,
                                 LS_DDP_NO_PREFETCH));
    CHECK_OK(ls_barrier(group));
    if (ls_group_rank(group) == 0) {
        check_memory(m);
        ls_memory_reset_peak();
    }
    CHECK_OK(ls_barrier(group));
    compute(&lm, logits);
    CHECK(memcmp(logits, m->logits, sizeof(logits)) == 0);
    CHECK_OK(ls_barrier(group));
    if (ls_group_rank(group) == 0) {
        ls_memory_stats stats;
        ls_memory_of(LS_MEMORY_GATHERED, &stats);
        m->gathered = (double)stats.peak_bytes;
    }
    CHECK_OK(ls_barrier(group));
    ls_ddp_free(&ddp);
    lsi_lm_free(&lm);
}

/* Returns the bytes that nodes gather at most. */
static double check(model *m, ls_dtype dtype, const int *ranks, int nodes)
{
    lsi_lm lm;
    save(m, dtype);
    CHECK_OK(lsi_lm_open(&lm, &m->config, m->path));
    compute(&lm, m->logits);
    lsi_lm_free(&lm);
    run_nodes(ranks, nodes, play, m);
    unlink(m->path);
    return m->gathered;
}

static void halves_stay_halves(void **state)
{
    model m = {.config = {.struct_size = sizeof(ls_transformer_config),
                          .vocabulary = VOCABULARY,
                          .context = TOKENS,
                          .d_model = 192,
                          .d_ff = 512,
                          .layers = 3,
                          .heads = 4}};
    (void)state;
    snprintf(m.path, sizeof(m.path), "/tmp/lockstep-divided-%d", getpid());
    const double whole = check(&m, LS_F32, (int[]){1, 1}, 2);
    CHECK(whole > 0);
    /* Half as much; the two nodes need not have their peaks at one time. */
    CHECK(check(&m, LS_BF16, (int[]){1, 1}, 2) < 0.75 * whole);
    CHECK(check(&m, LS_F16, (int[]){1, 1, 1}, 3) > 0);
    CHECK(check(&m, LS_BF16, (int[]){3}, 1) == 0);
}

/* Ranks whose files have other types refuse each other. */
static void play_other(ls_group *group, void *argument)
{
    model *const files = argument;
    const model *const own = &files[ls_group_rank(group)];
    lsi_lm lm;
    ls_ddp *ddp = NULL;
    CHECK(lsi_lm_open_divided(&lm, &ddp, group, &own->config, own->path,
                              LS_DDP_NO_PREFETCH) == LS_ERR_MISMATCH);
    CHECK(strstr(ls_last_error(), "bf16") != NULL);
    ls_ddp_free(&ddp);
    lsi_lm_free(&lm);
}

static void types_must_agree(void **state)
{
    model files[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        files[i].config = (ls_transformer_config)LS_TRANSFORMER_CONFIG_INIT;
        files[i].config.vocabulary = VOCABULARY;
        files[i].config.context = TOKENS;
        files[i].config.d_model = files[i].config.d_ff = 16;
        files[i].config.layers = files[i].config.heads = 1;
        snprintf(files[i].path, sizeof(files[i].path),
                 "/tmp/lockstep-divided-%d-%d", getpid(), i);
        save(&files[i], i == 0 ? LS_BF16 : LS_F32);
    }
    run_nodes((int[]){1, 1}, 2, play_other, files);
    unlink(files[0].path);
    unlink(files[1].path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(halves_stay_halves),
                                       cmocka_unit_test(types_must_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
