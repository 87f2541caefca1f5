/*
 * Messages between two ranks.
 */
#include "backend.h"
#include "parts.h"

namespace lockstep
{
namespace
{

const c10d::AllreduceOptions no_options; /* messages have none */

} // namespace

WorkPtr Backend::send(Tensors &tensors, int peer, int tag)
{
    check_one("send", tensors);
    check_root("send", peer);
    Operation operation = begin(c10d::OpType::SEND, "send", no_options);
    const at::Tensor data = read_from(operation, "send", tensors[0]);
    const Elements elements = moved(data);
    operation.result = tensors;
    operation.steps = {[=](ls_group *group, Work &work) {
        return ls_isend(group, data.const_data_ptr(), elements.count,
                        elements.dtype, peer, tag, work.request());
    }};
    return launch(std::move(operation));
}

WorkPtr Backend::recv(Tensors &tensors, int peer, int tag)
{
    check_root("recv", peer);
    return receive(begin(c10d::OpType::RECV, "recv", no_options), tensors, peer,
                   tag);
}

WorkPtr Backend::recvAnysource(Tensors &tensors, int tag)
{
    return receive(
        begin(c10d::OpType::RECVANYSOURCE, "recvAnySource", no_options),
        tensors, LS_ANY_RANK, tag);
}

WorkPtr Backend::receive(Operation &&operation, Tensors &tensors, int peer,
                         int tag)
{
    check_one("recv", tensors);
    const at::Tensor data = written_to(operation, "recv", tensors[0]);
    const Elements elements = moved(data);
    operation.inputs = tensors;
    operation.result = tensors;
    operation.steps = {[=](ls_group *group, Work &work) {
        return ls_irecv(group, data.data_ptr(), elements.count, elements.dtype,
                        peer, tag, work.request());
    }};
    return launch(std::move(operation));
}

} // namespace lockstep
