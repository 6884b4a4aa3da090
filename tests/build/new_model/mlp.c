/* A model for tests/build/new_model.sh: a perceptron of two layers on small images. It uses what BERT does not: weights
 * that are initialised by their fan, an untrained buffer, a loss without parts, samples without counters. */
#include "model/nn/classifier.h"
#include "model/nn/linear.h"

#include <math.h>

struct mlp {
    struct rp_net net;
    int pixels, hidden, classes, batch;
    rp_stored *w, *x, *u, *g, *dg; /* x: the pixels as they are stored */
    float *b;
    struct rp_nn_classifier head;
};

struct mlp_input {
    struct rp_input in;
    float *x; /* [batch, pixels] */
    int32_t *labels;
    float *coef;
};

static void configure(struct rp_net *net, const struct rp_recipe *r)
{
    struct mlp *m = (struct mlp *)net;
    m->pixels = (int)(r->model_image_size * r->model_image_size);
    m->hidden = (int)r->model_hidden_width;
    m->classes = (int)r->model_classes;
    m->batch = (int)net->batch;
}

static void add(struct rp_net *net, enum rp_tensor_class class, struct rp_tensor t)
{
    rp_tensors_add(&net->tensors[class], &t);
}

static void declare(struct rp_net *net)
{
    struct mlp *m = (struct mlp *)net;
    m->head = (struct rp_nn_classifier){.rows = m->batch, .width = m->hidden, .classes = m->classes};
    add(net, RP_WEIGHT,
        (struct rp_tensor){.name = "hidden.weight", .at = &m->w, .dim = {m->hidden, m->pixels},
                           .init = RP_INIT_TRUNCATED_NORMAL, .fan = m->pixels});
    add(net, RP_WEIGHT, (struct rp_tensor){.name = "hidden.bias", .at = &m->b, .dim = {m->hidden}});
    add(net, RP_WEIGHT,
        (struct rp_tensor){.name = "output.weight", .at = &m->head.w, .dim = {m->classes, m->hidden},
                           .init = RP_INIT_TRUNCATED_NORMAL, .stage = 1});
    add(net, RP_WEIGHT, (struct rp_tensor){.name = "output.bias", .at = &m->head.b, .dim = {m->classes}, .stage = 1});
    add(net, RP_BUFFER, (struct rp_tensor){.name = "input.scale", .dim = {3}, .init = RP_INIT_ONE});
    add(net, RP_ACTIVATION,
        (struct rp_tensor){.name = "pixels", .at = &m->x, .dtype = RP_STORED, .dim = {m->batch, m->pixels},
                           .made_by = "round_stored"});
    add(net, RP_ACTIVATION,
        (struct rp_tensor){
            .name = "hidden", .at = &m->u, .dtype = RP_STORED, .dim = {m->batch, m->hidden}, .made_by = "gemm"});
    add(net, RP_ACTIVATION,
        (struct rp_tensor){.name = "hidden after GELU", .at = &m->g, .dtype = RP_STORED, .dim = {m->batch, m->hidden},
                           .made_by = "gelu_forward"});
    rp_nn_classifier_declare(net, &m->head, "logits", "loss", 1);
    add(net, RP_ACTIVATION, (struct rp_tensor){.name = "mean loss", .at = &net->loss, .dim = {1}});
    add(net, RP_SCRATCH,
        (struct rp_tensor){
            .name = "gradient of hidden", .at = &m->dg, .dtype = RP_STORED, .dim = {m->batch, m->hidden}});
    rp_net_work(net, m->batch, m->hidden);
    rp_linear_use(net, m->batch, m->pixels, m->hidden, 0);
    rp_net_use_rows(net, RP_OP_round_stored, m->batch, m->pixels);
    rp_net_use_rows(net, RP_OP_gelu_forward, m->batch, m->hidden);
    rp_net_use_rows(net, RP_OP_gelu_backward, m->batch, m->hidden);
}

