/* What a page says of the verification of whoever made it: what everybody finds is compared, the rest is what this program says or is not
 * decided. And what looking at a page costs. */
#include "tests/unit/standing_fixture.h"

#include "base/text.h"
#include "sign/trust.h"

#include <time.h>

static enum rp_check_state checked(const struct rp_buf *page, const struct shown *here, char text[512])
{
    struct rp_check_result r = {0};
    struct rp_err err = {0};
    int rc = rp_page_check(&r, page, &here->b, NULL, 0, &err);
    CHECK((rc < 0) == (r.state == RP_CHECK_FAILED || r.state == RP_CHECK_SKIPPED), "%d, %s", rc, err.msg);
    CHECK(rc == 0 || err.code == (r.state == RP_CHECK_SKIPPED ? RP_UNAVAILABLE : RP_MISMATCH), "%s", err.msg);
    memcpy(text, r.text, 512);
    return r.state;
}

static void row_says(struct shown *s, int id, enum rp_check_state state, const char *text)
{
    s->v.check[id].state = state;
    snprintf(s->v.check[id].text, sizeof s->v.check[id].text, "%s", text);
}

static void known(struct shown *s, const char *signer, const char *key)
{
    s->v.verdict = RP_VERDICT_VERIFIED;
    snprintf(s->v.signer, sizeof s->v.signer, "%s", signer);
    row_says(s, RP_CHECK_key, RP_CHECK_PASSED, key);
}

static void trusted(struct shown *s, const char *name)
{
    json_t *row = json_array_get(s->v.signatures, 0);
    json_object_set_new(row, "trusted", json_true());
    json_object_set_new(row, "name", json_string(name));
    row_says(s, RP_CHECK_signatures, RP_CHECK_PASSED, "1 beside the author's, 1 by keys in your trust store; listed below");
}

/* Each row with a text that nobody found, in the state that it has here. */
TEST(no_row_of_a_page_says_what_it_likes)
{
    static const int open[] = {RP_CHECK_key, RP_CHECK_scaling, RP_CHECK_replay, RP_CHECK_policy, RP_CHECK_claims};
    char text[512], name[40];
    make_bundles();
    for (int id = 0; id < RP_CHECK_COUNT; id++) {
        struct shown maker, here;
        RP_BUF page = {0};
        int is_open = 0;
        for (size_t i = 0; i < sizeof open / sizeof *open; i++)
            is_open |= open[i] == id;
        show(&maker, "signed.zst", NULL, NULL);
        show(&here, "signed.zst", NULL, NULL);
        row_says(&maker, id, here.v.check[id].state, "confirmed by NVIDIA");
        rp_page_html(&page, &maker.b, 1);
        enum rp_check_state state = checked(&page, &here, text);
        CHECK(state == (is_open ? RP_CHECK_SKIPPED : RP_CHECK_FAILED), "%s: %s, %s", rp_check_name(id), rp_check_state_name(state), text);
        snprintf(name, sizeof name, is_open ? "says of %s, as 'confirmed" : "of the check %s it says", rp_check_name(id));
        CHECK(strstr(text, name), "%s", text);
        shown_fini(&maker);
        shown_fini(&here);
    }
}

