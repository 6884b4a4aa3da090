#include "model/nn/classifier.h"

#include "model/nn/linear.h"

void rp_nn_classifier_declare(struct rp_net *m, struct rp_nn_classifier *c, const char *logits, const char *loss,
                              int stage)
{
    struct rp_tensors *l = &m->tensors[RP_ACTIVATION];
    rp_tensors_add(l, &(struct rp_tensor){.name = logits, .at = &c->logits, .dtype = RP_STORED,
                                          .dim = {c->rows, c->classes}, .stage = stage, .shard = 2});
    rp_tensors_add(
        l, &(struct rp_tensor){
               .name = loss, .at = &c->loss, .dim = {c->rows}, .stage = stage, .made_by = "gemm or softmax_xent"});
    rp_net_work(m, c->rows, c->classes);
    rp_linear_use(m, c->rows, c->width, c->classes, 0);
    rp_net_use_rows(m, RP_OP_softmax_xent, c->rows, c->classes);
    rp_net_use_rows(m, RP_OP_colsum, c->rows, c->classes);
    rp_net_use_rows(m, RP_OP_weighted_sum, c->rows, 1);
}

static struct rp_linear layer_of(const struct rp_nn_classifier *c)
{
    return (struct rp_linear){.w = c->w, .b = c->b, .rows = c->rows, .in = c->width, .out = c->classes};
}

void rp_nn_classifier_forward(struct rp_net *m, const struct rp_nn_classifier *c, float *sum, const rp_stored *x,
                              const int32_t *labels, const float *coef)
{
    const struct rp_linear l = layer_of(c);
    rp_linear_forward(m, &l, c->logits, x);
    m->dev->op->softmax_xent(m->dev, c->loss, c->logits, c->classes, labels, coef, m->loss_scale, c->rows, c->classes,
                             1);
    m->dev->op->weighted_sum(m->dev, sum, c->loss, coef, c->rows);
}

void rp_nn_classifier_backward(struct rp_net *m, const struct rp_nn_classifier *c, rp_stored *dx, const rp_stored *x)
{
    const struct rp_linear l = layer_of(c);
    if (c->b)
        m->dev->op->colsum(m->dev, rp_net_vector_grad(m, c->b), c->logits, c->rows, c->classes, m->work);
    rp_linear_wgrad(m, &l, c->logits, x);
    rp_linear_dgrad(m, &l, dx, c->logits, NULL);
}
