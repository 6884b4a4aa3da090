/* The rows of physics and training: what cannot be is refused, what is seldom is said, and an honest run is let
 * alone. */
#include "tests/unit/world_fixture.h"

#include "train/state.h"
#include "verify/state.h"

/* The state of a check where figures and reports follow from what x has. */
static void computed(struct fx *x, enum rp_check_id check, enum rp_check_state state)
{
    fx_compute(x);
    expect_state(x, check, state);
}

/* Records of n steps: `length(i)` ns long, `gap` ns apart, the first at `start`. The recipe is made for them. */
static void records(struct fx *x, int n, int64_t start, int64_t gap, int64_t (*length)(int i))
{
    RP_FREE char *steps = rp_asprintf("measure.timed_steps=%d", n - 1);
    int64_t now = start;
    FX_SET(x, steps, "measure.repeats=1");
    rp_buf_fini(&x->steps);
    rp_buf_puts(&x->steps,
                "{\"phase\":\"init\",\"rank\":0,\"root_ns\":1,\"state_root\":\"" FX_ROOT "\",\"step\":-1}\n");
    for (int i = 0; i < n; i++) {
        fx_step(&x->steps, i, 1, n - 1, now, length(i), i + 1 == n);
        now += length(i) + gap;
    }
    json_decref(x->done);
    x->done = json_pack("{s:{s:f}}", "phases_s", "timed", 2.4);
}

static int64_t slow_ns; /* of step 9 */

static int64_t slow_ninth(int i)
{
    return natural(i) + (i == 9 ? slow_ns : 0);
}

TEST(a_step_that_took_long_is_named)
{
    FX(x);
    records(&x, 16, 5000000123, 1000, natural);
    computed(&x, RP_CHECK_outliers, RP_CHECK_PASSED);
    slow_ns = 120000000;
    records(&x, 16, 5000000123, 1000, slow_ninth);
    computed(&x, RP_CHECK_outliers, RP_CHECK_WARNING);
    accepted(&x); /* a warning decides nothing */
    /* on a device that was sampled: step 9 is from 5.9 to 6.12 s */
    for (int throttled = 0; throttled < 2; throttled++) {
        x.backend = "cuda";
        x.device = "gpu0 NVIDIA H100 PCIe sm_90";
        rp_buf_fini(&x.telemetry);
        for (int i = 0; i < 17; i++)
            rp_buf_printf(&x.telemetry, "{\"n\":%d,\"ns\":%lld,\"power_mw\":300000,\"throttle\":[%s]}\n", i,
                          5000000200ll + 100000100ll * i,
                          throttled && i == 10 ? "\"hw_slowdown\""
                          : i == 10            ? "\"gpu_idle\""
                                               : "");
        computed(&x, RP_CHECK_outliers, throttled ? RP_CHECK_NOTE : RP_CHECK_WARNING);
    }
}

/* The run of 60 GFLOP/s or so is no trouble to any GPU: its ceiling is what boasts. */
static json_t *ceiling_of(double flops, double bytes)
{
    int64_t gemm = (int64_t)(2.0 * 16384 * 16384 * 16384 / flops * 1e9),
            copy = (int64_t)(2.0 * 268435456 / bytes * 1e9);
    return json_pack("{s:s, s:{s:i, s:i, s:i, s:i, s:[I]}, s:{s:I, s:i, s:[I]}}", "clock", "device", "gemm", "m", 16384,
                     "n", 16384, "k", 16384, "calls", 1, "ns", (json_int_t)gemm, "copy", "bytes", (json_int_t)268435456,
                     "calls", 1, "ns", (json_int_t)copy);
}

