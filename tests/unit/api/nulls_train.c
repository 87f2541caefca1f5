/* Optimizers, data parallelism and checkpoints. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/sha256.h"
#include "unit/api/nulls.h"

static const ls_init zeros = {LS_INIT_CONSTANT, 0, 0};
static const int64_t shape23[] = {2, 3}, three[] = {3};

static ls_params *make_params(ls_group *group, ls_tensor **w, ls_tensor **v)
{
    ls_params *params = NULL;
    assert_ok(ls_params_new(&params));
    assert_ok(ls_params_add(params, "w", 2, shape23, zeros, w));
    assert_ok(ls_params_add(params, "v", 1, three, zeros, v));
    assert_ok(ls_params_allocate(params, group, 1));
    return params;
}

/* ---- optimizers ---------------------------------------------------------- */

static void nulls_of_clipping(ls_params *params)
{
    double scale = 1, norm;
    bool finite;
    ls_clip *clip = NULL, *none = NULL;
    REFUSES(ls_clip_new, "out params", P(out, &clip), P(params, params), 1);
    assert_ok(ls_clip_new(&clip, params, 1));
    REFUSES(ls_clip_grad, "clip grad_scale", P(clip, clip),
            P(grad_scale, &scale), &norm, &finite);
    TAKES(ls_clip_grad, "norm finite", clip, &scale, P(norm, &norm),
          P(finite, &finite));
    ls_clip_free(&none);
    ls_clip_free(&clip);
}

/* Without a spec a group is all parameters, which a second one cannot have. */
static void nulls_of_groups_of_parameters(ls_params *params, ls_tensor *w)
{
    ls_tensor *const none[] = {NULL};
    ls_optimizer *o = NULL;
    TAKES(ls_optimizer_new, "spec", &o, params, NULL);
    nulls_begin("ls_optimizer_add_group", "spec");
    assert_true(nulls_next());
    assert_error(ls_optimizer_add_group(o, NULL), LS_ERR_ARGUMENT,
                 "'w' is already in parameter group 0");
    assert_error(ls_optimizer_add_group(
                     o, &(ls_optimizer_spec){.tensors = none, .n = 1}),
                 LS_ERR_ARGUMENT, "only parameters");
    REFUSES(ls_optimizer_add_group, "optimizer", P(optimizer, o),
            &(ls_optimizer_spec){.tensors = &w, .n = 1});
    ls_optimizer_free(&o);
}

void nulls_of_optimizers(void **state)
{
    ls_tensor *w, *v;
    ls_params *params = make_params(NULL, &w, &v);
    ls_optimizer *o = NULL;
    (void)state;
    REFUSES(ls_optimizer_new, "out params", P(out, &o), P(params, params),
            NULL);
    assert_null(o);
    ls_optimizer_free(&o);
    nulls_of_groups_of_parameters(params, w);
    nulls_of_clipping(params);
    ls_params_free(&params);
}

/* ---- data parallelism ---------------------------------------------------- */

static void nulls_of_ddp(ls_group *group, ls_params *params)
{
    const ls_ddp_options options = LS_DDP_OPTIONS_INIT;
    ls_ddp *ddp = NULL, *none = NULL;
    ls_tape *tape = NULL;
    bool any;
    REFUSES(ls_ddp_new, "out group params", P(out, &ddp), P(group, group),
            P(params, params), &options);
    TAKES(ls_ddp_new, "options", &ddp, group, params, NULL);
    assert_ok(ls_tape_new(&tape));
    REFUSES(ls_ddp_backward, "ddp tape", P(ddp, ddp), P(tape, tape), NULL, 0);
    REFUSES(ls_ddp_accumulate, "ddp tape", P(ddp, ddp), P(tape, tape), NULL, 0);
    REFUSES(ls_ddp_accumulate, "loss", ddp, tape, NULL, 1);
    REFUSES(ls_ddp_backward, "loss", ddp, tape, NULL, 1);
    REFUSES(ls_ddp_compare_state, "ddp", P(ddp, ddp), NULL, 1);
    TAKES(ls_ddp_compare_state, "optimizer", ddp, NULL, 1);
    REFUSES(ls_ddp_join, "ddp any", P(ddp, ddp), false, P(any, &any));
    ls_tape_fail(tape, LS_ERR_IO, "the first");
    assert_error(ls_tape_watch(tape, NULL), LS_ERR_IO, "the first");
    assert_error(ls_ddp_backward(ddp, tape, NULL, 1), LS_ERR_IO, "the first");
    ls_tape_free(&tape);
    ls_ddp_free(&none);
    ls_ddp_free(&ddp);
}

static void nulls_of_ranges(ls_group *group)
{
    const ls_ddp_options options = LS_DDP_OPTIONS_INIT;
    float data[4] = {0};
    const ls_ddp_range range = {data, 4};
    ls_ddp *ddp = NULL;
    REFUSES(ls_ddp_new_ranges, "out group ranges", P(out, &ddp),
            P(group, group), P(ranges, &range), 1, &options);
    assert_null(ddp);
    TAKES(ls_ddp_new_ranges, "options", &ddp, group, &range, 1, NULL);
    ls_ddp_free(&ddp);
}

