// The part that needs libtorch_cuda: sums over cards, and graphs of recorded kernels.

#include "card.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <chrono>
#include <optional>
#include <string>

thread_local std::string card_message;

namespace {

// A graph is recorded on a stream of its own, on the card that it is for.
struct Graph {
    explicit Graph(int device) : device(device), stream(c10::cuda::getStreamFromPool(true, this->device)) {}

    c10::DeviceIndex device;
    at::cuda::CUDAGraph graph;
    c10::cuda::CUDAStream stream;
    std::optional<c10::cuda::CUDAStreamGuard> aside;
};

// Waits for everything on the graph's card.
void finish(const Graph& graph) {
    c10::cuda::CUDAGuard card(graph.device);
    c10::cuda::device_synchronize();
}

}  // namespace

extern "C" {

const char* tandem_card_error() { return card_message.c_str(); }

void* tandem_card_nccl(void* store, int rank, int ranks, int device, int64_t milliseconds, const char** problem) {
    void* made = nullptr;
    int done = guarded([&] {
        c10::cuda::set_device(static_cast<c10::DeviceIndex>(device));
        auto shared = c10::intrusive_ptr<c10d::Store>::reclaim_copy(static_cast<c10d::Store*>(store));
        auto options = c10d::ProcessGroupNCCL::Options::create(true);
        options->timeout = std::chrono::milliseconds(milliseconds);
        auto group = c10::make_intrusive<c10d::ProcessGroupNCCL>(shared, rank, ranks, options);
        group->setBoundDeviceId(at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device)));
        made = static_cast<c10d::Backend*>(group.release());
    });
    if (done != 0) *problem = card_message.c_str();
    return made;
}

void* tandem_card_graph(int device) {
    Graph* made = nullptr;
    guarded([&] { made = new Graph(device); });
    return made;
}

void tandem_card_graph_free(void* graph) { delete static_cast<Graph*>(graph); }

// What is run between these two is run on the graph's own stream.
int tandem_card_step_aside(void* pointer) {
    return guarded([&] {
        auto* graph = static_cast<Graph*>(pointer);
        finish(*graph);
        graph->aside.emplace(graph->stream);
    });
}

int tandem_card_step_back(void* pointer) {
    return guarded([&] {
        auto* graph = static_cast<Graph*>(pointer);
        finish(*graph);
        graph->aside.reset();
    });
}

int tandem_card_record(void* pointer) {
    return guarded([&] {
        // A recording takes its memory elsewhere than the steps before it, whose memory it could not take back.
        c10::cuda::CUDACachingAllocator::emptyCache();
        static_cast<Graph*>(pointer)->graph.capture_begin({0, 0}, cudaStreamCaptureModeGlobal);
    });
}

int tandem_card_recorded(void* pointer) {
    return guarded([&] { static_cast<Graph*>(pointer)->graph.capture_end(); });
}

int tandem_card_replay(void* pointer) {
    return guarded([&] {
        auto* graph = static_cast<Graph*>(pointer);
        c10::cuda::CUDAGuard card(graph->device);
        graph->graph.replay();
    });
}

}  // extern "C"