TEST(no_device_does_more_than_its_peak)
{
    static const struct {
        const char *device;
        double flops, bytes;
        enum rp_check_state state;
        int64_t hz; /* captured; 0: 1.5 GHz */
    } cases[] = {
        /* 50 multiprocessors of 64 units at 1.5 GHz, as captured: 9.6 */
        {"gpu0 NVIDIA H100 PCIe sm_90", 50e12, 1.9e12, RP_CHECK_PASSED, 0},
        {"gpu0 NVIDIA H100 PCIe sm_90", 60e12, 1.9e12, RP_CHECK_FAILED, 0},
        {"gpu0 NVIDIA H100 PCIe sm_90", 50e12, 2.5e12, RP_CHECK_FAILED, 0},
        {"gpu3 NVIDIA H100 80GB HBM3 sm_90 from PTX", 60e12, 2.5e12, RP_CHECK_PASSED, 0},
        {"gpu0 Tesla V100-SXM2-16GB sm_70", 15e12, 0.8e12, RP_CHECK_PASSED, 0},
        {"gpu0 Tesla V100-SXM2-16GB sm_70", 19.5e12, 0.8e12, RP_CHECK_FAILED, 0},
        {"gpu0 NVIDIA L40S sm_89", 80e12, 0.8e12, RP_CHECK_PASSED, 0}, /* not an L4, whose name its own begins with */
        {"gpu0 NVIDIA L40 sm_89", 80e12, 0.8e12, RP_CHECK_PASSED, 0},
        {"gpu0 NVIDIA L4 sm_89", 80e12, 0.2e12, RP_CHECK_FAILED, 0},
        {"gpu0 NVIDIA A10X sm_86", 80e12, 0.2e12, RP_CHECK_NOTE, 0}, /* no A10, with whose name its own begins */
        {"gpu0 Shim GPU sm_80", 9e12, 1e12, RP_CHECK_PASSED, 0},
        {"gpu0 Shim GPU sm_80", 10e12, 1e12, RP_CHECK_FAILED, 0},
        {"gpu0 Shim GPU sm_80", 20e12, 1e12, RP_CHECK_PASSED, 3500000000},
        {"gpu0 Shim GPU sm_80", 20e12, 1e12, RP_CHECK_NOTE, 35000000000}, /* no GPU has that clock */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        FX(x);
        x.backend = "cuda";
        x.device = cases[i].device;
        json_t *gpu = json_object();
        static const char *const names[] = {"name", "sm_count", "clock_sm_max", "compute_capability"};
        json_t *values[] = {json_string("Shim GPU"), json_integer(50),
                            json_integer(cases[i].hz ? cases[i].hz : 1500000000), json_string("8.0")};
        for (int k = 0; k < 4; k++)
            json_object_set_new(gpu, names[k],
                                json_pack("{s:s, s:o, s:s}", "state", "ok", "value", values[k], "source", "NVML"));
        /* and one that has the name alone */
        int name_end = (int)(strstr(cases[i].device, " sm_") - cases[i].device) - 5;
        json_t *named = json_pack("{s:{s:s, s:s%, s:s}}", "name", "state", "ok", "value", cases[i].device + 5, name_end,
                                  "source", "NVML");
        fx_gpus(&x, json_pack("{s:o, s:o}", "0", gpu, "1", named));
        x.done = json_pack("{s:{s:o, s:o}}", "ceilings", "before", ceiling_of(cases[i].flops, cases[i].bytes), "after",
                           ceiling_of(cases[i].flops * 0.9, cases[i].bytes * 0.9));
        computed(&x, RP_CHECK_peak, cases[i].state);
    }
    FX(x); /* a clock of its own: 1 GHz of 32 FLOP a cycle */
    fx_capture_both(&x, "frequency", "hardware_max", json_integer(1000000000));
    computed(&x, RP_CHECK_peak, RP_CHECK_FAILED);
    fx_again(&x);
    fx_capture_both(&x, "frequency", "hardware_max", json_integer(9000000000));
    computed(&x, RP_CHECK_peak, RP_CHECK_NOTE);
    fx_again(&x);
    computed(&x, RP_CHECK_peak, RP_CHECK_NOTE);
}

