/* The box of a page: any text in the form of a box, and nothing that could leave it. */
#include "tests/unit/standing_fixture.h"

#include "base/text.h"


/* Whatever the author found: the body is the same. */
TEST(a_box_is_its_makers_word)
{
    struct shown maker, here;
    char text[512];
    make_bundles();
    show(&here, "signed.zst", NULL, NULL);
    for (int i = 0; i < 6; i++) {
        RP_BUF page = {0}, markdown = {0};
        show(&maker, "signed.zst", i == 1 ? ledger_file : NULL, i == 2 ? first_path() : NULL);
        if (i == 3)
            maker.v.verdict = RP_VERDICT_VERIFIED;
        snprintf(maker.v.signer, sizeof maker.v.signer, "%s", i == 3 ? "carl & `<b>`\t\033" : "");
        for (int c = 0; c < RP_CHECK_COUNT && i == 4; c++)
            maker.v.check[c].state = (enum rp_check_state)(c % (RP_CHECK_FAILED + 1));
        if (i == 5)
            memset(maker.v.check[0].text, '<', sizeof maker.v.check[0].text - 1);
        rp_page_html(&page, &maker.b, 1);
        rp_page_markdown(&markdown, &maker.b, 1);
        CHECK(page_state(&page, &here, NULL, 0, text) == RP_CHECK_PASSED, "%d: %s", i, text);
        CHECK(page_state(&markdown, &here, NULL, 0, text) == RP_CHECK_PASSED, "%d: %s", i, text);
        shown_fini(&maker);
    }
    shown_fini(&here);
}

TEST(nothing_leaves_a_box)
{
    static const struct {
        int markdown;
        const char *behind, *was, *is;
        int holds;
    } cases[] = {
        {0, "<aside", "<h2>verified, ", "<h2>verified; ", 1},
        {0, "<aside", "<h2>verified", "<h2>9999 sequences/s, &lt;b&gt; verified", 1},
        {0, "<aside", "\n<p>by", "\n<p>another line</p>\n<p>by", 1},
        {0, "<aside", "<h2>verified", "<h2><b>verified", 0},
        {0, "<aside", "<h2>verified", "<h2>\nverified", 0},
        {0, "<aside", "<h2>verified", "<h2>&#x3c;verified", 0}, /* not as it is escaped */
        {0, "<aside", "<h2>verified", "<h2>\"verified", 0},
        {0, "<aside", "<h2>verified", "<h2>\xe2\x80\xaeverified", 0},
        {0, "<aside", "<h2>verified", "<h2>\033verified", 0},
        {0, "<aside", "\n<div", "\n<script>alert(1)</script>\n<div", 0},
        {0, "<aside", "\n<div", "\n<style>main{display:none}</style>\n<div", 0},
        {0, "<aside", "\n<div", "\n<!-- <div", 0},
        {0, "<aside", "\n<div", "\n<a href=\"https://example.org\">x</a>\n<div", 0},
        {0, "<aside", "\n<div", "\n</aside>\n<div", 0},
        {0, "<aside", "<div class", "<div onclick=\"x\" class", 0},
        {0, "<aside", "<p>by", "<p title='", 0},
        {0, "<aside", "<circle", "<path d=\"M0 0h9999v9999H0z\"/><circle", 0},
        {0, "<aside", "class=\"verdict warn", "class=\"skip", 0},
        {0, "<details", "</tbody></table></div></details>", "", 0}, /* an open table would take in the body */
        {0, "<details", "\n<tr>", "\n</tbody></table></div></details>\n<tr>", 0},
        {0, "<details", "<summary>", "<summary>9</summary><summary>", 0},
        {0, "<details", "\n</tbody>", "\n<p>in the table</p>\n</tbody>", 0},
        {0, "<details", "\n<tr>", "\n<details><summary>x</summary>\n<tr>", 0},
        {0, "<details", "<td>", "<td><data value=\"9\">9</data>", 0},
        {0, "<aside", "\n</aside>", "", 0},
        {1, "", "`verified, ", "`verified; ", 1},
        {1, "", "\n> - `by", "\n> - `9999 sequences/s, audited`\n> - `by", 1},
        {1, "", "`verified", "`ver`ified", 0},
        {1, "", "`verified", "`<b>verified", 0},
        {1, "", "`verified", "`\xc3\xbcverified", 0},
        {1, "", "\n> - `by", "\n> # 9999 sequences/s\n> - `by", 0},
        {1, "", "\n> - `by", "\n\n9999 sequences/s\n\n> - `by", 0},
        {1, "", "\n> - `by", "\n> - by", 0},
    };
    struct shown s;
    RP_BUF page = {0}, markdown = {0};
    char text[512];
    make_bundles();
    show(&s, "signed.zst", NULL, NULL);
    rp_page_html(&page, &s.b, 1);
    rp_page_markdown(&markdown, &s.b, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RP_BUF bent = {0};
        bend(&bent, cases[i].markdown ? &markdown : &page, cases[i].behind, cases[i].was, cases[i].is);
        enum rp_check_state state = page_state(&bent, &s, NULL, 0, text);
        CHECK(state == (cases[i].holds ? RP_CHECK_PASSED : RP_CHECK_FAILED), "%zu: %s, %s", i, rp_check_state_name(state), text);
    }
    shown_fini(&s);
}

