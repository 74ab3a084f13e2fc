// A training step on a card. Compiled when a run begins, for the shape of its network: everything in capitals that is not
// defined here comes from the program (cuda/source.rs).
//
// find_rows     which rows of the first layer are on for each side, and how often each row is on
// flat_step     gathers the accumulators, computes the layers after them forth and back, leaves the slopes by the
// stack_step    accumulators (one of the two, by the shape of the network)
// place_rows    gives each row of the first layer a stretch of the list of its users
// list_users    fills the list: for each row the sides that it was on for
// sum_items     adds up the slopes of the users of a row, at most ITEM of them to an item
// square_*      the length of all slopes together
// update_*      moves the numbers
//
// No sum over positions goes through memory one number at a time: a row's slopes are gathered by its users, as the
// accumulators are gathered by their rows.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

struct Position {
    u64 occupied;
    u32 pieces[4];
    float target;
    u32 black;
};

struct Update {
    float rate, beta1, beta2, mend1, mend2, keep, trust, pull, epsilon, limit;
    int trusted, meet;
};

#define WARP 32
#define ALL 0xffffffffu
#define KING 5
#define CASTLING_ROOK 6
#define ROOK 3

#if ROUNDED
#define SEEN(number, grid) (rintf((number) * (grid)) / (grid))
#else
#define SEEN(number, grid) (number)
#endif

static __device__ float warp_sum(float value) {
    for (int mask = WARP / 2; mask; mask /= 2) value += __shfl_xor_sync(ALL, value, mask);
    return value;
}

// The loss of an output, and its slope by it.
static __device__ float2 judge(float output, float target) {
    float x = output * UNIT;
#if LOSS == 2
    float error = x - target;
    return make_float2(error * error, 2.f * error * UNIT);
#else
    float chance = 1.f / (1.f + expf(-x));
#if LOSS == 1
    float soft = fmaxf(x, 0.f) + log1pf(expf(-fabsf(x)));
    return make_float2(soft - target * x, (chance - target) * UNIT);
#else
    float error = chance - target, size = fabsf(error);
#if POWER_IS_TWO
    float steep = 2.f * error;
    float value = error * error;
#else
    float up = size == 0.f ? 0.f : powf(size, POWER - 1.f);
    float steep = copysignf(POWER * up, error), value = up * size;
#endif
    return make_float2(value, steep * chance * (1.f - chance) * UNIT);
#endif
#endif
}

// One warp for each position: two squares for each lane.
extern "C" __global__ void find_rows(const Position* __restrict__ positions, const uint2* __restrict__ views,
                                     const int* __restrict__ planes, u32* rows, u32* counts, u8* buckets, u32* uses,
                                     u32* slots, int count) {
    int at = (blockIdx.x * blockDim.x + threadIdx.x) / WARP, lane = threadIdx.x % WARP;
    if (at >= count) return;
    const Position* position = positions + at;
    u64 occupied = position->occupied;
    int us = position->black;
    int kind[2], color[2];
    for (int half = 0; half < 2; half++) {
        int square = lane + WARP * half;
        kind[half] = -1;
        color[half] = 0;
        if (occupied >> square & 1) {
            int before = __popcll(occupied & ((1ull << square) - 1));
            int code = position->pieces[before / 8] >> (before % 8 * 4) & 15;
            kind[half] = (code & 7) == CASTLING_ROOK ? ROOK : code & 7;
            color[half] = code >> 3;
        }
    }
    int kings[2];
    for (int of = 0; of < 2; of++) {
        u32 low = __ballot_sync(ALL, kind[0] == KING && color[0] == of);
        u32 high = __ballot_sync(ALL, kind[1] == KING && color[1] == of);
        kings[of] = low ? __ffs(low) - 1 : high ? WARP - 1 + __ffs(high) : 4;
    }
    u32 below = (1u << lane) - 1;
    for (int side = 0; side < 2; side++) {
        int seer = us ^ side;
        uint2 view = views[seer * 64 + kings[seer]];
        int plane[2];
        for (int half = 0; half < 2; half++)
            plane[half] = kind[half] < 0 ? -1 : planes[(color[half] == seer ? 0 : 6) + kind[half]];
        u32 low = __ballot_sync(ALL, plane[0] >= 0), high = __ballot_sync(ALL, plane[1] >= 0);
        int all = min(__popc(low) + __popc(high), MAX_INPUTS);
        u32* list = rows + (size_t)(2 * at + side) * STRIDE;
        u32* slot = slots + (size_t)(2 * at + side) * STRIDE;
        for (int half = 0; half < 2; half++) {
            int place = __popc((half ? high : low) & below) + (half ? __popc(low) : 0);
            if (plane[half] >= 0 && place < all) {
                u32 input = view.x + plane[half] + ((lane + WARP * half) ^ view.y);
                list[place] = input;
                slot[place] = atomicAdd(uses + input, 1);
#if FACTORISER
                u32 shared = INPUTS + input % KING_ROWS;
                list[all + place] = shared;
                slot[all + place] = atomicAdd(uses + shared, 1);
#endif
            }
        }
        if (lane == 0) counts[2 * at + side] = all * (1 + FACTORISER);
    }
    if (lane == 0) {
        int pieces = __popcll(occupied), bucket = pieces > BUCKET_LESS ? (pieces - BUCKET_LESS) / BUCKET_PIECES : 0;
        buckets[at] = min(bucket, BUCKETS - 1);
    }
}

