#include "array/device/cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const char library[] = "libcuda.so.1";

lsi_cuda_functions lsi_cuda;

static struct {
    pthread_once_t once;
    CUresult result;
    char sentence[LSI_CUDA_SENTENCE_BYTES]; /* "": it can be used */
    bool forked;
} driver = {.once = PTHREAD_ONCE_INIT};

const char *lsi_cuda_text(CUresult result, char text[LSI_CUDA_SENTENCE_BYTES])
{
    const char *name = NULL, *words = NULL;
    (void)lsi_cuda.cuGetErrorName(result, &name);
    (void)lsi_cuda.cuGetErrorString(result, &words);
    if (name == NULL || words == NULL)
        snprintf(text, LSI_CUDA_SENTENCE_BYTES, "error %d", (int)result);
    else
        snprintf(text, LSI_CUDA_SENTENCE_BYTES, "%s (%s)", name, words);
    return text;
}

static void *open_library(void)
{
    void *opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (opened != NULL)
        return opened;
    const char *const why = dlerror();
    const size_t length = strlen(library);
    /* A library that it needs may be missing, too, and is named then. */
    if (strncmp(why, library, length) == 0 &&
        strstr(why, "No such file") != NULL)
        snprintf(driver.sentence, sizeof(driver.sentence),
                 "%s is not installed", library);
    else
        snprintf(driver.sentence, sizeof(driver.sentence),
                 "%s cannot be loaded: %s", library, why);
    return NULL;
}

static bool look_up(void *opened, const char *symbol, void *function)
{
    void *const found = dlsym(opened, symbol);
    memcpy(function, &found, sizeof(found));
    if (found == NULL)
        snprintf(driver.sentence, sizeof(driver.sentence),
                 "%s has no %s; it should be of CUDA 11.2 or later", library,
                 symbol);
    return found != NULL;
}

static bool look_up_all(void *opened)
{
#define X(name, symbol, arguments)                                             \
    if (!look_up(opened, #symbol, &lsi_cuda.name))                             \
        return false;
#include "array/device/cuda/driver.def"
#undef X
    return true;
}

static void in_child(void)
{
    driver.forked = true;
}

static void start(void)
{
    char text[LSI_CUDA_SENTENCE_BYTES];
    void *const opened = open_library();
    if (opened == NULL || !look_up_all(opened))
        return;
    (void)pthread_atfork(NULL, NULL, in_child);
    driver.result = lsi_cuda.cuInit(0);
    if (driver.result != 0 && driver.result != LSI_CUDA_NO_DEVICE)
        snprintf(driver.sentence, sizeof(driver.sentence), "cuInit: %.200s",
                 lsi_cuda_text(driver.result, text));
}

bool lsi_cuda_is_forked(void)
{
    return driver.forked;
}

bool lsi_cuda_start(CUresult *result, char sentence[LSI_CUDA_SENTENCE_BYTES])
{
    (void)pthread_once(&driver.once, start);
    *result = driver.result;
    if (driver.forked)
        snprintf(sentence, LSI_CUDA_SENTENCE_BYTES,
                 "a process that has used CUDA has forked this one, in which "
                 "CUDA does not work");
    else
        snprintf(sentence, LSI_CUDA_SENTENCE_BYTES, "%s", driver.sentence);
    return sentence[0] == '\0';
}
