/* Signatures of a ledger, what runs in progress leave in it, and what a verifier notices who has seen more than one
 * bundle. */
#include "tests/unit/ledger_fixture.h"

#include <signal.h>
#include <sys/wait.h>

static json_t *line_of(const char *path, int n)
{
    RP_BUF text = {0};
    slurp(&text, path);
    const char *at = text.data;
    for (int i = 1; i < n && at; i++)
        at = strchr(at, '\n') + 1;
    return json_loads(at, JSON_DISABLE_EOF_CHECK, NULL);
}

static const char *print_of(const char *key)
{
    static char print[2][RP_FINGERPRINT_SIZE];
    static int turn;
    turn = !turn;
    rp_key_fingerprint(ledger_key(key), print[turn]);
    return print[turn];
}

TEST(the_first_line_has_the_key_and_every_line_its_signature)
{
    RP_FREE char *path = in_dir("signed.jsonl");
    struct rp_ledger_summary s;
    struct rp_ledger_ref mark;
    struct rp_err err;
    struct rp_ledger_writer w = {.path = path, .named = 1, .key = ledger_key("mine.pem"),
                                 .made_ns = 1790000000000000000u, .by_file = 1, .running = -1};
    CHECK(rp_ledger_append(&w, RP_LEDGER_STARTED, NULL, json_pack("{s:s}", "recipe", RECIPE), &mark, &err) == 0, "%s",
          err.msg);
    rp_closep(&w.running);
    CHECK_STR(mark.made, "2026-09-21T14:13:20Z");
    CHECK(mark.by_file && strcmp(mark.begun, mark.at) == 0, "begun %s, at %s", mark.begun, mark.at);
    mark = append(path, RP_LEDGER_STARTED, 0);
    CHECK_STR(mark.made, "2026-09-21T14:13:20Z");
    RP_JSON *first = line_of(path, 1), *second = line_of(path, 2);
    CHECK_STR(rp_json_text_at(first, "key/known_from"), "file");
    CHECK(json_object_get(first, "signature") && json_object_get(second, "signature") &&
              !json_object_get(second, "key"),
          "keys of the lines");
    int failed = read_it(path, &s, &err);
    CHECK(!failed && s.unsigned_lines == 0 && s.by_file, "%s", err.msg);
    CHECK_STR(s.key, print_of("mine.pem"));
    CHECK_STR(s.made, "2026-09-21T14:13:20Z");
    CHECK_STR(s.begun, rp_json_text_at(first, "at"));
}

/* A line that seems to be signed by a key that cannot be read. */
TEST(the_key_of_the_first_line_has_one_form)
{
    static const char *const bad[] = {"null",
                                      "{}",
                                      "7",
                                      "{\"public\": \"AAAA\"}",
                                      "{\"made\": \"yesterday\"}",
                                      "{\"known_from\": \"hearsay\"}",
                                      "{\"public\": 7}"};
    RP_FREE char *path = in_dir("key.jsonl"), *bent = in_dir("key-bent.jsonl");
    struct rp_ledger_summary s;
    struct rp_err err = {0};
    struct rp_ledger_ref mark;
    struct rp_ledger_writer w = {.path = path, .named = 1, .key = ledger_key("mine.pem"),
                                 .made_ns = 1790000000000000000u, .by_file = 1, .running = -1};
    CHECK(rp_ledger_append(&w, RP_LEDGER_STARTED, NULL, json_pack("{s:s}", "recipe", RECIPE), &mark, &err) == 0, "%s",
          err.msg);
    rp_closep(&w.running);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        RP_BUF text = {0};
        json_t *line = line_of(path, 1), *change = json_loads(bad[i], JSON_DECODE_ANY, NULL);
        if (json_is_object(change) && json_object_size(change))
            json_object_update(json_object_get(line, "key"), change);
        else
            json_object_set(line, "key", change);
        json_decref(change);
        json_object_del(line, "sha256");
        forge(&text, line, RP_LEDGER_NOTHING);
        put(bent, text.data, text.size);
        CHECK(read_it(bent, &s, &err) < 0 && err.code == RP_MALFORMED, "%s: %s", bad[i], err.msg);
    }
}

