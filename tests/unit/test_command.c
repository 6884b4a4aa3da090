/* The bundle of a command: what it has, what verify recomputes of it, and what somebody with a key of their own can
 * change in it. */
#include "tests/unit/command_fixture.h"

#include "capture/privacy/secrets.h"
#include "page/page.h"
#include "supervise/command.h"
#include "verify/levels.h"
#include "verify/policy/policy.h"

/* ---- honest bundles ---- */

TEST(command_that_verifies_is_never_computed_or_timed)
{
    COMMAND(c);
    RP_VERIFICATION v = {0};
    RP_VERIFIED kept = {0};
    struct rp_err err = {0};
    const char *unit;
    RP_FREE char *path = fx_path("sealed");
    command_seal(&c, "signer", "sealed");
    const struct rp_verify_opts o = {.any_key = 1, .keep = &kept};
    CHECK(rp_verify(&v, path, &o, &err) == 0 && v.verdict == RP_VERDICT_VERIFIED, "%s", err.msg);
    CHECK(rp_bundle_kind(&kept.bundle) == RP_BUNDLE_COMMAND && v.run->command && v.run->facts.rank_n == 0,
          "another kind");
    CHECK(rp_run_throughput(v.run, &unit) == 128 && strcmp(unit, "images/s") == 0, "another rate");
    CHECK(rp_level_of(&v, RP_LEVEL_consistent).state == RP_LEVEL_YES, "not consistent");
    CHECK(rp_level_of(&v, RP_LEVEL_computed).state == RP_LEVEL_NO &&
              rp_level_of(&v, RP_LEVEL_timed).state == RP_LEVEL_NO,
          "a level too high");
    for (int i = 0; i < RP_CHECK_COUNT; i++) {
        const int of_run = i == RP_CHECK_recipe || i == RP_CHECK_replay || i == RP_CHECK_loss || i == RP_CHECK_peak ||
                           i == RP_CHECK_telemetry;
        CHECK(!of_run || v.check[i].state == RP_CHECK_NOT_APPLICABLE, "%s is '%s'", v.check[i].name,
              rp_check_state_name(v.check[i].state));
    }
    CHECK(rp_verified_run(&kept, path, &err) < 0 && err.code == RP_UNAVAILABLE, "a command counts as a run");
    RP_BUF line = {0};
    rp_levels_line(&line, &v);
    CHECK(strstr(rp_buf_text(&line), RP_MEASURED_BY_LOG), "%s", rp_buf_text(&line));
    RP_BUF report = {0};
    rp_report_md(&report, &kept.run);
    CHECK(strstr(rp_buf_text(&report), RP_MEASURED_BY_LOG) && strstr(rp_buf_text(&report), "128.000"), "%s",
          rp_buf_text(&report));
}

static void expect_numbers(struct command *c, enum rp_check_state state)
{
    derive(c);
    command_seal(c, "signer", "sealed");
    expect_state_of("sealed", RP_CHECK_numbers, state);
}

TEST(command_without_figures_verifies_with_a_remark)
{
    COMMAND(c);
    rp_buf_fini(&c.out);
    c.facts->process->standard_output->bytes = 0;
    expect_numbers(&c, RP_CHECK_NOTE); /* an empty log */
    free(c.facts->log->from);
    c.facts->log->from = rp_strdup("file");
    expect_numbers(&c, RP_CHECK_NOTE); /* the command wrote none */
    c.facts->log->file = rp_alloc(sizeof *c.facts->log->file);
    rp_buf_puts(&c.file, log_text);
    c.facts->log->file->bytes = (int64_t)c.file.size + 1000;
    c.facts->log->file->dropped = 1000;
    expect_numbers(&c, RP_CHECK_NOTE); /* a part is missing */
    c.facts->log->file->bytes = (int64_t)c.file.size;
    c.facts->log->file->dropped = 0;
    expect_numbers(&c, RP_CHECK_NOTE); /* a batch that is not in the log */
    rp_object_fini(c.facts->log, &rp_type_log_facts);
    free(c.facts->log);
    c.facts->log = NULL;
    expect_numbers(&c, RP_CHECK_NOT_APPLICABLE);
}

