// CUDA kernels for the parts of a training step that take most GPU time besides matrix products: residual
// addition with normalisation, activations, and attention among 64 squares. They are compiled at run time by
// NVRTC and include nothing. `emulated.cpp` compiles the same text for the CPU, with its own definitions of
// the few instructions that only a GPU has.
//
// Tensors are bf16, two values to a 32-bit word, the first in the low half. All arithmetic is in f32.

typedef unsigned int u32;
typedef unsigned short u16;

#ifdef __CUDACC_RTC__

__device__ u32 pack(float first, float second) {
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
}

__device__ float fast_exp2(float x) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

__device__ u32 shared_address(const void* pointer) { return (u32)__cvta_generic_to_shared(pointer); }

// Starts an asynchronous copy of 16 bytes to shared memory; `cp_async_wait_all` waits for all that this
// thread has started.
__device__ void cp_async_16(u16* to, const u16* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}

__device__ void cp_async_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Loads four 8 x 8 matrices: lane l passes the address of row l % 8 of matrix l / 8. From each matrix a lane
// gets two values of row l / 4, in columns 2 (l % 4) and the next.
__device__ void ldmatrix_x4(u32 (&words)[4], const u16* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared_address(row))
                 : "memory");
}

// The same, transposed: two values of column l / 4, in rows 2 (l % 4) and the next.
__device__ void ldmatrix_x4_trans(u32 (&words)[4], const u16* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared_address(row))
                 : "memory");
}

// c += a * b for a 16 x 16 and a 16 x 8 matrix. With g = lane / 4 and t = lane % 4 a lane holds
// - a: row g, columns 2t and 2t + 1; row g + 8; then both rows eight columns on;
// - b: column g, rows 2t and 2t + 1; then eight rows on;
// - c: row g, columns 2t and 2t + 1; then row g + 8.
__device__ void mma(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#endif

__device__ float low_half(u32 pair) { return __uint_as_float(pair << 16); }

__device__ float high_half(u32 pair) { return __uint_as_float(pair & 0xffff0000u); }

__device__ void unpack8(float (&values)[8], uint4 words) {
    const u32 pairs[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        values[2 * i] = low_half(pairs[i]);
        values[2 * i + 1] = high_half(pairs[i]);
    }
}

__device__ uint4 pack8(const float (&values)[8]) {
    uint4 words;
    words.x = pack(values[0], values[1]);
    words.y = pack(values[2], values[3]);
    words.z = pack(values[4], values[5]);
    words.w = pack(values[6], values[7]);
    return words;
}

// Loads eight values of a tensor of any alignment; zeros if the pointer is null.
__device__ uint4 load8(const u16* values, int first) {
    uint4 words = {0, 0, 0, 0};
    if (!values) return words;
    values += first;
    words.x = values[0] | (u32)values[1] << 16;
    words.y = values[2] | (u32)values[3] << 16;
    words.z = values[4] | (u32)values[5] << 16;
    words.w = values[6] | (u32)values[7] << 16;
    return words;
}

// ---- Residual addition and normalisation ---------------------------------------------------------------
//
// A warp takes a row, and a lane eight values of every 256: CHUNKS times eight values, or fewer if the width
// is not a multiple of 256.

const int NORM_WARPS = 8;

__device__ float warp_sum(float x) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

// sum = x + factor * branch, or x itself if `branch` is null; normed = (sum - mean) * rstd * scale + offset.
// The mean is zero for RMS norms (`centred` 0). Mean and reciprocal standard deviation of each row are saved
// for the backward pass.
template <int CHUNKS>
__device__ void add_norm_rows(const uint4* x, const uint4* branch, const u16* scale, const u16* offset, uint4* sum,
                              uint4* normed, float2* stats, float factor, float epsilon, int centred, int rows,
                              int width) {
    const int lane = threadIdx.x % 32, row_chunks = width / 8;
    uint4 scales[CHUNKS], offsets[CHUNKS];
#pragma unroll
    for (int i = 0; i < CHUNKS; i++) {
        const int chunk = lane + 32 * i;
        if (chunk < row_chunks) scales[i] = load8(scale, 8 * chunk), offsets[i] = load8(offset, 8 * chunk);
    }
    for (int row = blockIdx.x * NORM_WARPS + threadIdx.x / 32; row < rows; row += gridDim.x * NORM_WARPS) {
        const size_t start = (size_t)row * row_chunks;
        float values[CHUNKS][8], total = 0, squares = 0;
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            const int chunk = lane + 32 * i;
            if (chunk >= row_chunks) continue;
            unpack8(values[i], x[start + chunk]);
            if (branch) {
                float branch_values[8];
                unpack8(branch_values, branch[start + chunk]);
#pragma unroll
                for (int j = 0; j < 8; j++) values[i][j] += factor * branch_values[j];
                // Later operations read the rounded sum, so the backward pass must see the same values.
                const uint4 words = pack8(values[i]);
                sum[start + chunk] = words;
                unpack8(values[i], words);
            }
#pragma unroll
            for (int j = 0; j < 8; j++) total += values[i][j];
        }
        const float mean = centred ? warp_sum(total) / width : 0;
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            if (lane + 32 * i >= row_chunks) continue;
#pragma unroll
            for (int j = 0; j < 8; j++) squares += (values[i][j] - mean) * (values[i][j] - mean);
        }
        const float rstd = rsqrtf(warp_sum(squares) / width + epsilon);
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            const int chunk = lane + 32 * i;
            if (chunk >= row_chunks) continue;
            float chunk_scale[8], chunk_offset[8];
            unpack8(chunk_scale, scales[i]);
            unpack8(chunk_offset, offsets[i]);
#pragma unroll
            for (int j = 0; j < 8; j++) values[i][j] = (values[i][j] - mean) * rstd * chunk_scale[j] + chunk_offset[j];
            normed[start + chunk] = pack8(values[i]);
        }
        if (lane == 0) stats[row] = make_float2(mean, rstd);
    }
}

