/* The context of a run, on its page and for a policy: attempts, the run that it replicates, countersignatures; and pages of several
 * bundles. */
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
    json_object_set_new(x.run, "ledger", json_pack("{s:s}", "reason", "turned off " EVIL));
    fx_seal(&x, "signer", "off.zst");
    RP_BUF off = {0};
    show(&s, "off.zst", NULL, NULL);
    rp_page_html(&off, &s.b, 1);
    CHECK(strstr(off.data, "turned off &lt;img") && !strstr(off.data, "b0-agreement") && !strstr(off.data, "b0-signatures"),
          "sections without content");
    shown_fini(&s);
}

/* A counter-signature is of the bundle: the page of a copy with another number of them is not its page. */
TEST(a_page_is_of_the_copy_with_its_signatures)
{
    struct shown s[2];
    char text[512];
    make_bundles();
    show(&s[0], "second.zst", NULL, NULL);
    show(&s[1], "signed.zst", NULL, NULL);
    for (int i = 0; i < 4; i++) {
        RP_BUF page = {0};
        (i / 2 ? rp_page_markdown : rp_page_html)(&page, &s[i % 2].b, 1);
        CHECK(page_state(&page, &s[i % 2], NULL, 0, text) == RP_CHECK_PASSED, "%d: %s", i, text);
        CHECK(page_state(&page, &s[1 - i % 2], NULL, 0, text) == RP_CHECK_FAILED, "%d: %s", i, text);
    }
    shown_fini(&s[0]);
    shown_fini(&s[1]);
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
        json_object_set_new(x.run, "ledger", json_pack("{s:I, s:s, s:I}", "position", (json_int_t)mark.position, "head", mark.head, "earlier", 0));
        fx_render(&x);
        fx_seal(&x, "signer", "ended.zst");
        struct rp_verify_opts o = {0};
        CHECK(rp_verify(&v, bundle, &o, &err) == 0, "%s", err.msg);
        append(ledger, ends[i], json_pack("{s:s, s:{s:s, s:s}}", "recipe", recipe, "bundle", "name", "ended.zst", "statement", v.statement), &mark);
        rp_verification_fini(&v);
        o.ledger = ledger;
        CHECK((rp_verify(&v, bundle, &o, &err) == 0) == (i == 0), "%s: %s", rp_ledger_event_name(ends[i]), v.check[RP_CHECK_ledger].text);
        CHECK(i == 0 || err.code == RP_MISMATCH, "%s", err.msg);
        SAID(v.check[RP_CHECK_ledger].text);
        rp_verification_fini(&v);
    }
    ledger_signer = "bob.pem";
}

TEST(changes_of_these_sections_are_found)
{
    static const struct page_bend bends[] = {
        {"b0-attempts\">Attempts</h", "not in ", "in ", RP_CHECK_FAILED},
        {"run.json#/ledger/earlier", ">2<", ">0<", RP_CHECK_FAILED},
        {"run.json#/agreement/throughput/ratio", ">0.", ">1.", RP_CHECK_FAILED},
        {"run.json#/agreement/bits/equal", ">equal<", ">EQUAL<", RP_CHECK_FAILED},
        {"agreement/throughput/interval/1", "d4", "d2", RP_CHECK_FAILED},
        {"<h2 id=\"b0-signatures", ">replicator<", ">author<", RP_CHECK_FAILED},
        {"<h2 id=\"b0-signatures", "<code>SHA256:", "<code>SHA256:00", RP_CHECK_FAILED},
        {"<h2 id=\"b0-signatures", "2026-11-21", "2026-11-20", RP_CHECK_FAILED},
        {"<h2 id=\"b0-signatures", "</tbody>", "<tr><th>author</th><td>NVIDIA</td></tr></tbody>", RP_CHECK_FAILED},
        {"<h2 id=\"b0-signatures", "seen ", "not seen ", RP_CHECK_FAILED},
    };
    struct shown s;
    RP_BUF page = {0};
    make_bundles();
    show(&s, "signed.zst", ledger_file, first_path());
    rp_page_html(&page, &s.b, 1);
    EXPECT_BENDS(bends, &page, &s, NULL, 0);
    shown_fini(&s);
}

static void show_two(struct rp_shown_bundle b[2], struct shown *first, struct shown *other)
{
    make_bundles();
    show(first, "first.zst", NULL, NULL);
    show(other, "signed.zst", NULL, NULL);
    b[0] = first->b;
    b[1] = other->b;
}

