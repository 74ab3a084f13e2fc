// Runs the kernels of `fused.cu` on a processor, for tests: a block's threads take turns, and lanes of a warp meet where
// they exchange numbers. What a card alone can do is done here as NVIDIA's manual of PTX describes it.
//
// A warp goes on until it must wait for others, and what is brought to shared memory comes as late as it may: so results
// are wrong where a kernel forgets to wait.

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
struct Place {
    int x;
};

uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
float2 make_float2(float x, float y) { return {x, y}; }
float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

Place threadIdx, blockIdx, gridDim;

// Threads that wait for each other: all of a block, or the 32 of a warp.
struct Meeting {
    int members = 0, arrived = 0, turn = 0;
};

struct Block {
    std::vector<ucontext_t> threads;
    std::vector<bool> ended;
    std::vector<Meeting> warps;
    Meeting all;
    int meetings = 0;
    ucontext_t scheduler;
    // What the lanes of each warp show each other.
    std::vector<uint64_t> shown;
    // What each thread has on its way.
    std::vector<std::vector<std::pair<uint16_t*, const uint16_t*>>> brought;
    std::function<void()> body;
};

Block* block = nullptr;

void let_others_run() { swapcontext(&block->threads[threadIdx.x], &block->scheduler); }

void meet(Meeting& meeting) {
    const int turn = meeting.turn;
    if (++meeting.arrived == meeting.members) {
        meeting.arrived = 0;
        meeting.turn++;
        block->meetings++;
        return;
    }
    while (meeting.turn == turn) let_others_run();
}

void run_thread() {
    block->body();
    block->ended[threadIdx.x] = true;
    let_others_run();
}

// Lets a warp run until it can go no further; how many of its threads have come to their end.
int run_warp(Block& block, int warp) {
    int before, ended = 0;
    do {
        before = block.meetings;
        for (threadIdx.x = warp * 32; threadIdx.x < warp * 32 + 32; threadIdx.x++) {
            if (block.ended[threadIdx.x]) continue;
            swapcontext(&block.scheduler, &block.threads[threadIdx.x]);
            ended += block.ended[threadIdx.x];
        }
    } while (block.meetings != before);
    return ended;
}

// One block after the other, since they share what would be shared memory.
void run(int blocks, int threads, const std::function<void()>& body) {
    static std::mutex one_at_a_time;
    std::lock_guard<std::mutex> guard(one_at_a_time);
    const size_t stack = 1 << 18;
    std::vector<char> stacks(stack * threads);
    gridDim.x = blocks;
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++) {
        Block now;
        block = &now;
        now.body = body;
        now.threads.resize(threads);
        now.ended.resize(threads);
        now.shown.resize(threads);
        now.brought.resize(threads);
        now.warps.resize(threads / 32, Meeting{32});
        now.all.members = threads;
        for (int i = 0; i < threads; i++) {
            getcontext(&now.threads[i]);
            now.threads[i].uc_stack.ss_sp = stacks.data() + stack * i;
            now.threads[i].uc_stack.ss_size = stack;
            now.threads[i].uc_link = nullptr;
            makecontext(&now.threads[i], run_thread, 0);
        }
        for (int left = threads; left > 0;) {
            for (int warp = 0; warp < threads / 32; warp++) left -= run_warp(now, warp);
        }
    }
}

void __syncthreads() { meet(block->all); }
void __syncwarp() { meet(block->warps[threadIdx.x / 32]); }

// What all lanes of this warp show.
template <typename Value>
std::vector<Value> exchange(Value mine) {
    static_assert(sizeof(Value) <= sizeof(uint64_t), "");
    std::memcpy(&block->shown[threadIdx.x], &mine, sizeof mine);
    __syncwarp();
    std::vector<Value> values(32);
    for (int lane = 0; lane < 32; lane++) {
        std::memcpy(&values[lane], &block->shown[threadIdx.x / 32 * 32 + lane], sizeof mine);
    }
    __syncwarp();
    return values;
}

float __shfl_xor_sync(unsigned, float mine, int other) { return exchange(mine)[(threadIdx.x % 32) ^ other]; }

float __uint_as_float(unsigned bits) {
    float number;
    std::memcpy(&number, &bits, sizeof number);
    return number;
}

float rsqrtf(float x) { return 1 / std::sqrt(x); }
float exp2_of(float x) { return std::exp2(x); }
float __fdividef(float x, float y) { return x / y; }

