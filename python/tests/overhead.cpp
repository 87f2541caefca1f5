/*
 * The time of a backend call from C++, and of the same call in C: part of
 * speed.py --overhead, which builds it.
 */
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include <pybind11/chrono.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/extension.h>

namespace
{

/* ls_all_reduce, whose address the caller knows. */
using AllReduce = int (*)(void *group, const void *send, void *recv,
                          size_t count, int dtype, int op);

/* Completed before it has begun: what PyTorch itself costs. */
class Nothing final : public c10d::Work
{
  public:
    bool isCompleted() override
    {
        return true;
    }
    bool wait(std::chrono::milliseconds) override
    {
        return true;
    }
};

class NoBackend final : public c10d::Backend
{
  public:
    using c10d::Backend::Backend;
    const std::string getBackendName() const override
    {
        return "nothing";
    }
    c10::intrusive_ptr<c10d::Work>
    allreduce(std::vector<at::Tensor> &,
              const c10d::AllreduceOptions &) override
    {
        return c10::make_intrusive<Nothing>();
    }
};

c10::intrusive_ptr<c10d::Backend>
nothing(const c10::intrusive_ptr<c10d::Store> &, int rank, int size,
        const std::chrono::milliseconds &)
{
    return c10::make_intrusive<NoBackend>(rank, size);
}

template <class Call> double seconds_of(const Call &call)
{
    const auto began = std::chrono::steady_clock::now();
    call();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         began)
        .count();
}

/* Seconds of each call: all of C, all of C++. They are made in turn. */
std::pair<std::vector<double>, std::vector<double>>
measure(const c10::intrusive_ptr<c10d::Backend> &backend, uintptr_t function,
        uintptr_t group, const at::Tensor &tensor, int calls)
{
    const auto all_reduce = reinterpret_cast<AllReduce>(function);
    auto *const in_c = reinterpret_cast<void *>(group);
    void *const data = tensor.data_ptr();
    const auto count = static_cast<size_t>(tensor.numel());
    std::vector<at::Tensor> tensors{tensor};
    c10d::AllreduceOptions options;
    std::pair<std::vector<double>, std::vector<double>> found;
    for (int i = 0; i < calls; i++) {
        found.first.push_back(seconds_of([&] {
            TORCH_CHECK(all_reduce(in_c, data, data, count, 0, 0) == 0);
        }));
        found.second.push_back(
            seconds_of([&] { backend->allreduce(tensors, options)->wait(); }));
    }
    return found;
}

} // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module)
{
    namespace py = pybind11;
    module.def("nothing", nothing, py::call_guard<py::gil_scoped_release>());
    module.def("measure", measure, py::call_guard<py::gil_scoped_release>());
}
