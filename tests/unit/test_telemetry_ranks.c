/* Telemetry of several GPUs: the figures of each are those of its own steps and clock, those of the run follow from
 * them, and what does not follow is refused. */
#include "tests/unit/tap.h"
#include "tests/unit/world_fixture.h"

#include "run/telemetry.h"
#include "verify/policy/policy.h"

#include <math.h>

static const char h100[] = "gpu0 NVIDIA H100 PCIe sm_90";
#define LATER 7000000000000ll /* how much the clock of the second node is ahead */
#define WATTS(i) (200 + 50 * (i))

/* Device samples of rank i, one every 100 ms from `from` on. */
static void sample_rank(struct fx *x, int i, long long from, int n, const char *throttle)
{
    rp_buf_fini(&x->telemetry_of[i]);
    for (int k = 0; k < n; k++)
        rp_buf_printf(
            &x->telemetry_of[i],
            "{\"clock_sm_hz\":%d,\"n\":%d,\"ns\":%lld,\"power_mw\":%d,\"temperature_c\":%d,\"throttle\":[%s]}\n",
            1500000000 + i * 1000000, k, from + k * 100000100ll, WATTS(i) * 1000, 50 + i + k % 3,
            k % 2 ? throttle : "");
}

/* Every time of a list of records on a clock that is ahead. */
static void move_clock(struct rp_buf *steps, long long by)
{
    struct rp_buf out = {0};
    for (const char *at = steps->data; *at; at++) {
        const char *key = strncmp(at, "\"start_ns\":", 11) == 0 ? "\"start_ns\":"
                          : strncmp(at, "\"end_ns\":", 9) == 0  ? "\"end_ns\":"
                                                                : NULL;
        if (!key) {
            rp_buf_add(&out, at, 1);
            continue;
        }
        char *end;
        const long long ns = strtoll(at + strlen(key), &end, 10);
        rp_buf_printf(&out, "%s%lld", key, ns + by);
        at = end - 1;
    }
    rp_buf_fini(steps);
    *steps = out;
}

/* Four ranks on two nodes; the clock of the second is far ahead, and the slowest rank is there. */
static void four_gpus(struct fx *x)
{
    widen(x, (struct width){.ranks = 4, .nodes = 2, .percent = 100, .device = h100});
    x->ahead_ns = LATER;
    for (int i = 0; i < 4; i++) {
        fx_records_of_rank(&x->of_rank[i], &x->steps, i);
        if (i > 1)
            move_clock(&x->of_rank[i], LATER);
        sample_rank(x, i, 5000000200ll + (i > 1 ? LATER : 0), 8, "");
    }
}

static int verify_it(struct rp_verification *v, const char *file, struct rp_err *err)
{
    RP_FREE char *path = fx_path(file);
    struct rp_verify_opts o = {0};
    return rp_verify(v, path, &o, err);
}

TEST(figures_of_each_rank_are_of_its_own_clock)
{
    RP_VERIFICATION v = {0};
    struct rp_err err = {0};
    FX(x);
    four_gpus(&x);
    seal_world(&x, "four");
    const struct rp_figures *f = &x.doc->figures;
    const struct rp_telemetry_figures *is = f->telemetry;
    double joules = 0;
    for (int i = 0; i < 4; i++) {
        const struct rp_telemetry_figures *one = f->rank[i].telemetry;
        const double s = f->rank[i].timed_s;
        CHECK(one->ranks == 1 && one->timed == 6, "rank %d: %lld samples within its steps", i, (long long)one->timed);
        CHECK(fabs(one->energy_j - WATTS(i) * s) < 1e-6, "rank %d: %g J", i, one->energy_j);
        CHECK(isnan(one->energy_per_sample_j), "ranks share samples");
        joules += WATTS(i) * s;
    }
    /* 6 timed steps of 16 samples in all */
    CHECK(fabs(is->energy_j - joules) < 1e-6, "%g J, expected %g", is->energy_j, joules);
    CHECK(fabs(is->energy_per_sample_j * 6 * 16 - joules) < 1e-6, "%g J a sample", is->energy_per_sample_j);
    CHECK(is->ranks == 4 && is->timed == 24 && is->count == 32, "%lld samples", (long long)is->timed);
    CHECK(is->power_w->min == 200 && is->power_w->max == 350 && is->power_w->median == 275 && is->power_w->mean == 275,
          "power");
    CHECK(is->clock_sm_hz->median == 1501500000, "%g Hz", is->clock_sm_hz->median);
    RP_BUF report = {0};
    fx_report(&report, &x);
    CHECK(strstr(report.data, "| 3 | 1 | 6 | 1503 | 350.0 | 55 | "), "%s", strstr(report.data, "## The device"));
    CHECK(verify_it(&v, "four", &err) == 0, "%s", err.msg);
    CHECK(v.check[RP_CHECK_telemetry].state == RP_CHECK_PASSED, "telemetry: %s", v.check[RP_CHECK_telemetry].text);
    CHECK(v.check[RP_CHECK_energy].state == RP_CHECK_PASSED, "energy: %s", v.check[RP_CHECK_energy].text);
}

