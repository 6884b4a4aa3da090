/* The arguments of planted.def's kernels. */
#pragma once

/* out and in: n floats each, and nothing around them */
struct rp_planted_args {
    float *out;
    const float *in;
    int n;
};
