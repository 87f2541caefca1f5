/*
 * Meetings, and the callbacks of ls_store; no exception passes through C.
 */
#include "store.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include <c10/util/Exception.h>

#include "library.h"

namespace lockstep
{
namespace
{

using std::chrono::duration;
using std::chrono::microseconds;
using std::chrono::steady_clock;

constexpr microseconds FIRST_PAUSE{100};
constexpr microseconds LAST_PAUSE{5000};
/* Between two looks at whether rank 0 has given up. */
constexpr microseconds ASK_AGAIN{50000};

const char *const PUBLISHED = "lockstep/meeting";
const char *const MEETINGS = "lockstep/meetings";

} // namespace

/* ---- meeting ------------------------------------------------------------- */

int64_t Meeting::published() const
{
    if (!store_.check({PUBLISHED}))
        return 0;
    const std::vector<uint8_t> digits = store_.get(PUBLISHED);
    return std::stoll(std::string(digits.begin(), digits.end()));
}

/*
 * Without this every rank would count alone, and a late rank would look for the
 * others at an earlier meeting.
 */
Meeting::Meeting(c10d::Store &store, int rank,
                 std::chrono::milliseconds timeout)
    : store_(store), rank_(rank)
{
    if (rank == 0) {
        number_ = store.add(MEETINGS, 1);
        const std::string digits = std::to_string(number_);
        store.set(PUBLISHED,
                  std::vector<uint8_t>(digits.begin(), digits.end()));
        return;
    }
    const std::string key = "lockstep/met/" + std::to_string(rank);
    const int64_t last = store.add(key, 0);
    const auto began = steady_clock::now();
    for (auto pause = FIRST_PAUSE; (number_ = published()) <= last;
         pause = std::min(2 * pause, LAST_PAUSE)) {
        if (steady_clock::now() - began >= timeout)
            std::rethrow_exception(failure(c10::str(
                "lockstep: rank ", rank, " has waited ", timeout.count(),
                " ms for rank 0 to create the process group, but rank 0 has "
                "not arrived. Start all ranks within the timeout of "
                "init_process_group")));
        check_signals();
        std::this_thread::sleep_for(pause);
    }
    (void)store.add(key, number_ - last);
}

bool Meeting::is_over() const
{
    return rank_ != 0 && published() != number_;
}

/* ---- the library's store ------------------------------------------------- */

StoreForLibrary::StoreForLibrary(c10d::Store &store, const Meeting &meeting)
    : torchs_(store),
      meeting_(meeting), store_{sizeof(ls_store), this, set_key, get_key}
{
}

/*
 * Looks again and again: a wait of a store throws when time is up, may keep
 * others from its connection, and cannot be short. LS_ERR_TIMEOUT if time is
 * up, or the meeting over.
 */
ls_status StoreForLibrary::await_key(const char *key, double seconds)
{
    const auto began = steady_clock::now();
    auto asked = began;
    for (auto pause = FIRST_PAUSE; !torchs_.check({key});
         pause = std::min(2 * pause, LAST_PAUSE)) {
        const auto now = steady_clock::now();
        const duration<double> waited = now - began;
        if (seconds > 0 && waited.count() >= seconds)
            return LS_ERR_TIMEOUT;
        if (now - asked >= ASK_AGAIN) {
            asked = now;
            if (meeting_.is_over())
                return LS_ERR_TIMEOUT;
        }
        if (interrupt_.has_come())
            return LS_ERR_IO;
        std::this_thread::sleep_for(pause);
    }
    return LS_OK;
}

void StoreForLibrary::rethrow() const
{
    interrupt_.raise();
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
        const ls_status status = self.await_key(key, seconds);
        if (status != LS_OK)
            return status;
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