static __device__ float4 add(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }

static __device__ float4 seen4(float4 a) {
    return make_float4(SEEN(a.x, FIRST_GRID), SEEN(a.y, FIRST_GRID), SEEN(a.z, FIRST_GRID), SEEN(a.w, FIRST_GRID));
}

static __device__ void add_to(float* sum, float part) {
    if (part != 0.f) atomicAdd(sum, part);
}

#if !STACKS

#define HALF (FLAT_THREADS / 2)
#define QUADS (OUTPUTS / 4)
// Groups of four columns for each thread.
#define EACH ((QUADS + HALF - 1) / HALF)

static __device__ float2 activate(float value) {
#if ACTIVATION == 0
    return make_float2(fmaxf(value, 0.f), value > 0.f ? 1.f : 0.f);
#else
    float held = fminf(fmaxf(value, 0.f), 1.f), steep = value > 0.f && value < 1.f ? 1.f : 0.f;
#if ACTIVATION == 1
    return make_float2(held, steep);
#else
    return make_float2(held * held, 2.f * held * steep);
#endif
#endif
}

extern "C" __global__ void __launch_bounds__(FLAT_THREADS)
flat_step(const float* __restrict__ numbers, const u32* __restrict__ rows, const u32* __restrict__ counts,
          const u8* __restrict__ buckets, const Position* __restrict__ positions, float* slopes, float* rest, float* told,
          float* outputs, int count, int learns) {
    __shared__ u32 lists[2][2 * STRIDE];
    __shared__ float sums[2][FLAT_THREADS / WARP];
    int side = threadIdx.x / HALF, lane = threadIdx.x % HALF;
    int each = (count + gridDim.x - 1) / gridDim.x, first = blockIdx.x * each, last = min(first + each, count);
    const float4* weights = (const float4*)numbers;
    int start = side * (WIDTH - OUTPUTS);
    float4 bias[EACH], by_bias[EACH], out[EACH], by_out[EACH];
    for (int i = 0; i < EACH; i++) {
        int quad = lane + i * HALF;
        by_bias[i] = by_out[i] = out[i] = bias[i] = make_float4(0, 0, 0, 0);
        if (quad < QUADS) bias[i] = seen4(((const float4*)(numbers + BIAS + start))[quad]);
    }
    float by_out_bias = 0, loss = 0, out_bias = 0, share = 1.f / count;
    int bucket = -1;
    for (int at = first; at <= last; at++) {
        int turn = at & 1, now = at < last ? buckets[at] : -1;
        if (now != bucket) {
            // Positions come in the order of buckets: this is rare.
            if (bucket >= 0 && learns) {
                float* sum = rest + STACK - BIAS + bucket * STACK_STEP;
                for (int i = 0; i < EACH; i++) {
                    int quad = lane + i * HALF;
                    float* place = sum + side * OUTPUTS + 4 * quad;
                    if (quad < QUADS) {
                        add_to(place, by_out[i].x), add_to(place + 1, by_out[i].y);
                        add_to(place + 2, by_out[i].z), add_to(place + 3, by_out[i].w);
                    }
                    by_out[i] = make_float4(0, 0, 0, 0);
                }
                if (threadIdx.x == 0) add_to(sum + LAYER_BIAS0, by_out_bias);
                by_out_bias = 0;
            }
            if (now >= 0) {
                const float* stack = numbers + STACK + now * STACK_STEP;
                for (int i = 0; i < EACH; i++) {
                    int quad = lane + i * HALF;
                    if (quad < QUADS) {
                        float4 w = ((const float4*)(stack + side * OUTPUTS))[quad];
                        out[i] = make_float4(SEEN(w.x, LAYER_GRID0), SEEN(w.y, LAYER_GRID0), SEEN(w.z, LAYER_GRID0),
                                             SEEN(w.w, LAYER_GRID0));
                    }
                }
                out_bias = SEEN(stack[LAYER_BIAS0], LAYER_BIAS_GRID0);
            }
            bucket = now;
        }
        if (at == last) break;
        for (int i = threadIdx.x; i < 2 * STRIDE; i += FLAT_THREADS) lists[turn][i] = rows[(size_t)at * 2 * STRIDE + i];
        __syncthreads();
        const u32* list = lists[turn] + side * STRIDE;
        int on = counts[2 * at + side];
        float4 values[EACH];
        for (int i = 0; i < EACH; i++) values[i] = bias[i];
#pragma unroll 8
        for (int k = 0; k < on; k++) {
            const float4* row = weights + ((size_t)list[k] * WIDTH + start) / 4;
            for (int i = 0; i < EACH; i++) {
                int quad = lane + i * HALF;
                if (EACH * HALF == QUADS || quad < QUADS) values[i] = add(values[i], seen4(__ldg(row + quad)));
            }
        }
        float sum = 0;
        for (int i = 0; i < EACH; i++) {
            sum += activate(values[i].x).x * out[i].x + activate(values[i].y).x * out[i].y;
            sum += activate(values[i].z).x * out[i].z + activate(values[i].w).x * out[i].w;
        }
        sum = warp_sum(sum);
        if (threadIdx.x % WARP == 0) sums[turn][threadIdx.x / WARP] = sum;
        __syncthreads();
        float output = out_bias;
        for (int i = 0; i < FLAT_THREADS / WARP; i++) output += sums[turn][i];
        if (!learns) {
            if (threadIdx.x == 0) outputs[at] = output * UNIT;
            continue;
        }
        float2 judged = judge(output, positions[at].target);
        float slope = judged.y * share;
        loss += judged.x * share;
        by_out_bias += slope;
        for (int i = 0; i < EACH; i++) {
            float4 by;
            float2 a = activate(values[i].x), b = activate(values[i].y), c = activate(values[i].z), d = activate(values[i].w);
            by_out[i] = add(by_out[i], make_float4(slope * a.x, slope * b.x, slope * c.x, slope * d.x));
            by = make_float4(slope * out[i].x * a.y, slope * out[i].y * b.y, slope * out[i].z * c.y, slope * out[i].w * d.y);
            by_bias[i] = add(by_bias[i], by);
            int quad = lane + i * HALF;
            if (quad < QUADS) ((float4*)(slopes + (size_t)(2 * at + side) * OUTPUTS))[quad] = by;
        }
    }
    if (!learns) return;
    for (int i = 0; i < EACH; i++) {
        int quad = lane + i * HALF;
        float* place = rest + start + 4 * quad;
        if (quad < QUADS) {
            add_to(place, by_bias[i].x), add_to(place + 1, by_bias[i].y);
            add_to(place + 2, by_bias[i].z), add_to(place + 3, by_bias[i].w);
        }
    }
    if (threadIdx.x == 0) add_to(told, loss);
}

