// Runs the kernels of `fused.cu` on the CPU, for tests on machines without a GPU: the threads of a block are
// coroutines, and the lanes of a warp synchronise where they exchange values. Instructions that only a GPU
// has follow their description in NVIDIA's PTX manual.
//
// A warp runs until it must wait for others, and asynchronous copies arrive as late as they may: so a kernel
// that forgets a barrier gives wrong results.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include <ucontext.h>

namespace {

struct uint4 {
    unsigned x, y, z, w;
};
struct float2 {
    float x, y;
};
struct float4 {
    float x, y, z, w;
};
struct Index {
    int x;
};

uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
float2 make_float2(float x, float y) { return {x, y}; }
float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

Index threadIdx, blockIdx, gridDim;

// Threads that wait for each other: all of a block, or the 32 of a warp.
struct Barrier {
    int members = 0, arrived = 0, generation = 0;
};

struct Block {
    std::vector<ucontext_t> threads;
    std::vector<bool> ended;
    std::vector<Barrier> warps;
    Barrier block_barrier;
    int barriers_passed = 0;
    ucontext_t scheduler;
    // Values that the lanes of each warp exchange.
    std::vector<uint64_t> exchanged;
    // Asynchronous copies of each thread that have not arrived yet.
    std::vector<std::vector<std::pair<uint16_t*, const uint16_t*>>> pending_copies;
    std::function<void()> body;
};

Block* block = nullptr;

void yield_thread() { swapcontext(&block->threads[threadIdx.x], &block->scheduler); }

void synchronise(Barrier& barrier) {
    const int generation = barrier.generation;
    if (++barrier.arrived == barrier.members) {
        barrier.arrived = 0;
        barrier.generation++;
        block->barriers_passed++;
        return;
    }
    while (barrier.generation == generation) yield_thread();
}

void run_thread() {
    block->body();
    block->ended[threadIdx.x] = true;
    yield_thread();
}

// Runs a warp until it has to wait for another one; returns the number of its threads that have ended.
int run_warp(Block& block, int warp) {
    int passed_before, ended = 0;
    do {
        passed_before = block.barriers_passed;
        for (threadIdx.x = warp * 32; threadIdx.x < warp * 32 + 32; threadIdx.x++) {
            if (block.ended[threadIdx.x]) continue;
            swapcontext(&block.scheduler, &block.threads[threadIdx.x]);
            ended += block.ended[threadIdx.x];
        }
    } while (block.barriers_passed != passed_before);
    return ended;
}

// Runs one block after the other, because they use the same statics as shared memory.
void run(int blocks, int threads, const std::function<void()>& body) {
    static std::mutex mutex;
    std::lock_guard<std::mutex> guard(mutex);
    const size_t stack = 1 << 18;
    std::vector<char> stacks(stack * threads);
    gridDim.x = blocks;
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++) {
        Block current;
        block = &current;
        current.body = body;
        current.threads.resize(threads);
        current.ended.resize(threads);
        current.exchanged.resize(threads);
        current.pending_copies.resize(threads);
        current.warps.resize(threads / 32, Barrier{32});
        current.block_barrier.members = threads;
        for (int i = 0; i < threads; i++) {
            getcontext(&current.threads[i]);
            current.threads[i].uc_stack.ss_sp = stacks.data() + stack * i;
            current.threads[i].uc_stack.ss_size = stack;
            current.threads[i].uc_link = nullptr;
            makecontext(&current.threads[i], run_thread, 0);
        }
        for (int left = threads; left > 0;) {
            for (int warp = 0; warp < threads / 32; warp++) left -= run_warp(current, warp);
        }
    }
}

void __syncthreads() { synchronise(block->block_barrier); }
void __syncwarp() { synchronise(block->warps[threadIdx.x / 32]); }

// Returns the values of all lanes of this warp.
template <typename Value>
std::vector<Value> exchange(Value mine) {
    static_assert(sizeof(Value) <= sizeof(uint64_t), "");
    std::memcpy(&block->exchanged[threadIdx.x], &mine, sizeof mine);
    __syncwarp();
    std::vector<Value> values(32);
    for (int lane = 0; lane < 32; lane++) {
        std::memcpy(&values[lane], &block->exchanged[threadIdx.x / 32 * 32 + lane], sizeof mine);
    }
    __syncwarp();
    return values;
}

