#include "worker/fits.h"

#include "backend/cuda/needs.h"
#include "train/train.h"

#define MIB ((uint64_t)1 << 20)
#define TAKEN (768 * MIB) /* by the context of the driver, and what the cuda backend leaves free */

/* MiB as nvidia-smi shows them of V100-SXM2-16GB, V100-SXM2-32GB, H100 80GB and H200. */
static const uint64_t memory_mib[RP_GPU_SIZES] = {16160, 32510, 81559, 143771};
const int rp_gpu_gb[RP_GPU_SIZES] = {16, 32, 80, 141};

static int supports(const struct rp_device_opts *o, const struct rp_op_use *u, struct rp_err *err)
{
    (void)o;
    return rp_use_check(u, "cuda", err); /* the limits of one GPU are checked where it trains */
}

static const struct rp_backend sized = {
    .name = "cuda", .separate_memory = 1, .supports = supports, .needs = rp_cuda_needs};

int rp_fits_plan(struct rp_fits *out, const struct rp_recipe *r, int64_t batch, int recompute, struct rp_err *err)
{
    struct rp_recipe one = *r; /* shallow: only two numbers differ */
    struct rp_device_opts o = {0};
    one.train_batch_size = batch;
    one.train_recompute = recompute;
    *out = (struct rp_fits){0};
    for (int i = 0; i < RP_GPU_SIZES; i++) {
        struct rp_plan plan;
        if (rp_train_plan(&plan, &one, NULL, &sized, &o, memory_mib[i] * MIB - TAKEN, err) < 0)
            return -1;
        out->activations = plan.bytes[RP_CLASS_ACTIVATIONS];
        out->total = plan.total;
        out->flops = plan.flops_per_sample;
        out->hardware_flops = plan.hardware_flops_per_sample;
        out->fits[i] = plan.total <= plan.available;
        out->largest[i] = plan.max_batch;
    }
    return 0;
}

json_t *rp_fits_to_json(const struct rp_fits *f)
{
    json_t *gpus = json_array();
    for (int i = 0; i < RP_GPU_SIZES; i++)
        json_array_append_new(gpus, json_pack("{s:i, s:I, s:b, s:I}", "gb", rp_gpu_gb[i], "usable_bytes",
                                              (json_int_t)(memory_mib[i] * MIB - TAKEN), "fits", f->fits[i],
                                              "max_batch", (json_int_t)f->largest[i]));
    return json_pack("{s:I, s:I, s:f, s:o}", "total_bytes", (json_int_t)f->total, "activation_bytes",
                     (json_int_t)f->activations, "hardware_flops_per_sample", f->hardware_flops, "gpus", gpus);
}