/* With a batch of 64,000 the same log shows 128,000 images a second. */
TEST(values_that_the_log_does_not_have_are_named_as_the_signers_word)
{
    static const char rules[] = "commands: true\nmin_throughput: 100 images/s";
    COMMAND(c);
    replace_text(&c.facts->log->set[0], "global_batch=64000");
    expect_numbers(&c, RP_CHECK_NOTE);
    {
        struct rp_policy p;
        RP_VERIFICATION v = {0};
        struct rp_err err = {0};
        RP_FREE char *path = fx_path("sealed");
        CHECK(rp_policy_parse(&p, rules, strlen(rules), "p.yaml", &err) == 0, "%s", err.msg);
        const struct rp_verify_opts o = {.policy = &p};
        CHECK(rp_verify(&v, path, &o, &err) == 0 && v.check[RP_CHECK_policy].state == RP_CHECK_NOTE &&
                  strstr(v.check[RP_CHECK_policy].text, "global_batch=64000"), "%s", v.check[RP_CHECK_policy].text);
        rp_policy_fini(&p);
    }
    free(c.facts->log->set[0]);
    c.facts->log->set_n = 0;
    rp_buf_fini(&c.out);
    rp_buf_puts(&c.out, "step,throughput\n0,128\n1,128\n2,128\n3,128\n4,128\n");
    c.facts->process->standard_output->bytes = (int64_t)c.out.size;
    c.facts->log->first_step = 2;
    expect_numbers(&c, RP_CHECK_NOTE);
    rp_buf_fini(&c.out);
    rp_buf_puts(&c.out, "step,images/s\n0,128\n1,128\n2,128\n3,128\n4,128\n");
    c.facts->process->standard_output->bytes = (int64_t)c.out.size;
    c.facts->log->first_step = RP_NO_INTEGER;
    free(c.facts->log->unit);
    c.facts->log->unit = NULL;
    expect_numbers(&c, RP_CHECK_PASSED);
    expect_policy("sealed", rules, (struct rp_verify_opts){0}, 1);
}

TEST(command_that_failed_is_incomplete)
{
    COMMAND(c);
    free(c.facts->status);
    c.facts->status = rp_strdup("failed");
    c.facts->reason = rp_strdup("the command ended with status 1");
    c.facts->process->exit_status = 1;
    derive(&c);
    command_seal(&c, "signer", "sealed");
    accept("sealed", NULL, RP_VERDICT_INCOMPLETE);
}

/* A log with more results and samples than run.json may have. */
TEST(log_with_too_many_results_is_not_read_and_samples_are_bounded)
{
    COMMAND(c);
    rp_buf_fini(&c.out);
    rp_buf_puts(&c.out, "step,time\n");
    for (int i = 0; i < 30000; i++)
        rp_buf_printf(&c.out, "%d,0.00001\n", i);
    c.facts->process->standard_output->bytes = (int64_t)c.out.size;
    expect_numbers(&c, RP_CHECK_NOTE);
    CHECK(json_array_size(c.doc.observed->log->result) == 1 &&
              !json_object_get(json_array_get(c.doc.observed->log->result, 0), "samples"),
          "30,000 samples are in run.json");
}

TEST(log_that_times_more_than_the_command_took_fails)
{
    COMMAND(c);
    command_seal(&c, "signer", "sealed");
    expect_state_of("sealed", RP_CHECK_time, RP_CHECK_PASSED); /* 1.5 s of 1.5 s */
    c.facts->process->end_ns = START_NS + 250000000;
    c.facts->process->user_s = 0.25;
    derive(&c);
    command_seal(&c, "signer", "sealed");
    RP_FREE char *path = fx_path("sealed");
    RP_VERIFICATION v = {0};
    struct rp_err err = {0};
    const struct rp_verify_opts o = {.any_key = 1};
    CHECK(rp_verify(&v, path, &o, &err) < 0 && err.code == RP_MISMATCH &&
              v.check[RP_CHECK_time].state == RP_CHECK_FAILED,
          "%s", err.msg);
    CHECK(rp_level_of(&v, RP_LEVEL_consistent).state != RP_LEVEL_YES, "consistent");
}

