/*
 * Two tables. A row is used when its flag exists in the command, so that one
 * word may lead to different flags. The first row that fits is used.
 */
#include "cli/frame/words.h"

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define OTHER(command_, typed_, instead_)                                      \
    {                                                                          \
        .command = (command_), .typed = (typed_), .instead = (instead_)        \
    }

#define RETIRED(typed_, instead_)                                              \
    {                                                                          \
        .typed = (typed_), .instead = (instead_), .retired = true              \
    }

/* Of PyTorch, Hugging Face's libraries, nanoGPT, llm.c, torchrun and mpirun. */
static const lsi_option_word flag_words[] = {
    RETIRED("--batch", "--batch-size"),
    RETIRED("--vocab", "--vocab-size"),
    RETIRED("--recompute", "--activation-checkpointing"),
    RETIRED("--implementation", "--impl"),
    RETIRED("--datatype", "--dtype"),
    {"train lm", "--model",
     "--weights PATH for a trained model, --size NAME for a new one", true},
    {"bench ddp", "--model", "--arch mlp for mlp, --size NAME for lm:NAME",
     true},
    {"bench zero", "--model", "--arch mlp for mlp, --size NAME for lm:NAME",
     true},
    RETIRED("--model", "--weights"),
    RETIRED("--model", "--arch"),
    RETIRED("--model", "--size"),
    RETIRED("-m", "--weights"),
    {"train lm", "--tokens", "--format", true},
    {"eval lm", "--tokens", "--format", true},
    RETIRED("--tokens", "--max-new-tokens"),
    RETIRED("-t", "--max-new-tokens"),
    RETIRED("-t", "--nthreads"),
    RETIRED("-o", "--op"),
    RETIRED("-r", "--root"),
    RETIRED("-r", "--rank"),
    RETIRED("-c", "--check"),
    RETIRED("-c", "--count"),
    RETIRED("-i", "--interval"),
    RETIRED("-q", "--quick"),
    RETIRED("-d", "--head-size"),
    RETIRED("--d", "--head-size"),
    {"run", "--report", "--json=FILE", true},
    RETIRED("-J", "--json=FILE"),
    {"memory", "--steps", "--iterations", true},
    {"profile", "--top", "--rows", true},
    {"memory", "--top", "--rows", true},
    RETIRED("--memory", "--record-memory"),
    RETIRED("--verify", "--verify-data"),
    RETIRED("--no-verify", "--no-verify-data"),
    {"tune", "--save", "--out", true},
    OTHER("train lm", "--epochs", "train lm counts steps; give --steps N"),
    OTHER("train lm", "--num-epochs", "train lm counts steps; give --steps N"),
    OTHER("train lm", "--num-train-epochs",
          "train lm counts steps; give --steps N"),
    OTHER(NULL, "--num-epochs", "--epochs"),
    OTHER(NULL, "--num-train-epochs", "--epochs"),
    OTHER("train cifar100", "--steps",
          "train cifar100 counts epochs; give --epochs N"),
    OTHER("train images", "--steps",
          "train images counts epochs; give --epochs N"),
    OTHER(NULL, "--max-length", "--max-new-tokens"),
    OTHER(NULL, "--steps", "--iterations"),
    OTHER(NULL, "--max-steps", "--steps"),
    OTHER(NULL, "--max-iters", "--steps"),
    OTHER(NULL, "--learning-rate", "--lr"),
    OTHER(NULL, "--lr-scheduler-type", "--schedule"),
    OTHER(NULL, "--wd", "--weight-decay"),
    OTHER(NULL, "--max-grad-norm", "--clip-norm"),
    OTHER(NULL, "--grad-clip", "--clip-norm"),
    OTHER(NULL, "--gradient-accumulation-steps", "--accumulate"),
    OTHER(NULL, "--gradient-checkpointing", "--activation-checkpointing"),
    OTHER(NULL, "--bf16", "--dtype bf16"),
    OTHER(NULL, "--fp16", "--dtype f16"),
    OTHER(NULL, "--precision", "--dtype"),
    OTHER(NULL, "--per-device-train-batch-size", "--batch-size"),
    OTHER(NULL, "--train-batch-size", "--batch-size"),
    OTHER(NULL, "--workers", "--loader-threads"),
    OTHER(NULL, "--num-workers", "--loader-threads"),
    OTHER(NULL, "--max-tokens", "--max-new-tokens"),
    OTHER(NULL, "--num-tokens", "--max-new-tokens"),
    OTHER(NULL, "--dataset", "--data"),
    OTHER("generate", "", "give the text to continue as --prompt TEXT"),
    OTHER(NULL, "", "--data PATH gives the data"),
    OTHER(NULL, "-np", "-n"),
    OTHER(NULL, "--np", "-n"),
    OTHER(NULL, "--num-processes", "--ranks"),
    OTHER(NULL, "--verbose", "progress is shown by default; --quiet hides it"),
    OTHER(NULL, "-v", "progress is shown by default; --quiet hides it"),
};

const lsi_option_word *lsi_cli_flag_words(size_t *n)
{
    *n = COUNT(flag_words);
    return flag_words;
}

#undef OTHER
#define OTHER(parent_, typed_, instead_)                                       \
    {                                                                          \
        .parent = (parent_), .typed = (typed_), .instead = (instead_)          \
    }

static const lsi_command_word command_words[] = {
    {"bench", "tune", "tune", true},
    OTHER("", "-v", "--version"),
    OTHER("", "man", "help"),
    OTHER("", "benchmark", "bench"),
    OTHER("", "launch", "run"),
    OTHER("", "torchrun", "run"),
    OTHER("", "mpirun", "run"),
    OTHER("", "finetune", "train lm"),
    OTHER("", "mnist", "train images --data PATH"),
    OTHER("", "cifar10", "train images --data PATH"),
    OTHER("train", "mnist", "train images --data PATH"),
    OTHER("train", "cifar10", "train images --data PATH"),
    OTHER("train", "imagenet", "train images --data PATH"),
    OTHER("train", "gpt2", "train lm --size gpt2"),
    OTHER("bench", "sendrecv_perf", "bench send-recv"),
    OTHER("bench", "alltoall_perf", "bench all-to-all"),
};

const lsi_command_word *lsi_cli_command_word(const char *parent,
                                             const char *typed)
{
    for (size_t i = 0; i < COUNT(command_words); i++) {
        const lsi_command_word *const word = &command_words[i];
        if (strcmp(word->parent, parent) == 0 &&
            strcmp(word->typed, typed) == 0)
            return word;
    }
    return NULL;
}