/* The fixture's ceiling is 80 GFLOP/s of one thread that does 32 FLOP a cycle: 2.5 GHz. */
TEST(clocks_bound_a_processor)
{
    static const struct {
        const char *driver;       /* NULL: none, as in a virtual machine */
        double max, base, now[2]; /* GHz; 0: not captured. now: of the slowest and the fastest processor */
        enum rp_check_state state;
    } cases[] = {
        {"intel_pstate", 2.2, 0, {0}, RP_CHECK_PASSED}, /* 1.15 times */
        {"intel_pstate", 2.1, 0, {0}, RP_CHECK_FAILED},
        {"intel_pstate", 2.1, 2.0, {0}, RP_CHECK_FAILED}, /* the highest counts, where it is known */
        {"intel_pstate", 0, 1.2, {0}, RP_CHECK_PASSED},   /* 2.2 times */
        {"intel_pstate", 0, 1.1, {0}, RP_CHECK_FAILED},
        {"acpi-cpufreq", 1.2, 0, {0}, RP_CHECK_PASSED}, /* its highest clock is without boost */
        {"acpi-cpufreq", 1.1, 0, {0}, RP_CHECK_FAILED},
        {NULL, 0, 0, {1.2, 1.2}, RP_CHECK_PASSED},
        {NULL, 0, 0, {1.1, 1.1}, RP_CHECK_FAILED},
        {NULL, 0, 0, {0.4, 1.1}, RP_CHECK_NOTE},           /* a clock of the moment */
        {"intel_pstate", 0, 0, {0.4, 0.4}, RP_CHECK_NOTE}, /* as well */
        {NULL, 0, 0, {0}, RP_CHECK_NOTE},
        {"intel_pstate", 6.1, 0, {0}, RP_CHECK_PASSED}, /* nothing is above 6.2 GHz, */
        {"intel_pstate", 6.3, 0, {0}, RP_CHECK_NOTE},   /* and a capture that is counts as none */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        FX(x);
        if (cases[i].driver)
            fx_capture_both(&x, "frequency", "driver", json_string(cases[i].driver));
        if (cases[i].max > 0)
            fx_capture_both(&x, "frequency", "hardware_max", json_real(cases[i].max * 1e9));
        if (cases[i].base > 0)
            fx_capture_both(&x, "frequency", "base", json_real(cases[i].base * 1e9));
        for (int k = 0; k < 2 && cases[i].now[k] > 0; k++)
            fx_capture_both(&x, "cpu", k ? "clock_max" : "clock_min", json_real(cases[i].now[k] * 1e3));
        computed(&x, RP_CHECK_peak, cases[i].state);
    }
}

static json_t *processors(int threads)
{
    return json_pack("{s:{s:{s:{s:s, s:i, s:s}}, s:{s:{s:s, s:f, s:s}}}}", "probes", "cpu", "threads", "state", "ok",
                     "value", threads, "source", "proc", "frequency", "hardware_max", "state", "ok", "value", 1e9,
                     "source", "sys");
}

/* A rank on a processor with that instruction set. */
static void add_rank(struct rp_facts *f, int node, const char *isa, int threads)
{
    struct rp_rank_facts *r = rp_object_add(&f->rank, &f->rank_n, &rp_type_rank_facts);
    r->node = node;
    r->device = rp_alloc(sizeof *r->device);
    rp_object_init(r->device, &rp_type_device_facts);
    r->device->kind = rp_strdup("cpu");
    r->device->name = rp_strdup("");
    r->device->isa = rp_strdup(isa);
    r->device->threads = threads;
}

/* A run of two ranks with these figures. */
struct two_ranks {
    struct rp_facts facts;
    struct rp_figures figures;
};

static void two_ranks_init(struct two_ranks *two, double flops_per_s)
{
    rp_object_init(&two->facts, &rp_type_facts);
    rp_object_init(&two->figures, &rp_type_figures);
    two->facts.backend = rp_strdup("cpu");
    two->figures.results.flops_per_s = flops_per_s;
}

static void two_ranks_fini(struct two_ranks *two)
{
    rp_object_fini(&two->facts, &rp_type_facts);
    rp_object_fini(&two->figures, &rp_type_figures);
}

/* Ranks with other instruction sets, threads and machines than rank 0: one scalar thread on node 0, four of AVX-512 on
 * node 1, at 1.15 GHz. */
