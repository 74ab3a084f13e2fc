// One training step of an NNUE on a GPU. Compiled at run time for the shape of the network at hand; names in capitals
// that are not defined here are defined by cuda/source.rs.
//
// find_features     active features of each side of each position, and for how many sides each feature is active
// quantise_first   first layer rounded for quantisation-aware training, where a feature is active
// flat_step     accumulators, the layers after them forward and backward, and the gradients of the accumulators;
// stack_step    one of the two, by the shape of the network
// place_rows    gives each weight row a range in the list of its users, the sides for which its feature is active
// list_users    fills that list
// sum_items     sums the gradients of the users of a row, at most ITEM of them in one work item
// square_*      squared gradient norm over all parameters
// update_*      the optimiser's step, and the moving average
//
// No sum over positions goes through memory one value at a time: the gradients of a weight row are gathered from its
// users, just as accumulators are gathered from their weight rows.

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
    float lr, beta1, beta2, avg_factor, grad_factor, bias_correction2, decay_factor, rectification, lookahead_alpha, epsilon;
    float max_grad_norm;
    int rectified, sync_slow;
};

#define WARP 32
#define ALL 0xffffffffu
#define KING 5
#define CASTLING_ROOK 6
#define ROOK 3

#if QAT
#define FAKE_QUANT(value, scale) (rintf((value) * (scale)) / (scale))
#else
#define FAKE_QUANT(value, scale) (value)
#endif

static __device__ float warp_sum(float value) {
    for (int mask = WARP / 2; mask; mask /= 2) value += __shfl_xor_sync(ALL, value, mask);
    return value;
}

// Loss of a raw output, and its gradient with respect to that output.
static __device__ float2 loss_and_grad(float output, float target) {
    float x = output * OUTPUT_SCALE;
#if LOSS == 2
    float error = x - target;
    return make_float2(error * error, 2.f * error * OUTPUT_SCALE);
#else
    float probability = 1.f / (1.f + expf(-x));
#if LOSS == 1
    float soft = fmaxf(x, 0.f) + log1pf(expf(-fabsf(x)));
    return make_float2(soft - target * x, (probability - target) * OUTPUT_SCALE);
#else
    float error = probability - target, size = fabsf(error);
#if POWER_IS_TWO
    float derivative = 2.f * error;
    float value = error * error;
#else
    float up = size == 0.f ? 0.f : powf(size, POWER - 1.f);
    float derivative = copysignf(POWER * up, error), value = up * size;
#endif
    return make_float2(value, derivative * probability * (1.f - probability) * OUTPUT_SCALE);
#endif
#endif
}

