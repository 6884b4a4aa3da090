/* Attacks on where a run was made: a GPU that no capture has, what every GPU leaves behind taken out, captures emptied.
 * All signed again.
 */
#include "tests/unit/attack.h"

#define BEFORE "env/node0.before.json"
#define AFTER "env/node0.after.json"

static const struct bend captures[] = {
    {"no probes before the run", BEFORE, "/probes", "{}", SEALED, RP_CHECK_environment, 5},
    {"no probes after the run", AFTER, "/probes", "{}", SEALED, RP_CHECK_environment, 5},
    {"a probe less", BEFORE, "/probes/rdma", NULL, SEALED, RP_CHECK_environment, 5},
    {"a probe that is a value", AFTER, "/probes/topology",
     "{\"state\": \"absent\", \"value\": null, \"source\": \"/sys\"}", SEALED, RP_CHECK_schema, 4},
    {"a kernel without a release", AFTER, "/probes/kernel/release", NULL, SEALED, RP_CHECK_environment, 5},
    {"a processor without flags", BEFORE, "/probes/cpu/flags", NULL, SEALED, RP_CHECK_environment, 5},
    {"a processor without clocks", BEFORE, "/probes/cpu/clock_max", NULL, SEALED, RP_CHECK_environment, 5},
    {"a group in place of a value", BEFORE, "/probes/cpu/clock_max", "{}", SEALED, RP_CHECK_environment, 5},
    {"a clock without a source", BEFORE, "/probes/clock/source", NULL, SEALED, RP_CHECK_environment, 5},
    {"no word about GPUs", BEFORE, "/probes/gpu/worker", NULL, SEALED, RP_CHECK_environment, 5},
    {"a program of no version", BEFORE, "/probes/program/version",
     "{\"state\": \"denied\", \"value\": null, \"source\": \"/proc\"}", SEALED, RP_CHECK_environment, 5},
    {"a program of no commit", AFTER, "/probes/program/commit",
     "{\"state\": \"absent\", \"value\": null, \"source\": \"/proc\"}", SEALED, RP_CHECK_environment, 5},
    {"a complete run without a timed phase", "facts.json", "/rank/0/phases_s/timed", "null", SEALED, RP_CHECK_time, 5},
    {"a complete run without phases", "facts.json", "/rank/0/phases_s", NULL, SEALED, RP_CHECK_time, 5},
};

TEST(attacks_on_captures)
{
    ATTACKS(captures);
}

/* A complete run on a GPU as this program records it. */
static void on_gpu(struct fx *x)
{
    RP_BUF steps = {0};
    x->backend = "cuda";
    x->device = "gpu0 NVIDIA H100 PCIe sm_90";
    /* device_ns follows counters */
    for (const char *line = x->steps.data, *end; (end = strchr(line, '\n')); line = end + 1) {
        const char *at = strstr(line, "\"end_ns\"");
        at = at && at < end ? at : line;
        rp_buf_printf(&steps, "%.*s%s%.*s\n", (int)(at - line), line, at > line ? "\"device_ns\":90000000," : "",
                      (int)(end - at), at);
    }
    rp_buf_fini(&x->steps);
    x->steps = steps;
    steps = (struct rp_buf){0};
    for (int i = 0; i < 9; i++)
        rp_buf_printf(&x->telemetry, "{\"n\":%d,\"ns\":%lld,\"power_mw\":300000,\"throttle\":[]}\n", i,
                      5000000200ll + 100000100ll * i);
    const struct rp_plan_facts *plan = &x->doc->facts.plan; /* of a processor: with the host's memory */
    json_int_t reserved =
        (json_int_t)(plan->total_bytes - plan->host_bytes - plan->decoder_bytes - plan->connection_bytes);
    x->done = json_pack("{s:{s:I, s:I}}", "device_bytes", "reserved", reserved, "used", reserved);
    fx_compute(x);
}

/* Whatever the others find: this check warns, or with RP_CHECK_COUNT none does; and a policy without warnings refuses
 * it. */
static void warned(struct fx *x, const char *name, enum rp_check_id check)
{
    struct rp_verification v;
    struct rp_err err = {0};
    RP_FREE char *path = fx_path("attack");
    fx_seal(x, "attacker", "attack");
    CHECK(rp_verify(&v, path, &(struct rp_verify_opts){0}, &err) == 0, "%s: %s", name, err.msg);
    for (int i = 0; i < RP_CHECK_COUNT; i++)
        CHECK((v.check[i].state == RP_CHECK_WARNING) == (i == (int)check), "%s: %s is '%s': %s", name, v.check[i].name,
              rp_check_state_name(v.check[i].state), v.check[i].text);
    if (check < RP_CHECK_COUNT)
        SAID(v.check[check].text);
    rp_verification_fini(&v);
    expect_policy("attack", "no_warnings: true", (struct rp_verify_opts){0}, check == RP_CHECK_COUNT);
}

