/* In front of a .cu file: each fused multiply-add that its source writes gets a comment of its own in the PTX, so that
 * one without the comment is the compiler's work. */
static __device__ __forceinline__ float rp_written_fma(float x, float y, float z)
{
    float r;
    asm("fma.rn.f32 %0, %1, %2, %3; // written" : "=f"(r) : "f"(x), "f"(y), "f"(z));
    return r;
}
#define fmaf(x, y, z) rp_written_fma(x, y, z)
#define __fmaf_rn(x, y, z) rp_written_fma(x, y, z)