TEST(one_key_writes_one_ledger)
{
    RP_FREE char *path = in_dir("one-key.jsonl"), *old = in_dir("old.jsonl");
    struct rp_ledger_summary s;
    struct rp_ledger_ref mark;
    struct rp_err err = {0};
    append(path, RP_LEDGER_STARTED, 0);
    int failed = append_as(path, RP_LEDGER_STARTED, NULL, json_object(), ledger_key("other.pem"), &mark, &err);
    REFUSED(failed < 0 && err.code == RP_SIGNATURE && !mark.position, err.msg);
    failed = append_as(path, RP_LEDGER_STARTED, NULL, json_object(), NULL, &mark, &err);
    REFUSED(failed < 0 && err.code == RP_SIGNATURE && !mark.position, err.msg);
    check_whole(path, 1);
    /* an unsigned one is continued with signatures */
    CHECK(append_as(old, RP_LEDGER_STARTED, NULL, json_pack("{s:s}", "recipe", RECIPE), NULL, &mark, &err) == 0, "%s",
          err.msg);
    mark = append(old, RP_LEDGER_STARTED, 0);
    CHECK(mark.position == 2 && mark.earlier == 1, "%lld", (long long)mark.position);
    append(old, RP_LEDGER_SEALED, 2);
    failed = read_it(old, &s, &err);
    CHECK(!failed && s.lines == 3 && s.unsigned_lines == 1, "%s", err.msg);
    CHECK_STR(s.key, print_of("mine.pem"));
}

/* Line 3 of a ledger of two, with all digests. key NULL: as it is. */
static void add_line(const char *from, const char *to, const char *key, int brings_key, const char *signature)
{
    RP_BUF text = {0};
    struct rp_ledger_summary s;
    struct rp_err err;
    slurp(&text, from);
    CHECK(read_it(from, &s, &err) == 0 && s.lines == 2, "%s", err.msg);
    json_t *line = json_pack("{s:s, s:s, s:i, s:s, s:s}", "at", "2027-01-01T00:00:00Z", "event", "started", "n", 3,
                             "recipe", RECIPE, "previous", s.head);
    struct rp_ledger_writer w = {.key = key ? ledger_key(key) : NULL};
    if (brings_key) {
        RP_BUF pem = {0};
        rp_key_public_pem(w.key, &pem);
        json_object_set_new(line, "key", json_pack("{s:s%}", "public", strchr(pem.data, '\n') + 1, (size_t)60));
    }
    if (key) {
        RP_BUF bare = {0}, base64 = {0};
        unsigned char sig[64];
        rp_json_write_line(&bare, line);
        CHECK(rp_key_sign(w.key, bare.data, bare.size, sig, &err) == 0, "%s", err.msg);
        rp_base64(&base64, sig, sizeof sig);
        json_object_set_new(line, "signature", json_string(base64.data));
    }
    if (signature)
        json_object_set_new(line, "signature", json_string(signature));
    forge(&text, line, s.head);
    put(to, text.data, text.size);
}

/* Whoever lacks the key, and knows how to make digests. */
TEST(lines_of_others_are_refused)
{
    static const struct {
        const char *key;
        int brings_key;
        const char *signature;
        enum rp_code code;
    } cases[] = {
        {"mine.pem", 0, NULL, RP_OK},
        {NULL, 0, NULL, RP_MALFORMED},
        {"other.pem", 0, NULL, RP_SIGNATURE},
        {"other.pem", 1, NULL, RP_MALFORMED},
        {"mine.pem", 1, NULL, RP_MALFORMED},
        {NULL, 0, "", RP_MALFORMED},
        {NULL, 0, "AAAA", RP_MALFORMED},
        {NULL, 0,
         "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==", RP_SIGNATURE},
    };
    RP_FREE char *path = in_dir("two.jsonl"), *forged = in_dir("third.jsonl");
    struct rp_ledger_summary s;
    struct rp_err err;
    append(path, RP_LEDGER_STARTED, 0);
    append(path, RP_LEDGER_SEALED, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        add_line(path, forged, cases[i].key, cases[i].brings_key, cases[i].signature);
        int failed = read_it(forged, &s, &err) < 0;
        CHECK(failed == (cases[i].code != RP_OK) && err.code == cases[i].code && s.lines == 3 - failed, "%zu: %s", i,
              err.msg);
        if (failed)
            SAID(err.msg);
    }
}

