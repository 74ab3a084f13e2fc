// The kernels of `fused.cu` as operations that know their slopes.

#include "card.h"

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
using Maybe = std::optional<at::Tensor>;

constexpr int SQUARES = 64;
constexpr int NORM_THREADS = 256;
constexpr int NORM_ROWS = NORM_THREADS / 32;
constexpr int ATTENTION_THREADS = 128;
// Blocks of a kernel that a multiprocessor has room for. Each goes through many rows: what they share is read once, and
// there are few partial sums.
constexpr int NORM_BLOCKS = 6;
constexpr int NORM_BACK_BLOCKS = 4;
constexpr int BEND_BLOCKS = 8;
constexpr int BEND_BACK_BLOCKS = 6;
constexpr int SUMMED_BLOCKS = 3;

// ---- Compiling ---------------------------------------------------------------------------------------------------

// NVRTC, found when it is needed: a machine without it trains all the same.
struct Compiler {
    using Handle = void*;
    int (*version)(int*, int*);
    int (*create)(Handle*, const char*, const char*, int, const char* const*, const char* const*);
    int (*compile)(Handle, int, const char* const*);
    int (*log_size)(Handle, size_t*);
    int (*log)(Handle, char*);
    int (*code_size)(Handle, size_t*);
    int (*code)(Handle, char*);
    int (*destroy)(Handle*);

    Compiler() {
        void* library = open();
        find(library, "nvrtcVersion", version);
        find(library, "nvrtcCreateProgram", create);
        find(library, "nvrtcCompileProgram", compile);
        find(library, "nvrtcGetProgramLogSize", log_size);
        find(library, "nvrtcGetProgramLog", log);
        find(library, "nvrtcGetCUBINSize", code_size);
        find(library, "nvrtcGetCUBIN", code);
        find(library, "nvrtcDestroyProgram", destroy);
        open_builtins();
    }

    // The code for a card of this generation; throws what the compiler says.
    std::vector<char> code_of(const char* source, const std::vector<std::string>& options) const {
        std::vector<const char*> words;
        for (const auto& option : options) words.push_back(option.c_str());
        Handle program = nullptr;
        if (create(&program, source, "fused.cu", 0, nullptr, nullptr) != 0) {
            throw std::runtime_error("NVRTC does not begin");
        }
        size_t size = 0;
        std::vector<char> text;
        const bool compiled = compile(program, static_cast<int>(words.size()), words.data()) == 0;
        compiled ? code_size(program, &size) : log_size(program, &size);
        text.resize(size + 1);
        compiled ? code(program, text.data()) : log(program, text.data());
        destroy(&program);
        if (!compiled) throw std::runtime_error(text.data());
        return text;
    }

private:
    // Torch's own stub names the one that belongs to it, and knows where it lies.
    static void* open() {
        Dl_info torch{};
        dladdr(reinterpret_cast<void*>(&at::cuda::getCurrentDeviceProperties), &torch);
        const std::string path = torch.dli_fname ? torch.dli_fname : "";
        const std::string beside = path.substr(0, path.rfind('/') + 1) + "libcaffe2_nvrtc.so";
        for (const char* name : {beside.c_str(), "libcaffe2_nvrtc.so", "libnvrtc.so.13", "libnvrtc.so"}) {
            if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
        }
        throw std::runtime_error("NVRTC, the compiler for kernels, cannot be found");
    }

    template <typename Function>
    static void find(void* library, const char* name, Function& function) {
        function = reinterpret_cast<Function>(dlsym(library, name));
        if (!function) throw std::runtime_error(std::string("NVRTC has no ") + name);
    }

    // It looks for a part of itself by name alone, and finds what is open already.
    void open_builtins() const {
        int major = 0, minor = 0;
        Dl_info found{};
        if (version(&major, &minor) != 0 || !dladdr(reinterpret_cast<void*>(create), &found)) return;
        const std::string path = found.dli_fname;
        const std::string name = "libnvrtc-builtins.so." + std::to_string(major) + "." + std::to_string(minor);
        dlopen((path.substr(0, path.rfind('/') + 1) + name).c_str(), RTLD_NOW | RTLD_GLOBAL);
    }
};

// For rows of a width, heads of one, and a curve by its number in `fused.cu`.
struct Shape {
    int width, head, curve;

    std::vector<std::string> options(int generation) const {
        return {"--gpu-architecture=sm_" + std::to_string(generation), "--std=c++17",
                "-DTANDEM_CHUNKS=" + std::to_string(chunks()), "-DTANDEM_HEAD=" + std::to_string(head),
                "-DTANDEM_CURVE=" + std::to_string(curve)};
    }