// Sums over the warps of a block, in a fixed order, so that the result is the same every time.
template <int CHUNKS>
__device__ void block_sum(float* out, const float (&values)[CHUNKS][8], int width) {
    __shared__ float totals[256 * CHUNKS];
    const int lane = threadIdx.x % 32;
    for (int warp = 0; warp < NORM_WARPS; warp++) {
        if (threadIdx.x / 32 == warp) {
#pragma unroll
            for (int i = 0; i < CHUNKS; i++) {
#pragma unroll
                for (int j = 0; j < 8; j++) {
                    float* total = totals + (lane + 32 * i) * 8 + j;
                    *total = warp ? *total + values[i][j] : values[i][j];
                }
            }
        }
        __syncthreads();
    }
    for (int i = threadIdx.x; i < width; i += 32 * NORM_WARPS) out[i] = totals[i];
    __syncthreads();
}

// Backward pass of `add_norm_rows`. `sum_grad` may be null; `branch_grad` is null unless it differs from
// `x_grad`. `partials` gets the sums of each block, [blocks, 2, width]: gradients of the scale, then of the
// offset.
template <int CHUNKS>
__device__ void add_norm_rows_backward(const uint4* sum, const float2* stats, const u16* scale,
                                       const uint4* normed_grad, const uint4* sum_grad, uint4* x_grad,
                                       uint4* branch_grad, float* partials, float factor, int centred, int rows,
                                       int width) {
    const int lane = threadIdx.x % 32, row_chunks = width / 8;
    float scale_grad[CHUNKS][8], offset_grad[CHUNKS][8];
    uint4 scales[CHUNKS];
#pragma unroll
    for (int i = 0; i < CHUNKS; i++) {
#pragma unroll
        for (int j = 0; j < 8; j++) scale_grad[i][j] = offset_grad[i][j] = 0;
        if (lane + 32 * i < row_chunks) scales[i] = load8(scale, 8 * (lane + 32 * i));
    }
    for (int row = blockIdx.x * NORM_WARPS + threadIdx.x / 32; row < rows; row += gridDim.x * NORM_WARPS) {
        const size_t start = (size_t)row * row_chunks;
        uint4 values[CHUNKS], normed_grads[CHUNKS], sum_grads[CHUNKS];
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            const int chunk = lane + 32 * i;
            if (chunk >= row_chunks) continue;
            values[i] = sum[start + chunk];
            normed_grads[i] = normed_grad[start + chunk];
            sum_grads[i] = sum_grad ? sum_grad[start + chunk] : make_uint4(0, 0, 0, 0);
        }
        const float2 row_stats = stats[row];
        const float mean = row_stats.x, rstd = row_stats.y;
        float mean_grad = 0, mean_grad_xhat = 0;
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            if (lane + 32 * i >= row_chunks) continue;
            float value[8], grad[8], chunk_scale[8];
            unpack8(value, values[i]);
            unpack8(grad, normed_grads[i]);
            unpack8(chunk_scale, scales[i]);
#pragma unroll
            for (int j = 0; j < 8; j++) {
                const float xhat = (value[j] - mean) * rstd;
                scale_grad[i][j] += grad[j] * xhat;
                offset_grad[i][j] += grad[j];
                mean_grad += grad[j] * chunk_scale[j];
                mean_grad_xhat += grad[j] * chunk_scale[j] * xhat;
            }
        }
        mean_grad = centred ? warp_sum(mean_grad) / width : 0;
        mean_grad_xhat = warp_sum(mean_grad_xhat) / width;
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            const int chunk = lane + 32 * i;
            if (chunk >= row_chunks) continue;
            float value[8], grad[8], chunk_scale[8], result[8];
            unpack8(value, values[i]);
            unpack8(grad, normed_grads[i]);
            unpack8(chunk_scale, scales[i]);
            unpack8(result, sum_grads[i]);
