/* Attacks by somebody with a key of their own: contents changed, what follows from them made again, everything signed.
 * Without a key to trust, only what does not fit together can give them away; with one, all of them end at the key
 * (attack()). */
#include "tests/unit/attack.h"

#define FACTS "facts.json"
#define RUN "run.json"
#define FF_ROOT "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static const struct bend summaries[] = {
    {"twice the throughput", RUN, "/results/throughput/value", "77.6", SEALED, RP_CHECK_numbers, 5},
    {"a throughput in the last digit", RUN, "/results/throughput/value", "38.834889135797255", SEALED, RP_CHECK_numbers,
     5},
    {"a throughput of nothing", RUN, "/results/throughput/value", "null", SEALED, RP_CHECK_numbers, 5},
    {"a throughput that is a text", RUN, "/results/throughput/value", "\"38.8\"", SEALED, RP_CHECK_schema, 4},
    {"a negative throughput", RUN, "/results/throughput/value", "-1.5", SEALED, RP_CHECK_schema, 4},
    {"a narrower interval", RUN, "/results/throughput/interval/0", "38.8", SEALED, RP_CHECK_numbers, 5},
    {"more replicates", RUN, "/results/throughput/resamples", "100000", SEALED, RP_CHECK_numbers, 5},
    {"another level of confidence", RUN, "/results/throughput/level", "0.5", SEALED, RP_CHECK_numbers, 5},
    {"a shorter window", RUN, "/results/windows/0/seconds", "0.1", SEALED, RP_CHECK_numbers, 5},
    {"a window less", RUN, "/results/windows/1", NULL, SEALED, RP_CHECK_numbers, 5},
    {"a rate of a window", RUN, "/results/windows/0/throughput", "99.5", SEALED, RP_CHECK_numbers, 5},
    {"more samples in a window", RUN, "/results/windows/0/samples", "13", SEALED, RP_CHECK_numbers, 5},
    {"a quicker median step", RUN, "/results/step_s/median", "0.05", SEALED, RP_CHECK_numbers, 5},
    {"a quicker 99th percentile", RUN, "/results/step_s/p99", "0.05", SEALED, RP_CHECK_numbers, 5},
    {"more tokens", RUN, "/results/counters/0/per_s", "9999.5", SEALED, RP_CHECK_numbers, 5},
    {"less padding", RUN, "/results/counters/0/share", "1.0", SEALED, RP_CHECK_numbers, 5},
    {"another unit", RUN, "/results/throughput/unit", "\"tokens/s\"", SEALED, RP_CHECK_numbers, 5},
    {"a unit that is none", RUN, "/results/throughput/unit", "\"\\u001b[2J\"", SEALED, RP_CHECK_schema, 4},
    {"more FLOP/s", RUN, "/results/flops_per_s", "1e15", SEALED, RP_CHECK_numbers, 5},
    {"less time between steps", RUN, "/results/between_steps_s", "0.0", SEALED, RP_CHECK_numbers, 5},
    {"another limit of the pace", RUN, "/results/input/limited_by", "\"input\"", SEALED, RP_CHECK_numbers, 5},
    {"a limit that is none", RUN, "/results/input/limited_by", "\"weather\"", SEALED, RP_CHECK_schema, 4},
    {"less waiting for input", RUN, "/results/input/share", "0.0", SEALED, RP_CHECK_numbers, 5},
    {"damaged samples of a run that refuses them", FACTS, "/skipped_samples", "3", SEALED, RP_CHECK_data, 5},
    {"a lower last loss", RUN, "/results/loss_last/hex", "\"0x1p-9\"", SEALED, RP_CHECK_numbers, 5},
    {"a lower last loss beside its bits", RUN, "/results/loss_last/value", "0.001", SEALED, RP_CHECK_numbers, 5},
    {"another first loss", RUN, "/results/loss_first/hex", "\"0x1p+3\"", SEALED, RP_CHECK_numbers, 5},
    {"another gradient norm", RUN, "/results/grad_norm_last/hex", "\"0x1p+0\"", SEALED, RP_CHECK_numbers, 5},
    {"another last state", RUN, "/results/state_root_last", "\"" FF_ROOT "\"", SEALED, RP_CHECK_numbers, 5},
    {"other records' digest", RUN, "/results/records_sha256", "\"" FF_ROOT "\"", SEALED, RP_CHECK_numbers, 5},
    {"more steps", RUN, "/results/steps/timed", "7000", SEALED, RP_CHECK_numbers, 5},
    {"larger steps", RUN, "/results/samples_per_step", "32", SEALED, RP_CHECK_numbers, 5},
    {"more state roots", RUN, "/results/state_roots/count", "7", SEALED, RP_CHECK_numbers, 5},
    {"a longer range of one rank", RUN, "/rank/0/timed_s", "0.25", SEALED, RP_CHECK_ranks, 5},
    {"other records of one rank", RUN, "/rank/0/records_sha256", "\"" FF_ROOT "\"", SEALED, RP_CHECK_ranks, 5},
    {"exchanges of one rank", RUN, "/rank/0/exchange_s", "0.25", SEALED, RP_CHECK_ranks, 5},
    {"less memory than the rank had", RUN, "/peak_rss_bytes", "9", SEALED, RP_CHECK_ranks, 5},
    {"telemetry of a processor", RUN, "/rank/0/telemetry",
     "{\"ranks\": 1, \"sha256\": \"" FX_ROOT
     "\", \"count\": 1, \"every\": 1, \"period_s\": 0.1, \"timed\": 1, \"throttle_samples\": 0, "
     "\"throttle\": [], \"energy_j\": null, \"energy_per_sample_j\": null}",
     SEALED, RP_CHECK_telemetry, 5},
    {"a figure that nobody computes", RUN, "/results/speedup", "31.5", SEALED, RP_CHECK_schema, 4},
    {"a figure less", RUN, "/results/between_steps_s", NULL, SEALED, RP_CHECK_schema, 4},
    {"a counter less", RUN, "/results/counters/1", NULL, SEALED, RP_CHECK_numbers, 5},
    {"a share of the ceiling", RUN, "/ceilings/gemm_share", "0.9", SEALED, RP_CHECK_ceilings, 5},
    {"a slower ceiling", RUN, "/ceilings/before/gemm_flops_per_s", "1e6", SEALED, RP_CHECK_ceilings, 5},
    {"ceilings taken out", RUN, "/ceilings", NULL, SEALED, RP_CHECK_ceilings, 5},
    {"ceilings that nobody measured", FACTS, "/ceilings", NULL, SEALED, RP_CHECK_ceilings, 5},
    {"ceilings taken out, figures again", FACTS, "/ceilings", NULL, COMPUTED, RP_CHECK_ceilings, 5},
    {"ceilings of a rank that the run has not", FACTS, "/ceilings/rank", "1", SEALED, RP_CHECK_schema, 4},
    {"a quicker repetition of the ceiling", FACTS, "/ceilings/before/gemm/ns/1", "1", SEALED, RP_CHECK_ceilings, 5},
    {"a quicker repetition of the ceiling, figures again", FACTS, "/ceilings/before/gemm/ns/1", "1", COMPUTED,
     RP_CHECK_peak, 5},
};

