/* Attacks by somebody with a key of their own: contents changed, what follows from them made again, everything signed. Without a key to
 * trust, only what does not fit together can give them away; with one, all of them end at the key (attack()). */
#include "tests/unit/attack.h"

#define RUN "run.json"
#define FF_ROOT "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static const struct bend summaries[] = {
    {"twice the throughput", RUN, "/results/sequences_per_s", "77.6", REPORTED, RP_CHECK_numbers, 5},
    {"a throughput in the last digit", RUN, "/results/sequences_per_s", "38.834889135797255", REPORTED, RP_CHECK_numbers, 5},
    {"a throughput of nothing", RUN, "/results/sequences_per_s", "null", REPORTED, RP_CHECK_numbers, 5},
    {"a throughput that is a text", RUN, "/results/sequences_per_s", "\"38.8\"", SEALED, RP_CHECK_schema, 4},
    {"a negative throughput", RUN, "/results/sequences_per_s", "-1.5", SEALED, RP_CHECK_schema, 4},
    {"a narrower interval", RUN, "/results/sequences_per_s_interval/0", "38.8", REPORTED, RP_CHECK_numbers, 5},
    {"more replicates", RUN, "/results/interval/replicates", "100000", REPORTED, RP_CHECK_numbers, 5},
    {"another estimator", RUN, "/results/estimator", "\"best of all repeats\"", REPORTED, RP_CHECK_numbers, 5},
    {"another window", RUN, "/results/window", "\"all\"", REPORTED, RP_CHECK_numbers, 5},
    {"a shorter window", RUN, "/results/windows/0/seconds", "0.1", REPORTED, RP_CHECK_numbers, 5},
    {"a window less", RUN, "/results/windows/1", NULL, REPORTED, RP_CHECK_numbers, 5},
    {"a rate of a window", RUN, "/results/windows/0/sequences_per_s", "99.5", REPORTED, RP_CHECK_numbers, 5},
    {"more samples in a window", RUN, "/results/windows/0/samples", "13", REPORTED, RP_CHECK_numbers, 5},
    {"a quicker median step", RUN, "/results/step_s/median", "0.05", REPORTED, RP_CHECK_numbers, 5},
    {"a quicker 99th percentile", RUN, "/results/step_s/p99", "0.05", REPORTED, RP_CHECK_numbers, 5},
    {"more tokens", RUN, "/results/tokens_per_s", "9999.5", REPORTED, RP_CHECK_numbers, 5},
    {"less padding", RUN, "/results/padding_share", "0.0", REPORTED, RP_CHECK_numbers, 5},
    {"more FLOP/s", RUN, "/results/flops_per_s", "1e15", REPORTED, RP_CHECK_numbers, 5},
    {"another formula of FLOP/s", RUN, "/results/flops_per_s_formula", "\"peak\"", REPORTED, RP_CHECK_numbers, 5},
    {"less time between steps", RUN, "/results/between_steps_s", "0.0", REPORTED, RP_CHECK_numbers, 5},
    {"a lower last loss", RUN, "/results/loss_last", "\"0x1p-9\"", REPORTED, RP_CHECK_numbers, 5},
    {"another first loss", RUN, "/results/loss_first", "\"0x1p+3\"", REPORTED, RP_CHECK_numbers, 5},
    {"another gradient norm", RUN, "/results/grad_norm_last", "\"0x1p+0\"", REPORTED, RP_CHECK_numbers, 5},
    {"another last state", RUN, "/results/state_root_last", "\"" FF_ROOT "\"", REPORTED, RP_CHECK_numbers, 5},
    {"other records' digest", RUN, "/results/records_sha256", "\"" FF_ROOT "\"", REPORTED, RP_CHECK_numbers, 5},
    {"more steps", RUN, "/results/steps/timed", "7000", REPORTED, RP_CHECK_numbers, 5},
    {"larger steps", RUN, "/results/samples_per_step", "32", REPORTED, RP_CHECK_numbers, 5},
    {"more state roots", RUN, "/results/state_roots/taken", "7", REPORTED, RP_CHECK_numbers, 5},
    {"a figure that nobody computes", RUN, "/results/speedup", "31.5", SEALED, RP_CHECK_schema, 4},
    {"a figure less", RUN, "/results/padding_share", NULL, SEALED, RP_CHECK_schema, 4},
    {"a share of the ceiling", RUN, "/ceilings/achieved/gemm_share", "0.9", REPORTED, RP_CHECK_ceilings, 5},
    {"a slower ceiling", RUN, "/ceilings/before/gemm/flops_per_s", "1e6", REPORTED, RP_CHECK_ceilings, 5},
    {"ceilings taken out", RUN, "/ceilings", NULL, REPORTED, RP_CHECK_ceilings, 5},
    {"a quicker repetition of the ceiling", RUN, "/ceilings/before/gemm/ns/1", "1", REPORTED, RP_CHECK_ceilings, 5},
};

