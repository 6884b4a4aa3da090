/* Files of torch.save: the tensors of a state dict, as in torchvision's .pth and transformers' pytorch_model.bin.
 *
 * What:    a zip archive, since PyTorch 1.6, whose members are stored as they are: NAME/data.pkl, a pickle with names,
 *          types, shapes and strides; NAME/data/KEY, the elements of one storage; NAME/byteorder.
 *          A pickle is a program. This one is read by a machine that knows the instructions of state dicts and the
 *          functions collections.OrderedDict, torch._utils._rebuild_tensor_v2 and _rebuild_parameter, and makes nothing
 *          of any other: no code of the file is executed.
 * Flow:    file -> the header that a safetensors file of the same tensors would have, with offsets from the beginning
 *          of the file (safetensors.h reads them). Tensors may share bytes.
 * Owner:   the caller owns the header.
 * Extend:  another type of storage is a row of the table in torch_file.c.
 */
#pragma once

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

bool rp_is_torch_file(const unsigned char word[4]); /* its first bytes */
/* Of the dictionary itself or, of a checkpoint of a training, of its "state_dict" or "model". */
json_t *rp_torch_header(int fd, uint64_t size, const char *path, struct rp_err *err);