static const struct bend claims[] = {
    {"a ledger with a reason and runs before it", FACTS, "/ledger/earlier", "0", SEALED, RP_CHECK_ledger, 5},
    {"ceilings without work", FACTS, "/ceilings/before/gemm/m", "0", COMPUTED, RP_CHECK_ceilings, 5},
    {"ceilings without repetitions", FACTS, "/ceilings/after/copy/ns", "[]", COMPUTED, RP_CHECK_ceilings, 5},
    {"a complete run with an excuse", FACTS, "/reason", "\"out of memory\"", SEALED, RP_CHECK_status, 5},
    {"a status of one's own", FACTS, "/status", "\"certified\"", SEALED, RP_CHECK_schema, 4},
    {"other arithmetic", RUN, "/numerics", "\"repro-tf32/1\"", SEALED, RP_CHECK_recipe, 5},
    {"a form of yesterday", RUN, "/schema", "\"repro-run/3\"", SEALED, RP_CHECK_schema, 11},
    {"a form of the day before", RUN, "/schema", "\"repro-run/2\"", SEALED, RP_CHECK_schema, 11},
    {"the first form of all", RUN, "/schema", "\"repro-run/1\"", SEALED, RP_CHECK_schema, 11},
    {"facts in a form of yesterday", FACTS, "/schema", "\"repro-run/3\"", SEALED, RP_CHECK_schema, 11},
    {"another model", RUN, "/model/name", "\"gpt\"", SEALED, RP_CHECK_recipe, 5},
    {"a schedule by epochs, which the model does not count", FACTS, "/recipe/schedule.decay/value", "\"step\"", SEALED,
     RP_CHECK_schema, 4},
    {"another unit of samples", RUN, "/model/sample_unit", "\"images\"", SEALED, RP_CHECK_recipe, 5},
    {"a part of the loss less", RUN, "/model/loss_parts/1", NULL, SEALED, RP_CHECK_recipe, 5},
    {"two ranks", RUN, "/world/ranks", "2", SEALED, RP_CHECK_schema, 4},
    {"two nodes", RUN, "/world/nodes", "2", SEALED, RP_CHECK_schema, 4},
    {"no rank", RUN, "/world/ranks", "0", SEALED, RP_CHECK_schema, 4},
    {"a form of tomorrow", RUN, "/schema", "\"repro-run/5\"", SEALED, RP_CHECK_schema, 11},
    {"facts in a form of tomorrow", FACTS, "/schema", "\"repro-facts/5\"", SEALED, RP_CHECK_schema, 11},
    {"a field that has no meaning", FACTS, "/endorsed_by", "\"everybody\"", SEALED, RP_CHECK_schema, 4},
    {"a figure that has no meaning", RUN, "/endorsed_by", "\"everybody\"", SEALED, RP_CHECK_schema, 4},
    {"a field of a rank that has no meaning", FACTS, "/rank/0/endorsed_by", "\"everybody\"", SEALED, RP_CHECK_schema,
     4},
    {"a field less", FACTS, "/elapsed_s", NULL, SEALED, RP_CHECK_schema, 4},
    {"a fact that is a text", FACTS, "/elapsed_s", "\"2.5\"", SEALED, RP_CHECK_schema, 4},
    {"a fact that is a fraction", FACTS, "/rank/0/peak_rss_bytes", "12345678.5", SEALED, RP_CHECK_schema, 4},
    {"a fact among the figures", RUN, "/elapsed_s", "2.5", SEALED, RP_CHECK_schema, 4},
    {"a figure among the facts", FACTS, "/results", "{}", SEALED, RP_CHECK_schema, 4},
    {"no rank among the facts", FACTS, "/rank/0", NULL, SEALED, RP_CHECK_schema, 4},
    {"no rank among the figures", RUN, "/rank/0", NULL, SEALED, RP_CHECK_schema, 4},
    {"no node among the figures", RUN, "/node/0", NULL, SEALED, RP_CHECK_schema, 4},
    {"a rank on a second node", FACTS, "/rank/0/node", "1", SEALED, RP_CHECK_schema, 4},
    {"another layout", FACTS, "/layout/tensor", "2", SEALED, RP_CHECK_schema, 4},
    {"a larger batch in the settings", FACTS, "/recipe/train.batch_size/value", "32", SEALED, RP_CHECK_recipe, 5},
    {"a larger model in the settings", FACTS, "/recipe/model.hidden_size/value", "768", SEALED, RP_CHECK_recipe, 5},
    {"clipping that was not", FACTS, "/recipe/optimizer.clip_norm/value", "0.5", SEALED, RP_CHECK_recipe, 5},
    {"dropout that was not", FACTS, "/recipe/model.hidden_dropout_prob/value", "0.5", SEALED, RP_CHECK_recipe, 5},
    {"a setting from the command line that was none", FACTS, "/recipe/seed.init/origin", "\"command line\"", SEALED,
     KEY_ALONE}, /* it could have been */
    {"a setting that nobody knows", FACTS, "/recipe/train.precision", "{\"value\": \"fp64\", \"origin\": \"recipe\"}",
     SEALED, RP_CHECK_schema, 4},
    {"a setting in a look-alike spelling", FACTS, "/recipe/train.b\xd0\xb0tch_size",
     "{\"value\": 99, \"origin\": \"recipe\"}", SEALED, RP_CHECK_schema, 4},
    {"a setting less", FACTS, "/recipe/train.batch_size", NULL, SEALED, RP_CHECK_schema, 4},
    {"a batch size beyond all", FACTS, "/recipe/train.batch_size/value", "9223372036854775807", SEALED, RP_CHECK_schema,
     4},
    {"a recipe's digest", RUN, "/recipe_sha256", "\"" FF_ROOT "\"", SEALED, RP_CHECK_recipe, 5},
    {"more parameters", RUN, "/model/parameters", "110106428", SEALED, RP_CHECK_plan, 5},
    {"more FLOPs a sample", RUN, "/model/flops_per_sample", "1e12", SEALED, RP_CHECK_plan, 5},
    {"a planned batch of another size", FACTS, "/plan/batch", "32", SEALED, RP_CHECK_plan, 5},
    {"a batch of no samples", FACTS, "/plan/batch", "0", SEALED, RP_CHECK_plan, 5},
    {"no room for the parameters", FACTS, "/plan/bytes/parameters", "1", SEALED, RP_CHECK_environment, 5},
    {"parts that are not the sum", FACTS, "/plan/total_bytes", "9", SEALED, RP_CHECK_environment, 5},
    {"negative memory", FACTS, "/plan/host_bytes", "-1", SEALED, RP_CHECK_schema, 4},
    {"a peak below the parameters", FACTS, "/rank/0/peak_rss_bytes", "9", COMPUTED, RP_CHECK_environment, 5},
    {"a peak below the parameters, figures left", FACTS, "/rank/0/peak_rss_bytes", "9", SEALED, RP_CHECK_ranks, 5},
    {"memory of a device that has none", FACTS, "/rank/0/device_bytes", "{\"reserved\": 1, \"used\": 1}", SEALED,
     RP_CHECK_environment, 5},
    {"an instruction set that nobody knows", FACTS, "/rank/0/device/isa", "\"avx1024\"", SEALED, KEY_ALONE}, /* noted */
    {"no threads", FACTS, "/rank/0/device/threads", "0", SEALED, RP_CHECK_environment, 5},
    {"more threads than there can be", FACTS, "/rank/0/device/threads", "4097", SEALED, RP_CHECK_environment, 5},
    {"a device with an escape", FACTS, "/rank/0/device/isa", "\"avx2\\u001b[2J\"", SEALED, RP_CHECK_schema, 4},
    {"a GPU whose device is a CPU", FACTS, "/backend", "\"cuda\"", SEALED, RP_CHECK_environment, 5},
    {"a backend with a product's name", FACTS, "/backend", "\"NVIDIA H200\"", SEALED, RP_CHECK_environment, 5},
    {"a pinned archive of another digest", FACTS, "/data/archive_sha256", "\"" FF_ROOT "\"", SEALED, RP_CHECK_data, 5},
    {"a pinned archive of another name", FACTS, "/data/archive", "\"enwiki.tar.zst\"", SEALED, RP_CHECK_data, 5},
    {"pinned to nothing", FACTS, "/data/archive_sha256", "null", SEALED, RP_CHECK_data, 5},
    {"a longer run by its clock", FACTS, "/elapsed_s", "600.5", SEALED, RP_CHECK_time, 5},
    {"a shorter run by its clock", FACTS, "/elapsed_s", "0.25", SEALED, RP_CHECK_time, 5},
    {"an end before the start", FACTS, "/ended_at", "\"2026-09-21T14:13:19Z\"", SEALED, RP_CHECK_time, 5},
    {"an end in the future", FACTS, "/ended_at", "\"2036-09-21T14:13:22Z\"", SEALED, RP_CHECK_time, 5},
    {"a start before the captures", FACTS, "/started_at", "\"2026-09-21T13:13:20Z\"", SEALED, RP_CHECK_time, 5},
    {"a day that no calendar has", FACTS, "/started_at", "\"2026-02-30T14:13:20Z\"", SEALED, RP_CHECK_time, 5},
    {"a leap second that was none", FACTS, "/started_at", "\"2026-09-21T14:13:60Z\"", SEALED, RP_CHECK_time, 5},
    {"a time of another form", FACTS, "/started_at", "\"21.09.2026 14:13\"", SEALED, RP_CHECK_schema, 4},
    {"phases longer than the run", FACTS, "/rank/0/phases_s/timed", "30.5", SEALED, RP_CHECK_time, 5},
    {"a timed phase shorter than its steps", FACTS, "/rank/0/phases_s/timed", "0.25", SEALED, RP_CHECK_time, 5},
    {"a negative phase", FACTS, "/rank/0/phases_s/timed", "-0.5", SEALED, RP_CHECK_schema, 4},
    {"a change that was none", RUN, "/node/0/change",
     "[{\"field\": \"cpu.model\", \"impact\": \"none\", \"varies\": true, \"before\": null, \"after\": null}]", SEALED,
     RP_CHECK_changes, 5},
    {"roots of tensors that give another state", FACTS, "/tensor_root",
     "[{\"name\": \"x\", \"init\": \"" FX_ROOT "\", \"final\": \"" FX_ROOT "\"}]", SEALED, RP_CHECK_state_roots, 5},
    {"a tensor without a root", FACTS, "/tensor_root", "[{\"name\": \"x\", \"init\": null, \"final\": null}]", SEALED,
     RP_CHECK_state_roots, 5},
    {"tensors in another order", FACTS, "/tensor_root",
     "[{\"name\": \"y\", \"init\": \"" FX_ROOT "\", \"final\": null}, {\"name\": \"x\", \"init\": \"" FX_ROOT
     "\", \"final\": null}]",
     SEALED, RP_CHECK_state_roots, 5},
    {"one tensor twice", FACTS, "/tensor_root",
     "[{\"name\": \"x\", \"init\": \"" FX_ROOT "\", \"final\": null}, {\"name\": \"x\", \"init\": \"" FX_ROOT
     "\", \"final\": null}]",
     SEALED, RP_CHECK_state_roots, 5},
    {"an excuse for telemetry that a processor never has", FACTS, "/rank/0/no_telemetry", "\"no driver\"", SEALED,
     RP_CHECK_telemetry, 5},
    {"exchanges with nobody", FACTS, "/rank/0/exchange",
     "{\"connections\": {\"shared_memory\": 0, \"tls\": 0, \"tls_on_host\": 0, \"refused\": 77, \"nccl\": null}, "
     "\"levels\": 0, \"bytes_per_step\": 0, \"bytes_per_step_between_hosts\": 0, \"sent_bytes\": 0}",
     SEALED, RP_CHECK_ranks, 5},
    {"a launcher of one rank", FACTS, "/launch",
     "{\"kind\": \"ranks\", \"launcher\": \"a message\", \"rank\": 0, \"size\": 1, \"local_rank\": null, "
     "\"local_size\": null, \"node\": null, \"nodes\": null, \"ranks_per_node\": null, \"decided_by\": []}",
     SEALED, RP_CHECK_ranks, 5},
    {"another sum of the planned memory", FACTS, "/plan/total_bytes", "4711", SEALED, RP_CHECK_environment, 5},
    {"digits in the list of processors", FACTS, "/rank/0/cpus", "\"0000001234567890\"", SEALED, RP_CHECK_environment,
     5},
    {"a type of tensors that no file has", FACTS, "/init",
     "{\"optimizer_state\": false, \"steps\": 0, \"class\": null, \"types\": [\"a message\"]}", SEALED, RP_CHECK_data,
     5},
    {"a type of tensors twice", FACTS, "/init",
     "{\"optimizer_state\": false, \"steps\": 0, \"class\": null, \"types\": [\"F32\", \"F32\"]}", SEALED,
     RP_CHECK_data, 5},
    {"ceilings by the clock of a device", FACTS, "/ceilings/before/clock", "\"device\"", COMPUTED, RP_CHECK_environment,
     5},
    {"settings that require another backend", FACTS, "/recipe/run.backend",
     "{\"value\": \"cuda\", \"origin\": \"command line\"}", SEALED, RP_CHECK_environment, 5},
    {"another name of the program", FACTS, "/tool/name", "\"repr\xd0\xbe\"", SEALED, RP_CHECK_schema, 4},

    /* ---- both documents in another spelling: text, not values ---- */
    {"a key of run.json twice", RUN, "\"numerics\"", "\"numerics\": \"repro-fp32/1\",\n  \"numerics\"", SEALED,
     RP_CHECK_schema, 4},
    {"a key of facts.json twice", FACTS, "\"backend\"", "\"backend\": \"cpu\",\n  \"backend\"", SEALED, RP_CHECK_schema,
     4},
    {"a figure twice, the better one first", RUN,
     "\"between_steps_s\": ", "\"between_steps_s\": 0.0,\n    \"between_steps_s\": ", SEALED, RP_CHECK_schema, 4},
    {"NaN in run.json", RUN, "\"timed_s\": ", "\"timed_s\": NaN, \"x\": ", SEALED, RP_CHECK_schema, 4},
    {"NaN in facts.json", FACTS, "\"elapsed_s\": 2.5", "\"elapsed_s\": NaN", SEALED, RP_CHECK_schema, 4},
    {"a number beyond double in run.json", RUN, "\"timed_s\": ", "\"timed_s\": 2.5e999, \"x\": ", SEALED,
     RP_CHECK_schema, 4},
    {"a number beyond double in facts.json", FACTS, "\"elapsed_s\": 2.5", "\"elapsed_s\": 2.5e999", SEALED,
     RP_CHECK_schema, 4},
    {"a number in another spelling", FACTS, "\"elapsed_s\": 2.5", "\"elapsed_s\": 2.50", SEALED, RP_CHECK_schema, 4},
    {"a figure in another spelling", RUN, "\"flops_per_sample\": 299712.0", "\"flops_per_sample\": 299712.00", SEALED,
     RP_CHECK_schema, 4},
    {"a number as an integer", RUN, "\"flops_per_sample\": 299712.0", "\"flops_per_sample\": 299712", SEALED,
     RP_CHECK_plan, 5},
    {"keys in another order", FACTS, "\"backend\": \"cpu\",", "\"zone\": 1, \"backend\": \"cpu\",", SEALED,
     RP_CHECK_schema, 4},
    {"an escaped key", FACTS, "\"backend\"", "\"b\\u0061ckend\"", SEALED, RP_CHECK_schema, 4},
    {"a look-alike key beside the real one", FACTS, "\"backend\"",
     "\"b\xd0\xb0"
     "ckend\": \"cuda\",\n  \"backend\"",
     SEALED, RP_CHECK_schema, 4},
    {"a lone surrogate", FACTS, "\"isa\": \"", "\"isa\": \"\\ud800", SEALED, RP_CHECK_schema, 4},
    {"a NUL in a text", FACTS, "\"isa\": \"", "\"isa\": \"\\u0000", SEALED, RP_CHECK_schema, 4},
    {"bytes that are no UTF-8 in a text", FACTS, "\"isa\": \"", "\"isa\": \"\xff", SEALED, RP_CHECK_schema, 4},
    {"a second document in run.json", RUN, "", "{}\n", SEALED, RP_CHECK_schema, 4},
    {"a second document in facts.json", FACTS, "", "{}\n", SEALED, RP_CHECK_schema, 4},
    {"no end of the last line of run.json", RUN, "\n}\n", "\n}", SEALED, RP_CHECK_schema, 4},
    {"a byte order mark in run.json", RUN, "^", "\xef\xbb\xbf", SEALED, RP_CHECK_schema, 4},
    {"the figures in the place of the facts", FACTS, "\"repro-facts/4\"", "\"repro-run/4\"", SEALED, RP_CHECK_schema,
     4},

    /* ---- the recipe ---- */
    {"a recipe with another batch", "recipe.yaml", "batch_size: 4", "batch_size: 8", SEALED, RP_CHECK_recipe, 5},
    {"a recipe with another comment", "recipe.yaml", "tiny", "TINY", SEALED, RP_CHECK_recipe, 5},
    {"a recipe that is no YAML", "recipe.yaml", "", "\t{[", SEALED, RP_CHECK_recipe, 5},
};