#pragma unroll
            for (int j = 0; j < 8; j++) {
                const float xhat = (value[j] - mean) * rstd;
                result[j] += rstd * (grad[j] * chunk_scale[j] - mean_grad - xhat * mean_grad_xhat);
            }
            x_grad[start + chunk] = pack8(result);
            if (branch_grad) {
#pragma unroll
                for (int j = 0; j < 8; j++) result[j] *= factor;
                branch_grad[start + chunk] = pack8(result);
            }
        }
    }
    partials += (size_t)blockIdx.x * 2 * width;
    block_sum<CHUNKS>(partials, scale_grad, width);
    block_sum<CHUNKS>(partials + width, offset_grad, width);
}

// ---- Bias and activation ----------------------------------------------------------------------------------
//
// A block takes 256 columns, a lane eight of them, and strides over the rows.

const float LOG2_E = 1.4426950408889634f;

enum Activation { SILU, MISH, GELU, SQUARED_RELU, RELU };

struct ValueAndGrad {
    float value, grad;
};

template <int ACTIVATION>
__device__ ValueAndGrad activate(float x) {
    if (ACTIVATION == SILU) {
        const float sigmoid = __fdividef(1, 1 + fast_exp2(-x * LOG2_E));
        return {x * sigmoid, sigmoid * (1 + x * (1 - sigmoid))};
    }
    if (ACTIVATION == MISH) {
        // tanh(log(1 + e)) with e = exp(x) is n / (n + 2) with n = e (e + 2). Above 20 it is 1 in f32.
        const float e = fast_exp2(fminf(x, 20) * LOG2_E), n = e * (e + 2), inverse = __fdividef(1, n + 2);
        return {x * n * inverse, n * inverse + x * 4 * e * inverse * (e + 1) * inverse};
    }
    if (ACTIVATION == GELU) {
        const float cdf = 0.5f + 0.5f * erff(x * 0.70710678f);
        return {x * cdf, cdf + x * 0.39894228f * fast_exp2(-0.5f * x * x * LOG2_E)};
    }
    const float positive = fmaxf(x, 0);
    if (ACTIVATION == SQUARED_RELU) return {positive * positive, 2 * positive};
    return {positive, x > 0 ? 1.0f : 0.0f};
}

// Index of this lane's chunk of eight columns; it may lie beyond the last one.
__device__ int lane_chunk(int column_blocks) { return blockIdx.x % column_blocks * 32 + threadIdx.x % 32; }

// out = activation(x + bias); the bias may be null.
template <int ACTIVATION>
__device__ void bias_activation_rows(const uint4* x, const u16* bias, uint4* out, int rows, int width) {
    const int row_chunks = width / 8, column_blocks = (row_chunks + 31) / 32, chunk = lane_chunk(column_blocks);
    if (chunk >= row_chunks) return;
    float chunk_bias[8];
    unpack8(chunk_bias, load8(bias, 8 * chunk));
    const int step = gridDim.x / column_blocks * NORM_WARPS;
    for (int row = blockIdx.x / column_blocks * NORM_WARPS + threadIdx.x / 32; row < rows; row += step) {
        float values[8];
        unpack8(values, x[(size_t)row * row_chunks + chunk]);
#pragma unroll
        for (int j = 0; j < 8; j++) values[j] = activate<ACTIVATION>(values[j] + chunk_bias[j]).value;
        out[(size_t)row * row_chunks + chunk] = pack8(values);
    }
}

