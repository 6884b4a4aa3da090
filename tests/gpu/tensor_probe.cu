// Bare tensor-core instructions on constructed operands, compared with the model of tensor_core.h, result by result.
//
// usage: tensor_probe [TILES [FOLDER]]     TILES = 16 of each class; what was computed goes to FOLDER
// stdout: one JSON object a line, {"device": ...} and then one of each format, class, number of chained instructions and
// instruction: how many results, how many differ from the model, and a digest of all of them. FOLDER/cases.jsonl has the
// first results that differ with their operands, FOLDER/FORMAT-CLASS-K.u32 those of the first tile by mma.m16n8k16.
// Exit status: 0 whatever was found, 7 no GPU, 1 something failed.
//
// A tile is a product of 64 x k by k x 256 with an addend. Its operands depend on format, class, k and number alone.
#include <cuda_runtime.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <thread>
#include <vector>

#include "tensor_core.h"

enum { ROWS = 64, COLS = 256, MOST_K = 64, RESULTS = ROWS * COLS };
typedef uint16_t (*operand)[MOST_K]; // rows of a, columns of b: k is adjacent in both

// --- the instructions ---
template <tensor_format F> __device__ void mma_k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
#if __CUDA_ARCH__ >= 800
    if (F == TENSOR_FP16)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},"
                     "{%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},"
                     "{%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}
template <tensor_format F> __device__ void mma_k8(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t b)
{
#if __CUDA_ARCH__ >= 800
    if (F == TENSOR_BF16)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a0), "r"(a1), "r"(b));
#endif
#if __CUDA_ARCH__ >= 750
    if (F == TENSOR_FP16)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a0), "r"(a1), "r"(b));
#endif
}
__device__ uint32_t pair(const uint16_t *p)
{
    return *(const uint32_t *)p;
}
// A warp of the block for 16 rows; the block goes through the columns.
template <tensor_format F, int STEP> __global__ void probe_mma(const uint16_t *as, const uint16_t *bs, const float *cs,
                                                               float *ds, int k)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = warp * 16 + lane / 4, at = lane % 4 * 2;
    const uint16_t *a = as + (size_t)blockIdx.x * ROWS * MOST_K, *b = bs + (size_t)blockIdx.x * COLS * MOST_K;
    const float *c = cs + (size_t)blockIdx.x * RESULTS;
    float *d = ds + (size_t)blockIdx.x * RESULTS;
    for (int col = 0; col < COLS; col += 8) {
        float sum[4];
        for (int i = 0; i < 4; i++) sum[i] = c[(row + i / 2 * 8) * COLS + col + at + i % 2];
        for (int j = 0; j < k; j += STEP) {
            const uint16_t *x = a + row * MOST_K + j + at, *y = b + (col + lane / 4) * MOST_K + j + at;
            if (STEP == 16) {
                const uint32_t fa[4] = {pair(x), pair(x + 8 * MOST_K), pair(x + 8), pair(x + 8 * MOST_K + 8)};
                const uint32_t fb[2] = {pair(y), pair(y + 8)};
                mma_k16<F>(sum, fa, fb);
            } else {
                mma_k8<F>(sum, pair(x), pair(x + 8 * MOST_K), pair(y));
            }
        }
        for (int i = 0; i < 4; i++) d[(row + i / 2 * 8) * COLS + col + at + i % 2] = sum[i];
    }
}

// wgmma: 64 rows by N columns, operands in shared memory without swizzle, or a in registers.
#define TEN(t) "%" #t "0,%" #t "1,%" #t "2,%" #t "3,%" #t "4,%" #t "5,%" #t "6,%" #t "7,%" #t "8,%" #t "9,"
#define LIST4 "%0,%1,%2,%3"
#define LIST32 TEN() TEN(1) TEN(2) "%30,%31"
#define LIST64 TEN() TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) "%60,%61,%62,%63"
#define LIST128 TEN() TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) TEN(9) TEN(10) TEN(11) \
    "%120,%121,%122,%123,%124,%125,%126,%127"
