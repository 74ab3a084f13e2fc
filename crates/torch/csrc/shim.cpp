// The functions of libtorch that training needs and tch does not bind, behind a C interface. It links
// libtorch_cpu and libc10 only: the CUDA part is another library, which is loaded at run time if there is a
// GPU.
//
// Functions return 0, or -1 after an exception, whose text `tandem_error` returns. Tensors are `at::Tensor*`
// that the caller owns, as in tch.

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
void* gpu_library = nullptr;

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
    bool on_gpu;
};

using NewNccl = void* (*)(void* store, int rank, int world_size, int device, int64_t timeout_ms, const char** error);

}  // namespace

extern "C" {

const char* tandem_error() { return message.c_str(); }

const char* tandem_version() { return TORCH_VERSION; }

// The CUDA kernels register themselves when the library is loaded, and a program that links with --as-needed
// does not load it.
int tandem_load_cuda() {
    if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL)) return 0;
    message = dlerror();
    return -1;
}

int tandem_load_gpu_library(const char* path) {
    gpu_library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (gpu_library) return 0;
    message = dlerror();
    return -1;
}

void* tandem_gpu_function(const char* name) { return gpu_library ? dlsym(gpu_library, name) : nullptr; }

int tandem_synchronize(int device) {
    return guarded([&] { torch::cuda::synchronize(device); });
}

// Peak number of bytes that tensors have occupied on a GPU; -1 if that is not known.
int64_t tandem_peak_memory(int device) {
    int64_t bytes = -1;
    guarded([&] { bytes = c10::getDeviceAllocator(at::kCUDA)->getDeviceStats(device).allocated_bytes[0].peak; });
    return bytes;
}

int tandem_allow_tf32(int allow) {
    return guarded([&] { at::globalContext().setFloat32MatmulPrecision(allow ? "high" : "highest"); });
}

// Moves a CPU tensor to page-locked memory, from which a GPU copies asynchronously. tch's own function warns
// of a deprecated argument.
int tandem_pin(at::Tensor* tensor) {
    return guarded([&] { *tensor = tensor->pin_memory(); });
}

// One AdamW step on flat buffers. The learning rate and the number of steps are tensors, so that a captured
// graph can be replayed with other values.
int tandem_adamw(at::Tensor* params, at::Tensor* grads, at::Tensor* exp_avg, at::Tensor* exp_avg_sq, at::Tensor* steps,
                 at::Tensor* lr, double beta1, double beta2, double weight_decay, double epsilon) {
    return guarded([&] {
        torch::NoGradGuard no_grad;
        at::_fused_adamw_({*params}, {*grads}, {*exp_avg}, {*exp_avg_sq}, {}, {*steps}, *lr, beta1, beta2, weight_decay,
                          epsilon, false, false);
    });
}

// Joins the process group of a run. Under torchrun the agent holds the store, and no rank may.
void* tandem_group(int rank, int world_size, const char* address, int port, int is_store_host, int on_gpu, int device,
                   int64_t timeout_ms) {
    Group* result = nullptr;
    guarded([&] {
        auto timeout = std::chrono::milliseconds(timeout_ms);
        c10d::TCPStoreOptions options;
        options.port = static_cast<uint16_t>(port);
        options.isServer = is_store_host != 0;
        options.numWorkers = world_size;
        options.waitWorkers = false;
        options.timeout = timeout;
        auto group = std::make_unique<Group>();
        group->on_gpu = on_gpu != 0;
        // Restarted ranks use another prefix than those that died.
        const char* restart = getenv("TORCHELASTIC_RESTART_COUNT");
        auto store = c10::make_intrusive<c10d::TCPStore>(address, options);
        group->store =
            c10::make_intrusive<c10d::PrefixStore>(std::string("tandem-") + (restart ? restart : "0"), store);
        if (group->on_gpu) {
            auto make = reinterpret_cast<NewNccl>(tandem_gpu_function("tandem_gpu_nccl"));
            if (!make) throw std::runtime_error("this build has no GPU library");
            const char* error = nullptr;
            void* backend = make(group->store.get(), rank, world_size, device, timeout_ms, &error);
            if (!backend) throw std::runtime_error(error ? error : "NCCL cannot be started");
            group->backend = c10::intrusive_ptr<c10d::Backend>::reclaim(static_cast<c10d::Backend*>(backend));
        } else {
            auto gloo = c10d::ProcessGroupGloo::Options::create(timeout);
            const char* interface = getenv("GLOO_SOCKET_IFNAME");
            gloo->devices.push_back(interface ? c10d::ProcessGroupGloo::createDeviceForInterface(interface, false)
                                              : c10d::ProcessGroupGloo::createDefaultDevice(false));
            group->backend = c10::make_intrusive<c10d::ProcessGroupGloo>(group->store, rank, world_size, gloo);
        }
        result = group.release();
    });
    return result;
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
        if (group->on_gpu) group->backend->shutdown();
    });
    delete group;
}

}  // extern "C"