/* Rates alone, with samples per step, tell as much: 3 steps of 64 samples at 16 a second are 12 s. */
TEST(log_whose_rates_need_more_time_than_the_command_took_is_suspicious)
{
    static const struct {
        const char *rate;
        enum rp_check_state state;
    } cases[] = {{"16", RP_CHECK_WARNING}, {"256", RP_CHECK_PASSED}}; /* of a command of 1.5 s */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        COMMAND(c);
        rp_buf_fini(&c.out);
        rp_buf_puts(&c.out, "step,throughput\n");
        for (int step = 0; step < 4; step++)
            rp_buf_printf(&c.out, "%d,%s\n", step, cases[i].rate);
        c.facts->process->standard_output->bytes = (int64_t)c.out.size;
        derive(&c);
        command_seal(&c, "signer", "sealed");
        expect_state_of("sealed", RP_CHECK_time, cases[i].state);
    }
}

/* ---- what readers see ---- */

/* Neither a terminal, nor Markdown, nor a browser obeys what a signer wrote. */
TEST(texts_of_a_command_are_shown_as_texts)
{
    static const char hostile[] = "\033[2J</pre><script>x</script>|`";
    COMMAND(c);
    RP_FREE char *log = rp_asprintf("%s%s\n", log_text, hostile);
    RP_FREE char *label = rp_asprintf("label=%s", hostile);
    replace_text(&c.facts->name, hostile);
    replace_text(&c.facts->argv[1], hostile);
    replace_text(&c.facts->file[0].name, hostile);
    replace_text(&c.facts->no_telemetry, hostile);
    replace_text(&c.facts->status, "failed");
    c.facts->reason = rp_strdup(hostile);
    c.facts->process->exit_status = 1;
    rp_texts_add(&c.facts->log->set, &c.facts->log->set_n, rp_strdup(label));
    rp_buf_fini(&c.errors);
    rp_buf_puts(&c.errors, log);
    c.facts->process->standard_error->bytes = (int64_t)c.errors.size;
    derive(&c);
    command_seal(&c, "signer", "sealed");
    RP_FREE char *path = fx_path("sealed");
    struct rp_err err = {0};
    struct rp_page_bundles *all __attribute__((cleanup(rp_page_bundles_free))) = rp_alloc(sizeof *all);
    for (int i = 0; i < 2; i++)
        CHECK(rp_page_bundles_add(all, path, (struct rp_verify_opts){.any_key = 1}, &err) == 0, "%s", err.msg);
    RP_BUF text = {0}, markdown = {0}, html = {0}, both = {0};
    RP_JSON *document = rp_verification_json(all->b->v);
    rp_verification_text(&text, RP_FILL_TEXT, document, NULL, 1, 0);
    rp_page_markdown(&markdown, all->b, 1);
    rp_page_html(&html, all->b, 1);
    rp_page_html(&both, all->b, 2);
    const struct rp_buf *const shown[] = {&text, &markdown, &html, &both};
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        CHECK(!strchr(rp_buf_text(shown[i]), '\033'), "surface %zu: a terminal obeys a text", i);
        CHECK(strstr(rp_buf_text(shown[i]), RP_MEASURED_BY_LOG), "surface %zu does not say who measured", i);
        CHECK(i == 0 || !strstr(rp_buf_text(shown[i]), "<script"), "surface %zu: a browser runs a text", i);
        CHECK(!i || strstr(rp_buf_text(shown[i]), "128.000"), "surface %zu lacks the figure", i);
    }
    CHECK(strstr(rp_buf_text(&both), "Commands, each " RP_MEASURED_BY_LOG), "commands are among the bars");
}