TEST(what_the_samples_of_a_rank_show_names_it)
{
    struct rp_err err = {0};
    FX(x);
    four_gpus(&x);
    sample_rank(&x, 2, 5000000200ll + LATER, 8, "\"hw_slowdown\"");
    seal_world(&x, "throttled");
    {
        RP_VERIFICATION v = {0};
        CHECK(verify_it(&v, "throttled", &err) == 0, "%s", err.msg);
        CHECK(v.check[RP_CHECK_telemetry].state == RP_CHECK_NOTE &&
                  strstr(v.check[RP_CHECK_telemetry].text, "rank 2: hw_slowdown in 50 %"),
              "%s", v.check[RP_CHECK_telemetry].text);
        const struct rp_telemetry_figures *is = x.doc->figures.telemetry;
        CHECK(is->throttle_n == 1 && strcmp(is->throttle[0].reason, "hw_slowdown") == 0 &&
                  is->throttle[0].share == 0.125,
              "a quarter of one half");
    }
    fx_again(&x);
    four_gpus(&x);
    rp_buf_fini(&x.telemetry_of[3]);
    seal_world(&x, "one lacks it");
    {
        RP_VERIFICATION v = {0};
        CHECK(verify_it(&v, "one lacks it", &err) == 0, "%s", err.msg);
        CHECK(v.check[RP_CHECK_telemetry].state == RP_CHECK_WARNING &&
                  strstr(v.check[RP_CHECK_telemetry].text, "rank 3 "),
              "%s", v.check[RP_CHECK_telemetry].text);
        CHECK(isnan(x.doc->figures.telemetry->energy_j), "the energy of three of four devices");
    }
    fx_again(&x);
    four_gpus(&x);
    x.telemetry_of[1].size = 0; /* its samples are those of an idle moment */
    sample_rank(&x, 1, 5000000200ll - 1500000000ll, 8, "");
    seal_world(&x, "idle");
    {
        RP_VERIFICATION v = {0};
        (void)!verify_it(&v, "idle", &err);
        CHECK(v.check[RP_CHECK_telemetry].state == RP_CHECK_NOTE &&
                  strstr(v.check[RP_CHECK_telemetry].text, "of rank 1"),
              "%s", v.check[RP_CHECK_telemetry].text);
    }
}

static int state_of(struct fx *x, const char *file, enum rp_check_id id)
{
    RP_VERIFICATION v = {0};
    struct rp_err err = {0};
    seal_world(x, file);
    CHECK(verify_it(&v, file, &err) == 0, "%s: %s", file, err.msg);
    CHECK(v.check[id].state != RP_CHECK_WARNING || strstr(v.check[id].text, "rank 1: "), "%s", v.check[id].text);
    return v.check[id].state;
}