TEST(processors_of_all_ranks_count)
{
    static const struct {
        int on_second; /* processors of node 1 */
        double gflops;
        int passes;
    } cases[] = {{4, 300, 1}, {4, 310, 0}, {8, 310, 0}, {2, 150, 1}, {2, 160, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_err err;
        struct rp_check_result result = {0};
        struct two_ranks two;
        RP_JSON *first = processors(64), *second = processors(cases[i].on_second);
        struct rp_captures node[] = {{first, first}, {second, second}};
        two_ranks_init(&two, cases[i].gflops * 1e9);
        add_rank(&two.facts, 0, "scalar", 1);
        add_rank(&two.facts, 1, "avx512", 4);
        struct rp_verify_state s = {
            .run = {.facts = &two.facts, .figures = &two.figures, .node = node, .nodes = 2, .ranks.ranks = 2}};
        CHECK((rp_check_peak(&s, &result, &err) == 0) == cases[i].passes, "case %zu: %s", i,
              cases[i].passes ? err.msg : result.text);
        CHECK(rp_facts_threads(&two.facts) == 5, "%lld threads", (long long)rp_facts_threads(&two.facts));
        CHECK_STR(rp_facts_isa(&two.facts), "mixed");
        two_ranks_fini(&two);
    }
}

/* One unknown instruction set: no bound of all, but still that of the ceiling of one rank. */
TEST(peak_with_an_unknown_instruction_set)
{
    static const struct {
        const char *isa[2];
        double ceiling; /* GFLOP/s of rank 0, whose bound is 9.2 */
        enum rp_check_state state;
    } cases[] = {
        {{"scalar", "sve"}, 9, RP_CHECK_NOTE},
        {{"scalar", "sve"}, 10, RP_CHECK_FAILED},
        {{"sve", "scalar"}, 1e6, RP_CHECK_NOTE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_err err = {0};
        struct rp_check_result result = {.state = RP_CHECK_PASSED};
        struct two_ranks two;
        RP_JSON *capture = processors(4);
        struct rp_captures node = {capture, capture};
        two_ranks_init(&two, 1e15);
        add_rank(&two.facts, 0, cases[i].isa[0], 1);
        add_rank(&two.facts, 0, cases[i].isa[1], 1);
        struct rp_ceiling_facts *times = two.facts.ceilings = rp_alloc(sizeof *times);
        struct rp_ceiling_figures *rates = two.figures.ceilings = rp_alloc(sizeof *rates);
        rp_object_init(times, &rp_type_ceiling_facts);
        rp_object_init(rates, &rp_type_ceiling_figures);
        rates->before = rp_alloc(sizeof *rates->before);
        rp_object_init(rates->before, &rp_type_ceiling_rates);
        rates->before->gemm_flops_per_s = cases[i].ceiling * 1e9;
        struct rp_verify_state s = {
            .run = {.facts = &two.facts, .figures = &two.figures, .node = &node, .nodes = 1, .ranks.ranks = 2}};
        int failed = rp_check_peak(&s, &result, &err) < 0;
        CHECK(failed == (cases[i].state == RP_CHECK_FAILED), "case %zu: %s%s", i, err.msg, result.text);
        CHECK(failed || result.state == cases[i].state, "case %zu: %s", i, result.text);
        SAID(failed ? err.msg : result.text);
        two_ranks_fini(&two);
    }
}

TEST(energy_is_power_times_time)
{
    FX(x);
    records(&x, 8, 5000000123, 1000, natural);
    computed(&x, RP_CHECK_energy, RP_CHECK_NOT_APPLICABLE);
    x.backend = "cuda";
    x.device = "gpu0 NVIDIA H100 PCIe sm_90";
    for (int i = 0; i < 9; i++)
        rp_buf_printf(&x.telemetry, "{\"n\":%d,\"ns\":%lld,\"power_mw\":%d}\n", i, 5000000200ll + 100000100ll * i,
                      300000 + 1000 * (i % 3));
    computed(&x, RP_CHECK_energy, RP_CHECK_PASSED);
    json_t *gpu =
        json_pack("{s:{s:s, s:f, s:s}}", "power_limit_enforced", "state", "ok", "value", 250.0, "source", "NVML");
    json_object_set_new(gpu, "name",
                        json_pack("{s:s, s:s, s:s}", "state", "ok", "value", "NVIDIA H100 PCIe", "source", "NVML"));
    fx_gpus(&x, json_pack("{s:o}", "0", gpu));
    computed(&x, RP_CHECK_energy, RP_CHECK_FAILED);
    rp_buf_fini(&x.telemetry); /* half of the time at a tenth of the power, with a sample less */
    for (int i = 0; i < 9; i++)
        rp_buf_printf(&x.telemetry, "{\"n\":%d,\"ns\":%lld,\"power_mw\":%d}\n", i,
                      5000000200ll + (i < 7 ? 100000100ll * i : 600000000ll + 500000000ll * (i - 6)),
                      i < 5 ? 200000 : 20000);
    records(&x, 16, 5000000123, 1000, natural);
    computed(&x, RP_CHECK_energy, RP_CHECK_WARNING);
    rp_buf_fini(&x.telemetry); /* evenly spaced, but only an idle moment has its power */
    for (int i = 0; i < 18; i++)
        rp_buf_printf(&x.telemetry, "{\"n\":%d,\"ns\":%lld%s}\n", i, 5000000200ll + 100000100ll * i,
                      i > 2 && i < 8 ? ",\"power_mw\":60000" : "");
    computed(&x, RP_CHECK_energy, RP_CHECK_WARNING);
    accepted(&x); /* a warning decides nothing */
}

/* In every record, where `was` stands. */
static void replace(struct fx *x, const char *was, const char *is)
{
    RP_BUF out = {0};
    const char *at = x->steps.data, *hit;
    for (; (hit = strstr(at, was)); at = hit + strlen(was)) {
        rp_buf_add(&out, at, (size_t)(hit - at));
        rp_buf_puts(&out, is);
    }
    rp_buf_puts(&out, at);
    rp_buf_fini(&x->steps);
    x->steps = out;
    out = (struct rp_buf){0};
}

TEST(losses_that_no_model_has)
{
    static const struct {
        const char *was, *is;
        enum rp_check_id check;
        enum rp_check_state state;
    } cases[] = {
        {"\"nothing\"", "", RP_CHECK_loss, RP_CHECK_PASSED},
        {FX_LOSS("0x1.9p+2"), FX_LOSS("0x1.1p+2"), RP_CHECK_loss, RP_CHECK_FAILED},
        {FX_LOSS("0x1.9p+2"), FX_LOSS("0x1.8p+3"), RP_CHECK_loss, RP_CHECK_FAILED},
        {FX_LOSS("0x1.7p+2"), FX_LOSS("-0x1p+0"), RP_CHECK_loss, RP_CHECK_FAILED},
        {FX_LOSS("0x1.6p+2"), FX_LOSS("0x1p+10"), RP_CHECK_loss, RP_CHECK_WARNING},
        {"\"grad_norm\":\"0x1.3p+1\"", "\"grad_norm\":\"0x0p+0\"", RP_CHECK_gradients, RP_CHECK_FAILED},
        {"\"grad_norm\":\"0x1.3p+1\"", "\"grad_norm\":\"-0x1p+0\"", RP_CHECK_gradients, RP_CHECK_FAILED},
        {"\"nothing\"", "", RP_CHECK_gradients, RP_CHECK_PASSED},
    };
    FX(x);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        replace(&x, cases[i].was, cases[i].is);
        computed(&x, cases[i].check, cases[i].state);
        fx_again(&x);
    }
    for (int i = 2; i <= 7; i++) {
        char was[40];
        snprintf(was, sizeof was, "\"grad_norm\":\"0x1.%dp+1\"", i);
        replace(&x, was, "\"grad_norm\":\"0x1.1p+1\""); /* the same norm at every step */
    }
    computed(&x, RP_CHECK_gradients, RP_CHECK_FAILED);
    fx_again(&x); /* the loss of a run from a file does not follow from the initialisation */
    FX_SET(&x, "run.init=theirs.safetensors");
    replace(&x, FX_LOSS("0x1.9p+2"), FX_LOSS("0x1.1p+1"));
    computed(&x, RP_CHECK_loss, RP_CHECK_PASSED);
}

/* A root for every tensor of the state, and that of the state. */
static json_t *tensors_with_root(const struct rp_recipe *r, char root[RP_SHA256_HEX])
{
    struct rp_err err;
    struct rp_net *m = rp_net_new(r, 1);
    const struct rp_trained s = {
        .optimizer = rp_optimizer_of(r), .weights = &m->tensors[RP_WEIGHT], .buffers = &m->tensors[RP_BUFFER]};
    json_t *out = json_object();
    for (int i = 0; i < rp_state_entries(&s); i++) {
        struct rp_state_entry e;
        char hex[RP_SHA256_HEX];
        rp_state_entry_at(&e, &s, i);
        rp_sha256_hex(hex, e.name, strlen(e.name));
        json_object_set_new(out, e.name, json_string(hex));
    }
    CHECK(rp_state_root_of(root, &s, out, &err) == 0, "%s", err.msg);
    rp_net_free(m);
    return out;
}

TEST(roots_of_tensors_make_the_state_root)
{
    char root[RP_SHA256_HEX];
    FX(x);
    computed(&x, RP_CHECK_state_roots, RP_CHECK_NOT_APPLICABLE);
    json_t *tensors = tensors_with_root(&x.recipe, root);
    x.done = json_pack("{s:{s:o, s:O}}", "tensor_roots", "init", tensors, "final", tensors);
    computed(&x, RP_CHECK_state_roots, RP_CHECK_FAILED);
    replace(&x, FX_ROOT, root);
    computed(&x, RP_CHECK_state_roots, RP_CHECK_PASSED);
    RP_JSON *keep = json_deep_copy(tensors);
    json_t *done = x.done;
    static const char *const name = "optimizer.v.bert.pooler.dense.bias";
    json_object_set_new(json_object_get(json_object_get(done, "tensor_roots"), "final"), name, json_string(FX_ROOT));
    computed(&x, RP_CHECK_state_roots, RP_CHECK_FAILED);
    json_object_del(tensors, name);
    computed(&x, RP_CHECK_state_roots, RP_CHECK_FAILED);
    json_object_update(tensors, keep);
    json_object_set_new(tensors, "another", json_string(FX_ROOT));
    computed(&x, RP_CHECK_state_roots, RP_CHECK_FAILED);
}

/* Time that is called a root's is no part of the throughput: a reader learns how much it is. */
TEST(what_roots_took_between_the_steps_is_said)
{
    static const struct {
        int64_t root_ns;
        enum rp_check_state state;
    } cases[] = {{4000000, RP_CHECK_PASSED}, {40000000, RP_CHECK_NOTE}, {16000000000, RP_CHECK_WARNING}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int is_long = cases[i].root_ns > 1000000000;
        char root[RP_SHA256_HEX];
        FX(x);
        FX_SET(&x, "evidence.state_root_every=1");
        json_t *tensors = tensors_with_root(&x.recipe, root);
        rp_buf_fini(&x.steps);
        rp_buf_puts(&x.steps,
                    "{\"phase\":\"init\",\"rank\":0,\"root_ns\":1000,\"state_root\":\"" FX_ROOT "\",\"step\":-1}\n");
        for (int k = 0; k < 7; k++)
            fx_step(&x.steps, k, 1, 3, 1000000000 + k * (is_long ? 16141000123ll : 141000123ll), natural(k),
                    cases[i].root_ns);
        json_decref(x.done);
        x.done = json_pack("{s:{s:o, s:O}, s:{s:f, s:f}}", "tensor_roots", "init", tensors, "final", tensors,
                           "phases_s", "timed", 0.7, "state_roots", (double)cases[i].root_ns * 7e-9 + 1e-6);
        replace(&x, FX_ROOT, root);
        fx_compute(&x);
        if (is_long) {
            set_path(x.facts, "elapsed_s", json_real(120));
            set_path(x.facts, "ended_at", json_string("2026-09-21T14:15:20Z"));
            set_path(x.after, "captured_at", json_string("2026-09-21T14:15:20Z"));
            fx_derive(&x);
        }
        expect_state(&x, RP_CHECK_state_roots, cases[i].state);
    }
}

TEST(both_captures_are_of_one_machine)
{
    static const struct {
        const char *group, *name;
    } fixed[] = {{"host", "boot_id"}, {"nvidia", "version"}, {"cpu", "vendor"}, {"program", "version"}};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        FX(x);
        fx_capture_value(x.before, fixed[i].group, fixed[i].name, json_string("one"));
        fx_capture_value(x.after, fixed[i].group, fixed[i].name, json_string("another"));
        computed(&x, RP_CHECK_same_host, RP_CHECK_FAILED);
    }
    FX(x);
    for (int after = 0; after < 2; after++)
        json_object_set_new(json_object_get(json_object_get(after ? x.after : x.before, "probes"), "gpu"), "devices",
                            json_pack("{s:{s:{s:s, s:s, s:s}}}", "0", "uuid", "state", "ok", "value",
                                      after ? "GPU-2" : "GPU-1", "source", "NVML"));
    computed(&x, RP_CHECK_same_host, RP_CHECK_FAILED);
    for (int known = 0; known < 2; known++) {
        fx_again(&x);
        /* one program runs on many machines */
        fx_capture_both(&x, "program", "version", json_string(fx_build.version));
        fx_capture_both(&x, "kernel", "machine", json_string("x86_64"));
        /* which is absent */
        if (!known)
            json_object_set(json_object_get(json_object_get(x.after, "probes"), "kernel"), "release",
                            json_object_get(json_object_get(json_object_get(x.after, "probes"), "cpu"), "vendor"));
        computed(&x, RP_CHECK_same_host, known ? RP_CHECK_PASSED : RP_CHECK_WARNING);
    }
}

