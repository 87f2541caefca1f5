/*
 * Errors that cross into Python.
 */
#include "library.h"

#include <c10/util/Exception.h>

namespace lockstep
{
namespace
{

template <class Error> std::exception_ptr as(const std::string &sentence)
{
    return std::make_exception_ptr(
        Error({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, sentence));
}

} // namespace

/*
 * An argument that a call refuses gives the exception of NCCL's backend for it;
 * all other errors are the group's.
 */
std::exception_ptr failure(ls_status status)
{
    const std::string sentence = ls_last_error();
    switch (status) {
    case LS_ERR_ARGUMENT:
    case LS_ERR_SHAPE:
        return as<c10::ValueError>(sentence);
    case LS_ERR_DTYPE:
        return as<c10::TypeError>(sentence);
    case LS_ERR_UNSUPPORTED:
        return as<c10::NotImplementedError>(sentence);
    default:
        return failure(sentence);
    }
}

std::exception_ptr failure(const std::string &sentence)
{
    return as<c10::DistBackendError>(sentence);
}

void check(ls_status status)
{
    if (status != LS_OK)
        std::rethrow_exception(failure(status));
}

} // namespace lockstep
