/* Pages in a real browser: nothing fetched, nothing complained of, roles and names, contrast, narrow windows, day and
 * night. PAGE_PICTURES=DIR in the environment leaves pictures there, PAGE_BUNDLE=FILE looks at the page of that bundle
 * too. timeout: 300 */
#include "tests/unit/standing_fixture.h"

#include "tests/unit/browser.h"

static const char committed[] = "results/epyc-2core-2026-11-27/bert_fp32.repro.tar.zst";

/* A page of up to two bundles, at fx_path(name); its URL. */
static char *page_at(const char *name, const char *const *paths, int n)
{
    struct rp_verification v[2];
    struct rp_verified kept[2] = {{.run.doc = NULL}};
    struct rp_shown_bundle b[2];
    struct rp_err err;
    RP_BUF page = {0};
    for (int i = 0; i < n; i++) {
        struct rp_verify_opts o = {.keep = &kept[i]};
        (void)!rp_verify(&v[i], paths[i], &o, &err);
        CHECK(rp_verdict_shows(v[i].verdict), "%s has no page: %s", paths[i], err.msg);
        b[i] = (struct rp_shown_bundle){
            .name = name, .v = &v[i], .kept = v[i].verdict == RP_VERDICT_FAILED ? NULL : &kept[i]};
    }
    rp_page_html(&page, b, n);
    RP_FREE char *path = fx_path(name);
    CHECK(rp_write_file(path, page.data, page.size, 0644, &err) == 0, "%s", err.msg);
    for (int i = 0; i < n; i++) {
        rp_verified_fini(&kept[i]);
        rp_verification_fini(&v[i]);
    }
    return rp_asprintf("file://%s", path);
}

static char *file_text(const char *path)
{
    struct rp_err err;
    struct rp_buf text = {0};
    CHECK(rp_read_file(&text, path, 1 << 20, &err) == 0, "%s", err.msg);
    return rp_buf_take(&text);
}

/* Every complaint of page_checks.js. */
static void nothing_is_wrong(struct browser *b, const char *what)
{
    RP_FREE char *script = file_text("tests/unit/page_checks.js");
    RP_JSON *wrong = browser_ask(b, script);
    CHECK(json_is_array(wrong), "%s: no answer", what);
    for (size_t i = 0; i < json_array_size(wrong) && i < 12; i++)
        CHECK(0, "%s: %s", what, json_string_value(json_array_get(wrong, i)));
}

static void in_every_window(struct browser *b, const char *name, const char *url)
{
    static const int widths[] = {1400, 400};
    const char *pictures = getenv("PAGE_PICTURES");
    for (int i = 0; i < 4; i++) {
        RP_FREE char *what = rp_asprintf("%s-%d-%s", name, widths[i % 2], i < 2 ? "day" : "night");
        browser_show(b, url, widths[i % 2], i >= 2);
        nothing_is_wrong(b, what);
        CHECK(b->fetched == 0 && b->complaints == 0, "%s: %d requests, %d complaints: %s", what, b->fetched,
              b->complaints, b->first);
        if (pictures) {
            RP_FREE char *path = rp_asprintf("%s/%s.png", pictures, what);
            browser_picture(b, path);
        }
    }
}

/* How many nodes of the accessibility tree have that role, and that name where one is given. */
static int count_role(const json_t *tree, const char *role, const char *name)
{
    size_t i;
    json_t *node;
    int n = 0;
    json_array_foreach(json_object_get(tree, "nodes"), i, node) {
        const char *is = json_string_value(json_object_get(json_object_get(node, "role"), "value"));
        const char *called = json_string_value(json_object_get(json_object_get(node, "name"), "value"));
        n += !json_is_true(json_object_get(node, "ignored")) && is && strcmp(is, role) == 0 &&
             (!name || (called && strcmp(called, name) == 0));
    }
    return n;
}

static int start(struct browser *b)
{
    RP_FREE char *profile = fx_path("profile");
    fx_dir();
    if (browser_start(b, profile) < 0 || !browser_lives(b)) {
        browser_stop(b);
        tap_skipped = "chromium does not start here";
        return -1;
    }
    if (browser_attach(b) == 0)
        return 0;
    CHECK(0, "no page to look at");
    browser_stop(b);
    return -1;
}