TEST(attacks_on_summaries)
{
    ATTACKS(summaries);
}

TEST(attacks_on_claims)
{
    ATTACKS(claims);
}

/* Where records and settings disagree there are no figures to compare run.json with, and it may lack what a check
 * reads. */
TEST(figures_that_are_compared_with_nothing)
{
    static const char telemetry[] =
        "{\"ranks\": 1, \"sha256\": \"" FX_ROOT "\", \"count\": 1, \"every\": 1, \"period_s\": 0.1, "
        "\"timed\": 1000, \"throttle_samples\": 0, \"throttle\": [], \"energy_j\": null, \"energy_per_sample_j\": "
        "null}";
    for (int i = 0; i < 2; i++) {
        struct fx x = fx_new();
        json_t *steps = json_object_get(json_object_get(x.facts, "recipe"), "measure.timed_steps");
        json_object_set_new(steps, "value", json_integer(4));
        json_object_set_new(steps, "origin", json_string("command line"));
        json_object_del(x.run, "ceilings");
        if (i)
            json_object_set_new(json_array_get(json_object_get(x.run, "rank"), 0), "telemetry",
                                json_loads(telemetry, 0, NULL));
        fx_seal(&x, "attacker", "attack");
        attack_expect(i ? "telemetry of nothing" : "no ceilings", NULL, RP_CHECK_numbers, 5);
        fx_fini(&x);
    }
}