/* Rank 1 is not the slowest, whose samples are kept: its own are looked at as they are read. */
TEST(power_and_throttling_of_a_rank_that_is_not_the_slowest_are_of_its_whole_window)
{
    static const char rules[] = "no_throttling: true";
    FX(x);
    four_gpus(&x);
    for (int i = 0; i < 4; i++)
        sample_rank(&x, i, 5000000200ll + (i > 1 ? LATER : 0), 8, "\"gpu_idle\"");
    CHECK(state_of(&x, "whole", RP_CHECK_energy) == RP_CHECK_PASSED, "honest");
    expect_policy("whole", rules, (struct rp_verify_opts){0}, 1);
    CHECK(x.doc->figures.world.slowest != 1, "rank 1 is the slowest");
    rp_buf_fini(&x.telemetry_of[1]); /* the reasons of one sample alone */
    for (int k = 0; k < 8; k++)
        rp_buf_printf(&x.telemetry_of[1], "{\"n\":%d,\"ns\":%lld,\"power_mw\":250000%s}\n", k,
                      5000000200ll + k * 100000100ll, k == 4 ? ",\"throttle\":[]" : "");
    CHECK(state_of(&x, "silent", RP_CHECK_energy) == RP_CHECK_PASSED, "its power is known");
    expect_policy("silent", rules, (struct rp_verify_opts){0}, 0);
    rp_buf_fini(&x.telemetry_of[1]); /* most samples in an idle tenth of a second */
    for (int k = 0; k < 6; k++)
        rp_buf_printf(&x.telemetry_of[1], "{\"n\":%d,\"ns\":%lld,\"power_mw\":%d,\"throttle\":[]}\n", k,
                      5000000200ll + (k < 5 ? 140000000ll + 10000000ll * k : 700000000ll), k < 5 ? 30000 : 300000);
    CHECK(state_of(&x, "uneven", RP_CHECK_energy) == RP_CHECK_WARNING, "the energy of an idle moment");
}

static void refused_as(struct fx *x, const char *file, int check)
{
    RP_VERIFICATION v = {0};
    struct rp_err err = {0};
    fx_seal(x, "signer", file);
    CHECK(verify_it(&v, file, &err) < 0 && err.code == RP_MISMATCH, "%s: %s", file, err.msg);
    CHECK(v.check[check].state == RP_CHECK_FAILED, "%s: %s", file, v.check[check].text);
}

TEST(what_does_not_follow_is_refused)
{
    FX(x);
    four_gpus(&x);
    seal_world(&x, "honest");
    set_path(x.run, "telemetry/energy_j", json_real(1));
    refused_as(&x, "energy of all", RP_CHECK_telemetry);
    fx_again(&x);
    four_gpus(&x);
    seal_world(&x, "honest");
    set_path(x.run, "rank/2/telemetry/timed", json_integer(7));
    refused_as(&x, "samples of a rank", RP_CHECK_telemetry);
    fx_again(&x);
    four_gpus(&x);
    seal_world(&x, "honest");
    rp_buf_fini(&x.telemetry_of[2]); /* the figures stay */
    refused_as(&x, "no member", RP_CHECK_telemetry);
    fx_again(&x);
    four_gpus(&x);
    seal_world(&x, "honest");
    json_object_del((json_t *)rp_json_at(x.run, "rank/2"), "telemetry"); /* the member stays */
    refused_as(&x, "no figures", RP_CHECK_telemetry);
    fx_again(&x);
    four_gpus(&x);
    sample_rank(&x, 3, 5000000200ll, 8, ""); /* by the clock of another rank */
    fx_compute(&x);
    fx_other_build(&x);
    refused_as(&x, "another clock", RP_CHECK_telemetry);
}

/* Fewer lines of each where there are many ranks. */
TEST(lines_of_all_ranks_are_bounded)
{
    static const struct {
        int ranks;
        int64_t most;
    } cases[] = {{1, 8192}, {8, 8192}, {9, 4096}, {16, 4096}, {32, 2048}, {1000, 64}, {9999, 64}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK(rp_telemetry_most(cases[i].ranks) == cases[i].most, "%d ranks keep %lld lines", cases[i].ranks,
              (long long)rp_telemetry_most(cases[i].ranks));
    for (int n = 64; n < 66; n++) {
        struct rp_telemetry t;
        struct rp_err err = {0};
        RP_BUF lines = {0};
        for (int k = 0; k < n; k++)
            rp_buf_printf(&lines, "{\"n\":%d,\"ns\":%d,\"power_mw\":300000,\"throttle\":[]}\n", k, 5000 + 100 * k);
        int failed = rp_telemetry_parse(&t, RP_OF_RANK(999, ".telemetry.jsonl"), rp_telemetry_most(1000), lines.data,
                                        lines.size, &err) < 0;
        CHECK(failed == (n > 64) && (!failed || err.code == RP_MISMATCH), "%d lines: %s", n, err.msg);
        if (!failed)
            rp_telemetry_fini(&t);
    }
}
