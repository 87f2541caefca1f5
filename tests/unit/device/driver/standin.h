/*
 * A driver that stands in for CUDA's, libcuda.so.1, on machines without a GPU:
 * what the module calls, as strictly as the manual has it. Memory of a device
 * is mapped twice, without any access where the program sees it; a stream is a
 * thread, which dawdles before some commands; a call without the right context
 * fails. Tests open it before the module does, and tell it what to be like.
 */
#ifndef TESTS_UNIT_DEVICE_DRIVER_STANDIN_H
#define TESTS_UNIT_DEVICE_DRIVER_STANDIN_H

#include <stdbool.h>
#include <stddef.h>

typedef struct standin_settings {
    int devices;          /* -1: it cannot be initialised */
    bool has_no_pools;    /* nothing is allocated in the order of a stream */
    size_t room;          /* bytes of each device; 0: as much as there is */
    unsigned failing;     /* copy or fill, from 1, that fails late; 0: none */
    int failure;          /* and how; 0: as what reads where nothing is */
    unsigned longest_nap; /* before a command, in microseconds */
} standin_settings;

/* What there is of each: made, and not destroyed. */
typedef struct standin_counts {
    int contexts, streams, events, blocks, pinned, attached;
} standin_counts;

/* What it exports under the name "standin". */
typedef struct standin_control {
    void (*set)(standin_settings settings);
    standin_counts (*count)(void);
    /* Makes the context of a device current, of this thread; -1: none again. */
    void (*make_current)(int device);
    /* Of which device that is, if it is the only one on the stack; or -1. */
    int (*current)(void);
} standin_control;

#endif
