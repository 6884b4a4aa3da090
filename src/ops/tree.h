/* The two shapes of summation that repro-fp32/1 is built from, as integer arithmetic shared by every backend.
 *
 * What:    the split of a balanced tree, and the padded row stride that dropout counts elements with.
 * Flow:    sizes -> sizes.    Owner: none.    Extend: never; a change here is a new version of the arithmetic.
 */
#pragma once

/* A balanced tree over n >= 2 leaves splits at the largest power of two below n: 2->1, 3->2, 5->4, 8->4. */
static inline long rp_tree_split(long n)
{
    long s = 1;
    while (2 * s < n)
        s *= 2;
    return s;
}

/* Rows of dropout decisions are counted with the width rounded up to 128: every row starts on a whole Philox block and
 * a whole 16-byte word of mask bits. */
static inline long rp_mask_stride(long width)
{
    return (width + 127) & ~127l;
}