/* nccl-tests print a result for each size. */
TEST(log_with_several_results_has_no_rate_of_its_own)
{
    COMMAND(c);
    RP_VERIFICATION v = {0};
    RP_VERIFIED kept = {0};
    struct rp_err err = {0};
    const char *unit;
    rp_buf_fini(&c.out);
    rp_buf_puts(&c.out, "# nThread 1 nGpus 2 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 5 iters: 20\n"
                        "#  Rank  0 Group  0 Pid  1 on  host device  0 [0x01] NVIDIA H200\n"
                        "#  Rank  1 Group  0 Pid  1 on  host device  1 [0x02] NVIDIA H200\n"
                        "#       size         count      type   redop    root     time   algbw   busbw #wrong     time "
                        "  algbw   busbw #wrong\n"
                        "     1048576        262144     float     sum      -1    50.00   20.97   20.97      0    51.00 "
                        "  20.56   20.56      0\n"
                        "     2097152        524288     float     sum      -1    80.00   26.21   26.21      0    81.00 "
                        "  25.89   25.89      0\n"
                        "# Avg bus bandwidth    : 23.4\n");
    c.facts->process->standard_output->bytes = (int64_t)c.out.size;
    rp_object_fini(c.facts->log, &rp_type_log_facts);
    rp_object_init(c.facts->log, &rp_type_log_facts);
    c.facts->log->format = rp_strdup("nccl");
    c.facts->log->from = rp_strdup("stdout");
    c.facts->log->name = rp_strdup("all_reduce_perf");
    derive(&c);
    CHECK(json_array_size(c.doc.observed->log->result) >= 2, "%zu results",
          json_array_size(c.doc.observed->log->result));
    command_seal(&c, "signer", "sealed");
    RP_FREE char *path = fx_path("sealed");
    const struct rp_verify_opts o = {.any_key = 1, .keep = &kept};
    CHECK(rp_verify(&v, path, &o, &err) == 0, "%s", err.msg);
    CHECK(isnan(rp_run_throughput(v.run, &unit)) && !*unit, "one rate of several");
    RP_BUF report = {0};
    rp_report_md(&report, &kept.run);
    CHECK(strstr(rp_buf_text(&report), "20.970") && strstr(rp_buf_text(&report), "26.210"), "%s", rp_buf_text(&report));
}

/* ---- attacks ---- */

