/*
 * The flags that name the shape of a language model.
 *
 *     struct args { lsi_lm_shape_flags shape; ... };
 *     #define ROW(...) LSI_OPTION(struct args, __VA_ARGS__)
 *     static const lsi_option options[] = {LSI_LM_SHAPE_ROWS(shape), ...};
 */
#ifndef LS_CLI_FRAME_LM_FLAGS_H
#define LS_CLI_FRAME_LM_FLAGS_H

#include "cli/frame/command.h"
#include "lockstep/data.h"
#include "lockstep/transformer.h"

typedef struct lsi_lm_shape_flags {
    const char *size, *rope, *attention;
    int64_t layers, d_model, heads, d_ff, vocabulary, context; /* 0: as size */
    double norm_eps;
    bool untied_head;
} lsi_lm_shape_flags;

/* "|tiny|small|...": the bar before the first name is to be skipped. */
extern const char lsi_lm_size_choices[];

/* The words of a --size that lists sizes, each checked. */
enum { LSI_LM_SIZES_MOST = 16, LSI_LM_SIZE_BYTES = 16 };
typedef struct lsi_lm_sizes {
    char names[LSI_LM_SIZES_MOST][LSI_LM_SIZE_BYTES];
    size_t n;
} lsi_lm_sizes;
#define LSI_LM_SIZES_HELP                                                      \
    "model sizes: tiny, small, medium, large, xl, 2.7B (3.4 billion "          \
    "parameters; another name: 3.4b), 10B (12.8 billion parameters; another "  \
    "name: 12.8b), gpt2"
ls_status lsi_cli_lm_sizes(const char *text, lsi_lm_sizes *out);

/* Flags that change the shape of a size. */
#define LSI_LM_CHANGE_ROWS(field)                                              \
    ROW(field.layers, INT, "layers", 0, "N", NULL,                             \
        "number of blocks (default: from --size)", .min = 1, .max = 1 << 20),  \
        ROW(field.d_model, INT, "d-model", 0, "N", NULL,                       \
            "width of the model, d_model (default: from --size)", .min = 1,    \
            .max = 1 << 20),                                                   \
        ROW(field.heads, INT, "heads", 0, "N", NULL,                           \
            "number of attention heads (default: from --size)", .min = 1,      \
            .max = 1 << 20),                                                   \
        ROW(field.d_ff, INT, "d-ff", 0, "N", NULL,                             \
            "width of the feed-forward layers, d_ff (default: from --size)",   \
            .min = 1, .max = 1 << 20),                                         \
        ROW(field.vocabulary, INT, "vocab-size", 0, "N", NULL,                 \
            "vocabulary size (default: from --size; 256 for text)", .min = 1,  \
            .max = 1 << 20),                                                   \
        ROW(field.norm_eps, REAL, "norm-eps", 0, "X", "1e-5",                  \
            "epsilon of the normalisation layers", .min = 1e-30,               \
            .max = 0.999),                                                     \
        ROW(field.untied_head, BOOL, "untied-head", 0, NULL, NULL,             \
            "for gpt2: give the output head separate weights (models with "    \
            "rotary position embeddings always have separate weights)"),       \
        ROW(field.rope, CHOICE, "rope", 0, "LAYOUT", "pairs",                  \
            "where rotary position embeddings store the two values of a pair " \
            "(pairs: next to each other; halves: one value in each half of "   \
            "the head)",                                                       \
            .choices = "pairs|halves"),                                        \
        ROW(field.attention, CHOICE, "attention", 0, "NAME", "flash",          \
            "attention method (naive stores the score matrix, flash does "     \
            "not)",                                                            \
            .choices = "flash|naive")

#define LSI_LM_SHAPE_ROWS(field)                                               \
    ROW(field.size, CHOICE, "size", 0, "NAME", "tiny",                         \
        "model size (3.4b is another name for 2.7B, and 12.8b for 10B, after " \
        "their numbers of parameters)",                                        \
        .choices = &lsi_lm_size_choices[1]),                                   \
        ROW(field.context, INT, "context", 'c', "N", NULL,                     \
            "tokens per sequence (default: 128; with --weights the model's "   \
            "context, at most 1024)",                                          \
            .min = 1, .max = 1 << 20),                                         \
        LSI_LM_CHANGE_ROWS(field)

/* The format of a file of --data. */
#define LSI_LM_TOKENS_ROW(field)                                               \
    ROW(field, CHOICE, "format", 0, "FORMAT", "by-name",                       \
        "format of the data (text: each byte is a token; bytes: each byte is " \
        "a token, but the data are not text; llmc: files of llm.c; npy: "      \
        "arrays; u16 and u32: raw numbers; by-name: detect the format from "   \
        "the first bytes, or from the endings .u16 and .u32)",                 \
        .choices = "by-name|text|bytes|llmc|npy|u16|u32")
ls_token_format lsi_cli_token_format(const char *name);

/* Tokens of a sequence by default, without flags or a file. */
enum { LSI_LM_USUAL_CONTEXT = 128, LSI_LM_MOST_CONTEXT = 1024 };

/* The configuration that the flags stand for, or which of them do not go
 * together. */
ls_status lsi_cli_lm_shape(const lsi_lm_shape_flags *flags,
                           ls_transformer_config *out);

/*
 * The first flag for a property that a size or a file of weights has; or NULL.
 */
const char *lsi_cli_lm_changes(const lsi_lm_shape_flags *flags);

/*
 * The name of a configuration: its size, "tiny". Where flags have changed the
 * size, its layers and d_model, "12x768".
 */
enum { LSI_LM_NAME_BYTES = 32 };
void lsi_cli_lm_name(const char *size, const ls_transformer_config *config,
                     char out[LSI_LM_NAME_BYTES]);

/* Shapes that have one name differ in these; columns that JSON and CSV have. */
#define LSI_LM_SHAPE_COLUMNS                                                   \
    LSI_COLUMN(INT, "layers", ""), LSI_COLUMN(INT, "d_model", ""),             \
        LSI_COLUMN(INT, "heads", ""), LSI_COLUMN(INT, "d_ff", ""),             \
        LSI_COLUMN(INT, "vocab_size", "")
void lsi_cli_lm_record_shape(const ls_transformer_config *config,
                             lsi_table *table);

/*
 * The configuration of a file of weights (as of lsi_checkpoint_weights). The
 * flags choose the context and how attention is computed. Learned positions are
 * kept, also if the flags' context is shorter. *bytes: whether its tokens are
 * bytes.
 */
ls_status lsi_cli_lm_shape_of(const lsi_lm_shape_flags *flags,
                              const char *weights, ls_transformer_config *out,
                              bool *bytes);

#endif