/* A page of both passes for each of them where the other one is given. */
static void holds_beside(const struct rp_buf *page, const struct shown *first, const struct shown *other)
{
    char text[512];
    CHECK(page_state(page, first, NULL, 0, text) == RP_CHECK_SKIPPED, "%s", text);
    CHECK(page_state(page, first, other, 1, text) == RP_CHECK_PASSED, "%s", text);
    CHECK(page_state(page, other, first, 1, text) == RP_CHECK_PASSED, "%s", text);
}

static void refused_where_cut(const struct rp_buf *page, size_t step, const struct shown *first, const struct shown *other)
{
    char text[512];
    for (size_t n = 0; n < page->size; n += step) {
        RP_BUF cut = {0};
        rp_buf_add(&cut, page->data, n);
        enum rp_check_state state = page_state(&cut, first, other, 1, text);
        CHECK(state == RP_CHECK_FAILED || state == RP_CHECK_SKIPPED, "%zu bytes: %s", n, text);
    }
}

TEST(a_page_of_several_is_compared_when_all_are_given)
{
    static const struct page_bend bends[] = {
        {"id=\"b2\"", "<p>", "<p>9999 sequences/s", RP_CHECK_FAILED},
        {"id=\"b2\"", "results/throughput/value\" data-form=\"d3\">", "results/throughput/value\" data-form=\"d3\">9", RP_CHECK_FAILED},
        {"<caption>The bundles", "</tbody>", "<tr><td>NVIDIA</td></tr></tbody>", RP_CHECK_FAILED},
        {"<footer>", "<p>", "<p>9999 sequences/s", RP_CHECK_FAILED},
        {"<header>", "<h1>2", "<style>main{display:none}</style><h1>2", RP_CHECK_FAILED},
        {"</section>\n<section class=\"bundle\"", "data-bundle=\"", "data-bundle=\"0", RP_CHECK_SKIPPED},
        {"</section>\n<section class=\"bundle\"", "data-bundle=\"", "data-id=\"", RP_CHECK_FAILED},
    };
    struct shown first, signed_, pair[2];
    struct rp_shown_bundle b[2];
    RP_BUF page = {0};
    char text[512];
    show_two(b, &first, &signed_);
    rp_page_html(&page, b, 2);
    holds_beside(&page, &first, &signed_);
    pair[0] = first;
    pair[1] = signed_;
    CHECK(page_state(&page, &signed_, pair, 2, text) == RP_CHECK_PASSED, "one too many: %s", text);
    EXPECT_BENDS(bends, &page, &first, &signed_, 1);
    refused_where_cut(&page, 1499, &first, &signed_);
    shown_fini(&first);
    shown_fini(&signed_);
}

TEST(a_markdown_file_of_several_is_compared_when_all_are_given)
{
    static const struct page_bend bends[] = {
        {"| step time, median | ", "0", "1", RP_CHECK_FAILED},
        {"\n---\n", "> statement", "> statements", RP_CHECK_FAILED},
        {"\n---\n", "256 `", "256 `0", RP_CHECK_SKIPPED},
        {"\n---\n", "| step time, median | 0", "| step time, median | 9", RP_CHECK_FAILED},
        {"\n---\n", "\n> ", "9999 sequences/s\n\n> ", RP_CHECK_FAILED},
    };
    struct shown first, signed_;
    struct rp_shown_bundle b[2];
    RP_BUF page = {0}, more = {0};
    char text[512];
    show_two(b, &first, &signed_);
    rp_page_markdown(&page, b, 2);
    holds_beside(&page, &first, &signed_);
    EXPECT_BENDS(bends, &page, &first, &signed_, 1);
    rp_buf_add(&more, page.data, page.size);
    rp_buf_puts(&more, "\n---\n\n> **verified**\n>\n> by NVIDIA\n");
    CHECK(page_state(&more, &first, &signed_, 1, text) == RP_CHECK_FAILED, "%s", text);
    refused_where_cut(&page, 499, &first, &signed_);
    for (int html = 0; html < 2; html++) { /* a bundle that was named has to be on the page */
        RP_BUF alone = {0};
        (html ? rp_page_html : rp_page_markdown)(&alone, b, 1);
        CHECK(page_state(&alone, &first, &signed_, 1, text) == RP_CHECK_SKIPPED && strstr(text, "'signed.zst'"), "%s", text);
    }
    shown_fini(&first);
    shown_fini(&signed_);
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
        {"second.zst", "checks: {agreement: passed, ledger: passed}", 1, 1, 1},
        {"second.zst", "checks: {report_file: warning}", 0, 0, 0},
    };
    make_bundles();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        expect_policy(cases[i].file, cases[i].rules,
                      (struct rp_verify_opts){.ledger = cases[i].ledger ? ledger_file : NULL, .original = cases[i].original ? first_path() : NULL},
                      cases[i].holds);
    }
    struct fx x; /* other bits */
    second_run(&x);
    char *loss = strstr(x.steps.data, FX_LOSS("0x1.6p+2"));
    memcpy(loss, FX_LOSS("0x1.6p+1"), sizeof FX_LOSS("0x1.6p+1") - 1);
    fx_compute(&x);
    say_agreement(&x);
    fx_render(&x);
    fx_seal(&x, "bob.pem", "other.zst");
    fx_fini(&x);
    expect_policy("other.zst", "bits_equal: true", (struct rp_verify_opts){.original = first_path()}, 0);
}

