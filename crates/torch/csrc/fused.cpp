// The kernels of `fused.cu` as operations with autograd.

#include "gpu.h"

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <vector>

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;

constexpr int SQUARES = 64;
constexpr int NORM_THREADS = 256;
constexpr int NORM_ROWS = NORM_THREADS / 32;
constexpr int ATTENTION_THREADS = 128;
// Resident blocks per multiprocessor, by kernel. Each block strides over many rows, so that scales and biases
// are read once and there are few partial sums.
constexpr int NORM_BLOCKS = 6;
constexpr int NORM_BACKWARD_BLOCKS = 4;
constexpr int ACTIVATION_BLOCKS = 8;
constexpr int ACTIVATION_BACKWARD_BLOCKS = 6;
constexpr int SHARED_BIAS_BLOCKS = 3;

// ---- Compilation ------------------------------------------------------------------------------------------

// NVRTC, loaded when it is needed: a machine without it trains with libtorch's kernels.
struct Compiler {
    using Handle = void*;
    int (*version)(int*, int*);
    int (*create)(Handle*, const char*, const char*, int, const char* const*, const char* const*);
    int (*compile)(Handle, int, const char* const*);
    int (*get_log_size)(Handle, size_t*);
    int (*get_log)(Handle, char*);
    int (*get_cubin_size)(Handle, size_t*);
    int (*get_cubin)(Handle, char*);
    int (*destroy)(Handle*);

    Compiler() {
        void* library = open();
        find(library, "nvrtcVersion", version);
        find(library, "nvrtcCreateProgram", create);
        find(library, "nvrtcCompileProgram", compile);
        find(library, "nvrtcGetProgramLogSize", get_log_size);
        find(library, "nvrtcGetProgramLog", get_log);
        find(library, "nvrtcGetCUBINSize", get_cubin_size);
        find(library, "nvrtcGetCUBIN", get_cubin);
        find(library, "nvrtcDestroyProgram", destroy);
        open_builtins();
    }

    // Compiles for a compute capability, for example 90; throws the compiler's log if that fails.
    std::vector<char> cubin(const char* source, const std::vector<std::string>& options) const {
        std::vector<const char*> arguments;
        for (const auto& option : options) arguments.push_back(option.c_str());
        Handle program = nullptr;
        if (create(&program, source, "fused.cu", 0, nullptr, nullptr) != 0) {
            throw std::runtime_error("NVRTC cannot create a program");
        }
        size_t size = 0;
        std::vector<char> text;
        const bool compiled = compile(program, static_cast<int>(arguments.size()), arguments.data()) == 0;
        compiled ? get_cubin_size(program, &size) : get_log_size(program, &size);
        text.resize(size + 1);
        compiled ? get_cubin(program, text.data()) : get_log(program, text.data());
        destroy(&program);
        if (!compiled) throw std::runtime_error(text.data());
        return text;
    }

private:
    // Torch's own stub names the NVRTC that belongs to it, and its rpath finds it.
    static void* open() {
        Dl_info torch{};
        dladdr(reinterpret_cast<void*>(&at::cuda::getCurrentDeviceProperties), &torch);
        const std::string path = torch.dli_fname ? torch.dli_fname : "";
        const std::string sibling = path.substr(0, path.rfind('/') + 1) + "libcaffe2_nvrtc.so";
        for (const char* name : {sibling.c_str(), "libcaffe2_nvrtc.so", "libnvrtc.so.13", "libnvrtc.so"}) {
            if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
        }
        throw std::runtime_error("NVRTC, the run-time compiler of CUDA, cannot be found");
    }

    template <typename Function>
    static void find(void* library, const char* name, Function& function) {
        function = reinterpret_cast<Function>(dlsym(library, name));
        if (!function) throw std::runtime_error(std::string("NVRTC has no ") + name);
    }