#define R4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define R32(i) R4(i), R4(i + 4), R4(i + 8), R4(i + 12), R4(i + 16), R4(i + 20), R4(i + 24), R4(i + 28)
#define R64(i) R32(i), R32(i + 32)
#define R128(i) R64(i), R64(i + 64)
#define WGMMA(N, TYPE, HALF, X, Y)                                                                                      \
    asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE    \
                 " {" LIST##HALF "}, %" #X ", %" #Y ", p, 1, 1, 0, 0;}"                                                 \
                 : R##HALF(0)                                                                                           \
                 : "l"(x), "l"(y))
#define WGMMA_N(N, HALF, X, Y)                                                                                         \
    template <tensor_format F> __device__ void wgmma_shared(float (&d)[HALF], uint64_t x, uint64_t y)                  \
    {                                                                                                                  \
        if (F == TENSOR_FP16)                                                                                          \
            WGMMA(N, "f16", HALF, X, Y);                                                                               \
        else                                                                                                           \
            WGMMA(N, "bf16", HALF, X, Y);                                                                              \
    }
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HAS_WGMMA 1
WGMMA_N(8, 4, 4, 5)
WGMMA_N(64, 32, 32, 33)
WGMMA_N(128, 64, 64, 65)
WGMMA_N(256, 128, 128, 129)
template <tensor_format F> __device__ void wgmma_registers(float (&d)[32], const uint32_t (&a)[4], uint64_t y)
{
    if (F == TENSOR_FP16)
        asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
                     "{" LIST32 "}, {%32,%33,%34,%35}, %36, p, 1, 1, 0;}"
                     : R32(0)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(y));
    else
        asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                     "{" LIST32 "}, {%32,%33,%34,%35}, %36, p, 1, 1, 0;}"
                     : R32(0)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(y));
}
#endif
// Shared memory holds bricks of 8 rows by 16 bytes; those of a row of bricks follow each other.
__device__ uint64_t descriptor(const void *at)
{
    const uint64_t address = (uint64_t)__cvta_generic_to_shared(at);
    return (address & 0x3ffff) >> 4 | (uint64_t)(128 >> 4) << 16 | (uint64_t)(MOST_K / 8 * 128 >> 4) << 32;
}
template <tensor_format F, int N, bool REGISTERS, int STEPS>
__device__ void wgmma_tile(const uint16_t *as, const uint16_t *bs, const float *cs, float *ds)
{
#if HAS_WGMMA
    __shared__ __align__(128) uint16_t sa[ROWS * MOST_K], sb[COLS * MOST_K];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = warp * 16 + lane / 4, at = lane % 4 * 2;
    const uint16_t *a = as + (size_t)blockIdx.x * ROWS * MOST_K, *b = bs + (size_t)blockIdx.x * COLS * MOST_K;
    const float *c = cs + (size_t)blockIdx.x * RESULTS;
    float *d = ds + (size_t)blockIdx.x * RESULTS;
    for (int i = threadIdx.x; i < ROWS * MOST_K; i += blockDim.x) {
        const int r = i / MOST_K, j = i % MOST_K;
        sa[(r / 8 * (MOST_K / 8) + j / 8) * 64 + r % 8 * 8 + j % 8] = a[i];
    }
    for (int i = threadIdx.x; i < COLS * MOST_K; i += blockDim.x) {
        const int r = i / MOST_K, j = i % MOST_K;
        sb[(r / 8 * (MOST_K / 8) + j / 8) * 64 + r % 8 * 8 + j % 8] = b[i];
    }
    __syncthreads();
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    for (int col = 0; col < COLS; col += N) {
        float sum[N / 2];
#pragma unroll
        for (int i = 0; i < N / 2; i++) sum[i] = c[(row + i / 2 % 2 * 8) * COLS + col + i / 4 * 8 + at + i % 2];
        uint32_t fa[STEPS][4];
        if (REGISTERS) {
#pragma unroll
            for (int s = 0; s < STEPS; s++) {
                const uint16_t *x = a + row * MOST_K + s * 16 + at;
                fa[s][0] = pair(x), fa[s][1] = pair(x + 8 * MOST_K), fa[s][2] = pair(x + 8),
                fa[s][3] = pair(x + 8 * MOST_K + 8);
            }
        }
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int s = 0; s < STEPS; s++) { // all of a chain are under way at once
            const uint64_t y = descriptor(sb + (col / 8 * (MOST_K / 8) + s * 2) * 64);
            if constexpr (REGISTERS) {
                wgmma_registers<F>(sum, fa[s], y);
            } else {
                wgmma_shared<F>(sum, descriptor(sa + s * 128), y);
            }
        }
        asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
        for (int i = 0; i < N / 2; i++) d[(row + i / 2 % 2 * 8) * COLS + col + i / 4 * 8 + at + i % 2] = sum[i];
    }