static const struct bend changed[] = {
    {"a log with other times, unsigned", RP_LOG_STDOUT, "2.0,2.4", "1.6,2.4", LEFT, RP_CHECK_digests, 5},
    {"a log with other times", RP_LOG_STDOUT, "2.0,2.4", "1.6,2.4", SEALED, RP_CHECK_numbers, 5},
    {"a log with a step more", RP_LOG_STDOUT, "", "5,2.1,2.4\n", SEALED, RP_CHECK_schema, 4},
    {"another standard error", RP_LOG_STDERR, "warning", "praises", LEFT, RP_CHECK_digests, 5},
    {"twice the rate", RUN, "/log/result/0/throughput/value", "256.0", SEALED, RP_CHECK_numbers, 5},
    {"a rate in the last digit", RUN, "/log/result/0/throughput/value", "128.00000000000003", SEALED, RP_CHECK_numbers,
     5},
    {"another unit", RUN, "/log/result/0/throughput/unit", "\"sequences/s\"", SEALED, RP_CHECK_numbers, 5},
    {"a result more", RUN, "/log/result/1", "{\"label\": \"better\"}", SEALED, RP_CHECK_numbers, 5},
    {"no result", RUN, "/log/result/0", NULL, SEALED, RP_CHECK_numbers, 5},
    {"a model that the log does not have", RUN, "/log/result/0/model", "\"gpt\"", SEALED, RP_CHECK_numbers, 5},
    {"another line of the log", RUN, "/log/evidence/0/throughput/value", "1.5", SEALED, RP_CHECK_numbers, 5},
    {"a log that was not read", RUN, "/log/read", "false", SEALED, RP_CHECK_numbers, 5},
    {"another digest of the log", RUN, "/log/sha256", "\"" OTHER "\"", SEALED, RP_CHECK_numbers, 5},
    {"figures of no log", RUN, "/log", NULL, SEALED, RP_CHECK_numbers, 5},
    {"another digest of the command", RUN, "/recipe_sha256", "\"" OTHER "\"", SEALED, RP_CHECK_numbers, 5},
    {"a change of the machine", RUN, "/node/0/change/0",
     "{\"field\": \"kernel.release\", \"impact\": \"none\", \"varies\": false, \"before\": null, \"after\": null}",
     SEALED, RP_CHECK_changes, 5},
    {"another format", FACTS, "/log/format", "\"mllog\"", SEALED, RP_CHECK_numbers, 5},
    {"a format that nobody knows", FACTS, "/log/format", "\"torch\"", SEALED, RP_CHECK_numbers, 5},
    {"another stream", FACTS, "/log/from", "\"stderr\"", SEALED, RP_CHECK_numbers, 5},
    {"a larger batch by the command line", FACTS, "/log/set/0", "\"global_batch=640\"", SEALED, RP_CHECK_numbers, 5},
    {"a value that the log has, set", FACTS, "/log/set/1", "\"devices=1\"", SEALED, RP_CHECK_numbers, 5},
    {"another window", FACTS, "/log/first_step", "2", SEALED, RP_CHECK_numbers, 5},
    {"other words", FACTS, "/argv/3", "\"1e-4\"", SEALED, RP_CHECK_numbers, 5},
    {"no words", FACTS, "/argv", NULL, SEALED, RP_CHECK_schema, 4},
    {"another input", FACTS, "/file/0/sha256", "\"" OTHER "\"", SEALED, RP_CHECK_numbers, 5},
    {"a failure that is complete", FACTS, "/process/0/exit_status", "1", SEALED, RP_CHECK_numbers, 5},
    {"a signal that is complete", FACTS, "/process/0/signal", "9", SEALED, RP_CHECK_numbers, 5},
    {"a complete command with an excuse", FACTS, "/reason", "\"out of memory\"", SEALED, RP_CHECK_status, 5},
    {"longer than the session", FACTS, "/process/0/end_ns", "90000000000", SEALED, RP_CHECK_numbers, 5},
    {"more processor time than there was", FACTS, "/process/0/user_s", "1e6", SEALED, RP_CHECK_numbers, 5},
    {"an end before the second capture began", FACTS, "/ended_at", "\"2027-09-21T14:13:20Z\"", SEALED, RP_CHECK_time,
     5},
    {"another program that observed", FACTS, "/tool/commit",
     "\""
     "0123456789abcdef0123456789abcdef01234567"
     "\"",
     SEALED, RP_CHECK_environment, 5},
    {"more left out than there was", FACTS, "/process/0/standard_output/dropped", "100000", SEALED, RP_CHECK_schema, 4},
    {"a stream of other length", FACTS, "/process/0/standard_error/bytes", "9", SEALED, RP_CHECK_schema, 4},
    {"a log file that is not there", FACTS, "/log/file", "{\"bytes\": 0, \"dropped\": 0, \"hidden\": 0}", SEALED,
     RP_CHECK_schema, 4},
    {"the facts of a run", FACTS, "/schema", "\"" RP_FACTS_SCHEMA "\"", SEALED, RP_CHECK_schema, 4},
    {"the figures of a run", RUN, "/schema", "\"" RP_FIGURES_SCHEMA "\"", SEALED, RP_CHECK_schema, 4},
    {"results that this program would have computed", RUN, "/results", "{\"throughput\": {\"value\": 128.0}}", SEALED,
     RP_CHECK_schema, 4},
    {"a level of one's own", FACTS, "/level", "\"computed\"", SEALED, RP_CHECK_schema, 4},
    {"ranks", FACTS, "/rank", "[]", SEALED, RP_CHECK_schema, 4},
    {"a replay", FACTS, "/replicates", "{}", SEALED, RP_CHECK_schema, 4},
    {"a measurement by somebody else", "statement.dsse.json", "\"measured_by\": \"log\"", "\"measured_by\": \"replay\"",
     ENVELOPE, RP_CHECK_statement, 4},
};

TEST(changes_of_a_command_are_seen)
{
    for (size_t i = 0; i < sizeof changed / sizeof *changed; i++) {
        COMMAND(c);
        attack_command(&c, &changed[i]);
    }
}

/* A key is all that tells an invented log from an honest one: it is the signer's word, and no level says otherwise. */
TEST(log_that_was_invented_is_the_signers_word)
{
    COMMAND(c);
    rp_buf_fini(&c.out);
    rp_buf_puts(&c.out, "step,timestamp\n0,0.0\n1,0.001\n2,0.002\n3,0.003\n");
    c.facts->process->standard_output->bytes = (int64_t)c.out.size;
    derive(&c);
    command_seal(&c, "attacker", "attack");
    attack_expect("an invented log, everything made again", NULL, KEY_ALONE);
}