// Backward pass of `bias_activation_rows`. `partials` gets the sums of the bias gradient, [blocks of a
// column, width]; it is null if the bias is.
template <int ACTIVATION>
__device__ void bias_activation_rows_backward(const uint4* x, const u16* bias, const uint4* out_grad, uint4* x_grad,
                                              float* partials, int rows, int width) {
    const int row_chunks = width / 8, column_blocks = (row_chunks + 31) / 32, chunk = lane_chunk(column_blocks);
    float chunk_bias[8], sums[1][8] = {{0, 0, 0, 0, 0, 0, 0, 0}};
    if (chunk < row_chunks) unpack8(chunk_bias, load8(bias, 8 * chunk));
    const int step = gridDim.x / column_blocks * NORM_WARPS;
    for (int row = blockIdx.x / column_blocks * NORM_WARPS + threadIdx.x / 32; row < rows && chunk < row_chunks;
         row += step) {
        float values[8], grads[8];
        unpack8(values, x[(size_t)row * row_chunks + chunk]);
        unpack8(grads, out_grad[(size_t)row * row_chunks + chunk]);
#pragma unroll
        for (int j = 0; j < 8; j++) {
            grads[j] *= activate<ACTIVATION>(values[j] + chunk_bias[j]).grad;
            sums[0][j] += grads[j];
        }
        x_grad[(size_t)row * row_chunks + chunk] = pack8(grads);
    }
    if (!partials) return;
    const int first = blockIdx.x % column_blocks * 256;
    partials += (size_t)(blockIdx.x / column_blocks) * width + first;
    block_sum<1>(partials, sums, width - first < 256 ? width - first : 256);
}

// ---- Attention among 64 squares ---------------------------------------------------------------------------
//
// A block of four warps takes one head of one position, and a warp 16 of the 64 queries. Queries, keys and
// values lie in one tensor [batch, 64, 3, heads, HEAD].
//
// Keys and values are permuted in shared memory: slot s holds square `square_of(s)`. A lane has two logits of
// each group of eight slots; with this permutation they belong to 16 consecutive squares, 32 bytes of a bias.

const int SQUARES = 64;
const int WARPS = 4;
const int QUERIES = SQUARES / WARPS;
// A row in shared memory is padded by 16 bytes, so that eight rows of a matrix lie in different banks.
const int PAD = 8;
const int WEIGHT_STRIDE = SQUARES + PAD;

__device__ int square_of(int slot) { return slot % 8 / 2 * 16 + slot / 8 * 2 + slot % 2; }

// Starts copying the rows of all squares to shared memory, in their order or permuted.
template <int HEAD, bool PERMUTED>
__device__ void load_rows_async(u16* to, const u16* from, int stride) {
    const int chunks = HEAD / 8;
#pragma unroll
    for (int i = threadIdx.x; i < SQUARES * chunks; i += 32 * WARPS) {
        const int row = i / chunks, chunk = i % chunks;
        const int square = PERMUTED ? square_of(row) : row;
        cp_async_16(to + row * (HEAD + PAD) + chunk * 8, from + (size_t)square * stride + chunk * 8);
    }
}

