/* Every list of choices of recipe keys, options and tables of other folders, each written once.
 *
 * What:    one X-macro list per choice, an enum of its values, the text "a|b" of keys.def and of option tables, and a
 *          lookup of names.
 * Flow:    RP_OPTIMIZERS -> enum rp_optimizer_id -> struct rp_recipe -> tables by designated initialisers,
 *          [RP_OPTIMIZER_lamb] = ...
 * Extend:  one word in a list, and its row in the tables that its enum indexes. Documents contain names: the order is
 *          free.
 */
#pragma once

#include "base/isa.h"

/* Each a struct rp_model rp_model_<name>; how to add one: model/model.h. */
#define RP_MODELS(X) X(bert) X(gpt) X(resnet50)
#define RP_ACTIVATIONS(X) X(gelu) X(gelu_tanh)
#define RP_RECOMPUTES(X) X(none) X(selective) X(full)
#define RP_CLIP_FORMS(X) X(norm) X(norm_plus_epsilon)
#define RP_PRECISIONS(X) X(fp32) X(fp16) X(bf16)
#define RP_TENSOR_CORES(X) X(auto) X(tc4) X(tc8) X(tc16)
#define RP_LOSS_SCALES(X) X(none) X(fixed) X(dynamic)
#define RP_GROWTH_FORMS(X) X(always) X(if_finite)
#define RP_ON_OVERFLOWS(X) X(hold) X(advance)
#define RP_OPTIMIZERS(X) X(adamw) X(lamb) X(sgd) X(lars)
#define RP_DECAY_FORMS(X) X(decay) X(loss)
#define RP_OPTIMIZER_STATES(X) X(sharded) X(replicated)
#define RP_PADDINGS(X) X(symmetric) X(same)
#define RP_CONV_INITS(X) X(fan_out) X(fan_in) X(truncated_fan_out) X(truncated_fan_in)
#define RP_CLASSIFIER_INITS(X) X(normal) X(uniform)
#define RP_DECAYS(X) X(constant) X(linear) X(sqrt) X(square) X(cosine) X(quadratic) X(step)
/* each a struct rp_data_format rp_data_format_<name> */
#define RP_DATA_FORMATS(X) \
    X(bert_tfrecord) X(llmc) X(tokens) X(megatron) X(imagenet_tfrecord) X(image_folder) X(ofrecord) X(recordio) \
    X(bert_ofrecord) X(bert_hdf5)
#define RP_DATA_ORDERS(X) X(philox) X(megatron) X(megatron_2x)
#define RP_AUGMENTS(X) X(crop_flip) X(none)
#define RP_CROP_LAWS(X) X(torchvision) X(tensorflow)
#define RP_RESIZE_FILTERS(X) X(triangular) X(linear)
#define RP_ESTIMATORS(X) X(median)
#define RP_BACKENDS(X) X(auto) X(cpu) X(cuda)
#define RP_ISAS(X) X(auto) RP_ISA_ROWS(RP_ISA_ROW_NAME, X)
#define RP_TRANSPORTS(X) X(auto) X(nccl) X(sockets)