#else

#define SQUARE (127.f / 128.f)
#define KEPT (HIDDEN - SKIP)
#define HIDDEN_ROOM (HIDDEN <= 16 ? 16 : 32)
#define SECOND_INPUTS (KEPT * (1 + DUAL))
#define SECOND_STEP (SECOND_INPUTS + 1)
// Columns of the first dense layer for each thread, and weights of the second.
#define EACH ((LAYER_INPUTS0 + STACK_THREADS - 1) / STACK_THREADS)
#define EACH_SECOND ((SECOND * SECOND_INPUTS + STACK_THREADS - 1) / STACK_THREADS)

static __device__ float clip(float value) { return fminf(fmaxf(value, 0.f), 1.f); }
static __device__ float steep(float value) { return value > 0.f && value < 1.f ? 1.f : 0.f; }
static __device__ float square(float value) { return fminf(value * value * SQUARE, 1.f); }
static __device__ float square_steep(float value) {
    return value * value * SQUARE < 1.f ? 2.f * value * SQUARE : 0.f;
}

extern "C" __global__ void __launch_bounds__(STACK_THREADS)
stack_step(const float* __restrict__ numbers, const u32* __restrict__ rows, const u32* __restrict__ counts,
           const u8* __restrict__ buckets, const Position* __restrict__ positions, float* slopes, float* rest, float* told,
           float* outputs, int count, int learns) {
    // The first dense layer of the stack at hand.
    extern __shared__ float dense[];
    __shared__ u32 lists[2 * STRIDE];
    __shared__ __align__(16) float values[2 * OUTPUTS];
    __shared__ float partial[STACK_THREADS / WARP][HIDDEN_ROOM];
    __shared__ float dense2[SECOND * SECOND_STEP], dense3[SECOND], bias1[HIDDEN], bias2[SECOND];
    __shared__ float before[HIDDEN_ROOM], hidden[SECOND_INPUTS], by_hidden[SECOND_INPUTS], by_before[HIDDEN_ROOM];
    __shared__ float by_second[WARP];
    __shared__ float slope_shared, bias3;
    int t = threadIdx.x, lane = t % WARP, warp = t / WARP;
    int each = (count + gridDim.x - 1) / gridDim.x, first = blockIdx.x * each, last = min(first + each, count);
    const float4* weights = (const float4*)numbers;
    float by_dense[EACH][HIDDEN], by_dense2[EACH_SECOND], by_bias[EACH][2];
    float by_dense3 = 0, by_bias1 = 0, by_bias2 = 0, by_bias3 = 0, loss = 0, share = 1.f / count;
    for (int i = 0; i < EACH; i++) {
        for (int h = 0; h < HIDDEN; h++) by_dense[i][h] = 0;
        by_bias[i][0] = by_bias[i][1] = 0;
    }
    for (int i = 0; i < EACH_SECOND; i++) by_dense2[i] = 0;
    int bucket = -1;
    for (int at = first; at <= last; at++) {
        int now = at < last ? buckets[at] : -1;
        __syncthreads();
        if (now != bucket) {
            if (bucket >= 0 && learns) {
                float* sum = rest + STACK - BIAS + bucket * STACK_STEP;
#pragma unroll
                for (int i = 0; i < EACH; i++) {
                    int column = t + i * STACK_THREADS;
#pragma unroll
                    for (int h = 0; h < HIDDEN; h++) {
                        if (column < LAYER_INPUTS0) add_to(sum + h * LAYER_INPUTS0 + column, by_dense[i][h]);
                        by_dense[i][h] = 0;
                    }
                }
                for (int i = 0; i < EACH_SECOND; i++) {
                    int e = t + i * STACK_THREADS;
                    if (e < SECOND * SECOND_INPUTS) add_to(sum + LAYER_WEIGHTS1 + e, by_dense2[i]);
                    by_dense2[i] = 0;
                }
                if (t < HIDDEN) add_to(sum + LAYER_BIAS0 + t, by_bias1);
                if (t < SECOND) add_to(sum + LAYER_BIAS1 + t, by_bias2), add_to(sum + LAYER_WEIGHTS2 + t, by_dense3);
                if (t == 0) add_to(sum + LAYER_BIAS2, by_bias3);
                by_bias1 = by_bias2 = by_bias3 = by_dense3 = 0;
            }
            if (now >= 0) {
                const float* stack = numbers + STACK + now * STACK_STEP;
                for (int i = t; i < HIDDEN * LAYER_INPUTS0; i += STACK_THREADS) dense[i] = SEEN(stack[i], LAYER_GRID0);
                for (int i = t; i < SECOND * SECOND_INPUTS; i += STACK_THREADS)
                    dense2[i / SECOND_INPUTS * SECOND_STEP + i % SECOND_INPUTS] = SEEN(stack[LAYER_WEIGHTS1 + i], LAYER_GRID1);
                if (t < HIDDEN) bias1[t] = SEEN(stack[LAYER_BIAS0 + t], LAYER_BIAS_GRID0);
                if (t < SECOND) {
                    bias2[t] = SEEN(stack[LAYER_BIAS1 + t], LAYER_BIAS_GRID1);
                    dense3[t] = SEEN(stack[LAYER_WEIGHTS2 + t], LAYER_GRID2);
                }
                if (t == 0) bias3 = SEEN(stack[LAYER_BIAS2], LAYER_BIAS_GRID2);
            }
            bucket = now;
        }
        if (at == last) break;
        for (int i = t; i < 2 * STRIDE; i += STACK_THREADS) lists[i] = rows[(size_t)at * 2 * STRIDE + i];
        __syncthreads();
        // The accumulators.
        for (int quad = t; quad < OUTPUTS / 2; quad += STACK_THREADS) {
            int side = quad / (OUTPUTS / 4), column = quad % (OUTPUTS / 4) * 4, start = side * (WIDTH - OUTPUTS) + column;
            float4 sum = seen4(*(const float4*)(numbers + BIAS + start));
            int on = counts[2 * at + side];
            const u32* list = lists + side * STRIDE;
#pragma unroll 8
            for (int k = 0; k < on; k++) sum = add(sum, seen4(__ldg(weights + ((size_t)list[k] * WIDTH + start) / 4)));
            *(float4*)(values + side * OUTPUTS + column) = sum;
        }
        __syncthreads();
        // The first dense layer: each thread has its columns, and the sums over threads are made by halves.
        float inputs[EACH], sums[HIDDEN_ROOM];
#pragma unroll
        for (int h = 0; h < HIDDEN_ROOM; h++) sums[h] = 0;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            int column = t + i * STACK_THREADS;
            inputs[i] = 0;
            if (column < LAYER_INPUTS0) {
#if PAIRWISE
                int side = column / (OUTPUTS / 2), k = column % (OUTPUTS / 2) + side * OUTPUTS;
                inputs[i] = clip(values[k]) * clip(values[k + OUTPUTS / 2]) * PRODUCT;
#else
                inputs[i] = clip(values[column]);
#endif
#pragma unroll
                for (int h = 0; h < HIDDEN; h++) sums[h] += inputs[i] * dense[h * LAYER_INPUTS0 + column];
            }
        }
#pragma unroll
        for (int half = HIDDEN_ROOM / 2, mask = WARP / 2; half; half /= 2, mask /= 2) {
            bool up = lane & mask;
#pragma unroll
            for (int i = 0; i < half; i++) {
                float given = up ? sums[i] : sums[i + half], kept = up ? sums[i + half] : sums[i];
                sums[i] = kept + __shfl_xor_sync(ALL, given, mask);
            }
        }
#if HIDDEN <= 16
        sums[0] += __shfl_xor_sync(ALL, sums[0], 1);
        if (lane % 2 == 0) partial[warp][lane / 2] = sums[0];
#else
        partial[warp][lane] = sums[0];
#endif
        __syncthreads();
        // The rest is small: one warp does it.
        if (warp == 0) {
            if (lane < HIDDEN) {
                float sum = bias1[lane];
                for (int i = 0; i < STACK_THREADS / WARP; i++) sum += partial[i][lane];
                before[lane] = sum;
            }
            __syncwarp();
            if (lane < KEPT) {
                if (DUAL) hidden[lane] = square(before[lane]);
                hidden[lane + DUAL * KEPT] = clip(before[lane]);
            }
            __syncwarp();
            float second = 0;
            if (lane < SECOND) {
                second = bias2[lane];
                for (int i = 0; i < SECOND_INPUTS; i++) second += dense2[lane * SECOND_STEP + i] * hidden[i];
            }
            float held = lane < SECOND ? clip(second) : 0.f, third = lane < SECOND ? dense3[lane] : 0.f;
            float output = warp_sum(held * third) + bias3 + (SKIP ? before[KEPT] : 0.f);
#if PSQT
            float squares = 0;
            for (int side = 0; side < 2; side++)
                for (int k = lane; k < counts[2 * at + side]; k += WARP) {
                    float value = SEEN(numbers[PSQT_START + (size_t)lists[side * STRIDE + k] * 8 + bucket], PSQT_GRID);
                    squares += side ? -value : value;
                }
            output += warp_sum(squares) / 2.f;
#endif
            if (!learns) {
                if (lane == 0) outputs[at] = output * UNIT;
            } else {
                float2 judged = judge(output, positions[at].target);
                float slope = judged.y * share;
                loss += judged.x * share;
                by_bias3 += slope;
                by_dense3 += slope * held;
                by_second[lane] = lane < SECOND ? slope * third * steep(second) : 0.f;
                by_bias2 += by_second[lane];
                __syncwarp();
                for (int i = lane; i < SECOND_INPUTS; i += WARP) {
                    float sum = 0;
                    for (int o = 0; o < SECOND; o++) sum += by_second[o] * dense2[o * SECOND_STEP + i];
                    by_hidden[i] = sum;
                }
                __syncwarp();
                float by = 0;
                if (lane < KEPT) {
                    by = by_hidden[lane + DUAL * KEPT] * steep(before[lane]);
                    if (DUAL) by += by_hidden[lane] * square_steep(before[lane]);
                } else if (SKIP && lane == KEPT) {
                    by = slope;
                }
                if (lane < HIDDEN) by_before[lane] = by;
                by_bias1 += by;
                if (lane == 0) slope_shared = slope;
            }
        }
        if (!learns) continue;
        __syncthreads();
#if PSQT
        if (warp == 1) {
            for (int side = 0; side < 2; side++)
                for (int k = lane; k < counts[2 * at + side]; k += WARP)
                    add_to(rest + PSQT_START - BIAS + (size_t)lists[side * STRIDE + k] * 8 + bucket,
                           side ? -0.5f * slope_shared : 0.5f * slope_shared);
        }
#endif
        for (int i = 0; i < EACH_SECOND; i++) {
            int e = t + i * STACK_THREADS;
            if (e < SECOND * SECOND_INPUTS) by_dense2[i] += by_second[e / SECOND_INPUTS] * hidden[e % SECOND_INPUTS];
        }
        float back[HIDDEN];
#pragma unroll
        for (int h = 0; h < HIDDEN; h++) back[h] = by_before[h];
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            int column = t + i * STACK_THREADS;
            if (column < LAYER_INPUTS0) {
                float by = 0;
#pragma unroll
                for (int h = 0; h < HIDDEN; h++) {
                    by += back[h] * dense[h * LAYER_INPUTS0 + column];
                    by_dense[i][h] += back[h] * inputs[i];
                }
#if PAIRWISE
                int side = column / (OUTPUTS / 2), k = column % (OUTPUTS / 2);
                float a = values[side * OUTPUTS + k], b = values[side * OUTPUTS + k + OUTPUTS / 2];
                float by_a = by * clip(b) * PRODUCT * steep(a), by_b = by * clip(a) * PRODUCT * steep(b);
                float* place = slopes + (size_t)(2 * at + side) * OUTPUTS + k;
                place[0] = by_a;
                place[OUTPUTS / 2] = by_b;
                by_bias[i][0] += by_a;
                by_bias[i][1] += by_b;
#else
                float by_a = by * steep(values[column]);
                slopes[(size_t)2 * at * OUTPUTS + column] = by_a;
                by_bias[i][0] += by_a;
#endif
            }
        }
    }
    if (!learns) return;
    for (int i = 0; i < EACH; i++) {
        int column = t + i * STACK_THREADS;
        if (column < LAYER_INPUTS0) {
#if PAIRWISE
            int side = column / (OUTPUTS / 2), k = column % (OUTPUTS / 2) + side * (WIDTH - OUTPUTS);
            add_to(rest + k, by_bias[i][0]);
            add_to(rest + k + OUTPUTS / 2, by_bias[i][1]);
#else
            int side = column / OUTPUTS;
            add_to(rest + side * (WIDTH - OUTPUTS) + column % OUTPUTS, by_bias[i][0]);
#endif
        }
    }
    if (t == 0) add_to(told, loss);
}

