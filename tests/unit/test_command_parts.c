/* The bundle of a command: its processes, and the samples of its GPUs, with what can be forged of them. */
#include "tests/unit/command_fixture.h"

#include "base/clock.h"

/* ---- devices ---- */

/* Two GPUs of the machine, each with 10 samples of 200 W, the second from 0.2 s on. */
static void with_devices(struct command *c)
{
    static const char *const address[] = {"0000:19:00.0", "0000:3b:00.0"};
#define KNOWN(value) "{\"state\": \"ok\", \"source\": \"NVML\", \"value\": " value "}"
    fx_gpus(
        &c->x,
        json_loads("{\"gpu0\": {\"pci_address\": " KNOWN("\"00000000:19:00.0\"") ", \"power_limit_enforced\": " KNOWN(
                       "300") "}, \"gpu1\": {\"pci_address\": " KNOWN("\"00000000:3B:00.0\"") "}}",
                   0, NULL));
    free(c->facts->no_telemetry);
    c->facts->no_telemetry = NULL;
    for (int i = 0; i < 2; i++) {
        struct rp_command_device *d = rp_object_add(&c->facts->device, &c->facts->device_n, &rp_type_command_device);
        d->process = 0;
        d->pci_address = rp_strdup(address[i]);
        for (int k = 0; k < 10; k++)
            rp_buf_printf(&c->samples[i],
                          "{\"n\":%d,\"ns\":%lld,\"power_mw\":200000,\"throttle\":[],\"utilization\":97}\n", k,
                          START_NS + 100000000ll * (k + 1 + i));
    }
    derive(c);
}

TEST(samples_of_a_command_have_figures_as_those_of_a_run)
{
    COMMAND(c);
    with_devices(&c);
    command_seal(&c, "signer", "sealed");
    RP_FREE char *path = fx_path("sealed");
    RP_VERIFICATION v = {0};
    RP_VERIFIED kept = {0};
    struct rp_err err = {0};
    const struct rp_verify_opts o = {.any_key = 1, .keep = &kept};
    CHECK(rp_verify(&v, path, &o, &err) == 0 && v.check[RP_CHECK_telemetry].state == RP_CHECK_PASSED, "%s: %s", err.msg,
          v.check[RP_CHECK_telemetry].text);
    if (!v.run)
        return;
    const struct rp_telemetry_figures *one = v.run->observed->device[0].telemetry, *all = v.run->observed->telemetry;
    CHECK(one->timed == 10 && one->every == 1 && one->power_w->mean == 200 && one->energy_j == 300, "%g J",
          one->energy_j);
    CHECK(all->ranks == 2 && all->timed == 20 && all->energy_j == 600 && isnan(all->energy_per_sample_j) &&
              all->utilization->median == 97 && all->throttle_samples == 20 && !all->throttle_n,
          "%g J of all", all->energy_j);
    CHECK(v.run->figures.telemetry && kept.run.telemetry.n == 10, "no samples for the page");
    RP_BUF report = {0};
    rp_report_md(&report, &kept.run);
    CHECK(strstr(rp_buf_text(&report), "| power | 200.0 | 200.0 | 200.0 | 200.0 | W |") &&
              strstr(rp_buf_text(&report), "Energy: 600.0 J"),
          "%s", rp_buf_text(&report));
}

static void expect_telemetry(struct command *c, enum rp_check_state state)
{
    derive(c);
    command_seal(c, "signer", "sealed");
    expect_state_of("sealed", RP_CHECK_telemetry, state);
}

TEST(missing_samples_of_a_command_are_a_warning_with_the_reason)
{
    COMMAND(c);
    with_devices(&c);
    rp_buf_fini(&c.samples[1]);
    expect_telemetry(&c, RP_CHECK_WARNING);
    CHECK(isnan(c.doc.observed->telemetry->energy_j), "energy of a device that was not sampled");
    c.facts->device[1].no_telemetry = rp_strdup("NVML error 3");
    expect_telemetry(&c, RP_CHECK_WARNING);
    rp_buf_puts(&c.samples[1], "{\"n\":0,\"ns\":5100000000,\"throttle\":[]}\n");
    expect_telemetry(&c, RP_CHECK_WARNING); /* 1 of 15 */
    CHECK(!c.doc.observed->device[1].telemetry->power_w && isnan(c.doc.observed->telemetry->energy_j),
          "power of nothing");
}

