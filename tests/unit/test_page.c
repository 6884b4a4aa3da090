/* Pages: foreign text stays text, figures are those of the bundle, a bundle that failed is not shown. */
#include "tests/unit/standing_fixture.h"

#include "base/text.h"
#include "report/escape.h"
#include "report/figure.h"
#include "report/tables.h"

/* ---- a strict reader of the HTML that pages are made of ---- */

static const char *const elements[] = {"html", "aside", "head",    "title",   "style", "body",   "a",     "header", "div",  "svg",     "circle", "path",       "h1",  "h2",
                                       "h3",   "p",       "code",    "bdi",   "table",  "caption", "thead", "tbody", "tr",     "th",     "td",         "nav", "ul",
                                       "li",   "main",    "section", "data",  "dl",     "dt",    "dd",     "span", "figure",  "figcaption", "b",      "rect", "text",
                                       "pre",  "details", "summary", "footer", "meta", "br"};
static const char *const attributes[] = {"lang", "charset", "http-equiv", "content", "name", "class", "href", "id", "width", "height", "viewBox", "aria-hidden",
                                         "cx", "cy", "r", "d", "open", "scope", "aria-label", "aria-labelledby", "data-bundle", "value",
                                         "data-src", "data-form", "role", "x", "y", "text-anchor", "preserveAspectRatio", "download", "tabindex", "rx",
                                         "stroke-width", "transform", "colspan"};

/* One tag at p: name and attributes known, values quoted; the end, or NULL. */
static const char *tag(const char *p, char name[32], int *closing)
{
    char word[64];
    size_t n;
    *closing = p[1] == '/';
    p += 1 + *closing;
    n = strcspn(p, " >/\n");
    if (n >= 32 || !RP_IS_IN(elements, p, n))
        return NULL;
    snprintf(name, 32, "%.*s", (int)n, p);
    for (p += n; *p == ' ';) {
        n = strcspn(++p, "=> /");
        snprintf(word, sizeof word, "%.*s", (int)n, p);
        if (!RP_IS_IN(attributes, word, strlen(word)))
            return NULL;
        p += n;
        if (*p != '=')
            continue;
        if (p[1] != '"' || !(p = strchr(p + 2, '"')))
            return NULL;
        p++;
    }
    return *p == '/' && p[1] == '>' ? p + 1 : *p == '>' ? p : NULL;
}

/* Everything is an element of the list with attributes of the list, nested as it should be. The place of the first mistake, or NULL. */
static const char *mistake(const char *html)
{
    char open[64][32], name[32];
    int depth = 0, closing;
    const char *p = html + strlen("<!doctype html>");
    for (; (p = strchr(p, '<')); p++) {
        const char *at = p;
        if (!(p = tag(p, name, &closing)))
            return at;
        if (closing && (depth == 0 || strcmp(open[--depth], name) != 0))
            return at;
        if (closing || p[-1] == '/' || strcmp(name, "meta") == 0 || strcmp(name, "br") == 0)
            continue;
        if (depth == 64)
            return at;
        strcpy(open[depth++], name);
        if (strcmp(name, "style") == 0)
            p = strstr(p, "</style>") - 1;
    }
    return depth ? html : NULL;
}

/* The page of fx_path(file). */
static void page_of(struct rp_buf *out, const char *file, int markdown, enum rp_verdict verdict)
{
    struct rp_verification v;
    struct rp_verified kept = {0};
    struct rp_verify_opts o = {.keep = &kept};
    struct rp_err err = {0};
    RP_FREE char *path = fx_path(file);
    int rc = rp_verify(&v, path, &o, &err);
    CHECK(v.verdict == verdict, "%s: %s (%d)", rp_verdict_text(v.verdict), err.msg, rc);
    struct rp_shown_bundle b = {.name = file, .v = &v, .kept = v.verdict == RP_VERDICT_FAILED ? NULL : &kept};
    if (markdown)
        rp_page_markdown(out, &b, 1);
    else
        rp_page_html(out, &b, 1);
    rp_verified_fini(&kept);
    rp_verification_fini(&v);
}

static int count(const char *text, const char *part)
{
    int n = 0;
    for (; (text = strstr(text, part)); text += strlen(part))
        n++;
    return n;
}

