/*
 * Weights divided over nodes: what a program sees. Each rank compares them with
 * those of a second set, which strategy flat trains on the same samples. The
 * second argument is shard_over of ls_ddp_options.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/comm/ranks.h"
#include "lockstep/lockstep.h"

enum { LAYERS = 6, WIDTH = 96, WORDS = 70, ROWS = 5, STEPS = 6 };

typedef struct net {
    ls_params *params;
    ls_tensor *table, *weight[LAYERS], *bias[LAYERS];
    ls_ddp *ddp;
    ls_optimizer *adamw;
    ls_tape *tape;
} net;

/* Two layers are frozen. */
static void freeze(const net *n)
{
    ls_tensor *const frozen[] = {n->weight[1], n->bias[1], n->weight[4]};
    for (size_t i = 0; i < sizeof(frozen) / sizeof(frozen[0]); i++)
        CHECK_OK(ls_params_set_trainable(n->params, frozen[i], false));
}

static void make(net *n, ls_group *group, ls_ddp_strategy strategy, int over,
                 uint64_t seed)
{
    const ls_init normal = {LS_INIT_NORMAL, 0, 0.1};
    ls_ddp_options how = LS_DDP_OPTIONS_INIT;
    *n = (net){.params = NULL};
    CHECK_OK(ls_params_new(&n->params));
    CHECK_OK(ls_params_add(n->params, "table.weight", 2,
                           (int64_t[]){WORDS, WIDTH}, normal, &n->table));
    for (int i = 0; i < LAYERS; i++) {
        char name[32];
        snprintf(name, sizeof(name), "blocks.%d.weight", i);
        CHECK_OK(ls_params_add(n->params, name, 2, (int64_t[]){WIDTH, WIDTH},
                               normal, &n->weight[i]));
        snprintf(name, sizeof(name), "blocks.%d.bias", i);
        CHECK_OK(ls_params_add(n->params, name, 1, (int64_t[]){WIDTH}, normal,
                               &n->bias[i]));
    }
    freeze(n);
    CHECK_OK(ls_params_allocate(n->params, group, seed));
    how.strategy = strategy;
    how.shard_over = (size_t)over;
    if (strategy == LS_DDP_FSDP)
        how.bucket_bytes = 20000;
    CHECK_OK(ls_ddp_new(&n->ddp, group, n->params, &how));
    CHECK_OK(ls_optimizer_new(
        &n->adamw, n->params,
        &(ls_optimizer_spec){.adamw = &(ls_adamw_options){.lr = 0.01}}));
    CHECK_OK(ls_tape_new(&n->tape));
}

static void destroy(net *n)
{
    ls_tape_free(&n->tape);
    ls_optimizer_free(&n->adamw);
    ls_ddp_free(&n->ddp);
    ls_params_free(&n->params);
}

static void *data_of(ls_tensor *tensor)
{
    void *data = NULL;
    CHECK_OK(ls_tensor_map(tensor, &data));
    return data;
}

/*
 * The first `layers` of the layers, of words from a seed; after the last one
 * the table multiplies again.
 */
static ls_tensor *pass_of(net *n, int seed, int layers)
{
    ls_tensor *words = NULL, *x;
    CHECK_OK(ls_tensor_new(&words, LS_I64, 1, (int64_t[]){ROWS}));
    int64_t *const at = data_of(words);
    for (int i = 0; i < ROWS; i++)
        at[i] = (seed * 31 + i * 7) % WORDS;
    x = ls_embedding(n->tape, n->table, words);
    for (int i = 0; i < layers; i++)
        x = ls_relu(n->tape, ls_linear(n->tape, x, n->weight[i], n->bias[i]));
    if (layers == LAYERS)
        x = ls_cross_entropy(n->tape, ls_linear(n->tape, x, n->table, NULL),
                             words, NULL);
    CHECK_OK(ls_tape_status(n->tape));
    ls_tensor_free(&words);
    return x;
}

static ls_tensor *loss_of(net *n, int seed)
{
    return pass_of(n, seed, LAYERS);
}

