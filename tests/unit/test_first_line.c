/* A run in the first line of its ledger, and two runs that claim one line: what verify, page and policy make of
 * them. */
#include "tests/unit/standing_fixture.h"

#define HEAD "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define OTHER "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static json_t *entry(int position, const char *head)
{
    return json_pack("{s:i, s:s, s:i, s:s, s:s, s:s, s:s}", "position", position, "head", head, "earlier", 0, "at",
                     "2026-11-21T06:27:54Z", "begun", "2026-11-21T06:27:54Z", "key_made", "2026-11-21T06:27:53Z",
                     "key_made_known_from", "creation");
}

static void make_bundle(const char *file, json_t *ledger)
{
    FX(x);
    fx_set_ledger(&x, ledger);
    fx_seal(&x, "signer", file);
}

static void make_first(void)
{
    static int made;
    json_t *is = entry(1, HEAD);
    RP_JSON *more = json_pack("{s:s, s:s, s:i, s:b}", "key_made", "2026-01-02T03:04:05Z", "key_made_known_from", "file",
                              "overlapping", 2, "container_layer", 1);
    json_object_update(is, more);
    if (made++)
        json_decref(is);
    else
        make_bundle("line1.zst", is);
}

TEST(the_first_line_is_a_note)
{
    struct shown s;
    RP_BUF page = {0}, markdown = {0};
    make_first();
    show(&s, "line1.zst", NULL, NULL);
    CHECK(s.v.check[RP_CHECK_ledger].state == RP_CHECK_NOTE, "%s",
          rp_check_state_name(s.v.check[RP_CHECK_ledger].state));
    SAID(s.v.check[RP_CHECK_ledger].text);
    rp_page_html(&page, &s.b, 1);
    rp_page_markdown(&markdown, &s.b, 1);
    CHECK(strstr(page.data, "facts.json#/ledger/key_made\"") && strstr(page.data, "facts.json#/ledger/overlapping\"") &&
              strstr(page.data, "facts.json#/ledger/begun\""),
          "a figure is not on the page");
    said_markdown(&markdown);
    shown_fini(&s);
}

static void judge(const char *file, const char *rules, const char *seen, enum rp_check_state state)
{
    struct rp_policy p;
    struct rp_verification v;
    struct rp_err err = {0};
    struct rp_verify_opts o = {.policy = &p, .seen = seen};
    RP_FREE char *path = fx_path(file);
    CHECK(rp_policy_parse(&p, rules, strlen(rules), "p.yaml", &err) == 0, "%s", err.msg);
    int failed = rp_verify(&v, path, &o, &err) < 0;
    CHECK(failed == (state == RP_CHECK_FAILED) && v.check[RP_CHECK_policy].state == state, "%s: %s", rules,
          v.check[RP_CHECK_policy].text);
    if (!seen) /* else it has the time of the day */
        SAID(v.check[RP_CHECK_policy].text);
    rp_verification_fini(&v);
    rp_policy_fini(&p);
}

TEST(a_policy_does_not_pass_the_first_line_in_silence)
{
    make_first();
    judge("line1.zst", "in_ledger: true", NULL, RP_CHECK_NOTE);
    judge("line1.zst", "max_attempts_before: 0", NULL, RP_CHECK_NOTE);
    judge("line1.zst", "in_ledger: true\nmax_attempts_before: 3\ncomplete: true", NULL, RP_CHECK_NOTE);
    judge("line1.zst", "complete: true", NULL, RP_CHECK_PASSED);
    judge("line1.zst", "max_attempts_before: 0\nchecks: {ledger: passed}", NULL, RP_CHECK_FAILED);
    make_bundle("line3.zst", entry(3, HEAD));
    judge("line3.zst", "max_attempts_before: 0\nchecks: {ledger: passed}", NULL, RP_CHECK_PASSED);
}

/* A run of line 5; its ledger begins at 2026-11-21T06:27:54Z. */
static void make_late(const char *file, const char *made)
{
    json_t *is = entry(5, HEAD);
    RP_JSON *more = json_pack("{s:s, s:s}", "key_made", made, "key_made_known_from", "creation");
    json_object_update(is, more);
    make_bundle(file, is);
}

