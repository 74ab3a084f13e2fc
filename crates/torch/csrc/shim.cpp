// What training needs of libtorch and tch leaves out, behind a C interface. Links libtorch_cpu and libc10 alone: a card's
// part is another library, which is opened where there is a card.
//
// Functions return 0, or -1 after an exception, whose text `tandem_error` tells. Tensors are `at::Tensor*` that the caller
// keeps, as tch's are.

#include <ATen/Context.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/torch.h>

#include <dlfcn.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace {

thread_local std::string message;
void* card = nullptr;

template <typename Body>
int guarded(Body body) {
    try {
        body();
        return 0;
    } catch (const std::exception& error) {
        message = error.what();
        return -1;
    }
}

struct Group {
    c10::intrusive_ptr<c10d::Store> store;
    c10::intrusive_ptr<c10d::Backend> backend;
    bool on_card;
};

using NewNccl = void* (*)(void* store, int rank, int ranks, int device, int64_t milliseconds, const char** problem);

}  // namespace

extern "C" {

const char* tandem_error() { return message.c_str(); }

const char* tandem_version() { return TORCH_VERSION; }

// Its kernels announce themselves when the library is loaded; a program that is linked only as needed does not load it.
int tandem_load_cuda() {
    if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL)) return 0;
    message = dlerror();
    return -1;
}

int tandem_load_card(const char* path) {
    card = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (card) return 0;
    message = dlerror();
    return -1;
}

void* tandem_card_function(const char* name) { return card ? dlsym(card, name) : nullptr; }

int tandem_synchronise(int device) {
    return guarded([&] { torch::cuda::synchronize(device); });
}

// The most bytes that tensors have taken of a card at one time; -1 where that is not known.
int64_t tandem_peak_memory(int device) {
    int64_t bytes = -1;
    guarded([&] { bytes = c10::getDeviceAllocator(at::kCUDA)->getDeviceStats(device).allocated_bytes[0].peak; });
    return bytes;
}

int tandem_allow_tf32(int allow) {
    return guarded([&] { at::globalContext().setFloat32MatmulPrecision(allow ? "high" : "highest"); });
}

// Puts a tensor of the processor into memory that a card fetches from by itself. tch's own way warns of an argument.
int tandem_pin(at::Tensor* tensor) {
    return guarded([&] { *tensor = tensor->pin_memory(); });
}

// One step of AdamW on rows of numbers. The rate and the number of steps are tensors, so that a recorded graph can be
// replayed with others.
int tandem_adamw(at::Tensor* numbers, at::Tensor* slopes, at::Tensor* first, at::Tensor* second, at::Tensor* steps,
                 at::Tensor* rate, double beta1, double beta2, double decay, double epsilon) {
    return guarded([&] {
        torch::NoGradGuard no_slopes;
        at::_fused_adamw_({*numbers}, {*slopes}, {*first}, {*second}, {}, {*steps}, *rate, beta1, beta2, decay, epsilon,
                          false, false);
    });
}

// Processes that train together. Under torchrun its agent holds the store, and nobody else may.
void* tandem_group(int rank, int ranks, const char* address, int port, int holds_store, int on_card, int device,
                   int64_t milliseconds) {
    Group* made = nullptr;
    guarded([&] {
        auto patience = std::chrono::milliseconds(milliseconds);
        c10d::TCPStoreOptions options;
        options.port = static_cast<uint16_t>(port);
        options.isServer = holds_store != 0;
        options.numWorkers = ranks;
        options.waitWorkers = false;
        options.timeout = patience;
        auto group = std::make_unique<Group>();
        group->on_card = on_card != 0;
        // Ranks that were started again meet under another name than those that died.
        const char* again = getenv("TORCHELASTIC_RESTART_COUNT");
        auto store = c10::make_intrusive<c10d::TCPStore>(address, options);
        group->store = c10::make_intrusive<c10d::PrefixStore>(std::string("tandem-") + (again ? again : "0"), store);
        if (group->on_card) {
            auto make = reinterpret_cast<NewNccl>(tandem_card_function("tandem_card_nccl"));
            if (!make) throw std::runtime_error("this build has no part for cards");
            const char* problem = nullptr;
            void* backend = make(group->store.get(), rank, ranks, device, milliseconds, &problem);
            if (!backend) throw std::runtime_error(problem ? problem : "NCCL does not begin");
            group->backend = c10::intrusive_ptr<c10d::Backend>::reclaim(static_cast<c10d::Backend*>(backend));
        } else {
            auto gloo = c10d::ProcessGroupGloo::Options::create(patience);
            const char* interface = getenv("GLOO_SOCKET_IFNAME");
            gloo->devices.push_back(interface ? c10d::ProcessGroupGloo::createDeviceForInterface(interface, false)
                                              : c10d::ProcessGroupGloo::createDefaultDevice(false));
            group->backend = c10::make_intrusive<c10d::ProcessGroupGloo>(group->store, rank, ranks, gloo);
        }
        made = group.release();
    });
    return made;
}

int tandem_sum(void* group, at::Tensor* tensor) {
    return guarded([&] {
        std::vector<at::Tensor> tensors{tensor->detach()};
        static_cast<Group*>(group)->backend->allreduce(tensors)->wait();
    });
}

int tandem_broadcast(void* group, at::Tensor* tensor) {
    return guarded([&] {
        std::vector<at::Tensor> tensors{tensor->detach()};
        c10d::BroadcastOptions options;
        options.rootRank = 0;
        options.rootTensor = 0;
        static_cast<Group*>(group)->backend->broadcast(tensors, options)->wait();
    });
}

void tandem_group_free(void* pointer) {
    auto* group = static_cast<Group*>(pointer);
    guarded([&] {
        if (group->on_card) group->backend->shutdown();
    });
    delete group;
}

}  // extern "C"