#endif

// Gives each row a stretch of the list of users, and of the list of items. totals: users, items.
extern "C" __global__ void place_rows(const u32* __restrict__ uses, u32* starts, u32* item_starts, u32* item_rows,
                                      u32* totals) {
    int row = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % WARP;
    u32 users = row < ROWS ? uses[row] : 0, items = (users + ITEM - 1) / ITEM;
    u32 user_sum = users, item_sum = items;
    for (int step = 1; step < WARP; step *= 2) {
        u32 more_users = __shfl_up_sync(ALL, user_sum, step), more_items = __shfl_up_sync(ALL, item_sum, step);
        if (lane >= step) user_sum += more_users, item_sum += more_items;
    }
    u32 user_start = 0, item_start = 0;
    if (lane == WARP - 1 && user_sum) {
        user_start = atomicAdd(totals, user_sum);
        item_start = atomicAdd(totals + 1, item_sum);
    }
    user_start = __shfl_sync(ALL, user_start, WARP - 1) + user_sum - users;
    item_start = __shfl_sync(ALL, item_start, WARP - 1) + item_sum - items;
    if (row < ROWS) {
        starts[row] = user_start;
        item_starts[row] = item_start;
        for (u32 i = 0; i < items; i++) item_rows[item_start + i] = row;
    }
}