TEST(foreign_text_is_text)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"plain", "plain"},
        {"<b a=\"x\" c='y'>&`", "&lt;b a=&quot;x&quot; c=&#39;y&#39;&gt;&amp;&#96;"},
        {"a\nb\tc", "a b c"},
        {"\033[31mred\x7f", "\xef\xbf\xbd[31mred\xef\xbf\xbd"},
        {"\xe2\x80\xaeliam", "\xef\xbf\xbdliam"},            /* U+202E turns what follows */
        {"N\xe2\x80\x8bV", "N\xef\xbf\xbdV"},              /* U+200B has no width */
        {"\xc2\x9b", "\xef\xbf\xbd"},                        /* C1 */
        {"\xff\xc3(", "\xef\xbf\xbd\xef\xbf\xbd("},          /* malformed */
        {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* a lone surrogate */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RP_BUF out = {0};
        rp_html_text(&out, cases[i].in);
        CHECK_STR(rp_buf_text(&out), cases[i].out);
    }
    RP_BUF cut = {0}, lines = {0};
    rp_html(&cut, "\xc3\xbc\xc3\xbc\xc3\xbc", 6, 2);
    CHECK_STR(rp_buf_text(&cut), "\xc3\xbc\xc3\xbc...");
    rp_html_lines(&lines, "a\n<", 3);
    CHECK_STR(rp_buf_text(&lines), "a\n&lt;");
}

