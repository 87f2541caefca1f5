/* Writing a tokenizer.json. */
#include "base/error.h"
#include "input/text/read.h"

json_t *lsi_read_special(const char *content, json_int_t id)
{
    return json_pack("{s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "id", id, "content",
                     content, "single_word", 0, "lstrip", 0, "rstrip", 0,
                     "normalized", 0, "special", 1);
}

static json_t *byte_level(bool pattern)
{
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel",
                     "add_prefix_space", 0, "trim_offsets", 1, "use_regex",
                     pattern);
}

static json_t *splitting(lsi_split_kind pattern)
{
    if (pattern == LSI_SPLIT_GPT2)
        return byte_level(true);
    return json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, o]}", "type",
                     "Sequence", "pretokenizers", "type", "Split", "pattern",
                     "Regex", lsi_split_llama3, "behavior", "Isolated",
                     "invert", 0, byte_level(false));
}

ls_status lsi_read_no_memory(void)
{
    return lsi_fail(LS_ERR_MEMORY,
                    "not enough memory to build a tokenizer.json");
}

ls_status lsi_read_compose(json_t *vocab, json_t *merges, json_t *added,
                           lsi_split_kind pattern, json_t **out)
{
    json_t *const model =
        json_pack("{s:s, s:n, s:n, s:s, s:s, s:b, s:b, s:b, s:o, s:o}", "type",
                  "BPE", "dropout", "unk_token", "continuing_subword_prefix",
                  "", "end_of_word_suffix", "", "fuse_unk", 0, "byte_fallback",
                  0, "ignore_merges", 0, "vocab", vocab, "merges", merges);
    *out = json_pack("{s:s, s:n, s:n, s:o, s:n, s:o, s:o, s:o, s:o}", "version",
                     "1.0", "truncation", "padding", "added_tokens", added,
                     "normalizer", "pre_tokenizer", splitting(pattern),
                     "post_processor", byte_level(true), "decoder",
                     byte_level(true), "model", model);
    return *out != NULL ? LS_OK : lsi_read_no_memory();
}