extern "C" __global__ void list_users(const u32* __restrict__ rows, const u32* __restrict__ counts,
                                      const u32* __restrict__ slots, const u32* __restrict__ starts, u32* users, int sides) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, side = at / STRIDE;
    if (side < sides && at % STRIDE < counts[side]) users[starts[rows[at]] + slots[at]] = side;
}

// One item for each row of threads; columns in slices, so that the slopes of a slice stay in the cache.
extern "C" __global__ void sum_items(const u32* __restrict__ uses, const u32* __restrict__ starts,
                                     const u32* __restrict__ item_starts, const u32* __restrict__ item_rows,
                                     const u32* __restrict__ totals, const u32* __restrict__ users,
                                     const float* __restrict__ slopes, float* partial) {
    u32 items = totals[1];
    int quad = blockIdx.y * blockDim.x + threadIdx.x;
    // The last slice may be narrower than the others.
    if (4 * quad >= WIDTH) return;
    int parity = 4 * quad / OUTPUTS, column = 4 * quad % OUTPUTS;
    for (u32 item = blockIdx.x * blockDim.y + threadIdx.y; item < items; item += gridDim.x * blockDim.y) {
        u32 row = item_rows[item], first = (item - item_starts[row]) * ITEM, last = min(first + ITEM, uses[row]);
        const u32* list = users + starts[row];
        float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 8
        for (u32 i = first; i < last; i++) {
            u32 side = __ldg(list + i);
#if WIDTH > OUTPUTS
            if ((side & 1) != parity) continue;
#endif
            sum = add(sum, __ldg((const float4*)(slopes + (size_t)side * OUTPUTS + column)));
        }
        *(float4*)(partial + (size_t)item * WIDTH + 4 * quad) = sum;
    }
}