#endif
}
template <tensor_format F, int N, bool REGISTERS>
__global__ void probe_wgmma(const uint16_t *a, const uint16_t *b, const float *c, float *d, int k)
{
    if (k == 16) {
        wgmma_tile<F, N, REGISTERS, 1>(a, b, c, d);
    } else {
        wgmma_tile<F, N, REGISTERS, MOST_K / 16>(a, b, c, d);
    }
}

// --- the operands ---
struct random_bits {
    uint64_t state;
    uint64_t next() // SplitMix64
    {
        uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9), z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        return z ^ z >> 31;
    }
    int below(int n) { return (int)(next() % (uint64_t)n); }
    int from(int least, int most) { return least + below(most - least + 1); }
};
static tensor_format format;
static random_bits dice;
// Sign, exponent and fraction as bits of the format; an exponent below the least one makes a subnormal number or zero.
static uint16_t narrow(int sign, int exponent, uint32_t fraction)
{
    const int bits = format == TENSOR_FP16 ? 10 : 7, bias = format == TENSOR_FP16 ? 15 : 127;
    int field = exponent + bias;
    fraction &= (1u << bits) - 1;
    if (field <= 0) {
        const int drop = 1 - field;
        fraction = drop > bits ? 0 : (fraction | 1u << bits) >> drop, field = 0;
    }
    if (field > 2 * bias) field = 2 * bias;
    return (uint16_t)(sign << 15 | field << bits | (int)fraction);
}
static uint32_t wide(int sign, int exponent, uint32_t fraction)
{
    int field = exponent + 127;
    fraction &= 0x7fffff;
    if (field <= 0) {
        const int drop = 1 - field;
        fraction = drop > 23 ? 0 : (fraction | 1u << 23) >> drop, field = 0;
    }
    return (uint32_t)sign << 31 | (uint32_t)(field > 254 ? 254 : field) << 23 | fraction;
}
static uint16_t any16(int least, int most)
{
    const int sign = dice.below(2), e = dice.from(least, most);
    return narrow(sign, e, (uint32_t)dice.next());
}
static uint32_t any32(int least, int most)
{
    const int sign = dice.below(2), e = dice.from(least, most);
    return wide(sign, e, (uint32_t)dice.next());
}

// What a class is made of: rows of a, columns of b, the addend.
enum { EXACT, NEAR_ONE, ONE_SMALL, CANCELLED, ADDEND, SUBNORMAL, FLOOR, ZERO_TIMES_LARGE, SPECIAL, ANY, CLASSES };
static const char *const class_names[CLASSES] = {
    "exact",     "near_one", "one_small",        "cancelled", "addend",
    "subnormal", "floor",    "zero_times_large", "special",   "any"};
