/* Ascending order of 64-bit integers, of doubles and of texts, and the median. All sort the caller's array in place. */
#pragma once

#include <stddef.h>
#include <stdint.h>

void rp_sort_int64(int64_t *v, size_t n);
void rp_sort_double(double *v, size_t n); /* no NaN among them */
void rp_sort_text(const char **v, size_t n); /* by bytes */
double rp_median(double *v, size_t n);    /* n > 0; the mean of the two in the middle where n is even */