static void step_with(net *n, const ls_group *group, int step, bool idle)
{
    const int seed = step * 100 + ls_group_rank(group);
    ls_params_zero_grad(n->params);
    ls_tensor *const loss = idle ? NULL : loss_of(n, seed);
    CHECK_OK(ls_ddp_backward(n->ddp, n->tape, loss, idle ? 0 : ROWS));
    CHECK_OK(ls_optimizer_step(n->adamw, 1.0));
    ls_tape_reset(n->tape);
}

/* In every second step rank 1 has no samples. */
static void train(net *n, const ls_group *group, int step)
{
    step_with(n, group, step, ls_group_rank(group) == 1 && step % 2 == 1);
}

static void check_equal(const net *divided, const net *flat)
{
    for (size_t i = 0; i < ls_params_count(flat->params); i++) {
        ls_tensor *const a = ls_params_get(divided->params, i);
        ls_tensor *const b = ls_params_get(flat->params, i);
        CHECK_OK(ls_params_fetch(divided->params, i));
        CHECK(memcmp(data_of(a), data_of(b),
                     (size_t)ls_tensor_count(a) * sizeof(float)) == 0);
        ls_params_release(divided->params, i);
    }
}

/* ---- addresses ----------------------------------------------------------- */

static void check_addresses(const net *divided)
{
    void *data = NULL;
    size_t count = 0;
    CHECK(ls_params_flat(divided->params, &count) == NULL && count > 0);
    CHECK(ls_tensor_map(divided->weight[2], &data) == LS_ERR_STATE);
    CHECK(strstr(ls_last_error(), "blocks.2.weight") != NULL);
    CHECK_OK(ls_params_fetch(divided->params, 0));
    CHECK_OK(ls_params_fetch(divided->params, 0));
    ls_params_release(divided->params, 0);
    CHECK_OK(ls_tensor_map(divided->table, &data));
    ls_params_release(divided->params, 0);
    CHECK(ls_tensor_map(divided->table, &data) == LS_ERR_STATE);
    CHECK(ls_params_fetch(divided->params, 999) == LS_ERR_ARGUMENT);
}

/* A rank that has not released a parameter fails the step on all ranks. */
static void check_release(net *divided, const ls_group *group)
{
    const bool fetches = ls_group_rank(group) == 0;
    ls_params_zero_grad(divided->params);
    CHECK_OK(ls_ddp_backward(divided->ddp, divided->tape, loss_of(divided, 1),
                             ROWS));
    if (fetches)
        CHECK_OK(ls_params_fetch(divided->params, 3));
    CHECK(ls_optimizer_step(divided->adamw, 1.0) == LS_ERR_STATE);
    CHECK(strstr(ls_last_error(), "blocks.1.weight") != NULL);
    if (fetches)
        ls_params_release(divided->params, 3);
    ls_tape_reset(divided->tape);
}

/*
 * The first rank of a node has asked for layers ahead, and waits in a barrier
 * for the others, who need them.
 */
static void check_waiting(net *n, ls_group *group)
{
    const bool first = ls_group_local_rank(group) == 0;
    ls_tape_set_training(n->tape, false);
    (void)pass_of(n, 7, first ? 1 : LAYERS);
    ls_tape_reset(n->tape);
    CHECK_OK(ls_barrier(group));
    ls_tape_set_training(n->tape, true);
}

/* ---- ranks that do different things -------------------------------------- */

/* Rank r has r batches, so rank 0 never has one. */
static void train_unevenly(net *n, const ls_group *group)
{
    bool any = false;
    for (int i = 0;; i++) {
        const bool have = i < ls_group_rank(group);
        CHECK_OK(ls_ddp_join(n->ddp, have, &any));
        if (!any)
            return;
        step_with(n, group, 50 + i, !have);
    }
}

static double validate(net *n, int seed)
{
    double loss = 0;
    CHECK_OK(ls_tensor_item(loss_of(n, seed), &loss));
    ls_tape_reset(n->tape);
    return loss;
}

/* The last rank validates several batches more than the first. */
static void check_validation(net *divided, net *flat, ls_group *group)
{
    ls_tape_set_training(divided->tape, false);
    ls_tape_set_training(flat->tape, false);
    for (int i = 0; i <= 3 * ls_group_rank(group); i++)
        CHECK(validate(divided, i) == validate(flat, i));
    CHECK_OK(ls_barrier(group));
    ls_tape_set_training(divided->tape, true);
    ls_tape_set_training(flat->tape, true);
}