static void against_base(const char *base, enum rp_check_state state)
{
    struct rp_verification v;
    struct rp_err err = {0};
    RP_FREE char *path = fx_path("wide"), *other = fx_path(base);
    struct rp_verify_opts o = {.baseline = other};
    CHECK((rp_verify(&v, path, &o, &err) < 0) == (state == RP_CHECK_FAILED), "%s", err.msg);
    CHECK(v.check[RP_CHECK_scaling].state == state, "%s", v.check[RP_CHECK_scaling].text);
    SAID(v.check[RP_CHECK_scaling].text);
    rp_verification_fini(&v);
}

TEST(more_threads_are_not_more_than_so_many_times_as_fast)
{
    wide("base", (struct width){.percent = 100});
    wide("wide", (struct width){.percent = 100});
    against_base("base", RP_CHECK_PASSED);
    against_base("none", RP_CHECK_FAILED);
    wide("wide", (struct width){.percent = 75}); /* as many, and much faster */
    against_base("base", RP_CHECK_WARNING);
    wide("wide", (struct width){.percent = 75, .set = {"optimizer.clip_norm=0"}});
    against_base("base", RP_CHECK_NOTE);
    wide("wide", (struct width){.threads = 4, .percent = 33});
    against_base("base", RP_CHECK_PASSED);
    wide("wide", (struct width){.threads = 2, .percent = 33});
    against_base("base", RP_CHECK_FAILED);
    wide("wide", (struct width){.threads = 2, .percent = 33, .set = {"seed.data=7"}}); /* the same work */
    against_base("base", RP_CHECK_FAILED);
    wide("wide", (struct width){.threads = 2, .percent = 33, .set = {"optimizer.clip_norm=0"}});
    against_base("base", RP_CHECK_WARNING);
    wide("wide", (struct width){.threads = 2, .percent = 60, .set = {"optimizer.clip_norm=0"}});
    against_base("base", RP_CHECK_NOTE);
}

