/*
 * The files of a checkpoint under damage. Its manifest has the CRC-32 of each
 * file, and one of itself. An opened checkpoint equals the saved one: the
 * parameters, and what a further step makes of them by the optimizer's state.
 */
#include "damage.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "lockstep/checkpoint.h"
#include "model/checkpoint/find.h"

static ls_group *group;

/* The folder of all checkpoints, and that of the only one. */
static char folder[PATH_MAX], step_folder[PATH_MAX];

typedef struct model {
    ls_params *params;
    ls_optimizer *optimizer;
} model;

static void add(const model *m, const char *name, int64_t n)
{
    assert_ok(ls_params_add(m->params, name, 1, &n,
                            (ls_init){LS_INIT_NORMAL, 0, 1}, NULL));
}

static model make_model(uint64_t seed)
{
    model m;
    const int64_t one = 1;
    assert_ok(ls_params_new(&m.params));
    add(&m, "w", 3);
    add(&m, "v", 1);
    assert_ok(ls_params_add_buffer(m.params, "b", 1, &one,
                                   (ls_init){LS_INIT_CONSTANT, 1, 0}, NULL));
    assert_ok(ls_params_allocate(m.params, NULL, seed));
    assert_ok(ls_optimizer_new(&m.optimizer, m.params, NULL));
    return m;
}

static void free_model(model *m)
{
    ls_optimizer_free(&m->optimizer);
    ls_params_free(&m->params);
}

static void step(const model *m, float gradient)
{
    ls_params_finish_grad(m->params);
    for (size_t i = 0; i < ls_params_count(m->params); i++) {
        ls_tensor *const grad = ls_grad(ls_params_get(m->params, i));
        for (int64_t k = 0; k < ls_tensor_count(grad); k++)
            ((float *)tensor_data(grad))[k] = gradient;
    }
    assert_ok(ls_optimizer_step(m->optimizer, 1));
}

static uint64_t digest(const model *m, uint64_t all)
{
    for (size_t i = 0; i < ls_params_count(m->params); i++) {
        const ls_tensor *const t = ls_params_get(m->params, i);
        all = damage_digest(all, tensor_data(t),
                            (size_t)ls_tensor_count(t) * sizeof(float));
    }
    return all;
}

static ls_status load(const model *m, damage_seen *seen)
{
    ls_checkpoint *found = NULL;
    ls_status status = ls_checkpoint_open(&found, group, folder);
    if (status != LS_OK)
        return status;
    status = ls_checkpoint_load(found, m->params, m->optimizer);
    if (status == LS_OK) {
        snprintf(seen->shape, sizeof seen->shape, "step %lld",
                 (long long)ls_checkpoint_step(found));
        seen->values = digest(m, LSI_HASH_START);
        step(m, 0.25F);
        seen->values = digest(m, seen->values);
    }
    ls_checkpoint_close(&found);
    return status;
}

/*
 * A process does not check a checkpoint again that it has found intact. So the
 * test requests the check. Loading must not crash without it, either.
 */
static ls_status read_checkpoint(const char *path, damage_seen *seen)
{
    model m = make_model(2);
    const ls_status loaded = load(&m, seen);
    free_model(&m);
    const ls_status status = lsi_checkpoint_verify(path);
    return status != LS_OK ? status : loaded;
}

static void save(void)
{
    model m = make_model(1);
    step(&m, 0.5F);
    const ls_checkpoint_parts parts = {.params = m.params,
                                       .optimizer = m.optimizer};
    snprintf(folder, sizeof folder, "%s", damage_path("checkpoints"));
    snprintf(step_folder, sizeof step_folder, "%s",
             damage_path("checkpoints/step-000000000007"));
    assert_ok(ls_checkpoint_save(group, folder, 7, &parts, 0));
    free_model(&m);
}

static void check(const char *name, damage_rules flips, bool has_line)
{
    size_t bytes = 0;
    const lsi_path file = lsi_path_in(step_folder, name);
    uint8_t *const data = damage_read(file.text, &bytes);
    const damage_range last[] = {{bytes - 1, bytes, DAMAGE_VALUES}};
    const damage_case c = {.format = name,
                           .path = file.text,
                           .opened = step_folder,
                           .data = data,
                           .bytes = bytes,
                           .read = read_checkpoint,
                           .flips = flips,
                           .cuts = {DAMAGE_REFUSED, last, has_line}};
    damage_check(&c);
    free(data);
}

static void weights(void **state)
{
    (void)state;
    check("model.safetensors", (damage_rules){.usual = DAMAGE_REFUSED}, false);
}

static void state_of_a_rank(void **state)
{
    (void)state;
    check("rank-00000-of-00001.safetensors",
          (damage_rules){.usual = DAMAGE_REFUSED}, false);
}

/* Its last byte is the end of the line. */
static void manifest(void **state)
{
    (void)state;
    check("manifest.json", (damage_rules){.usual = DAMAGE_VALUES}, true);
}

static int begin(void **state)
{
    if (damage_begin(state) != 0 || ls_group_open_threads(&group, 1) != LS_OK)
        return -1;
    save();
    return 0;
}

static int end(void **state)
{
    ls_group_close(&group);
    return damage_end(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights),
        cmocka_unit_test(state_of_a_rank),
        cmocka_unit_test(manifest),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
