/* GPT-2: learned positions, pre-norm decoder layers with causal attention, final norm, and logits from the token
 * embedding itself.
 *
 * Sizes in comments: B batch, S seq, R = B * S rows, H hidden, I inner, V rows of the embedding (the padded
 * vocabulary).
 *
 * Dropout sites: 0 embeddings; layer l from 0: 3l+1 attention probabilities, 3l+2 attention output, 3l+3 feed-forward
 * output.
 *
 * z [R, H] is the sum of residuals. Every norm adds the output of the branch before it to z, keeps the normalised sum
 * (kept), and writes y [R, H], which all norms share: backward makes it again from what was kept. In the backward pass
 * z is the gradient of the sum and dt [R, H] that of the branch's output; y is overwritten by the gradient of y; mlp.g
 * by those of g, u and ctx, mlp.u by that of qkv.
 *
 * Logits exist for RP_GPT_BLOCK rows at a time. As their loss needs no other row, their gradients are computed at once,
 * in the forward pass: the weight gradient of each block is one chain (RP_SEGMENT_WGRAD rows) added to that of the
 * blocks before it.
 *
 * A stage of several has the layers [from, to): z is what it receives and passes on, forward the sum of residuals after
 * the last layer's branch, backward its gradient. The first stage owns the word embedding; the last one has a copy for
 * the logits, whose gradient it computes. t tensor-parallel ranks divide heads, I and V; z, y and dt are whole on each,
 * and equal.
 *
 * train.recompute: `selective` keeps no ctx, decisions of attention dropout, row maxima and sums, and no output of
 * GELU; `full` keeps of each layer only its input and the decisions of its last dropout. Backward makes the rest again,
 * with the same bits. */
#pragma once

#include "model/model.h"
#include "model/nn/attention.h"
#include "model/nn/groups.h"
#include "model/nn/mlp.h"
#include "model/nn/vocabulary.h"

#define RP_GPT_BLOCK RP_SEGMENT_WGRAD

/* y = norm of z after it received the output of a branch */
struct rp_gpt_norm {
    float *w, *b;       /* [H] */
    rp_stored *kept;    /* [R, H], see struct rp_layernorm; the branch's output is written to it */
    float *mean, *rstd; /* [R]; mean in mixed precision alone */
    uint8_t *mask;      /* decisions of the branch's dropout */
    rp_stored *z;       /* the sum: the net's, or this layer's own if layers are computed again */
    int site;           /* of the branch's dropout; -1: no branch comes before, z has been computed */
};

struct rp_gpt_layer {
    struct rp_gpt_norm norm1, norm2; /* before attention, before the feed-forward part */
    struct rp_nn_attention attention;
    struct rp_nn_mlp mlp;
};

struct rp_gpt {
    struct rp_net net;
    int vocab, padded, hidden, layers, inner, positions, seq, batch, rows;
    int heads, words;     /* of this rank; words: rows of the embedding */
    int from, to;         /* layers of this stage */
    int is_first, is_last; /* stage */
    float eps;
    double hidden_dropout, attention_dropout, embedding_dropout;
    int eod, no_eod_loss, reset_positions, reset_attention; /* task.eod_token, and what it does to a sequence */
    /* of the micro-batch, see struct rp_attention; NULL: documents attend to those before them */
    const int32_t *first_key;
    enum rp_recompute recompute;
    enum rp_activation act;
    rp_stored *word, *position; /* [V, H], [positions, H] */
    struct rp_gpt_layer *layer;
    struct rp_gpt_norm last;
    /* decisions of the dropout of embeddings, and of the last branch of a stage that others follow */
    uint8_t *mask0, *mask_out;
    float *mean_out, *rstd_out; /* scratch of such a stage */
    struct rp_nn_loss xent;
    rp_stored *z, *y, *dt; /* [R, H] */
    rp_stored *logits;     /* [RP_GPT_BLOCK, V/t] */
    float *loss;           /* [R] */
};

struct rp_gpt_input {
    struct rp_input in;
    int32_t *ids, *labels;           /* [R], rows are b * S + s */
    int32_t *positions, *first_keys; /* [R]; NULL unless documents reset positions, or attention */
    float *coef;                     /* [R] */
    struct rp_row_groups by_word, by_position; /* by_word: of this rank's rows */
    struct rp_nn_lookup lookup;
};

/* The attention of layer l from 0. */
struct rp_attention rp_gpt_attention(const struct rp_gpt *m, int l);
/* forward() and backward() of struct rp_model. */
int rp_gpt_forward(struct rp_net *net, const struct rp_input *input, struct rp_err *err) rp_must_check;
int rp_gpt_backward(struct rp_net *net, const struct rp_input *input, struct rp_err *err) rp_must_check;
