#include "run/ceilings.h"

#define ACHIEVED                                                                                                               \
    "results.flops_per_s, which counts the FLOPs of the model's GEMMs over the whole timed windows by the host's clock; " \
    "gemm_share: its ratio to the higher of the two GEMM ceilings"
#define OF_RANK "; of several ranks the part of it that is the slowest one's share of samples and model, to that rank's ceilings"

static const struct {
    const char *name, *rate, *formula;
    const char *size[3]; /* multiplied */
    double each;
} kinds[] = {
    {"gemm", "flops_per_s", "2 * m * n * k * calls / shortest ns", {"m", "n", "k"}, 2},
    {"copy", "bytes_per_s", "2 * bytes * calls / shortest ns: each byte is read and written", {"bytes"}, 2},
    {"host_to_device", "bytes_per_s", "bytes * calls / shortest ns", {"bytes"}, 1},
};
#define KINDS (sizeof kinds / sizeof *kinds)

/* By the shortest repetition; null when no time passed. */
static json_t *rate_of(double work, const json_t *repetitions)
{
    json_int_t best = 0;
    const json_t *one;
    size_t i;
    json_array_foreach((json_t *)repetitions, i, one)
        if (i == 0 || json_integer_value(one) < best)
            best = json_integer_value(one);
    return best > 0 ? json_real(work / ((double)best / 1e9)) : json_null();
}

/* The same with its rate. */
static json_t *with_rate(const json_t *raw, size_t kind)
{
    double work = kinds[kind].each * json_number_value(json_object_get(raw, "calls"));
    json_t *out = json_object();
    for (size_t i = 0; i < 3 && kinds[kind].size[i]; i++) {
        json_object_set(out, kinds[kind].size[i], json_object_get(raw, kinds[kind].size[i]));
        work *= json_number_value(json_object_get(raw, kinds[kind].size[i]));
    }
    json_object_set(out, "calls", json_object_get(raw, "calls"));
    json_object_set(out, "ns", json_object_get(raw, "ns"));
    json_object_set_new(out, kinds[kind].rate, rate_of(work, json_object_get(raw, "ns")));
    return out;
}

/* ---- exchanges ---- */

#define EXCHANGE_FORMULA                                                                                                           \
    "bytes_per_s: bytes * calls / shortest ns, where bytes is what a rank has of all after an all-gather, or sends in an all-to-all with " \
    "its own piece; bus_bytes_per_s: that * (ranks - 1) / ranks, which is what a rank sends: busbw of nccl-tests"
#define LEAST_FORMULA                                                                                                              \
    "least_s: bytes_per_step of the slowest rank / the highest bus_bytes_per_s; measured_s: its exchanges in the timed steps, also those during " \
    "the backward pass, with waiting and with what ranks of a model exchange, / timed steps"

/* The part of the bytes that a rank sends to others in both collectives. */
static double bus_share(const json_t *world)
{
    const double ranks = json_number_value(json_object_get(world, "ranks"));
    return ranks > 1 ? (ranks - 1) / ranks : 0;
}

static json_t *exchanges(const json_t *raw, const json_t *world)
{
    static const char *const given[] = {"collective", "bytes", "calls", "ns"};
    json_t *out = json_array();
    const json_t *one;
    size_t i;
    json_array_foreach((json_t *)raw, i, one) {
        const json_t *ns = json_object_get(one, "ns");
        const double work = json_number_value(json_object_get(one, "bytes")) * json_number_value(json_object_get(one, "calls"));
        json_t *row = json_object();
        for (size_t k = 0; k < sizeof given / sizeof *given; k++)
            json_object_set(row, given[k], json_object_get(one, given[k]));
        json_object_set_new(row, "bytes_per_s", rate_of(work, ns));
        json_object_set_new(row, "bus_bytes_per_s", rate_of(work * bus_share(world), ns));
        json_array_append_new(out, row);
    }
    return out;
}

static double fastest_bus(const json_t *one_side)
{
    const json_t *row;
    double best = 0;
    size_t i;
    json_array_foreach(json_object_get(one_side, "exchange"), i, row) {
        const double rate = json_number_value(json_object_get(row, "bus_bytes_per_s"));
        best = rate > best ? rate : best;
    }
    return best;
}