// One warp for each position, two squares for each lane.
extern "C" __global__ void find_features(const Position* __restrict__ positions, const uint2* __restrict__ views,
                                     const int* __restrict__ planes, u32* features, u32* counts, u8* buckets, u32* uses,
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
        int perspective = us ^ side;
        uint2 view = views[perspective * 64 + kings[perspective]];
        int plane[2];
        for (int half = 0; half < 2; half++)
            plane[half] = kind[half] < 0 ? -1 : planes[(color[half] == perspective ? 0 : 6) + kind[half]];
        u32 low = __ballot_sync(ALL, plane[0] >= 0), high = __ballot_sync(ALL, plane[1] >= 0);
        int all = min(__popc(low) + __popc(high), MAX_INPUTS);
        u32* list = features + (size_t)(2 * at + side) * STRIDE;
        u32* slot = slots + (size_t)(2 * at + side) * STRIDE;
        for (int half = 0; half < 2; half++) {
            int place = __popc((half ? high : low) & below) + (half ? __popc(low) : 0);
            if (plane[half] >= 0 && place < all) {
                u32 input = view.x + plane[half] + ((lane + WARP * half) ^ view.y);
                list[place] = input;
                slot[place] = atomicAdd(uses + input, 1);
#if FACTORISER
                u32 shared = INPUTS + input % BUCKET_FEATURES;
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

#if QAT
static __device__ float4 fake_quant4(float4 a) {
    return make_float4(FAKE_QUANT(a.x, FIRST_SCALE), FAKE_QUANT(a.y, FIRST_SCALE), FAKE_QUANT(a.z, FIRST_SCALE),
                       FAKE_QUANT(a.w, FIRST_SCALE));
}

// Rounds the weight rows that are in use, and the biases, once a step, because many positions use each row.
extern "C" __global__ void quantise_first(const float* __restrict__ parameters, const u32* __restrict__ uses, float* first) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= (BIAS + WIDTH) / 4) return;
    if (at < ROWS * (WIDTH / 4) && !uses[at / (WIDTH / 4)]) return;
    ((float4*)first)[at] = fake_quant4(((const float4*)parameters)[at]);
}
#endif

static __device__ void add_to(float* sum, float part) {
    if (part != 0.f) atomicAdd(sum, part);
}

#if !STACKS

#define HALF (FLAT_THREADS / 2)
#define QUADS (OUTPUTS / 4)
// Groups of four columns for each thread.
#define EACH ((QUADS + HALF - 1) / HALF)

// Activation of an accumulator, and its derivative.
static __device__ float2 activate(float value) { return make_float2(ACTIVATION_VALUE, ACTIVATION_DERIVATIVE); }

extern "C" __global__ void __launch_bounds__(FLAT_THREADS)
flat_step(const float* __restrict__ parameters, const float* __restrict__ first_layer, const u32* __restrict__ features,
          const u32* __restrict__ counts, const u8* __restrict__ buckets, const Position* __restrict__ positions,
          float* grads, float* rest, float* metrics, float* outputs, int count, int training) {
    __shared__ u32 lists[2][2 * STRIDE];
    __shared__ float sums[2][FLAT_THREADS / WARP];
    int side = threadIdx.x / HALF, lane = threadIdx.x % HALF;
    int each = (count + gridDim.x - 1) / gridDim.x, first = blockIdx.x * each, last = min(first + each, count);
    const float4* weights = (const float4*)first_layer;
    int start = side * (WIDTH - OUTPUTS);
    float4 bias[EACH], grad_bias[EACH], out[EACH], grad_out[EACH];
    for (int i = 0; i < EACH; i++) {
        int quad = lane + i * HALF;
        grad_bias[i] = grad_out[i] = out[i] = bias[i] = make_float4(0, 0, 0, 0);
        if (quad < QUADS) bias[i] = ((const float4*)(first_layer + BIAS + start))[quad];
    }
    float grad_out_bias = 0, loss = 0, out_bias = 0, inv_count = 1.f / count;
    int bucket = -1;
    for (int at = first; at <= last; at++) {
        int turn = at & 1, now = at < last ? buckets[at] : -1;
        if (now != bucket) {
            // Positions are sorted by bucket, so this is rare.
            if (bucket >= 0 && training) {
                float* sum = rest + STACK - BIAS + bucket * STACK_STEP;
                for (int i = 0; i < EACH; i++) {
                    int quad = lane + i * HALF;
                    float* place = sum + side * OUTPUTS + 4 * quad;
                    if (quad < QUADS) {
                        add_to(place, grad_out[i].x), add_to(place + 1, grad_out[i].y);
                        add_to(place + 2, grad_out[i].z), add_to(place + 3, grad_out[i].w);
                    }
                    grad_out[i] = make_float4(0, 0, 0, 0);
                }
                if (threadIdx.x == 0) add_to(sum + LAYER_BIAS0, grad_out_bias);
                grad_out_bias = 0;
            }
            if (now >= 0) {
                const float* stack = parameters + STACK + now * STACK_STEP;
                for (int i = 0; i < EACH; i++) {
                    int quad = lane + i * HALF;
                    if (quad < QUADS) {
                        float4 w = ((const float4*)(stack + side * OUTPUTS))[quad];
                        out[i] = make_float4(FAKE_QUANT(w.x, LAYER_SCALE0), FAKE_QUANT(w.y, LAYER_SCALE0),
                                             FAKE_QUANT(w.z, LAYER_SCALE0), FAKE_QUANT(w.w, LAYER_SCALE0));
                    }
                }
                out_bias = FAKE_QUANT(stack[LAYER_BIAS0], LAYER_BIAS_SCALE0);
            }
            bucket = now;
        }
        if (at == last) break;
        for (int i = threadIdx.x; i < 2 * STRIDE; i += FLAT_THREADS) lists[turn][i] = features[(size_t)at * 2 * STRIDE + i];
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
                if (EACH * HALF == QUADS || quad < QUADS) values[i] = add(values[i], __ldg(row + quad));
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
        if (!training) {
            if (threadIdx.x == 0) outputs[at] = output * OUTPUT_SCALE;
            continue;
        }
        float2 loss_grad = loss_and_grad(output, positions[at].target);
        float grad_output = loss_grad.y * inv_count;
        loss += loss_grad.x * inv_count;
        grad_out_bias += grad_output;
        for (int i = 0; i < EACH; i++) {
            float4 grad;
            float2 a = activate(values[i].x), b = activate(values[i].y), c = activate(values[i].z), d = activate(values[i].w);
            grad_out[i] = add(grad_out[i], make_float4(grad_output * a.x, grad_output * b.x, grad_output * c.x,
                                                       grad_output * d.x));
            grad = make_float4(grad_output * out[i].x * a.y, grad_output * out[i].y * b.y, grad_output * out[i].z * c.y,
                               grad_output * out[i].w * d.y);
            grad_bias[i] = add(grad_bias[i], grad);
            int quad = lane + i * HALF;
            if (quad < QUADS) ((float4*)(grads + (size_t)(2 * at + side) * OUTPUTS))[quad] = grad;
        }
    }
    if (!training) return;
    for (int i = 0; i < EACH; i++) {
        int quad = lane + i * HALF;
        float* place = rest + start + 4 * quad;
        if (quad < QUADS) {
            add_to(place, grad_bias[i].x), add_to(place + 1, grad_bias[i].y);
            add_to(place + 2, grad_bias[i].z), add_to(place + 3, grad_bias[i].w);
        }
    }
    if (threadIdx.x == 0) add_to(metrics, loss);
}

#else

#define SQUARE (127.f / 128.f)
#define KEPT (HIDDEN - SKIP)
#define HIDDEN_PADDED (HIDDEN <= 16 ? 16 : 32)
#define SECOND_INPUTS (KEPT * (1 + SQUARED_CLIPPED))
#define SECOND_STEP (SECOND_INPUTS + 1)
// Columns of the first dense layer for each thread, and weights of the second.
#define EACH ((LAYER_INPUTS0 + STACK_THREADS - 1) / STACK_THREADS)
#define EACH_SECOND ((SECOND * SECOND_INPUTS + STACK_THREADS - 1) / STACK_THREADS)

// Clipped ReLU (CReLU) and its derivative, of the accumulators and of dense layers. Gradient clipping is in grad_scale.
static __device__ float clip(float value) { return fminf(fmaxf(value, 0.f), 1.f); }
static __device__ float clip_grad(float value) { return value > 0.f && value < 1.f ? 1.f : 0.f; }
static __device__ float square(float value) { return fminf(value * value * SQUARE, 1.f); }
static __device__ float square_grad(float value) {
    return value * value * SQUARE < 1.f ? 2.f * value * SQUARE : 0.f;
}

extern "C" __global__ void __launch_bounds__(STACK_THREADS)
stack_step(const float* __restrict__ parameters, const float* __restrict__ first_layer, const u32* __restrict__ features,
           const u32* __restrict__ counts, const u8* __restrict__ buckets, const Position* __restrict__ positions,
           float* grads, float* rest, float* metrics, float* outputs, int count, int training) {
    // First dense layer of the current stack.
    extern __shared__ float dense[];
    __shared__ u32 lists[2 * STRIDE];
    __shared__ __align__(16) float values[2 * OUTPUTS];
    __shared__ float partial[STACK_THREADS / WARP][HIDDEN_PADDED];
    __shared__ float dense2[SECOND * SECOND_STEP], dense3[SECOND], bias1[HIDDEN], bias2[SECOND];
    __shared__ float before[HIDDEN_PADDED], hidden[SECOND_INPUTS], grad_hidden[SECOND_INPUTS], grad_before[HIDDEN_PADDED];
    __shared__ float grad_second[WARP];
    __shared__ float grad_output_shared, bias3;
    int t = threadIdx.x, lane = t % WARP, warp = t / WARP;
    int each = (count + gridDim.x - 1) / gridDim.x, first = blockIdx.x * each, last = min(first + each, count);
    const float4* weights = (const float4*)first_layer;
    float grad_dense[EACH][HIDDEN], grad_dense2[EACH_SECOND], grad_bias[EACH][2];
    float grad_dense3 = 0, grad_bias1 = 0, grad_bias2 = 0, grad_bias3 = 0, loss = 0, inv_count = 1.f / count;
    for (int i = 0; i < EACH; i++) {
        for (int h = 0; h < HIDDEN; h++) grad_dense[i][h] = 0;
        grad_bias[i][0] = grad_bias[i][1] = 0;
    }
    for (int i = 0; i < EACH_SECOND; i++) grad_dense2[i] = 0;
    int bucket = -1;
    for (int at = first; at <= last; at++) {
        int now = at < last ? buckets[at] : -1;
        __syncthreads();
        if (now != bucket) {
            if (bucket >= 0 && training) {
                float* sum = rest + STACK - BIAS + bucket * STACK_STEP;
#pragma unroll
                for (int i = 0; i < EACH; i++) {
                    int column = t + i * STACK_THREADS;
#pragma unroll
                    for (int h = 0; h < HIDDEN; h++) {
                        if (column < LAYER_INPUTS0) add_to(sum + h * LAYER_INPUTS0 + column, grad_dense[i][h]);
                        grad_dense[i][h] = 0;
                    }
                }
                for (int i = 0; i < EACH_SECOND; i++) {
                    int e = t + i * STACK_THREADS;
                    if (e < SECOND * SECOND_INPUTS) add_to(sum + LAYER_WEIGHTS1 + e, grad_dense2[i]);
                    grad_dense2[i] = 0;
                }
                if (t < HIDDEN) add_to(sum + LAYER_BIAS0 + t, grad_bias1);
                if (t < SECOND) add_to(sum + LAYER_BIAS1 + t, grad_bias2), add_to(sum + LAYER_WEIGHTS2 + t, grad_dense3);
                if (t == 0) add_to(sum + LAYER_BIAS2, grad_bias3);
                grad_bias1 = grad_bias2 = grad_bias3 = grad_dense3 = 0;
            }
            if (now >= 0) {
                const float* stack = parameters + STACK + now * STACK_STEP;
                for (int i = t; i < HIDDEN * LAYER_INPUTS0; i += STACK_THREADS) dense[i] = FAKE_QUANT(stack[i], LAYER_SCALE0);
                for (int i = t; i < SECOND * SECOND_INPUTS; i += STACK_THREADS)
                    dense2[i / SECOND_INPUTS * SECOND_STEP + i % SECOND_INPUTS] =
                        FAKE_QUANT(stack[LAYER_WEIGHTS1 + i], LAYER_SCALE1);
                if (t < HIDDEN) bias1[t] = FAKE_QUANT(stack[LAYER_BIAS0 + t], LAYER_BIAS_SCALE0);
                if (t < SECOND) {
                    bias2[t] = FAKE_QUANT(stack[LAYER_BIAS1 + t], LAYER_BIAS_SCALE1);
                    dense3[t] = FAKE_QUANT(stack[LAYER_WEIGHTS2 + t], LAYER_SCALE2);
                }
                if (t == 0) bias3 = FAKE_QUANT(stack[LAYER_BIAS2], LAYER_BIAS_SCALE2);
            }
            bucket = now;
        }
        if (at == last) break;
        for (int i = t; i < 2 * STRIDE; i += STACK_THREADS) lists[i] = features[(size_t)at * 2 * STRIDE + i];
        __syncthreads();
        // Accumulators.
        for (int quad = t; quad < OUTPUTS / 2; quad += STACK_THREADS) {
            int side = quad / (OUTPUTS / 4), column = quad % (OUTPUTS / 4) * 4, start = side * (WIDTH - OUTPUTS) + column;
            float4 sum = *(const float4*)(first_layer + BIAS + start);
            int on = counts[2 * at + side];
            const u32* list = lists + side * STRIDE;
#pragma unroll 8
            for (int k = 0; k < on; k++) sum = add(sum, __ldg(weights + ((size_t)list[k] * WIDTH + start) / 4));
            *(float4*)(values + side * OUTPUTS + column) = sum;
        }
        __syncthreads();
        // First dense layer: each thread has its columns, and the sums over threads are made by halving.
        float inputs[EACH], sums[HIDDEN_PADDED];
#pragma unroll
        for (int h = 0; h < HIDDEN_PADDED; h++) sums[h] = 0;
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
        for (int half = HIDDEN_PADDED / 2, mask = WARP / 2; half; half /= 2, mask /= 2) {
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
        // The rest is small enough for one warp.
        if (warp == 0) {
            if (lane < HIDDEN) {
                float sum = bias1[lane];
                for (int i = 0; i < STACK_THREADS / WARP; i++) sum += partial[i][lane];
                before[lane] = sum;
            }
            __syncwarp();
            if (lane < KEPT) {
                if (SQUARED_CLIPPED) hidden[lane] = square(before[lane]);
                hidden[lane + SQUARED_CLIPPED * KEPT] = clip(before[lane]);
            }
            __syncwarp();
            float second = 0;
            if (lane < SECOND) {
                second = bias2[lane];
                for (int i = 0; i < SECOND_INPUTS; i++) second += dense2[lane * SECOND_STEP + i] * hidden[i];
            }
            float clipped = lane < SECOND ? clip(second) : 0.f, third = lane < SECOND ? dense3[lane] : 0.f;
            float output = warp_sum(clipped * third) + bias3 + (SKIP ? before[KEPT] : 0.f);
#if PSQT
            float squares = 0;
            for (int side = 0; side < 2; side++)
                for (int k = lane; k < counts[2 * at + side]; k += WARP) {
                    size_t entry = (size_t)lists[side * STRIDE + k] * 8 + bucket;
                    float value = FAKE_QUANT(parameters[PSQT_START + entry], PSQT_SCALE);
                    squares += side ? -value : value;
                }
            output += warp_sum(squares) / 2.f;
#endif
            if (!training) {
                if (lane == 0) outputs[at] = output * OUTPUT_SCALE;
            } else {
                float2 loss_grad = loss_and_grad(output, positions[at].target);
                float grad_output = loss_grad.y * inv_count;
                loss += loss_grad.x * inv_count;
                grad_bias3 += grad_output;
                grad_dense3 += grad_output * clipped;
                grad_second[lane] = lane < SECOND ? grad_output * third * clip_grad(second) : 0.f;
                grad_bias2 += grad_second[lane];
                __syncwarp();
                for (int i = lane; i < SECOND_INPUTS; i += WARP) {
                    float sum = 0;
                    for (int o = 0; o < SECOND; o++) sum += grad_second[o] * dense2[o * SECOND_STEP + i];
                    grad_hidden[i] = sum;
                }
                __syncwarp();
                float grad = 0;
                if (lane < KEPT) {
                    grad = grad_hidden[lane + SQUARED_CLIPPED * KEPT] * clip_grad(before[lane]);
                    if (SQUARED_CLIPPED) grad += grad_hidden[lane] * square_grad(before[lane]);
                } else if (SKIP && lane == KEPT) {
                    grad = grad_output;
                }
                if (lane < HIDDEN) grad_before[lane] = grad;
                grad_bias1 += grad;
                if (lane == 0) grad_output_shared = grad_output;
            }
        }
        if (!training) continue;
        __syncthreads();
#if PSQT
        if (warp == 1) {
            for (int side = 0; side < 2; side++)
                for (int k = lane; k < counts[2 * at + side]; k += WARP)
                    add_to(rest + PSQT_START - BIAS + (size_t)lists[side * STRIDE + k] * 8 + bucket,
                           side ? -0.5f * grad_output_shared : 0.5f * grad_output_shared);
        }
#endif
        for (int i = 0; i < EACH_SECOND; i++) {
            int e = t + i * STACK_THREADS;
            if (e < SECOND * SECOND_INPUTS) grad_dense2[i] += grad_second[e / SECOND_INPUTS] * hidden[e % SECOND_INPUTS];
        }
        float back[HIDDEN];
#pragma unroll
        for (int h = 0; h < HIDDEN; h++) back[h] = grad_before[h];
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            int column = t + i * STACK_THREADS;
            if (column < LAYER_INPUTS0) {
                float grad = 0;
#pragma unroll
                for (int h = 0; h < HIDDEN; h++) {
                    grad += back[h] * dense[h * LAYER_INPUTS0 + column];
                    grad_dense[i][h] += back[h] * inputs[i];
                }
#if PAIRWISE
                int side = column / (OUTPUTS / 2), k = column % (OUTPUTS / 2);
                float a = values[side * OUTPUTS + k], b = values[side * OUTPUTS + k + OUTPUTS / 2];
                float grad_a = grad * clip(b) * PRODUCT * clip_grad(a), grad_b = grad * clip(a) * PRODUCT * clip_grad(b);
                float* place = grads + (size_t)(2 * at + side) * OUTPUTS + k;
                place[0] = grad_a;
                place[OUTPUTS / 2] = grad_b;
                grad_bias[i][0] += grad_a;
                grad_bias[i][1] += grad_b;
#else
                float grad_a = grad * clip_grad(values[column]);
                grads[(size_t)2 * at * OUTPUTS + column] = grad_a;
                grad_bias[i][0] += grad_a;
#endif
            }
        }
    }
    if (!training) return;
    for (int i = 0; i < EACH; i++) {
        int column = t + i * STACK_THREADS;
        if (column < LAYER_INPUTS0) {
#if PAIRWISE
            int side = column / (OUTPUTS / 2), k = column % (OUTPUTS / 2) + side * (WIDTH - OUTPUTS);
            add_to(rest + k, grad_bias[i][0]);
            add_to(rest + k + OUTPUTS / 2, grad_bias[i][1]);
#else
            int side = column / OUTPUTS;
            add_to(rest + side * (WIDTH - OUTPUTS) + column % OUTPUTS, grad_bias[i][0]);
#endif
        }
    }
    if (t == 0) add_to(metrics, loss);
}

#endif

// Gives each weight row a range in the lists of its sides, and of the work items. totals: sides, items.
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

extern "C" __global__ void list_users(const u32* __restrict__ features, const u32* __restrict__ counts,
                                      const u32* __restrict__ slots, const u32* __restrict__ starts, u32* users, int sides) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, side = at / STRIDE;
    if (side < sides && at % STRIDE < counts[side]) users[starts[features[at]] + slots[at]] = side;
}