static __device__ float4 slopes_of(u32 row, int quad, const u32* uses, const u32* item_starts, const float* partial) {
    u32 items = (uses[row] + ITEM - 1) / ITEM;
    float4 sum = make_float4(0, 0, 0, 0);
    const float* place = partial + (size_t)item_starts[row] * WIDTH + 4 * quad;
    for (u32 i = 0; i < items; i++) sum = add(sum, *(const float4*)(place + (size_t)i * WIDTH));
    return sum;
}

static __device__ void tell_square(float square, float* told) {
    square = warp_sum(square);
    if (threadIdx.x % WARP == 0) add_to(told + 1, square);
}

extern "C" __global__ void square_rows(const u32* __restrict__ uses, const u32* __restrict__ item_starts,
                                       const float* __restrict__ partial, float* told) {
    float square = 0;
    for (u32 at = blockIdx.x * blockDim.x + threadIdx.x; at < ROWS * (WIDTH / 4); at += gridDim.x * blockDim.x) {
        u32 row = at / (WIDTH / 4);
        if (!uses[row]) continue;
        float4 sum = slopes_of(row, at % (WIDTH / 4), uses, item_starts, partial);
        square += sum.x * sum.x + sum.y * sum.y + sum.z * sum.z + sum.w * sum.w;
    }
    tell_square(square, told);
}