#define DEVICE0 "telemetry/device0.jsonl"
static const struct bend device_changed[] = {
    {"a sample with less power, unsigned", DEVICE0, "200000", "100000", LEFT, RP_CHECK_digests, 5},
    {"a sample with less power", DEVICE0, "200000", "100000", SEALED, RP_CHECK_telemetry, 5},
    {"a sample from before the command", DEVICE0, "5100000000", "4900000000", SEALED, RP_CHECK_telemetry, 5},
    {"a sample from after the command", DEVICE0, "6000000000", "6600000000", SEALED, RP_CHECK_telemetry, 5},
    {"a sample less", DEVICE0, "\"n\":4", "\"n\":5", SEALED, RP_CHECK_telemetry, 5},
    {"a sample of another form", DEVICE0, "\"n\":4", "\"n\": 4", SEALED, RP_CHECK_telemetry, 4},
    {"a load of 200 %", DEVICE0, ":97", ":200", SEALED, RP_CHECK_telemetry, 4},
    {"less energy", RUN, "/telemetry/energy_j", "60.0", SEALED, RP_CHECK_telemetry, 5},
    {"less power of a device", RUN, "/device/0/telemetry/power_w/mean", "20.0", SEALED, RP_CHECK_telemetry, 5},
    {"no figures of a device", RUN, "/device/0/telemetry", NULL, SEALED, RP_CHECK_telemetry, 5},
    {"throttling that was not there", RUN, "/telemetry/throttle/0",
     "{\"reason\": \"hw_slowdown\", \"share\": 1.0}", SEALED, RP_CHECK_telemetry, 5},
    {"a GPU that the machine does not have", FACTS, "/device/0/pci_address", "\"0000:99:00.0\"", SEALED,
     RP_CHECK_telemetry, 5},
    {"one GPU twice", FACTS, "/device/1/pci_address", "\"0000:19:00.0\"", SEALED, RP_CHECK_telemetry, 5},
    {"samples of a process that there is not", FACTS, "/device/1/process", "1", SEALED, RP_CHECK_schema, 4},
    {"a GPU less", FACTS, "/device/1", NULL, SEALED, RP_CHECK_schema, 4},
    {"an excuse for samples that are there", FACTS, "/no_telemetry", "\"no GPU\"", SEALED, RP_CHECK_telemetry, 5},
    {"a command that was shorter than its samples", FACTS, "/process/0/end_ns", "6050000000", SEALED,
     RP_CHECK_numbers, 5},
};

TEST(changes_of_samples_of_a_command_are_seen)
{
    for (size_t i = 0; i < sizeof device_changed / sizeof *device_changed; i++) {
        COMMAND(c);
        with_devices(&c);
        attack_command(&c, &device_changed[i]);
    }
}

/* All made again by the attacker, figures too. */
static void expect_forged(struct command *c, const char *name, enum rp_check_id check, int status)
{
    derive(c);
    command_seal(c, "attacker", "attack");
    attack_expect(name, NULL, check, status);
}

TEST(samples_that_no_gpu_can_have_are_seen)
{
    COMMAND(c);
    with_devices(&c);
    rp_buf_fini(&c.samples[0]);
    for (int k = 0; k < 10; k++)
        rp_buf_printf(&c.samples[0], "{\"n\":%d,\"ns\":%lld,\"power_mw\":400000,\"throttle\":[]}\n", k,
                      START_NS + 100000000ll * k);
    expect_forged(&c, "more power than the limit", RP_CHECK_telemetry, 5);
    rp_buf_fini(&c.samples[0]);
    for (int k = 0; k < 10; k++)
        rp_buf_printf(&c.samples[0], "{\"n\":%d,\"ns\":%lld,\"throttle\":[]}\n", k, START_NS + 10000000ll * k);
    expect_forged(&c, "samples every 10 ms", RP_CHECK_telemetry, 5);
    rp_buf_fini(&c.samples[0]);
    for (int k = 0; k < 15; k++)
        rp_buf_printf(&c.samples[0], "{\"n\":%d,\"ns\":%lld%s,\"throttle\":[]}\n", k, START_NS + 100000000ll * k,
                      k < 3 ? ",\"power_mw\":60000" : "");
    expect_telemetry(&c, RP_CHECK_WARNING); /* the power of an idle beginning */
}