static void declare_input(struct rp_net *net, struct rp_input *input)
{
    const struct mlp *m = (const struct mlp *)net;
    struct mlp_input *in = (struct mlp_input *)input;
    add(net, RP_INPUT, (struct rp_tensor){.name = "pixels", .at = &in->x, .dim = {m->batch, m->pixels}});
    add(net, RP_INPUT, (struct rp_tensor){.name = "label", .at = &in->labels, .dtype = RP_I32, .dim = {m->batch}});
    add(net, RP_INPUT, (struct rp_tensor){.name = "coefficients", .at = &in->coef, .dim = {m->batch}});
}

static int fields(const struct rp_net *net, struct rp_sample_field *f)
{
    const struct mlp *m = (const struct mlp *)net;
    f[0] = (struct rp_sample_field){"image", RP_U8, m->pixels, 0};
    f[1] = (struct rp_sample_field){"label", RP_I32, 1, m->classes};
    return 2;
}

static int prepare(const struct rp_net *net, struct rp_input *input, void *const *column, struct rp_err *err)
{
    const struct mlp *m = (const struct mlp *)net;
    struct mlp_input *in = (struct mlp_input *)input;
    (void)err;
    for (int i = 0; i < m->batch * m->pixels; i++)
        in->x[i] = (float)((const uint8_t *)column[0])[i] * (1.0f / 128.0f) - 1.0f;
    for (int b = 0; b < m->batch; b++) /* the trainer copies the labels */
        in->coef[b] = 1.0f / (float)m->batch;
    return 0;
}

static struct rp_linear hidden_layer(const struct mlp *m)
{
    return (struct rp_linear){.w = m->w, .b = m->b, .rows = m->batch, .in = m->pixels, .out = m->hidden};
}

static int forward(struct rp_net *net, const struct rp_input *input, struct rp_err *err)
{
    struct mlp *m = (struct mlp *)net;
    const struct mlp_input *in = (const struct mlp_input *)input;
    const struct rp_linear hidden = hidden_layer(m);
    net->dev->op->round_stored(net->dev, m->x, in->x, NULL, (size_t)m->batch * (size_t)m->pixels);
    rp_linear_forward(net, &hidden, m->u, m->x);
    net->dev->op->gelu_forward(net->dev, m->g, m->u, m->batch, m->hidden);
    rp_nn_classifier_forward(net, &m->head, net->loss, m->g, in->labels, in->coef);
    return rp_net_alive(net, err);
}

static int backward(struct rp_net *net, const struct rp_input *input, struct rp_err *err)
{
    struct mlp *m = (struct mlp *)net;
    const struct rp_linear hidden = hidden_layer(m);
    (void)input;
    rp_nn_classifier_backward(net, &m->head, m->dg, m->g);
    net->dev->op->gelu_backward(net->dev, m->dg, rp_net_vector_grad(net, m->b), m->dg, m->u, m->batch, m->hidden,
                                net->work);
    rp_linear_wgrad(net, &hidden, m->dg, m->x);
    return rp_net_alive(net, err);
}

static double flops(const struct rp_net *net)
{
    const struct mlp *m = (const struct mlp *)net;
    return 6.0 * m->hidden * (m->pixels + m->classes);
}

static void untrained(const struct rp_net *net, double *guessing, double *logit_width)
{
    const struct mlp *m = (const struct mlp *)net;
    *guessing = log(m->classes);
    *logit_width = (double)net->init_range * sqrt(m->hidden);
}

extern const struct rp_model rp_model_mlp;
const struct rp_model rp_model_mlp = {
    .name = "mlp",
    .sample_unit = "images",
    .flops_formula = "6 * width * (pixels + classes) per image",
    .size = sizeof(struct mlp),
    .input_size = sizeof(struct mlp_input),
    .configure = configure,
    .declare = declare,
    .declare_input = declare_input,
    .fields = fields,
    .prepare = prepare,
    .forward = forward,
    .backward = backward,
    .flops = flops,
    .untrained = untrained,
};
