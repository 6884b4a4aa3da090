/* BERT pre-training as its authors published it: the model, its memory, one micro-batch forward and backward.
 *
 * What:    embeddings (word, position, type), post-LN encoder layers with erf GELU, pooler, masked-language-model head with the tied
 *          decoder, next-sentence head. bert_tensors.def lists the trained tensors, bert.c lays out memory, bert_input.c prepares
 *          samples, bert_forward.c and bert_backward.c are the mathematics.
 * Flow:    rp_bert_size() counts without allocating; rp_bert_open() allocates from the same layout; rp_bert_input() puts samples into a
 *          micro-batch's slot; rp_bert_forward() -> loss; rp_bert_backward() -> one gradient block, every element written.
 * Owner:   struct rp_bert owns host memory only; the backend owns every block.
 * Extend:  a tensor is a row of bert_tensors.def and its use; an activation is a line in lay_activations() of bert.c.
 *
 * Names of sizes in comments: B batch, S seq, R = B * S rows, H hidden, I inner, L layers, V vocab, M = B * predictions.
 *
 * Dropout sites (the `op id` of a Philox counter): 0 embeddings; layer l: 3l+1 attention probabilities, 3l+2 attention output,
 * 3l+3 feed-forward output. Sample index: position in the global batch of the step, micro-batch * B + b.
 *
 * Losses of a micro-batch: mlm = weighted_sum(coef, loss) with coef[i] = w[i] / (sum128(w) + 1e-5f), all M slots counted (an unused
 * slot has weight 0); nsp = weighted_sum with coef 1/B; loss = mlm + nsp.
 */
#ifndef RP_MODEL_BERT_H
#define RP_MODEL_BERT_H

#include "backend/backend.h"
#include "model/manifest.h"
#include "recipe/recipe.h"

#include <stdint.h>

struct rp_bert_config {
    int vocab, hidden, layers, heads, inner, positions, types;
    int pair, none;                 /* 2 and 0, so that the tensor list can name them */
    int seq, predictions, batch;    /* batch: sequences per micro-batch */
    int micros;                     /* micro-batches per step */
    int moments;                    /* blocks of optimizer state: 2 */
    float eps, init_range;
    double hidden_dropout, attention_dropout;
    uint64_t seed_init, seed_dropout;
};

/* From a recipe; batch may still be RP_BATCH_MAX. */
int rp_bert_config_from(struct rp_bert_config *c, const struct rp_recipe *r, struct rp_err *err) rp_must_check;

/* Its trained tensors, after those that *m has. */
void rp_bert_manifest(struct rp_manifest *m, const struct rp_bert_config *c);

/* Pointers to every tensor inside one block (parameters, or a gradient). qkv_w is [3H, H], qkv_b [3H]. */
struct rp_bert_layer_tensors {
#define LAYER(field, name, init, rows, cols, joined) float *field;
#include "model/bert_tensors.def"
};
struct rp_bert_tensors {
#define TENSOR(field, name, init, rows, cols, joined) float *field;
#include "model/bert_tensors.def"
    struct rp_bert_layer_tensors *layer; /* [L] */
};

/* What the forward pass keeps of a layer. The backward pass overwrites what it no longer needs:
 * y2 <- gradient of a dropout's input, g <- gradients of g and u, xhat1 <- gradient of ctx, u <- gradient of qkv. */
struct rp_bert_layer_acts {
    float *qkv;               /* [R, 3H] */
    float *ctx;               /* [R, H] attention output */
    float *row_max, *row_inv; /* [B * heads * S] */
    float *xhat1, *rstd1, *y1; /* [R, H], [R], [R, H] */
    float *u;                 /* [R, max(I, 3H)] feed-forward before GELU */
    float *g;                 /* [R, I] after */
    float *xhat2, *rstd2, *y2;
    uint8_t *mask_p, *mask1, *mask2; /* dropout decisions, one bit each */
};

struct rp_bert_acts {
    float *xhat0, *rstd0, *x0; /* [R, H], [R], [R, H]: x0 enters layer 0 */
    uint8_t *mask0;
    struct rp_bert_layer_acts *layer;
    float *h, *tu, *xhat_t, *rstd_t, *t; /* [M, H] (rstd_t [M]): gathered rows, transform before GELU, its layer norm */
    float *logits;                       /* [M, V], turned into its own gradient by the loss */
    float *mlm_loss;                     /* [M] */
    float *cls, *pool, *nsp_logits, *nsp_loss; /* [B, H], [B, H], [B, 2], [B] */
    float *loss;                         /* {mlm, nsp} */
};

