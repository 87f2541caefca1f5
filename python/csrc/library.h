/*
 * Statuses of the library as exceptions of PyTorch.
 */
#pragma once

#include <exception>
#include <string>

#include "lockstep/group.h"

namespace lockstep
{

/*
 * The library's sentence about this thread's last error, to be thrown: a
 * ValueError, TypeError or NotImplementedError about the arguments of a call,
 * else a DistBackendError.
 */
std::exception_ptr failure(ls_status status);

/* A sentence of ours, to be thrown: a DistBackendError. */
std::exception_ptr failure(const std::string &sentence);

/* Throws unless it is LS_OK. */
void check(ls_status status);

} // namespace lockstep