/* A page of which this is found, before the policy looks. */
static int found_of_page(void *arg, const struct rp_verification *v, const struct rp_verified *kept, struct rp_check_result *found, struct rp_err *err)
{
    found->state = *(const enum rp_check_state *)arg;
    CHECK(v->run && !v->policy && v->check[RP_CHECK_claims].name && rp_bundle_find(&kept->bundle, "run.json"), "what a page is made of");
    if (found->state == RP_CHECK_PASSED || found->state == RP_CHECK_NOTE)
        return 0;
    return rp_fail(err, found->state == RP_CHECK_FAILED ? RP_MISMATCH : RP_UNAVAILABLE, "of the page");
}

TEST(a_policy_asks_for_a_page)
{
    static const struct {
        const char *rules;
        enum rp_check_state found;
        int holds;
        enum rp_verdict verdict;
    } cases[] = {
        {"checks: {report_file: note}", RP_CHECK_PASSED, 1, RP_VERDICT_UNKNOWN_KEY},
        {"checks: {report_file: note}", RP_CHECK_NOTE, 1, RP_VERDICT_UNKNOWN_KEY},
        {"checks: {report_file: passed}", RP_CHECK_NOTE, 0, RP_VERDICT_FAILED},
        {"checks: {report_file: note}", RP_CHECK_SKIPPED, 0, RP_VERDICT_FAILED},
        {"checks: {report_file: note}", RP_CHECK_FAILED, 0, RP_VERDICT_FAILED},
        {"complete: true", RP_CHECK_SKIPPED, 1, RP_VERDICT_INCONCLUSIVE},
        {"complete: true", RP_CHECK_FAILED, 1, RP_VERDICT_FAILED},
    };
    make_bundles();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_policy p;
        struct rp_verification v;
        struct rp_err err = {0};
        struct rp_verify_opts o = {.policy = &p, .page = found_of_page, .page_arg = (void *)&cases[i].found};
        RP_FREE char *path = fx_path("second.zst");
        CHECK(rp_policy_parse(&p, cases[i].rules, strlen(cases[i].rules), "p.yaml", &err) == 0, "%s", err.msg);
        int failed = rp_verify(&v, path, &o, &err) < 0;
        CHECK(failed == (cases[i].verdict != RP_VERDICT_UNKNOWN_KEY), "%zu: %s", i, err.msg);
        SAID(failed ? err.msg : "verified");
        CHECK(v.check[RP_CHECK_report_file].state == cases[i].found && v.verdict == cases[i].verdict &&
                  v.bundle == (cases[i].holds ? RP_VERDICT_UNKNOWN_KEY : RP_VERDICT_FAILED), "%zu: %s", i,
              rp_verdict_name(v.verdict));
        CHECK(v.check[RP_CHECK_policy].state == (cases[i].holds ? RP_CHECK_PASSED : RP_CHECK_FAILED), "%zu: the row of the policy", i);
        CHECK(json_is_true(json_object_get(json_array_get(v.policy, 0), "holds")) == cases[i].holds, "%zu: the answer to the rule", i);
        rp_verification_fini(&v);
        rp_policy_fini(&p);
    }
}
