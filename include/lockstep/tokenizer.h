/*
 * Tokenizers: text to the numbers that a language model sees, and back, by
 * byte-pair encoding.
 *
 * Text is UTF-8. A tokenizer does not change once it is there, and any number
 * of threads may use it at the same time.
 */
#ifndef LOCKSTEP_TOKENIZER_H
#define LOCKSTEP_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/group.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_tokenizer ls_tokenizer;

/*
 * Reads a tokenizer.json as Hugging Face's `tokenizers` writes it, or GPT-2's
 * vocab.json and merges.txt. `path` is the tokenizer.json, or one of the two
 * other files, which are in the same folder, or a folder with either. An
 * unknown feature of a tokenizer.json is LS_ERR_FORMAT with its name. On
 * success *out is the caller's. Local.
 */
LS_API LS_MUST_CHECK ls_status ls_tokenizer_open(ls_tokenizer **out,
                                                 const char *path);

/* Frees it and sets *tokenizer to NULL. Accepts NULLs. */
LS_API void ls_tokenizer_close(ls_tokenizer **tokenizer);

/*
 * Writes it as tokenizer.json, which `tokenizers` and ls_tokenizer_open read.
 * The file appears whole or not at all; missing folders above it are created.
 * Local.
 */
LS_API LS_MUST_CHECK ls_status ls_tokenizer_save(const ls_tokenizer *tokenizer,
                                                 const char *path);

/* ---- training ------------------------------------------------------------ */

/* The pattern by which text is split into words, which no token crosses. */
typedef enum ls_pattern {
    LS_PATTERN_GPT2, /* words with the blank before them, all digits together */
    LS_PATTERN_LLAMA3 /* up to three digits; ends of lines with marks before */
} ls_pattern;

typedef struct ls_tokenizer_training {
    size_t struct_size; /* sizeof, or 0: as in 0.1 (docs/reference/abi.md) */
    int64_t vocabulary; /* tokens altogether; 0: 32768 */
    int64_t least;      /* occurrences of a pair that becomes a token; 0: 2 */
    ls_pattern pattern;
    /* Tokens 0, 1, ..., the caller's; NULL: <|endoftext|>. */
    const char *const *special;
    size_t n_special; /* entries of `special` if it is not NULL; 0: none */
} ls_tokenizer_training;

/* 32768 tokens, pairs that occur twice, GPT-2's pattern, <|endoftext|>. */
#define LS_TOKENIZER_TRAINING_INIT                                             \
    {                                                                          \
        sizeof(ls_tokenizer_training), 32768, 2, LS_PATTERN_GPT2, NULL, 0      \
    }

/*
 * Learns a vocabulary from n text files, which all ranks can read, by byte-pair
 * encoding of bytes (Sennrich, Haddow and Birch 2016). It begins with the
 * special tokens and the 256 bytes in the order of their characters. Then it
 * repeatedly makes the most frequent pair one token. Among equally frequent
 * pairs the one whose left, then right token has the smaller number comes
 * first. The result is that of `tokenizers`, on any number of ranks, which
 * count words together. Fewer tokens come of it if no pair is left. NULL for
 * `training` means the defaults. Collective; on success *out is each rank's
 * own.
 */
LS_API LS_MUST_CHECK ls_status ls_tokenizer_new_trained(
    ls_tokenizer **out, ls_group *group, const char *const *paths, size_t n,
    const ls_tokenizer_training *training);

/* ---- its tokens ---------------------------------------------------------- */

/* One more than the largest number of a token. */
LS_API int64_t ls_tokenizer_vocabulary(const ls_tokenizer *tokenizer);

/*
 * A checksum of what its tokens are and how text becomes them: two tokenizers
 * with the same one do the same.
 */
LS_API uint64_t ls_tokenizer_digest(const ls_tokenizer *tokenizer);

/* The token that is written so in tokenizer.json; -1 if there is none. */
LS_API int64_t ls_tokenizer_id(const ls_tokenizer *tokenizer,
                               const char *token);

/* Whether it is one of the special tokens, which stand for no text. */
LS_API bool ls_tokenizer_is_special(const ls_tokenizer *tokenizer, int64_t id);

/*
 * The token that ends a text: what a tokenizer_config.json in the same folder
 * calls eos_token, else the first special one of <|endoftext|>,
 * <|end_of_text|>, </s> and <eos>; -1 if there is none.
 */
LS_API int64_t ls_tokenizer_end(const ls_tokenizer *tokenizer);

/* Treatment of special tokens: flags, joined by |. */
typedef unsigned ls_tokenizer_flags;
enum {
    LS_TOKENIZER_PLAIN = 0,
    /*
     * Encoding adds those that tokenizer.json (post_processor) puts around a
     * text; decoding writes them out instead of leaving them out.
     */
    LS_TOKENIZER_SPECIAL = 1 << 0
};

/* ---- text to tokens ------------------------------------------------------ */

/*
 * Encodes `bytes` bytes of UTF-8 on the rank's threads. Special tokens that the
 * text spells out become those tokens. *ids, *n of them, is freed with ls_free.
 * Text that is not UTF-8 is LS_ERR_FORMAT with the place.
 * Local.
 */
LS_API LS_MUST_CHECK ls_status ls_tokenizer_encode(
    const ls_tokenizer *tokenizer, const char *text, size_t bytes,
    ls_tokenizer_flags flags, int64_t **ids, size_t *n);

/* ---- tokens to text ------------------------------------------------------ */

/*
 * The text of n tokens, *bytes of UTF-8 with a zero behind them, freed with
 * ls_free. Bytes of tokens that are no UTF-8 become U+FFFD. A token that the
 * tokenizer does not have is LS_ERR_ARGUMENT. Local.
 */
LS_API LS_MUST_CHECK ls_status
ls_tokenizer_decode(const ls_tokenizer *tokenizer, const int64_t *ids, size_t n,
                    ls_tokenizer_flags flags, char **text, size_t *bytes);

/* Decodes one token after another, and puts characters together of them. */
typedef struct ls_decoder ls_decoder;

/*
 * On success *out is the caller's; the tokenizer must outlive it. Flags as for
 * ls_tokenizer_decode.
 */
LS_API LS_MUST_CHECK ls_status ls_decoder_new(ls_decoder **out,
                                              const ls_tokenizer *tokenizer,
                                              ls_tokenizer_flags flags);

/*
 * The characters that this token completes; *text is the decoder's and valid
 * until the next call, *bytes may be 0. To continue a prompt, push its tokens
 * first.
 */
LS_API LS_MUST_CHECK ls_status ls_decoder_push(ls_decoder *decoder, int64_t id,
                                               const char **text,
                                               size_t *bytes);

/* The rest at the end: U+FFFD for an incomplete character. */
LS_API LS_MUST_CHECK ls_status ls_decoder_finish(ls_decoder *decoder,
                                                 const char **text,
                                                 size_t *bytes);

/* Frees it and sets *decoder to NULL. Accepts NULLs. */
LS_API void ls_decoder_free(ls_decoder **decoder);

#ifdef __cplusplus
}
#endif

#endif