TEST(attacks_by_leaving_out_what_every_gpu_leaves_behind)
{
    FX(x);
    on_gpu(&x);
    warned(&x, "an honest run", RP_CHECK_COUNT);
    json_object_del(fx_rank(&x, 0), "device_bytes");
    warned(&x, "no memory of the device", RP_CHECK_environment);
    fx_again(&x);
    on_gpu(&x);
    json_object_del((json_t *)rp_json_at(x.facts, "ceilings/after"), "host_to_device");
    fx_derive(&x);
    warned(&x, "no uploads", RP_CHECK_ceilings);
    fx_again(&x);
    on_gpu(&x);
    rp_buf_fini(&x.telemetry);
    fx_derive(&x);
    warned(&x, "no samples", RP_CHECK_telemetry);
    x.no_telemetry = "NVML hangs";
    fx_compute(&x);
    warned(&x, "no samples and a reason", RP_CHECK_telemetry);
    fx_again(&x);
    on_gpu(&x);
    json_object_set_new(fx_rank(&x, 0), "no_telemetry", json_string("NVML hangs"));
    warned(&x, "all samples and a reason", RP_CHECK_telemetry);
    fx_again(&x);
    on_gpu(&x);
    struct rp_verification v;
    struct rp_err err = {0};
    RP_FREE char *path = fx_path("attack");
    json_object_set_new((json_t *)rp_json_at(x.facts, "plan"), "total_bytes", json_integer(4711));
    fx_seal(&x, "attacker", "attack");
    CHECK(rp_verify(&v, path, &(struct rp_verify_opts){0}, &err) < 0 &&
              v.check[RP_CHECK_environment].state == RP_CHECK_FAILED,
          "%s", err.msg);
    rp_verification_fini(&v);
    fx_again(&x);
    RP_BUF plain = {0};
    rp_buf_add(&plain, x.steps.data, x.steps.size);
    on_gpu(&x);
    rp_buf_fini(&x.steps);
    x.steps = plain;
    plain = (struct rp_buf){0};
    fx_compute(&x);
    warned(&x, "no times of the device", RP_CHECK_time);
}