    // NVRTC loads its builtins by name alone, and finds them if they are already open.
    void open_builtins() const {
        int major = 0, minor = 0;
        Dl_info found{};
        if (version(&major, &minor) != 0 || !dladdr(reinterpret_cast<void*>(create), &found)) return;
        const std::string path = found.dli_fname;
        const std::string name = "libnvrtc-builtins.so." + std::to_string(major) + "." + std::to_string(minor);
        dlopen((path.substr(0, path.rfind('/') + 1) + name).c_str(), RTLD_NOW | RTLD_GLOBAL);
    }
};

// Parameters of a compilation: width of the rows, width of the heads, and the activation's number in
// `fused.cu`.
struct Shape {
    int width, head, activation;

    std::vector<std::string> options(int capability) const {
        return {"--gpu-architecture=sm_" + std::to_string(capability), "--std=c++17",
                "-DTANDEM_CHUNKS=" + std::to_string(chunks()), "-DTANDEM_HEAD=" + std::to_string(head),
                "-DTANDEM_ACTIVATION=" + std::to_string(activation)};
    }

    int chunks() const { return (width + 255) / 256; }
};

struct Program {
    cudaKernel_t add_norm, add_norm_backward, bias_activation, bias_activation_backward, attention, attention_backward,
        attention_backward_shared_bias;

    explicit Program(const std::vector<char>& cubin) {
        cudaLibrary_t library;
        C10_CUDA_CHECK(cudaLibraryLoadData(&library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
        const std::pair<const char*, cudaKernel_t*> kernels[] = {
            {"add_norm", &add_norm},
            {"add_norm_backward", &add_norm_backward},
            {"bias_activation", &bias_activation},
            {"bias_activation_backward", &bias_activation_backward},
            {"attention", &attention},
            {"attention_backward", &attention_backward},
            {"attention_backward_shared_bias", &attention_backward_shared_bias}};
        for (auto [name, kernel] : kernels) C10_CUDA_CHECK(cudaLibraryGetKernel(kernel, library, name));
    }
};

// Programs live until the process ends, because a backward pass may still need one.
Program* program_of(const char* source, int device, Shape shape) {
    static std::mutex mutex;
    static std::map<std::array<int, 4>, std::unique_ptr<Program>> programs;
    std::lock_guard<std::mutex> guard(mutex);
    const c10::cuda::CUDAGuard device_guard(static_cast<c10::DeviceIndex>(device));
    const auto* properties = at::cuda::getDeviceProperties(device);
    const int capability = properties->major * 10 + properties->minor;
    if (capability < 80) throw std::runtime_error("GPUs before Ampere (compute capability 8.0) cannot multiply bf16");
    auto& program = programs[{capability, shape.chunks(), shape.head, shape.activation}];
    if (!program) {
        static const Compiler compiler;
        program = std::make_unique<Program>(compiler.cubin(source, shape.options(capability)));
    }
    return program.get();
}

// The arguments must have exactly the types of the kernel's parameters.
template <typename... Arguments>
void launch(cudaKernel_t kernel, int64_t blocks, int threads, Arguments... arguments) {
    void* pointers[] = {&arguments...};
    const dim3 grid(static_cast<unsigned>(blocks)), block(static_cast<unsigned>(threads));
    const auto stream = c10::cuda::getCurrentCUDAStream();
    C10_CUDA_CHECK(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, pointers, 0, stream));
}

void* data_of(const at::Tensor& tensor) { return tensor.defined() ? tensor.data_ptr() : nullptr; }

// Contiguous and aligned to 16 bytes, as the kernels read.
at::Tensor aligned(const at::Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    auto whole = tensor.contiguous();
    return reinterpret_cast<uintptr_t>(whole.data_ptr()) % 16 == 0 ? whole : whole.clone();
}

int multiprocessors() { return at::cuda::getCurrentDeviceProperties()->multiProcessorCount; }

// Number of blocks: up to `per_multiprocessor` for each multiprocessor and column, and none without a row.
int blocks_for(int rows, int per_multiprocessor, int column_blocks = 1) {
    const int limit = std::max(1, per_multiprocessor * multiprocessors() / column_blocks);
    return std::min((rows + NORM_ROWS - 1) / NORM_ROWS, limit);
}

Program* program_in(AutogradContext* context) {
    return reinterpret_cast<Program*>(context->saved_data["program"].toInt());
}

// ---- Residual addition and normalisation ---------------------------------------------------------------

struct AddNorm : torch::autograd::Function<AddNorm> {
    // Returns the normed sum, and the sum if there is a branch.
    static variable_list forward(AutogradContext* context, const at::Tensor& x, const OptionalTensor& branch,
                                 const at::Tensor& scale, const OptionalTensor& offset, double factor, double epsilon,
                                 bool centred, Program* program) {
        const c10::cuda::CUDAGuard device_guard(x.device());
        const auto rows = aligned(x), branch_rows = aligned(branch.value_or(at::Tensor()));
        const int width = static_cast<int>(rows.size(-1)), count = static_cast<int>(rows.numel() / width);
        const auto scale_values = scale.contiguous(), offset_values = offset ? offset->contiguous() : at::Tensor();
        const auto normed = at::empty_like(rows), sum = branch_rows.defined() ? at::empty_like(rows) : at::Tensor();
        const auto stats = at::empty({count, 2}, rows.options().dtype(at::kFloat));
        launch(program->add_norm, blocks_for(count, NORM_BLOCKS), NORM_THREADS, data_of(rows), data_of(branch_rows),
               data_of(scale_values), data_of(offset_values), data_of(sum), data_of(normed), data_of(stats),
               static_cast<float>(factor), static_cast<float>(epsilon), static_cast<int>(centred), count, width);
        context->set_materialize_grads(false);
        context->save_for_backward({branch_rows.defined() ? sum : rows, stats, scale_values});
        context->saved_data["program"] = reinterpret_cast<int64_t>(program);
        context->saved_data["factor"] = factor;
        context->saved_data["centred"] = centred;
        context->saved_data["has_branch"] = branch_rows.defined();
        context->saved_data["has_offset"] = offset_values.defined();
        if (branch_rows.defined()) return {normed, sum};
        return {normed};
    }

