/*
 * The names that MPItrampoline looks up in any case. It ends the process when
 * one is missing.
 */
#include "mpitrampoline/mpiabi.h"

#include <stdlib.h>

#include "base/log.h"

/* Of the interface: 2.9 in MPItrampoline 5.3. The loader wants no smaller ones.
 */
MPIABI_API const int mpiabi_version_major = 2;
MPIABI_API const int mpiabi_version_minor = 99;
MPIABI_API const int mpiabi_version_patch = 0;
MPIABI_API const int mpiwrapper_version_major = 2;
MPIABI_API const int mpiwrapper_version_minor = 99;
MPIABI_API const int mpiwrapper_version_patch = 0;

MPIABI_API void mpiwrapper_export_fortran_constants_(void)
{
}

/* All memory is the host's. */
MPIABI_API int MPIXABI_Query_cuda_support(void)
{
    return 0;
}

MPIABI_API int MPIXABI_Query_hip_support(void)
{
    return 0;
}

MPIABI_API int MPIXABI_Query_ze_support(void)
{
    return 0;
}

/* The loader reads as many bytes as the type of the constant has. */
#define X(name) MPIABI_API const uintptr_t MPIABI_##name = 0;
#include "mpitrampoline/constants.def"
#undef X

static _Noreturn void refuse(const char *name)
{
    lsi_log(LS_LOG_ERROR,
            "MPI_%s is not part of Lockstep's library for JAX; set "
            "MPITRAMPOLINE_LIB to that of an MPI library (MPIwrapper)",
            name);
    exit(1);
}

#define X(name)                                                                \
    MPIABI_API void MPIABI_##name(void)                                        \
    {                                                                          \
        refuse(#name);                                                         \
    }
#include "mpitrampoline/functions.def"
#undef X