/* Good lines in another order, and a tail that is gone. */
TEST(lines_keep_their_places)
{
    RP_FREE char *path = in_dir("order.jsonl"), *bent = in_dir("bent.jsonl");
    RP_BUF text = {0}, swapped = {0}, cut = {0};
    struct rp_ledger_summary s;
    struct rp_ledger_standing place;
    struct rp_err err;
    fill(path);
    struct rp_ledger_ref last = append(path, RP_LEDGER_STARTED, 0);
    slurp(&text, path);
    const char *line[5] = {text.data};
    for (int i = 1; i < 5; i++)
        line[i] = strchr(line[i - 1], '\n') + 1;
    rp_buf_add(&swapped, line[0], (size_t)(line[1] - line[0]));
    rp_buf_add(&swapped, line[2], (size_t)(line[3] - line[2]));
    rp_buf_add(&swapped, line[1], (size_t)(line[2] - line[1]));
    put(bent, swapped.data, swapped.size);
    REFUSED(read_it(bent, &s, &err) < 0 && err.code == RP_MISMATCH && s.lines == 1, err.msg);
    rp_buf_add(&cut, text.data, (size_t)(line[3] - text.data));
    put(bent, cut.data, cut.size);
    check_whole(bent, 3);
    struct rp_facts run = facts_of(&last);
    int failed = rp_ledger_find(path, &run, RECIPE, print_of("mine.pem"), &place, &err);
    CHECK(!failed && !place.is_unsigned, "%s", err.msg);
    failed = rp_ledger_find(bent, &run, RECIPE, print_of("mine.pem"), &place, &err);
    REFUSED(failed < 0 && err.code == RP_MISMATCH, err.msg);
    /* a whole ledger, but another key's than the bundle */
    failed = rp_ledger_find(path, &run, RECIPE, print_of("other.pem"), &place, &err);
    REFUSED(failed < 0 && err.code == RP_MISMATCH, err.msg);
    run.ledger.begun = (char[]){"2020-01-01T00:00:00Z"};
    failed = rp_ledger_find(path, &run, RECIPE, print_of("mine.pem"), &place, &err);
    CHECK(failed < 0 && err.code == RP_MISMATCH, "%s", err.msg);
    /* other times than the ledger has: of the line, and of the key */
    char other[] = "2020-01-01T00:00:00Z";
    run = facts_of(&last);
    run.ledger.at = other;
    failed = rp_ledger_find(path, &run, RECIPE, print_of("mine.pem"), &place, &err);
    CHECK(failed < 0 && err.code == RP_MISMATCH && strstr(err.msg, "records 2020-01-01T00:00:00Z"), "%s", err.msg);
    run = facts_of(&last);
    run.ledger.key_made = other;
    failed = rp_ledger_find(path, &run, RECIPE, print_of("mine.pem"), &place, &err);
    CHECK(failed < 0 && err.code == RP_MISMATCH && strstr(err.msg, "key made at 2020-01-01T00:00:00Z"), "%s", err.msg);
    run = facts_of(&last);
    run.ledger.key_made_known_from = s.by_file ? "creation" : "file";
    failed = rp_ledger_find(path, &run, RECIPE, print_of("mine.pem"), &place, &err);
    CHECK(failed < 0 && err.code == RP_MISMATCH && strstr(err.msg, "from its"), "%s", err.msg);
}

static struct rp_ledger_ref begin(const char *path, struct rp_ledger_writer *w)
{
    struct rp_ledger_ref mark;
    struct rp_err err;
    *w = (struct rp_ledger_writer){.path = path, .named = 1, .key = ledger_key("mine.pem"), .running = -1};
    CHECK(rp_ledger_append(w, RP_LEDGER_STARTED, NULL, json_pack("{s:s}", "recipe", RECIPE), &mark, &err) == 0, "%s",
          err.msg);
    return mark;
}

static void finish(struct rp_ledger_writer *w, const struct rp_ledger_ref *start)
{
    struct rp_ledger_ref mark;
    struct rp_err err;
    CHECK(rp_ledger_append(w, RP_LEDGER_SEALED, start, json_object(), &mark, &err) == 0, "%s", err.msg);
    rp_closep(&w->running);
}