static uint16_t operand16(int which, int k, int i, bool is_a)
{
    const bool half = format == TENSOR_FP16;
    const int least = half ? -14 : -126, most = half ? 15 : 127;
    switch (which) {
    case EXACT: { // integers of -8 to 8
        const int v = dice.from(-8, 8), size = abs(v);
        return size ? narrow(v < 0, 31 - __builtin_clz(size), (uint32_t)(size << (half ? 10 : 7)) >> (31 - __builtin_clz(size))) : 0;
    }
    case NEAR_ONE: return any16(-3, 1);
    case ONE_SMALL: // a row has a product of 2^0 and small ones; columns only change signs
        if (!is_a) return narrow(dice.below(2), 0, 0);
        return i == 0 ? narrow(dice.below(2), 0, 0) : dice.below(3) ? 0 : any16(half ? -24 : -32, half ? -14 : -18);
    case CANCELLED: // large terms that cancel by chance, in one block and across blocks
        return is_a ? (dice.below(4) ? any16(-6, 2) : narrow(dice.below(2), half ? 12 : 20, 0)) : narrow(dice.below(2), 0, 0);
    case ADDEND: return any16(-4, 4);
    case SUBNORMAL: return dice.below(2) ? any16(least - (half ? 10 : 7), least) : any16(is_a ? least : -2, is_a ? least + 3 : 2);
    case FLOOR: // products about the least exponents of the sum
        return half ? any16(least - 10, least) : any16(-80, -58);
    case ZERO_TIMES_LARGE:
        if (k % 2 == (is_a ? 0 : 1) && dice.below(2)) return narrow(dice.below(2), -200, 0);
        return dice.below(3) ? any16(half ? -24 : -78, half ? -12 : -66) : any16(most - 12, most);
    case SPECIAL:
        switch (dice.below(24)) {
        case 0: return narrow(0, most, 0) + (half ? 1u << 10 : 1u << 7);            // +inf
        case 1: return (narrow(0, most, 0) + (half ? 1u << 10 : 1u << 7)) | 0x8000; // -inf
        case 2: return (half ? 0x7c00 : 0x7f80) | (1u << dice.below(half ? 10 : 7)) | (uint16_t)(dice.below(2) << 15);
        case 3: return (uint16_t)(dice.below(2) << 15);
        default: return any16(dice.below(2) ? most - 2 : -2, most);
        }
    default: { // any finite bits
        const uint16_t x = (uint16_t)dice.next();
        return (x & (half ? 0x7c00 : 0x7f80)) == (half ? 0x7c00 : 0x7f80) ? x & 0x83ff : x;
    }
    }
}
static uint32_t addend32(int which)
{
    const bool half = format == TENSOR_FP16;
    switch (which) {
    case EXACT: {
        const float v = (float)dice.from(-1000, 1000);
        uint32_t bits;
        memcpy(&bits, &v, 4);
        return bits;
    }
    case ONE_SMALL: return dice.below(4) ? 0 : any32(-30, -20);
    case CANCELLED: return dice.below(2) ? any32(-8, 0) : wide(dice.below(2), half ? 12 : 20, 0);
    case ADDEND: return any32(4, 34);
    case SUBNORMAL: return half ? any32(-60, -10) : any32(-150, -110);
    case FLOOR: return any32(-150, half ? -30 : -116);
    case ZERO_TIMES_LARGE: return dice.below(2) ? 0 : any32(half ? -60 : -140, half ? -20 : -120);
    case SPECIAL:
        switch (dice.below(24)) {
        case 0: return TENSOR_INF;
        case 1: return TENSOR_INF | UINT32_C(0x80000000);
        case 2: return TENSOR_INF | 1u << dice.below(23);
        case 3: return UINT32_C(0x80000000);
        default: return any32(120, 127);
        }
    case ANY: {
        const uint32_t x = (uint32_t)dice.next();
        return (x & TENSOR_INF) == TENSOR_INF ? x & 0x807fffff : x;
    }
    default: return any32(-4, 2);
    }
}