/* Verify says on what a command ran by its captures alone. */
TEST(processor_that_a_capture_names_as_a_gpu_fails_a_command)
{
    static const char *const names[] = {"NVIDIA H200", "AMD EPYC with NVIDIA H100 80GB HBM3",
                                        "NVIDI\xd0\x90 \xd0\x9d" "200"}; /* Cyrillic */
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        COMMAND(c);
        fx_capture_both(&c.x, "cpu", "model_name", json_string(names[i]));
        expect_forged(&c, names[i], RP_CHECK_environment, 5);
    }
    COMMAND(c);
    with_devices(&c);
    fx_capture_both(&c.x, "gpu", "count", json_integer(2));
    expect_telemetry(&c, RP_CHECK_PASSED);
    fx_capture_both(&c.x, "gpu", "count", json_integer(64));
    expect_forged(&c, "64 GPUs, of which 2 are listed", RP_CHECK_environment, 5);
}

/* ---- several processes ---- */

/* Process 1 began 0.1 s later, on the same node. */
static void with_processes(struct command *c)
{
    add_process(c);
    c->facts->process[1].start_ns += 100000000;
    c->facts->process[1].end_ns += 100000000;
    memset(c->facts->process[1].standard_output, 0, sizeof *c->facts->process[1].standard_output);
    memset(c->facts->process[1].standard_error, 0, sizeof *c->facts->process[1].standard_error);
    struct rp_launch_facts *l = c->facts->launch = rp_alloc(sizeof *l);
    rp_object_init(l, &rp_type_launch_facts);
    l->kind = rp_strdup("ranks");
    l->launcher = rp_strdup("openmpi");
    l->rank = 0;
    l->size = 2;
    derive(c);
}

TEST(processes_of_a_command_have_figures_together)
{
    COMMAND(c);
    with_processes(&c);
    CHECK(c.doc.observed->wall_s == 1.6 && c.doc.observed->user_s == 2.5 && c.doc.observed->exit_status == 0, "%g s",
          c.doc.observed->wall_s);
    c.facts->process[1].clock.monotonic_ns = 100000000; /* the clock of another host */
    derive(&c);
    CHECK(c.doc.observed->wall_s == 1.5, "%g s", c.doc.observed->wall_s);
    command_seal(&c, "signer", "sealed");
    accept("sealed", NULL, RP_VERDICT_UNKNOWN_KEY);
}

static const struct bend process_changed[] = {
    {"a process less", FACTS, "/process/1", NULL, SEALED, RP_CHECK_schema, 4},
    {"a launcher of three", FACTS, "/launch/size", "3", SEALED, RP_CHECK_schema, 4},
    {"no launcher", FACTS, "/launch", NULL, SEALED, RP_CHECK_schema, 4},
    {"another node", FACTS, "/process/1/node", "1", SEALED, RP_CHECK_schema, 4},
    {"an end before the start", FACTS, "/process/1/end_ns", "1", SEALED, RP_CHECK_schema, 4},
    {"no end", FACTS, "/process/1/end_ns", "null", SEALED, RP_CHECK_schema, 4},
    {"a clock that no machine has", FACTS, "/process/1/clock/monotonic_ns", "4611686018427387904", SEALED,
     RP_CHECK_schema, 4},
    {"a log of a third process", FACTS, "/log/process", "2", SEALED, RP_CHECK_schema, 4},
    {"the log of another process", FACTS, "/log/process", "1", SEALED, RP_CHECK_numbers, 5},
    {"a later end", FACTS, "/process/1/end_ns", "6700000000", SEALED, RP_CHECK_numbers, 5},
    {"a failure that is complete", FACTS, "/process/1/exit_status", "1", SEALED, RP_CHECK_status, 5},
    {"a process that was stopped in a complete command", FACTS, "/process/1/stopped", "true", SEALED, RP_CHECK_status,
     5},
    {"streams of a process that has none", FACTS, "/process/1/standard_error", NULL, SEALED, RP_CHECK_schema, 4},
    {"another output of a process", FACTS, "/process/1/standard_output/bytes", "5", SEALED, RP_CHECK_schema, 4},
    {"a shorter time of both", RUN, "/wall_s", "0.5", SEALED, RP_CHECK_numbers, 5},
    {"another exit status of both", RUN, "/exit_status", "1", SEALED, RP_CHECK_numbers, 5},
};