extern "C" __global__ void square_rest(const float* __restrict__ rest, float* told) {
    float square = 0;
    for (u32 at = blockIdx.x * blockDim.x + threadIdx.x; at < REST; at += gridDim.x * blockDim.x) square += rest[at] * rest[at];
    tell_square(square, told);
}

// What all slopes are multiplied by, so that together they are no longer than the limit.
static __device__ float held(const Update& update, const float* told) {
    return update.limit > 0.f ? fminf(1.f, update.limit / fmaxf(sqrtf(told[1]), 1e-30f)) : 1.f;
}

static __device__ float moved(const Update& u, float weight, float slope, float& first, float& second, float& slow, float least,
                              float most) {
#if OPTIMISER == 0
    weight -= u.rate * slope;
#elif OPTIMISER == 1
    first = u.beta1 * first + slope;
    weight -= u.rate * first;
#elif OPTIMISER == 3
    second = u.beta2 * second + (1.f - u.beta2) * slope * slope;
    float step = sqrtf((first + u.epsilon) / (second + u.epsilon)) * slope;
    first = u.beta1 * first + (1.f - u.beta1) * step * step;
    weight -= u.rate * step;
#else
    first = u.beta1 * first + (1.f - u.beta1) * slope;
    second = u.beta2 * second + (1.f - u.beta2) * slope * slope;
    float scale = u.trusted ? sqrtf(second * u.mend2) + u.epsilon : 1.f;
    weight = weight * u.keep - u.rate * u.mend1 * u.trust * first / scale;
#endif
    weight = fminf(fmaxf(weight, least), most);
#if OPTIMISER == 4
    if (u.meet) weight = slow += u.pull * (weight - slow);
#endif
    return weight;
}

