/*
 * The callbacks of ls_store; no exception passes through C.
 */
#include "store.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "process.h"

namespace lockstep
{
namespace
{

using std::chrono::duration;
using std::chrono::microseconds;
using std::chrono::steady_clock;

constexpr microseconds FIRST_PAUSE{100};
constexpr microseconds LAST_PAUSE{5000};

/*
 * Looks again and again: a wait of a store throws when time is up, may keep
 * others from its connection, and cannot be short. False if time is up.
 */
bool await_key(c10d::Store &store, const char *key, double seconds)
{
    const auto began = steady_clock::now();
    for (auto pause = FIRST_PAUSE; !store.check({key});
         pause = std::min(2 * pause, LAST_PAUSE)) {
        const duration<double> waited = steady_clock::now() - began;
        if (seconds > 0 && waited.count() >= seconds)
            return false;
        check_signals();
        std::this_thread::sleep_for(pause);
    }
    return true;
}

} // namespace

StoreForLibrary::StoreForLibrary(c10d::Store &store)
    : torchs_(store), store_{sizeof(ls_store), this, set_key, get_key}
{
}

void StoreForLibrary::rethrow() const
{
    if (thrown_)
        std::rethrow_exception(thrown_);
}

ls_status StoreForLibrary::set_key(void *context, const char *key,
                                   const void *data, size_t bytes)
{
    auto &self = *static_cast<StoreForLibrary *>(context);
    try {
        const auto *first = static_cast<const uint8_t *>(data);
        self.torchs_.set(key, std::vector<uint8_t>(first, first + bytes));
        return LS_OK;
    } catch (...) {
        self.thrown_ = std::current_exception();
        return LS_ERR_IO;
    }
}

ls_status StoreForLibrary::get_key(void *context, const char *key, void *data,
                                   size_t *bytes, double seconds)
{
    auto &self = *static_cast<StoreForLibrary *>(context);
    try {
        if (!await_key(self.torchs_, key, seconds))
            return LS_ERR_TIMEOUT;
        const std::vector<uint8_t> value = self.torchs_.get(key);
        if (value.size() > *bytes)
            return LS_ERR_ARGUMENT;
        std::memcpy(data, value.data(), value.size());
        *bytes = value.size();
        return LS_OK;
    } catch (...) {
        self.thrown_ = std::current_exception();
        return LS_ERR_IO;
    }
}

} // namespace lockstep