/* Packs the members with one more, or one less, all of them signed again; the sums are of what is there. */
static void attack_with(const char *name, const char *add, const char *drop, enum rp_check_id check, int status)
{
    COMMAND(c);
    struct rp_err err = {0};
    struct rp_bundle b;
    RP_FREE char *path = fx_path("attack");
    FX_KEY *key = fx_key("attacker");
    command_seal(&c, "attacker", "attack");
    CHECK(rp_bundle_open(&b, path, &err) == 0, "%s", err.msg);
    if (add)
        fx_add(&b, add, "x\n", 2);
    for (int i = 0; drop && i < b.n; i++) {
        if (strcmp(b.member[i].name, drop) != 0)
            continue;
        free(b.member[i].name);
        rp_buf_fini(&b.member[i].bytes);
        memmove(&b.member[i], &b.member[i + 1], (size_t)(--b.n - i) * sizeof *b.member);
    }
    attack_sums(&b, "", key);
    attack_sign(&b, c.doc.facts_json, c.doc.figures_json, NULL, key);
    attack_pack(&b);
    rp_bundle_fini(&b);
    attack_expect(name, NULL, check, status);
}

TEST(members_of_the_other_kind_are_refused)
{
    attack_with("a recipe in the bundle of a command", "recipe.yaml", NULL, RP_CHECK_container, 4);
    attack_with("records in the bundle of a command", "steps/rank0.jsonl", NULL, RP_CHECK_container, 4);
    attack_with("telemetry in the bundle of a command", "steps/rank0.telemetry.jsonl", NULL, RP_CHECK_container, 4);
    attack_with("a challenge in the bundle of a command", "challenge", NULL, RP_CHECK_container, 4);
    attack_with("no standard error", NULL, RP_LOG_STDERR, RP_CHECK_container, 4);
    attack_with("no standard output, by which a command is known", NULL, RP_LOG_STDOUT, RP_CHECK_container, 4);
    attack_with("a log that facts.json does not have", RP_LOG_FILE, NULL, RP_CHECK_schema, 4);
    attack_with("a capture of another node", "env/node1.before.json", NULL, RP_CHECK_schema, 4);
    attack_with("the output of another process", RP_OF_PROCESS(1, ".stdout"), NULL, RP_CHECK_schema, 4);
    attack_with("samples of a GPU that facts.json does not have", "telemetry/device0.jsonl", NULL, RP_CHECK_schema, 4);

    FX(x); /* and the other way round */
    struct rp_err err = {0};
    struct rp_bundle b;
    RP_BUF file = {0};
    FX_KEY *key = fx_key("attacker");
    fx_members(&b, &x);
    fx_add(&b, RP_LOG_STDERR, "x\n", 2);
    CHECK(rp_bundle_seal(&b, key, &file, &err) < 0 && err.code == RP_MALFORMED && strstr(err.msg, RP_LOG_STDERR), "%s",
          err.msg);
    rp_bundle_fini(&b);
}

/* ---- what is kept ---- */

static void kept(size_t lines, size_t length, struct rp_buf *out, int64_t *dropped)
{
    struct rp_kept k = {0};
    RP_FREE char *line = rp_alloc(length + 1);
    for (size_t i = 0; i < lines; i++) {
        snprintf(line, length + 1, "%0*zu", (int)length, i);
        line[length - 1] = '\n';
        rp_kept_add(&k, line, length);
    }
    rp_kept_text(out, dropped, &k);
    CHECK(k.bytes == (int64_t)(lines * length), "%lld bytes", (long long)k.bytes);
    rp_kept_fini(&k);
}

TEST(beginning_and_end_of_an_output_are_kept_in_whole_lines)
{
    static const size_t some[] = {0, 1, 1000, RP_BUNDLE_LOG_MAX / 100, RP_BUNDLE_LOG_MAX / 100 + 1, 70000, 200000};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        RP_BUF out = {0};
        int64_t dropped;
        kept(some[i], 100, &out, &dropped);
        const int whole = some[i] * 100 <= RP_BUNDLE_LOG_MAX;
        CHECK(out.size <= RP_BUNDLE_LOG_MAX && dropped == (int64_t)(some[i] * 100 - out.size),
              "%zu lines: %zu bytes kept", some[i], out.size);
        CHECK(whole == !dropped && out.size % 100 == 0, "%zu lines: %lld dropped", some[i], (long long)dropped);
        for (size_t at = 99; at < out.size; at += 100)
            if (out.data[at] != '\n' && CHECK(0, "%zu lines: line %zu is cut", some[i], at / 100))
                break;
        CHECK(whole || (dropped < (int64_t)(some[i] * 100) - (int64_t)RP_BUNDLE_LOG_MAX + 200),
              "%zu lines: too much is dropped", some[i]);
    }
}

