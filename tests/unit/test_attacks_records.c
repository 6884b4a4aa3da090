/* Attacks on the raw records and the captures by somebody with a key of their own, who computes everything again as far
 * as they can. */
#include "tests/unit/attack.h"

#define STEPS "steps/rank0.jsonl"
#define BEFORE "env/node0.before.json"
#define AFTER "env/node0.after.json"
#define FF_ROOT "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define OK(value) "{\"state\": \"ok\", \"value\": " value ", \"source\": \"/proc\"}"

/* Each fault of a line is in test_results.c; these are other ways to write one, or to add something. */
static const struct bend forms[] = {
    {"a blank in a record", STEPS, "\"end_ns\":", "\"end_ns\": ", SEALED, RP_CHECK_schema, 4},
    {"a carriage return", STEPS, "\n", "\r\n", SEALED, RP_CHECK_schema, 4},
    {"a byte order mark in the records", STEPS, "^", "\xef\xbb\xbf", SEALED, RP_CHECK_schema, 4},
    {"keys of a record in another order", STEPS, "\"phase\":\"init\",\"rank\":0,", "\"rank\":0,\"phase\":\"init\",",
     SEALED, RP_CHECK_schema, 4},
    {"a key of a record that has no meaning", STEPS, "\"phase\":\"warm-up\"", "\"pause_ns\":5,\"phase\":\"warm-up\"",
     SEALED, RP_CHECK_schema, 4},
    {"a look-alike key in a record", STEPS, "\"loss\":", "\"l\xd0\xbess\":", SEALED, RP_CHECK_schema, 4},
    {"an escaped key in a record", STEPS, "\"loss\":", "\"l\\u006fss\":", SEALED, RP_CHECK_schema, 4},
    {"NaN for a time", STEPS, "\"start_ns\":5", "\"start_ns\":NaN5", SEALED, RP_CHECK_schema, 4},
    {"a time with a fraction", STEPS, "\"start_ns\":5", "\"start_ns\":0.5", SEALED, RP_CHECK_schema, 4},
    {"a time with an exponent", STEPS, "\"start_ns\":5000000000", "\"start_ns\":5e9", SEALED, RP_CHECK_schema, 4},
    {"a time with a leading zero", STEPS, "\"start_ns\":5", "\"start_ns\":05", SEALED, RP_CHECK_schema, 4},
    {"samples of 2 to the 32 and 4", STEPS, "\"samples\":4", "\"samples\":4294967300", SEALED, RP_CHECK_schema, 4},
    {"more tokens than there is room for", STEPS, "\"tokens\":50", "\"tokens\":65", SEALED, RP_CHECK_numbers, 5},
    {"a learning rate beyond double", STEPS, "\"learning_rate\":9", "\"learning_rate\":9e400,\"x\":9", SEALED,
     RP_CHECK_schema, 4},
    {"a loss in capitals", STEPS, "\"loss\":\"0x1.9p+2\"", "\"loss\":\"0X1.9P+2\"", SEALED, RP_CHECK_schema, 4},
    {"a loss more exact than a float", STEPS, "\"loss\":\"0x1.9p+2\"", "\"loss\":\"0x1.9000001p+2\"", SEALED,
     RP_CHECK_schema, 4},
    {"a loss with an exponent of two zeros", STEPS, "\"loss\":\"0x1.9p+2\"", "\"loss\":\"0x1.9p+02\"", SEALED,
     RP_CHECK_schema, 4},
    {"a state root in capitals", STEPS, "\"state_root\":\"00112233445566778899aabb",
     "\"state_root\":\"00112233445566778899AABB", SEALED, RP_CHECK_schema, 4},
    {"a state root with a digit less", STEPS, "\"state_root\":\"00", "\"state_root\":\"0", SEALED, RP_CHECK_schema, 4},
    {"a state root with a letter that is no digit", STEPS, "\"state_root\":\"00", "\"state_root\":\"0g", SEALED,
     RP_CHECK_schema, 4},
    {"a first state with a time", STEPS, "\"phase\":\"init\"", "\"end_ns\":1,\"phase\":\"init\"", SEALED,
     RP_CHECK_schema, 4},
    {"a first state that is a step", STEPS, "\"step\":-1", "\"step\":0", SEALED, RP_CHECK_schema, 4},
    {"a step of 2 to the 32 and 3", STEPS, "\"step\":3}", "\"step\":4294967299}", SEALED, RP_CHECK_schema, 4},
    {"a part of the loss with two thousand digits", STEPS, "\"mlm\":\"0x1.9p+2\"",
     "\"mlm\":\"0x1.9p+2" FF_ROOT FF_ROOT FF_ROOT FF_ROOT FF_ROOT FF_ROOT FF_ROOT FF_ROOT FF_ROOT FF_ROOT FF_ROOT
         FF_ROOT FF_ROOT FF_ROOT FF_ROOT FF_ROOT FF_ROOT FF_ROOT FF_ROOT FF_ROOT FF_ROOT FF_ROOT FF_ROOT FF_ROOT FF_ROOT
             FF_ROOT FF_ROOT FF_ROOT FF_ROOT FF_ROOT FF_ROOT "\"",
     SEALED, RP_CHECK_schema, 4},
};

