/* Shorthands for the lists of tensors of a model's declare(): each adds one row to a list of `net`.
 *
 * What:    weights (matrix, bias, scale of a norm), activations (stored ones, and numbers in fp32), inputs; further
 *          fields of struct rp_tensor follow the arguments.
 * Flow:    included by a model's file, which defines MATRIX_INIT, the initialisation of its matrices, before.
 * Extend:  a kind of tensor that two models declare.
 */
#pragma once

#include "model/model.h"

#define ADD(class, ...) rp_tensors_add(&net->tensors[class], &(struct rp_tensor){__VA_ARGS__})
#define MATRIX(p, text, rows, cols, ...)                                                                               \
    ADD(RP_WEIGHT, .at = p, .name = text, .dim = {rows, cols}, .init = MATRIX_INIT, __VA_ARGS__)
#define BIAS(p, text, n, ...) ADD(RP_WEIGHT, .at = p, .name = text, .dim = {n}, __VA_ARGS__)
#define SCALE(p, text, n, ...) ADD(RP_WEIGHT, .at = p, .name = text, .dim = {n}, .init = RP_INIT_ONE, __VA_ARGS__)
#define ACT(p, text, rows, cols, ...)                                                                                  \
    ADD(RP_ACTIVATION, .at = p, .name = text, .dtype = RP_STORED, .dim = {rows, cols}, __VA_ARGS__)
#define NUMBERS(p, text, n, ...) ADD(RP_ACTIVATION, .at = p, .name = text, .dim = {n}, __VA_ARGS__)
#define IN(p, text, type, n) ADD(RP_INPUT, .at = p, .name = text, .dtype = type, .dim = {n})
