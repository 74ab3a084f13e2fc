// Kernels for what costs a card most of its time in training besides products: sums with norms, curves, and attention
// among 64 squares. They are compiled where they run, by NVRTC, and include nothing. `emulated.cpp` runs the same text on a processor, with
// its own words for the few things that only a card can do.
//
// Numbers are bf16, two to a word, the first in the low half. All arithmetic is in f32.

typedef unsigned int u32;
typedef unsigned short u16;

#ifdef __CUDACC_RTC__

__device__ u32 pack(float first, float second) {
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
}

__device__ float exp2_of(float x) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

__device__ u32 shared_address(const void* pointer) { return (u32)__cvta_generic_to_shared(pointer); }

// Sixteen bytes on their way to shared memory, and the wait for all that are on their way.
__device__ void bring(u16* to, const u16* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}

__device__ void wait_for_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Four matrices of 8 x 8 numbers, of which lane l names row l % 8 of matrix l / 8. Of each a lane gets two numbers of row
// l / 4, in columns 2 (l % 4) and the next.
__device__ void matrices(u32 (&words)[4], const u16* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared_address(row))
                 : "memory");
}

// The same, turned: two numbers of column l / 4, in rows 2 (l % 4) and the next.
__device__ void turned_matrices(u32 (&words)[4], const u16* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared_address(row))
                 : "memory");
}

// Adds a product of 16 x 16 and 16 x 8 numbers. With g = lane / 4 and t = lane % 4 a lane has
// a: row g, columns 2t and 2t + 1; row g + 8; then both rows eight columns on;
// b: column g, rows 2t and 2t + 1; then eight rows on;
// c: row g, columns 2t and 2t + 1; then row g + 8.
__device__ void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#endif

__device__ float first_of(u32 pair) { return __uint_as_float(pair << 16); }

__device__ float second_of(u32 pair) { return __uint_as_float(pair & 0xffff0000u); }

__device__ void unpack(float (&numbers)[8], uint4 words) {
    const u32 pairs[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        numbers[2 * i] = first_of(pairs[i]);
        numbers[2 * i + 1] = second_of(pairs[i]);
    }
}

__device__ uint4 packed(const float (&numbers)[8]) {
    uint4 words;
    words.x = pack(numbers[0], numbers[1]);
    words.y = pack(numbers[2], numbers[3]);
    words.z = pack(numbers[4], numbers[5]);
    words.w = pack(numbers[6], numbers[7]);
    return words;
}

// Eight numbers of a tensor that may lie anywhere; zeros where there is none.
__device__ uint4 eight_of(const u16* numbers, int first) {
    uint4 words = {0, 0, 0, 0};
    if (!numbers) return words;
    numbers += first;
    words.x = numbers[0] | (u32)numbers[1] << 16;
    words.y = numbers[2] | (u32)numbers[3] << 16;
    words.z = numbers[4] | (u32)numbers[5] << 16;
    words.w = numbers[6] | (u32)numbers[7] << 16;
    return words;
}

// ---- Sums with norms -------------------------------------------------------------------------------------------------
//
// A warp takes a row, and a lane eight numbers of every 256: CHUNKS times eight numbers, or fewer where the width is no
// multiple of 256.

const int NORM_WARPS = 8;

__device__ float sum_of_warp(float x) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

