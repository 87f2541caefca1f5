/*
 * The module lockstep_torch._C.
 */
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include "backend.h"

namespace
{

c10::intrusive_ptr<c10d::Backend>
create(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size,
       std::chrono::milliseconds timeout, const std::string &name)
{
    return c10::make_intrusive<lockstep::Backend>(store, rank, size, timeout,
                                                  name);
}

at::Tensor shared_like(const c10::intrusive_ptr<c10d::Backend> &backend,
                       const at::Tensor &like)
{
    auto *ours = dynamic_cast<lockstep::Backend *>(backend.get());
    TORCH_CHECK_TYPE(ours != nullptr, "shared_like: the backend is '",
                     backend->getBackendName(),
                     "'; it must be a backend of lockstep_torch");
    return ours->shared_like(like);
}

} // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module)
{
    namespace py = pybind11;
    module.doc() = "Backend for torch.distributed that communicates through "
                   "liblockstep-comm.";
    module.attr("built_for") = LOCKSTEP_TORCH_VERSION;
    module.def("Backend", create, py::arg("store"), py::arg("rank"),
               py::arg("size"), py::arg("timeout"), py::arg("name"),
               py::call_guard<py::gil_scoped_release>());
    module.def("shared_like", shared_like, py::arg("backend"), py::arg("like"),
               py::call_guard<py::gil_scoped_release>());
    /* Before Python's threads and modules go. */
    py::module_::import("atexit").attr("register")(py::cpp_function(
        lockstep::shut_down_all, py::call_guard<py::gil_scoped_release>()));
}