/* "_id" if a struct has the shorter name. */
#define RP_IN_MODEL(name) RP_MODEL_##name,
enum rp_model_id { RP_MODELS(RP_IN_MODEL) RP_MODEL_COUNT };
#define RP_IN_ACTIVATION(name) RP_ACTIVATION_##name,
enum rp_activation { RP_ACTIVATIONS(RP_IN_ACTIVATION) };
#define RP_IN_RECOMPUTE(name) RP_RECOMPUTE_##name,
enum rp_recompute { RP_RECOMPUTES(RP_IN_RECOMPUTE) RP_RECOMPUTE_COUNT };
#define RP_IN_CLIP_FORM(name) RP_CLIP_FORM_##name,
enum rp_clip_form { RP_CLIP_FORMS(RP_IN_CLIP_FORM) };
#define RP_IN_PRECISION(name) RP_PRECISION_##name,
enum rp_precision { RP_PRECISIONS(RP_IN_PRECISION) };
#define RP_IN_TENSOR_CORE(name) RP_TENSOR_CORE_##name,
enum rp_tensor_core { RP_TENSOR_CORES(RP_IN_TENSOR_CORE) };
#define RP_IN_LOSS_SCALE(name) RP_LOSS_SCALE_##name,
enum rp_loss_scale_id { RP_LOSS_SCALES(RP_IN_LOSS_SCALE) };
#define RP_IN_GROWTH_FORM(name) RP_GROWTH_FORM_##name,
enum rp_growth_form { RP_GROWTH_FORMS(RP_IN_GROWTH_FORM) };
#define RP_IN_ON_OVERFLOW(name) RP_ON_OVERFLOW_##name,
enum rp_on_overflow { RP_ON_OVERFLOWS(RP_IN_ON_OVERFLOW) };
#define RP_IN_OPTIMIZER(name) RP_OPTIMIZER_##name,
enum rp_optimizer_id { RP_OPTIMIZERS(RP_IN_OPTIMIZER) RP_OPTIMIZER_COUNT };
#define RP_IN_DECAY_FORM(name) RP_DECAY_FORM_##name,
enum rp_decay_form { RP_DECAY_FORMS(RP_IN_DECAY_FORM) };
#define RP_IN_PADDING(name) RP_PADDING_##name,
enum rp_padding { RP_PADDINGS(RP_IN_PADDING) };
#define RP_IN_CONV_INIT(name) RP_CONV_INIT_##name,
enum rp_conv_init { RP_CONV_INITS(RP_IN_CONV_INIT) };
#define RP_IN_CLASSIFIER_INIT(name) RP_CLASSIFIER_INIT_##name,
enum rp_classifier_init { RP_CLASSIFIER_INITS(RP_IN_CLASSIFIER_INIT) };
#define RP_IN_OPTIMIZER_STATE(name) RP_OPTIMIZER_STATE_##name,
enum rp_optimizer_state { RP_OPTIMIZER_STATES(RP_IN_OPTIMIZER_STATE) };
#define RP_IN_DECAY(name) RP_DECAY_##name,
enum rp_decay { RP_DECAYS(RP_IN_DECAY) };
#define RP_IN_DATA_FORMAT(name) RP_DATA_FORMAT_##name,
enum rp_data_format_id { RP_DATA_FORMATS(RP_IN_DATA_FORMAT) RP_DATA_FORMAT_COUNT };
#define RP_IN_DATA_ORDER(name) RP_DATA_ORDER_##name,
enum rp_data_order { RP_DATA_ORDERS(RP_IN_DATA_ORDER) };
#define RP_IN_AUGMENT(name) RP_AUGMENT_##name,
enum rp_augment { RP_AUGMENTS(RP_IN_AUGMENT) };
#define RP_IN_CROP_LAW(name) RP_CROP_LAW_##name,
enum rp_crop_law { RP_CROP_LAWS(RP_IN_CROP_LAW) };
#define RP_IN_RESIZE_FILTER(name) RP_RESIZE_FILTER_##name,
enum rp_resize_filter { RP_RESIZE_FILTERS(RP_IN_RESIZE_FILTER) };
#define RP_IN_ESTIMATOR(name) RP_ESTIMATOR_##name,
enum rp_estimator { RP_ESTIMATORS(RP_IN_ESTIMATOR) };
#define RP_IN_BACKEND(name) RP_BACKEND_##name,
enum rp_backend_id { RP_BACKENDS(RP_IN_BACKEND) RP_BACKEND_COUNT };
#define RP_IN_ISA(name) RP_ISA_##name,
enum rp_isa { RP_ISAS(RP_IN_ISA) RP_ISA_COUNT };
#define RP_IN_TRANSPORT(name) RP_TRANSPORT_##name,
enum rp_transport { RP_TRANSPORTS(RP_IN_TRANSPORT) };

/* RP_CHOICES(RP_OPTIMIZERS): "adamw|lamb" */
#define RP_CHOICES(list) (&(list(RP_CHOICE_JOINED))[1])
#define RP_CHOICE_JOINED(name) "|" #name
/* rp_choice_name(RP_OPTIMIZERS, r->optimizer_name): "lamb" */
#define rp_choice_name(list, value) (((const char *const[]){list(RP_CHOICE_QUOTED)})[value])
#define RP_CHOICE_QUOTED(name) #name,
