/*
 * Where ranks meet: a store of PyTorch as the library wants one.
 */
#pragma once

#include <exception>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/group.h"

namespace lockstep
{

/* Refers to `store`, which must outlive it. */
class StoreForLibrary
{
  public:
    explicit StoreForLibrary(c10d::Store &store);
    StoreForLibrary(const StoreForLibrary &) = delete;
    StoreForLibrary &operator=(const StoreForLibrary &) = delete;

    const ls_store *get() const
    {
        return &store_;
    }
    /* What the store has thrown last, or a handler of a signal, if anything. */
    void rethrow() const;

  private:
    static ls_status set_key(void *context, const char *key, const void *data,
                             size_t bytes);
    static ls_status get_key(void *context, const char *key, void *data,
                             size_t *bytes, double seconds);

    c10d::Store &torchs_;
    ls_store store_;
    std::exception_ptr thrown_;
};

} // namespace lockstep