    int chunks() const { return (width + 255) / 256; }
};

struct Program {
    cudaKernel_t add_norm, add_norm_back, bend, bend_back, attention, attention_back, attention_back_summed;

    explicit Program(const std::vector<char>& code) {
        cudaLibrary_t library;
        C10_CUDA_CHECK(cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
        const std::pair<const char*, cudaKernel_t*> kernels[] = {{"add_norm", &add_norm},
                                                                 {"add_norm_back", &add_norm_back},
                                                                 {"bend", &bend},
                                                                 {"bend_back", &bend_back},
                                                                 {"attention", &attention},
                                                                 {"attention_back", &attention_back},
                                                                 {"attention_back_summed", &attention_back_summed}};
        for (auto [name, kernel] : kernels) C10_CUDA_CHECK(cudaLibraryGetKernel(kernel, library, name));
    }
};

// Programs are kept to the end: what was computed with one may still ask it for slopes.
Program* program_of(const char* source, int device, Shape shape) {
    static std::mutex mutex;
    static std::map<std::array<int, 4>, std::unique_ptr<Program>> programs;
    std::lock_guard<std::mutex> guard(mutex);
    const c10::cuda::CUDAGuard on(static_cast<c10::DeviceIndex>(device));
    const auto* card = at::cuda::getDeviceProperties(device);
    const int generation = card->major * 10 + card->minor;
    if (generation < 80) throw std::runtime_error("cards before Ampere do not multiply bf16");
    auto& program = programs[{generation, shape.chunks(), shape.head, shape.curve}];
    if (!program) {
        static const Compiler compiler;
        program = std::make_unique<Program>(compiler.code_of(source, shape.options(generation)));
    }
    return program.get();
}

// Arguments must have the very types that the kernel's have.
template <typename... Arguments>
void launch(cudaKernel_t kernel, int64_t blocks, int threads, Arguments... arguments) {
    void* pointers[] = {&arguments...};
    const dim3 grid(static_cast<unsigned>(blocks)), block(static_cast<unsigned>(threads));
    const auto stream = c10::cuda::getCurrentCUDAStream();
    C10_CUDA_CHECK(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, pointers, 0, stream));
}

void* data_of(const at::Tensor& tensor) { return tensor.defined() ? tensor.data_ptr() : nullptr; }

// In one piece and on a border of 16 bytes, as kernels read.
at::Tensor in_order(const at::Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    auto whole = tensor.contiguous();
    return reinterpret_cast<uintptr_t>(whole.data_ptr()) % 16 == 0 ? whole : whole.clone();
}

int multiprocessors() { return at::cuda::getCurrentDeviceProperties()->multiProcessorCount; }

// So many for each multiprocessor, but none without a row.
int blocks_for(int rows, int each, int beside = 1) {
    const int most = std::max(1, each * multiprocessors() / beside);
    return std::min((rows + NORM_ROWS - 1) / NORM_ROWS, most);
}

Program* program_in(AutogradContext* context) {
    return reinterpret_cast<Program*>(context->saved_data["program"].toInt());
}

// ---- Sums with norms -------------------------------------------------------------------------------------------------

struct AddNorm : torch::autograd::Function<AddNorm> {
    // The sum, where there is a branch, and the sum normed.
    static variable_list forward(AutogradContext* context, const at::Tensor& x, const Maybe& branch,
                                 const at::Tensor& scale, const Maybe& offset, double factor, double epsilon,
                                 bool centred, Program* program) {
        const c10::cuda::CUDAGuard on(x.device());
        const auto rows = in_order(x), joins = in_order(branch.value_or(at::Tensor()));
        const int width = static_cast<int>(rows.size(-1)), count = static_cast<int>(rows.numel() / width);
        const auto by = scale.contiguous(), plus = offset ? offset->contiguous() : at::Tensor();
        const auto normed = at::empty_like(rows), sum = joins.defined() ? at::empty_like(rows) : at::Tensor();
        const auto kept = at::empty({count, 2}, rows.options().dtype(at::kFloat));
        launch(program->add_norm, blocks_for(count, NORM_BLOCKS), NORM_THREADS, data_of(rows), data_of(joins),
               data_of(by), data_of(plus), data_of(sum), data_of(normed), data_of(kept), static_cast<float>(factor),
               static_cast<float>(epsilon), static_cast<int>(centred), count, width);
        context->set_materialize_grads(false);
        context->save_for_backward({joins.defined() ? sum : rows, kept, by});
        context->saved_data["program"] = reinterpret_cast<int64_t>(program);
        context->saved_data["factor"] = factor;
        context->saved_data["centred"] = centred;
        context->saved_data["has_branch"] = joins.defined();
        context->saved_data["has_offset"] = plus.defined();
        if (joins.defined()) return {normed, sum};
        return {normed};
    }

