/* ResNet-50 v1.5: stem, four groups of bottleneck blocks with the stride in the 3x3 convolution, average pool, linear
 * classifier.
 *
 * Sizes in comments: B batch, P output pixels of a convolution, C channels. Images are NHWC everywhere; weights [out,
 * kh, kw, in].
 *
 *   block:  x -> conv1 1x1 -> norm, relu -> conv2 3x3 -> norm, relu -> conv3 1x1 -> norm -> + shortcut, relu -> y
 *           shortcut: x, or in the first block of a group a 1x1 convolution with the group's stride and a norm
 *
 * A batch norm takes the statistics of its micro-batch. Mean and variance are written where the tree over micro-batches
 * sums them, and move the running statistics once a step.
 *
 * Of a convolution its output x is kept, which its norm needs; y, what leaves the norm, is kept, or with
 * train.recompute selective computed again from x for conv1 and conv2, in memory that all blocks share.
 *
 * Before the first block, its y is not written yet: the normalised images, then the output of the stem's norm, are in
 * that memory. The backward pass computes both again there.
 *
 * Backward: only the gradient of the last block's output has memory of its own. Others take the place of what a block
 * kept and does not read again:
 *
 *   conv3 x  gradient of conv3's x, then of conv1's y and x
 *   y        gradient of conv2's y and x; in the first block of a group, together with the shortcut's x before it,
 *            gradient of the block's input
 *
 * In any other block the gradient of the input takes the place of that of the output. */
#pragma once

#include "model/model.h"

#define RP_RESNET_GROUPS 4

/* A convolution and its batch norm. */
struct rp_conv_norm {
    struct rp_conv c;
    rp_stored *w;                                     /* [out, kh, kw, in] */
    float *gamma, *beta, *running_mean, *running_var; /* [out] */
    /* [B, P, out] before and after the norm; y of conv1 and conv2 alone */
    rp_stored *x, *y;
    float *rstd;                                      /* [out] */
};

struct rp_resnet_block {
    struct rp_conv_norm conv[3], shortcut; /* of which out_c is 0 if there is none */
    rp_stored *y;
};

struct rp_resnet {
    struct rp_net net;
    int size, width, classes, blocks[RP_RESNET_GROUPS], all;
    /* decay_loss: half the factor of the squared weights in the loss, or 0 */
    float eps, smoothing, decay_loss;
    const char *excluded;                       /* from weight decay */
    /* padding as TensorFlow's SAME; the last norm of a block begins at 0; PyTorch's fc */
    int same, zero_gamma, fc_uniform;
    enum rp_conv_init init;
    enum rp_recompute recompute;
    float scale[3], shift[3];                   /* of pixels */
    struct rp_conv_norm stem;
    struct rp_conv pool;
    rp_stored *pooled;                          /* what enters the first block */
    uint8_t *which;                             /* places of the largest values */
    struct rp_resnet_block *block;
    rp_stored *features, *logits;               /* [B, C], [B, classes] */
    float *loss;                                /* [B] */
    int32_t *best;                              /* [B] */
    rp_stored *fc_w;                            /* [classes, C] */
    float *fc_b;
    /* scratch: gradient of the last block's output; of weight gradients; of the squared weights */
    rp_stored *grad;
    float *dw_work, *squares, *half;
    size_t inner_elements[2], dw_floats;        /* the most of the y of conv1 and conv2, and of dw_work */
};

struct rp_resnet_input {
    struct rp_input in;
    uint8_t *image;                             /* [B, size, size, 3] */
    int32_t *label;                             /* [B] */
    float *coef;                                /* [B] */
};

/* forward(), measure() and backward() of struct rp_model. */
int rp_resnet_forward(struct rp_net *net, const struct rp_input *input, struct rp_err *err) rp_must_check;
int rp_resnet_measure(struct rp_net *net, struct rp_input *input, struct rp_err *err) rp_must_check;
int rp_resnet_backward(struct rp_net *net, const struct rp_input *input, struct rp_err *err) rp_must_check;
