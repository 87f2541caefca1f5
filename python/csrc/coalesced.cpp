/* The operations were started one by one; only the wait for them is shared. */
#include "coalesced.h"

#include <algorithm>

#include <ATen/core/ivalue.h>

namespace lockstep
{
namespace
{

using Works = std::vector<c10::intrusive_ptr<c10d::Work>>;

std::vector<at::Tensor> results_of(const Works &works)
{
    std::vector<at::Tensor> all;
    for (const auto &work : works) {
        const std::vector<at::Tensor> some = work->result();
        all.insert(all.end(), some.begin(), some.end());
    }
    return all;
}

} // namespace

Coalesced::Coalesced(int rank, Works works)
    : c10d::Work(rank, c10d::OpType::COALESCED), works_(std::move(works))
{
}

bool Coalesced::isCompleted()
{
    return std::all_of(works_.begin(), works_.end(),
                       [](const auto &work) { return work->isCompleted(); });
}

bool Coalesced::isSuccess() const
{
    return std::all_of(works_.begin(), works_.end(),
                       [](const auto &work) { return work->isSuccess(); });
}

std::exception_ptr Coalesced::exception() const
{
    for (const auto &work : works_)
        if (const std::exception_ptr found = work->exception())
            return found;
    return nullptr;
}

bool Coalesced::wait(std::chrono::milliseconds timeout)
{
    for (const auto &work : works_)
        work->wait(timeout);
    return true;
}

/* Ends all operations of the group. */
void Coalesced::abort()
{
    if (!works_.empty())
        works_.front()->abort();
}

std::vector<at::Tensor> Coalesced::result()
{
    return results_of(works_);
}

c10::intrusive_ptr<c10::ivalue::Future> Coalesced::getFuture()
{
    const auto tensors = c10::ListType::create(c10::TensorType::get());
    c10::List<c10::intrusive_ptr<c10::ivalue::Future>> futures(
        c10::FutureType::create(tensors));
    for (const auto &work : works_)
        futures.push_back(work->getFuture());
    return c10::collectAll(futures)->then(
        [works = works_](c10::ivalue::Future &all) {
            if (all.hasError())
                std::rethrow_exception(all.exception_ptr());
            return c10::IValue(results_of(works));
        },
        tensors);
}

} // namespace lockstep