/* Of a step of the slowest rank: the time that its bytes take at least, and what its exchanges took. */
static json_t *exchange_achieved(const json_t *before, const json_t *after, const json_t *results, const json_t *world)
{
    const json_t *rank = json_array_get(json_object_get(world, "rank"), (size_t)json_integer_value(json_object_get(world, "slowest")));
    const json_t *bytes = json_object_get(json_object_get(rank, "exchange"), "bytes_per_step");
    const double best = fastest_bus(before) > fastest_bus(after) ? fastest_bus(before) : fastest_bus(after);
    const double steps = json_number_value(json_object_get(json_object_get(results, "steps"), "timed"));
    json_t *least = best > 0 && bytes ? json_real(json_number_value(bytes) / best) : json_null();
    const double s = json_number_value(json_object_get(rank, "exchange_s")) + json_number_value(json_object_get(rank, "overlap_s"));
    json_t *took = steps > 0 ? json_real(s / steps) : json_null();
    return json_pack("{s:O?, s:o, s:o, s:o, s:s}", "bytes_per_step", bytes, "bus_bytes_per_s", best > 0 ? json_real(best) : json_null(),
                     "least_s", least, "measured_s", took, "formula", LEAST_FORMULA);
}

/* ---- all of one side ---- */

static json_t *side(const json_t *raw, const json_t *world)
{
    if (!json_is_object(raw))
        return json_null();
    json_t *out = json_object();
    json_object_set(out, "clock", json_object_get(raw, "clock"));
    for (size_t k = 0; k < KINDS; k++) {
        const json_t *kind = json_object_get(raw, kinds[k].name);
        if (kind)
            json_object_set_new(out, kinds[k].name, with_rate(kind, k));
    }
    if (json_object_get(raw, "exchange") && bus_share(world) > 0)
        json_object_set_new(out, "exchange", exchanges(json_object_get(raw, "exchange"), world));
    return out;
}

static double product(const json_t *one_side)
{
    return json_number_value(json_object_get(json_object_get(one_side, "gemm"), "flops_per_s"));
}

/* The part of all work that the rank does whose ceilings these are: 1 of one rank. Stages and parts of tensors count as equal. */
static double share_of_rank(const json_t *world, const json_t *results)
{
    const json_t *rank = json_array_get(json_object_get(world, "rank"), (size_t)json_integer_value(json_object_get(world, "slowest")));
    double own = json_number_value(json_object_get(rank, "samples_per_step")), all = json_number_value(json_object_get(results, "samples_per_step"));
    double of_model = json_number_value(json_object_get(world, "tensor")) * json_number_value(json_object_get(world, "pipeline"));
    return rank && all > 0 && of_model > 0 ? own / all / of_model : 1;
}

static json_t *achieved(const json_t *before, const json_t *after, const json_t *results, const json_t *world)
{
    const json_t *rate = json_object_get(results, "flops_per_s");
    const int one = json_integer_value(json_object_get(world, "ranks")) < 2;
    double best = product(before) > product(after) ? product(before) : product(after);
    json_t *share = json_is_number(rate) && best > 0 ? json_real(json_number_value(rate) * share_of_rank(world, results) / best)
                                                             : json_null();
    return json_pack("{s:O, s:o, s:s}", "flops_per_s", rate, "gemm_share", share, "formula", one ? ACHIEVED : ACHIEVED OF_RANK);
}

json_t *rp_ceilings_json(const json_t *raw, const json_t *results, const json_t *world)
{
    json_t *out = json_object(), *formulas = json_object();
    json_t *before = side(json_object_get(raw, "before"), world), *after = side(json_object_get(raw, "after"), world);
    for (size_t k = 0; k < KINDS; k++)
        json_object_set_new(formulas, kinds[k].name, json_string(kinds[k].formula));
    json_t *run = achieved(before, after, results, world);
    if (json_object_get(before, "exchange") || json_object_get(after, "exchange")) {
        json_object_set_new(formulas, "exchange", json_string(EXCHANGE_FORMULA));
        json_object_set_new(run, "exchange", exchange_achieved(before, after, results, world));
    }
    json_object_set_new(out, "achieved", run);
    json_object_set_new(out, "before", before);
    json_object_set_new(out, "after", after);
    json_object_set_new(out, "formulas", formulas);
    return out;
}