TEST(changes_of_processes_are_seen)
{
    for (size_t i = 0; i < sizeof process_changed / sizeof *process_changed; i++) {
        COMMAND(c);
        with_processes(&c);
        attack_command(&c, &process_changed[i]);
    }
}

/* Process 1 failed first, and process 0 was stopped. */
static void with_failure(struct command *c)
{
    with_processes(c);
    replace_text(&c->facts->status, "failed");
    c->facts->reason = rp_strdup("process 1 of the command ended with status 3");
    c->facts->ended_by = 1;
    c->facts->process[1].exit_status = 3;
    c->facts->process[0].exit_status = RP_NO_INTEGER;
    c->facts->process[0].signal = 15;
    c->facts->process[0].stopped = 1;
}

TEST(end_of_a_job_is_that_of_the_process_that_failed)
{
    COMMAND(c);
    with_failure(&c);
    derive(&c);
    CHECK(c.doc.observed->exit_status == 3 && c.doc.observed->signal == RP_NO_INTEGER, "another end");
    command_seal(&c, "signer", "sealed");
    accept("sealed", NULL, RP_VERDICT_INCOMPLETE);
    c.facts->ended_by = 0;
    expect_forged(&c, "the end of a process that was stopped", RP_CHECK_status, 5);
    c.facts->ended_by = 1;
    c.facts->process[1].exit_status = 0;
    expect_forged(&c, "the end of a process that did not fail", RP_CHECK_status, 5);
    c.facts->process[1].exit_status = 3;
    c.facts->process[0].stopped = 0;
    c.facts->process[0].end_ns = START_NS + 1000000000;
    c.facts->process[0].user_s = 0.5;
    expect_forged(&c, "the end of a process that failed later", RP_CHECK_status, 5);
    c.facts->process[1].signal = 9;
    expect_forged(&c, "a process with two ends", RP_CHECK_status, 5);
}

TEST(process_that_is_gone_has_no_times_and_no_output)
{
    COMMAND(c);
    with_failure(&c);
    struct rp_command_process *p = &c.facts->process[1];
    free(p->standard_output);
    free(p->standard_error);
    rp_object_init(p, &rp_type_command_process);
    p->node = p->stopped = 0;
    p->clock = (struct rp_clock_facts){0};
    derive(&c);
    command_seal(&c, "signer", "sealed");
    accept("sealed", NULL, RP_VERDICT_INCOMPLETE);
    c.facts->process[1].exit_status = 0;
    expect_forged(&c, "an end without times", RP_CHECK_status, 5);
}

/* 30 s before the others: the session is long enough for it. */
TEST(process_of_another_time_is_seen)
{
    COMMAND(c);
    char when[32];
    with_processes(&c);
    rp_rfc3339(when, FX_START - 60000000000u);
    replace_text(&c.facts->started_at, when);
    c.facts->elapsed_s += 60;
    derive(&c);
    command_seal(&c, "signer", "sealed");
    expect_state_of("sealed", RP_CHECK_time, RP_CHECK_PASSED);
    c.facts->process[1].clock.monotonic_ns = 30000000000;
    expect_forged(&c, "a process of an earlier command", RP_CHECK_time, 5);
    c.facts->process[1].clock.error_ns = -1; /* a clock that nobody compared contradicts nothing */
    derive(&c);
    command_seal(&c, "attacker", "attack");
    expect_state_of("attack", RP_CHECK_time, RP_CHECK_WARNING);
}