/* One micro-batch as the device sees it; rows are b * S + s. */
struct rp_bert_input {
    int32_t *ids, *types;   /* [R] */
    uint8_t *key_mask;      /* [R] */
    int32_t *masked;        /* [M] row of each prediction */
    int32_t *labels;        /* [M] */
    float *coef;            /* [M] */
    int32_t *cls;           /* [B] row of the first token */
    int32_t *nsp_labels;    /* [B] */
    float *nsp_coef;        /* [B] */
    /* rows of R summed into each word, position and type; rows of M and of B summed into each row of R */
    struct rp_row_groups by_word, by_position, by_type, by_masked, by_cls;
    void *start;            /* the slot's first byte, so that one copy uploads it */
    size_t bytes;
    int64_t tokens;         /* key_mask = 1 */
};

/* Samples on the host, as a reader delivers them. */
struct rp_bert_samples {
    const int32_t *ids, *types;   /* [B, S] */
    const uint8_t *mask;          /* [B, S] */
    const int32_t *positions, *labels; /* [B, predictions], 0 where unused */
    const float *weights;         /* [B, predictions], 0 where unused */
    const int32_t *next;          /* [B] */
};

#define RP_GRADIENT_BLOCKS 18 /* a tree over 65536 micro-batches keeps at most 17 */

struct rp_bert {
    struct rp_bert_config c;
    struct rp_dev *dev;
    struct rp_manifest manifest;
    float *parameters, *moment[2];           /* blocks of manifest.floats */
    float *gradient[RP_GRADIENT_BLOCKS];
    int gradients;
    struct rp_bert_tensors w, dw;            /* dw is bound to the block of the micro-batch at hand */
    struct rp_bert_acts a;
    struct rp_bert_input *input;             /* [micros] */
    struct rp_bert_input staging;            /* host copy that one upload takes over */
    float *dy, *dpool;                       /* scratch [R, H], [B, H] */
    float *work;                             /* column sums */
    float *norm_chunks, *sums;               /* chunk sums of all tensors; sums: scalars, see optim.h */
    uint8_t *leaves;                         /* digests of one tensor's leaves */
    int (*alive)(void *);                    /* called between layers; nonzero: stop */
    void *alive_arg;
};

/* Bytes per class for this configuration, nothing allocated. *parameters may be NULL. */
void rp_bert_size(const struct rp_bert_config *c, uint64_t bytes[RP_CLASS_COUNT], uint64_t *parameters);
int rp_bert_gradient_blocks(int micros);
/* Model FLOPs per sequence: 3 * those of the forward matrix products, as rp_bert_flops_formula spells out. */
double rp_bert_flops(const struct rp_bert_config *c);
extern const char rp_bert_flops_formula[];

struct rp_bert *rp_bert_open(const struct rp_bert_config *c, struct rp_dev *dev, struct rp_err *err) rp_must_check;
void rp_bert_close(struct rp_bert *m);
int rp_bert_init(struct rp_bert *m, struct rp_err *err) rp_must_check; /* parameters from seed.init */
void rp_bert_bind(const struct rp_bert *m, struct rp_bert_tensors *t, float *block);

/* Check samples and sort the index groups, in host memory: touches nothing else of the model, so that another thread may do it. */
int rp_bert_prepare(const struct rp_bert_config *c, struct rp_bert_input *staging, const struct rp_bert_samples *s,
                    struct rp_err *err) rp_must_check;
/* ... and into the slot of micro-batch `micro`. */
int rp_bert_upload(struct rp_bert *m, int micro, const struct rp_bert_input *staging, struct rp_err *err) rp_must_check;
/* Both, through m->staging. */
int rp_bert_input(struct rp_bert *m, int micro, const struct rp_bert_samples *s, struct rp_err *err) rp_must_check;
/* Host memory for one micro-batch, to be freed by its `start`. */
void rp_bert_staging(const struct rp_bert_config *c, struct rp_bert_input *staging);

/* step: the dropout counter. Loss parts of the micro-batch to the host. */
int rp_bert_forward(struct rp_bert *m, int micro, int64_t step, float *mlm, float *nsp, struct rp_err *err) rp_must_check;
/* Gradient of the micro-batch's loss into `block`; follows rp_bert_forward() of the same micro-batch. */
int rp_bert_backward(struct rp_bert *m, int micro, int64_t step, float *block, struct rp_err *err) rp_must_check;

/* After a loss that is not finite: RP_MISMATCH naming the step and the first tensor in forward order, with its operation, that holds
 * NaN or Inf. Always -1. To be called between forward and backward. */
int rp_bert_blame_forward(struct rp_bert *m, int64_t step, int micro, struct rp_err *err);

/* Shared by forward and backward. */
struct rp_dropout rp_bert_dropout(const struct rp_bert *m, double p, int64_t step, int site, int micro, int rows_per_sample);
struct rp_attention rp_bert_attention(const struct rp_bert *m, int micro, int64_t step, int layer);
int rp_bert_alive(const struct rp_bert *m, struct rp_err *err) rp_must_check; /* -1 with RP_INTERRUPTED when told to stop */

#endif