// c = rows * others^T: the dot products of this warp's 16 rows with all 64 rows of `others`.
template <int HEAD>
__device__ void dot_products(float (&c)[8][4], const u16* rows, const u16* others) {
    const int lane = threadIdx.x % 32, stride = HEAD + PAD;
    rows += (threadIdx.x / 32 * QUERIES + lane % 16) * stride + lane / 16 * 8;
    others += (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8;
#pragma unroll
    for (int group = 0; group < 8; group++) {
#pragma unroll
        for (int i = 0; i < 4; i++) c[group][i] = 0;
    }
#pragma unroll
    for (int k = 0; k < HEAD; k += 16) {
        u32 a[4];
        ldmatrix_x4(a, rows + k);
#pragma unroll
        for (int group = 0; group < 8; group += 2) {
            u32 b[4];
            ldmatrix_x4(b, others + group * 8 * stride + k);
            mma(c[group], a, b[0], b[1]);
            mma(c[group + 1], a, b[2], b[3]);
        }
    }
}

// c += a * rows, for a 16 x 16 matrix in registers and 16 rows in shared memory.
template <int HEAD>
__device__ void accumulate(float (&c)[HEAD / 8][4], const u32 (&a)[4], const u16* rows) {
    const int lane = threadIdx.x % 32;
    rows += lane % 16 * (HEAD + PAD) + lane / 16 * 8;
#pragma unroll
    for (int group = 0; group < HEAD / 8; group += 2) {
        u32 b[4];
        ldmatrix_x4_trans(b, rows + group * 8);
        mma(c[group], a, b[0], b[1]);
        mma(c[group + 1], a, b[2], b[3]);
    }
}

template <int HEAD>
__device__ void clear(float (&c)[HEAD / 8][4]) {
#pragma unroll
    for (int group = 0; group < HEAD / 8; group++) {
#pragma unroll
        for (int i = 0; i < 4; i++) c[group][i] = 0;
    }
}

// c = weights * rows, where the weights of this warp's 16 queries over the 64 slots are in registers, two
// values to a word: of each group of eight slots those of row g and those of row g + 8, which is the layout
// that `mma` takes.
template <int HEAD>
__device__ void matmul_weights(float (&c)[HEAD / 8][4], const u32 (&weights)[8][2], const u16* rows) {
    clear<HEAD>(c);
#pragma unroll
    for (int group = 0; group < 8; group += 2) {
        const u32 a[4] = {weights[group][0], weights[group][1], weights[group + 1][0], weights[group + 1][1]};
        accumulate<HEAD>(c, a, rows + group * 8 * (HEAD + PAD));
    }
}

// c = weights^T * rows for this warp's 16 slots: the rows of 64 queries, weighted by `weights` in shared
// memory, which has a row for each query.
template <int HEAD>
__device__ void matmul_weights_transposed(float (&c)[HEAD / 8][4], const u16* weights, const u16* rows) {
    const int lane = threadIdx.x % 32;
    weights += (lane % 8 + lane / 16 * 8) * WEIGHT_STRIDE + threadIdx.x / 32 * QUERIES + lane / 8 % 2 * 8;
    clear<HEAD>(c);
#pragma unroll
    for (int query = 0; query < SQUARES; query += 16) {
        u32 a[4];
        ldmatrix_x4_trans(a, weights + query * WEIGHT_STRIDE);
        accumulate<HEAD>(c, a, rows + query * (HEAD + PAD));
    }
}

__device__ void store_weights(u16* to, const u32 (&weights)[8][2]) {
    const int lane = threadIdx.x % 32;
    to += (threadIdx.x / 32 * QUERIES + lane / 4) * WEIGHT_STRIDE + lane % 4 * 2;
#pragma unroll
    for (int group = 0; group < 8; group++) {
        *(u32*)(to + group * 8) = weights[group][0];
        *(u32*)(to + group * 8 + 8 * WEIGHT_STRIDE) = weights[group][1];
    }
}

// Writes this warp's 16 rows, times a factor for each of a lane's two rows. They pass through shared memory:
// no other warp may still read the warp's 16 rows of `stage`.
template <int HEAD, bool PERMUTED>
__device__ void store_rows(u16* to, int stride, u16* stage, const float (&c)[HEAD / 8][4], float factor,
                           float factor_below) {
    const int lane = threadIdx.x % 32, first = threadIdx.x / 32 * QUERIES, chunks = HEAD / 8;
    stage += first * (HEAD + PAD);
    __syncwarp();
    u16* lane_rows = stage + lane / 4 * (HEAD + PAD) + lane % 4 * 2;
#pragma unroll
    for (int group = 0; group < chunks; group++) {
        *(u32*)(lane_rows + group * 8) = pack(c[group][0] * factor, c[group][1] * factor);
        *(u32*)(lane_rows + group * 8 + 8 * (HEAD + PAD)) =
            pack(c[group][2] * factor_below, c[group][3] * factor_below);
    }
    __syncwarp();
#pragma unroll
    for (int i = lane; i < QUERIES * chunks; i += 32) {
        const int row = i / chunks, chunk = i % chunks;
        const int square = PERMUTED ? square_of(first + row) : first + row;
        *(uint4*)(to + (size_t)square * stride + chunk * 8) = *(const uint4*)(stage + row * (HEAD + PAD) + chunk * 8);
    }
    __syncwarp();
}

// Sum and maximum over the four lanes that share a row.
__device__ float row_sum(float x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

__device__ float row_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

// Bias of a lane's logits: for row g, then for row g + 8, 16 squares from 16 t on.
struct Bias {
    uint4 words[2][2];
};

// Offset of a lane's first logit in a 64 x 64 matrix.
__device__ int first_logit() {
    const int lane = threadIdx.x % 32;
    return (threadIdx.x / 32 * QUERIES + lane / 4) * SQUARES + lane % 4 * 16;
}

__device__ Bias load_bias(const u16* head_bias) {
    Bias bias;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const uint4* row = (const uint4*)(head_bias + first_logit() + half * 8 * SQUARES);
        bias.words[half][0] = row[0];
        bias.words[half][1] = row[1];
    }
    return bias;
}

// Turns dot products into logits to base 2, because exp2 is the faster instruction.
__device__ void base2_logits(float (&c)[8][4], const Bias& bias, bool has_bias, float scale) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
#pragma unroll
        for (int chunk = 0; chunk < 2; chunk++) {
            float chunk_bias[8] = {0, 0, 0, 0, 0, 0, 0, 0};
            if (has_bias) unpack8(chunk_bias, bias.words[half][chunk]);
#pragma unroll
            for (int i = 0; i < 8; i++) {
                float* logit = &c[chunk * 4 + i / 2][half * 2 + i % 2];
                *logit = (*logit * scale + chunk_bias[i]) * LOG2_E;
            }
        }
    }
}

