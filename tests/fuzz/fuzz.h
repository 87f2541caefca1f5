/*
 * Code that the fuzz targets share. Each target is a file fuzz_NAME.c with one
 * function, LLVMFuzzerTestOneInput, which hands bytes to a parser and checks
 * what the parser promises; libFuzzer makes the bytes.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* A promise that was broken ends the process, as a wild pointer would. */
#define fuzz_demand(promise)                                                   \
    do {                                                                       \
        if (!(promise))                                                        \
            fuzz_broken(#promise, __FILE__, __LINE__);                         \
    } while (0)
_Noreturn void fuzz_broken(const char *promise, const char *file, int line);

/* LS_OK, or an error with a sentence. Whether it is LS_OK. */
bool fuzz_ok(ls_status status);

/* Bytes that are still to be used. */
typedef struct fuzz_input {
    const uint8_t *data;
    size_t size;
} fuzz_input;

/* 0 at the end. */
uint8_t fuzz_byte(fuzz_input *in);
uint32_t fuzz_word(fuzz_input *in);

/*
 * The next line, without its end, or the whole rest, as a separate string
 * that ends where its memory ends; freed by free().
 */
char *fuzz_line(fuzz_input *in);
char *fuzz_rest(fuzz_input *in);

/* A file in memory with these bytes, always the same one; its path. */
const char *fuzz_file(const void *data, size_t size);

/* One whose content is a header of a safetensors file and then zeros. */
const char *fuzz_safetensors(const void *header, size_t size, size_t zeros);

/* A folder for this process, and a file in it. */
const char *fuzz_folder(void);
void fuzz_write(const char *name, const void *data, size_t size);

#endif
