/*
 * The interface between MPItrampoline, which XLA contains, and the library that
 * MPITRAMPOLINE_LIB names. Its functions and constants begin with MPIABI_. The
 * loader reads constants from the library, so that each library chooses their
 * values.
 */
#ifndef LS_MPITRAMPOLINE_MPIABI_H
#define LS_MPITRAMPOLINE_MPIABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/comm.h"

#define MPIABI_API __attribute__((visibility("default")))

/* Handles have the size of a pointer. */
typedef uintptr_t mpi_type;
typedef uintptr_t mpi_op;
typedef struct communicator *mpi_comm;
typedef struct request *mpi_request;

enum { MPI_OK = 0, MPI_FAILED = 16 };
enum { MPI_UNDEFINED = -601, MPI_ERROR_BYTES = 512, MPI_VERSION_BYTES = 8192 };

/* Element types: name in MPI, and the library's type. */
#define MPI_TYPES(X)                                                           \
    X(BYTE, LS_U8)                                                             \
    X(INT8_T, LS_I8)                                                           \
    X(UINT8_T, LS_U8)                                                          \
    X(INT16_T, LS_I32)                                                         \
    X(UINT16_T, LS_I32)                                                        \
    X(INT32_T, LS_I32)                                                         \
    X(UINT32_T, LS_I32)                                                        \
    X(INT64_T, LS_I64)                                                         \
    X(UINT64_T, LS_I64)                                                        \
    X(FLOAT, LS_F32)                                                           \
    X(DOUBLE, LS_F64)                                                          \
    X(C_COMPLEX, LS_F32)                                                       \
    X(C_DOUBLE_COMPLEX, LS_F64)

#define MPI_OPS(X)                                                             \
    X(SUM, LS_REDUCE_SUM)                                                      \
    X(PROD, LS_REDUCE_PROD)                                                    \
    X(MIN, LS_REDUCE_MIN)                                                      \
    X(MAX, LS_REDUCE_MAX)

#define X(name, value) TYPE_##name,
enum { TYPE_NULL, MPI_TYPES(X) TYPE_COUNT };
#undef X
#define X(name, value) OP_##name,
enum { OP_NULL, MPI_OPS(X) OP_COUNT };
#undef X

/* Keeps a sentence for MPI_Error_string on this thread; returns MPI_FAILED. */
int mpi_failed(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- elements.c ---------------------------------------------------------- */

/* Bytes of an element of a known type. */
size_t mpi_type_bytes(mpi_type type);

/* A reduction of the library that gives the result of one of MPI. */
typedef struct reduction {
    ls_dtype dtype;
    ls_reduce_op op;
    size_t parts;   /* elements of dtype for one of MPI */
    bool converted; /* whether elements differ before and after */
    mpi_type type;
} reduction;

/* MPI_FAILED, with a sentence, if the type has no such reduction. */
int mpi_reduction_of(mpi_type type, mpi_op op, reduction *out);

/* Converts elements of MPI's type for the reduction, or its result back. */
void mpi_convert(const reduction *r, void *to, const void *from, size_t count);
void mpi_convert_back(const reduction *r, void *to, const void *from,
                      size_t count);

#endif