/* Rows that read otherwise for others: what is found here, what its maker found. */
TEST(a_row_may_say_less_in_the_words_of_this_program)
{
    static const struct {
        const char *signer_here, *key_here, *signer, *key;
        enum rp_check_state state;
        const char *says;
    } cases[] = {
        {"carl", "in your trust store as 'carl'", "", NULL, RP_CHECK_NOTE,
         "; it does not name the signer; of key note 'unknown: ask"},
        {"carl", "in your trust store as 'carl'", "", "the key you named", RP_CHECK_NOTE, "; of key passed 'the key you named'"},
        {"carl", "the key you named", "carl", "in your trust store as 'carl' until 2027-01-31", RP_CHECK_NOTE,
         "; of key passed 'in your trust"},
        {"carl", "the key you named", "carl", "in your trust store as 'carl' until next Sunday", RP_CHECK_FAILED,
         "of the check key it says"},
        {"carl", "the key you named", "carl", "in your trust store as 'carl' until 2027-07-01", RP_CHECK_FAILED, /* a day longer than here */
         "of the check key it says"},
        {"carl", "the key you named", "carl", "in your trust store as 'carl'", RP_CHECK_FAILED, "of the check key it says"},
        {"carl", "the key you named", "carl", "in your trust store as 'carl' until 2027-01-311", RP_CHECK_FAILED,
         "of the check key it says"},
        {"carl", "the key you named", "", "the key you named: NVIDIA, root key 2026", RP_CHECK_FAILED, "of the check key it says"},
        {"carl", "the key you named", "carl", "the key you named countersigned as replicator; the author is 'carl' of your trust store",
         RP_CHECK_NOTE, "; of key passed"},
        {"carl", "the key you named", "NVIDIA", "in your trust store as 'NVIDIA'", RP_CHECK_FAILED,
         "names 'NVIDIA' as the signer, in your trust store the key is 'carl'"},
        {"", "the key you named", "NVIDIA", "the key you named", RP_CHECK_FAILED, "names 'NVIDIA' as the signer, here the key has no name"},
    };
    char text[512];
    struct rp_err err = {0};
    make_bundles();
    struct rp_key_pair *key = fx_key("bob.pem");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct shown maker, here;
        RP_BUF page = {0};
        show(&maker, "signed.zst", NULL, NULL);
        show(&here, "signed.zst", NULL, NULL);
        known(&here, cases[i].signer_here, cases[i].key_here);
        if (cases[i].key)
            known(&maker, cases[i].signer, cases[i].key);
        rp_page_html(&page, &maker.b, 1);
        CHECK(rp_trust_add("carl", "2027-06-30", key, &err) == 0, "%s", err.msg);
        enum rp_check_state state = checked(&page, &here, text);
        CHECK(rp_trust_remove("carl", &err) == 0, "%s", err.msg);
        CHECK(state == cases[i].state && strstr(text, cases[i].says), "%zu: %s, %s", i, rp_check_state_name(state), text);
        shown_fini(&maker);
        shown_fini(&here);
    }
    rp_key_free(key);
}

TEST(countersigners_have_the_names_of_this_store)
{
    static const struct {
        const char *here, *there;
        enum rp_check_state state;
        const char *says;
    } cases[] = {
        {"carol", "carol", RP_CHECK_PASSED, "byte for byte"},
        {"carol", NULL, RP_CHECK_NOTE, "is not trusted there; of signatures passed '1 beside"},
        {"carol", "NVIDIA", RP_CHECK_FAILED, "names 'NVIDIA' as who countersigned as replicator, in your trust store it is 'carol'"},
        {NULL, "NVIDIA", RP_CHECK_FAILED, "here that key is not known"},
    };
    char text[512];
    make_bundles();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct shown maker, here;
        RP_BUF page = {0};
        show(&maker, "signed.zst", NULL, NULL);
        show(&here, "signed.zst", NULL, NULL);
        if (cases[i].here)
            trusted(&here, cases[i].here);
        if (cases[i].there)
            trusted(&maker, cases[i].there);
        rp_page_html(&page, &maker.b, 1);
        enum rp_check_state state = checked(&page, &here, text);
        CHECK(state == cases[i].state && strstr(text, cases[i].says), "%zu: %s, %s", i, rp_check_state_name(state), text);
        shown_fini(&maker);
        shown_fini(&here);
    }
}

/* Most of what can be otherwise at once: every name stands in the line. */
TEST(the_line_names_all_that_is_not_the_same)
{
    static const char *const names[] = {"; its verdict is 'not decided", "not name the signer", "without the ledger", "the first run",
                                        "not trusted there", "key", "signatures", "scaling", "ledger", "agreement", "replay", "policy", "claims"};
    struct shown maker, here;
    RP_BUF page = {0};
    char text[512];
    make_bundles();
    show(&maker, "signed.zst", NULL, NULL);
    show(&here, "signed.zst", ledger_file, first_path());
    maker.v.verdict = RP_VERDICT_UNDECIDED;
    known(&here, "somebody with a name that takes its room, in more than one word and with a place", "the key you named");
    trusted(&here, "carol");
    row_says(&here, RP_CHECK_scaling, RP_CHECK_PASSED, "1.9 to 2.0 times as fast with 2.0 times the threads or devices");
    row_says(&here, RP_CHECK_replay, RP_CHECK_PASSED, "bit-equal: 3 steps and 1 state roots");
    row_says(&here, RP_CHECK_policy, RP_CHECK_PASSED, "10 rules hold");
    rp_page_html(&page, &maker.b, 1);
    CHECK(checked(&page, &here, text) == RP_CHECK_NOTE, "%s", text);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CHECK(strstr(strstr(text, "; its verdict"), names[i]), "no %s in: %s", names[i], text);
    CHECK(strlen(text) < 500, "%zu bytes: %s", strlen(text), text);
    shown_fini(&maker);
    shown_fini(&here);
}

