/* The context of a run, on its page and for a policy: attempts, the run that it replicates, countersignatures; and
 * pages of several bundles. */
#include "report/report.h"

#include <math.h>
#include "tests/unit/standing_fixture.h"

TEST(a_page_has_the_context_of_its_run)
{
    struct shown s;
    RP_BUF page = {0}, markdown = {0}, plain = {0};
    make_bundles();
    show(&s, "signed.zst", ledger_file, first_path());
    rp_page_html(&page, &s.b, 1);
    rp_page_markdown(&markdown, &s.b, 1);
    said_page(&page);
    said_markdown(&markdown);
    CHECK(!strstr(page.data, "<img") && strstr(page.data, "seen &lt;img"), "markup of a stranger");
    shown_fini(&s);
    show(&s, "signed.zst", NULL, NULL);
    rp_page_html(&plain, &s.b, 1);
    CHECK_STR(strstr(plain.data, "</aside>"), strstr(page.data, "</aside>"));
    shown_fini(&s);
    FX(x); /* without a ledger, and not a replication */
    set_path(x.facts, "ledger/reason", json_string("turned off " EVIL));
    fx_seal(&x, "signer", "off.zst");
    RP_BUF off = {0};
    show(&s, "off.zst", NULL, NULL);
    rp_page_html(&off, &s.b, 1);
    CHECK(strstr(off.data, "turned off &lt;img") && !strstr(off.data, "b0-agreement") &&
              !strstr(off.data, "b0-signatures"),
          "sections without content");
    shown_fini(&s);
}

/* A ledger that says how the run ended says it of this bundle too. */
TEST(a_complete_run_did_not_end_as_failed)
{
    static const enum rp_ledger_event ends[] = {RP_LEDGER_SEALED, RP_LEDGER_FAILED, RP_LEDGER_INTERRUPTED};
    ledger_signer = "signer";
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct rp_ledger_ref mark = {0};
        struct rp_verification v;
        struct rp_err err = {0};
        RP_FREE char *file = rp_asprintf("ended%zu.jsonl", i);
        RP_FREE char *ledger = fx_path(file), *bundle = fx_path("ended.zst");
        FX(x);
        const char *recipe = json_string_value(json_object_get(x.run, "recipe_sha256"));
        append(ledger, RP_LEDGER_STARTED, json_pack("{s:s, s:s}", "recipe", recipe, "recipe_name", "tiny"), &mark);
        say_ledger(&x, &mark);
        fx_seal(&x, "signer", "ended.zst");
        struct rp_verify_opts o = {0};
        CHECK(rp_verify(&v, bundle, &o, &err) == 0, "%s", err.msg);
        append(
            ledger, ends[i],
            json_pack("{s:s, s:{s:s, s:s}}", "recipe", recipe, "bundle", "name", "ended.zst", "statement", v.statement),
            &mark);
        rp_verification_fini(&v);
        o.ledger = ledger;
        CHECK((rp_verify(&v, bundle, &o, &err) == 0) == (i == 0), "%s: %s", rp_ledger_event_name(ends[i]),
              v.check[RP_CHECK_ledger].text);
        CHECK(i == 0 || err.code == RP_MISMATCH, "%s", err.msg);
        SAID(v.check[RP_CHECK_ledger].text);
        rp_verification_fini(&v);
    }
    ledger_signer = "bob.pem";
}

/* Bars are sorted, each as long as its throughput of the longest interval; losses are in one plot. */
static void is_sorted(const char *at, const struct rp_shown_bundle b[2])
{
    const struct rp_throughput_figures *t[2] = {&b[0].v->run->figures.results.throughput,
                                                &b[1].v->run->figures.results.throughput};
    const int first = t[1]->value > t[0]->value;
    const double most = fmax(fmax(t[0]->value, t[1]->value), fmax(t[0]->interval[1], t[1]->interval[1]));
    for (int i = 0; i < 2; i++) {
        const struct rp_throughput_figures *one = t[i ? 1 - first : first];
        RP_FREE char *link =
            rp_asprintf("<a href=\"#b%d\">%d. ", 1 + (i ? 1 - first : first), 1 + (i ? 1 - first : first));
        RP_FREE char *bar = rp_asprintf("<rect class=\"c1\" y=\"3\" width=\"%.1f\"", one->value / most * 1000);
        RP_FREE char *whisker = rp_asprintf("<path class=\"whisker\" d=\"M%.1f 9H%.1f", one->interval[0] / most * 1000,
                                            one->interval[1] / most * 1000);
        for (int k = 0; k < 3 && at; k++) {
            const char *const part[] = {link, bar, whisker}, *next = strstr(at, part[k]);
            CHECK(next, "bar %d: '%s' does not follow: %.300s", i, part[k], at);
            at = next;
        }
    }
    const char *losses = at ? strstr(at, "<figure id=\"losses-1\">") : NULL;
    CHECK(losses && strstr(losses, "<li class=\"r0\">run 1</li><li class=\"r1\">run 2"), "no losses");
}