// --- the comparison ---
static void must(cudaError_t status, const char *what)
{
    if (status == cudaSuccess) return;
    fprintf(stderr, "tensor_probe: %s: %s\n", what, cudaGetErrorString(status));
    exit(1);
}
static tensor_block block_of(int capability, bool k8)
{
    if (capability >= 90) return k8 ? tensor_block{8, 25, -133} : tensor_block{16, 25, -133};
    return tensor_block{8, 24, -132};
}
typedef void (*kernel)(const uint16_t *, const uint16_t *, const float *, float *, int);
struct instruction {
    const char *name;
    kernel run[2]; // fp16, bf16
    bool k8, wgmma;
};
#define BOTH(...) {__VA_ARGS__}
static const instruction instructions[] = {
    {"mma.m16n8k16", BOTH(probe_mma<TENSOR_FP16, 16>, probe_mma<TENSOR_BF16, 16>), false, false},
    {"mma.m16n8k8", BOTH(probe_mma<TENSOR_FP16, 8>, probe_mma<TENSOR_BF16, 8>), true, false},
    {"wgmma.m64n8k16", BOTH(probe_wgmma<TENSOR_FP16, 8, false>, probe_wgmma<TENSOR_BF16, 8, false>), false, true},
    {"wgmma.m64n64k16", BOTH(probe_wgmma<TENSOR_FP16, 64, false>, probe_wgmma<TENSOR_BF16, 64, false>), false, true},
    {"wgmma.m64n128k16", BOTH(probe_wgmma<TENSOR_FP16, 128, false>, probe_wgmma<TENSOR_BF16, 128, false>), false, true},
    {"wgmma.m64n256k16", BOTH(probe_wgmma<TENSOR_FP16, 256, false>, probe_wgmma<TENSOR_BF16, 256, false>), false, true},
    {"wgmma.m64n64k16 with a in registers", BOTH(probe_wgmma<TENSOR_FP16, 64, true>, probe_wgmma<TENSOR_BF16, 64, true>),
     false, true},
};

static std::vector<uint16_t> host_a, host_b;
static std::vector<uint32_t> host_c, host_d, expected[2]; // [1]: in blocks of half the instruction, for k8
static void model(tensor_block block, int tiles, int k, std::vector<uint32_t> &to)
{
    const int count = (int)std::thread::hardware_concurrency() ? (int)std::thread::hardware_concurrency() : 1;
    std::vector<std::thread> threads;
    to.resize((size_t)tiles * RESULTS);
    for (int t = 0; t < count; t++)
        threads.emplace_back([=, &to] {
            for (int r = t; r < tiles * ROWS; r += count)
                for (int j = 0; j < COLS; j++)
                    to[(size_t)r * COLS + j] =
                        tensor_chain(format, block, &host_a[(size_t)r * MOST_K],
                                     &host_b[((size_t)(r / ROWS) * COLS + j) * MOST_K], host_c[(size_t)r * COLS + j], k);
        });
    for (std::thread &thread : threads) thread.join();
}
static void write_case(FILE *to, const char *which, const instruction *in, int k, size_t at, uint32_t got, uint32_t want)
{
    const size_t row = at / COLS, tile = row / ROWS, col = at % COLS;
    fprintf(to, "{\"format\": \"%s\", \"class\": \"%s\", \"instruction\": \"%s\", \"a\": \"",
            format == TENSOR_FP16 ? "fp16" : "bf16", which, in->name);
    for (int i = 0; i < k; i++) fprintf(to, "%s%04x", i ? " " : "", host_a[row * MOST_K + i]);
    fprintf(to, "\", \"b\": \"");
    for (int i = 0; i < k; i++) fprintf(to, "%s%04x", i ? " " : "", host_b[(tile * COLS + col) * MOST_K + i]);
    fprintf(to, "\", \"c\": \"%08x\", \"got\": \"%08x\", \"model\": \"%08x\"}\n", host_c[at], got, want);
}

