/*
 * The digest of a state as state_digest.h defines it, on any number of ranks;
 * and the block that a wrong bit is in.
 */
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>

#include "lockstep/params.h"
#include "model/audit/entry.h"
#include "model/audit/leaves.h"
#include "unit/comm/ranks.h"

enum { MOST_RANKS = 4 };

/* ---- the definition ------------------------------------------------------ */

/* Sizes around leaves and blocks, and one that is smaller than its padding. */
static const int64_t sizes[] = {5, 4096, 4097, 3, 70000, 1, 65536, 131073};
enum { TENSORS = sizeof(sizes) / sizeof(sizes[0]) };

typedef struct reference {
    unsigned char root[LSI_SHA256_BYTES];
} reference;

static void digest(const void *data, size_t bytes,
                   unsigned char out[LSI_SHA256_BYTES])
{
    lsi_sha256(&(lsi_sha256_piece){data, bytes}, 1, out);
}

/* From the whole tensor, as the header says. */
static void add_tensor(reference *r, const char *name, const float *data,
                       size_t count)
{
    unsigned char leaves[64][LSI_SHA256_BYTES];
    unsigned char blocks[LSI_STATE_BLOCKS][LSI_SHA256_BYTES];
    unsigned char tensor[LSI_SHA256_BYTES];
    size_t n = 0, each = 1, n_blocks = 0;
    for (size_t at = 0; at < count; at += LSI_LEAF)
        digest(data + at,
               (count - at < LSI_LEAF ? count - at : LSI_LEAF) * sizeof(float),
               leaves[n++]);
    while ((n + each - 1) / each > LSI_STATE_BLOCKS)
        each *= 2;
    for (size_t i = 0; i < n; i += each)
        digest(leaves[i], (n - i < each ? n - i : each) * LSI_SHA256_BYTES,
               blocks[n_blocks++]);
    digest(blocks, n_blocks * LSI_SHA256_BYTES, tensor);
    const lsi_sha256_piece pieces[] = {{r->root, sizeof(r->root)},
                                       {name, strlen(name) + 1},
                                       {"f32", 4},
                                       {tensor, sizeof(tensor)}};
    lsi_sha256(pieces, 4, r->root);
}

/* Parameters, of which one is frozen, and two buffers. */
static ls_params *make_params(ls_group *group)
{
    ls_params *params;
    ls_tensor *tensor;
    char name[16];
    const ls_init init = {LS_INIT_UNIFORM, -1, 1};
    CHECK_OK(ls_params_new(&params));
    for (int i = 0; i < TENSORS; i++) {
        snprintf(name, sizeof(name), i < 6 ? "w%d" : "b%d", i);
        CHECK_OK((i < 6 ? ls_params_add : ls_params_add_buffer)(
            params, name, 1, &sizes[i], init, &tensor));
        if (i == 4)
            CHECK_OK(ls_params_set_trainable(params, tensor, false));
    }
    CHECK_OK(ls_params_allocate(params, group, 7));
    return params;
}

static reference digest_params(ls_params *params)
{
    reference r = {{0}};
    for (size_t i = 0; i < ls_params_count(params); i++)
        add_tensor(&r, ls_params_name(params, i),
                   tensor_data(ls_params_get(params, i)), (size_t)sizes[i]);
    for (size_t i = 0; i < ls_params_buffer_count(params); i++)
        add_tensor(&r, ls_params_buffer_name(params, i),
                   tensor_data(ls_params_buffer(params, i)),
                   (size_t)sizes[6 + i]);
    return r;
}

static void play_definition(ls_group *group, void *unused)
{
    ls_params *params = make_params(group);
    lsi_state_digest *state = NULL;
    const reference wanted = digest_params(params);
    (void)unused;
    CHECK_OK(lsi_state_digest_new(&state, group, params, NULL));
    for (int again = 0; again < 2; again++) {
        CHECK_OK(lsi_state_digest_compute(state));
        CHECK(ls_group_rank(group) != 0 ||
              memcmp(lsi_state_digest_root(state), wanted.root,
                     sizeof(wanted.root)) == 0);
    }
    lsi_state_digest_free(&state);
    ls_params_free(&params);
}