// One item for each row of threads; columns in slices, so that the gradients of a slice stay in the cache.
extern "C" __global__ void sum_items(const u32* __restrict__ uses, const u32* __restrict__ starts,
                                     const u32* __restrict__ item_starts, const u32* __restrict__ item_rows,
                                     const u32* __restrict__ totals, const u32* __restrict__ users,
                                     const float* __restrict__ grads, float* partial) {
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
            sum = add(sum, __ldg((const float4*)(grads + (size_t)side * OUTPUTS + column)));
        }
        *(float4*)(partial + (size_t)item * WIDTH + 4 * quad) = sum;
    }
}

static __device__ float4 row_grad(u32 row, int quad, const u32* uses, const u32* item_starts, const float* partial) {
    u32 items = (uses[row] + ITEM - 1) / ITEM;
    float4 sum = make_float4(0, 0, 0, 0);
    const float* place = partial + (size_t)item_starts[row] * WIDTH + 4 * quad;
    for (u32 i = 0; i < items; i++) sum = add(sum, *(const float4*)(place + (size_t)i * WIDTH));
    return sum;
}

static __device__ void add_square(float square, float* metrics) {
    square = warp_sum(square);
    if (threadIdx.x % WARP == 0) add_to(metrics + 1, square);
}

extern "C" __global__ void square_rows(const u32* __restrict__ uses, const u32* __restrict__ item_starts,
                                       const float* __restrict__ partial, float* metrics) {
    float square = 0;
    for (u32 at = blockIdx.x * blockDim.x + threadIdx.x; at < ROWS * (WIDTH / 4); at += gridDim.x * blockDim.x) {
        u32 row = at / (WIDTH / 4);
        if (!uses[row]) continue;
        float4 sum = row_grad(row, at % (WIDTH / 4), uses, item_starts, partial);
        square += sum.x * sum.x + sum.y * sum.y + sum.z * sum.z + sum.w * sum.w;
    }
    add_square(square, metrics);
}