    static variable_list backward(AutogradContext* context, variable_list grads) {
        const auto saved = context->get_saved_variables();
        const auto &sum = saved[0], &stats = saved[1], &scale = saved[2];
        const c10::cuda::CUDAGuard device_guard(sum.device());
        const bool has_branch = context->saved_data["has_branch"].toBool();
        const double factor = context->saved_data["factor"].toDouble();
        const at::Tensor none, normed_grad = aligned(grads[0]);
        const at::Tensor sum_grad = has_branch ? aligned(grads[1]) : none;
        if (!normed_grad.defined()) {
            const at::Tensor branch_grad = sum_grad.defined() ? sum_grad.mul(factor) : none;
            return {sum_grad, branch_grad, none, none, none, none, none, none};
        }
        const int width = static_cast<int>(sum.size(-1)), count = static_cast<int>(sum.numel() / width);
        const int blocks = blocks_for(count, NORM_BACKWARD_BLOCKS);
        const auto x_grad = at::empty_like(sum);
        const at::Tensor branch_grad = has_branch && factor != 1 ? at::empty_like(sum) : none;
        const auto partials = at::empty({blocks, 2, width}, sum.options().dtype(at::kFloat));
        launch(program_in(context)->add_norm_backward, blocks, NORM_THREADS, data_of(sum), data_of(stats),
               data_of(scale), data_of(normed_grad), data_of(sum_grad), data_of(x_grad), data_of(branch_grad),
               data_of(partials), static_cast<float>(factor), static_cast<int>(context->saved_data["centred"].toBool()),
               count, width);
        const auto sums = partials.sum(0).to(scale.scalar_type());
        return {x_grad,
                has_branch && factor == 1 ? x_grad : branch_grad,
                sums.select(0, 0),
                context->saved_data["has_offset"].toBool() ? sums.select(0, 1) : none,
                none,
                none,
                none,
                none};
    }
};

// ---- Bias and activation ----------------------------------------------------------------------------------

struct BiasActivation : torch::autograd::Function<BiasActivation> {
    // Returns activation(x + bias).
    static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const OptionalTensor& bias,
                              Program* program) {
        const c10::cuda::CUDAGuard device_guard(x.device());
        const auto rows = aligned(x), bias_values = bias ? bias->contiguous() : at::Tensor(),
                   out = at::empty_like(rows);
        const int width = static_cast<int>(rows.size(-1)), count = static_cast<int>(rows.numel() / width);
        const int column_blocks = column_blocks_of(width), blocks = blocks_for(count, ACTIVATION_BLOCKS, column_blocks);
        launch(program->bias_activation, blocks * column_blocks, NORM_THREADS, data_of(rows), data_of(bias_values),
               data_of(out), count, width);
        context->save_for_backward({rows, bias_values});
        context->saved_data["program"] = reinterpret_cast<int64_t>(program);
        return out;
    }