static void test_definition(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= MOST_RANKS; ranks++)
        run_threads(ranks, play_definition, NULL);
    run_processes(3, play_definition, NULL);
}

/* ---- one bit ------------------------------------------------------------- */

static json_t *entry_of(lsi_state_digest *state)
{
    json_t *entry;
    CHECK_OK(lsi_state_digest_compute(state));
    CHECK_OK(lsi_entry_new(state, "step", 1, NULL, &entry));
    return entry;
}

static void flip(ls_params *params, lsi_state_digest *state,
                 const json_t *before, size_t i)
{
    lsi_difference difference;
    char wanted[64];
    const bool buffer = i >= ls_params_count(params);
    const ls_tensor *const tensor =
        buffer ? ls_params_buffer(params, i - ls_params_count(params))
               : ls_params_get(params, i);
    const size_t count = (size_t)sizes[i],
                 at = count - 1 - (size_t)rand() % count;
    const size_t each = sizes[i] == 131073  ? 4 * LSI_LEAF
                        : sizes[i] == 70000 ? 2 * LSI_LEAF
                                            : LSI_LEAF;
    uint32_t *const bits = tensor_data(tensor);
    bits[at] ^= UINT32_C(1) << rand() % 32;
    json_t *const after = entry_of(state);
    assert_false(lsi_entry_equal(before, after, &difference));
    snprintf(wanted, sizeof(wanted), "tensor '%c%zu', block %zu (elements %zu",
             buffer ? 'b' : 'w', i, at / each, at / each * each);
    if (strncmp(difference.text, wanted, strlen(wanted)) != 0)
        fail_msg("%s, not %s", difference.text, wanted);
    json_decref(after);
}

static void test_one_bit(void **state)
{
    ls_group *group;
    lsi_state_digest *digests = NULL;
    (void)state;
    srand(1);
    assert_ok(ls_group_open_threads(&group, 1));
    ls_params *params = make_params(group);
    assert_ok(lsi_state_digest_new(&digests, group, params, NULL));
    for (int i = 0; i < 200; i++) {
        json_t *const before = entry_of(digests);
        flip(params, digests, before, (size_t)rand() % TENSORS);
        json_decref(before);
    }
    lsi_state_digest_free(&digests);
    ls_params_free(&params);
    ls_group_close(&group);
}

/* Lanes of different bytes at odd addresses, by the library's SHA-256. */
static void test_lanes(void **state)
{
    enum { MOST = 16384, GAP = 1 };
    static const size_t lengths[] = {0, 64, 128, 192, 4096, MOST};
    static unsigned char bytes[LSI_LANES * (MOST + GAP) + 1];
    unsigned char own[LSI_LANES][LSI_SHA256_BYTES], wanted[LSI_SHA256_BYTES];
    (void)state;
    if (!lsi_lanes_are_there())
        skip();
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)rand();
    for (size_t n = 0; n < TEST_COUNT(lengths); n++) {
        lsi_lanes lanes;
        for (size_t l = 0; l < LSI_LANES; l++) {
            lanes.data[l] = bytes + 1 + l * (MOST + GAP);
            lanes.digest[l] = own[l];
        }
        lsi_sha256_lanes(&lanes, lengths[n]);
        for (size_t l = 0; l < LSI_LANES; l++) {
            digest(lanes.data[l], lengths[n], wanted);
            assert_memory_equal(own[l], wanted, sizeof(wanted));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_definition),
                                       cmocka_unit_test(test_one_bit),
                                       cmocka_unit_test(test_lanes)};
    return lsi_sha256_is_there() ? cmocka_run_group_tests(tests, NULL, NULL)
                                 : 77;
}