uint32_t rounded(float number) {
    uint32_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

uint32_t pack(float first, float second) { return rounded(first) | rounded(second) << 16; }

void bring(uint16_t* to, const uint16_t* from) {
    std::memset(to, 0xff, 16);
    block->brought[threadIdx.x].push_back({to, from});
}

void wait_for_all() {
    for (auto [to, from] : block->brought[threadIdx.x]) std::memcpy(to, from, 16);
    block->brought[threadIdx.x].clear();
}

void read_matrices(uint32_t (&words)[4], const uint16_t* row, bool turned) {
    auto rows = exchange(row);
    const int lane = threadIdx.x % 32;
    for (int matrix = 0; matrix < 4; matrix++) {
        uint32_t pair[2];
        for (int i = 0; i < 2; i++) {
            const int across = lane / 4, along = lane % 4 * 2 + i;
            pair[i] = turned ? rows[matrix * 8 + along][across] : rows[matrix * 8 + across][along];
        }
        words[matrix] = pair[0] | pair[1] << 16;
    }
    __syncwarp();
}

void matrices(uint32_t (&words)[4], const uint16_t* row) { read_matrices(words, row, false); }
void turned_matrices(uint32_t (&words)[4], const uint16_t* row) { read_matrices(words, row, true); }

float half_of(uint32_t pair, int which) { return __uint_as_float(which ? pair & 0xffff0000u : pair << 16); }

void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    float left[16][16], right[16][8];
    for (int word = 0; word < 4; word++) {
        auto words = exchange(a[word]);
        for (int lane = 0; lane < 32; lane++) {
            for (int i = 0; i < 2; i++) {
                left[lane / 4 + word % 2 * 8][lane % 4 * 2 + i + word / 2 * 8] = half_of(words[lane], i);
            }
        }
    }
    for (int word = 0; word < 2; word++) {
        auto words = exchange(word ? b1 : b0);
        for (int lane = 0; lane < 32; lane++) {
            for (int i = 0; i < 2; i++) right[lane % 4 * 2 + i + word * 8][lane / 4] = half_of(words[lane], i);
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
void norm_both_ways(const u16* x, const u16* branch, const u16* scale, const u16* offset, float factor, float epsilon,
                    int centred, int rows, int width, int blocks, u16* sum, u16* normed, const u16* normed_slopes,
                    const u16* sum_slopes, u16* x_slopes, u16* branch_slopes, float* parts) {
    std::vector<float2> kept(rows);
    run(blocks, 32 * NORM_WARPS, [&] {
        add_norm_rows<CHUNKS>((const uint4*)x, (const uint4*)branch, scale, offset, (uint4*)sum, (uint4*)normed,
                              kept.data(), factor, epsilon, centred, rows, width);
    });
    run(blocks, 32 * NORM_WARPS, [&] {
        add_norm_rows_back<CHUNKS>((const uint4*)(branch ? sum : x), kept.data(), scale, (const uint4*)normed_slopes,
                                   (const uint4*)sum_slopes, (uint4*)x_slopes, (uint4*)branch_slopes, parts, factor,
                                   centred, rows, width);
    });
}

template <int CURVE>
void bend_both_ways(const u16* x, const u16* bias, int rows, int width, int blocks, u16* out, const u16* out_slopes,
                    u16* x_slopes, float* parts) {
    const int slabs = (width + 255) / 256;
    run(blocks * slabs, 32 * NORM_WARPS, [&] { bend_rows<CURVE>((const uint4*)x, bias, (uint4*)out, rows, width); });
    run(blocks * slabs, 32 * NORM_WARPS, [&] {
        bend_rows_back<CURVE>((const uint4*)x, bias, (const uint4*)out_slopes, (uint4*)x_slopes, parts, rows, width);
    });
}

template <int HEAD>
void attend_both_ways(const u16* all, const u16* bias, int batch, int heads, int bias_stride, u16* out,
                      const u16* out_slopes, u16* all_slopes, u16* bias_slopes, float* bias_parts, int blocks) {
    std::vector<float> kept(batch * heads * SQUARES);
    run(batch * heads, 32 * WARPS, [&] { attend<HEAD>(all, bias, out, kept.data(), heads, bias_stride); });
    run(blocks * heads, 32 * WARPS, [&] {
        auto back = bias_parts ? attend_back<HEAD, true> : attend_back<HEAD, false>;
        back(all, bias, kept.data(), out_slopes, all_slopes, bias_slopes, bias_parts, batch, heads, bias_stride);
    });
}

}  // namespace

extern "C" {

// Forward, then back. -1 where the width is none that there is a kernel for.
int tandem_emulated_norm(const uint16_t* x, const uint16_t* branch, const uint16_t* scale, const uint16_t* offset,
                         float factor, float epsilon, int centred, int rows, int width, int blocks, uint16_t* sum,
                         uint16_t* normed, const uint16_t* normed_slopes, const uint16_t* sum_slopes,
                         uint16_t* x_slopes, uint16_t* branch_slopes, float* parts) {
    void (*const chunks[])(decltype(x), decltype(x), decltype(x), decltype(x), float, float, int, int, int, int, u16*,
                           u16*, decltype(x), decltype(x), u16*, u16*, float*) = {
        norm_both_ways<1>, norm_both_ways<2>, norm_both_ways<3>, norm_both_ways<4>};
    if (width % 8 != 0 || width > 1024) return -1;
    chunks[(width - 1) / 256](x, branch, scale, offset, factor, epsilon, centred, rows, width, blocks, sum, normed,
                              normed_slopes, sum_slopes, x_slopes, branch_slopes, parts);
    return 0;
}

int tandem_emulated_bend(int curve, const uint16_t* x, const uint16_t* bias, int rows, int width, int blocks,
                         uint16_t* out, const uint16_t* out_slopes, uint16_t* x_slopes, float* parts) {
    void (*const curves[])(decltype(x), decltype(x), int, int, int, u16*, decltype(x), u16*, float*) = {
        bend_both_ways<SILU>, bend_both_ways<MISH>, bend_both_ways<GELU>, bend_both_ways<SQUARED_RELU>,
        bend_both_ways<RELU>};
    if (width % 8 != 0 || curve < 0 || curve > RELU) return -1;
    curves[curve](x, bias, rows, width, blocks, out, out_slopes, x_slopes, parts);
    return 0;
}

int tandem_emulated_attention(const uint16_t* all, const uint16_t* bias, int batch, int heads, int head,
                              int bias_stride, uint16_t* out, const uint16_t* out_slopes, uint16_t* all_slopes,
                              uint16_t* bias_slopes, float* bias_parts, int blocks) {
    auto both_ways = head == 16   ? attend_both_ways<16>
                     : head == 32 ? attend_both_ways<32>
                     : head == 64 ? attend_both_ways<64>
                                  : nullptr;
    if (!both_ways) return -1;
    both_ways(all, bias, batch, heads, bias_stride, out, out_slopes, all_slopes, bias_slopes, bias_parts, blocks);
    return 0;
}

}  // extern "C"
