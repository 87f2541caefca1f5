/*
 * Rows of what public functions do when an argument is NULL. A row is a call
 * with good arguments, made once for each argument that is named in it: that
 * one is NULL then. The rows of all files together name every argument there
 * is (see public_calls.py).
 */
#ifndef TESTS_UNIT_API_NULLS_H
#define TESTS_UNIT_API_NULLS_H

#include "lockstep/lockstep.h"
#include "testing.h"

/* An argument in a row: NULL when it is its turn. */
#define P(name, value) (nulls_is_turn(#name) ? NULL : (value))

/* LS_ERR_ARGUMENT, and the sentence names the function and the argument. */
#define REFUSES(function, arguments, ...)                                      \
    REFUSES_AS(#function, function, arguments, __VA_ARGS__)

/* The same where the sentence calls the function something else. */
#define REFUSES_AS(called, function, arguments, ...)                           \
    for (nulls_begin(#function, arguments); nulls_next();)                     \
    nulls_check_refused(called, function(__VA_ARGS__))

/* The argument may be NULL: LS_OK. */
#define TAKES(function, arguments, ...)                                        \
    for (nulls_begin(#function, arguments); nulls_next();)                     \
    nulls_check_taken(function(__VA_ARGS__))

/* The same of a function that returns a tensor. */
#define MAKES(function, arguments, ...)                                        \
    for (nulls_begin(#function, arguments); nulls_next();)                     \
    nulls_check(function(__VA_ARGS__) != NULL, "a tensor")

/* Returns `value`. */
#define GIVES(value, function, arguments, ...)                                 \
    for (nulls_begin(#function, arguments); nulls_next();)                     \
    nulls_check(function(__VA_ARGS__) == (value), #value)

/* Returns nothing. */
#define BEARS(function, arguments, ...)                                        \
    for (nulls_begin(#function, arguments); nulls_next();)                     \
    function(__VA_ARGS__)

/*
 * An operation on `tape`: returns NULL, and the tape's first error is that
 * something is NULL. Resets the tape.
 */
#define STOPS(tape, function, arguments, ...)                                  \
    for (nulls_begin(#function, arguments); nulls_next();)                     \
    nulls_check_stopped(tape, function(__VA_ARGS__))

void nulls_begin(const char *function, const char *arguments);
bool nulls_next(void);
bool nulls_is_turn(const char *argument);
void nulls_check(bool good, const char *what);
void nulls_check_refused(const char *called, ls_status status);
void nulls_check_taken(ls_status status);
void nulls_check_stopped(ls_tape *tape, const void *result);

/* The rows, a file each. */
void nulls_of_tensors(void **state);
void nulls_of_parameters(void **state);
void nulls_of_tapes(void **state);
void nulls_of_operations(void **state);
void nulls_of_groups(void **state);
void nulls_of_collectives(void **state);
void nulls_of_data(void **state);
void nulls_of_tokenizers(void **state);
void nulls_of_attention(void **state);
void nulls_of_layers(void **state);
void nulls_of_transformers(void **state);
void nulls_of_image_nets(void **state);
void nulls_of_optimizers(void **state);
void nulls_of_data_parallelism(void **state);
void nulls_of_checkpoints(void **state);
void nulls_of_audits(void **state);

#endif