/* Rank 0 reads all weights while the others go on, and wait for it. */
static void read_alone(const net *divided, const net *flat,
                       const ls_group *group)
{
    if (ls_group_rank(group) == 0)
        check_equal(divided, flat);
}

static void check_reading(net *divided, net *flat, ls_group *group)
{
    const int rank = ls_group_rank(group);
    bool any = false;
    read_alone(divided, flat, group);
    CHECK_OK(ls_barrier(group)); /* here */
    read_alone(divided, flat, group);
    CHECK_OK(ls_ddp_join(divided->ddp, true, &any)); /* here */
    read_alone(divided, flat, group);
    for (int i = 0; rank > 0 && i < 3; i++)
        (void)validate(divided, i); /* or compute */
    CHECK_OK(ls_barrier(group));
    ls_params_zero_grad(divided->params);
    read_alone(divided, flat, group);
    CHECK_OK(ls_ddp_backward(divided->ddp, divided->tape,
                             loss_of(divided, 9000 + rank), ROWS)); /* here */
    read_alone(divided, flat, group);
    CHECK_OK(ls_optimizer_step(divided->adamw, 1.0)); /* or here */
    ls_tape_reset(divided->tape);
    step_with(flat, group, 90, false);
    check_equal(divided, flat);
}

/* ---- memory and traffic -------------------------------------------------- */

static size_t live(void)
{
    ls_memory_stats stats;
    ls_memory_of(LS_MEMORY_PARAMETERS, &stats);
    return stats.live_bytes;
}

static int64_t sum(ls_group *group, int64_t mine)
{
    CHECK_OK(ls_all_reduce(group, &mine, &mine, 1, LS_I64, LS_REDUCE_SUM));
    return mine;
}

static int64_t nodes_of(ls_group *group)
{
    return sum(group, ls_group_local_rank(group) == 0);
}

/* Bytes of weights of all ranks: a copy on every `over` nodes. */
static void check_memory(ls_group *group, size_t mine, size_t weights,
                         int64_t over)
{
    const int64_t copies = nodes_of(group) / over;
    const int64_t slack = 4096 * ls_group_size(group) * copies;
    const int64_t all = sum(group, (int64_t)mine);
    CHECK(all >= copies * (int64_t)weights);
    CHECK(all <= copies * (int64_t)weights + slack);
}

/* Over one node each rank has its own frozen parameters. */
static void check_weights(ls_group *group, const net *divided, size_t mine,
                          int64_t over)
{
    size_t count, all = (size_t)ls_params_numel(divided->params);
    ls_params_flat(divided->params, &count);
    if (over == 1) {
        mine -= (all - count) * sizeof(float);
        all = count;
    }
    check_memory(group, mine, all * sizeof(float), over);
}

/*
 * A forward pass of all ranks brings each weight once to each node that does
 * not keep it, except the table: it is used twice in a pass, and stays. One of
 * `over` nodes keeps it.
 */
static void check_traffic(net *divided, ls_group *group, int64_t over)
{
    ls_group_counters before, after;
    const int64_t count = ls_params_numel(divided->params);
    const int64_t nodes = nodes_of(group);
    ls_tape_set_training(divided->tape, false);
    (void)loss_of(divided, 3); /* it has used the table twice now */
    ls_tape_reset(divided->tape);
    CHECK_OK(ls_barrier(group)); /* nobody asks any more */
    ls_group_get_counters(group, &before);
    CHECK_OK(ls_barrier(group)); /* or asks again */
    (void)loss_of(divided, 3);
    ls_tape_reset(divided->tape);
    CHECK_OK(ls_barrier(group));
    ls_group_get_counters(group, &after);
    ls_tape_set_training(divided->tape, true);
    const double bytes = (double)count * sizeof(float);
    const double table = (double)WORDS * WIDTH * sizeof(float);
    const double most = (bytes - table) * (double)(nodes - nodes / over);
    const double sent =
        (double)sum(group, (int64_t)(after.bytes_sent - before.bytes_sent));
    /*
     * Of ranks that share a node, one may still have what another asks for, or
     * have let it go already. At most two share one.
     */
    const bool apart = nodes == ls_group_size(group);
    CHECK(sent <= most * (apart ? 1.02 : 2.02));
    CHECK(sent >= (apart ? most : 0));
}

