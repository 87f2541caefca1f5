/*
 * CPU tensors for PyTorch's symmetric memory: torch.distributed.
 * _symmetric_memory.empty and rendezvous, with ranks that read and write each
 * other's tensors. Loading the module registers the allocator.
 *
 * Allocating is local, as with CUDA. The rendezvous moves the tensor's pages to
 * memory that all ranks map, at the same address.
 */
#include <torch/version.h>

/* The interface is private to PyTorch; it has been tried with this release. */
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR == 15

#    include <cstring>
#    include <map>

#    include <sys/mman.h>
#    include <unistd.h>

#    include <ATen/ATen.h>
#    include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#    include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#    include <torch/csrc/distributed/c10d/symm_mem/SymmetricMemory.hpp>

#    include "backend.h"
#    include "process.h"

namespace lockstep
{
namespace
{

namespace symmetric = c10d::symmetric_memory;
using std::chrono::milliseconds;

constexpr milliseconds MEETING_TIMEOUT = std::chrono::minutes(5);

size_t whole_pages(size_t bytes)
{
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return (bytes / page + 1) * page;
}

/* The pages of one tensor. They end with the tensor and its last handle. */
class Pages
{
  public:
    explicit Pages(size_t bytes)
        : bytes_(bytes), mapped_(whole_pages(bytes)),
          data_(mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
    {
        TORCH_CHECK_WITH(OutOfMemoryError, data_ != MAP_FAILED,
                         "lockstep: cannot map ", mapped_,
                         " bytes for a symmetric tensor: ", strerror(errno));
    }
    ~Pages()
    {
        munmap(data_, mapped_);
    }
    Pages(const Pages &) = delete;
    Pages &operator=(const Pages &) = delete;

    void *data() const
    {
        return data_;
    }
    size_t bytes() const
    {
        return bytes_;
    }

    /* Puts shared memory in their place, with the same contents. */
    void replace_by(void *shared)
    {
        std::memcpy(shared, data_, bytes_);
        /* The size 0 asks for a second mapping of shared pages. */
        TORCH_CHECK(mremap(shared, 0, mapped_, MREMAP_MAYMOVE | MREMAP_FIXED,
                           data_) == data_,
                    "lockstep: cannot map the shared memory of a symmetric "
                    "tensor in its place: ",
                    strerror(errno));
    }

  private:
    const size_t bytes_, mapped_;
    void *const data_;
};

/* ---- handles ------------------------------------------------------------- */

/* A signal is an empty message of this group, with a tag for its channel. */
enum class Use { BARRIER, SIGNAL };

int tag_of(Use use, int channel)
{
    TORCH_CHECK_VALUE(channel >= 0 && channel < (1 << 29),
                      "lockstep: symmetric memory: channel ", channel,
                      " is not between 0 and ", (1 << 29) - 1);
    return 2 * channel + static_cast<int>(use);
}

void await(const WorkPtr &work, size_t timeout_ms)
{
    work->wait(timeout_ms == 0 ? kNoTimeout : milliseconds(timeout_ms));
}

class Handle final : public symmetric::SymmetricMemory
{
  public:
    /* Collective over the group, which has a separate store for it. */
    Handle(std::shared_ptr<Pages> pages,
           const c10::intrusive_ptr<c10d::Store> &store, int rank, int size)
        : pages_(std::move(pages)), rank_(rank), size_(size)
    {
        const auto backend = c10::make_intrusive<Backend>(
            store, rank, size, MEETING_TIMEOUT, "lockstep");
        const size_t pads = whole_pages(get_signal_pad_size());
        const size_t first = whole_pages(pages_->bytes());
        shared_ =
            backend->shared_like(at::empty({static_cast<int64_t>(first + pads)},
                                           at::TensorOptions(at::kByte)));
        auto *const mine = static_cast<char *>(shared_.data_ptr());
        backend_ = backend.get();
        for (int peer = 0; peer < size; peer++) {
            auto *const part =
                static_cast<char *>(backend->peer_of(mine, peer));
            buffers_.push_back(part);
            pads_.push_back(part == nullptr ? nullptr : part + first);
        }
        if (size > 1) /* a single rank has no shared memory */
            pages_->replace_by(mine);
        buffers_[static_cast<size_t>(rank)] = pages_->data();
        barrier(0, 0); /* all contents are there */
    }

    std::vector<void *> get_buffer_ptrs() override
    {
        return buffers_;
    }
    std::vector<void *> get_signal_pad_ptrs() override
    {
        return pads_;
    }
    void **get_buffer_ptrs_dev() override
    {
        return buffers_.data();
    }
    void **get_signal_pad_ptrs_dev() override
    {
        return pads_.data();
    }
    size_t get_buffer_size() override
    {
        return pages_->bytes();
    }
    size_t get_offset() override
    {
        return 0;
    }
    bool has_multicast_support() override
    {
        return false;
    }
    void *get_multicast_ptr() override
    {
        return nullptr;
    }
    int get_rank() override
    {
        return rank_;
    }
    int get_world_size() override
    {
        return size_;
    }
    c10::Device get_device() override
    {
        return c10::kCPU;
    }
    bool world_within_direct_access() override
    {
        return std::find(buffers_.begin(), buffers_.end(), nullptr) ==
               buffers_.end();
    }