// Softmax attention. `logsumexp` gets for each query the logarithm, to base 2, of the sum of the powers.
template <int HEAD>
__device__ void attend(const u16* qkv, const u16* bias, u16* out, float* logsumexp, int heads, int bias_stride) {
    __shared__ __align__(16) u16 queries[SQUARES * (HEAD + PAD)];
    __shared__ __align__(16) u16 keys[SQUARES * (HEAD + PAD)];
    __shared__ __align__(16) u16 values[SQUARES * (HEAD + PAD)];
    const int head = blockIdx.x % heads, width = heads * HEAD, lane = threadIdx.x % 32;
    const size_t position = blockIdx.x / heads;
    qkv += position * SQUARES * 3 * width + head * HEAD;
    load_rows_async<HEAD, false>(queries, qkv, 3 * width);
    load_rows_async<HEAD, true>(keys, qkv + width, 3 * width);
    load_rows_async<HEAD, true>(values, qkv + 2 * width, 3 * width);
    Bias lane_bias;
    if (bias) lane_bias = load_bias(bias + position * bias_stride + head * SQUARES * SQUARES);
    cp_async_wait_all();
    __syncthreads();

    float logits[8][4];
    dot_products<HEAD>(logits, queries, keys);
    base2_logits(logits, lane_bias, bias, rsqrtf((float)HEAD));
    u32 weights[8][2];
    float inverse_sum[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float largest = logits[0][2 * half], total = 0;
#pragma unroll
        for (int group = 0; group < 8; group++) {
            largest = fmaxf(largest, fmaxf(logits[group][2 * half], logits[group][2 * half + 1]));
        }
        largest = row_max(largest);
#pragma unroll
        for (int group = 0; group < 8; group++) {
            const float weight = fast_exp2(logits[group][2 * half] - largest);
            const float next_weight = fast_exp2(logits[group][2 * half + 1] - largest);
            total += weight + next_weight;
            weights[group][half] = pack(weight, next_weight);
        }
        total = row_sum(total);
        inverse_sum[half] = 1 / total;
        const int query = threadIdx.x / 32 * QUERIES + lane / 4 + half * 8;
        if (lane % 4 == 0) logsumexp[(size_t)blockIdx.x * SQUARES + query] = largest + log2f(total);
    }
    float result[HEAD / 8][4];
    matmul_weights<HEAD>(result, weights, values);
    store_rows<HEAD, false>(out + position * SQUARES * width + head * HEAD, width, queries, result, inverse_sum[0],
                            inverse_sum[1]);
}