extern "C" __global__ void square_rest(const float* __restrict__ rest, float* metrics) {
    float square = 0;
    for (u32 at = blockIdx.x * blockDim.x + threadIdx.x; at < REST; at += gridDim.x * blockDim.x) square += rest[at] * rest[at];
    add_square(square, metrics);
}

// Gradient clipping: factor of all gradients that brings their norm down to max_grad_norm.
static __device__ float grad_scale(const Update& update, const float* metrics) {
    return update.max_grad_norm > 0.f ? fminf(1.f, update.max_grad_norm / fmaxf(sqrtf(metrics[1]), 1e-30f)) : 1.f;
}

// The new value of a weight; its optimiser buffers are updated too.
static __device__ float updated(const Update& u, float weight, float grad, float& exp_avg, float& exp_avg_sq,
                                float& slow_weight, float min_value, float max_value) {
#if OPTIMISER == 0
    weight -= u.lr * grad;
#elif OPTIMISER == 1
    exp_avg = u.beta1 * exp_avg + grad;
    weight -= u.lr * exp_avg;
#elif OPTIMISER == 3
    exp_avg_sq = u.beta2 * exp_avg_sq + (1.f - u.beta2) * grad * grad;
    float step = sqrtf((exp_avg + u.epsilon) / (exp_avg_sq + u.epsilon)) * grad;
    exp_avg = u.beta1 * exp_avg + (1.f - u.beta1) * step * step;
    weight *= u.decay_factor;
    weight -= u.lr * step;
#elif OPTIMISER == 5
    // NAdam.
    exp_avg = u.beta1 * exp_avg + (1.f - u.beta1) * grad;
    exp_avg_sq = u.beta2 * exp_avg_sq + (1.f - u.beta2) * grad * grad;
    float step = (u.grad_factor * grad + u.avg_factor * exp_avg) / (sqrtf(exp_avg_sq * u.bias_correction2) + u.epsilon);
    weight = weight * u.decay_factor - u.lr * step;
#else
    // Adam with bias correction and decoupled weight decay.
    exp_avg = u.beta1 * exp_avg + (1.f - u.beta1) * grad;
    exp_avg_sq = u.beta2 * exp_avg_sq + (1.f - u.beta2) * grad * grad;
    float scale = u.rectified ? sqrtf(exp_avg_sq * u.bias_correction2) + u.epsilon : 1.f;
    weight = weight * u.decay_factor - u.lr * u.avg_factor * u.rectification * exp_avg / scale;
#endif
    weight = fminf(fmaxf(weight, min_value), max_value);
#if OPTIMISER == 4
    if (u.sync_slow) weight = slow_weight += u.lookahead_alpha * (weight - slow_weight);
#endif
    return weight;
}