/* A text that is read in pieces keeps no more layers than a window has. */
static void check_pieces(ls_group *group)
{
    enum { WINDOW = 3, TOKENS = 1100 };
    ls_transformer_config config = {.layers = 12,
                                    .d_model = 32,
                                    .heads = 2,
                                    .d_ff = 64,
                                    .vocabulary = 40,
                                    .context = TOKENS};
    ls_transformer *model = NULL;
    ls_transformer_cache *cache = NULL;
    ls_tensor *tokens = NULL;
    net n = {.params = NULL};
    ls_ddp_options how = LS_DDP_OPTIONS_INIT;
    how.strategy = LS_DDP_FSDP;
    CHECK_OK(ls_params_new(&n.params));
    CHECK_OK(ls_transformer_new(&model, n.params, &config));
    CHECK_OK(ls_params_allocate(n.params, group, 3));
    CHECK_OK(ls_ddp_new(&n.ddp, group, n.params, &how));
    CHECK_OK(ls_tape_new(&n.tape));
    ls_tape_set_training(n.tape, false);
    CHECK_OK(ls_transformer_cache_new(&cache, model, 1, 0));
    CHECK_OK(ls_tensor_zeros(&tokens, LS_I64, 2, (int64_t[]){1, TOKENS}));
    const size_t before = live();
    CHECK(ls_transformer_extend(model, n.tape, cache, 0, tokens) != NULL);
    const size_t all = (size_t)ls_params_numel(n.params) * sizeof(float);
    CHECK((live() - before) * (size_t)ls_group_local_size(group) <=
          all * (WINDOW + 1) / 12);
    ls_tensor_free(&tokens);
    ls_transformer_cache_free(&cache);
    ls_tape_free(&n.tape);
    ls_ddp_free(&n.ddp);
    ls_transformer_free(&model);
    ls_params_free(&n.params);
}

/* ---- files --------------------------------------------------------------- */

/* Rank 0 saves alone. All load; a rank without the file fails alone. */
static void check_files(const net *divided, ls_group *group, const char *path)
{
    const int rank = ls_group_rank(group);
    if (rank == 0)
        CHECK_OK(ls_params_save(divided->params, path, NULL));
    CHECK_OK(ls_barrier(group));
    CHECK_OK(ls_params_load(divided->params, path));
    const ls_status status =
        ls_params_load(divided->params, rank == 1 ? "/none" : path);
    CHECK((status == LS_OK) == (rank != 1));
    CHECK(rank != 1 || strstr(ls_last_error(), "/none") != NULL);
}

/* A number of nodes that does not fit is refused, with those that do. */
static void check_refusal(ls_group *group)
{
    ls_ddp_options how = LS_DDP_OPTIONS_INIT;
    const int64_t nodes = nodes_of(group);
    ls_params *params = NULL;
    ls_ddp *ddp = NULL;
    char text[64];
    CHECK_OK(ls_params_new(&params));
    CHECK_OK(ls_params_add(params, "w", 1, (int64_t[]){9},
                           (ls_init){LS_INIT_NORMAL, 0, 1}, NULL));
    CHECK_OK(ls_params_allocate(params, group, 1));
    how.strategy = LS_DDP_FSDP;
    how.shard_over = (size_t)nodes + 1;
    CHECK(ls_ddp_new(&ddp, group, params, &how) == LS_ERR_ARGUMENT);
    snprintf(text, sizeof(text), "over %d of %d nodes", (int)nodes + 1,
             (int)nodes);
    CHECK(strstr(ls_last_error(), text) != NULL);
    CHECK(strstr(ls_last_error(), nodes == 4   ? "that fit: 1, 2, 4"
                                  : nodes == 3 ? "that fit: 3"
                                               : "that fit: 1, 2") != NULL);
    ls_params_free(&params);
}

/* ---- pointers that are not valid any more -------------------------------- */

/*
 * The last rank reads weights that it does not have: "released" frozen ones
 * through a pointer that was valid until ls_params_release, "early" others at
 * an address next to weights that it has asked for.
 */