static const struct bend claims[] = {
    {"a complete run with an excuse", RUN, "/reason", "\"out of memory\"", REPORTED, RP_CHECK_status, 5},
    {"a status of one's own", RUN, "/status", "\"certified\"", SEALED, RP_CHECK_schema, 4},
    {"other arithmetic", RUN, "/numerics", "\"repro-tf32/1\"", SEALED, RP_CHECK_schema, 4},
    {"a form of tomorrow", RUN, "/schema", "\"repro-run/2\"", SEALED, RP_CHECK_schema, 4},
    {"a field that has no meaning", RUN, "/endorsed_by", "\"everybody\"", SEALED, RP_CHECK_schema, 4},
    {"a larger batch in the settings", RUN, "/recipe/train.batch_size/value", "32", REPORTED, RP_CHECK_recipe, 5},
    {"a larger model in the settings", RUN, "/recipe/model.hidden_size/value", "768", REPORTED, RP_CHECK_recipe, 5},
    {"clipping that was not", RUN, "/recipe/optimizer.clip_norm/value", "0.5", REPORTED, RP_CHECK_recipe, 5},
    {"dropout that was not", RUN, "/recipe/model.hidden_dropout_prob/value", "0.5", REPORTED, RP_CHECK_recipe, 5},
    {"a setting from the command line that was none", RUN, "/recipe/seed.init/origin", "\"command line\"", REPORTED, KEY_ALONE}, /* it could have been */
    {"a setting that nobody knows", RUN, "/recipe/train.precision", "{\"value\": \"fp64\", \"origin\": \"recipe\"}", SEALED, RP_CHECK_schema, 4},
    {"a setting in a look-alike spelling", RUN, "/recipe/train.b\xd0\xb0tch_size", "{\"value\": 99, \"origin\": \"recipe\"}", SEALED, RP_CHECK_schema, 4},
    {"a setting less", RUN, "/recipe/train.batch_size", NULL, SEALED, RP_CHECK_schema, 4},
    {"a batch size beyond all", RUN, "/recipe/train.batch_size/value", "9223372036854775807", SEALED, RP_CHECK_schema, 4},
    {"a recipe's digest", RUN, "/recipe_sha256", "\"" FF_ROOT "\"", REPORTED, RP_CHECK_recipe, 5},
    {"more parameters", RUN, "/plan/parameters", "110106428", REPORTED, RP_CHECK_plan, 5},
    {"more FLOPs a sample", RUN, "/plan/flops_per_sample", "1e12", REPORTED, RP_CHECK_plan, 5},
    {"another formula of FLOPs", RUN, "/plan/flops_formula", "\"6 N D\"", REPORTED, RP_CHECK_plan, 5},
    {"a planned batch of another size", RUN, "/plan/batch", "32", REPORTED, RP_CHECK_plan, 5},
    {"a batch of no samples", RUN, "/plan/batch", "0", SEALED, RP_CHECK_schema, 4},
    {"no room for the parameters", RUN, "/plan/bytes/parameters", "1", REPORTED, RP_CHECK_machine, 5},
    {"parts that are not the sum", RUN, "/plan/total_bytes", "9", REPORTED, RP_CHECK_machine, 5},
    {"negative memory", RUN, "/plan/host_bytes", "-1", SEALED, RP_CHECK_schema, 4},
    {"a peak below the parameters", RUN, "/peak_rss_bytes", "9", REPORTED, RP_CHECK_machine, 5},
    {"memory of a device that has none", RUN, "/device_bytes", "{\"reserved\": 1, \"taken\": 1}", REPORTED, RP_CHECK_machine, 5},
    {"a device that is none of this backend", RUN, "/device", "\"isa=avx1024 threads=1\"", REPORTED, RP_CHECK_machine, 5},
    {"no threads", RUN, "/device", "\"isa=avx2 threads=0\"", REPORTED, RP_CHECK_machine, 5},
    {"more threads than there can be", RUN, "/device", "\"isa=avx2 threads=4097\"", REPORTED, RP_CHECK_machine, 5},
    {"a device with an escape", RUN, "/device", "\"isa=avx2 threads=1\\u001b[2J\"", REPORTED, RP_CHECK_machine, 5},
    {"a GPU, and no samples of it", RUN, "/backend", "\"cuda\"", REPORTED, KEY_ALONE},
    {"a pinned archive of another digest", RUN, "/data/archive_sha256", "\"" FF_ROOT "\"", REPORTED, RP_CHECK_data, 5},
    {"a pinned archive of another name", RUN, "/data/archive", "\"enwiki.tar.zst\"", REPORTED, RP_CHECK_data, 5},
    {"pinned to nothing", RUN, "/data/archive_sha256", NULL, REPORTED, RP_CHECK_data, 5},
    {"a longer run by its clock", RUN, "/elapsed_s", "600.5", REPORTED, RP_CHECK_time, 5},
    {"a shorter run by its clock", RUN, "/elapsed_s", "0.25", REPORTED, RP_CHECK_time, 5},
    {"an end before the start", RUN, "/ended_at", "\"2026-09-21T14:13:19Z\"", REPORTED, RP_CHECK_time, 5},
    {"an end in the future", RUN, "/ended_at", "\"2036-09-21T14:13:22Z\"", REPORTED, RP_CHECK_time, 5},
    {"a start before the captures", RUN, "/started_at", "\"2026-09-21T13:13:20Z\"", REPORTED, RP_CHECK_time, 5},
    {"a day that no calendar has", RUN, "/started_at", "\"2026-02-30T14:13:20Z\"", REPORTED, RP_CHECK_time, 5},
    {"a leap second that was none", RUN, "/started_at", "\"2026-09-21T14:13:60Z\"", REPORTED, RP_CHECK_time, 5},
    {"a time of another form", RUN, "/started_at", "\"21.09.2026 14:13\"", SEALED, RP_CHECK_schema, 4},
    {"phases longer than the run", RUN, "/phases_s/timed", "30.5", REPORTED, RP_CHECK_time, 5},
    {"a timed phase shorter than its steps", RUN, "/phases_s/timed", "0.25", REPORTED, RP_CHECK_time, 5},
    {"a negative phase", RUN, "/phases_s/timed", "-0.5", SEALED, RP_CHECK_schema, 4},
    {"a change that was none", RUN, "/environment_changes",
     "[{\"field\": \"cpu.model\", \"impact\": \"none\", \"moment\": true, \"before\": null, \"after\": null}]", REPORTED, RP_CHECK_changes, 5},
    {"roots of tensors that give another state", RUN, "/tensor_roots", "{\"init\": {}}", REPORTED, RP_CHECK_roots, 5},
    {"another name of the program", RUN, "/tool/name", "\"repr\xd0\xbe\"", SEALED, RP_CHECK_schema, 4},

    /* ---- run.json in another spelling: text, not values ---- */
    {"a key of run.json twice", RUN, "\"numerics\"", "\"numerics\": \"repro-fp32/1\",\n  \"numerics\"", SEALED, RP_CHECK_schema, 4},
    {"a figure twice, the better one first", RUN, "\"sequences_per_s\": ", "\"sequences_per_s\": 9999.5,\n    \"sequences_per_s\": ", SEALED,
     RP_CHECK_schema, 4},
    {"NaN in run.json", RUN, "\"elapsed_s\": 2.5", "\"elapsed_s\": NaN", SEALED, RP_CHECK_schema, 4},
    {"a number beyond double in run.json", RUN, "\"elapsed_s\": 2.5", "\"elapsed_s\": 2.5e999", SEALED, RP_CHECK_schema, 4},
    {"a number in another spelling", RUN, "\"elapsed_s\": 2.5", "\"elapsed_s\": 2.50", SEALED, RP_CHECK_schema, 4},
    {"a number as an integer", RUN, "\"flops_per_sample\": 299712.0", "\"flops_per_sample\": 299712", SEALED, RP_CHECK_plan, 5},
    {"keys in another order", RUN, "\"backend\": \"cpu\",", "\"zone\": 1, \"backend\": \"cpu\",", SEALED, RP_CHECK_schema, 4},
    {"an escaped key", RUN, "\"backend\"", "\"b\\u0061ckend\"", SEALED, RP_CHECK_schema, 4},
    {"a look-alike key beside the real one", RUN, "\"backend\"", "\"b\xd0\xb0" "ckend\": \"cuda\",\n  \"backend\"", SEALED, RP_CHECK_schema, 4},
    {"a lone surrogate", RUN, "\"device\": \"isa", "\"device\": \"\\ud800isa", SEALED, RP_CHECK_schema, 4},
    {"a NUL in a text", RUN, "\"device\": \"isa", "\"device\": \"\\u0000isa", SEALED, RP_CHECK_schema, 4},
    {"bytes that are no UTF-8 in a text", RUN, "\"device\": \"isa", "\"device\": \"\xffisa", SEALED, RP_CHECK_schema, 4},
    {"a second document in run.json", RUN, "", "{}\n", SEALED, RP_CHECK_schema, 4},
    {"no end of the last line of run.json", RUN, "\n}\n", "\n}", SEALED, RP_CHECK_schema, 4},
    {"a byte order mark in run.json", RUN, "^", "\xef\xbb\xbf", SEALED, RP_CHECK_schema, 4},

    /* ---- recipe and reports ---- */
    {"a recipe with another batch", "recipe.yaml", "batch_size: 4", "batch_size: 8", SEALED, RP_CHECK_recipe, 5},
    {"a recipe with another comment", "recipe.yaml", "tiny", "TINY", SEALED, RP_CHECK_recipe, 5},
    {"a recipe that is no YAML", "recipe.yaml", "", "\t{[", SEALED, RP_CHECK_recipe, 5},
    {"a report with another headline", "report.md", "**", "**9", SEALED, RP_CHECK_report, 5},
    {"a report with a script", "report.md", "", "<script>alert(1)</script>\n", SEALED, RP_CHECK_report, 5},
    {"a report that says INCOMPLETE nowhere", "report.md", "^", "\n", SEALED, RP_CHECK_report, 5},
};

TEST(attacks_on_summaries)
{
    ATTACKS(summaries);
}

TEST(attacks_on_claims)
{
    ATTACKS(claims);
}
