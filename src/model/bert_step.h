/* One optimizer step of BERT over all its micro-batches.
 *
 * What:    forward and backward of every micro-batch, the tree over them, norm, clipping, update; and who is to blame for a NaN.
 * Flow:    samples in the slots (rp_bert_input) -> new parameters and moments in place, figures in struct rp_bert_result.
 * Owner:   model and optimizer are borrowed.
 * Extend:  another figure of a step is a field of the result.
 */
#ifndef RP_MODEL_BERT_STEP_H
#define RP_MODEL_BERT_STEP_H

#include "model/bert.h"
#include "model/optim.h"

struct rp_bert_result {
    float loss, mlm, nsp; /* means over micro-batches: tree sum * (1/G) */
    float norm;           /* of the mean gradient, before clipping */
};

/* step counts from 0 over the whole training: dropout counters and the schedule hang on it. A loss or norm that is not finite is
 * RP_MISMATCH naming step, tensor and operation, and leaves parameters as they were. */
int rp_bert_step(struct rp_bert *m, const struct rp_optim *o, int64_t step, struct rp_bert_result *out, struct rp_err *err)
    rp_must_check;

/* Gradients of all micro-batches summed into m->gradient[0], and sums of losses (not yet times 1/G). */
int rp_bert_gradient(struct rp_bert *m, int64_t step, struct rp_bert_result *sum, struct rp_err *err) rp_must_check;

/* The model's blocks as an optimizer walks them. */
struct rp_trained rp_bert_trained(const struct rp_bert *m);

#endif
