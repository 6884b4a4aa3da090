/* How long training takes here, from some GEMMs. */
#include "worker/pace.h"

#include "base/json.h"
#include "worker/measure_ceilings.h"

#define OF_BEST 0.9 /* a step hardly achieves more of the fastest GEMM, */
#define OF_MEAN 0.7 /* and hardly less of their mean under the same load */
#define OF_WORK 0.1 /* of the estimated time at most is spent on the estimate, except for the first GEMMs */

/* Of one GEMM, in seconds. */
static int time_gemm(double *best, double *mean, struct rp_dev *dev, const struct rp_ceiling_size *size)
{
    struct rp_err err;
    double all = 0;
    const json_t *ns;
    size_t i;
    RP_JSON *raw = rp_ceilings(dev, size, NULL, NULL, &err);
    const json_t *times = json_object_get(json_object_get(raw, "gemm"), "ns");
    json_array_foreach((json_t *)times, i, ns)
    {
        const double one = json_number_value(ns) / 1e9 / size->times;
        *best = i == 0 || one < *best ? one : *best;
        all += one;
    }
    *mean = all / (double)i;
    return i > 0 && *best > 0 ? 0 : -1;
}

int rp_pace(double seconds[2], const struct rp_backend *b, const struct rp_device_opts *o, const struct rp_plan *plan,
            double flops, uint64_t probe_ns)
{
    struct rp_err err;
    struct rp_dev *dev = b->remote ? NULL : b->open(o, plan->bytes[RP_CLASS_BACKEND], &err);
    double best = 0, mean = 0;
    if (!dev)
        return -1;
    struct rp_ceiling_size size = rp_ceiling_size(dev, plan);
    const double gemms = flops / (2.0 * size.gemm.rows * size.gemm.width * size.gemm.depth);
    size.copy = (size_t)1 << 20;
    size.gemm_ns = size.copy_ns = 1;
    int status = time_gemm(&best, &mean, dev, &size);
    const double most = status == 0 ? 1e9 * OF_WORK * gemms * best : 0;
    size.gemm_ns = most < (double)probe_ns ? (uint64_t)most : probe_ns;
    if (status == 0 && (double)size.gemm_ns > 1e9 * best * size.times)
        status = time_gemm(&best, &mean, dev, &size);
    dev->backend->close(dev);
    if (status < 0)
        return -1;
    seconds[0] = gemms * best / OF_BEST;
    seconds[1] = gemms * mean / OF_MEAN;
    return 0;
}