/* A device that was sampled, throttled here and there, on a machine with NUMA nodes and GPUs joined by links. */
static void sampled_bundle(const char *file)
{
    FX(x);
    for (int i = 0; i < 8; i++)
        rp_buf_printf(&x.telemetry,
                      "{\"clock_memory_hz\":1593000000,\"clock_sm_hz\":%d,\"n\":%d,\"ns\":%lld,\"power_mw\":%d,"
                      "\"temperature_c\":%d,"
                      "\"throttle\":[%s],\"utilization\":99}\n",
                      1000000000 + 15000000 * i, i, 4950000000ll + 100000100ll * i, 700000 - 9000 * i, 40 + i,
                      i == 3 || i == 4 ? "\"hw_slowdown\"" : "");
    json_t *probes = json_object_get(x.before, "probes"), *devices = json_object();
    RP_JSON *columns = json_array();
    for (int i = 0; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "gpu%d", i);
        json_object_set_new(devices, name,
                            json_pack("{s:{s:s, s:s, s:s}, s:{s:s, s:i, s:s}, s:{s:s, s:i, s:s}, s:{s:s, s:s, s:s}}",
                                      "name", "state", "ok", "value", i ? "GPU <b>" : "Shim GPU", "source", "NVML",
                                      "pcie_width", "state", "ok", "value", 16, "source", "NVML", "pcie_generation_max",
                                      "state", "ok", "value", 5, "source", "NVML", "numa_affinity", "state", "ok",
                                      "value", i < 2 ? "0" : "1", "source", "NVML"));
        snprintf(name, sizeof name, "GPU%d", i);
        json_array_append_new(columns, json_string(name));
    }
    json_t *rows = json_object();
    for (int i = 0; i < 4; i++) {
        json_t *cells = json_array();
        for (int j = 0; j < 4; j++)
            json_array_append_new(cells, json_string(i == j ? "X" : (i ^ j) == 3 ? "SYS" : "NV2"));
        json_object_set_new(rows, json_string_value(json_array_get(columns, (size_t)i)),
                            json_pack("{s:s, s:o, s:s}", "state", "ok", "value", cells, "source", "NVML"));
    }
    json_object_set_new(json_object_get(probes, "gpu"), "devices", devices);
    json_object_set_new(json_object_get(probes, "topology"), "matrix",
                        json_pack("{s:{s:s, s:O, s:s}, s:o}", "columns", "state", "ok", "value", columns, "source",
                                  "NVML", "rows", rows));
    json_object_set(json_object_get(x.after, "probes"), "gpu", json_object_get(probes, "gpu"));
    json_object_set(json_object_get(x.after, "probes"), "topology", json_object_get(probes, "topology"));
    x.backend = "cuda";
    x.device = "gpu0 Shim GPU sm_80";
    fx_compute(&x);
    fx_seal(&x, "signer", file);
}

/* A run that repeats another, the third attempt, countersigned: its page, with all that its maker can be given. */
static char *standing_page(void)
{
    struct shown s;
    struct rp_err err;
    RP_BUF page = {0};
    make_bundles();
    show(&s, "signed.zst", ledger_file, first_path());
    rp_page_html(&page, &s.b, 1);
    shown_fini(&s);
    RP_FREE char *path = fx_path("standing.html");
    CHECK(rp_write_file(path, page.data, page.size, 0644, &err) == 0, "%s", err.msg);
    return rp_asprintf("file://%s", path);
}

TEST(pages_are_quiet_and_accessible_by_day_and_night_in_wide_and_narrow_windows)
{
    struct browser b;
    if (!browser_program())
        SKIP("chromium is not installed");
    if (start(&b) < 0)
        return;
    sampled_bundle("sampled");
    RP_FREE char *sampled = fx_path("sampled");
    const char *const paths[] = {committed, sampled};
    RP_FREE char *one = page_at("one.html", paths, 1), *gpu = page_at("gpu.html", paths + 1, 1),
                 *both = page_at("both.html", paths, 2);
    in_every_window(&b, "one", one);
    in_every_window(&b, "gpu", gpu);
    RP_JSON *plots =
        browser_ask(&b, "['load', 'clock', 'power', 'temperature'].every(q => (document.querySelector('#b0-' + q + ' "
                        ".hover title') || {textContent: ''}).textContent.includes('second'))");
    CHECK(json_is_true(plots), "load and clock of the device over the run");
    in_every_window(&b, "both", both);
    RP_FREE char *standing = standing_page();
    in_every_window(&b, "standing", standing);
    if (getenv("PAGE_BUNDLE")) {
        const char *const path[] = {getenv("PAGE_BUNDLE")};
        RP_FREE char *own = page_at("own.html", path, 1);
        in_every_window(&b, "own", own);
    }
    browser_stop(&b);
}

