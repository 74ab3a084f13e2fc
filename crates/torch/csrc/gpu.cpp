// The part of the shim that needs libtorch_cuda: NCCL process groups and CUDA graphs.

#include "gpu.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <chrono>
#include <optional>
#include <string>

thread_local std::string gpu_message;

namespace {

// A CUDA graph and the stream that it is captured on.
struct Graph {
    explicit Graph(int device) : device(device), stream(c10::cuda::getStreamFromPool(true, this->device)) {}

    c10::DeviceIndex device;
    at::cuda::CUDAGraph graph;
    c10::cuda::CUDAStream stream;
    std::optional<c10::cuda::CUDAStreamGuard> stream_guard;
};

// Waits for everything on the graph's device.
void synchronise(const Graph& graph) {
    c10::cuda::CUDAGuard guard(graph.device);
    c10::cuda::device_synchronize();
}

}  // namespace

extern "C" {

const char* tandem_gpu_error() { return gpu_message.c_str(); }

void* tandem_gpu_nccl(void* store, int rank, int world_size, int device, int64_t timeout_ms, const char** error) {
    void* result = nullptr;
    int status = guarded([&] {
        c10::cuda::set_device(static_cast<c10::DeviceIndex>(device));
        auto shared_store = c10::intrusive_ptr<c10d::Store>::reclaim_copy(static_cast<c10d::Store*>(store));
        auto options = c10d::ProcessGroupNCCL::Options::create(true);
        options->timeout = std::chrono::milliseconds(timeout_ms);
        auto group = c10::make_intrusive<c10d::ProcessGroupNCCL>(shared_store, rank, world_size, options);
        group->setBoundDeviceId(at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device)));
        result = static_cast<c10d::Backend*>(group.release());
    });
    if (status != 0) *error = gpu_message.c_str();
    return result;
}

void* tandem_gpu_graph(int device) {
    Graph* result = nullptr;
    guarded([&] { result = new Graph(device); });
    return result;
}

void tandem_gpu_graph_free(void* graph) { delete static_cast<Graph*>(graph); }

// Work between these two runs on the graph's own stream.
int tandem_gpu_graph_enter_stream(void* pointer) {
    return guarded([&] {
        auto* graph = static_cast<Graph*>(pointer);
        synchronise(*graph);
        graph->stream_guard.emplace(graph->stream);
    });
}

int tandem_gpu_graph_leave_stream(void* pointer) {
    return guarded([&] {
        auto* graph = static_cast<Graph*>(pointer);
        synchronise(*graph);
        graph->stream_guard.reset();
    });
}

int tandem_gpu_graph_begin_capture(void* pointer) {
    return guarded([&] {
        // A capture allocates from a memory pool of its own and cannot reuse what the steps before it have
        // cached.
        c10::cuda::CUDACachingAllocator::emptyCache();
        static_cast<Graph*>(pointer)->graph.capture_begin({0, 0}, cudaStreamCaptureModeGlobal);
    });
}

int tandem_gpu_graph_end_capture(void* pointer) {
    return guarded([&] { static_cast<Graph*>(pointer)->graph.capture_end(); });
}

int tandem_gpu_graph_replay(void* pointer) {
    return guarded([&] {
        auto* graph = static_cast<Graph*>(pointer);
        c10::cuda::CUDAGuard guard(graph->device);
        graph->graph.replay();
    });
}

}  // extern "C"