TEST(another_gpu_than_the_settings_require)
{
    static const struct {
        const char *asked;
        int holds;
    } rows[] = {{"0", 1}, {"1", 0}, {"10", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        FX(x);
        on_gpu(&x);
        json_object_set_new(json_object_get(x.facts, "recipe"), "run.device",
                            json_pack("{s:s, s:s}", "value", rows[i].asked, "origin", "command line"));
        fx_derive(&x);
        if (rows[i].holds)
            expect_state(&x, RP_CHECK_environment, RP_CHECK_PASSED);
        else
            refused(&x, RP_CHECK_environment, RP_MISMATCH);
    }
}

TEST(telemetry_without_a_line)
{
    struct rp_err err;
    struct rp_bundle b;
    FX_KEY *key = fx_key("signer");
    FX(x);
    on_gpu(&x);
    fx_seal(&x, "signer", "sealed");
    RP_FREE char *path = fx_path("sealed");
    CHECK(rp_bundle_open(&b, path, &err) == 0, "%s", err.msg);
    rp_buf_fini(attack_bytes(&b, "steps/rank0.telemetry.jsonl"));
    attack_sums(&b, "", key);
    attack_sign(&b, x.facts, x.run, NULL, key);
    attack_pack(&b);
    attack_expect("telemetry without a line", NULL, RP_CHECK_telemetry, 4);
    rp_bundle_fini(&b);
}

TEST(attacks_with_a_backend_of_another_version)
{
    FX(x);
    on_gpu(&x);
    set_path(x.facts, "backend", json_string("hip"));
    fx_gpus(&x, json_object());
    fx_derive(&x);
    warned(&x, "a backend that only a later version has", RP_CHECK_environment);
}

static json_t *captured(const char *name)
{
    return json_pack("{s:{s:{s:s, s:s, s:s}}}", "0", "name", "state", "ok", "value", name, "source", "NVML");
}

TEST(attacks_with_a_gpu_that_no_capture_has)
{
    static const struct {
        const char *name, *before, *after; /* names of GPUs; NULL: none */
        int holds;
    } cases[] = {
        {"the same GPU", "NVIDIA H100 PCIe", "NVIDIA H100 PCIe", 1},
        {"none in either capture", NULL, NULL, 0},
        {"none before", NULL, "NVIDIA H100 PCIe", 0},
        {"none after", "NVIDIA H100 PCIe", NULL, 0},
        {"another", "NVIDIA L4", "NVIDIA L4", 0},
        {"one whose name its own begins with", "NVIDIA H100", "NVIDIA H100", 0},
        {"one without a name", "", "", 0},
        {"one with a blank more", "NVIDIA  H100 PCIe", "NVIDIA  H100 PCIe", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        FX(x);
        on_gpu(&x);
        json_t *const both[] = {x.before, x.after};
        const char *const name[] = {cases[i].before, cases[i].after};
        for (int k = 0; k < 2; k++) {
            json_t *gpu = json_object_get(json_object_get(both[k], "probes"), "gpu");
            json_object_del(gpu, "devices");
            if (name[k])
                json_object_set_new(gpu, "devices", captured(name[k]));
        }
        if (cases[i].before && strstr(cases[i].before, "  "))
            set_path(x.facts, "rank/0/device/name", json_string(cases[i].before));
        fx_derive(&x);
        fx_seal(&x, "attacker", "attack");
        if (cases[i].holds)
            attack_expect(cases[i].name, NULL, KEY_ALONE);
        else
            attack_expect(cases[i].name, NULL, RP_CHECK_environment, 5);
    }
    FX(x); /* a worker that crashed: an honest machine has that too */
    on_gpu(&x);
    json_t *const both[] = {x.before, x.after};
    for (int k = 0; k < 2; k++) {
        json_t *gpu = json_object_get(json_object_get(both[k], "probes"), "gpu");
        json_object_del(gpu, "devices");
        json_object_set_new(
            gpu, "worker",
            json_pack("{s:s, s:n, s:s, s:s}", "state", "error", "value", "source", "repro-gpu", "detail", "crashed"));
    }
    warned(&x, "a worker that crashed", RP_CHECK_environment);
}

static void name_processor(struct fx *x, const char *device, const char *captured)
{
    set_path(x->facts, "rank/0/device/name", json_string(device));
    fx_capture_both(x, "cpu", "model_name", json_string(captured));
    fx_derive(x);
}

/* Also where the capture was made up to agree. */
TEST(processor_named_as_a_gpu_fails)
{
    static const char *const names[] = {"NVIDIA H200", "nvidia h200", "AMD EPYC with NVIDIA H100 80GB HBM3",
                                        "Tesla V100-SXM2-32GB", "NVIDIA GeForce RTX 4090", "Quadro RTX 8000", "H200",
                                        "AMD Instinct MI300X", "mi300x",
                                        "NVIDI\xd0\x90 \xd0\x9d" "200"}; /* Cyrillic: it looks like an H200 */
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int agrees = 0; agrees < 2; agrees++) {
            FX(x);
            name_processor(&x, names[i], agrees ? names[i] : "AMD EPYC");
            refused(&x, RP_CHECK_environment, RP_MISMATCH);
        }
    FX(x); /* the captured name is the one that compare shows */
    name_processor(&x, "AMD EPYC", "NVIDIA H200");
    refused(&x, RP_CHECK_environment, RP_MISMATCH);
}

/* An emulator's name is a note, but no policy takes it for the model that was bought. */
TEST(device_models_takes_the_captured_name_only)
{
    static const struct {
        const char *device, *captured;
        enum rp_check_state environment;
        int holds;
    } cases[] = {{"AMD EPYC 9755", "AMD EPYC 9755", RP_CHECK_PASSED, 1},
                 {"AMD EPYC 9755", "Intel Xeon (Icelake)", RP_CHECK_WARNING, 0},
                 {"AMD A10-7850K with Radeon Graphics", "AMD A10-7850K with Radeon Graphics", RP_CHECK_PASSED, 0},
                 {"Intel Xeon (Icelake)", "AMD EPYC 9755", RP_CHECK_WARNING, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        FX(x);
        name_processor(&x, cases[i].device, cases[i].captured);
        expect_state(&x, RP_CHECK_environment, cases[i].environment);
        expect_policy("sealed", "device_models: [AMD EPYC 9755]", (struct rp_verify_opts){0}, cases[i].holds);
    }
    FX(x); /* a GPU in a container without NVML: the run is a warning, and its name is the signer's word */
    on_gpu(&x);
    fx_seal(&x, "attacker", "attack");
    expect_policy("attack", "device_models: [NVIDIA H100 PCIe]", (struct rp_verify_opts){0}, 1);
    json_t *const both[] = {x.before, x.after};
    for (int k = 0; k < 2; k++) {
        json_t *gpu = json_object_get(json_object_get(both[k], "probes"), "gpu");
        json_object_del(gpu, "devices");
        json_object_set_new(
            gpu, "worker",
            json_pack("{s:s, s:n, s:s, s:s}", "state", "error", "value", "source", "repro-gpu", "detail", "crashed"));
    }
    fx_seal(&x, "attacker", "attack");
    expect_policy("attack", "device_models: [NVIDIA H100 PCIe]", (struct rp_verify_opts){0}, 0);
}