TEST(a_baseline_by_an_unknown_key_is_a_note)
{
    FX(x);
    widen(&x, (struct width){.percent = 100});
    fx_compute(&x);
    fx_other_build(&x);
    fx_seal(&x, "attacker", "base");
    wide("wide", (struct width){.percent = 100});
    against_base("base", RP_CHECK_NOTE);
}

/* Each rank brings its own samples: of four, a step as long as that of one is four times as fast. */
TEST(more_ranks_are_not_more_than_so_many_times_as_fast)
{
    static const struct {
        struct width w;
        enum rp_check_state state;
    } cases[] = {
        {{.ranks = 2, .percent = 110}, RP_CHECK_PASSED},
        {{.ranks = 2, .percent = 80}, RP_CHECK_FAILED},
        {{.ranks = 8, .nodes = 2, .percent = 105}, RP_CHECK_PASSED},
        {{.ranks = 8, .nodes = 2, .percent = 80}, RP_CHECK_FAILED},
        {{.ranks = 4, .threads = 2, .percent = 60}, RP_CHECK_PASSED},
        {{.ranks = 4, .percent = 80, .set = {"optimizer.clip_norm=0"}}, RP_CHECK_WARNING},
        /* more ranks than processors take turns */
        {{.ranks = 4, .cpus = 2, .percent = 110}, RP_CHECK_FAILED},
        {{.ranks = 4, .cpus = 2, .percent = 220}, RP_CHECK_PASSED},
        {{.ranks = 4, .nodes = 2, .cpus = 2, .percent = 110}, RP_CHECK_PASSED},
    };
    wide("base", (struct width){.percent = 100});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        wide("wide", cases[i].w);
        against_base("base", cases[i].state);
    }
    wide("base", (struct width){.ranks = 2, .percent = 110}); /* a baseline of several */
    wide("wide", (struct width){.ranks = 8, .nodes = 2, .percent = 115});
    against_base("base", RP_CHECK_PASSED);
    wide("wide", (struct width){.ranks = 8, .nodes = 2, .percent = 90});
    against_base("base", RP_CHECK_FAILED);
    wide("wide", (struct width){.percent = 100});
    against_base("base", RP_CHECK_NOT_APPLICABLE);
}