extern "C" __global__ void update_rows(float* parameters, float* exp_avg, float* exp_avg_sq, float* slow_weights,
                                       const u32* __restrict__ uses, const u32* __restrict__ item_starts,
                                       const float* __restrict__ partial, const float* __restrict__ metrics, Update update) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= ROWS * (WIDTH / 4)) return;
    float4 none = make_float4(0, 0, 0, 0);
    float4 grad = row_grad(at / (WIDTH / 4), at % (WIDTH / 4), uses, item_starts, partial);
    float scale = grad_scale(update, metrics);
    float4 w = ((float4*)parameters)[at], m = none, v = none, s = none;
    if (HAS_EXP_AVG) m = ((float4*)exp_avg)[at];
    if (HAS_EXP_AVG_SQ) v = ((float4*)exp_avg_sq)[at];
    if (HAS_SLOW_WEIGHTS && update.sync_slow) s = ((float4*)slow_weights)[at];
    w.x = updated(update, w.x, scale * grad.x, m.x, v.x, s.x, FIRST_MIN, FIRST_MAX);
    w.y = updated(update, w.y, scale * grad.y, m.y, v.y, s.y, FIRST_MIN, FIRST_MAX);
    w.z = updated(update, w.z, scale * grad.z, m.z, v.z, s.z, FIRST_MIN, FIRST_MAX);
    w.w = updated(update, w.w, scale * grad.w, m.w, v.w, s.w, FIRST_MIN, FIRST_MAX);
    ((float4*)parameters)[at] = w;
    if (HAS_EXP_AVG) ((float4*)exp_avg)[at] = m;
    if (HAS_EXP_AVG_SQ) ((float4*)exp_avg_sq)[at] = v;
    if (HAS_SLOW_WEIGHTS && update.sync_slow) ((float4*)slow_weights)[at] = s;
}