TEST(a_page_has_no_more_bundles_than_this_program_writes)
{
    struct shown s;
    struct rp_shown_bundle b[RP_PAGE_BUNDLES];
    RP_BUF page = {0};
    char text[512];
    make_bundles();
    show(&s, "signed.zst", NULL, NULL);
    for (int i = 0; i < RP_PAGE_BUNDLES; i++)
        b[i] = s.b;
    rp_page_markdown(&page, b, RP_PAGE_BUNDLES);
    CHECK(page_state(&page, &s, NULL, 0, text) == RP_CHECK_PASSED, "%s", text);
    rp_buf_puts(&page, "\n---\n\n");
    RP_FREE char *reports = rp_strdup(strstr(page.data, "> statement SHA-256"));
    rp_buf_puts(&page, reports);
    CHECK(page_state(&page, &s, NULL, 0, text) == RP_CHECK_FAILED, "%s", text);
    shown_fini(&s);
}

/* As many records as are written into a page, each as long as they come. */
TEST(the_largest_page_can_be_checked)
{
    const int64_t n = 40000; /* ROWS_MAX */
    struct shown s;
    RP_BUF page = {0}, longer = {0};
    make_bundles();
    show(&s, "signed.zst", NULL, NULL);
    struct rp_step_record *was = s.kept.records.r;
    int64_t n_was = s.kept.records.n;
    struct rp_step_record *r = rp_alloc((size_t)(n + 1) * sizeof *r);
    uint32_t *count_was = s.kept.records.count;
    s.kept.records.count = rp_alloc((size_t)(n + 1) * (size_t)s.kept.records.counter.n * sizeof *count_was);
    memset(s.kept.records.count, 255, (size_t)(n + 1) * (size_t)s.kept.records.counter.n * sizeof *count_was);
    for (int64_t i = 0; i <= n; i++) {
        r[i] = was[n_was - 1];
        r[i].step = (int)(400000 + i);
        r[i].repeat = 399999;
        r[i].start_ns = i * 86400000000123;
        r[i].end_ns = r[i].start_ns + 86399000000123;
        r[i].device_ns = 86398000000123;
        r[i].samples = 4294967295u;
        r[i].learning_rate = 1.0 / 3e-5 / (double)(i + 7);
        r[i].loss = r[i].grad_norm = 1.0f / 3;
    }
    s.kept.records.r = r;
    s.kept.records.n = n;
    rp_page_html(&page, &s.b, 1);
    CHECK(strstr(page.data, "every step as CSV") && page.size > 8 << 20 && page.size < RP_PAGE_MAX / 10 * 9, "%zu bytes", page.size);
    s.kept.records.n = n + 1;
    rp_page_html(&longer, &s.b, 1);
    CHECK(!strstr(longer.data, "every step as CSV") && longer.size < 1 << 20, "%zu bytes", longer.size);
    s.kept.records.r = was;
    s.kept.records.n = n_was;
    free(s.kept.records.count);
    s.kept.records.count = count_was;
    free(r);
    shown_fini(&s);
}