TEST(more_gpus_are_not_more_than_so_many_times_as_fast)
{
    static const char h100[] = "gpu0 NVIDIA H100 PCIe sm_90", v100[] = "gpu0 Tesla V100-SXM2-16GB sm_70";
    static const char mig[] = "gpu0 NVIDIA H100 PCIe MIG 1g.10gb sm_90";
    static const struct {
        const char *base;
        struct width w;
        enum rp_check_state state;
    } cases[] = {
        {h100, {.ranks = 4, .device = h100, .percent = 105}, RP_CHECK_PASSED},
        {h100, {.ranks = 16, .nodes = 2, .device = h100, .percent = 110}, RP_CHECK_PASSED},
        {h100, {.ranks = 16, .nodes = 2, .device = h100, .percent = 80}, RP_CHECK_FAILED},
        {h100, {.ranks = 8, .device = h100, .gpus = 2, .percent = 105}, RP_CHECK_FAILED}, /* 4 ranks have one GPU */
        {h100, {.ranks = 8, .device = h100, .gpus = 4, .percent = 250}, RP_CHECK_PASSED},
        {v100, {.ranks = 4, .device = h100, .percent = 50}, RP_CHECK_WARNING}, /* of another kind */
        {v100, {.ranks = 4, .device = h100, .percent = 105}, RP_CHECK_NOTE},
        {mig, {.ranks = 4, .device = mig, .gpus = 1, .percent = 105}, RP_CHECK_PASSED}, /* instances share an address */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        wide("base", (struct width){.device = cases[i].base, .percent = 100});
        wide("wide", cases[i].w);
        against_base("base", cases[i].state);
    }
}

