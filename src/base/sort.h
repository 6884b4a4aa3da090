/* Sorting numbers in time that no input makes worse.
 *
 * What:    ascending order of 64-bit integers and of doubles, and the median.
 * Flow:    array in, the same array in order out; least significant byte first, bytes that all have in common cost nothing.
 * Owner:   the caller's array; as much memory again while it lasts.
 * Extend:  another type maps its order onto that of unsigned integers, as doubles do.
 *
 * A C library's qsort() asks a function for every comparison, and musl's moves every number by memcpy(): a run of 400,000 steps spent half
 * of its verification there.
 */
#ifndef RP_BASE_SORT_H
#define RP_BASE_SORT_H

#include <stddef.h>
#include <stdint.h>

void rp_sort_int64(int64_t *v, size_t n);
void rp_sort_double(double *v, size_t n); /* no NaN among them */
double rp_median(double *v, size_t n);    /* sorts them; n > 0; the mean of the two in the middle */

#endif