TEST(a_ledger_that_begins_long_after_its_key_is_a_note_at_every_line)
{
    static const struct {
        const char *made;
        int late;
    } cases[] = {{"2026-11-21T06:27:54Z", 0},
                 {"2026-11-20T06:27:55Z", 0},
                 {"2026-11-20T06:27:54Z", 1},
                 {"2025-11-20T06:27:54Z", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct shown s;
        make_late("late.zst", cases[i].made);
        show(&s, "late.zst", NULL, NULL);
        CHECK(s.v.check[RP_CHECK_ledger].state == (cases[i].late ? RP_CHECK_NOTE : RP_CHECK_PASSED), "%s",
              s.v.check[RP_CHECK_ledger].text);
        SAID(s.v.check[RP_CHECK_ledger].text);
        shown_fini(&s);
        judge("late.zst", "in_ledger: true\nmax_attempts_before: 0", NULL,
              cases[i].late ? RP_CHECK_NOTE : RP_CHECK_PASSED);
        judge("late.zst", "checks: {ledger: passed}", NULL, cases[i].late ? RP_CHECK_FAILED : RP_CHECK_PASSED);
    }
}

/* What an attacker leaves out or bends, so that nothing tells that the ledger was begun anew. */
TEST(ledger_without_its_beginning_does_not_pass)
{
    static const struct {
        int position;
        const char *key, *value; /* NULL: null */
        enum rp_check_state is;
    } cases[] = {{3, "begun", NULL, RP_CHECK_FAILED},
                 {1, "begun", NULL, RP_CHECK_FAILED},
                 {3, "at", NULL, RP_CHECK_FAILED},
                 {3, "key_made_known_from", NULL, RP_CHECK_FAILED}, /* half of what is known of the key */
                 {3, "key_made", NULL, RP_CHECK_FAILED},
                 {1, "begun", "2026-11-21T06:00:00Z", RP_CHECK_FAILED}, /* the first line is the beginning */
                 {3, "begun", "2026-11-21T06:00:00Z", RP_CHECK_NOTE}, /* before its key */
                 {3, "begun", "2026-11-21T06:27:00Z", RP_CHECK_PASSED},
                 {3, "begun", "2026-11-21T06:32:54Z", RP_CHECK_PASSED}, /* a clock that was set back */
                 {3, "begun", "2026-11-21T06:32:55Z", RP_CHECK_WARNING},
                 {3, "key_made", "2026-11-21T06:32:55Z", RP_CHECK_WARNING},
                 {3, "key_made", "2030-01-01T00:00:00Z", RP_CHECK_WARNING}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        FX(x);
        json_t *is = entry(cases[i].position, HEAD);
        json_object_set_new(is, cases[i].key, cases[i].value ? json_string(cases[i].value) : json_null());
        fx_set_ledger(&x, is);
        expect_state(&x, RP_CHECK_ledger, cases[i].is);
    }
    json_t *unknown = entry(3, HEAD);
    json_object_del(unknown, "key_made");
    json_object_del(unknown, "key_made_known_from");
    make_bundle("unknown.zst", unknown);
    expect_state_of("unknown.zst", RP_CHECK_ledger, RP_CHECK_NOTE);
    judge("unknown.zst", "in_ledger: true", NULL, RP_CHECK_NOTE);
    judge("unknown.zst", "max_attempts_before: 0", NULL, RP_CHECK_NOTE);
    judge("unknown.zst", "checks: {ledger: passed}", NULL, RP_CHECK_FAILED);
}

/* As `verify` keeps it. */
static void remember(const char *record, const struct rp_verification *v)
{
    struct rp_ledger_writer w = {.path = record, .named = 1, .running = -1};
    struct rp_ledger_ref mark;
    struct rp_err err;
    json_t *fields = json_pack("{s:s, s:o, s:{s:s, s:s}}", "signer", v->fingerprint, "ledger",
                               rp_ledger_claim(&v->run->facts), "bundle", "name", "x", "statement", v->statement);
    CHECK(rp_ledger_append(&w, RP_LEDGER_VERIFIED, NULL, fields, &mark, &err) == 0, "%s", err.msg);
}

static void look(struct rp_verification *v, const char *file, const char *record, enum rp_check_state state)
{
    struct rp_verify_opts o = {.seen = record};
    struct rp_err err = {0};
    RP_FREE char *path = fx_path(file);
    CHECK(rp_verify(v, path, &o, &err) == 0, "%s", err.msg);
    CHECK(v->check[RP_CHECK_ledger].state == state && !v->forked == (state != RP_CHECK_WARNING), "%s: %s, %s", file,
          rp_check_state_name(v->check[RP_CHECK_ledger].state), v->check[RP_CHECK_ledger].text);
}

TEST(a_fork_is_noticed_by_who_has_seen_the_other_bundle)
{
    struct rp_verification a, b;
    RP_FREE char *record = fx_path("seen.jsonl"), *damaged = fx_path("damaged.jsonl");
    struct rp_err err;
    make_bundle("a.zst", entry(3, HEAD));
    make_bundle("b.zst", entry(3, OTHER));
    look(&a, "a.zst", record, RP_CHECK_PASSED);
    remember(record, &a);
    rp_verification_fini(&a);
    look(&a, "a.zst", record, RP_CHECK_PASSED); /* the same again */
    look(&b, "b.zst", record, RP_CHECK_WARNING);
    RP_JSON *json = rp_verification_json(&b);
    CHECK_STR(rp_json_text_at(json, "forked/statements/0"), b.statement);
    CHECK_STR(rp_json_text_at(json, "forked/statements/1"), a.statement);
    CHECK_STR(rp_json_text_at(json, "forked/heads/1"), HEAD);
    remember(record, &b);
    rp_verification_fini(&a);
    rp_verification_fini(&b);
    look(&a, "a.zst", record, RP_CHECK_WARNING);
    rp_verification_fini(&a);
    judge("b.zst", "no_warnings: true", record, RP_CHECK_FAILED);
    judge("b.zst", "no_warnings: true", NULL, RP_CHECK_PASSED);
    CHECK(rp_write_file(damaged, "{}\n", 3, 0600, &err) == 0, "%s", err.msg);
    look(&a, "a.zst", damaged, RP_CHECK_NOTE); /* a damaged record hides nothing in silence, and fails nothing */
    rp_verification_fini(&a);
}
