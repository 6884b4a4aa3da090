// Bare tensor-core instructions on the operands of tensor_operands.h, compared with the model of src/ops/tensor_core.h,
// result by result. Compile it with -I src.
//
// usage: tensor_probe [TILES [FOLDER]]     TILES = 16 of each class; what was computed goes to FOLDER
// stdout: one JSON object a line, {"device": ...} and then one of each format, class, number of chained instructions
// and instruction: how many results, how many differ from the model, and a digest of all of them. FOLDER/cases.jsonl
// has the first results that differ with their operands, FOLDER/FORMAT-CLASS-K.u32 those of the first tile by
// mma.m16n8k16.
// Exit status: 0 whatever was found, 7 no GPU, 1 something failed.
#include <cuda_runtime.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <thread>
#include <vector>

#include "tensor_operands.h"

enum { ROWS = TENSOR_ROWS, COLS = TENSOR_COLS, MOST_K = TENSOR_MOST_K, RESULTS = TENSOR_RESULTS };

// --- the instructions ---
template <rp_tc_format F> __device__ void mma_k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
#if __CUDA_ARCH__ >= 800
    if (F == RP_TC_FP16)
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
template <rp_tc_format F> __device__ void mma_k8(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t b)
{
#if __CUDA_ARCH__ >= 800
    if (F == RP_TC_BF16)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a0), "r"(a1), "r"(b));
#endif
#if __CUDA_ARCH__ >= 750
    if (F == RP_TC_FP16)
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
template <rp_tc_format F, int STEP> __global__ void probe_mma(const uint16_t *as, const uint16_t *bs, const float *cs,
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
#define WGMMA(N, TYPE, HALF, X, Y)                                                                                     \
    asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE   \
                 " {" LIST##HALF "}, %" #X ", %" #Y ", p, 1, 1, 0, 0;}"                                                \
                 : R##HALF(0)                                                                                          \
                 : "l"(x), "l"(y))