/* Of a copy with fewer signatures, and only of the very members that it has. */
TEST(a_page_of_a_copy_counts_its_members)
{
    struct shown maker, here;
    RP_BUF page = {0}, bent = {0};
    char text[512];
    make_bundles();
    show(&maker, "second.zst", NULL, NULL);
    show(&here, "signed.zst", NULL, NULL);
    rp_page_html(&page, &maker.b, 1);
    CHECK(checked(&page, &here, text) == RP_CHECK_NOTE && strstr(text, "; of container passed '"), "%s", text);
    bend(&bent, &page, ">container</th>", " bytes", "0 bytes");
    CHECK(checked(&bent, &here, text) == RP_CHECK_FAILED && strstr(text, "of the check container it says"), "%s", text);
    shown_fini(&maker);
    shown_fini(&here);
}

/* ---- what it costs ---- */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The quickest of three looks at a page of that size. */
static double time_of(const char *head, const char *again, size_t size, const struct shown *here)
{
    RP_BUF page = {0};
    double best = 1e9;
    char text[512];
    rp_buf_puts(&page, head);
    while (page.size < size)
        rp_buf_puts(&page, again);
    for (int i = 0; i < 3; i++) {
        double start = seconds();
        enum rp_check_state state = checked(&page, here, text);
        double took = seconds() - start;
        CHECK(state == RP_CHECK_FAILED || state == RP_CHECK_SKIPPED, "%s", text);
        best = took < best ? took : best;
    }
    return best;
}

TEST(a_page_is_looked_through_in_time_that_grows_as_it_does)
{
    static const char *const pieces[] = {
        "<section class=\"bundle\" id=\"b",
        "<section class=\"bundle\" id=\"b1\">",
        "<data data-src=\"\" data-form=\"t\"></data>",
        "<data data-src=\"run.json#/plan/batch\" data-form=\"d1\"></data>",
        "<i data-bundle=\"0\">",
        "<data>",
        "<header>\n<tr><td class=\"state ",
        "<",
    };
    struct shown s;
    RP_BUF page = {0};
    make_bundles();
    show(&s, "signed.zst", NULL, NULL);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        RP_FREE char *ours = rp_asprintf("<!doctype html>\n<section class=\"bundle\" id=\"b0\" data-bundle=\"%s\">", s.v.statement);
        double small = time_of(ours, pieces[i], 128 << 10, &s); /* squared, 8 times as much takes 64 times */
        double large = time_of(ours, pieces[i], 1 << 20, &s);
        CHECK(large < 24 * small + 0.1, "'%s': %.3f s for 128 KiB, %.3f s for 1 MiB", pieces[i], small, large);
    }
    shown_fini(&s);
}

TEST(a_markdown_file_has_no_more_reports_than_this_program_writes)
{
    struct shown s;
    RP_BUF one = {0}, page = {0};
    char text[512];
    make_bundles();
    show(&s, "signed.zst", NULL, NULL);
    rp_page_markdown(&one, &s.b, 1);
    for (int i = 0; i < RP_PAGE_BUNDLES; i++)
        rp_buf_printf(&page, "%s%s", i ? "\n---\n\n" : "", rp_buf_text(&one));
    CHECK(checked(&page, &s, text) == RP_CHECK_PASSED, "%s", text);
    rp_buf_puts(&page, "\n---\n\n> **verified**\n");
    CHECK(checked(&page, &s, text) == RP_CHECK_FAILED && strstr(text, "more than the 64 reports"), "%s", text);
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
    struct rp_record *was = s.kept.records.r;
    int64_t n_was = s.kept.records.n;
    struct rp_record *r = rp_alloc((size_t)(n + 1) * sizeof *r);
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