// Updates everything after the first layer's weights, and resets the gradients to zero.
extern "C" __global__ void update_rest(float* parameters, float* exp_avg, float* exp_avg_sq, float* slow_weights, float* rest,
                                       const float* __restrict__ min_values, const float* __restrict__ max_values,
                                       const float* __restrict__ metrics, Update update) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= REST) return;
    float grad = grad_scale(update, metrics) * rest[at], m = 0, v = 0, s = 0;
    rest[at] = 0;
    if (HAS_EXP_AVG) m = exp_avg[BIAS + at];
    if (HAS_EXP_AVG_SQ) v = exp_avg_sq[BIAS + at];
    if (HAS_SLOW_WEIGHTS && update.sync_slow) s = slow_weights[BIAS + at];
    parameters[BIAS + at] = updated(update, parameters[BIAS + at], grad, m, v, s, min_values[at], max_values[at]);
    if (HAS_EXP_AVG) exp_avg[BIAS + at] = m;
    if (HAS_EXP_AVG_SQ) exp_avg_sq[BIAS + at] = v;
    if (HAS_SLOW_WEIGHTS && update.sync_slow) slow_weights[BIAS + at] = s;
}

extern "C" __global__ void update_ema(float* ema, const float* __restrict__ parameters, float decay, u32 count) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) ema[at] += (1.f - decay) * (parameters[at] - ema[at]);
}