#define WGMMA_N(N, HALF, X, Y)                                                                                         \
    template <rp_tc_format F> __device__ void wgmma_shared(float (&d)[HALF], uint64_t x, uint64_t y)                  \
    {                                                                                                                  \
        if (F == RP_TC_FP16)                                                                                          \
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
template <rp_tc_format F> __device__ void wgmma_registers(float (&d)[32], const uint32_t (&a)[4], uint64_t y)
{
    if (F == RP_TC_FP16)
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
template <rp_tc_format F, int N, bool REGISTERS, int STEPS>
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
template <rp_tc_format F, int N, bool REGISTERS>
__global__ void probe_wgmma(const uint16_t *a, const uint16_t *b, const float *c, float *d, int k)
{
    if (k == 16) {
        wgmma_tile<F, N, REGISTERS, 1>(a, b, c, d);
    } else {
        wgmma_tile<F, N, REGISTERS, MOST_K / 16>(a, b, c, d);
    }
}

// --- the comparison ---
static void must(cudaError_t status, const char *what)
{
    if (status == cudaSuccess) return;
    fprintf(stderr, "tensor_probe: %s: %s\n", what, cudaGetErrorString(status));
    exit(1);
}
static rp_tc block_of(int capability, bool k8)
{
    static const rp_tc tc16 = RP_TC16, tc16_k8 = RP_TC16_K8, tc8 = RP_TC8;
    return capability < 90 ? tc8 : k8 ? tc16_k8 : tc16;
}
typedef void (*kernel)(const uint16_t *, const uint16_t *, const float *, float *, int);
struct instruction {
    const char *name;
    kernel run[2]; // fp16, bf16
    bool k8, wgmma;
};
#define BOTH(...) {__VA_ARGS__}
static const instruction instructions[] = {
    {"mma.m16n8k16", BOTH(probe_mma<RP_TC_FP16, 16>, probe_mma<RP_TC_BF16, 16>), false, false},
    {"mma.m16n8k8", BOTH(probe_mma<RP_TC_FP16, 8>, probe_mma<RP_TC_BF16, 8>), true, false},
    {"wgmma.m64n8k16", BOTH(probe_wgmma<RP_TC_FP16, 8, false>, probe_wgmma<RP_TC_BF16, 8, false>), false, true},
    {"wgmma.m64n64k16", BOTH(probe_wgmma<RP_TC_FP16, 64, false>, probe_wgmma<RP_TC_BF16, 64, false>), false, true},
    {"wgmma.m64n128k16", BOTH(probe_wgmma<RP_TC_FP16, 128, false>, probe_wgmma<RP_TC_BF16, 128, false>), false, true},
    {"wgmma.m64n256k16", BOTH(probe_wgmma<RP_TC_FP16, 256, false>, probe_wgmma<RP_TC_BF16, 256, false>), false, true},
    {"wgmma.m64n64k16 with a in registers", BOTH(probe_wgmma<RP_TC_FP16, 64, true>, probe_wgmma<RP_TC_BF16, 64, true>),
     false, true},
};

static std::vector<uint16_t> host_a, host_b;
static std::vector<uint32_t> host_c, host_d, expected[2]; // [1]: in blocks of half the instruction, for k8
static void model(rp_tc_format format, rp_tc block, int tiles, int k, std::vector<uint32_t> &to)
{
    const int count = (int)std::thread::hardware_concurrency() ? (int)std::thread::hardware_concurrency() : 1;
    std::vector<std::thread> threads;
    to.resize((size_t)tiles * RESULTS);
    for (int t = 0; t < count; t++)
        threads.emplace_back([=, &to] {
            for (int r = t; r < tiles * ROWS; r += count)
                for (int j = 0; j < COLS; j++)
                    to[(size_t)r * COLS + j] =
                        rp_tc_chain(format, block, &host_a[(size_t)r * MOST_K],
                                    &host_b[((size_t)(r / ROWS) * COLS + j) * MOST_K], host_c[(size_t)r * COLS + j], k);
        });
    for (std::thread &thread : threads) thread.join();
}
static void write_case(FILE *to, rp_tc_format format, int which, const instruction *in, int k, size_t at, uint32_t got,
                       uint32_t want)
{
    const size_t row = at / COLS, tile = row / ROWS, col = at % COLS;
    fprintf(to, "{\"format\": \"%s\", \"class\": \"%s\", \"instruction\": \"%s\", \"a\": \"",
            tensor_format_name(format), tensor_class_name(which), in->name);
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
        for (int which = 0; which < TENSOR_CLASS_COUNT; which++)
            for (int k = 16; k <= MOST_K; k += 48) {
                const int tiles = tensor_tiles(most, k);
                const rp_tc_format format = (rp_tc_format)f;
                host_a.resize((size_t)tiles * ROWS * MOST_K), host_b.resize((size_t)tiles * COLS * MOST_K);
                host_c.resize((size_t)tiles * RESULTS), host_d.resize(host_c.size());
                tensor_operands(format, which, k, tiles, host_a.data(), host_b.data(), host_c.data());
                model(format, block_of(capability, false), tiles, k, expected[0]);
                model(format, block_of(capability, true), tiles, k, expected[1]);
                must(cudaMemcpy(a, host_a.data(), host_a.size() * 2, cudaMemcpyHostToDevice), "copy of a");
                must(cudaMemcpy(b, host_b.data(), host_b.size() * 2, cudaMemcpyHostToDevice), "copy of b");
                must(cudaMemcpy(c, host_c.data(), host_c.size() * 4, cudaMemcpyHostToDevice), "copy of c");
                for (const instruction &in : instructions) {
                    if (in.wgmma && capability != 90) continue;
                    must(cudaMemset(d, 0xa5, host_d.size() * 4), "poison");
                    in.run[f]<<<tiles, 128>>>(a, b, c, d, k);
                    must(cudaDeviceSynchronize(), in.name);
                    must(cudaMemcpy(host_d.data(), d, host_d.size() * 4, cudaMemcpyDeviceToHost), "copy of d");
                    size_t differ = 0, differ_alone = 0;
                    for (size_t i = 0; i < host_d.size(); i++) {
                        const uint32_t want = expected[in.k8][i];
                        if (host_d[i] == want) continue;
                        if (differ++ < 40) write_case(cases, format, which, &in, k, i, host_d[i], want);
                        // Two NaNs with other bits, or zeros of another sign
                        if (((host_d[i] & 0x7fffffff) > RP_TC_INF && (want & 0x7fffffff) > RP_TC_INF) ||
                            !((host_d[i] | want) & 0x7fffffff))
                            differ_alone++;
                    }
                    printf(
                        "{\"format\": \"%s\", \"class\": \"%s\", \"k\": %d, \"instruction\": \"%s\", \"results\": %zu, "
                        "\"differ\": %zu, \"differ_in_nan_or_zero_sign\": %zu, \"digest\": \"%016" PRIx64 "\"}\n",
                        tensor_format_name(format), tensor_class_name(which), k, in.name, host_d.size(), differ,
                        differ_alone, tensor_digest(host_d.data(), host_d.size()));
                    if (&in != instructions)
                        continue;
                    snprintf(path, sizeof(path), "%s/%s-%s-%d.u32", folder, tensor_format_name(format),
                             tensor_class_name(which), k);
                    FILE *to = fopen(path, "wb");
                    if (!to || fwrite(host_d.data(), 4, RESULTS, to) != RESULTS || fclose(to)) return perror(path), 1;
                }
            }
    return fclose(cases) ? 1 : 0;
}
