/* Pages: foreign text stays text, figures are those of the bundle, a bundle that failed is not shown. */
#include "tests/unit/standing_fixture.h"

#include "base/text.h"
#include "page/overview.h"
#include "report/escape.h"
#include "report/figure.h"
#include "report/tables.h"
#include "tests/unit/compare_rows.h"
#include "tests/unit/html_reader.h"
#include "verify/levels.h"

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
    static const char *const cases[][2] = {{"plain", "plain"},
                                           {"=1+1", "\"'=1+1\""},
                                           {"+1", "+1"},
                                           {"-1+x", "\"'-1+x\""},
                                           {"@SUM(A1)", "\"'@SUM(A1)\""},
                                           {"a\"b", "\"a\"\"b\""}, {"a,b", "\"a,b\""}, {"a\r\nb", "a? b"},
                                           {"\t=1", "\"' =1\""}, {"", ""}, {"N\xc2\xadV", "N??V"}, {"a;b", "\"a;b\""},
                                           {" a", "\" a\""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RP_BUF out = {0};
        rp_csv_text(&out, cases[i][0]);
        CHECK_STR(rp_buf_text(&out), cases[i][1]);
    }
    /* what NFKC maps to = + - @, and blanks before a sign */
    static const char *const signs[] = {"\uff1d",  "\uff0b",  "\uff0d", "\uff20", "\ufe66",  "\ufe62",
                                        "\ufe63",  "\ufe6b",  "\u207a", "\u207b", "\u207c",  "\u208a",
                                        "\u208b",  "\u208c",  "\u2212", " =",     "\u00a0=", "\u3000+",
                                        "\u200b@", "\ufeff=", "  -",    "\n=",    " \uff1d"};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        RP_BUF out = {0};
        RP_FREE char *cell = rp_asprintf("%s1+cmd|' /C calc'!A0", signs[i]);
        rp_csv_text(&out, cell);
        CHECK(strncmp(rp_buf_text(&out), "\"'", 2) == 0 && out.data[out.size - 1] == '"', "%zu: %s", i,
              rp_buf_text(&out));
    }
}