// sum = x + factor * branch, or x itself where there is no branch; normed = (sum - mean) * size * scale + offset. Norms
// that are not centred take the mean for zero. Mean and size of each row are kept for the way back.
template <int CHUNKS>
__device__ void add_norm_rows(const uint4* x, const uint4* branch, const u16* scale, const u16* offset, uint4* sum,
                              uint4* normed, float2* kept, float factor, float epsilon, int centred, int rows,
                              int width) {
    const int lane = threadIdx.x % 32, each = width / 8;
    uint4 scales[CHUNKS], offsets[CHUNKS];
#pragma unroll
    for (int i = 0; i < CHUNKS; i++) {
        const int chunk = lane + 32 * i;
        if (chunk < each) scales[i] = eight_of(scale, 8 * chunk), offsets[i] = eight_of(offset, 8 * chunk);
    }
    for (int row = blockIdx.x * NORM_WARPS + threadIdx.x / 32; row < rows; row += gridDim.x * NORM_WARPS) {
        const size_t start = (size_t)row * each;
        float numbers[CHUNKS][8], total = 0, squares = 0;
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            const int chunk = lane + 32 * i;
            if (chunk >= each) continue;
            unpack(numbers[i], x[start + chunk]);
            if (branch) {
                float more[8];
                unpack(more, branch[start + chunk]);
#pragma unroll
                for (int j = 0; j < 8; j++) numbers[i][j] += factor * more[j];
                // What follows sees the sum as it is kept, so that the way back sees the same.
                const uint4 words = packed(numbers[i]);
                sum[start + chunk] = words;
                unpack(numbers[i], words);
            }
#pragma unroll
            for (int j = 0; j < 8; j++) total += numbers[i][j];
        }
        const float mean = centred ? sum_of_warp(total) / width : 0;
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            if (lane + 32 * i >= each) continue;
#pragma unroll
            for (int j = 0; j < 8; j++) squares += (numbers[i][j] - mean) * (numbers[i][j] - mean);
        }
        const float size = rsqrtf(sum_of_warp(squares) / width + epsilon);
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            const int chunk = lane + 32 * i;
            if (chunk >= each) continue;
            float by[8], plus[8];
            unpack(by, scales[i]);
            unpack(plus, offsets[i]);
#pragma unroll
            for (int j = 0; j < 8; j++) numbers[i][j] = (numbers[i][j] - mean) * size * by[j] + plus[j];
            normed[start + chunk] = packed(numbers[i]);
        }
        if (lane == 0) kept[row] = make_float2(mean, size);
    }
}

// Sums of all warps' numbers, added one warp after the other, so that they are the same every time.
template <int CHUNKS>
__device__ void sum_of_block(float* to, const float (&numbers)[CHUNKS][8], int width) {
    __shared__ float totals[256 * CHUNKS];
    const int lane = threadIdx.x % 32;
    for (int warp = 0; warp < NORM_WARPS; warp++) {
        if (threadIdx.x / 32 == warp) {
#pragma unroll
            for (int i = 0; i < CHUNKS; i++) {
#pragma unroll
                for (int j = 0; j < 8; j++) {
                    float* total = totals + (lane + 32 * i) * 8 + j;
                    *total = warp ? *total + numbers[i][j] : numbers[i][j];
                }
            }
        }
        __syncthreads();
    }
    for (int i = threadIdx.x; i < width; i += 32 * NORM_WARPS) to[i] = totals[i];
    __syncthreads();
}