int main(int argc, char **argv)
{
    const int most = argc > 1 ? atoi(argv[1]) : 16;
    const char *folder = argc > 2 ? argv[2] : ".";
    char path[4096];
    int count = 0;
    if (most < 1 || cudaGetDeviceCount(&count) != cudaSuccess || !count) {
        fprintf(stderr, "tensor_probe: %s\n", most < 1 ? "usage: tensor_probe [TILES [FOLDER]]" : "there is no GPU");
        return most < 1 ? 2 : 7;
    }
    cudaDeviceProp device;
    must(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
    const int capability = device.major * 10 + device.minor;
    printf("{\"device\": \"%s\", \"compute_capability\": \"%d.%d\"}\n", device.name, device.major, device.minor);
    snprintf(path, sizeof(path), "%s/cases.jsonl", folder);
    FILE *cases = fopen(path, "w");
    if (!cases) return perror(path), 1;
    uint16_t *a, *b;
    float *c, *d;
    must(cudaMalloc(&a, sizeof(*a) * most * ROWS * MOST_K), "cudaMalloc");
    must(cudaMalloc(&b, sizeof(*b) * most * COLS * MOST_K), "cudaMalloc");
    must(cudaMalloc(&c, sizeof(*c) * most * RESULTS), "cudaMalloc");
    must(cudaMalloc(&d, sizeof(*d) * most * RESULTS), "cudaMalloc");
    for (int f = 0; f < 2; f++)
        for (int which = 0; which < CLASSES; which++)
            for (int k = 16; k <= MOST_K; k += 48) {
                const int tiles = k == 16 ? most : (most + 3) / 4;
                format = (tensor_format)f;
                dice.state = (uint64_t)f << 32 | (uint64_t)which << 16 | (uint64_t)k;
                host_a.assign((size_t)tiles * ROWS * MOST_K, 0), host_b.assign((size_t)tiles * COLS * MOST_K, 0);
                host_c.resize((size_t)tiles * RESULTS), host_d.resize(host_c.size());
                for (int r = 0; r < tiles * ROWS; r++)
                    for (int i = 0; i < k; i++) host_a[(size_t)r * MOST_K + i] = operand16(which, i, i, true);
                for (int r = 0; r < tiles * COLS; r++)
                    for (int i = 0; i < k; i++) host_b[(size_t)r * MOST_K + i] = operand16(which, i, i, false);
                for (uint32_t &x : host_c) x = addend32(which);
                model(block_of(capability, false), tiles, k, expected[0]);
                model(block_of(capability, true), tiles, k, expected[1]);
                must(cudaMemcpy(a, host_a.data(), host_a.size() * 2, cudaMemcpyHostToDevice), "copy of a");
                must(cudaMemcpy(b, host_b.data(), host_b.size() * 2, cudaMemcpyHostToDevice), "copy of b");
                must(cudaMemcpy(c, host_c.data(), host_c.size() * 4, cudaMemcpyHostToDevice), "copy of c");
                for (const instruction &in : instructions) {
                    if (in.wgmma && capability != 90) continue;
                    must(cudaMemset(d, 0xa5, host_d.size() * 4), "poison");
                    in.run[f]<<<tiles, 128>>>(a, b, c, d, k);
                    must(cudaDeviceSynchronize(), in.name);
                    must(cudaMemcpy(host_d.data(), d, host_d.size() * 4, cudaMemcpyDeviceToHost), "copy of d");
                    uint64_t digest = UINT64_C(14695981039346656037); // FNV-1a over 32-bit words
                    size_t differ = 0, differ_alone = 0;
                    for (size_t i = 0; i < host_d.size(); i++) {
                        const uint32_t want = expected[in.k8][i];
                        digest = (digest ^ host_d[i]) * UINT64_C(1099511628211);
                        if (host_d[i] == want) continue;
                        if (differ++ < 40) write_case(cases, class_names[which], &in, k, i, host_d[i], want);
                        // Two NaNs with other bits, or zeros of another sign
                        if (((host_d[i] & 0x7fffffff) > TENSOR_INF && (want & 0x7fffffff) > TENSOR_INF) ||
                            !((host_d[i] | want) & 0x7fffffff))
                            differ_alone++;
                    }
                    printf("{\"format\": \"%s\", \"class\": \"%s\", \"k\": %d, \"instruction\": \"%s\", \"results\": %zu, "
                           "\"differ\": %zu, \"differ_in_nan_or_zero_sign\": %zu, \"digest\": \"%016" PRIx64 "\"}\n",
                           f ? "bf16" : "fp16", class_names[which], k, in.name, host_d.size(), differ, differ_alone, digest);
                    if (&in != instructions) continue;
                    snprintf(path, sizeof(path), "%s/%s-%s-%d.u32", folder, f ? "bf16" : "fp16", class_names[which], k);
                    FILE *to = fopen(path, "wb");
                    if (!to || fwrite(host_d.data(), 4, RESULTS, to) != RESULTS || fclose(to)) return perror(path), 1;
                }
            }
    return fclose(cases) ? 1 : 0;
}