TEST(cells_of_csv_are_no_formulas)
{
    static const char *const cases[][2] = {
        {"plain", "plain"},     {"=1+1", "\"'=1+1\""}, {"+1", "+1"},       {"-1+x", "\"'-1+x\""}, {"@SUM(A1)", "\"'@SUM(A1)\""},
        {"a\"b", "\"a\"\"b\""}, {"a,b", "\"a,b\""},    {"a\r\nb", "a? b"}, {"\t=1", "\"' =1\""},  {"", ""},
        {"N\xc2\xadV", "N??V"}, {"a;b", "\"a;b\""},    {" a", "\" a\""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RP_BUF out = {0};
        rp_csv_text(&out, cases[i][0]);
        CHECK_STR(rp_buf_text(&out), cases[i][1]);
    }
}

TEST(figures_are_found_and_formed)
{
    RP_JSON *j = json_pack("{s:{s:f, s:s}, s:[i, i], s:i}", "a/b", "x~y", 4.2124299656386981, "hex", "0x1.8p+1", "list", 7, 8, "n", 4345723392LL & 0x7fffffff);
    static const char *const cases[][3] = {
        {"/a~1b/x~0y", "d3", "4.212"},
        {"/a~1b/x~0y", "d1*100", "421.2"},
        {"/a~1b/hex", "x", "3"},
        {"/a~1b/hex", "t", "0x1.8p+1"},
        {"/list/1", "d0", "8"},
        {"/list", "t", NULL},
        {"/list/2", "d0", ""},
        {"/nothing", "t", ""},
        {"/a~2b", "t", ""},
        {"/a~1b/hex", "d3", ""},
        {"/list/-1", "t", ""},
        {"n", "t", ""},
        {"/a~1b/hex", "h", "3 = 0x1.8p+1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RP_BUF out = {0};
        int rc = rp_form(&out, rp_pointer(j, cases[i][0]), cases[i][1]);
        if (cases[i][2])
            CHECK_STR(rp_buf_text(&out), cases[i][2]);
        CHECK((rc < 0) == !out.size, "%s %s", cases[i][0], cases[i][1]);
    }
    RP_BUF figure = {0};
    rp_figure(&figure, j, "run.json", "/a~1b/x~0y", "d3");
    CHECK_STR(rp_buf_text(&figure), "<data value=\"4.212429965638698\" data-src=\"run.json#/a~1b/x~0y\" data-form=\"d3\">4.212</data>");
    static const char *const filled[] = {
        "a 4.21 _ -", "a 4.21 _ -",
        "a <data value=\"4.212429965638698\" data-src=\"run.json#/a~1b/x~0y\" data-form=\"d2\">4.21</data> _ "
        "<data class=\"none\" value=\"\" data-src=\"run.json#/no\" data-form=\"t\">unknown</data>"};
    for (int as = RP_FILL_TEXT; as <= RP_FILL_HTML; as++) {
        RP_BUF out = {0};
        rp_fill(&out, (enum rp_fill)as, j, "run.json", "a {/a~1b/x~0y d2} _ {/no t}");
        CHECK_STR(rp_buf_text(&out), filled[as]);
    }
}

/* The same table in each format: foreign text is escaped for it, and a figure names its source only on a page. */
TEST(shared_tables)
{
    RP_JSON *run = json_loads("{\"environment_changes\": [{\"field\": \"a_<b>\", \"impact\": \"high\", \"before\": {\"state\": \"ok\", "
                              "\"value\": 2048, \"unit\": \"B\"}, "
                              "\"after\": {\"state\": \"denied\", \"value\": null}}, {\"field\": \"x\", \"impact\": \"none\"}]}",
                              0, NULL);
    static const struct {
        enum rp_fill as;
        enum rp_doc_format format;
        const char *row;
    } cases[] = {{RP_FILL_MD, RP_DOC_REPORT, "| a\\_\\<b\\> | high | 2048 B | denied |\n"},
                 {RP_FILL_TEXT, RP_DOC_CSV, "a_<b>,high,2048 B,denied\n"},
                 {RP_FILL_HTML, RP_DOC_HTML,
                  "<tr><th scope=\"row\">a_&lt;b&gt;</th><td>high</td><td><data value=\"2048\" "
                  "data-src=\"run.json#/environment_changes/0/before\""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_doc d = {.as = cases[i].as};
        RP_BUF out = {0};
        rp_table_changes(&d, run);
        rp_doc_write(&out, &d, cases[i].format);
        CHECK(strstr(rp_buf_text(&out), cases[i].row), "%s", rp_buf_text(&out));
        rp_doc_fini(&d);
    }
}

TEST(the_page_of_an_honest_bundle_is_well_formed_and_always_the_same)
{
    RP_BUF page = {0}, again = {0}, markdown = {0};
    FX(x);
    fx_seal(&x, "signer", "honest");
    page_of(&page, "honest", 0, RP_VERDICT_UNKNOWN_KEY);
    page_of(&again, "honest", 0, RP_VERDICT_UNKNOWN_KEY);
    CHECK(rp_buf_is(&again, page.data, page.size), "not the same bytes");
    const char *bad = mistake(rp_buf_text(&page));
    CHECK(!bad, "at: %.60s", bad ? bad : "");
    said_page(&page);
    CHECK(strstr(page.data, "data-src=\"run.json#/results/throughput/value\" data-form=\"d3\">"), "no throughput");
    CHECK(page.size < 400000 && !strstr(page.data, "<script") && count(page.data, "http") == count(page.data, "http-equiv"), "not self-contained");
    page_of(&markdown, "honest", 1, RP_VERDICT_UNKNOWN_KEY);
    said_markdown(&markdown);
    CHECK(strstr(markdown.data, x.report.data), "not the sealed report");
}

#undef EVIL
#define EVIL "\"'><script>alert(1)</script><img src=x onerror=alert(1)>]]>--><!--\xe2\x80\xae\033[2J`; attempt "

TEST(a_hostile_bundle_cannot_add_markup)
{
    static const char title[] = "title: \"\\\"'><script>alert(1)</script><h1>verified</h1>\"\n";
    static const char *const groups[][2] = {{"cpu", "model_name"}, {"host", "product"}, {"container", "image"}, {"launch", "command"}, {"kernel", "release"}};
    struct rp_err err;
    RP_BUF recipe = {0}, page = {0}, markdown = {0};
    FX(x);
    rp_recipe_fini(&x.recipe);
    rp_buf_puts(&recipe, title);
    rp_buf_puts(&recipe, strstr(fx_recipe, "model:"));
    int failed = rp_recipe_parse(&x.recipe, recipe.data, recipe.size, "<script>.yaml", "cpu", NULL, 0, &err);
    CHECK(failed == 0, "recipe: %s", err.msg);
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        fx_capture_both(&x, groups[i][0], groups[i][1], json_string(EVIL));
    }
    fx_capture_value(x.before, "frequency", "governor", json_string("=1" EVIL)); /* and among what changed */
    fx_capture_value(x.after, "frequency", "governor", json_string(EVIL));
    x.backend = "cuda";
    x.device = "gpu0 " EVIL;
    rp_buf_puts(&x.telemetry, "{\"clock_sm_hz\":1000000000,\"n\":0,\"ns\":5050000000,\"throttle\":[\"</td><script>alert(1)</script>\",\"=1+1\"]}\n");
    failed = fx_documents(&x, "incomplete", "reason " EVIL, &err);
    CHECK(failed == 0, "%s", err.msg);
    fx_seal(&x, "signer", "hostile");
    struct rp_verification v;
    struct rp_verify_opts o = {0};
    RP_FREE char *path = fx_path("hostile");
    failed = rp_verify(&v, path, &o, &err) < 0;
    CHECK(!failed, "what is tested would not be shown: %s", err.msg);
    page_of(&page, "hostile", 0, v.verdict);
    const char *bad = mistake(rp_buf_text(&page));
    CHECK(!bad, "at: %.60s", bad ? bad : "");
    CHECK(!strstr(page.data, "<script") && !strstr(page.data, "<img") && !strstr(page.data, "\033") && !strstr(page.data, "\xe2\x80\xae"), "markup of a stranger");
    CHECK(count(page.data, "<aside") == 1 && count(page.data, "class=\"verdict") == 1 && count(page.data, "<h1") == 1, "a forged verdict");
    page_of(&markdown, "hostile", 1, v.verdict);
    char *ran = strstr(rp_buf_text(&markdown), "\n> ran on "), *end = ran ? strchr(ran + 1, '\n') : NULL;
    CHECK(ran && end && end < strstr(markdown.data, "\n# "), "no machine above the report");
    if (end)
        *end = 0;
    CHECK(ran && count(ran, "`") == 4 && !strpbrk(ran, "<\033"), "markup of a stranger: %s", ran ? ran : "");
    rp_verification_fini(&v);
}

TEST(a_bundle_that_failed_shows_its_checks_and_nothing_else)
{
    RP_BUF page = {0}, markdown = {0};
    FX(x);
    set_path(x.run, "results/throughput/value", json_real(98765.4321));
    fx_seal(&x, "signer", "forged");
    page_of(&page, "forged", 0, RP_VERDICT_FAILED);
    said_page(&page);
    CHECK(!strstr(page.data, "<data ") && !strstr(page.data, "<dl"), "figures of a failed bundle");
    CHECK(strstr(page.data, "<details open") && !mistake(page.data), "checks");
    page_of(&markdown, "forged", 1, RP_VERDICT_FAILED);
    CHECK(!strstr(markdown.data, "98765"), "%s", markdown.data);
    SAID(markdown.data);
}

TEST(a_page_that_was_changed_is_found)
{
    static const char figure[] = "data-src=\"run.json#/results/throughput/value\"", maker[] = "<meta name=\"generator\" content=\"repro ";
    static const struct page_bend bends[] = {
        {figure, ">", ">9", RP_CHECK_FAILED},
        {"<dl class=\"cards\">", "value=\"", "value=\"9", RP_CHECK_FAILED},
        {figure, "d3", "d3*2", RP_CHECK_FAILED},
        {"<dl", "results/throughput/value", "results/tokens_per_s", RP_CHECK_FAILED},
        {figure, " data-form=\"d3\"", "", RP_CHECK_FAILED},
        {"<dl", "</dl>", "<div><dt>MFU</dt><dd>97 %</dd></div></dl>", RP_CHECK_FAILED},
        {"id=\"b0-series\"", " d=\"M", " d=\"M1", RP_CHECK_FAILED},
        {"download=\"steps-", "base64,", "base64,AAAA", RP_CHECK_FAILED},
        {"<main", "id=\"main\"", "id=\"main\" hidden", RP_CHECK_FAILED},
        {"<header>", "<div", "<!-- <div", RP_CHECK_FAILED},
        {"<header>", "<div", "<script>alert(1)</script><div", RP_CHECK_FAILED},
        {"<header>", "<div", "<style>main{display:none}</style><div", RP_CHECK_FAILED},
        {"<meta http", "default-src 'none'", "default-src *", RP_CHECK_FAILED},
        {"<section class", "data-bundle=\"", "data-bundle=\"0", RP_CHECK_FAILED},
        {"<header>", "tiny", "tiny, 9999 sequences/s", RP_CHECK_FAILED},
        {"<title>", "tiny", "tiny, 9999 sequences/s", RP_CHECK_FAILED},
        {"<aside", "tabindex", "style=\"position:fixed\" tabindex", RP_CHECK_FAILED},
        {"<aside", "does not compare", "compares", RP_CHECK_FAILED},
        {"Signed by <code>", "SHA256:", "SHA256:00", RP_CHECK_FAILED},
        {maker, "repro ", "repro 9", RP_CHECK_SKIPPED}, /* another version made it */
        {"<!", "doctype", "DOCTYPE", RP_CHECK_FAILED},
        {"</main>", "</html>", "</html><p>9999 sequences/s</p>", RP_CHECK_FAILED},
    };
    struct shown s;
    RP_BUF page = {0}, bent = {0}, file = {0}, forged = {0};
    char text[512];
    FX(x);
    fx_seal(&x, "signer", "shown");
    page_of(&page, "shown", 0, RP_VERDICT_UNKNOWN_KEY);
    show(&s, "shown", NULL, NULL);
    CHECK(page_state(&page, &s, NULL, 0, text) == RP_CHECK_PASSED, "%s", text);
    EXPECT_BENDS(bends, &page, &s, NULL, 0);
    bend(&bent, &page, figure, ">", ">9"); /* the message has the figure, its source and the value of the bundle */
    CHECK(page_state(&bent, &s, NULL, 0, text) == RP_CHECK_FAILED && strstr(text, "'9") &&
              strstr(text, "run.json#/results/throughput/value"),
          "%s", text);
    rp_buf_puts(&file, "\n");
    rp_buf_add(&file, page.data, page.size);
    rp_buf_add(&file, x.report.data, x.report.size);
    CHECK(page_state(&file, &s, NULL, 0, text) == RP_CHECK_FAILED, "%s", text);
    rp_buf_puts(&forged, "<!doctype html>\n<p>9999 sequences/s</p>");
    CHECK(page_state(&forged, &s, NULL, 0, text) == RP_CHECK_FAILED, "%s", text);
    for (size_t n = 0; n < page.size; n += 997) { /* cut anywhere, never a pass and never a crash */
        RP_BUF cut = {0};
        rp_buf_add(&cut, page.data, n);
        CHECK(page_state(&cut, &s, NULL, 0, text) == RP_CHECK_FAILED || n < 400, "%zu bytes: %s", n, text);
    }
    shown_fini(&s);
    fx_seal(&x, "another", "other"); /* the same figures, signed with another key */
    show(&s, "other", NULL, NULL);
    CHECK(page_state(&page, &s, NULL, 0, text) == RP_CHECK_FAILED, "%s", text);
    shown_fini(&s);
}

TEST(a_markdown_file_has_the_sealed_report)
{
    static const struct page_bend bends[] = {
        {"| step time, median | ", "0", "1", RP_CHECK_FAILED},
        {"", "> As", "The fastest of all.\n\n> As", RP_CHECK_FAILED},
        {"> statement", ", signed by SHA256:", ", signed by SHA256:0000", RP_CHECK_FAILED},
        {"> statement", ", signed by ", ", signed by NVIDIA, ", RP_CHECK_FAILED},
        {"> statement", "\n\n", "\n>\n> also by NVIDIA\n\n", RP_CHECK_FAILED},
        {"\n> ran on ", "`", "`8 x ", RP_CHECK_FAILED},
        {"> statement SHA-256 `", "`", "`0", RP_CHECK_FAILED},
    };
    struct shown s;
    RP_BUF page = {0}, more = {0}, none = {0}, two = {0};
    char text[512];
    FX(x);
    fx_seal(&x, "signer", "shown");
    page_of(&page, "shown", 1, RP_VERDICT_UNKNOWN_KEY);
    show(&s, "shown", NULL, NULL);
    CHECK(page_state(&page, &s, NULL, 0, text) == RP_CHECK_PASSED, "%s", text);
    CHECK(page_state(&x.report, &s, NULL, 0, text) == RP_CHECK_NOTE, "the sealed member itself: %s", text);
    EXPECT_BENDS(bends, &page, &s, NULL, 0);
    rp_buf_add(&more, page.data, page.size);
    rp_buf_puts(&more, "More.\n");
    CHECK(page_state(&more, &s, NULL, 0, text) == RP_CHECK_FAILED, "%s", text);
    rp_buf_add(&two, page.data, page.size);
    rp_buf_puts(&two, "\n---\n\n");
    rp_buf_puts(&two, strstr(page.data, "> statement SHA-256"));
    CHECK(page_state(&two, &s, NULL, 0, text) == RP_CHECK_PASSED, "twice the same: %s", text);
    rp_buf_puts(&none, "# another\n");
    CHECK(page_state(&none, &s, NULL, 0, text) == RP_CHECK_FAILED, "%s", text);
    shown_fini(&s);
}