float __shfl_xor_sync(unsigned, float mine, int other) { return exchange(mine)[(threadIdx.x % 32) ^ other]; }

float __uint_as_float(unsigned bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

float rsqrtf(float x) { return 1 / std::sqrt(x); }
float fast_exp2(float x) { return std::exp2(x); }
float __fdividef(float x, float y) { return x / y; }

uint32_t bf16_bits(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

uint32_t pack(float first, float second) { return bf16_bits(first) | bf16_bits(second) << 16; }

void cp_async_16(uint16_t* to, const uint16_t* from) {
    std::memset(to, 0xff, 16);
    block->pending_copies[threadIdx.x].push_back({to, from});
}

void cp_async_wait_all() {
    for (auto [to, from] : block->pending_copies[threadIdx.x]) std::memcpy(to, from, 16);
    block->pending_copies[threadIdx.x].clear();
}

void ldmatrix(uint32_t (&words)[4], const uint16_t* row, bool transposed) {
    auto rows = exchange(row);
    const int lane = threadIdx.x % 32;
    for (int matrix = 0; matrix < 4; matrix++) {
        uint32_t pair[2];
        for (int i = 0; i < 2; i++) {
            const int across = lane / 4, along = lane % 4 * 2 + i;
            pair[i] = transposed ? rows[matrix * 8 + along][across] : rows[matrix * 8 + across][along];
        }
        words[matrix] = pair[0] | pair[1] << 16;
    }
    __syncwarp();
}

void ldmatrix_x4(uint32_t (&words)[4], const uint16_t* row) { ldmatrix(words, row, false); }
void ldmatrix_x4_trans(uint32_t (&words)[4], const uint16_t* row) { ldmatrix(words, row, true); }

float bf16_half(uint32_t pair, int which) { return __uint_as_float(which ? pair & 0xffff0000u : pair << 16); }

void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    float left[16][16], right[16][8];
    for (int word = 0; word < 4; word++) {
        auto words = exchange(a[word]);
        for (int lane = 0; lane < 32; lane++) {
            for (int i = 0; i < 2; i++) {
                left[lane / 4 + word % 2 * 8][lane % 4 * 2 + i + word / 2 * 8] = bf16_half(words[lane], i);
            }
        }
    }
    for (int word = 0; word < 2; word++) {
        auto words = exchange(word ? b1 : b0);
        for (int lane = 0; lane < 32; lane++) {
            for (int i = 0; i < 2; i++) right[lane % 4 * 2 + i + word * 8][lane / 4] = bf16_half(words[lane], i);
        }
    }
    const int lane = threadIdx.x % 32;
    for (int i = 0; i < 4; i++) {
        const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        for (int k = 0; k < 16; k++) c[i] += left[row][k] * right[k][column];
    }
}

#define __device__
#define __shared__ static
#define __align__(bytes) __attribute__((aligned(bytes)))
#include "fused.cu"

template <int CHUNKS>
void norm_forward_backward(const u16* x, const u16* branch, const u16* scale, const u16* offset, float factor,
                           float epsilon, int centred, int rows, int width, int blocks, u16* sum, u16* normed,
                           const u16* normed_grad, const u16* sum_grad, u16* x_grad, u16* branch_grad,
                           float* partials) {
    std::vector<float2> stats(rows);
    run(blocks, 32 * NORM_WARPS, [&] {
        add_norm_rows<CHUNKS>((const uint4*)x, (const uint4*)branch, scale, offset, (uint4*)sum, (uint4*)normed,
                              stats.data(), factor, epsilon, centred, rows, width);
    });
    run(blocks, 32 * NORM_WARPS, [&] {
        add_norm_rows_backward<CHUNKS>((const uint4*)(branch ? sum : x), stats.data(), scale, (const uint4*)normed_grad,
                                       (const uint4*)sum_grad, (uint4*)x_grad, (uint4*)branch_grad, partials, factor,
                                       centred, rows, width);
    });
}

template <int ACTIVATION>
void activation_forward_backward(const u16* x, const u16* bias, int rows, int width, int blocks, u16* out,
                                 const u16* out_grad, u16* x_grad, float* partials) {
    const int column_blocks = (width + 255) / 256;
    run(blocks * column_blocks, 32 * NORM_WARPS,
        [&] { bias_activation_rows<ACTIVATION>((const uint4*)x, bias, (uint4*)out, rows, width); });
    run(blocks * column_blocks, 32 * NORM_WARPS, [&] {
        bias_activation_rows_backward<ACTIVATION>((const uint4*)x, bias, (const uint4*)out_grad, (uint4*)x_grad,
                                                  partials, rows, width);
    });
}

template <int HEAD>
void attention_forward_backward(const u16* qkv, const u16* bias, int batch, int heads, int bias_stride, u16* out,
                                const u16* out_grad, u16* qkv_grad, u16* bias_grad, float* bias_grad_partials,
                                int blocks) {
    std::vector<float> logsumexp(batch * heads * SQUARES);
    run(batch * heads, 32 * WARPS, [&] { attend<HEAD>(qkv, bias, out, logsumexp.data(), heads, bias_stride); });
    run(blocks * heads, 32 * WARPS, [&] {
        auto backward = bias_grad_partials ? attend_backward<HEAD, true> : attend_backward<HEAD, false>;
        backward(qkv, bias, logsumexp.data(), out_grad, qkv_grad, bias_grad, bias_grad_partials, batch, heads,
                 bias_stride);
    });
}

}  // namespace