    static variable_list backward(AutogradContext* context, variable_list slopes) {
        const auto saved = context->get_saved_variables();
        const auto &sum = saved[0], &kept = saved[1], &scale = saved[2];
        const c10::cuda::CUDAGuard on(sum.device());
        const bool has_branch = context->saved_data["has_branch"].toBool();
        const double factor = context->saved_data["factor"].toDouble();
        const at::Tensor none, normed_slopes = in_order(slopes[0]);
        const at::Tensor sum_slopes = has_branch ? in_order(slopes[1]) : none;
        if (!normed_slopes.defined()) {
            const at::Tensor branch_slopes = sum_slopes.defined() ? sum_slopes.mul(factor) : none;
            return {sum_slopes, branch_slopes, none, none, none, none, none, none};
        }
        const int width = static_cast<int>(sum.size(-1)), count = static_cast<int>(sum.numel() / width);
        const int blocks = blocks_for(count, NORM_BACK_BLOCKS);
        const auto x_slopes = at::empty_like(sum);
        const at::Tensor branch_slopes = has_branch && factor != 1 ? at::empty_like(sum) : none;
        const auto parts = at::empty({blocks, 2, width}, sum.options().dtype(at::kFloat));
        launch(program_in(context)->add_norm_back, blocks, NORM_THREADS, data_of(sum), data_of(kept), data_of(scale),
               data_of(normed_slopes), data_of(sum_slopes), data_of(x_slopes), data_of(branch_slopes), data_of(parts),
               static_cast<float>(factor), static_cast<int>(context->saved_data["centred"].toBool()), count, width);
        const auto sums = parts.sum(0).to(scale.scalar_type());
        return {x_slopes,
                has_branch && factor == 1 ? x_slopes : branch_slopes,
                sums.select(0, 0),
                context->saved_data["has_offset"].toBool() ? sums.select(0, 1) : none,
                none,
                none,
                none,
                none};
    }
};

// ---- Curves ----------------------------------------------------------------------------------------------------------

struct Bend : torch::autograd::Function<Bend> {
    // The program's curve of x + bias.
    static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const Maybe& bias, Program* program) {
        const c10::cuda::CUDAGuard on(x.device());
        const auto rows = in_order(x), plus = bias ? bias->contiguous() : at::Tensor(), out = at::empty_like(rows);
        const int width = static_cast<int>(rows.size(-1)), count = static_cast<int>(rows.numel() / width);
        const int slabs = slabs_of(width), blocks = blocks_for(count, BEND_BLOCKS, slabs);
        launch(program->bend, blocks * slabs, NORM_THREADS, data_of(rows), data_of(plus), data_of(out), count, width);
        context->save_for_backward({rows, plus});
        context->saved_data["program"] = reinterpret_cast<int64_t>(program);
        return out;
    }

    static variable_list backward(AutogradContext* context, variable_list slopes) {
        const auto saved = context->get_saved_variables();
        const auto &rows = saved[0], &plus = saved[1];
        const c10::cuda::CUDAGuard on(rows.device());
        const auto out_slopes = in_order(slopes[0]), x_slopes = at::empty_like(rows);
        const int width = static_cast<int>(rows.size(-1)), count = static_cast<int>(rows.numel() / width);
        const int slabs = slabs_of(width), blocks = blocks_for(count, BEND_BACK_BLOCKS, slabs);
        const at::Tensor none;
        const at::Tensor parts =
            plus.defined() ? at::empty({blocks, width}, rows.options().dtype(at::kFloat)) : none;
        launch(program_in(context)->bend_back, blocks * slabs, NORM_THREADS, data_of(rows), data_of(plus),
               data_of(out_slopes), data_of(x_slopes), data_of(parts), count, width);
        return {x_slopes, parts.defined() ? parts.sum(0).to(plus.scalar_type()) : none, none};
    }

private:
    // Blocks beside each other, each with 256 columns.
    static int slabs_of(int width) { return (width + 255) / 256; }
};

// ---- Attention among 64 squares --------------------------------------------------------------------------------------