static void read_absent(net *n, const ls_group *group, const char *how)
{
    const size_t kept = ls_params_count(n->params) - 2; /* of the first rank */
    const bool early = strcmp(how, "early") == 0;
    const size_t read = early ? kept - 4 : kept - 8;
    const float *values = NULL;
    if (ls_group_rank(group) != ls_group_size(group) - 1)
        return;
    if (!early) {
        CHECK_OK(ls_params_fetch(n->params, read));
        values = data_of(ls_params_get(n->params, read));
        CHECK(values[WIDTH * WIDTH / 2] != 0);
        ls_params_release(n->params, read);
    }
    CHECK_OK(ls_params_fetch(n->params, kept));
    const float *const near = data_of(ls_params_get(n->params, kept));
    printf("kept %g\n", (double)near[WIDTH * WIDTH / 2]);
    fflush(stdout);
    if (early)
        values = near + ls_params_offset(n->params, read) -
                 ls_params_offset(n->params, kept);
    printf("absent %g\n", (double)values[WIDTH * WIDTH / 2]);
}

/* Other weights, also frozen ones, replace those that ranks have rounded. */
static void check_loading(net *divided, net *flat, ls_group *group,
                          const char *path)
{
    net other;
    make(&other, group, LS_DDP_FLAT, 0, 6);
    if (ls_group_rank(group) == 0)
        CHECK_OK(ls_params_save(other.params, path, NULL));
    CHECK_OK(ls_barrier(group));
    CHECK_OK(ls_params_load(divided->params, path));
    CHECK_OK(ls_params_load(flat->params, path));
    check_equal(divided, &other);
    check_validation(divided, flat, group);
    destroy(&other);
}

/* ---- halves -------------------------------------------------------------- */

static void check_halves(net *divided, net *flat, ls_group *group,
                         const char *path)
{
    CHECK_OK(ls_params_load(flat->params, path)); /* as divided */
    CHECK_OK(ls_params_load(divided->params, path));
    CHECK_OK(ls_tape_set_autocast(divided->tape, LS_BF16));
    CHECK_OK(ls_tape_set_autocast(flat->tape, LS_BF16));
    check_validation(divided, flat, group);
    check_loading(divided, flat, group, path);
    train_unevenly(divided, group);
    train_unevenly(flat, group);
    check_equal(divided, flat);
}

int main(int argc, char **argv)
{
    ls_group *group = NULL;
    net divided, flat;
    CHECK(argc == 3);
    CHECK_OK(ls_group_from_env(&group));
    const int given = atoi(argv[2]);
    const int64_t over = given > 0 ? given : nodes_of(group);
    if (given < 0) {
        make(&divided, group, LS_DDP_FSDP, 0, 5);
        read_absent(&divided, group, argv[1]);
        CHECK(ls_barrier(group) != LS_OK); /* the last rank has died */
        return 3;
    }
    check_refusal(group);
    const size_t before = live();
    make(&divided, group, LS_DDP_FSDP, given, 5);
    check_weights(group, &divided, live() - before, over);
    make(&flat, group, LS_DDP_FLAT, given, 5); /* which ignores the option */
    if (over > 1)
        check_addresses(&divided);
    check_equal(&divided, &flat);
    for (int step = 0; step < STEPS; step++) {
        train(&divided, group, step);
        train(&flat, group, step);
    }
    check_equal(&divided, &flat);
    if (ls_group_rank(group) == 0) { /* alone, while the others wait */
        ls_tape_set_training(divided.tape, false);
        for (int pass = 0; pass < 3; pass++) {
            (void)loss_of(&divided, pass);
            ls_tape_reset(divided.tape);
        }
        ls_tape_set_training(divided.tape, true);
    }
    CHECK_OK(ls_barrier(group));
    check_files(&divided, group, argv[1]);
    check_equal(&divided, &flat);
    train_unevenly(&divided, group);
    train_unevenly(&flat, group);
    check_equal(&divided, &flat);
    check_validation(&divided, &flat, group);
    check_reading(&divided, &flat, group);
    check_waiting(&divided, group);
    if (over > 1)
        check_release(&divided, group);
    check_traffic(&divided, group, over);
    check_pieces(group);
    check_halves(&divided, &flat, group, argv[1]);
    destroy(&flat);
    destroy(&divided);
    ls_group_close(&group);
    puts("equal");
    return 0;
}