TEST(output_without_lines_is_kept_up_to_the_limit)
{
    struct rp_kept k = {0};
    RP_BUF out = {0};
    int64_t dropped;
    RP_FREE char *block = rp_alloc(1 << 20);
    memset(block, 'x', 1 << 20);
    for (int i = 0; i < 20; i++)
        rp_kept_add(&k, block, 1 << 20);
    rp_kept_text(&out, &dropped, &k);
    CHECK(out.size == RP_BUNDLE_LOG_MAX && dropped == (20 << 20) - (int64_t)RP_BUNDLE_LOG_MAX, "%zu bytes", out.size);
    rp_kept_fini(&k);
}

/* ---- what is hidden ---- */

static void expect_public(const char *text, const char *shown, int hidden)
{
    RP_BUF out = {0};
    const int64_t n = rp_public_output(&out, text, strlen(text), 0);
    CHECK(rp_buf_is(&out, shown, strlen(shown)) && n == hidden, "'%s' is shown as '%s', %lld hidden", text,
          rp_buf_text(&out), (long long)n);
}

TEST(credentials_in_an_output_are_hidden_and_numbers_stay)
{
    static const char *const open[] = {
        "",
        "\n\n",
        "step 10 loss 2.5 lr 1e-05 14:29:13 2020-09-15 99%\n",
        "DLLL {\"timestamp\": \"1600180153.47\", \"step\": [0, 20], \"data\": {\"train.total_ips\": 10007.3}}\n",
        ":::MLLOG {\"namespace\": \"\", \"time_ms\": 1600180153477, \"key\": \"train_samples\", \"value\": 5}\n",
        "tokens_per_sec: 123456 tokens=1048576 max_tokens: 512 tokenizer: bert-base-uncased\n",
        "no end of line",
    };
    for (size_t i = 0; i < sizeof open / sizeof *open; i++)
        expect_public(open[i], open[i], 0);
    setenv("MY_SECRET", "correct horse battery", 1);
    expect_public("say correct horse battery, twice: 'correct horse battery'", "say (withheld), twice: '(withheld)'",
                  2);
    unsetenv("MY_SECRET");
    expect_public("say correct horse battery", "say correct horse battery", 0);
    expect_public("password: opensesame\nopensesame", "password: (withheld)\nopensesame", 1);
    expect_public("password=12345678", "(withheld)", 1);
    expect_public("{\"auth_token\":\"abc\"}", "{\"auth_token\":\"(withheld)\"}", 1);
    expect_public("Authorization: Bearer abc", "Authorization: (withheld) (withheld)", 2);
    expect_public("at hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567 end", "at (withheld) end", 1);
    expect_public("from 10.1.2.3 to alice@example.com", "from (withheld) to (withheld)", 2);
}

static void expect_argument(const char *before, const char *text, const char *shown)
{
    RP_FREE char *is = rp_public_argument(before, text, 0);
    CHECK(strcmp(is, shown) == 0, "'%s' is shown as '%s'", text, is);
}

TEST(words_of_a_command_are_hidden_where_they_are_nobodys_business)
{
    expect_argument(NULL, "python", "python");
    expect_argument("python", "train.py", "train.py");
    expect_argument("--lr", "1e-5", "1e-5");
    expect_argument("--api-key", "abc", "(withheld)");
    expect_argument("--max-tokens", "abc", "abc");
    expect_argument(NULL, "--password=abc", "--password=(withheld)");
    expect_argument(NULL, "--data=/home/alice/set", "--data=(withheld)/set");
    expect_argument(NULL, "/mnt/disk7/train.py", "(withheld)/train.py");
    expect_argument(NULL, "/usr/bin/python3", "/usr/bin/python3");
    expect_argument(NULL, "data/train.bin", "data/train.bin");
    expect_argument(NULL, "", "");
}