    static variable_list backward(AutogradContext* context, variable_list grads) {
        const auto saved = context->get_saved_variables();
        const auto &rows = saved[0], &bias_values = saved[1];
        const c10::cuda::CUDAGuard device_guard(rows.device());
        const auto out_grad = aligned(grads[0]), x_grad = at::empty_like(rows);
        const int width = static_cast<int>(rows.size(-1)), count = static_cast<int>(rows.numel() / width);
        const int column_blocks = column_blocks_of(width),
                  blocks = blocks_for(count, ACTIVATION_BACKWARD_BLOCKS, column_blocks);
        const at::Tensor none;
        const at::Tensor partials =
            bias_values.defined() ? at::empty({blocks, width}, rows.options().dtype(at::kFloat)) : none;
        launch(program_in(context)->bias_activation_backward, blocks * column_blocks, NORM_THREADS, data_of(rows),
               data_of(bias_values), data_of(out_grad), data_of(x_grad), data_of(partials), count, width);
        return {x_grad, partials.defined() ? partials.sum(0).to(bias_values.scalar_type()) : none, none};
    }

private:
    // Number of blocks side by side, each with 256 columns.
    static int column_blocks_of(int width) { return (width + 255) / 256; }
};

// ---- Attention among 64 squares ---------------------------------------------------------------------------