struct Attention : torch::autograd::Function<Attention> {
    // Of queries, keys and values side by side, [batch, 64, 3 * width], what squares see: [batch, 64, width]. The bias is
    // missing, one for all, [heads, 64, 64], or one for each, [batch, heads, 64, 64].
    static at::Tensor forward(AutogradContext* context, const at::Tensor& all, const Maybe& bias, int64_t heads,
                              Program* program) {
        const c10::cuda::CUDAGuard on(all.device());
        const auto rows = in_order(all), added = in_order(bias.value_or(at::Tensor()));
        const auto batch = rows.size(0), width = rows.size(2) / 3;
        const auto out = at::empty({batch, SQUARES, width}, rows.options());
        const auto kept = at::empty({batch, heads, SQUARES}, rows.options().dtype(at::kFloat));
        launch(program->attention, batch * heads, ATTENTION_THREADS, data_of(rows), data_of(added), data_of(out),
               data_of(kept), static_cast<int>(heads), stride_of(added, heads));
        context->save_for_backward({rows, added, kept});
        context->saved_data["program"] = reinterpret_cast<int64_t>(program);
        context->saved_data["heads"] = heads;
        return out;
    }

    static variable_list backward(AutogradContext* context, variable_list slopes) {
        const auto saved = context->get_saved_variables();
        const auto &rows = saved[0], &added = saved[1], &kept = saved[2];
        const c10::cuda::CUDAGuard on(rows.device());
        const auto* program = program_in(context);
        const auto out_slopes = in_order(slopes[0]), all_slopes = at::empty_like(rows);
        const int batch = static_cast<int>(rows.size(0));
        const int heads = static_cast<int>(context->saved_data["heads"].toInt()), stride = stride_of(added, heads);
        const at::Tensor none;
        if (added.defined() && added.dim() == 3) {
            const int chunks = std::min(batch, std::max(1, SUMMED_BLOCKS * multiprocessors() / heads));
            const auto parts = at::empty({chunks, heads, SQUARES, SQUARES}, rows.options().dtype(at::kFloat));
            launch(program->attention_back_summed, chunks * heads, ATTENTION_THREADS, data_of(rows), data_of(added),
                   data_of(kept), data_of(out_slopes), data_of(all_slopes), data_of(parts), batch, heads, stride);
            return {all_slopes, parts.sum(0).to(added.scalar_type()), none, none};
        }
        const auto bias_slopes = added.defined() ? at::empty_like(added) : none;
        launch(program->attention_back, static_cast<int64_t>(batch) * heads, ATTENTION_THREADS, data_of(rows),
               data_of(added), data_of(kept), data_of(out_slopes), data_of(all_slopes), data_of(bias_slopes), batch,
               heads, stride);
        return {all_slopes, bias_slopes, none, none};
    }

private:
    static int stride_of(const at::Tensor& bias, int64_t heads) {
        return bias.defined() && bias.dim() == 4 ? static_cast<int>(heads * SQUARES * SQUARES) : 0;
    }
};

Maybe maybe(const at::Tensor* tensor) { return tensor ? Maybe(*tensor) : Maybe(); }

}  // namespace

extern "C" {

// Whether the kernels can be compiled for a generation of cards, 90 for Hopper, which need not be here.
int tandem_card_compile(const char* source, int generation, int width, int head, int curve) {
    return guarded([&] { Compiler().code_of(source, Shape{width, head, curve}.options(generation)); });
}

void* tandem_card_program(const char* source, int device, int width, int head, int curve) {
    void* program = nullptr;
    guarded([&] { program = program_of(source, device, Shape{width, head, curve}); });
    return program;
}

// `sum` is left alone where there is no branch.
int tandem_card_add_norm(void* program, at::Tensor* x, at::Tensor* branch, at::Tensor* scale, at::Tensor* offset,
                         double factor, double epsilon, int centred, at::Tensor** normed, at::Tensor** sum) {
    return guarded([&] {
        auto made = AddNorm::apply(*x, maybe(branch), *scale, maybe(offset), factor, epsilon, centred != 0,
                                   static_cast<Program*>(program));
        *normed = new at::Tensor(made[0]);
        if (branch) *sum = new at::Tensor(made[1]);
    });
}

int tandem_card_bend(void* program, at::Tensor* x, at::Tensor* bias, at::Tensor** out) {
    return guarded([&] { *out = new at::Tensor(Bend::apply(*x, maybe(bias), static_cast<Program*>(program))); });
}

int tandem_card_attention(void* program, at::Tensor* all, at::Tensor* bias, int64_t heads, at::Tensor** out) {
    return guarded([&] {
        *out = new at::Tensor(Attention::apply(*all, maybe(bias), heads, static_cast<Program*>(program)));
    });
}

}  // extern "C"