    void barrier(int channel, size_t timeout_ms) override
    {
        const WithoutPython released;
        std::vector<WorkPtr> works;
        for (int i = 1; i < size_; i++) {
            works.push_back(send((rank_ + i) % size_, Use::BARRIER, channel));
            works.push_back(
                receive((rank_ + i) % size_, Use::BARRIER, channel));
        }
        for (const WorkPtr &work : works)
            await(work, timeout_ms);
    }

    /* Does not wait for the receiver. */
    void put_signal(int peer, int channel, size_t timeout_ms) override
    {
        (void)timeout_ms;
        (void)send(peer, Use::SIGNAL, channel);
    }

    void wait_signal(int peer, int channel, size_t timeout_ms) override
    {
        const WithoutPython released;
        await(receive(peer, Use::SIGNAL, channel), timeout_ms);
    }

  private:
    WorkPtr send(int peer, Use use, int channel)
    {
        Tensors nothing = {at::empty({0}, at::TensorOptions(at::kByte))};
        return backend_->send(nothing, peer, tag_of(use, channel));
    }
    WorkPtr receive(int peer, Use use, int channel)
    {
        Tensors nothing = {at::empty({0}, at::TensorOptions(at::kByte))};
        return backend_->recv(nothing, peer, tag_of(use, channel));
    }

    const std::shared_ptr<Pages> pages_;
    const int rank_, size_;
    at::Tensor shared_; /* keeps the backend */
    Backend *backend_;
    std::vector<void *> buffers_, pads_; /* by rank; NULL on other machines */
};

/* ---- the allocator ------------------------------------------------------- */

c10::intrusive_ptr<Handle> meet(const std::shared_ptr<Pages> &pages,
                                const std::string &group_name)
{
    const auto group = c10d::resolve_process_group(group_name);
    const auto store = group->getStore();
    const int rank = group->getRank();
    /* Each rank counts the tensors of this group. */
    const auto number =
        store->add("symmetric tensors of rank " + std::to_string(rank), 1);
    return c10::make_intrusive<Handle>(
        pages,
        c10::make_intrusive<c10d::PrefixStore>(
            "symmetric tensor " + std::to_string(number), store),
        rank, group->getSize());
}

class Allocator final : public symmetric::SymmetricMemoryAllocator
{
  public:
    void *alloc(size_t bytes, int /* device */,
                const std::optional<std::string> &group_name) override
    {
        auto pages = std::make_shared<Pages>(bytes);
        const std::lock_guard<std::mutex> lock(mutex_);
        void *const data = pages->data();
        blocks_[data] = {std::move(pages), group_name, nullptr};
        return data;
    }

    void free(void *data) override
    {
        Block last; /* ends without the lock */
        const std::lock_guard<std::mutex> lock(mutex_);
        last = std::move(blocks_.at(data));
        blocks_.erase(data);
    }

    size_t get_alloc_size(void *data) override
    {
        return find(data).pages->bytes();
    }

    c10::intrusive_ptr<symmetric::SymmetricMemory>
    rendezvous(void *data, const std::optional<std::string> &given) override
    {
        const WithoutPython released;
        const Block block = find(data);
        TORCH_CHECK_VALUE(
            given || block.group_name,
            "lockstep: rendezvous of a symmetric tensor needs the "
            "name of a group");
        const std::string name = given ? *given : *block.group_name;
        if (block.handle != nullptr) {
            TORCH_CHECK_VALUE(
                name == *block.group_name,
                "lockstep: this symmetric tensor is shared in the "
                "group '",
                *block.group_name, "'; for the group '", name,
                "' allocate another one");
            return block.handle;
        }
        const auto handle = meet(block.pages, name);
        const std::lock_guard<std::mutex> lock(mutex_);
        blocks_[data].group_name = name;
        blocks_[data].handle = handle;
        return handle;
    }

    bool has_multicast_support(int /* device */) override
    {
        return false;
    }
    c10::DeviceType supported_device_type() override
    {
        return c10::DeviceType::CPU;
    }
    std::string name() override
    {
        return "LOCKSTEP";
    }
    bool has_allocation(void *data) override
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        return blocks_.count(data) != 0;
    }

  private:
    struct Block {
        std::shared_ptr<Pages> pages;
        std::optional<std::string> group_name;
        c10::intrusive_ptr<Handle> handle; /* after the rendezvous */
    };

    Block find(void *data)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = blocks_.find(data);
        TORCH_CHECK_VALUE(found != blocks_.end(),
                          "lockstep: this tensor has no symmetric memory; "
                          "allocate it by torch.distributed._symmetric_memory."
                          "empty(..., device='cpu')");
        return found->second;
    }

    std::mutex mutex_;
    std::map<void *, Block> blocks_;
};

const bool registered = [] {
    auto allocator = c10::make_intrusive<Allocator>();
    symmetric::register_availability("LOCKSTEP", allocator);
    symmetric::register_allocator(c10::DeviceType::CPU, allocator);
    return true;
}();

} // namespace
} // namespace lockstep

#endif
