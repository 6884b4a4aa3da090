/* How many products of a step could be left out without changing a bit.
 *
 * What:    counts the products (multiply-adds) of matrix products, convolutions and attention on a device whose memory
 *          the host reads, and those that need not be computed: with a factor that is exactly 0, in a sum that its bias
 *          absorbs, in a row that is the one before again, in attention to a single key.
 * Flow:    rp_products_begin() -> operations of a step -> rp_products_end().
 * Owner:   one device at a time counts; its operations are its own again after the end.
 * Extend:  another operation with products is a function in products.c that counts and calls the device's.
 */
#pragma once

#include "backend/backend.h"

struct rp_products {
    double all, spared;
};

/* The share of products that are needed; NAN: there were none. */
double rp_products_needed(const struct rp_products *p);
void rp_products_begin(struct rp_dev *dev);
struct rp_products rp_products_end(struct rp_dev *dev);
