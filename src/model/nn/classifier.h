/* A linear classifier with softmax cross-entropy: logits = x W^T + b, a loss per row, and their weighted sum.
 *
 * What:    R rows, H wide, C classes: a decoder over a vocabulary, or two classes.
 * Flow:    declare() -> forward(x, labels, coef) -> one loss; backward() -> gradients of W, b and x. The logits become
 *          their own gradient.
 * Owner:   pointers are set by the model's list of tensors; weights are declared by the model, under its public names.
 */
#pragma once

#include "model/model.h"

struct rp_nn_classifier {
    rp_stored *w, *logits; /* [C, H], [R, C] */
    float *b, *loss;       /* [C], [R] */
    int rows, width, classes;
};

/* c: complete except for pointers. logits, loss: names of these tensors, which belong to `stage`. */
void rp_nn_classifier_declare(struct rp_net *m, struct rp_nn_classifier *c, const char *logits, const char *loss,
                              int stage);
/* *sum = weighted_sum(coef, loss), on the device */
void rp_nn_classifier_forward(struct rp_net *m, const struct rp_nn_classifier *c, float *sum, const rp_stored *x,
                              const int32_t *labels, const float *coef);
/* dx [R, H] may be x. */
void rp_nn_classifier_backward(struct rp_net *m, const struct rp_nn_classifier *c, rp_stored *dx, const rp_stored *x);