TEST(figures_are_found_and_formed)
{
    RP_JSON *j = json_pack("{s:{s:f, s:{s:f, s:s}}, s:[i, i], s:i}", "a/b", "x~y", 4.2124299656386981, "float", "value",
                           3.0, "hex", "0x1.8p+1", "list", 7, 8, "n", 4345723392LL & 0x7fffffff);
    static const char *const cases[][3] = {
        {"/a~1b/x~0y", "d3", "4.212"},
        {"/a~1b/x~0y", "d1*100", "421.2"},
        {"/a~1b/float", "x", "3"},
        {"/a~1b/float", "t", ""},
        {"/a~1b/float/hex", "t", "0x1.8p+1"},
        {"/a~1b/float/hex", "x", ""},
        {"/list/1", "d0", "8"},
        {"/list", "t", NULL},
        {"/list/2", "d0", ""},
        {"/nothing", "t", ""},
        {"/a~2b", "t", ""},
        {"/a~1b/float", "d3", ""},
        {"/list/-1", "t", ""},
        {"n", "t", ""},
        {"/a~1b/float", "h", "3 = 0x1.8p+1"},
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
    CHECK_STR(rp_buf_text(&figure),
              "<data value=\"4.212429965638698\" data-src=\"run.json#/a~1b/x~0y\" data-form=\"d3\">4.212</data>");
    RP_BUF exact = {0};
    rp_figure(&exact, j, "run.json", "/a~1b/float", "x");
    CHECK_STR(rp_buf_text(&exact),
              "<data value=\"0x1.8p+1\" data-src=\"run.json#/a~1b/float\" data-form=\"x\">3</data>");
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

TEST(figure_of_both_documents_names_the_one_that_has_it)
{
    struct rp_run_documents d = {
        .figures_json = json_loads("{\"rank\": [{\"timed_s\": 2.5}], \"none\": null}", 0, NULL),
        .facts_json = json_loads("{\"rank\": [{\"node\": 1}], \"backend\": \"cpu\"}", 0, NULL)};
    static const char *const cases[][2] = {{"/rank/0/timed_s", "run.json"},
                                           {"/rank/0/node", "facts.json"},
                                           {"/backend", "facts.json"},
                                           {"/none", "run.json"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RP_BUF out = {0};
        RP_FREE char *source = rp_asprintf("data-src=\"%s#%s\"", cases[i][1], cases[i][0]);
        rp_figure(&out, rp_run_shown(&d), "run.json", cases[i][0], "t");
        CHECK(strstr(rp_buf_text(&out), source), "%s", rp_buf_text(&out));
    }
    json_decref(d.facts_json);
    json_decref(d.figures_json);
    json_decref(d.shown);
}

/* A run whose run.json has those nodes. */
static void with_nodes(struct rp_run_documents *d, const char *node)
{
    RP_FREE char *text = rp_asprintf("{\"node\": %s}", node);
    *d = (struct rp_run_documents){.facts_json = json_object(), .figures_json = json_loads(text, 0, NULL)};
    CHECK(d->figures_json, "%s", text);
    rp_object_read(&d->figures, &rp_type_figures, d->figures_json);
}

static void without(struct rp_run_documents *d)
{
    rp_object_fini(&d->figures, &rp_type_figures);
    json_decref(d->facts_json);
    json_decref(d->figures_json);
    json_decref(d->shown);
}

/* The same table in each format: foreign text is escaped for it, and a figure names its source only on a page. */
TEST(shared_tables)
{
    struct rp_run_documents run;
    with_nodes(&run, "[{\"change\": [{\"field\": \"a_<b>\", \"impact\": \"high\", \"before\": {\"state\": \"ok\", "
                     "\"value\": 2048, \"unit\": \"B\"}, \"after\": {\"state\": \"denied\", \"value\": null}}, "
                     "{\"field\": \"x\", \"impact\": \"none\"}]}]");
    static const struct {
        enum rp_fill as;
        enum rp_doc_format format;
        const char *row;
    } cases[] = {{RP_FILL_MD, RP_DOC_MD, "| a\\_&lt;b\\> | high | 2048 B | denied |\n"},
                 {RP_FILL_TEXT, RP_DOC_CSV, "a_<b>,high,2048 B,denied\n"},
                 {RP_FILL_HTML, RP_DOC_HTML,
                  "<tr><th scope=\"row\">a_&lt;b&gt;</th><td>high</td><td><data value=\"2048\" "
                  "data-src=\"run.json#/node/0/change/0/before\""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_doc d = {.as = cases[i].as};
        RP_BUF out = {0};
        rp_table_changes(&d, &run);
        rp_doc_write(&out, &d, cases[i].format);
        CHECK(strstr(rp_buf_text(&out), cases[i].row), "%s", rp_buf_text(&out));
        rp_doc_fini(&d);
    }
    without(&run);
}

TEST(changes_of_several_nodes_name_their_node_and_the_important_ones_are_first)
{
    struct rp_run_documents run;
    with_nodes(&run, "[{\"change\": [{\"field\": \"a\", \"impact\": \"low\"}]}, "
                     "{\"change\": [{\"field\": \"b\", \"impact\": \"high\", \"varies\": true}]}]");
    struct rp_doc d = {0};
    RP_BUF out = {0};
    rp_table_changes(&d, &run);
    without(&run);
    rp_doc_write(&out, &d, RP_DOC_CSV);
    rp_doc_fini(&d);
    CHECK_STR(rp_buf_text(&out),
              "field,node,impact,before,after\nb,1,\"high, varies\",\"'-\",\"'-\"\na,0,low,\"'-\",\"'-\"\n");
}

/* Every figure that is known is at its pointer in the member that it names. */
static void check_sources(const struct fx *x, const char *page)
{
    static const char known[] = "<data value=\"", source[] = "data-src=\"";
    int figures = 0;
    for (const char *at = page; (at = strstr(at, known)); at++, figures++) {
        const char *name = strstr(at, source) + sizeof source - 1, *hash = strchr(name, '#'), *end = strchr(name, '"');
        RP_FREE char *member = rp_asprintf("%.*s", (int)(hash - name), name);
        RP_FREE char *pointer = rp_asprintf("%.*s", (int)(end - hash) - 1, hash + 1);
        const json_t *in = strcmp(member, "run.json") == 0     ? x->run
                           : strcmp(member, "facts.json") == 0 ? x->facts
                           : strstr(member, ".after.")         ? x->after
                                                               : x->before;
        const json_t *v = rp_pointer(in, pointer);
        CHECK(v && !json_is_null(v), "%s#%s", member, pointer);
    }
    CHECK(figures > 50, "%d figures", figures);
}

/* Every value with a label is a row; returns how many. */
static int check_labels(const struct rp_figures *figures, const json_t *document, const struct rp_object_type *type,
                        const char *at, const char *page)
{
    int rows = 0;
    for (int i = 0; i < type->n; i++) {
        const struct rp_object_field *f = &type->field[i];
        RP_FREE char *pointer = rp_asprintf("%s/%s", at, f->name),
                     *row = rp_asprintf("<tr><th scope=\"row\">%s</th>", f->label);
        const json_t *v = rp_pointer(document, pointer);
        if (f->type == RP_IS_PART || f->type == RP_IS_PART_OR_NONE)
            rows += check_labels(figures, document, f->of, pointer, page);
        if (!*f->label || !v || json_is_null(v) || !rp_table_has_steps_for(figures, pointer))
            continue;
        CHECK(count(page, row) == 1, "%s, labelled '%s', is in %d rows", pointer, f->label, count(page, row));
        rows++;
    }
    return rows;
}

TEST(the_page_of_an_honest_bundle_is_well_formed_and_always_the_same)
{
    RP_BUF page = {0}, again = {0}, markdown = {0}, report = {0};
    FX(x);
    fx_seal(&x, "signer", "honest");
    page_of(&page, "honest", 0, RP_VERDICT_UNKNOWN_KEY);
    page_of(&again, "honest", 0, RP_VERDICT_UNKNOWN_KEY);
    CHECK(rp_buf_is(&again, page.data, page.size), "not the same bytes");
    const char *bad = mistake(rp_buf_text(&page));
    CHECK(!bad, "at: %.60s", bad ? bad : "");
    said_page(&page);
    CHECK(strstr(page.data, "data-src=\"run.json#/results/throughput/value\" data-form=\"d3\">"), "no throughput");
    CHECK(page.size < 400000 && !strstr(page.data, "<script") &&
              count(page.data, "http") == count(page.data, "http-equiv"),
          "not self-contained");
    page_of(&markdown, "honest", 1, RP_VERDICT_UNKNOWN_KEY);
    said_markdown(&markdown);
    fx_report(&report, &x);
    CHECK(rp_ends_with(rp_buf_text(&markdown), rp_buf_text(&report)), "the report is not below the box");
    check_sources(&x, page.data);
    struct rp_figures f;
    rp_object_read(&f, &rp_type_figures, x.run);
    CHECK(check_labels(&f, x.run, &rp_type_figures, "", page.data) > 15, "figures with labels");
    CHECK(check_labels(&f, x.facts, &rp_type_facts, "", page.data) > 5, "facts with labels");
    rp_object_fini(&f, &rp_type_figures);
}

/* The figures and the machine stand first, then the verdict, in one line that is folded, then the rest. */
TEST(page_begins_with_throughput_and_machine)
{
    static const char *const order[] = {"<h1 ",
                                        "<dl class=\"cards\"><div class=\"first\"><dt>throughput</dt>",
                                        "<dl class=\"system\">",
                                        "<dt>processor</dt>",
                                        "<dt>sockets</dt>",
                                        "<dt>cores</dt>",
                                        "<dt>memory</dt>",
                                        "<dt>GPUs</dt><dd>",
                                        ">8</data>",
                                        "<dt>driver</dt>",
                                        "<dt>kernel</dt>",
                                        "<dt>ranks, nodes</dt>",
                                        "<aside class=\"box\"",
                                        "<details class=\"verdict warn\"><summary>",
                                        "</h2></summary>",
                                        "<caption>All checks",
                                        "</details>",
                                        "</aside>",
                                        "<nav ",
                                        "<main ",
                                        "<figure id=\"b0-timeline\">",
                                        "<title>timed steps: "};
    RP_BUF page = {0};
    FX(x);
    static const char *const cpu[] = {"sockets", "cores"};
    fx_capture_both(&x, "cpu", "model_name", json_string("EPYC"));
    for (int i = 0; i < 2; i++)
        fx_capture_both(&x, "cpu", cpu[i], json_integer(2));
    fx_capture_both(&x, "memory", "total", json_integer(1 << 30));
    fx_capture_both(&x, "kernel", "release", json_string("6.1"));
    fx_capture_both(&x, "gpu", "count", json_integer(8));
    fx_capture_both(&x, "nvidia", "version", json_string("580.1"));
    fx_compute(&x);
    fx_seal(&x, "signer", "head");
    page_of(&page, "head", 0, RP_VERDICT_UNKNOWN_KEY);
    const char *at = rp_buf_text(&page);
    for (size_t i = 0; i < sizeof order / sizeof *order && at; i++) {
        const char *next = strstr(at, order[i]);
        CHECK(next, "'%s' does not follow: %.200s", order[i], at);
        at = next;
    }
    CHECK(count(page.data, "class=\"verdict") == 1 && count(page.data, "<h2>") == 1, "a bundle has one verdict");
}

/* Nine timed steps in five bins of 10 ms: three, two, one, one, and two, of which one is the upper edge itself. */
TEST(the_histogram_has_the_steps_of_each_bin)
{
    static const int ms[] = {90, 135, 100, 150, 111, 101, 125, 112, 145, 102}; /* the first is the warm-up's */
    RP_BUF page = {0};
    FX(x);
    FX_SET(&x, "measure.timed_steps=9", "measure.repeats=1");
    rp_buf_fini(&x.steps);
    rp_buf_puts(&x.steps, "{\"phase\":\"init\",\"rank\":0,\"root_ns\":1,\"state_root\":\"" FX_ROOT "\",\"step\":-1}\n");
    for (int i = 0; i < 10; i++)
        fx_step(&x.steps, i, 1, 9, 5000000123ll + i * 160000000ll, ms[i] * 1000000ll, i == 9);
    x.done = json_pack("{s:{s:f}}", "phases_s", "timed", 1.5);
    fx_compute(&x);
    fx_seal(&x, "signer", "nine");
    page_of(&page, "nine", 0, RP_VERDICT_UNKNOWN_KEY);
    const char *at = strstr(rp_buf_text(&page), "<figure id=\"b0-histogram\">");
    if (!CHECK(at, "no histogram"))
        return;
    CHECK(strstr(at, "<path class=\"bars s1\" d=\"M0.8 150V0.0H199.2V150M200.8 150V50.0H399.2V150M400.8 "
                     "150V100.0H599.2V150M600.8 150V100.0H799.2V150"
                     "M800.8 150V50.0H999.2V150\"/>"),
          "%.3000s", at);
    CHECK(strstr(at, "<path class=\"mark\" d=\"M240.0 0V150\"/>"), "%.3000s", at); /* the median, 112 ms */
    CHECK(strstr(at, "<title>100 to 110 milliseconds: 3 steps</title>"), "%.3000s", at);
    /* the axis of every step: 100 to 150 ms and 8 % of that on both sides; the warm-up's 90 ms are at its edge */
    at = strstr(page.data, "<figure id=\"b0-series\">");
    CHECK(strstr(at, "M50.0 190.0h0\"/>") && strstr(at, "class=\"dots beyond\""), "%.3000s", at);
    CHECK(strstr(at, "<title>step 0\n90 milliseconds</title>"), "%.3000s", at);
}

#undef EVIL
#define EVIL_NAME "\"'><script>alert(1)</script><img src=x onerror=alert(1)>]]>--><!--`; attempt " /* ASCII */
#define EVIL EVIL_NAME "\xe2\x80\xae\033[2J"

TEST(a_hostile_bundle_cannot_add_markup)
{
    static const char title[] = "title: \"\\\"'><script>alert(1)</script><h1>verified</h1>\"\n";
    static const char *const groups[][2] = {{"cpu", "model_name"}, {"host", "product"}, {"container", "image"},
                                            {"launch", "command"}, {"kernel", "release"}};
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
    x.device = "gpu0 " EVIL_NAME; /* of other letters would be refused */
    rp_buf_puts(&x.telemetry, "{\"clock_sm_hz\":1000000000,\"n\":0,\"ns\":5050000000,\"throttle\":[\"</"
                              "td><script>alert(1)</script>\",\"=1+1\"]}\n");
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
    CHECK(!strstr(page.data, "<script") && !strstr(page.data, "<img") && !strstr(page.data, "\033") &&
              !strstr(page.data, "\xe2\x80\xae"),
          "markup of a stranger");
    CHECK(count(page.data, "<aside") == 1 && count(page.data, "class=\"verdict") == 1 && count(page.data, "<h1") == 1,
          "a forged verdict");
    page_of(&markdown, "hostile", 1, v.verdict);
    char *ran = strstr(rp_buf_text(&markdown), "\n> ran on "), *end = ran ? strchr(ran + 1, '\n') : NULL;
    CHECK(ran && end && end < strstr(markdown.data, "\n# "), "no machine above the report");
    if (end)
        *end = 0;
    CHECK(ran && count(ran, "`") == 6 && !strpbrk(ran, "<\033"), "markup of a stranger: %s", ran ? ran : "");
    rp_verification_fini(&v);
}

/* A warning of any check is in the line, in the levels, in the document and in the head of a page, which is not
 * green. */
TEST(warning_of_every_check_reaches_line_levels_and_page)
{
    struct rp_verification v;
    struct rp_verified kept = {0};
    struct rp_verify_opts o = {.any_key = 1, .keep = &kept};
    struct rp_err err;
    FX(x);
    fx_seal(&x, "signer", "warned");
    RP_FREE char *path = fx_path("warned");
    CHECK(rp_verify(&v, path, &o, &err) == 0 && v.verdict == RP_VERDICT_VERIFIED, "%s", err.msg);
    CHECK(rp_level_of(&v, RP_LEVEL_consistent).state == RP_LEVEL_YES, "a warning to begin with");
    for (int i = 0; i < RP_CHECK_policy; i++) { /* policy and claims cannot be warnings */
        const enum rp_check_state was = v.check[i].state;
        RP_BUF line = {0}, page = {0}, markdown = {0};
        v.check[i].state = RP_CHECK_WARNING;
        rp_verification_line(&line, &v);
        RP_FREE char *named = rp_asprintf("consistent with 1 warning (%s)", v.check[i].name);
        CHECK(strstr(rp_buf_text(&line), named), "%s: %s", v.check[i].name, rp_buf_text(&line));
        const struct rp_level l = rp_level_of(&v, RP_LEVEL_consistent);
        CHECK(l.state == RP_LEVEL_PART && strstr(l.text, v.check[i].name), "%s: %s", v.check[i].name, l.text);
        struct rp_shown_bundle b = {.name = "warned", .v = &v, .kept = &kept};
        rp_page_html(&page, &b, 1);
        rp_page_markdown(&markdown, &b, 1);
        CHECK(strstr(rp_buf_text(&page), named) && strstr(rp_buf_text(&markdown), named), "%s: not in the head",
              v.check[i].name);
        CHECK(strstr(page.data, "class=\"verdict warn\"") && !strstr(page.data, "class=\"verdict good\""), "%s: green",
              v.check[i].name);
        v.check[i].state = was;
    }
    rp_verified_fini(&kept);
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
    CHECK(strstr(page.data, "<details class=\"verdict bad\" open>") && !mistake(page.data), "checks");
    page_of(&markdown, "forged", 1, RP_VERDICT_FAILED);
    CHECK(!strstr(markdown.data, "98765"), "%s", markdown.data);
    SAID(markdown.data);
}

/* Whatever the author of a page found: the body is the same, and text in the box neither leaves it nor is markup. */
TEST(the_box_has_text_only_and_does_not_change_the_body)
{
    struct shown s;
    RP_BUF plain = {0}, plain_markdown = {0};
    FX(x);
    fx_seal(&x, "signer", "shown");
    page_of(&plain, "shown", 0, RP_VERDICT_UNKNOWN_KEY);
    page_of(&plain_markdown, "shown", 1, RP_VERDICT_UNKNOWN_KEY);
    show(&s, "shown", NULL, NULL);
    s.v.verdict = RP_VERDICT_VERIFIED;
    snprintf(s.v.signer, sizeof s.v.signer, "carl & `<b>`\t\033</aside>\n\n> x");
    for (int i = 0; i < RP_CHECK_COUNT; i++)
        s.v.check[i].state = (enum rp_check_state)(i % (RP_CHECK_FAILED + 1));
    memset(s.v.check[0].text, '<', sizeof s.v.check[0].text - 1);
    RP_BUF page = {0}, markdown = {0};
    rp_page_html(&page, &s.b, 1);
    rp_page_markdown(&markdown, &s.b, 1);
    const char *bad = mistake(rp_buf_text(&page)), *end = strstr(rp_buf_text(&markdown), "\n\n");
    CHECK(!bad, "at: %.60s", bad ? bad : "");
    CHECK(strstr(page.data, "carl &amp; &#96;&lt;b&gt;&#96; \xef\xbf\xbd&lt;/aside&gt;  &gt; x"), "the signer");
    CHECK_STR(strstr(page.data, "</aside>"), strstr(rp_buf_text(&plain), "</aside>"));
    CHECK_STR(end, strstr(rp_buf_text(&plain_markdown), "\n\n"));
    for (const char *line = markdown.data, *next; line < end; line = next) {
        next = strchr(line, '\n') + 1;
        RP_FREE char *text = rp_asprintf("%.*s", (int)(next - line), line);
        CHECK(*text == '>' && count(text, "`") % 2 == 0 && !strpbrk(text, "<\033\t"), "%s", text);
    }
    shown_fini(&s);
}

/* The body of a page does not depend on names of files. */
TEST(outlier_of_a_fleet_is_named_by_its_statement)
{
    for (int as = 0; as < 2; as++) {
        RP_ROWS rows = {0};
        RP_BUF out = {0};
        for (int i = 0; i < 5; i++) {
            struct rp_result *row = complete(&rows);
            row->throughput = i == 3 ? 50 : 100 + i;
            row->source.file = rp_asprintf("node%d.zst", i);
            row->source.statement = rp_asprintf("%d123456789abcdef0", i);
        }
        rp_overview_fleet(&out, &rows, as ? RP_DOC_HTML : RP_DOC_MD);
        CHECK(strstr(rp_buf_text(&out), "outlier: 4 (statement 3123456789abcdef), 50.5 % below the median"), "%s",
              rp_buf_text(&out));
        CHECK(!strstr(rp_buf_text(&out), "zst"), "%s", rp_buf_text(&out));
    }
}

/* As many records as are written into a page, each as long as they come, and one more. */
TEST(csv_of_too_many_steps_is_left_out)
{
    const int64_t n = 40000; /* ROWS_MAX */
    struct shown s;
    RP_BUF page = {0}, longer = {0};
    FX(x);
    fx_seal(&x, "signer", "shown");
    show(&s, "shown", NULL, NULL);
    struct rp_step_record *was = s.kept.run.records.r;
    int64_t n_was = s.kept.run.records.n;
    struct rp_step_record *r = rp_alloc((size_t)(n + 1) * sizeof *r);
    struct rp_record_times *times = rp_alloc((size_t)(n + 1) * sizeof *times), *times_was = s.kept.run.records.times;
    uint32_t *count_was = s.kept.run.records.count;
    s.kept.run.records.times = times;
    s.kept.run.records.count = rp_alloc((size_t)(n + 1) * (size_t)s.kept.run.records.counter.n * sizeof *count_was);
    memset(s.kept.run.records.count, 255, (size_t)(n + 1) * (size_t)s.kept.run.records.counter.n * sizeof *count_was);
    for (int64_t i = 0; i <= n; i++) {
        r[i] = was[n_was - 1];
        r[i].step = (int)(400000 + i);
        r[i].repeat = 399999;
        r[i].start_ns = i * 86400000000123;
        r[i].end_ns = r[i].start_ns + 86399000000123;
        times[i] = (struct rp_record_times){-1, -1, 86398000000123};
        r[i].samples = 4294967295u;
        r[i].learning_rate = 1.0 / 3e-5 / (double)(i + 7);
        r[i].loss = r[i].grad_norm = 1.0f / 3;
    }
    s.kept.run.records.r = r;
    s.kept.run.records.n = n;
    rp_page_html(&page, &s.b, 1);
    CHECK(strstr(page.data, "every step as CSV") && page.size > 8 << 20 && page.size < 14 << 20, "%zu bytes",
          page.size);
    s.kept.run.records.n = n + 1;
    rp_page_html(&longer, &s.b, 1);
    CHECK(!strstr(longer.data, "every step as CSV") && longer.size < 1 << 20, "%zu bytes", longer.size);
    s.kept.run.records.r = was;
    s.kept.run.records.n = n_was;
    free(s.kept.run.records.count);
    s.kept.run.records.count = count_was;
    s.kept.run.records.times = times_was;
    free(times);
    free(r);
    shown_fini(&s);
}