// The way back. The slopes of the sum may be missing; those of the branch are only written where they are not those of x.
// `parts` gets the sums of each block: [blocks, 2, width], for the scale and for the offset.
template <int CHUNKS>
__device__ void add_norm_rows_back(const uint4* sum, const float2* kept, const u16* scale, const uint4* normed_slopes,
                                   const uint4* sum_slopes, uint4* x_slopes, uint4* branch_slopes, float* parts,
                                   float factor, int centred, int rows, int width) {
    const int lane = threadIdx.x % 32, each = width / 8;
    float scale_slopes[CHUNKS][8], offset_slopes[CHUNKS][8];
    uint4 scales[CHUNKS];
#pragma unroll
    for (int i = 0; i < CHUNKS; i++) {
#pragma unroll
        for (int j = 0; j < 8; j++) scale_slopes[i][j] = offset_slopes[i][j] = 0;
        if (lane + 32 * i < each) scales[i] = eight_of(scale, 8 * (lane + 32 * i));
    }
    for (int row = blockIdx.x * NORM_WARPS + threadIdx.x / 32; row < rows; row += gridDim.x * NORM_WARPS) {
        const size_t start = (size_t)row * each;
        uint4 numbers[CHUNKS], slopes[CHUNKS], more[CHUNKS];
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            const int chunk = lane + 32 * i;
            if (chunk >= each) continue;
            numbers[i] = sum[start + chunk];
            slopes[i] = normed_slopes[start + chunk];
            more[i] = sum_slopes ? sum_slopes[start + chunk] : make_uint4(0, 0, 0, 0);
        }
        const float2 known = kept[row];
        const float mean = known.x, size = known.y;
        float plain = 0, weighted = 0;
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            if (lane + 32 * i >= each) continue;
            float number[8], slope[8], by[8];
            unpack(number, numbers[i]);
            unpack(slope, slopes[i]);
            unpack(by, scales[i]);
#pragma unroll
            for (int j = 0; j < 8; j++) {
                const float unscaled = (number[j] - mean) * size;
                scale_slopes[i][j] += slope[j] * unscaled;
                offset_slopes[i][j] += slope[j];
                plain += slope[j] * by[j];
                weighted += slope[j] * by[j] * unscaled;
            }
        }
        plain = centred ? sum_of_warp(plain) / width : 0;
        weighted = sum_of_warp(weighted) / width;
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            const int chunk = lane + 32 * i;
            if (chunk >= each) continue;
            float number[8], slope[8], by[8], result[8];
            unpack(number, numbers[i]);
            unpack(slope, slopes[i]);
            unpack(by, scales[i]);
            unpack(result, more[i]);
#pragma unroll
            for (int j = 0; j < 8; j++) {
                const float unscaled = (number[j] - mean) * size;
                result[j] += size * (slope[j] * by[j] - plain - unscaled * weighted);
            }
            x_slopes[start + chunk] = packed(result);
            if (branch_slopes) {
#pragma unroll
                for (int j = 0; j < 8; j++) result[j] *= factor;
                branch_slopes[start + chunk] = packed(result);
            }
        }
    }
    parts += (size_t)blockIdx.x * 2 * width;
    sum_of_block<CHUNKS>(parts, scale_slopes, width);
    sum_of_block<CHUNKS>(parts + width, offset_slopes, width);
}

// ---- Curves ----------------------------------------------------------------------------------------------------------
//
// A block takes 256 columns, a lane eight of them, and every so many rows.

const float LOG2_E = 1.4426950408889634f;

enum Curve { SILU, MISH, GELU, SQUARED_RELU, RELU };

struct Bent {
    float value, slope;
};

template <int CURVE>
__device__ Bent bent(float x) {
    if (CURVE == SILU) {
        const float share = __fdividef(1, 1 + exp2_of(-x * LOG2_E));
        return {x * share, share * (1 + x * (1 - share))};
    }
    if (CURVE == MISH) {
        // tanh(log(1 + e)) with e = exp(x) is n / (n + 2) with n = e (e + 2). Beyond 20 it is one.
        const float e = exp2_of(fminf(x, 20) * LOG2_E), n = e * (e + 2), one = __fdividef(1, n + 2);
        return {x * n * one, n * one + x * 4 * e * one * (e + 1) * one};
    }
    if (CURVE == GELU) {
        const float share = 0.5f + 0.5f * erff(x * 0.70710678f);
        return {x * share, share + x * 0.39894228f * exp2_of(-0.5f * x * x * LOG2_E)};
    }
    const float positive = fmaxf(x, 0);
    if (CURVE == SQUARED_RELU) return {positive * positive, 2 * positive};
    return {positive, x > 0 ? 1.0f : 0.0f};
}

// The columns of this lane, in eights, and whether there are any.
__device__ int chunk_of_lane(int slabs) { return blockIdx.x % slabs * 32 + threadIdx.x % 32; }