static const struct bend times[] = {
    {"a step that ends before it starts", STEPS, "\"end_ns\":5100000000", "\"end_ns\":4100000000", SEALED,
     RP_CHECK_schema, 5},
    {"a step shorter than it was", STEPS, "\"end_ns\":5202000003", "\"end_ns\":5151000003", SEALED, RP_CHECK_numbers,
     5},
    {"a device that worked longer than its step", STEPS, "\"end_ns\":5100000000",
     "\"device_ns\":200000000,\"end_ns\":5100000000", SEALED, RP_CHECK_schema, 5},
    {"a device's clock at one step only", STEPS, "\"end_ns\":5100000000",
     "\"device_ns\":90000000,\"end_ns\":5100000000", SEALED, RP_CHECK_numbers, 5},
    {"a root that takes longer than the pause", STEPS, "\"repeat\":0,\"samples\"",
     "\"repeat\":0,\"root_ns\":90000000,\"samples\"", SEALED, RP_CHECK_schema, 4},
    {"samples that were waited for longer than the pause", STEPS, "\"input_ns\":301001", "\"input_ns\":1000001", SEALED,
     RP_CHECK_schema, 5},
    {"less waiting for samples, figures left", STEPS, "\"input_ns\":301001", "\"input_ns\":1001", SEALED,
     RP_CHECK_numbers, 5},
    {"a warm-up step counted as timed", STEPS, "\"phase\":\"warm-up\"", "\"phase\":\"timed\"", SEALED, RP_CHECK_numbers,
     5},
    {"a timed step counted as warm-up", STEPS, "\"phase\":\"timed\"", "\"phase\":\"warm-up\"", SEALED, RP_CHECK_numbers,
     5},
    {"a step of another repeat", STEPS, "\"repeat\":1", "\"repeat\":2", SEALED, RP_CHECK_numbers, 5},
    {"larger steps than the recipe's", STEPS, "\"samples\":4", "\"samples\":8", SEALED, RP_CHECK_numbers, 5},
    {"longer sequences than the recipe's", STEPS, "\"padded_tokens\":64", "\"padded_tokens\":512", SEALED,
     RP_CHECK_numbers, 5},
    {"another learning rate", STEPS, "\"learning_rate\":9", "\"learning_rate\":8", SEALED, RP_CHECK_numbers, 5},
    {"a part of the loss below zero", STEPS, "\"loss_parts\":{\"mlm\":\"0x1.9p+2\",\"nsp\":\"0x0p+0\"}",
     "\"loss_parts\":{\"mlm\":\"0x1.ap+2\",\"nsp\":\"-0x1p-2\"}", COMPUTED, RP_CHECK_loss, 5},
    {"a lower loss, figures left", STEPS, FX_LOSS("0x1.9p+2"), FX_LOSS("0x1.8p+2"), SEALED, RP_CHECK_numbers, 5},
    {"no first state", STEPS,
     "{\"phase\":\"init\",\"rank\":0,\"root_ns\":1000000,\"state_root\":\"" FX_ROOT "\",\"step\":-1}\n", "", SEALED,
     RP_CHECK_numbers, 5},

    /* ---- and everything that follows from them computed again ---- */
    /* --replay says */
    {"a step shorter than it was, all figures again", STEPS, "\"end_ns\":5202000003", "\"end_ns\":5201000003", COMPUTED,
     KEY_ALONE},
    {"a token more, all figures again", STEPS, "\"tokens\":51", "\"tokens\":52", COMPUTED, KEY_ALONE},
    {"a first loss that no model begins with", STEPS, FX_LOSS("0x1.9p+2"), FX_LOSS("0x1.9p-2"), COMPUTED, RP_CHECK_loss,
     5},
    {"a negative loss", STEPS, FX_LOSS("0x1.7p+2"), FX_LOSS("-0x1.7p+2"), COMPUTED, RP_CHECK_loss, 5},
    {"a gradient norm of nothing", STEPS, "\"grad_norm\":\"0x1.3p+1\"", "\"grad_norm\":\"0x0p+0\"", COMPUTED,
     RP_CHECK_gradients, 5},
    {"a negative gradient norm", STEPS, "\"grad_norm\":\"0x1.3p+1\"", "\"grad_norm\":\"-0x1.3p+1\"", COMPUTED,
     RP_CHECK_gradients, 5},
    {"another state at the end", STEPS, "\"state_root\":\"00112233", "\"state_root\":\"ff112233", COMPUTED, KEY_ALONE},
};

