/* Column sums: a thread for each column of 64 rows, so that a warp reads 128 bytes of a row at a time. */
#pragma once

struct strip {
    long at, out; /* first element in the tensor, and of the sum in work */
    int column;
    int rows;     /* 0: no such column */
};

RP_DEVICE struct strip strip_of(int rows, int width)
{
    unsigned strips = ((unsigned)width + blockDim.x - 1) / blockDim.x;
    long block = (long)(blockIdx.x / strips), row0 = block * RP_COLSUM_ROWS, left = rows - row0;
    int column = (int)(blockIdx.x % strips * blockDim.x + threadIdx.x);
    int there = left < RP_COLSUM_ROWS ? (int)left : RP_COLSUM_ROWS;
    struct strip s = {row0 * width + column, block * width + column, column, column < width ? there : 0};
    return s;
}
