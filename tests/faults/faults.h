/*
 * Calls of the system that fail on demand. faults.c is preloaded (LD_PRELOAD);
 * a program finds these functions by dlsym.
 */
#ifndef TESTS_FAULTS_H
#define TESTS_FAULTS_H

#include <stdbool.h>

typedef enum fault_call {
    FAULT_WRITE, /* and pwrite */
    FAULT_READ,  /* and pread */
    FAULT_OPEN,  /* and openat, of what is there */
    FAULT_CREATE,
    FAULT_SYNC,
    FAULT_RENAME,
    FAULT_MAKE, /* mkdir */
    FAULT_LOOK, /* fstat */
    FAULT_MEMORY,
    FAULT_MAP,
    FAULT_CALLS
} fault_call;

typedef struct fault {
    fault_call call;
    int error;  /* errno; 0: only the first part is read or written */
    bool stays; /* all later ones fail, too */
} fault;

/* The k-th such call from now on, of all threads, fails; k >= 1. */
typedef void faults_arm_fn(const fault *what, int k);

/* None fails any more. Whether one has. */
typedef bool faults_disarm_fn(void);

faults_arm_fn faults_arm;
faults_disarm_fn faults_disarm;

#endif
