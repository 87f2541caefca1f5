/*
 * Making and closing a backend; broadcast and barriers.
 */
#include "backend.h"

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include <ATen/record_function.h>

#include "coalesced.h"
#include "library.h"
#include "parts.h"
#include "process.h"
#include "store.h"

namespace lockstep
{
namespace
{

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/* The open backends, to be closed before the interpreter ends. */
struct Register {
    std::mutex mutex;
    std::set<std::shared_ptr<Engine>> open;
};

Register &all()
{
    static auto *const made = new Register; /* threads may end after statics */
    return *made;
}

/* In the library a timeout of 0 means no limit. */
milliseconds some_time(milliseconds timeout)
{
    return std::max(timeout, milliseconds(1));
}

} // namespace

/* ---- making and closing -------------------------------------------------- */

Backend::Backend(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                 milliseconds timeout, std::string name)
    : c10d::Backend(rank, size), store_(std::move(store)),
      name_(std::move(name)), timeout_ms_(some_time(timeout).count())
{
    engine_ = std::make_shared<Engine>(meet());
    const std::lock_guard<std::mutex> lock(all().mutex);
    all().open.insert(engine_);
}

/* Rank 0 may have given up while this rank arrived; it then tries again. */
static bool meets_again(const Meeting &meeting, ls_status status)
{
    if (status != LS_ERR_TIMEOUT && status != LS_ERR_PEER_DEAD)
        return false;
    const auto until = steady_clock::now() + milliseconds(300);
    while (!meeting.is_over()) {
        if (meeting.is_rank_0() || steady_clock::now() >= until)
            return false;
        check_signals();
        std::this_thread::sleep_for(milliseconds(10));
    }
    return true;
}

/* A store may serve several backends, one after the other; and rank 0 may have
   given up waiting for this rank, and waits again. */
ls_group *Backend::meet()
{
    const auto until = steady_clock::now() + milliseconds(timeout_ms_);
    for (;;) {
        const auto left = some_time(
            std::chrono::ceil<milliseconds>(until - steady_clock::now()));
        const Meeting meeting(*store_, rank_, left);
        meeting_ = meeting.name();
        StoreForLibrary store(*store_, meeting);
        ls_group *group = nullptr;
        const ls_status status =
            ls_group_open(&group, meeting_.c_str(), rank_, size_, store.get(),
                          static_cast<double>(timeout_ms_) * 1e-3);
        if (status == LS_OK)
            return group;
        store.rethrow();
        if (steady_clock::now() >= until || !meets_again(meeting, status))
            check(status);
    }
}

/* No tensor in shared memory is left: each keeps its backend. */
Backend::~Backend()
{
    close(Engine::Shared::FREED);
}

void Backend::setTimeout(milliseconds timeout)
{
    timeout_ms_ = some_time(timeout).count();
}

milliseconds Backend::timeout_of(milliseconds wanted) const
{
    return wanted.count() < 0 ? milliseconds(timeout_ms_) : some_time(wanted);
}

void Backend::abort()
{
    engine_->abort();
}

/* Callbacks that it waits for may need Python's lock. */
void Backend::close(Engine::Shared shared)
{
    const WithoutPython released;
    {
        const std::lock_guard<std::mutex> lock(all().mutex);
        all().open.erase(engine_);
    }
    engine_->close(shared);
}

void Backend::shutdown()
{
    close(Engine::Shared::KEPT);
}

void shut_down_all()
{
    for (;;) {
        std::shared_ptr<Engine> engine; /* its backend may end meanwhile */
        {
            const std::lock_guard<std::mutex> lock(all().mutex);
            if (all().open.empty())
                return;
            engine = *all().open.begin();
            all().open.erase(engine);
        }
        engine->close(Engine::Shared::KEPT);
    }
}

/* The engine's thread may hold the last tensor, and cannot wait for its own
 * end. */
void Backend::drop_reference(Backend *backend)
{
    auto self = c10::intrusive_ptr<Backend>::reclaim(backend);
    if (self->engine_->is_own_thread())
        std::thread([self = std::move(self)] {}).detach();
}

at::Tensor Backend::shared_like(const at::Tensor &like)
{
    void *memory = engine_->allocate_shared(std::max<size_t>(like.nbytes(), 1));
    Backend *self = c10::intrusive_ptr<Backend>::reclaim_copy(this).release();
    return at::from_blob(
        memory, {like.numel()}, [self](void *) { drop_reference(self); },
        like.options());
}

void *Backend::peer_of(const void *shared, int rank)
{
    return engine_->peer_of(shared, rank);
}

/* ---- starting ------------------------------------------------------------ */

WorkPtr Backend::launch(Operation &&operation)
{
    auto work = c10::make_intrusive<Work>(engine_, rank_, sequence_++,
                                          std::move(operation));
    engine_->launch(work);
    if (coalescing_)
        coalesced_.push_back(work);
    return work;
}

/* If an operation in between has thrown, the last coalescing was not ended. */
void Backend::startCoalescing()
{
    coalesced_.clear();
    coalescing_ = true;
}

WorkPtr Backend::endCoalescing()
{
    TORCH_CHECK(coalescing_, "lockstep: endCoalescing was called without "
                             "startCoalescing; call startCoalescing first");
    coalescing_ = false;
    return c10::make_intrusive<Coalesced>(rank_, std::exchange(coalesced_, {}));
}

/*
 * For the profiler: "gloo:all_reduce" where the backend goes by that name. It
 * keeps no copy of it. NULL without a profiler.
 */
const char *Backend::title_of(const char *name) const
{
    if (!at::hasCallbacks())
        return nullptr;
    static auto *const mutex = new std::mutex;
    static auto *const titles = new std::set<std::string>;
    const std::lock_guard<std::mutex> lock(*mutex);
    return titles->insert(name_ + ":" + name).first->c_str();
}

int Backend::check_root(const char *name, int64_t root) const
{
    TORCH_CHECK_VALUE(root >= 0 && root < size_, "lockstep: ", name, ": rank ",
                      root, " is not in the group, which has ranks 0 to ",
                      size_ - 1);
    return static_cast<int>(root);
}

void Backend::check_lists(const char *name, size_t lists, size_t length) const
{
    TORCH_CHECK_VALUE(lists == 1, "lockstep: ", name, " was called with ",
                      lists, " lists of tensors; pass one list");
    TORCH_CHECK_VALUE(length == static_cast<size_t>(size_), "lockstep: ", name,
                      ": the list contains ", length,
                      " tensors; it must contain ", size_, ", one per rank");
}

/* ---- broadcast and barriers ---------------------------------------------- */

WorkPtr Backend::broadcast(Tensors &tensors,
                           const c10d::BroadcastOptions &options)
{
    check_one("broadcast", tensors);
    const int root = check_root("broadcast", options.rootRank);
    Operation operation = begin(c10d::OpType::BROADCAST, "broadcast", options);
    const at::Tensor data =
        rank_ == root ? read_from(operation, "broadcast", tensors[0])
                      : written_to(operation, "broadcast", tensors[0]);
    const Elements elements = moved(data);
    operation.result = tensors;
    operation.steps = {[=](ls_group *group, Work &work) {
        return ls_ibroadcast(group, data.data_ptr(), elements.count,
                             elements.dtype, root, work.request());
    }};
    return launch(std::move(operation));
}

WorkPtr Backend::barrier(const c10d::BarrierOptions &options)
{
    Operation operation = begin(c10d::OpType::BARRIER, "barrier", options);
    operation.steps = {[](ls_group *group, Work &work) {
        return ls_ibarrier(group, work.request());
    }};
    return launch(std::move(operation));
}

/* Deletes a key, if the store can. */
static void delete_key(c10d::Store &store, const std::string &key)
{
    try {
        (void)store.deleteKey(key);
    } catch (const std::exception &) {
    }
}

/*
 * Uses the store and not the group, which stays usable when ranks are missing.
 * Rank 0 waits for all others, as in the documentation of PyTorch, and notifies
 * them whether to go on. The wording is gloo's, which programs look for.
 */
void Backend::monitoredBarrier(const c10d::BarrierOptions &options,
                               bool all_ranks)
{
    engine_->check_process(); /* the parent has the store's connection */
    const milliseconds timeout = options.timeout.count() == 0
                                     ? options.timeout /* not a millisecond */
                                     : timeout_of(options.timeout);
    const auto until = steady_clock::now() + timeout;
    const std::string every = meeting_ + "/monitored/";
    const uint64_t number = monitored_++;
    const std::string name = every + std::to_string(number) + "/";
    const auto key_of = [&](int rank) { return name + std::to_string(rank); };
    const auto has_arrived = [&](int rank) {
        for (auto pause = milliseconds(1); !store_->check({key_of(rank)});
             pause = std::min(2 * pause, milliseconds(20))) {
            if (steady_clock::now() >= until)
                return false;
            check_signals();
            std::this_thread::sleep_for(pause);
        }
        return true;
    };
    const auto set_mine = [&](uint8_t all_arrived) {
        store_->set(key_of(rank_), std::vector<uint8_t>{all_arrived});
    };
    const auto fail = [&](const std::string &sentence) {
        std::rethrow_exception(
            failure(c10::str("lockstep, rank ", rank_, ": ", sentence)));
    };
    if (rank_ != 0) {
        set_mine(1);
        if (!has_arrived(0) ||
            store_->get(key_of(0)) != std::vector<uint8_t>{1})
            fail(c10::str("Rank ", rank_,
                          " successfully reached monitoredBarrier, but "
                          "received errors while waiting for send/recv from "
                          "rank 0 for ",
                          timeout.count(),
                          " ms. The error message of rank 0 names the ranks "
                          "that did not arrive"));
        return;
    }
    std::vector<int> missing;
    for (int rank = 1; rank < size_ && (missing.empty() || all_ranks); rank++) {
        if (!all_ranks && steady_clock::now() >= until) {
            set_mine(0);
            fail(c10::str("Rank 0 timed out in monitoredBarrier after ",
                          timeout.count(), " ms, before it checked rank ",
                          rank));
        }
        if (!has_arrived(rank))
            missing.push_back(rank);
    }
    set_mine(missing.empty() ? 1 : 0);
    if (missing.empty()) { /* they have read rank 0's last answer */
        for (int rank = 1; rank < size_; rank++)
            delete_key(*store_, key_of(rank));
        if (number > 0)
            delete_key(*store_, every + std::to_string(number - 1) + "/0");
    }
    if (!missing.empty())
        fail(c10::str(
            missing.size() > 1 ? "Ranks " : "Rank ", c10::Join(", ", missing),
            " failed to pass monitoredBarrier in ", timeout.count(), " ms"));
}

} // namespace lockstep