/* Another process starts a run, is seen to be in progress, and is killed. */
static int64_t overlapping_of_killed(const char *path)
{
    int ready[2];
    char byte;
    if (pipe(ready) < 0)
        abort();
    (void)ledger_key("mine.pem");
    pid_t pid = fork();
    if (pid == 0) {
        struct rp_ledger_writer other;
        begin(path, &other);
        if (write(ready[1], "x", 1) == 1)
            pause();
        _exit(1);
    }
    CHECK(pid > 0 && read(ready[0], &byte, 1) == 1, "no other run");
    struct rp_ledger_writer w;
    int64_t n = begin(path, &w).overlapping;
    rp_closep(&w.running);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(ready[0]);
    close(ready[1]);
    return n;
}

TEST(runs_in_progress_are_counted_and_killed_ones_are_not)
{
    RP_FREE char *path = in_dir("busy.jsonl");
    struct rp_ledger_writer w[3];
    struct rp_ledger_ref a = begin(path, &w[0]), b = begin(path, &w[1]);
    CHECK(a.overlapping == 0 && b.overlapping == 1, "%lld %lld", (long long)a.overlapping, (long long)b.overlapping);
    CHECK(overlapping_of_killed(path) == 3, "a run of another process");
    finish(&w[0], &a);
    struct rp_ledger_ref c = begin(path, &w[2]);
    CHECK(c.overlapping == 1, "one has ended, two were killed: %lld", (long long)c.overlapping);
    finish(&w[2], &c);
    struct rp_ledger_ref d = begin(path, &w[2]);
    finish(&w[2], &d);
    finish(&w[1], &b);
    /* lines: a 1, b 2, killed 3 and 4, end of a 5, c 6 to 7, d 8 to 9, end of b 10 */
    struct rp_ledger_standing place;
    struct rp_err err;
    const struct rp_facts run = facts_of(&b);
    int failed = rp_ledger_find(path, &run, RECIPE, print_of("mine.pem"), &place, &err);
    CHECK(!failed && place.before == 1 && place.during == 4, "%lld %lld %s", (long long)place.before,
          (long long)place.during, err.msg);
}

/* What a verifier keeps of a bundle, and whether another one agrees with it. */
static struct rp_ledger_ref line_at(int64_t position, const char *head, const char *at)
{
    struct rp_ledger_ref line = {.position = position};
    RP_FORMAT(line.head, "%s", head);
    RP_FORMAT(line.at, "%s", at);
    return line;
}

static int64_t conflict_of(const char *path, const char *key, int64_t position, const char *head, const char *at,
                           const char *statement)
{
    struct rp_ledger_conflict c;
    struct rp_err err = {0};
    struct rp_ledger_ref line = line_at(position, head, at);
    const struct rp_facts run = facts_of(&line);
    CHECK(rp_ledger_seen(path, NULL, key, &run, statement, &c, &err) == 0, "%s", err.msg);
    CHECK(!c.position || (*c.head && *c.statement && *c.at), "what was seen");
    return c.position;
}