struct Attention : torch::autograd::Function<Attention> {
    // Attention from queries, keys and values side by side, [batch, 64, 3 * width], to [batch, 64, width].
    // The bias is undefined, shared, [heads, 64, 64], or one for each position, [batch, heads, 64, 64].
    static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv, const OptionalTensor& bias,
                              int64_t heads, Program* program) {
        const c10::cuda::CUDAGuard device_guard(qkv.device());
        const auto qkv_rows = aligned(qkv), bias_rows = aligned(bias.value_or(at::Tensor()));
        const auto batch = qkv_rows.size(0), width = qkv_rows.size(2) / 3;
        const auto out = at::empty({batch, SQUARES, width}, qkv_rows.options());
        const auto logsumexp = at::empty({batch, heads, SQUARES}, qkv_rows.options().dtype(at::kFloat));
        launch(program->attention, batch * heads, ATTENTION_THREADS, data_of(qkv_rows), data_of(bias_rows),
               data_of(out), data_of(logsumexp), static_cast<int>(heads), stride_of(bias_rows, heads));
        context->save_for_backward({qkv_rows, bias_rows, logsumexp});
        context->saved_data["program"] = reinterpret_cast<int64_t>(program);
        context->saved_data["heads"] = heads;
        return out;
    }

    static variable_list backward(AutogradContext* context, variable_list grads) {
        const auto saved = context->get_saved_variables();
        const auto &qkv_rows = saved[0], &bias_rows = saved[1], &logsumexp = saved[2];
        const c10::cuda::CUDAGuard device_guard(qkv_rows.device());
        const auto* program = program_in(context);
        const auto out_grad = aligned(grads[0]), qkv_grad = at::empty_like(qkv_rows);
        const int batch = static_cast<int>(qkv_rows.size(0));
        const int heads = static_cast<int>(context->saved_data["heads"].toInt()), stride = stride_of(bias_rows, heads);
        const at::Tensor none;
        if (bias_rows.defined() && bias_rows.dim() == 3) {
            const int chunks = std::min(batch, std::max(1, SHARED_BIAS_BLOCKS * multiprocessors() / heads));
            const auto partials = at::empty({chunks, heads, SQUARES, SQUARES}, qkv_rows.options().dtype(at::kFloat));
            launch(program->attention_backward_shared_bias, chunks * heads, ATTENTION_THREADS, data_of(qkv_rows),
                   data_of(bias_rows), data_of(logsumexp), data_of(out_grad), data_of(qkv_grad), data_of(partials),
                   batch, heads, stride);
            return {qkv_grad, partials.sum(0).to(bias_rows.scalar_type()), none, none};
        }
        const auto bias_grad = bias_rows.defined() ? at::empty_like(bias_rows) : none;
        launch(program->attention_backward, static_cast<int64_t>(batch) * heads, ATTENTION_THREADS, data_of(qkv_rows),
               data_of(bias_rows), data_of(logsumexp), data_of(out_grad), data_of(qkv_grad), data_of(bias_grad), batch,
               heads, stride);
        return {qkv_grad, bias_grad, none, none};
    }

private:
    static int stride_of(const at::Tensor& bias, int64_t heads) {
        return bias.defined() && bias.dim() == 4 ? static_cast<int>(heads * SQUARES * SQUARES) : 0;
    }
};

OptionalTensor optional(const at::Tensor* tensor) { return tensor ? OptionalTensor(*tensor) : OptionalTensor(); }

}  // namespace

extern "C" {

// Compiles the kernels for a compute capability, 90 for Hopper, whether or not the machine has such a GPU.
int tandem_gpu_compile(const char* source, int capability, int width, int head, int activation) {
    return guarded([&] { Compiler().cubin(source, Shape{width, head, activation}.options(capability)); });
}

void* tandem_gpu_program(const char* source, int device, int width, int head, int activation) {
    void* program = nullptr;
    guarded([&] { program = program_of(source, device, Shape{width, head, activation}); });
    return program;
}

// `sum` is not written if there is no branch.
int tandem_gpu_add_norm(void* program, at::Tensor* x, at::Tensor* branch, at::Tensor* scale, at::Tensor* offset,
                        double factor, double epsilon, int centred, at::Tensor** normed, at::Tensor** sum) {
    return guarded([&] {
        auto outputs = AddNorm::apply(*x, optional(branch), *scale, optional(offset), factor, epsilon, centred != 0,
                                      static_cast<Program*>(program));
        *normed = new at::Tensor(outputs[0]);
        if (branch) *sum = new at::Tensor(outputs[1]);
    });
}

int tandem_gpu_bias_activation(void* program, at::Tensor* x, at::Tensor* bias, at::Tensor** out) {
    return guarded(
        [&] { *out = new at::Tensor(BiasActivation::apply(*x, optional(bias), static_cast<Program*>(program))); });
}

int tandem_gpu_attention(void* program, at::Tensor* qkv, at::Tensor* bias, int64_t heads, at::Tensor** out) {
    return guarded(
        [&] { *out = new at::Tensor(Attention::apply(*qkv, optional(bias), heads, static_cast<Program*>(program))); });
}

}  // extern "C"
