/* How long training takes here, from some GEMMs. */
#include "worker/pace.h"

#include "base/json.h"
#include "worker/measure_ceilings.h"

#define OF_BEST 0.9 /* a step hardly achieves more of the fastest GEMM, */
#define OF_MEAN 0.7 /* and hardly less of their mean under the same load */

int rp_pace(double seconds[2], const struct rp_backend *b, const struct rp_device_opts *o, const struct rp_plan *plan,
            double flops, uint64_t probe_ns)
{
    struct rp_err err;
    struct rp_dev *dev = b->remote ? NULL : b->open(o, plan->bytes[RP_CLASS_BACKEND], &err);
    double best = 0, all = 0;
    const json_t *ns;
    size_t i;
    if (!dev)
        return -1;
    struct rp_ceiling_size size = rp_ceiling_size(dev, plan);
    size.gemm_ns = probe_ns;
    size.copy = (size_t)1 << 20;
    size.copy_ns = 1;
    RP_JSON *raw = rp_ceilings(dev, &size, NULL, NULL, &err);
    dev->backend->close(dev);
    const json_t *times = json_object_get(json_object_get(raw, "gemm"), "ns");
    json_array_foreach((json_t *)times, i, ns)
    {
        const double one = json_number_value(ns) / 1e9;
        best = i == 0 || one < best ? one : best;
        all += one;
    }
    if (best <= 0)
        return -1;
    const double one = 2.0 * size.gemm.rows * size.gemm.width * size.gemm.depth * size.times, gemms = flops / one;
    seconds[0] = gemms * best / OF_BEST;
    seconds[1] = gemms * all / (double)i / OF_MEAN;
    return 0;
}