extern "C" {

// Each function below runs a forward and a backward pass. They return -1 if there is no kernel for the
// arguments.
int tandem_emulated_norm(const uint16_t* x, const uint16_t* branch, const uint16_t* scale, const uint16_t* offset,
                         float factor, float epsilon, int centred, int rows, int width, int blocks, uint16_t* sum,
                         uint16_t* normed, const uint16_t* normed_grad, const uint16_t* sum_grad, uint16_t* x_grad,
                         uint16_t* branch_grad, float* partials) {
    void (*const chunks[])(decltype(x), decltype(x), decltype(x), decltype(x), float, float, int, int, int, int, u16*,
                           u16*, decltype(x), decltype(x), u16*, u16*, float*) = {
        norm_forward_backward<1>, norm_forward_backward<2>, norm_forward_backward<3>, norm_forward_backward<4>};
    if (width % 8 != 0 || width > 1024) return -1;
    chunks[(width - 1) / 256](x, branch, scale, offset, factor, epsilon, centred, rows, width, blocks, sum, normed,
                              normed_grad, sum_grad, x_grad, branch_grad, partials);
    return 0;
}

int tandem_emulated_bias_activation(int activation, const uint16_t* x, const uint16_t* bias, int rows, int width,
                                    int blocks, uint16_t* out, const uint16_t* out_grad, uint16_t* x_grad,
                                    float* partials) {
    void (*const functions[])(decltype(x), decltype(x), int, int, int, u16*, decltype(x), u16*, float*) = {
        activation_forward_backward<SILU>, activation_forward_backward<MISH>, activation_forward_backward<GELU>,
        activation_forward_backward<SQUARED_RELU>, activation_forward_backward<RELU>};
    if (width % 8 != 0 || activation < 0 || activation > RELU) return -1;
    functions[activation](x, bias, rows, width, blocks, out, out_grad, x_grad, partials);
    return 0;
}

int tandem_emulated_attention(const uint16_t* qkv, const uint16_t* bias, int batch, int heads, int head,
                              int bias_stride, uint16_t* out, const uint16_t* out_grad, uint16_t* qkv_grad,
                              uint16_t* bias_grad, float* bias_grad_partials, int blocks) {
    auto forward_backward = head == 16   ? attention_forward_backward<16>
                            : head == 32 ? attention_forward_backward<32>
                            : head == 64 ? attention_forward_backward<64>
                                         : nullptr;
    if (!forward_backward) return -1;
    forward_backward(qkv, bias, batch, heads, bias_stride, out, out_grad, qkv_grad, bias_grad, bias_grad_partials,
                     blocks);
    return 0;
}

}  // extern "C"
