/* The rendezvous of ranks: a store of PyTorch as an ls_store of the library. */
#pragma once

#include <chrono>
#include <exception>
#include <string>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/group.h"

#include "process.h"

namespace lockstep
{

/*
 * The number of a meeting of all ranks in a store, by which they are a group:
 * rank 0 publishes it. A rank takes part in each meeting once, and not in
 * meetings that others have given up.
 */
class Meeting
{
  public:
    /* Waits for rank 0 up to the timeout; throws if it does not arrive. */
    Meeting(c10d::Store &store, int rank, std::chrono::milliseconds timeout);

    int64_t number() const
    {
        return number_;
    }
    std::string name() const
    {
        return "lockstep/" + std::to_string(number_);
    }
    bool is_rank_0() const
    {
        return rank_ == 0;
    }
    /* Whether rank 0 has given up and has published the next. */
    bool is_over() const;

  private:
    int64_t published() const;

    c10d::Store &store_;
    const int rank_;
    int64_t number_ = 0;
};

/* Refers to `store` and `meeting`, which must outlive it. */
class StoreForLibrary
{
  public:
    StoreForLibrary(c10d::Store &store, const Meeting &meeting);
    StoreForLibrary(const StoreForLibrary &) = delete;
    StoreForLibrary &operator=(const StoreForLibrary &) = delete;

    const ls_store *get() const
    {
        return &store_;
    }
    /*
     * Throws the last exception of the store or of a signal handler again, if
     * any.
     */
    void rethrow() const;

  private:
    ls_status await_key(const char *key, double seconds);
    static ls_status set_key(void *context, const char *key, const void *data,
                             size_t bytes);
    static ls_status get_key(void *context, const char *key, void *data,
                             size_t *bytes, double seconds);

    c10d::Store &torchs_;
    const Meeting &meeting_;
    ls_store store_;
    std::exception_ptr thrown_;
    Interrupt interrupt_;
};

} // namespace lockstep