extern "C" __global__ void update_rows(float* numbers, float* first, float* second, float* slow,
                                       const u32* __restrict__ uses, const u32* __restrict__ item_starts,
                                       const float* __restrict__ partial, const float* __restrict__ told, Update update) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= ROWS * (WIDTH / 4)) return;
    float4 none = make_float4(0, 0, 0, 0);
    float4 slope = slopes_of(at / (WIDTH / 4), at % (WIDTH / 4), uses, item_starts, partial);
    float factor = held(update, told);
    float4 w = ((float4*)numbers)[at], m = none, v = none, s = none;
    if (HAS_FIRST) m = ((float4*)first)[at];
    if (HAS_SECOND) v = ((float4*)second)[at];
    if (HAS_SLOW && update.meet) s = ((float4*)slow)[at];
    w.x = moved(update, w.x, factor * slope.x, m.x, v.x, s.x, FIRST_LEAST, FIRST_MOST);
    w.y = moved(update, w.y, factor * slope.y, m.y, v.y, s.y, FIRST_LEAST, FIRST_MOST);
    w.z = moved(update, w.z, factor * slope.z, m.z, v.z, s.z, FIRST_LEAST, FIRST_MOST);
    w.w = moved(update, w.w, factor * slope.w, m.w, v.w, s.w, FIRST_LEAST, FIRST_MOST);
    ((float4*)numbers)[at] = w;
    if (HAS_FIRST) ((float4*)first)[at] = m;
    if (HAS_SECOND) ((float4*)second)[at] = v;
    if (HAS_SLOW && update.meet) ((float4*)slow)[at] = s;
}

// Everything after the first layer's weights. The slopes are zero again afterwards.
extern "C" __global__ void update_rest(float* numbers, float* first, float* second, float* slow, float* rest,
                                       const float* __restrict__ least, const float* __restrict__ most,
                                       const float* __restrict__ told, Update update) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= REST) return;
    float slope = held(update, told) * rest[at], m = 0, v = 0, s = 0;
    rest[at] = 0;
    if (HAS_FIRST) m = first[BIAS + at];
    if (HAS_SECOND) v = second[BIAS + at];
    if (HAS_SLOW && update.meet) s = slow[BIAS + at];
    numbers[BIAS + at] = moved(update, numbers[BIAS + at], slope, m, v, s, least[at], most[at]);
    if (HAS_FIRST) first[BIAS + at] = m;
    if (HAS_SECOND) second[BIAS + at] = v;
    if (HAS_SLOW && update.meet) slow[BIAS + at] = s;
}

extern "C" __global__ void move_average(float* average, const float* __restrict__ numbers, float share, u32 count) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) average[at] += (1.f - share) * (numbers[at] - average[at]);
}
