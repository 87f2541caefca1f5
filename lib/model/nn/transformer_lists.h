/*
 * The rows of the enumerations of transformer.h, X(NAME, value, text), and the
 * sizes that have names.
 */
#ifndef LS_MODEL_NN_TRANSFORMER_LISTS_H
#define LS_MODEL_NN_TRANSFORMER_LISTS_H

#define LSI_TRANSFORMER_KIND_LIST(X)                                           \
    X(ROPE, 0, "rope")                                                         \
    X(GPT2, 1, "gpt2")                                                         \
    X(LLAMA, 2, "llama")

#define LSI_ROPE_SCALING_LIST(X)                                               \
    X(NONE, 0, "none")                                                         \
    X(LINEAR, 1, "linear")                                                     \
    X(LLAMA3, 2, "llama3")

/*
 * X(name, KIND, d_model, d_ff, layers, heads, vocabulary). "2.7B" is a usual
 * name of that shape and has 3.4 billion parameters; "10B" has 12.8 billion.
 */
#define LSI_TRANSFORMER_SIZE_LIST(X)                                           \
    X("tiny", ROPE, 256, 1024, 4, 4, 10000)                                    \
    X("small", ROPE, 768, 3072, 12, 12, 10000)                                 \
    X("medium", ROPE, 1024, 4096, 24, 16, 10000)                               \
    X("large", ROPE, 1280, 5120, 36, 20, 10000)                                \
    X("xl", ROPE, 1600, 6400, 48, 25, 10000)                                   \
    X("2.7B", ROPE, 2560, 10240, 32, 32, 10000)                                \
    X("3.4b", ROPE, 2560, 10240, 32, 32, 10000)                                \
    X("10B", ROPE, 4608, 12288, 50, 36, 10000)                                 \
    X("12.8b", ROPE, 4608, 12288, 50, 36, 10000)                               \
    X("gpt2", GPT2, 768, 3072, 12, 12, 50257)

#endif