// Backward pass of `attend`, in which a block strides over the positions. The gradient of a bias
// of its own for each position is written to `bias_grad`; that of a shared bias (SHARED_BIAS) is summed by
// block: `bias_grad_partials`, [blocks, 64, 64].
template <int HEAD, bool SHARED_BIAS>
__device__ void attend_backward(const u16* qkv, const u16* bias, const float* logsumexp, const u16* out_grad,
                                u16* qkv_grad, u16* bias_grad, float* bias_grad_partials, int batch, int heads,
                                int bias_stride) {
    __shared__ __align__(16) u16 queries[SQUARES * (HEAD + PAD)];
    __shared__ __align__(16) u16 keys[SQUARES * (HEAD + PAD)];
    __shared__ __align__(16) u16 values[SQUARES * (HEAD + PAD)];
    __shared__ __align__(16) u16 out_grads[SQUARES * (HEAD + PAD)];
    __shared__ __align__(16) u16 staged[SQUARES * WEIGHT_STRIDE];
    const int head = blockIdx.x % heads, width = heads * HEAD, lane = threadIdx.x % 32;
    const float scale = rsqrtf((float)HEAD);
    float bias_grad_sums[8][4];
    if (SHARED_BIAS) clear<SQUARES>(bias_grad_sums);
    for (size_t position = blockIdx.x / heads; position < batch; position += gridDim.x / heads) {
        // Step 1: load queries, keys, values and the gradient of the output.
        const size_t start = position * SQUARES * width;
        const u16* from = qkv + 3 * start + head * HEAD;
        u16* to = qkv_grad + 3 * start + head * HEAD;
        load_rows_async<HEAD, false>(queries, from, 3 * width);
        load_rows_async<HEAD, true>(keys, from + width, 3 * width);
        load_rows_async<HEAD, true>(values, from + 2 * width, 3 * width);
        load_rows_async<HEAD, false>(out_grads, out_grad + start + head * HEAD, width);
        Bias lane_bias;
        if (bias) lane_bias = load_bias(bias + position * bias_stride + head * SQUARES * SQUARES);
        const float* saved = logsumexp + (position * heads + head) * SQUARES + threadIdx.x / 32 * QUERIES + lane / 4;
        const float lane_logsumexp[2] = {saved[0], saved[8]};
        cp_async_wait_all();
        __syncthreads();

        // Step 2: recompute the attention weights, and from them the gradient of the logits.
        float logits[8][4], logit_grads[8][4];
        dot_products<HEAD>(logits, queries, keys);
        dot_products<HEAD>(logit_grads, out_grads, values);
        base2_logits(logits, lane_bias, bias, scale);
        u32 weights[8][2], packed_logit_grads[8][2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float mean = 0;
#pragma unroll
            for (int group = 0; group < 8; group++) {
#pragma unroll
                for (int i = 2 * half; i < 2 * half + 2; i++) {
                    logits[group][i] = fast_exp2(logits[group][i] - lane_logsumexp[half]);
                    mean += logits[group][i] * logit_grads[group][i];
                }
                weights[group][half] = pack(logits[group][2 * half], logits[group][2 * half + 1]);
            }
            mean = row_sum(mean);
#pragma unroll
            for (int group = 0; group < 8; group++) {
#pragma unroll
                for (int i = 2 * half; i < 2 * half + 2; i++) {
                    logit_grads[group][i] = logits[group][i] * (logit_grads[group][i] - mean);
                    if (SHARED_BIAS) bias_grad_sums[group][i] += logit_grads[group][i];
                }
                packed_logit_grads[group][half] = pack(logit_grads[group][2 * half], logit_grads[group][2 * half + 1]);
            }
        }
        if (bias_grad) {
            u16* out = bias_grad + (position * heads + head) * SQUARES * SQUARES + first_logit();
#pragma unroll
            for (int half = 0; half < 2; half++) {
#pragma unroll
                for (int chunk = 0; chunk < 2; chunk++) {
                    const u32(*quad)[2] = packed_logit_grads + chunk * 4;
                    *(uint4*)(out + half * 8 * SQUARES + chunk * 8) =
                        make_uint4(quad[0][half], quad[1][half], quad[2][half], quad[3][half]);
                }
            }
        }

        // Step 3: gradient of the queries. Afterwards keys and values are not read any more, so their memory
        // stages the rows that are written.
        float result[HEAD / 8][4];
        matmul_weights<HEAD>(result, packed_logit_grads, keys);
        store_weights(staged, weights);
        __syncthreads();
        store_rows<HEAD, false>(to, 3 * width, keys, result, scale, scale);

        // Step 4: gradient of the values; each warp has 16 slots.
        matmul_weights_transposed<HEAD>(result, staged, out_grads);
        store_rows<HEAD, true>(to + 2 * width, 3 * width, values, result, 1, 1);
        __syncthreads();

        // Step 5: gradient of the keys.
        store_weights(staged, packed_logit_grads);
        __syncthreads();
        matmul_weights_transposed<HEAD>(result, staged, queries);
        store_rows<HEAD, true>(to + width, 3 * width, keys, result, scale, scale);
        __syncthreads();
    }
    if (SHARED_BIAS) {
        float* partial = bias_grad_partials + (size_t)blockIdx.x * SQUARES * SQUARES + first_logit();
#pragma unroll
        for (int half = 0; half < 2; half++) {
#pragma unroll
            for (int group = 0; group < 8; group += 2) {
                *(float4*)(partial + half * 8 * SQUARES + group * 2) =
                    make_float4(bias_grad_sums[group][2 * half], bias_grad_sums[group][2 * half + 1],
                                bias_grad_sums[group + 1][2 * half], bias_grad_sums[group + 1][2 * half + 1]);
            }
        }
    }
}