TEST(a_page_of_two_has_both)
{
    struct shown first, second;
    RP_BUF page = {0}, markdown = {0};
    make_bundles();
    show(&first, "first.zst", NULL, NULL);
    show(&second, "signed.zst", NULL, NULL);
    const struct rp_shown_bundle b[] = {first.b, second.b};
    rp_page_html(&page, b, 2);
    rp_page_markdown(&markdown, b, 2);
    const char *at = strstr(page.data, "<caption>Throughput in "), *line = rp_buf_text(&markdown);
    CHECK(at && at < strstr(page.data, "<aside"), "no overview");
    is_sorted(at, b);
    for (int i = 0; i < 2; i++) {
        const char *statement = b[i].v->statement;
        RP_FREE char *section = rp_asprintf("<section class=\"bundle\" data-bundle=\"%s\" id=\"b%d\"", statement,
                                            i + 1);
        RP_FREE char *begin = rp_asprintf("> statement SHA-256 `%s`, signed by %s", statement, b[i].v->fingerprint);
        RP_BUF report = {0};
        rp_report_md(&report, &b[i].kept->run);
        at = at ? strstr(at, section) : NULL;
        line = line ? strstr(line, begin) : NULL;
        CHECK(at && line && strstr(line, rp_buf_text(&report)), "bundle %d", i + 1);
    }
    shown_fini(&first);
    shown_fini(&second);
}

TEST(a_policy_asks_where_a_run_stands)
{
    static const struct {
        const char *file, *rules;
        int ledger, original;
        int holds;
    } cases[] = {
        {"second.zst", "in_ledger: true", 0, 0, 1},
        {"first.zst", "in_ledger: true", 0, 0, 0},
        {"second.zst", "ledger_checked: true", 0, 0, 0},
        {"second.zst", "ledger_checked: true", 1, 0, 1},
        {"second.zst", "max_attempts_before: 2", 0, 0, 1},
        {"second.zst", "max_attempts_before: 1", 0, 0, 0},
        {"second.zst", "max_attempts_before: 0", 1, 0, 0},
        {"first.zst", "max_attempts_before: 9", 0, 0, 0},
        {"second.zst", "max_failed_before: 2", 1, 0, 1}, /* one failed, one has no end */
        {"second.zst", "max_failed_before: 1", 1, 0, 0},
        {"second.zst", "max_failed_before: 9", 0, 0, 0},
        {"second.zst", "bits_equal: true", 0, 1, 0}, /* nothing was replayed */
        {"second.zst", "bits_equal: true", 0, 0, 0},
        {"first.zst", "bits_equal: true", 0, 0, 0},
        {"second.zst", "throughput_within_percent: 20", 0, 1, 1},
        {"second.zst", "throughput_within_percent: 1", 0, 1, 0},
        {"second.zst", "throughput_within_percent: 20", 0, 0, 0},
        {"second.zst", "checks: {ledger: passed}", 1, 1, 1},
        {"second.zst", "checks: {agreement: passed}", 1, 1, 0}, /* bits that were not computed here */
    };
    make_bundles();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        expect_policy(cases[i].file, cases[i].rules,
                      (struct rp_verify_opts){.ledger = cases[i].ledger ? ledger_file : NULL,
                                              .original = cases[i].original ? first_path() : NULL},
                      cases[i].holds);
    }
    struct fx x; /* other bits */
    second_run(&x);
    char *loss = strstr(x.steps.data, FX_LOSS("0x1.6p+2"));
    memcpy(loss, FX_LOSS("0x1.6p+1"), sizeof FX_LOSS("0x1.6p+1") - 1);
    fx_compute(&x);
    say_agreement(&x);
    fx_seal(&x, "bob.pem", "other.zst");
    fx_fini(&x);
    expect_policy("other.zst", "bits_equal: true", (struct rp_verify_opts){.original = first_path()}, 0);
}
