/*
 * Checkpoints: a manifest, which gets a checksum that fits unless the first
 * byte says otherwise; or the file of a rank, of which a checkpoint that is
 * open already makes parameters and the state of an optimizer.
 */
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "fuzz.h"
#include "model/checkpoint/manifest.h"
#include "model/checkpoint/optimizer_json.h"
#include "train/jobs/totals.h"

static ls_group *group;
static ls_params *params;
static ls_optimizer *optimizer;
static ls_checkpoint *saved;

static void make_model(void)
{
    const ls_init ones = {LS_INIT_CONSTANT, 1, 0};
    const int64_t shape[] = {2, 3};
    ls_tensor *tensor = NULL;
    fuzz_demand(ls_group_open_threads(&group, 1) == LS_OK);
    fuzz_demand(ls_params_new(&params) == LS_OK);
    fuzz_demand(ls_params_add(params, "w", 2, shape, ones, &tensor) == LS_OK);
    fuzz_demand(ls_params_add(params, "v", 1, shape, ones, &tensor) == LS_OK);
    fuzz_demand(ls_params_add_buffer(params, "b", 1, shape, ones, &tensor) ==
                LS_OK);
    fuzz_demand(ls_params_allocate(params, NULL, 1) == LS_OK);
    fuzz_demand(ls_optimizer_new(&optimizer, params, NULL) == LS_OK);
}

static void free_model(void)
{
    ls_checkpoint_close(&saved);
    ls_optimizer_free(&optimizer);
    ls_params_free(&params);
    ls_group_close(&group);
}

static void save_model(void)
{
    make_model();
    const ls_checkpoint_parts parts = {.params = params,
                                       .optimizer = optimizer};
    fuzz_demand(ls_checkpoint_save(group, fuzz_folder(), 1, &parts, 0) ==
                LS_OK);
    fuzz_demand(ls_checkpoint_open(&saved, group, fuzz_folder()) == LS_OK);
    atexit(free_model);
}

/* ---- the file of a rank -------------------------------------------------- */

static void load_rank_file(fuzz_input *in)
{
    static uint8_t file[1 << 16];
    const size_t zeros = fuzz_word(in) % 256;
    const uint64_t bytes =
        in->size < sizeof(file) / 2 ? in->size : sizeof(file) / 2;
    memset(file, 0, sizeof(bytes) + bytes + zeros);
    memcpy(file, &bytes, sizeof(bytes));
    memcpy(file + sizeof(bytes), in->data, bytes);
    fuzz_write("step-000000000001/rank-00000-of-00001.safetensors", file,
               sizeof(bytes) + bytes + zeros);
    if (fuzz_ok(ls_checkpoint_load(saved, params, optimizer)))
        fuzz_demand(ls_optimizer_step(optimizer, 1) == LS_OK);
}

/* ---- the manifest -------------------------------------------------------- */

/* As lsi_manifest_write would have closed it; NULL if it is not an object. */
static char *close_manifest(const uint8_t *data, size_t size)
{
    json_t *json = json_loadb((const char *)data, size, 0, NULL);
    char *text = NULL;
    if (json_is_object(json)) {
        json_object_set_new(json, "format",
                            json_string("lockstep checkpoint 1"));
        json_object_del(json, "crc32");
        text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
        fuzz_demand(text != NULL);
        const uint32_t sum =
            (uint32_t)crc32_z(0, (const Bytef *)text, strlen(text));
        free(text);
        json_object_set_new(json, "crc32", json_integer((json_int_t)sum));
        text = json_dumps(json, JSON_COMPACT);
    }
    json_decref(json);
    return text;
}

static void use_manifest(json_t *json)
{
    const json_t *state = json_object_get(json, "optimizer");
    fuzz_ok(lsi_manifest_verify(json, fuzz_folder()));
    (void)lsi_manifest_ranks(json);
    if (!fuzz_ok(lsi_optimizer_json_check(state, optimizer)))
        return;
    lsi_optimizer_json_apply(state, optimizer);
    fuzz_demand(ls_optimizer_step(optimizer, 1) == LS_OK);
}

static void read_manifest(const void *text, size_t size)
{
    json_t *json = NULL;
    fuzz_write("manifest.json", text, size);
    if (!fuzz_ok(lsi_manifest_read(fuzz_folder(), &json)))
        return;
    use_manifest(json);
    json_decref(json);
}

/* ---- the sums of an epoch ------------------------------------------------ */

static void read_partial(fuzz_input *in)
{
    lsi_partial partial;
    const int size = 1 + fuzz_byte(in) % 5;
    const int rank = fuzz_byte(in) % size;
    char *text = fuzz_rest(in);
    fuzz_ok(lsi_partial_parse(&partial, text, rank, size));
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    char *text;
    if (saved == NULL)
        save_model();
    switch (fuzz_byte(&in) % 8) {
    case 0:
        read_manifest(in.data, in.size);
        break;
    case 1:
        read_partial(&in);
        break;
    case 2:
    case 3:
    case 4:
        load_rank_file(&in);
        break;
    default:
        text = close_manifest(in.data, in.size);
        if (text != NULL)
            read_manifest(text, strlen(text));
        free(text);
    }
    return 0;
}