// ---- Kernels ----------------------------------------------------------------------------------------------
//
// Instantiated for one width (a lane takes TANDEM_CHUNKS chunks of eight values), one width of heads,
// TANDEM_HEAD, and one activation, TANDEM_ACTIVATION.

#ifdef __CUDACC_RTC__

extern "C" __global__ void __launch_bounds__(32 * NORM_WARPS)
    add_norm(const uint4* x, const uint4* branch, const u16* scale, const u16* offset, uint4* sum, uint4* normed,
             float2* stats, float factor, float epsilon, int centred, int rows, int width) {
    add_norm_rows<TANDEM_CHUNKS>(x, branch, scale, offset, sum, normed, stats, factor, epsilon, centred, rows, width);
}

extern "C" __global__ void __launch_bounds__(32 * NORM_WARPS)
    add_norm_backward(const uint4* sum, const float2* stats, const u16* scale, const uint4* normed_grad,
                      const uint4* sum_grad, uint4* x_grad, uint4* branch_grad, float* partials, float factor,
                      int centred, int rows, int width) {
    add_norm_rows_backward<TANDEM_CHUNKS>(sum, stats, scale, normed_grad, sum_grad, x_grad, branch_grad, partials,
                                          factor, centred, rows, width);
}

extern "C" __global__ void __launch_bounds__(32 * NORM_WARPS)
    bias_activation(const uint4* x, const u16* bias, uint4* out, int rows, int width) {
    bias_activation_rows<TANDEM_ACTIVATION>(x, bias, out, rows, width);
}

extern "C" __global__ void __launch_bounds__(32 * NORM_WARPS)
    bias_activation_backward(const uint4* x, const u16* bias, const uint4* out_grad, uint4* x_grad, float* partials,
                             int rows, int width) {
    bias_activation_rows_backward<TANDEM_ACTIVATION>(x, bias, out_grad, x_grad, partials, rows, width);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    attention(const u16* qkv, const u16* bias, u16* out, float* logsumexp, int heads, int bias_stride) {
    attend<TANDEM_HEAD>(qkv, bias, out, logsumexp, heads, bias_stride);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    attention_backward(const u16* qkv, const u16* bias, const float* logsumexp, const u16* out_grad, u16* qkv_grad,
                       u16* bias_grad, int batch, int heads, int bias_stride) {
    attend_backward<TANDEM_HEAD, false>(qkv, bias, logsumexp, out_grad, qkv_grad, bias_grad, 0, batch, heads,
                                        bias_stride);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 3)
    attention_backward_shared_bias(const u16* qkv, const u16* bias, const float* logsumexp, const u16* out_grad,
                                   u16* qkv_grad, float* bias_grad_partials, int batch, int heads, int bias_stride) {
    attend_backward<TANDEM_HEAD, true>(qkv, bias, logsumexp, out_grad, qkv_grad, 0, bias_grad_partials, batch, heads,
                                       bias_stride);
}

#endif