/* What the check found, for programs. */
TEST(scaling_as_json)
{
    RP_VERIFICATION v = {0};
    struct rp_err err = {0};
    RP_FREE char *path = fx_path("wide"), *other = fx_path("base");
    struct rp_verify_opts o = {.baseline = other};
    wide("base", (struct width){.percent = 100});
    wide("wide", (struct width){.ranks = 4, .percent = 125, .set = {"optimizer.clip_norm=0"}});
    CHECK(rp_verify(&v, path, &o, &err) == 0, "%s", err.msg);
    RP_JSON *j = rp_verification_json(&v);
    const double low = json_number_value(rp_json_at(j, "scaling/speedup/0")),
                 high = json_number_value(rp_json_at(j, "scaling/speedup/1"));
    CHECK(rp_json_integer_at(j, "scaling/width") == 4 && rp_json_integer_at(j, "scaling/base_width") == 1 &&
          json_number_value(rp_json_at(j, "scaling/ideal")) == 4, "width");
    CHECK(low < 3.2 && high > 3.2 && low > 2.8 && high < 3.6, "speed-up %g to %g", low, high);
    CHECK(json_number_value(rp_json_at(j, "scaling/efficiency/0")) == low / 4, "efficiency");
    CHECK_STR(rp_json_text_at(j, "scaling/conditions"), "optimizer.clip_norm");
}

/* Every row of the list has its words and its place, and an id that can be written into a policy. */
TEST(every_check_says_what_it_proves_and_how)
{
    RP_JSON *all = rp_checks_json();
    const json_t *list = json_object_get(all, "checks");
    CHECK(json_array_size(list) == RP_CHECK_COUNT, "%zu rows", json_array_size(list));
    for (int i = 0; i < RP_CHECK_COUNT; i++) {
        const json_t *row = json_array_get(list, (size_t)i);
        const char *id = json_string_value(json_object_get(row, "check"));
        CHECK(strcmp(id, rp_check_name(i)) == 0 && strspn(id, "abcdefghijklmnopqrstuvwxyz_") == strlen(id), "id '%s'",
              id);
        CHECK(*json_string_value(json_object_get(row, "proves")) && *json_string_value(json_object_get(row, "how")),
              "%s has no words", id);
    }
}