static void nulls_of_sync_bn(ls_group *group)
{
    ls_params *params = NULL;
    ls_sync_bn *bn = NULL, *none = NULL;
    ls_tape *tape = NULL;
    ls_tensor *x = NULL;
    assert_ok(ls_params_new(&params));
    REFUSES(ls_sync_bn_new, "out group params name", P(out, &bn),
            P(group, group), P(params, params), P(name, "n"), 3, NULL);
    TAKES(ls_sync_bn_new, "options", &bn, group, params, "n", 3, NULL);
    assert_ok(ls_params_allocate(params, NULL, 1));
    assert_ok(ls_tape_new(&tape));
    assert_ok(ls_tensor_zeros(&x, LS_F32, 2, shape23));
    STOPS(tape, ls_sync_bn_forward, "bn tape x", P(bn, bn), P(tape, tape),
          P(x, x), NULL);
    MAKES(ls_sync_bn_forward, "residual", bn, tape, x, NULL);
    ls_tensor_free(&x);
    ls_tape_free(&tape);
    ls_sync_bn_free(&none);
    ls_sync_bn_free(&bn);
    ls_params_free(&params);
}

void nulls_of_data_parallelism(void **state)
{
    ls_group *group = NULL;
    ls_tensor *w, *v;
    (void)state;
    assert_ok(ls_group_open_threads(&group, 1));
    ls_params *params = make_params(group, &w, &v);
    nulls_of_ddp(group, params);
    nulls_of_ranges(group);
    nulls_of_sync_bn(group);
    ls_params_free(&params);
    ls_group_close(&group);
}

/* ---- checkpoints --------------------------------------------------------- */

static void remove_checkpoint(const char *folder)
{
    static const char *const names[] = {"manifest.json", "model.safetensors",
                                        "rank-00000-of-00001.safetensors", ""};
    char path[128];
    snprintf(path, sizeof path, "%s/.lock", folder);
    assert_int_equal(remove(path), 0);
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/step-000000000001/%s", folder,
                 names[i]);
        assert_int_equal(remove(path), 0);
    }
    assert_int_equal(rmdir(folder), 0);
}

void nulls_of_checkpoints(void **state)
{
    char folder[] = "/tmp/lockstep-nulls-XXXXXX";
    ls_group *group = NULL;
    ls_tensor *w, *v;
    ls_checkpoint *c = NULL, *none = NULL;
    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_ok(ls_group_open_threads(&group, 1));
    ls_params *params = make_params(NULL, &w, &v);
    const ls_checkpoint_parts parts = {.params = params}, nothing = {0};
    REFUSES(ls_checkpoint_save, "group folder parts", P(group, group),
            P(folder, folder), 1, P(parts, &parts), 0);
    assert_error(ls_checkpoint_save(group, folder, 1, &nothing, 0),
                 LS_ERR_ARGUMENT, "parts->params is NULL");
    assert_ok(ls_checkpoint_save(group, folder, 1, &parts, 0));
    REFUSES(ls_checkpoint_open, "out group folder", P(out, &c), P(group, group),
            P(folder, folder));
    assert_ok(ls_checkpoint_open(&c, group, folder));
    assert_int_equal(ls_checkpoint_step(NULL), -1);
    GIVES(NULL, ls_checkpoint_value, "checkpoint key", P(checkpoint, c),
          P(key, "k"));
    REFUSES(ls_checkpoint_load, "checkpoint params", P(checkpoint, c),
            P(params, params), NULL);
    TAKES(ls_checkpoint_load, "optimizer", c, params, NULL);
    ls_checkpoint_close(&none);
    ls_checkpoint_close(&c);
    ls_params_free(&params);
    ls_group_close(&group);
    remove_checkpoint(folder);
}

void nulls_of_audits(void **state)
{
    char folder[] = "/tmp/lockstep-nulls-XXXXXX", path[64];
    ls_group *group = NULL;
    ls_tensor *w, *v;
    ls_audit *audit = NULL, *none = NULL;
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/audit", folder);
    assert_ok(ls_group_open_threads(&group, 1));
    ls_params *params = make_params(NULL, &w, &v);
    const ls_audit_setup setup = {.params = params}, nothing = {0};
    REFUSES(ls_audit_open, "out group path setup", P(out, &audit),
            P(group, group), P(path, path), P(setup, &setup));
    assert_error(ls_audit_open(&audit, group, path, &nothing), LS_ERR_ARGUMENT,
                 "setup->params is NULL");
    /* A build without nettle opens none. */
    const bool opens = lsi_sha256_is_there();
    assert_int_equal(ls_audit_open(&audit, group, path, &setup),
                     opens ? LS_OK : LS_ERR_UNSUPPORTED);
    REFUSES(ls_audit_step, "audit", P(audit, audit), 0, NULL);
    GIVES(opens ? LS_OK : LS_ERR_ARGUMENT, ls_audit_step, "values", audit, 0,
          NULL);
    assert_null(ls_audit_digest(NULL));
    ls_audit_close(&none);
    ls_audit_close(NULL);
    ls_audit_close(&audit);
    ls_params_free(&params);
    ls_group_close(&group);
    assert_int_equal(remove(path), opens ? 0 : -1);
    assert_int_equal(remove(folder), 0);
}