/* A line has as many before it as its number says. */
TEST(more_runs_before_a_line_than_there_are_lines)
{
    for (int earlier = 2; earlier < 4; earlier++) {
        FX(x);
        fx_set_ledger(&x, json_pack("{s:i, s:s, s:i, s:s, s:s}", "position", 3, "head", FX_ROOT, "earlier", earlier,
                                    "at", "2026-09-21T14:13:19Z", "begun", "2026-09-21T12:00:00Z"));
        if (earlier < 3)
            accepted(&x);
        else
            refused(&x, RP_CHECK_ledger, RP_MISMATCH);
    }
}

/* No September has 31 days. */
TEST(a_line_of_the_ledger_at_no_time)
{
    static const struct {
        const char *at, *begun;
        enum rp_check_state state;
    } rows[] = {{"2026-09-21T14:13:19Z", "2026-09-21T12:00:00Z", RP_CHECK_NOTE},
                {"2026-09-31T14:13:19Z", "2026-09-21T12:00:00Z", RP_CHECK_FAILED},
                {"2026-09-21T14:13:19Z", "2026-02-30T12:00:00Z", RP_CHECK_FAILED}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        FX(x);
        fx_set_ledger(&x, json_pack("{s:i, s:s, s:i, s:i, s:s, s:s}", "position", 3, "head", FX_ROOT, "earlier", 2,
                                    "overlapping", 0, "at", rows[i].at, "begun", rows[i].begun));
        if (rows[i].state == RP_CHECK_FAILED) {
            refused(&x, RP_CHECK_ledger, RP_MISMATCH);
            continue;
        }
        fx_seal(&x, "signer", "sealed");
        expect_state_of("sealed", RP_CHECK_ledger, rows[i].state);
    }
}

/* Both documents say so. */
TEST(more_nodes_than_ranks)
{
    FX(x);
    set_path(x.facts, "rank/0/node", json_integer(1));
    set_path(x.run, "world/nodes", json_integer(2));
    json_array_append_new(json_object_get(x.run, "node"), json_pack("{s:[]}", "change"));
    refused(&x, RP_CHECK_schema, RP_MALFORMED);
}