TEST(roles_names_and_the_verdict_are_what_a_screen_reader_gets)
{
    struct browser b;
    struct rp_verification v;
    struct rp_verify_opts o = {0};
    struct rp_err err;
    RP_BUF line = {0};
    if (!browser_program())
        SKIP("chromium is not installed");
    if (start(&b) < 0)
        return;
    const char *const paths[] = {committed};
    RP_FREE char *url = page_at("one.html", paths, 1);
    (void)!rp_verify(&v, committed, &o, &err);
    rp_verification_line(&line, &v);
    browser_show(&b, url, 1400, 0);
    RP_JSON *tree = browser_call(&b, "Accessibility.getFullAXTree", NULL),
            *heading = browser_ask(&b, "document.querySelector('.box h2').innerText");
    CHECK_STR(json_string_value(heading), rp_buf_text(&line));
    CHECK(count_role(tree, "heading", rp_buf_text(&line)) == 1, "the verdict is no heading");
    CHECK(count_role(tree, "main", NULL) == 1 && count_role(tree, "navigation", "Sections") == 1 &&
              count_role(tree, "banner", NULL) == 1,
          "landmarks");
    CHECK(count_role(tree, "region", "Throughput and steps") == 1 && count_role(tree, "region", "Topology") == 1,
          "regions");
    CHECK(count_role(tree, "image", NULL) >= 4, "%d drawings", count_role(tree, "image", NULL));
    CHECK(count_role(tree, "link", "every step as CSV") == 1 && count_role(tree, "table", NULL) >= 5,
          "tables and data");
    /* bars of published results are as long as their logarithm */
    RP_JSON *bars =
        browser_ask(&b, "(() => { const end = document.querySelector('.published thead "
                        "th:nth-child(3)').textContent.replace(/,/g, '').match(/(\\d+) to (\\d+)/);const low = "
                        "Math.log10(end[1]), high = Math.log10(end[2]), rows = "
                        "[...document.querySelectorAll('.published tbody tr')];return rows.length > 4 && rows.every(r "
                        "=> { const v = parseFloat(r.querySelector('td.r').textContent.replace(/,/g, ''));const w = "
                        "parseFloat(r.querySelector('rect').getAttribute('width'));return Math.abs(w - "
                        "Math.max((Math.log10(v) - low) / (high - low) * 1000, 1)) < 0.2 }) })()");
    CHECK(json_is_true(bars), "lengths of the bars of published results");
    /* the data come out of the page as they are in the bundle */
    RP_JSON *csv = browser_ask(&b, "(() => { const a = document.querySelector('a[download^=steps]'); return "
                                   "atob(a.href.split(',')[1]).split('\\n').length + ' ' + a.download })()");
    CHECK(json_is_string(csv) && strncmp(json_string_value(csv), "9 steps-", 8) == 0, "%s", json_string_value(csv));
    /* on paper the figures follow the verdict: the checks stay folded, the recipe does not */
    json_decref(browser_call(&b, "Emulation.setEmulatedMedia", json_pack("{s:s}", "media", "print")));
    RP_JSON *folded = browser_ask(
        &b, "[...document.querySelectorAll('nav,a.csv')].filter(e => getComputedStyle(e).display !== 'none').length");
    CHECK(json_integer_value(folded) == 0, "navigation on paper");
    RP_JSON *open = browser_ask(
        &b, "[...document.querySelectorAll('main details')].every(d => !d.open && [...d.querySelectorAll('table,pre')]"
            ".every(e => e.checkVisibility({contentVisibilityAuto: true}) && e.getBoundingClientRect().height > 100))");
    CHECK(json_is_true(open), "what is folded stays folded on paper");
    rp_verification_fini(&v);
    browser_stop(&b);
}

/* The checks above must be able to fail, and the policy of the page must hold against what somebody puts into one. */
TEST(what_is_wrong_is_found_and_what_is_foreign_is_stopped)
{
    static const char evil[] =
        "<h4>x</h4><p id=\"main\">y</p><svg></svg><img src=\"https://example.org/x.png\"><script>window.ran=1</script>"
        "<div class=\"plot\"><b>unbreakable</b></div><a href=\"https://example.org/\">z</a><p "
        "style=\"color:red\">w</p>";
    static const char *const expected[] = {"two elements have the id main", "comes after level",
                                           "a drawing without a text", "a link leads to https",
                                           "the word unbreakable breaks"};
    struct browser b;
    struct rp_err err;
    if (!browser_program())
        SKIP("chromium is not installed");
    if (start(&b) < 0)
        return;
    const char *const paths[] = {committed};
    RP_FREE char *url = page_at("evil.html", paths, 1), *path = fx_path("evil.html"), *page = file_text(path),
                 *script = file_text("tests/unit/page_checks.js");
    RP_BUF bent = {0};
    char *end = strstr(page, "</main>");
    rp_buf_add(&bent, page, (size_t)(end - page));
    rp_buf_puts(&bent, evil);
    rp_buf_puts(&bent, end);
    CHECK(rp_write_file(path, bent.data, bent.size, 0644, &err) == 0, "%s", err.msg);
    browser_show(&b, url, 1400, 0);
    RP_JSON *wrong = browser_ask(&b, script), *ran = browser_ask(&b, "window.ran === undefined"),
            *quiet = browser_ask(&b, "1");
    RP_BUF list = {0};
    rp_json_write_line(&list, wrong);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        CHECK(strstr(rp_buf_text(&list), expected[i]), "'%s' is not among %s", expected[i], rp_buf_text(&list));
    CHECK(json_is_true(ran), "a script ran");
    CHECK(b.complaints >= 3, "%d complaints about what the policy forbids", b.complaints);
    browser_stop(&b);
}