// out = curve(x + bias); the bias may be missing.
template <int CURVE>
__device__ void bend_rows(const uint4* x, const u16* bias, uint4* out, int rows, int width) {
    const int each = width / 8, slabs = (each + 31) / 32, chunk = chunk_of_lane(slabs);
    if (chunk >= each) return;
    float plus[8];
    unpack(plus, eight_of(bias, 8 * chunk));
    const int step = gridDim.x / slabs * NORM_WARPS;
    for (int row = blockIdx.x / slabs * NORM_WARPS + threadIdx.x / 32; row < rows; row += step) {
        float numbers[8];
        unpack(numbers, x[(size_t)row * each + chunk]);
#pragma unroll
        for (int j = 0; j < 8; j++) numbers[j] = bent<CURVE>(numbers[j] + plus[j]).value;
        out[(size_t)row * each + chunk] = packed(numbers);
    }
}

// The way back. `parts` gets the sums of slopes for the bias: [blocks of a column, width]; it is missing where the bias is.
template <int CURVE>
__device__ void bend_rows_back(const uint4* x, const u16* bias, const uint4* out_slopes, uint4* x_slopes, float* parts,
                               int rows, int width) {
    const int each = width / 8, slabs = (each + 31) / 32, chunk = chunk_of_lane(slabs);
    float plus[8], sums[1][8] = {{0, 0, 0, 0, 0, 0, 0, 0}};
    if (chunk < each) unpack(plus, eight_of(bias, 8 * chunk));
    const int step = gridDim.x / slabs * NORM_WARPS;
    for (int row = blockIdx.x / slabs * NORM_WARPS + threadIdx.x / 32; row < rows && chunk < each; row += step) {
        float numbers[8], slopes[8];
        unpack(numbers, x[(size_t)row * each + chunk]);
        unpack(slopes, out_slopes[(size_t)row * each + chunk]);
#pragma unroll
        for (int j = 0; j < 8; j++) {
            slopes[j] *= bent<CURVE>(numbers[j] + plus[j]).slope;
            sums[0][j] += slopes[j];
        }
        x_slopes[(size_t)row * each + chunk] = packed(slopes);
    }
    if (!parts) return;
    const int first = blockIdx.x % slabs * 256;
    parts += (size_t)(blockIdx.x / slabs) * width + first;
    sum_of_block<1>(parts, sums, width - first < 256 ? width - first : 256);
}

// ---- Attention among 64 squares --------------------------------------------------------------------------------------
//
// A block of four warps takes one head of one position, and a warp 16 of the 64 queries. Queries, keys and values lie in
// one tensor [batch, 64, 3, heads, HEAD].
//
// In shared memory keys and values do not stand in the order of squares but where `square_of` says. A lane has two
// logits of each group of eight places; with this order they belong to 16 squares in a row, 32 bytes of a bias.

const int SQUARES = 64;
const int WARPS = 4;
const int QUERIES = SQUARES / WARPS;
// A row in shared memory is 16 bytes longer than it need be: then eight rows of a matrix lie in different banks.
const int PAD = 8;
const int PAIR_ROW = SQUARES + PAD;

__device__ int square_of(int place) { return place % 8 / 2 * 16 + place / 8 * 2 + place % 2; }

// Brings the rows of all squares, in their order or in that of places.
template <int HEAD, bool PLACED>
__device__ void bring_rows(u16* to, const u16* from, int stride) {
    const int parts = HEAD / 8;
#pragma unroll
    for (int i = threadIdx.x; i < SQUARES * parts; i += 32 * WARPS) {
        const int row = i / parts, part = i % parts;
        const int square = PLACED ? square_of(row) : row;
        bring(to + row * (HEAD + PAD) + part * 8, from + (size_t)square * stride + part * 8);
    }
}

// The products of this warp's 16 rows with all 64 other rows.
template <int HEAD>
__device__ void products(float (&c)[8][4], const u16* rows, const u16* others) {
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
        matrices(a, rows + k);
#pragma unroll
        for (int group = 0; group < 8; group += 2) {
            u32 b[4];
            matrices(b, others + group * 8 * stride + k);
            multiply(c[group], a, b[0], b[1]);
            multiply(c[group + 1], a, b[2], b[3]);
        }
    }
}

