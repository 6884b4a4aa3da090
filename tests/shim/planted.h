/* The arguments of planted.def's kernels. */
#ifndef RP_TESTS_SHIM_PLANTED_H
#define RP_TESTS_SHIM_PLANTED_H

/* out and in: n floats each, and nothing around them */
struct rp_planted_args {
    float *out;
    const float *in;
    int n;
};

#endif
