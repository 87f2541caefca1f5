/* The tokenizer of models of bytes. */
#include "base/error.h"
#include "input/text/byte_level.h"
#include "input/text/read.h"
#include "input/text/unicode.h"

static ls_status list_bytes(json_t *vocab)
{
    for (int b = 0; b < 256; b++) {
        uint8_t text[8];
        const size_t n = lsi_utf8_write(lsi_byte_char((uint8_t)b), text);
        text[n] = '\0';
        if (json_object_set_new(vocab, (const char *)text, json_integer(b)) !=
            0)
            return lsi_read_no_memory();
    }
    return LS_OK;
}

ls_status lsi_tokenizer_new_bytes(struct ls_tokenizer **out)
{
    json_t *const vocab = json_object();
    json_t *root = NULL;
    const ls_status status = list_bytes(vocab);
    if (status != LS_OK) {
        json_decref(vocab);
        return status;
    }
    LS_TRY(lsi_read_compose(vocab, json_array(), json_array(), LSI_SPLIT_GPT2,
                            &root));
    return lsi_tokenizer_of_json(out, "the byte tokenizer", root);
}
