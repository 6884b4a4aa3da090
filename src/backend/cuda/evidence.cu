/* Evidence: SHA-256 of the leaves of a tensor, and the first value that is not finite. */
#include "backend/cuda/device.h"

#include "backend/cuda/lanes.cuh"
#include "ops/ops.h"

/* ---- SHA-256 (FIPS 180-4): a thread for each leaf ----
 *
 * A leaf is a chain of 257 compressions, so a launch takes at least as long as one thread takes for them, and a small
 * tensor does not fill the GPU; blocks of one warp spread over all multiprocessors. A thread reads 64 bytes, whole
 * sectors, at a time and prefetches the next ones. */

#define LEAF_WORDS (RP_LEAF_BYTES / 4)

RP_CONSTANT uint32_t sha256_k[64] = {
    0x428a2f98u, 0x71374491u, 0xb5c0fbcfu, 0xe9b5dba5u, 0x3956c25bu, 0x59f111f1u, 0x923f82a4u, 0xab1c5ed5u, 0xd807aa98u, 0x12835b01u,
    0x243185beu, 0x550c7dc3u, 0x72be5d74u, 0x80deb1feu, 0x9bdc06a7u, 0xc19bf174u, 0xe49b69c1u, 0xefbe4786u, 0x0fc19dc6u, 0x240ca1ccu,
    0x2de92c6fu, 0x4a7484aau, 0x5cb0a9dcu, 0x76f988dau, 0x983e5152u, 0xa831c66du, 0xb00327c8u, 0xbf597fc7u, 0xc6e00bf3u, 0xd5a79147u,
    0x06ca6351u, 0x14292967u, 0x27b70a85u, 0x2e1b2138u, 0x4d2c6dfcu, 0x53380d13u, 0x650a7354u, 0x766a0abbu, 0x81c2c92eu, 0x92722c85u,
    0xa2bfe8a1u, 0xa81a664bu, 0xc24b8b70u, 0xc76c51a3u, 0xd192e819u, 0xd6990624u, 0xf40e3585u, 0x106aa070u, 0x19a4c116u, 0x1e376c08u,
    0x2748774cu, 0x34b0bcb5u, 0x391c0cb3u, 0x4ed8aa4au, 0x5b9cca4fu, 0x682e6ff3u, 0x748f82eeu, 0x78a5636fu, 0x84c87814u, 0x8cc70208u,
    0x90befffau, 0xa4506cebu, 0xbef9a3f7u, 0xc67178f2u,
};

RP_DEVICE uint32_t rotate(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

/* One round; the caller renames the eight words instead of moving them. */
RP_DEVICE void sha256_round(uint32_t s[8], int i, uint32_t k_and_w)
{
    uint32_t a = s[(0 - i) & 7], b = s[(1 - i) & 7], c = s[(2 - i) & 7], e = s[(4 - i) & 7], f = s[(5 - i) & 7], g = s[(6 - i) & 7];
    uint32_t t = s[(7 - i) & 7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + k_and_w;
    s[(3 - i) & 7] += t;
    s[(7 - i) & 7] = t + (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
}

/* w [16]: one block of the message; overwritten. */
RP_DEVICE void sha256_block(uint32_t state[8], uint32_t w[16])
{
    uint32_t s[8];
    RP_UNROLL
    for (int i = 0; i < 8; i++)
        s[i] = state[i];
    RP_UNROLL
    for (int i = 0; i < 16; i++)
        sha256_round(s, i, sha256_k[i] + w[i]);
    RP_NO_UNROLL
    for (int t = 16; t < 64; t += 16)
        RP_UNROLL
        for (int i = 0; i < 16; i++) {
            uint32_t x = w[(i + 1) & 15], y = w[(i + 14) & 15];
            w[i] += (rotate(x, 7) ^ rotate(x, 18) ^ x >> 3) + w[(i + 9) & 15] + (rotate(y, 17) ^ rotate(y, 19) ^ y >> 10);
            sha256_round(s, i, sha256_k[t + i] + w[i]);
        }
    RP_UNROLL
    for (int i = 0; i < 8; i++)
        state[i] += s[i];
}

/* A float's four bytes, little-endian in the message, whose words are big-endian. */
RP_DEVICE uint32_t message_word(float x)
{
    uint32_t b = __float_as_uint(x);
    b = (b & 0x7fffffffu) > 0x7f800000u ? 0x7fc00000u : b;
    return rp_swap_bytes(b);
}

struct quads {
    float4 q[4];
};

RP_DEVICE struct quads block_of_leaf(const float *x, int wide)
{
    struct quads v;
    RP_UNROLL
    for (int i = 0; i < 4; i++)
        v.q[i] = rp_get4(x + 4 * i, 4, wide);
    return v;
}

/* The blocks of 64 data bytes; x: the leaf. */
RP_DEVICE void sha256_data(uint32_t state[8], const float *x, int blocks, int wide)
{
    struct quads next;
    if (blocks)
        next = block_of_leaf(x, wide);
    RP_NO_UNROLL
    for (int b = 1; b <= blocks; b++) {
        uint32_t w[16];
        RP_UNROLL
        for (int i = 0; i < 4; i++) {
            w[4 * i] = message_word(next.q[i].x);
            w[4 * i + 1] = message_word(next.q[i].y);
            w[4 * i + 2] = message_word(next.q[i].z);
            w[4 * i + 3] = message_word(next.q[i].w);
        }
        if (b < blocks)
            next = block_of_leaf(x + (size_t)b * 16, wide);
        sha256_block(state, w);
    }
}

/* The remaining data, a one bit, zeros, and the number of bits: one or two blocks. */
RP_DEVICE void sha256_end(uint32_t state[8], const float *x, int words)
{
    int at = words & ~15, last = (words + 2) | 15;
    RP_NO_UNROLL
    for (; at < last; at += 16) {
        uint32_t w[16];
        RP_UNROLL
        for (int i = 0; i < 16; i++)
            w[i] = at + i < words ? message_word(x[at + i]) : at + i == words ? 0x80000000u : at + i == last ? 32u * (uint32_t)words : 0;
        sha256_block(state, w);
    }
}

RP_KERNEL(digest_leaves)
{
    size_t leaf = rp_thread(), first = leaf * LEAF_WORDS;
    if (first >= a.n)
        return;
    const float *x = a.x + first;
    int words = a.n - first < LEAF_WORDS ? (int)(a.n - first) : LEAF_WORDS;
    uint32_t state[8] = {0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au, 0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u};
    sha256_data(state, x, words / 16, a.wide);
    sha256_end(state, x, words);
    RP_UNROLL
    for (int i = 0; i < 8; i++)
        ((uint32_t *)(void *)a.leaves)[8 * leaf + (size_t)i] = rp_swap_bytes(state[i]);
}

/* ---- the first value that is NaN or infinite ---- */

RP_DEVICE int not_finite(float x)
{
    return (__float_as_uint(x) & 0x7f800000u) == 0x7f800000u;
}

/* *first: all ones before the kernel. A thread stops at the first it finds. */
RP_KERNEL(find_nonfinite)
{
    for (size_t i = 4 * rp_thread(); i < a.n; i += 4 * rp_threads()) {
        long n = a.n - i < 4 ? (long)(a.n - i) : 4;
        float4 v = rp_get4(a.x + i, n, a.wide && n == 4);
        int at = not_finite(v.x) ? 0 : not_finite(v.y) ? 1 : not_finite(v.z) ? 2 : not_finite(v.w) ? 3 : 4;
        if (at < 4) {
            atomicMin(a.first, (unsigned long long)i + (unsigned long long)at);
            return;
        }
    }
}