// Adds the product of 16 x 16 numbers and 16 rows.
template <int HEAD>
__device__ void add_weighted(float (&c)[HEAD / 8][4], const u32 (&a)[4], const u16* rows) {
    const int lane = threadIdx.x % 32;
    rows += lane % 16 * (HEAD + PAD) + lane / 16 * 8;
#pragma unroll
    for (int group = 0; group < HEAD / 8; group += 2) {
        u32 b[4];
        turned_matrices(b, rows + group * 8);
        multiply(c[group], a, b[0], b[1]);
        multiply(c[group + 1], a, b[2], b[3]);
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

// Rows of 64 places' values, weighted by what the warp's queries make of the places. `pairs` are two numbers to a word:
// of each group of eight places those of row g and those of row g + 8, which is just what a product takes.
template <int HEAD>
__device__ void weigh_places(float (&c)[HEAD / 8][4], const u32 (&pairs)[8][2], const u16* rows) {
    clear<HEAD>(c);
#pragma unroll
    for (int group = 0; group < 8; group += 2) {
        const u32 a[4] = {pairs[group][0], pairs[group][1], pairs[group + 1][0], pairs[group + 1][1]};
        add_weighted<HEAD>(c, a, rows + group * 8 * (HEAD + PAD));
    }
}

// Rows of 64 queries, weighted by what they make of this warp's 16 places: `pairs` in shared memory, a row for a query.
template <int HEAD>
__device__ void weigh_queries(float (&c)[HEAD / 8][4], const u16* pairs, const u16* rows) {
    const int lane = threadIdx.x % 32;
    pairs += (lane % 8 + lane / 16 * 8) * PAIR_ROW + threadIdx.x / 32 * QUERIES + lane / 8 % 2 * 8;
    clear<HEAD>(c);
#pragma unroll
    for (int query = 0; query < SQUARES; query += 16) {
        u32 a[4];
        turned_matrices(a, pairs + query * PAIR_ROW);
        add_weighted<HEAD>(c, a, rows + query * (HEAD + PAD));
    }
}

__device__ void put_pairs(u16* to, const u32 (&pairs)[8][2]) {
    const int lane = threadIdx.x % 32;
    to += (threadIdx.x / 32 * QUERIES + lane / 4) * PAIR_ROW + lane % 4 * 2;
#pragma unroll
    for (int group = 0; group < 8; group++) {
        *(u32*)(to + group * 8) = pairs[group][0];
        *(u32*)(to + group * 8 + 8 * PAIR_ROW) = pairs[group][1];
    }
}

// Writes this warp's 16 rows, times a factor for each of a lane's two rows. They pass through shared memory, where nobody
// else may need the warp's 16 rows of `stage` any more.
template <int HEAD, bool PLACED>
__device__ void give_rows(u16* to, int stride, u16* stage, const float (&c)[HEAD / 8][4], float factor,
                          float factor_below) {
    const int lane = threadIdx.x % 32, first = threadIdx.x / 32 * QUERIES, parts = HEAD / 8;
    stage += first * (HEAD + PAD);
    __syncwarp();
    u16* mine = stage + lane / 4 * (HEAD + PAD) + lane % 4 * 2;
#pragma unroll
    for (int group = 0; group < parts; group++) {
        *(u32*)(mine + group * 8) = pack(c[group][0] * factor, c[group][1] * factor);
        *(u32*)(mine + group * 8 + 8 * (HEAD + PAD)) = pack(c[group][2] * factor_below, c[group][3] * factor_below);
    }
    __syncwarp();
#pragma unroll
    for (int i = lane; i < QUERIES * parts; i += 32) {
        const int row = i / parts, part = i % parts;
        const int square = PLACED ? square_of(first + row) : first + row;
        *(uint4*)(to + (size_t)square * stride + part * 8) = *(const uint4*)(stage + row * (HEAD + PAD) + part * 8);
    }
    __syncwarp();
}

// The sum, or the largest, of what the four lanes of a row have.
__device__ float sum_of_row(float x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

__device__ float largest_of_row(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

// What is added to a lane's logits: for row g, then for row g + 8, 16 squares from 16 t on.
struct Bias {
    uint4 words[2][2];
};

// Where a lane's logits stand among 64 x 64.
__device__ int first_pair() {
    const int lane = threadIdx.x % 32;
    return (threadIdx.x / 32 * QUERIES + lane / 4) * SQUARES + lane % 4 * 16;
}

__device__ Bias bias_of(const u16* pairs) {
    Bias bias;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const uint4* row = (const uint4*)(pairs + first_pair() + half * 8 * SQUARES);
        bias.words[half][0] = row[0];
        bias.words[half][1] = row[1];
    }
    return bias;
}

// Logits from products, for powers of two instead of e.
__device__ void finish_logits(float (&c)[8][4], const Bias& bias, bool has_bias, float scale) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
#pragma unroll
        for (int part = 0; part < 2; part++) {
            float more[8] = {0, 0, 0, 0, 0, 0, 0, 0};
            if (has_bias) unpack(more, bias.words[half][part]);
#pragma unroll
            for (int i = 0; i < 8; i++) {
                float* logit = &c[part * 4 + i / 2][half * 2 + i % 2];
                *logit = (*logit * scale + more[i]) * LOG2_E;
            }
        }
    }
}

// `kept` gets for each row the logarithm, to base 2, of the sum of its powers.
template <int HEAD>
__device__ void attend(const u16* all, const u16* bias, u16* out, float* kept, int heads, int bias_stride) {
    __shared__ __align__(16) u16 queries[SQUARES * (HEAD + PAD)];
    __shared__ __align__(16) u16 keys[SQUARES * (HEAD + PAD)];
    __shared__ __align__(16) u16 values[SQUARES * (HEAD + PAD)];
    const int head = blockIdx.x % heads, width = heads * HEAD, lane = threadIdx.x % 32;
    const size_t position = blockIdx.x / heads;
    all += position * SQUARES * 3 * width + head * HEAD;
    bring_rows<HEAD, false>(queries, all, 3 * width);
    bring_rows<HEAD, true>(keys, all + width, 3 * width);
    bring_rows<HEAD, true>(values, all + 2 * width, 3 * width);
    Bias added;
    if (bias) added = bias_of(bias + position * bias_stride + head * SQUARES * SQUARES);
    wait_for_all();
    __syncthreads();

    float logits[8][4];
    products<HEAD>(logits, queries, keys);
    finish_logits(logits, added, bias, rsqrtf((float)HEAD));
    u32 pairs[8][2];
    float share[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float largest = logits[0][2 * half], total = 0;
#pragma unroll
        for (int group = 0; group < 8; group++) {
            largest = fmaxf(largest, fmaxf(logits[group][2 * half], logits[group][2 * half + 1]));
        }
        largest = largest_of_row(largest);
#pragma unroll
        for (int group = 0; group < 8; group++) {
            const float one = exp2_of(logits[group][2 * half] - largest);
            const float other = exp2_of(logits[group][2 * half + 1] - largest);
            total += one + other;
            pairs[group][half] = pack(one, other);
        }
        total = sum_of_row(total);
        share[half] = 1 / total;
        const int query = threadIdx.x / 32 * QUERIES + lane / 4 + half * 8;
        if (lane % 4 == 0) kept[(size_t)blockIdx.x * SQUARES + query] = largest + log2f(total);
    }
    float seen[HEAD / 8][4];
    weigh_places<HEAD>(seen, pairs, values);
    give_rows<HEAD, false>(out + position * SQUARES * width + head * HEAD, width, queries, seen, share[0], share[1]);
}

// The way back. A block goes through every so many positions. Slopes of a bias that each position has for itself are
// written to `bias_slopes`; where the bias is shared (SUMMED), a block's sums are: `bias_parts`, [blocks, 64, 64].
template <int HEAD, bool SUMMED>
__device__ void attend_back(const u16* all, const u16* bias, const float* kept, const u16* out_slopes, u16* all_slopes,
                            u16* bias_slopes, float* bias_parts, int batch, int heads, int bias_stride) {
    __shared__ __align__(16) u16 queries[SQUARES * (HEAD + PAD)];
    __shared__ __align__(16) u16 keys[SQUARES * (HEAD + PAD)];
    __shared__ __align__(16) u16 values[SQUARES * (HEAD + PAD)];
    __shared__ __align__(16) u16 slopes[SQUARES * (HEAD + PAD)];
    __shared__ __align__(16) u16 shown[SQUARES * PAIR_ROW];
    const int head = blockIdx.x % heads, width = heads * HEAD, lane = threadIdx.x % 32;
    const float scale = rsqrtf((float)HEAD);
    float sums[8][4];
    if (SUMMED) clear<SQUARES>(sums);
    for (size_t position = blockIdx.x / heads; position < batch; position += gridDim.x / heads) {
        // Step 1: all that is needed comes in.
        const size_t start = position * SQUARES * width;
        const u16* from = all + 3 * start + head * HEAD;
        u16* to = all_slopes + 3 * start + head * HEAD;
        bring_rows<HEAD, false>(queries, from, 3 * width);
        bring_rows<HEAD, true>(keys, from + width, 3 * width);
        bring_rows<HEAD, true>(values, from + 2 * width, 3 * width);
        bring_rows<HEAD, false>(slopes, out_slopes + start + head * HEAD, width);
        Bias added;
        if (bias) added = bias_of(bias + position * bias_stride + head * SQUARES * SQUARES);
        const float* sizes = kept + (position * heads + head) * SQUARES + threadIdx.x / 32 * QUERIES + lane / 4;
        const float size[2] = {sizes[0], sizes[8]};
        wait_for_all();
        __syncthreads();

        // Step 2: what each query made of each place, and the slopes of the logits.
        float logits[8][4], wanted[8][4];
        products<HEAD>(logits, queries, keys);
        products<HEAD>(wanted, slopes, values);
        finish_logits(logits, added, bias, scale);
        u32 pairs[8][2], pair_slopes[8][2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float mean = 0;
#pragma unroll
            for (int group = 0; group < 8; group++) {
#pragma unroll
                for (int i = 2 * half; i < 2 * half + 2; i++) {
                    logits[group][i] = exp2_of(logits[group][i] - size[half]);
                    mean += logits[group][i] * wanted[group][i];
                }
                pairs[group][half] = pack(logits[group][2 * half], logits[group][2 * half + 1]);
            }
            mean = sum_of_row(mean);
#pragma unroll
            for (int group = 0; group < 8; group++) {
#pragma unroll
                for (int i = 2 * half; i < 2 * half + 2; i++) {
                    wanted[group][i] = logits[group][i] * (wanted[group][i] - mean);
                    if (SUMMED) sums[group][i] += wanted[group][i];
                }
                pair_slopes[group][half] = pack(wanted[group][2 * half], wanted[group][2 * half + 1]);
            }
        }
        if (bias_slopes) {
            u16* pair = bias_slopes + (position * heads + head) * SQUARES * SQUARES + first_pair();
#pragma unroll
            for (int half = 0; half < 2; half++) {
#pragma unroll
                for (int part = 0; part < 2; part++) {
                    const u32(*of)[2] = pair_slopes + part * 4;
                    *(uint4*)(pair + half * 8 * SQUARES + part * 8) =
                        make_uint4(of[0][half], of[1][half], of[2][half], of[3][half]);
                }
            }
        }

        // Step 3: slopes of the queries; then nobody needs keys and values any more, and rows pass out through them.
        float result[HEAD / 8][4];
        weigh_places<HEAD>(result, pair_slopes, keys);
        put_pairs(shown, pairs);
        __syncthreads();
        give_rows<HEAD, false>(to, 3 * width, keys, result, scale, scale);

        // Step 4: slopes of the values, of which each warp has 16 places.
        weigh_queries<HEAD>(result, shown, slopes);
        give_rows<HEAD, true>(to + 2 * width, 3 * width, values, result, 1, 1);
        __syncthreads();

        // Step 5: slopes of the keys.
        put_pairs(shown, pair_slopes);
        __syncthreads();
        weigh_queries<HEAD>(result, shown, queries);
        give_rows<HEAD, true>(to + width, 3 * width, keys, result, scale, scale);
        __syncthreads();
    }
    if (SUMMED) {
        float* part = bias_parts + (size_t)blockIdx.x * SQUARES * SQUARES + first_pair();
#pragma unroll
        for (int half = 0; half < 2; half++) {
#pragma unroll
            for (int group = 0; group < 8; group += 2) {
                *(float4*)(part + half * 8 * SQUARES + group * 2) =
                    make_float4(sums[group][2 * half], sums[group][2 * half + 1], sums[group + 1][2 * half],
                                sums[group + 1][2 * half + 1]);
            }
        }
    }
}

// ---- Where a card comes in -------------------------------------------------------------------------------------------
//
// For networks of one width, of which a warp takes TANDEM_CHUNKS times 256 numbers, one width of heads, TANDEM_HEAD, and
// one curve, TANDEM_CURVE.

#ifdef __CUDACC_RTC__

extern "C" __global__ void __launch_bounds__(32 * NORM_WARPS)
    add_norm(const uint4* x, const uint4* branch, const u16* scale, const u16* offset, uint4* sum, uint4* normed,
             float2* kept, float factor, float epsilon, int centred, int rows, int width) {
    add_norm_rows<TANDEM_CHUNKS>(x, branch, scale, offset, sum, normed, kept, factor, epsilon, centred, rows, width);
}

extern "C" __global__ void __launch_bounds__(32 * NORM_WARPS)
    add_norm_back(const uint4* sum, const float2* kept, const u16* scale, const uint4* normed_slopes,
                  const uint4* sum_slopes, uint4* x_slopes, uint4* branch_slopes, float* parts, float factor,
                  int centred, int rows, int width) {
    add_norm_rows_back<TANDEM_CHUNKS>(sum, kept, scale, normed_slopes, sum_slopes, x_slopes, branch_slopes, parts, factor,
                               centred, rows, width);
}

extern "C" __global__ void __launch_bounds__(32 * NORM_WARPS)
    bend(const uint4* x, const u16* bias, uint4* out, int rows, int width) {
    bend_rows<TANDEM_CURVE>(x, bias, out, rows, width);
}

extern "C" __global__ void __launch_bounds__(32 * NORM_WARPS)
    bend_back(const uint4* x, const u16* bias, const uint4* out_slopes, uint4* x_slopes, float* parts, int rows,
              int width) {
    bend_rows_back<TANDEM_CURVE>(x, bias, out_slopes, x_slopes, parts, rows, width);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    attention(const u16* all, const u16* bias, u16* out, float* kept, int heads, int bias_stride) {
    attend<TANDEM_HEAD>(all, bias, out, kept, heads, bias_stride);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    attention_back(const u16* all, const u16* bias, const float* kept, const u16* out_slopes, u16* all_slopes,
                   u16* bias_slopes, int batch, int heads, int bias_stride) {
    attend_back<TANDEM_HEAD, false>(all, bias, kept, out_slopes, all_slopes, bias_slopes, 0, batch, heads, bias_stride);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 3)
    attention_back_summed(const u16* all, const u16* bias, const float* kept, const u16* out_slopes, u16* all_slopes,
                          float* bias_parts, int batch, int heads, int bias_stride) {
    attend_back<TANDEM_HEAD, true>(all, bias, kept, out_slopes, all_slopes, 0, bias_parts, batch, heads, bias_stride);
}

#endif
