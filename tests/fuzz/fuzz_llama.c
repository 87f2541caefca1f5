/*
 * The JSON files next to Llama weights: a byte says whether the rest
 * is config.json or the index of two shards.
 */
#include <stdio.h>
#include <string.h>

#include "fuzz.h"
#include "lockstep/transformer.h"
#include "model/tensor/safetensors.h"

/* Two rows of four, and a block of which the norm shows. */
static const char weights[] =
    "{\"model.embed_tokens.weight\":{\"dtype\":\"F32\",\"shape\":[2,4],"
    "\"data_offsets\":[0,32]},\"model.layers.0.input_layernorm.weight\":"
    "{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[32,48]}}";
static const char shard[] =
    "{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
    "\"y\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[8,16]}}";

static void write_file(const char *name, const char *header, size_t bytes)
{
    char file[1024] = {0};
    const uint64_t n = strlen(header);
    memcpy(file, &n, sizeof n);
    memcpy(file + sizeof n, header, n);
    fuzz_write(name, file, sizeof n + n + bytes);
}

static const char *path_of(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
    return path;
}

/* Every entry lies in a shard, and can be read there. */
static void open_index(void)
{
    lsi_safetensors_file file;
    char bytes[16];
    if (!fuzz_ok(lsi_safetensors_open(&file, path_of("w.index.json"))))
        return;
    for (size_t i = 0; i < file.n_entries; i++) {
        const lsi_safetensors_entry *e = &file.entries[i];
        fuzz_demand(e->shard < file.n_shards);
        fuzz_demand(lsi_safetensors_read(&file, e, 0, bytes,
                                         (size_t)(e->end - e->begin)) == LS_OK);
    }
    lsi_safetensors_close(&file);
}

static void read_config(void)
{
    ls_transformer_config config = LS_TRANSFORMER_CONFIG_INIT;
    if (fuzz_ok(ls_transformer_read_config(path_of("w.safetensors"), &config)))
        fuzz_demand(ls_transformer_check(&config) == LS_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool written;
    fuzz_input in = {data, size};
    if (!written) {
        write_file("w.safetensors", weights, 48);
        write_file("a.safetensors", shard, 16);
        write_file("b.safetensors", shard, 16);
        written = true;
    }
    const uint8_t form = fuzz_byte(&in);
    fuzz_write(form % 2 == 1 ? "config.json" : "w.index.json", in.data,
               in.size);
    if (form % 2 == 1)
        read_config();
    else
        open_index();
    return 0;
}