static const struct bend captures[] = {
    {"a capture from before the run began", BEFORE, "/captured_at", "\"2026-09-21T13:13:20Z\"", SEALED, RP_CHECK_time,
     5},
    {"a capture from after its end", BEFORE, "/captured_at", "\"2026-09-21T14:20:00Z\"", SEALED, RP_CHECK_time, 5},
    {"a second capture from before the end", AFTER, "/captured_at", "\"2026-09-21T14:13:20Z\"", SEALED, RP_CHECK_time,
     5},
    {"a capture of the 30th of February", BEFORE, "/captured_at", "\"2026-02-30T14:13:20Z\"", SEALED, RP_CHECK_time, 5},
    {"a capture of tomorrow's form", BEFORE, "/schema", "\"repro-env/2\"", SEALED, RP_CHECK_schema, 4},
    {"a capture without probes", BEFORE, "/probes", NULL, SEALED, RP_CHECK_schema, 4},
    {"a value in a state of its own", BEFORE, "/probes/cpu/model/state", "\"perfect\"", SEALED, RP_CHECK_schema, 4},
    {"a value without a state", BEFORE, "/probes/cpu/model/state", NULL, SEALED, RP_CHECK_schema, 4},
    {"a key of a capture twice", BEFORE, "\"salt\"", "\"salt\": \"00\",\n  \"salt\"", SEALED, RP_CHECK_schema, 4},
    {"a capture in another spelling", BEFORE, "\n", " \n", SEALED, RP_CHECK_schema, 4},
    {"NaN in a capture", BEFORE, "\"value\": null", "\"value\": NaN", SEALED, RP_CHECK_schema, 4},
    {"a number beyond double in a capture", BEFORE, "\"value\": null", "\"value\": 1e999", SEALED, RP_CHECK_schema, 4},
    {"a change between the captures that is not listed", AFTER, "/probes/cpu/model/value", "\"B\"", SEALED,
     RP_CHECK_changes, 5},
    {"a machine without that instruction set", BEFORE, "/probes/cpu/flags", OK("[\"sse2\"]"), COMPUTED,
     RP_CHECK_environment, 5},
    {"a machine with less memory than was used", BEFORE, "/probes/memory/total", OK("1000000"), COMPUTED,
     RP_CHECK_environment, 5},
    {"a capture by another version", BEFORE, "/probes/program/version", OK("\"9.9.9\""), COMPUTED, RP_CHECK_same_host,
     5},
    {"another processor after the run", AFTER, "/probes/cpu/model/value", "\"B\"", COMPUTED,
     KEY_ALONE}, /* and a note: what changed is listed */
    {"another salt", AFTER, "/salt", "\"ff112233445566778899aabbccddeeff\"", COMPUTED, KEY_ALONE},
    {"a faster processor in both", BEFORE, "/probes/cpu/l3", OK("1073741824"), COMPUTED, KEY_ALONE},
};

TEST(attacks_on_the_form_of_records)
{
    ATTACKS(forms);
}

TEST(attacks_on_times_and_values_of_records)
{
    ATTACKS(times);
}

/* Samples of the signer's own may be of one token, which a pinned archive is not. */
TEST(an_unlikely_first_loss_on_private_data_is_a_warning)
{
    FX(x);
    static const char *const settings[][2] = {{"data.path", "mine"}, {"data.archive", NULL}, {"data.sha256", NULL}};
    json_t *recipe = json_object_get(x.facts, "recipe");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        json_object_set_new(recipe, settings[i][0],
                            json_pack("{s:s?, s:s}", "value", settings[i][1], "origin", "command line"));
    json_object_set_new(x.facts, "data", json_pack("{s:b, s:n, s:n, s:s}", "pinned", 0, "archive", "archive_sha256",
                                                   "digest", FX_ROOT));
    fx_bend(&x.steps, FX_LOSS("0x1.9p+2"), FX_LOSS("0x1.9p-2"));
    fx_derive(&x);
    fx_seal(&x, "signer", "attack");
    expect_state_of("attack", RP_CHECK_loss, RP_CHECK_WARNING);
}

TEST(attacks_on_captures)
{
    ATTACKS(captures);
}

/* Only a replication has them: its key is that of the original's statement. */
TEST(keyed_roots_of_a_run_that_replicates_nothing)
{
    FX(x);
    fx_keyed(&x.steps);
    fx_compute(&x);
    refused(&x, RP_CHECK_agreement, RP_MISMATCH);
}