TEST(a_verifier_remembers_lines)
{
    RP_FREE char *path = in_dir("verified.jsonl");
    struct rp_ledger_ref mark;
    struct rp_err err;
    CHECK(conflict_of(path, "SHA256:aa", 5, RECIPE, "2026-11-20T12:00:00Z", RECIPE) == 0, "nothing was seen yet");
    struct rp_ledger_ref line = line_at(5, RECIPE, "2026-11-20T12:00:00Z");
    const struct rp_facts run = facts_of(&line);
    json_t *fields = json_pack("{s:s, s:o, s:{s:s, s:s}}", "signer", "SHA256:aa", "ledger", rp_ledger_claim(&run),
                               "bundle", "name", "a.zst", "statement", RECIPE);
    CHECK(append_as(path, RP_LEDGER_VERIFIED, NULL, fields, NULL, &mark, &err) == 0, "%s", err.msg);
    static const struct {
        const char *key;
        int position;
        const char *head, *at, *statement;
        int64_t conflict;
    } cases[] = {
        {"SHA256:aa", 5, RECIPE, "2026-11-20T12:00:00Z", RECIPE, 0}, /* the same again */
        {"SHA256:aa", 5, OTHER, "2026-11-20T12:00:00Z", OTHER, 5},   /* forked */
        {"SHA256:aa", 5, OTHER, "2026-11-20T12:00:00Z", RECIPE, 5},
        {"SHA256:aa", 5, RECIPE, "2026-11-20T12:00:00Z", OTHER, 5},  /* two bundles of one line */
        {"SHA256:bb", 5, OTHER, "2026-11-20T12:00:00Z", OTHER, 0},   /* another key */
        {"SHA256:aa", 6, OTHER, "2026-11-20T12:01:00Z", OTHER, 0},   /* later */
        {"SHA256:aa", 4, OTHER, "2026-11-20T11:59:00Z", OTHER, 0},   /* earlier */
        {"SHA256:aa", 1, OTHER, "2026-11-20T12:10:00Z", OTHER, 5},   /* begun anew */
        {"SHA256:aa", 9, OTHER, "2026-11-20T11:50:00Z", OTHER, 5},
        {"SHA256:aa", 1, OTHER, "2026-11-20T12:04:00Z", OTHER, 0},   /* the clock may have been set back */
        {"SHA256:aa", 1, OTHER, "2026-11-40T12:00:00Z", OTHER, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t n = conflict_of(path, cases[i].key, cases[i].position, cases[i].head, cases[i].at, cases[i].statement);
        CHECK(n == cases[i].conflict, "%zu: %lld", i, (long long)n);
    }
    struct rp_facts off;
    struct rp_ledger_conflict c;
    rp_object_init(&off, &rp_type_facts);
    CHECK(!rp_ledger_claim(&off), "a run in no ledger");
    CHECK(rp_ledger_seen(path, NULL, "SHA256:aa", &off, OTHER, &c, &err) == 0 && c.kind == RP_LEDGER_LEFT,
          "a run in no ledger");
    CHECK(rp_ledger_seen(path, NULL, "SHA256:bb", &off, OTHER, &c, &err) == 0 && !c.kind,
          "a run in no ledger, of another key");
}

/* A bundle as a verifier recorded it; position 0: it is in no ledger. */
static void remember_line(const char *record, int64_t position, const char *head, const char *at, const char *begun,
                          const char *statement)
{
    struct rp_ledger_ref line = line_at(position, head, at), mark;
    struct rp_err err;
    RP_FORMAT(line.begun, "%s", begun);
    const struct rp_facts run = facts_of(&line);
    json_t *fields =
        json_pack("{s:s, s:o*, s:{s:s, s:s}}", "signer", "SHA256:aa", "ledger", position ? rp_ledger_claim(&run) : NULL,
                  "bundle", "name", "a.zst", "statement", statement);
    CHECK(append_as(record, RP_LEDGER_VERIFIED, NULL, fields, NULL, &mark, &err) == 0, "%s", err.msg);
}

static struct rp_ledger_conflict find_conflict(const char *record, const char *file, int64_t position, const char *head,
                                               const char *at, const char *begun, const char *statement)
{
    struct rp_ledger_conflict c;
    struct rp_err err = {0};
    struct rp_ledger_ref line = line_at(position, head, at);
    RP_FORMAT(line.begun, "%s", begun);
    struct rp_facts run = facts_of(&line);
    CHECK(rp_ledger_seen(record, file, "SHA256:aa", &run, statement, &c, &err) == 0, "%s", err.msg);
    return c;
}

#define DAY "2026-11-20T"
#define NEXT "2026-11-21T"

TEST(ledger_begun_anew_is_noticed_at_any_line)
{
    RP_FREE char *in_one = in_dir("seen-in-one.jsonl"), *in_none = in_dir("seen-in-none.jsonl");
    remember_line(in_one, 5, RECIPE, DAY "12:00:00Z", DAY "09:00:00Z", RECIPE);
    remember_line(in_none, 0, "", "", "", RECIPE);
    static const struct {
        int is_in_one; /* the bundle that was seen */
        int position;
        const char *head, *at, *begun, *statement;
        enum rp_ledger_conflict_kind kind;
    } cases[] = {
        /* lines and times in order: a longer new ledger */
        {1, 7, OTHER, DAY "13:00:00Z", DAY "09:00:00Z", OTHER, RP_LEDGER_AGREES},
        {1, 7, OTHER, NEXT "13:00:00Z", NEXT "09:00:00Z", OTHER, RP_LEDGER_BEGUN},
        {1, 1, OTHER, NEXT "09:00:00Z", NEXT "09:00:00Z", OTHER, RP_LEDGER_BEGUN},
        {1, 3, OTHER, DAY "10:00:00Z", DAY "09:00:01Z", OTHER, RP_LEDGER_BEGUN},
        {1, 7, OTHER, NEXT "13:00:00Z", "", OTHER, RP_LEDGER_AGREES}, /* older bundles do not have it */
        {1, 5, OTHER, NEXT "13:00:00Z", NEXT "09:00:00Z", OTHER, RP_LEDGER_LINE},
        {1, 1, OTHER, NEXT "09:00:00Z", DAY "09:00:00Z", OTHER, RP_LEDGER_ORDER},
        {1, 0, "", "", "", OTHER, RP_LEDGER_LEFT},
        {1, 0, "", "", "", RECIPE, RP_LEDGER_AGREES}, /* the same bundle */
        {0, 0, "", "", "", OTHER, RP_LEDGER_AGREES},
        {0, 1, OTHER, "2996-11-20T12:00:00Z", "2996-11-20T12:00:00Z", OTHER, RP_LEDGER_AFTER}, /* seen today */
        {0, 1, OTHER, DAY "12:00:00Z", "2006-11-20T12:00:00Z", OTHER, RP_LEDGER_AGREES},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *record = cases[i].is_in_one ? in_one : in_none;
        struct rp_ledger_conflict c = find_conflict(record, NULL, cases[i].position, cases[i].head, cases[i].at,
                                                    cases[i].begun, cases[i].statement);
        CHECK(c.kind == cases[i].kind && c.position == (c.kind && cases[i].is_in_one ? 5 : 0), "%zu: %d, line %lld", i,
              (int)c.kind, (long long)c.position);
    }
}

TEST(every_line_that_was_cited_is_in_the_file)
{
    RP_FREE char *whole = in_dir("whole.jsonl"), *cut = in_dir("short.jsonl"), *fork = in_dir("fork.jsonl"),
                 *record = in_dir("cited.jsonl");
    RP_BUF text = {0};
    struct rp_ledger_ref first = append(whole, RP_LEDGER_STARTED, 0);
    append(whole, RP_LEDGER_SEALED, 1);
    slurp(&text, whole);
    put(cut, text.data, text.size);
    put(fork, text.data, text.size);
    struct rp_ledger_ref third = append(whole, RP_LEDGER_STARTED, 0);
    struct rp_ledger_ref mark;
    struct rp_err err;
    CHECK(append_of(fork, RP_LEDGER_STARTED, OTHER, 0, &mark, &err) == 0, "%s", err.msg);
    remember_line(record, 3, third.head, third.at, first.at, OTHER);
    remember_line(record, 1, first.head, first.at, first.at, RECIPE);
    struct rp_ledger_conflict c = find_conflict(record, whole, 1, first.head, first.at, first.at, RECIPE);
    CHECK(c.kind == RP_LEDGER_AGREES && c.beyond == 0, "%d, %lld", (int)c.kind, (long long)c.beyond);
    c = find_conflict(record, cut, 1, first.head, first.at, first.at, RECIPE); /* exported before line 3 */
    CHECK(c.kind == RP_LEDGER_AGREES && c.beyond == 1, "%d, %lld", (int)c.kind, (long long)c.beyond);
    c = find_conflict(record, fork, 1, first.head, first.at, first.at, RECIPE);
    CHECK(c.kind == RP_LEDGER_MISSING && c.position == 3, "%d, %lld", (int)c.kind, (long long)c.position);
    CHECK_STR(c.statement, OTHER);
    /* a line that was cited long before the file ends, and that it is too short for */
    remember_line(record, 9, OTHER, "2006-11-20T12:00:00Z", first.at, RP_LEDGER_NOTHING);
    c = find_conflict(record, whole, 1, first.head, first.at, first.at, RECIPE);
    CHECK(c.kind == RP_LEDGER_MISSING && c.position == 9, "%d, %lld", (int)c.kind, (long long)c.position);
}
