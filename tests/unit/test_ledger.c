/* The ledger: nothing that happens to it goes unseen, and nothing that happens to it is worse than a missing line. */
#include "tests/unit/ledger_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define WRITERS 12
#define LINES 10

static const char *signer(void)
{
    static char print[RP_FINGERPRINT_SIZE];
    rp_key_fingerprint(ledger_key("mine.pem"), print);
    return print;
}

TEST(lines_follow_from_one_another)
{
    RP_FREE char *path = in_dir("new/folder/a.jsonl"); /* neither folder is there yet */
    struct rp_ledger_summary s;
    struct rp_err err;
    struct stat st;
    struct rp_ledger_ref first = append(path, RP_LEDGER_STARTED, 0), second = append(path, RP_LEDGER_FAILED, 1);
    CHECK(first.position == 1 && first.earlier == 0 && second.position == 2, "%lld %lld", (long long)first.position,
          (long long)second.position);
    struct rp_ledger_ref third = append(path, RP_LEDGER_STARTED, 0);
    CHECK(third.earlier == 1, "%lld started before", (long long)third.earlier);
    int failed = append_of(path, RP_LEDGER_STARTED, OTHER, 0, &first, &err);
    CHECK(!failed && first.earlier == 0, "those of another recipe do not count: %lld %s", (long long)first.earlier,
          err.msg);
    failed = read_it(path, &s, &err);
    CHECK(!failed && s.lines == 4 && !s.torn && !s.aside, "%s", err.msg);
    CHECK_STR(s.head, first.head);
    CHECK(stat(path, &st) == 0 && (st.st_mode & 077) == 0, "others can read it: %o", st.st_mode);
}

TEST(every_flipped_bit_is_seen)
{
    RP_FREE char *path = in_dir("flip.jsonl");
    struct rp_ledger_summary s;
    struct rp_err err;
    RP_BUF good = {0};
    append(path, RP_LEDGER_STARTED, 0);
    append(path, RP_LEDGER_SEALED, 1);
    slurp(&good, path);
    int unseen = 0;
    for (size_t i = 0; i < good.size; i++)
        for (int bit = 0; bit < 9; bit++) {
            if (bit != (int)(i % 9) && !tap_long())
                continue; /* each byte in one way, all of them in turn */
            char was = good.data[i];
            good.data[i] = bit < 8 ? (char)(was ^ 1 << bit) : was == '\n' ? ' ' : '\n';
            put(path, good.data, good.size);
            good.data[i] = was;
            int failed = read_it(path, &s, &err) < 0;
            unseen += !failed || (err.code != RP_MALFORMED && err.code != RP_MISMATCH);
        }
    CHECK(unseen == 0, "%d of %zu", unseen, 9 * good.size);
    put(path, good.data, good.size);
    check_whole(path, 2);
}

/* Cut anywhere but at the end of a line it shows by itself; there it shows to who knows a later line. */
TEST(every_truncation_is_seen)
{
    RP_FREE char *path = in_dir("cut.jsonl");
    struct rp_ledger_summary s;
    struct rp_ledger_standing place;
    struct rp_err err;
    RP_BUF good = {0};
    fill(path);
    struct rp_ledger_ref last = append(path, RP_LEDGER_STARTED, 0);
    const struct rp_facts run = facts_of(&last);
    slurp(&good, path);
    int failed = rp_ledger_find(path, &run, RECIPE, signer(), &place, &err);
    CHECK(failed == 0 && place.position == 4 && place.earlier == 2 && place.sealed == 1 && place.open == 1, "%s",
          err.msg);
    for (size_t n = 0; n < good.size; n++) {
        if (n > 400 && n % 7 && !tap_long() && good.data[n - 1] != '\n')
            continue;
        put(path, good.data, n);
        int at_line = n == 0 || good.data[n - 1] == '\n';
        failed = read_it(path, &s, &err);
        CHECK(at_line ? failed == 0 && s.torn == 0 : failed < 0 && err.code == RP_MALFORMED && s.torn, "cut at %zu: %s",
              n, err.msg);
        err = (struct rp_err){0};
        failed = rp_ledger_find(path, &run, RECIPE, signer(), &place, &err);
        CHECK(failed < 0 && (err.code == RP_MISMATCH || err.code == RP_MALFORMED), "cut at %zu: %s", n, err.msg);
    }
}

/* Whoever takes a line out and makes all digests after it again has another head. */
TEST(a_rewritten_ledger_is_not_the_one_that_was_named)
{
    RP_FREE char *path = in_dir("honest.jsonl"), *forged = in_dir("forged.jsonl");
    struct rp_ledger_standing place;
    struct rp_err err;
    append(path, RP_LEDGER_STARTED, 0);
    append(path, RP_LEDGER_FAILED, 1);
    struct rp_ledger_ref mark = append(path, RP_LEDGER_STARTED, 0);
    struct rp_facts run = facts_of(&mark), none;
    append(forged, RP_LEDGER_VERIFIED, 0);
    append(forged, RP_LEDGER_VERIFIED, 0);
    append(forged, RP_LEDGER_STARTED, 0);
    check_whole(forged, 3);
    int failed = rp_ledger_find(forged, &run, RECIPE, signer(), &place, &err);
    REFUSED(failed < 0 && err.code == RP_MISMATCH, err.msg);
    run.ledger.earlier = 0; /* a run that hides one */
    failed = rp_ledger_find(path, &run, RECIPE, signer(), &place, &err);
    REFUSED(failed < 0 && err.code == RP_MISMATCH, err.msg);
    run.ledger.earlier = 1;
    failed = rp_ledger_find(path, &run, OTHER, signer(), &place, &err);
    REFUSED(failed < 0 && err.code == RP_MISMATCH, err.msg);
    rp_object_init(&none, &rp_type_facts);
    failed = rp_ledger_find(path, &none, RECIPE, signer(), &place, &err);
    REFUSED(failed < 0 && err.code == RP_MISMATCH, err.msg);
}

/* Each line good by itself and with the number of its place: the chain alone tells that they are of two ledgers. */
TEST(lines_of_two_ledgers_do_not_make_one)
{
    RP_FREE char *a = in_dir("a.jsonl"), *b = in_dir("b.jsonl"), *both = in_dir("both.jsonl");
    struct rp_ledger_summary s;
    struct rp_err err;
    RP_BUF one = {0}, other = {0};
    append(a, RP_LEDGER_STARTED, 0);
    append(b, RP_LEDGER_VERIFIED, 0);
    append(b, RP_LEDGER_STARTED, 0);
    slurp(&one, a);
    slurp(&other, b);
    const char *second = strchr(other.data, '\n') + 1;
    rp_buf_puts(&one, second);
    put(both, one.data, one.size);
    int failed = read_it(both, &s, &err);
    REFUSED(failed < 0 && err.code == RP_MISMATCH && s.lines == 1, err.msg);
}

/* Neither lines of JSON objects nor a file that has lines. */
TEST(files_that_are_no_ledgers)
{
    static const struct {
        const char *text;
        int repeats; /* of its last byte */
        enum rp_code code;
    } rows[] = {{"[1]\n", 1, RP_MALFORMED},          {"\"x\"\n", 1, RP_MALFORMED},
                {"{\"a\": \"x", 8300, RP_MALFORMED}, {"{\"a\": \"x", 40000, RP_MALFORMED},
                {"\x28\xb5\x2f\xfd", 1, RP_USAGE},   {"\n", 2, RP_MALFORMED}};
    RP_FREE char *path = in_dir("none.jsonl"), *directory = in_dir("");
    struct rp_ledger_summary s;
    struct rp_err err;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        RP_BUF text = {0};
        const size_t n = strlen(rows[i].text);
        rp_buf_puts(&text, rows[i].text);
        for (int k = 1; k < rows[i].repeats; k++)
            rp_buf_add(&text, rows[i].text + n - 1, 1);
        if (rows[i].repeats == 8300) /* a line with its end */
            rp_buf_puts(&text, "\"}\n");
        put(path, text.data, text.size);
        CHECK(read_it(path, &s, &err) < 0 && err.code == rows[i].code, "%zu: %s", i, err.msg);
    }
    CHECK(read_it(directory, &s, &err) < 0 && err.code == RP_IO, "%s", err.msg);
}

TEST(forged_lines)
{
    static const char *const bad[] = {
        "{\"at\": \"2026-11-21T12:18:09Z\", \"event\": \"started\", \"n\": 2}",
        "{\"at\": \"2026-11-21T12:18:09Z\", \"event\": \"started\", \"n\": 0}",
        "{\"at\": \"2026-11-21T12:18:09Z\", \"event\": \"started\", \"n\": 1.0}",
        "{\"at\": \"2026-11-21 12:18:09\", \"event\": \"started\", \"n\": 1}",
        "{\"at\": \"2026-11-21T12:18:09Z\", \"n\": 1}",
    };
    RP_FREE char *path = in_dir("forged-lines.jsonl");
    struct rp_ledger_summary s;
    struct rp_err err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        RP_BUF text = {0};
        forge(&text, json_loads(bad[i], 0, NULL), RP_LEDGER_NOTHING);
        put(path, text.data, text.size);
        REFUSED(read_it(path, &s, &err) < 0, err.msg);
    }
    RP_BUF good = {0}, blank = {0};
    forge(&good, json_loads("{\"at\": \"2026-11-21T12:18:09Z\", \"event\": \"started\", \"n\": 1}", 0, NULL),
          RP_LEDGER_NOTHING);
    put(path, good.data, good.size);
    check_whole(path, 1);
    rp_buf_add(&blank, good.data, good.size - 1); /* the same document, and so the same digest, in another spelling */
    rp_buf_puts(&blank, " \n");
    put(path, blank.data, blank.size);
    REFUSED(read_it(path, &s, &err) < 0 && err.code == RP_MALFORMED, err.msg);
}

TEST(many_writers_at_once)
{
    RP_FREE char *path = in_dir("many.jsonl");
    pid_t pid[WRITERS];
    int bad = 0;
    (void)ledger_key("mine.pem"); /* before there are several processes */
    for (int i = 0; i < WRITERS; i++) {
        pid[i] = fork();
        if (pid[i] == 0) {
            struct rp_ledger_ref mark;
            struct rp_err err;
            int failed = 0;
            for (int k = 0; k < LINES; k++)
                failed |= append_of(path, RP_LEDGER_STARTED, i % 2 ? RECIPE : OTHER, 0, &mark, &err);
            _exit(failed != 0);
        }
    }
    for (int i = 0; i < WRITERS; i++) {
        int status;
        bad += pid[i] < 0 || waitpid(pid[i], &status, 0) != pid[i] || status != 0;
    }
    CHECK(bad == 0, "%d writers failed", bad);
    check_whole(path, WRITERS * LINES);
    struct rp_ledger_ref mark = append(path, RP_LEDGER_STARTED, 0);
    CHECK(mark.earlier == WRITERS / 2 * LINES, "%lld", (long long)mark.earlier);
}

/* In a child with files of at most `limit` bytes: the signal that comes with it kills, or the write fails. */
static int append_limited(const char *path, rlim_t limit, void (*action)(int), struct rp_err *err)
{
    struct rp_ledger_ref mark;
    int status, fd[2];
    (void)ledger_key("mine.pem");
    if (pipe(fd) < 0)
        abort();
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit r = {limit, limit}, none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        setrlimit(RLIMIT_FSIZE, &r);
        signal(SIGXFSZ, action);
        int failed = append_of(path, RP_LEDGER_STARTED, RECIPE, 0, &mark, err);
        ssize_t n = write(fd[1], err, sizeof *err);
        _exit(n == sizeof *err ? failed != 0 : 2);
    }
    close(fd[1]);
    *err = (struct rp_err){0};
    ssize_t n = read(fd[0], err, sizeof *err);
    close(fd[0]);
    CHECK(n == 0 || n == sizeof *err, "%zd", n);
    return pid < 0 || waitpid(pid, &status, 0) != pid ? -1 : status;
}

TEST(a_crash_after_every_byte_of_an_append)
{
    RP_FREE char *path = in_dir("crash.jsonl"), *aside = in_dir("crash.jsonl.torn");
    struct rp_ledger_summary s;
    struct rp_err err;
    RP_BUF two = {0}, three = {0};
    append(path, RP_LEDGER_STARTED, 0);
    append(path, RP_LEDGER_SEALED, 1);
    slurp(&two, path);
    append(path, RP_LEDGER_STARTED, 0);
    slurp(&three, path);
    for (size_t n = two.size; n < three.size; n += tap_long() || n + 12 > three.size ? 1 : 11) {
        RP_BUF kept = {0};
        put(path, two.data, two.size);
        unlink(aside);
        int status = append_limited(path, n, SIG_DFL, &err);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ, "limit %zu: status %d %s", n, status, err.msg);
        int failed = read_it(path, &s, &err);
        CHECK(s.lines == 2 && s.torn == n - two.size && (n == two.size ? !failed : err.code == RP_MALFORMED),
              "limit %zu: %s", n, err.msg);
        struct rp_ledger_ref mark = append(path, RP_LEDGER_STARTED, 0);
        CHECK(mark.position == 3 && mark.torn == n - two.size, "limit %zu: %lld", n, (long long)mark.torn);
        failed = read_it(path, &s, &err);
        CHECK(!failed && s.lines == 3 && s.aside == (mark.torn ? mark.torn + 1 : 0), "limit %zu: %s", n, err.msg);
        if (mark.torn) {
            slurp(&kept, aside);
            CHECK(kept.size == mark.torn + 1 && memcmp(kept.data, "{\"at\":\"2026", mark.torn < 6 ? mark.torn : 6) == 0,
                  "limit %zu: %s", n, kept.data);
        }
    }
}

TEST(a_full_disk_changes_nothing)
{
    RP_FREE char *path = in_dir("full.jsonl"), *aside = in_dir("full.jsonl.torn");
    struct rp_err err;
    RP_BUF was = {0};
    fill(path);
    slurp(&was, path);
    for (size_t n = was.size; n < was.size + 200; n += 33) {
        RP_BUF is = {0};
        int status = append_limited(path, n, SIG_IGN, &err);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1 && err.code == RP_IO && strstr(err.msg, "$REPRO_LEDGER"),
              "%d %s", status, err.msg);
        slurp(&is, path);
        CHECK(rp_buf_is(&is, was.data, was.size), "limit %zu: it was changed", n);
    }
    /* no room to keep a torn line aside: it stays where it is */
    RP_BUF torn = {0}, is = {0};
    rp_buf_add(&torn, was.data, was.size);
    rp_buf_puts(&torn, "{\"at\":\"20");
    put(path, torn.data, torn.size);
    int status = append_limited(path, 3, SIG_IGN, &err);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1, "%d", status);
    slurp(&is, path);
    CHECK(rp_buf_is(&is, torn.data, torn.size), "a torn line is gone");
    unlink(aside);
    struct rp_ledger_ref mark = append(path, RP_LEDGER_STARTED, 0);
    CHECK(mark.torn == 9 && mark.position == 4, "%lld", (long long)mark.torn);
    check_whole(path, 4);
}

TEST(a_damaged_last_line_is_not_built_upon)
{
    RP_FREE char *path = in_dir("damaged.jsonl");
    struct rp_ledger_ref mark;
    struct rp_err err;
    RP_BUF good = {0}, is = {0};
    fill(path);
    slurp(&good, path);
    good.data[good.size - 100] ^= 1;
    put(path, good.data, good.size);
    int failed = append_of(path, RP_LEDGER_STARTED, RECIPE, 0, &mark, &err);
    REFUSED(failed < 0 && err.code == RP_MALFORMED && strstr(err.msg, path), err.msg);
    REFUSED(mark.position == 0 && !strstr(mark.reason, scratch_dir()), mark.reason);
    slurp(&is, path);
    CHECK(rp_buf_is(&is, good.data, good.size), "it was changed");
    RP_FREE char *zeros = rp_alloc(20000); /* as some file systems leave after power was lost */
    put(path, zeros, 20000);
    failed = append_of(path, RP_LEDGER_STARTED, RECIPE, 0, &mark, &err);
    CHECK(failed < 0 && err.code == RP_MALFORMED, "%s", err.msg);
    struct rp_ledger_summary s;
    put(path, "{\"n\" 1}\n", 8);
    failed = read_it(path, &s, &err);
    CHECK(failed < 0 && strstr(err.msg, "', line 1: column 6: not valid JSON"), "%s", err.msg);
}

/* As nobody where the tests run as root; relative names, because nobody may not pass through the directory above. */
static int append_as_user(const char *path, mode_t mode)
{
    int status;
    RP_FREE char *sub = in_dir("sub");
    mkdir(sub, 0777);
    (void)ledger_key("mine.pem");
    if (chmod(sub, mode) < 0)
        abort();
    pid_t pid = fork();
    if (pid == 0) {
        struct rp_ledger_ref mark;
        struct rp_err err;
        if (chdir(sub) < 0 || (geteuid() == 0 && setuid(65534) < 0))
            _exit(99);
        int failed = append_of(path, RP_LEDGER_STARTED, RECIPE, 0, &mark, &err);
        _exit(failed ? (int)err.code : 0);
    }
    int good = pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status);
    chmod(sub, 0777);
    return good ? WEXITSTATUS(status) : -1;
}

TEST(a_directory_that_cannot_be_written)
{
    RP_FREE char *below = in_dir("file/ledger.jsonl"), *file = in_dir("file"), *fifo = in_dir("fifo");
    struct rp_ledger_ref mark;
    struct rp_err err;
    int code = append_as_user("ledger.jsonl", 0555);
    CHECK(code == RP_IO, "read-only directory: %d", code);
    code = append_as_user("more/ledger.jsonl", 0555);
    CHECK(code == RP_IO, "no directory can be made: %d", code);
    code = append_as_user("ledger.jsonl", 0777);
    CHECK(code == 0, "and where it can be written: %d", code);
    put(file, "x", 1);
    CHECK(append_of(below, RP_LEDGER_STARTED, RECIPE, 0, &mark, &err) < 0 && err.code == RP_IO &&
              !strstr(mark.reason, scratch_dir()),
          "%s", mark.reason);
    CHECK(mkfifo(fifo, 0600) == 0 && append_of(fifo, RP_LEDGER_STARTED, RECIPE, 0, &mark, &err) < 0 &&
              err.code == RP_IO,
          "a pipe");
    CHECK(append_of(scratch_dir(), RP_LEDGER_STARTED, RECIPE, 0, &mark, &err) < 0 && err.code == RP_IO, "a directory");
    REFUSED(append_of("/dev/null", RP_LEDGER_STARTED, RECIPE, 0, &mark, &err) < 0, mark.reason);
}

static int append_unnamed(const char *path, json_t *fields, struct rp_ledger_ref *mark, struct rp_err *err)
{
    struct rp_ledger_writer w = {.path = path, .key = ledger_key("mine.pem"), .running = -1};
    int failed = rp_ledger_append(&w, RP_LEDGER_STARTED, NULL, fields, mark, err);
    rp_closep(&w.running);
    return failed;
}

/* A name that nobody chose may lie where everybody writes: links of others are not followed. */
TEST(links_are_followed_only_where_the_user_named_them)
{
    RP_FREE char *path = in_dir("link.jsonl"), *target = in_dir("target.jsonl");
    struct rp_ledger_ref mark;
    struct rp_err err;
    append(target, RP_LEDGER_STARTED, 0);
    CHECK(symlink(target, path) == 0, "no link");
    json_t *fields = json_pack("{s:s}", "recipe", RECIPE);
    CHECK(append_unnamed(path, fields, &mark, &err) < 0 && err.code == RP_IO, "followed");
    append(path, RP_LEDGER_STARTED, 0);
    check_whole(target, 2);
    fields = json_pack("{s:s}", "recipe", RECIPE); /* nor is a file that others can write to */
    CHECK(unlink(path) == 0 && chmod(target, 0620) == 0 && append_unnamed(target, fields, &mark, &err) < 0 &&
              err.code == RP_IO,
          "%s", err.msg);
    fields = json_pack("{s:s}", "recipe", RECIPE);
    CHECK(chmod(target, 0600) == 0 && append_unnamed(target, fields, &mark, &err) == 0, "%s", err.msg);
    CHECK(link(target, path) == 0, "no link");
    fields = json_pack("{s:s}", "recipe", RECIPE);
    REFUSED(append_unnamed(path, fields, &mark, &err) < 0, err.msg);
}

/* What follows the last line is moved aside only where it is part of a line of ours, and never through a link, whoever
 * made it. */
TEST(what_lies_beside_a_ledger_is_not_written_to)
{
    RP_FREE char *path = in_dir("beside.jsonl"), *aside = in_dir("beside.jsonl.torn"), *victim = in_dir("victim");
    struct rp_ledger_ref mark;
    struct rp_err err;
    static const char note[] = "a text without an end";
    RP_BUF is = {0};
    put(path, note, sizeof note - 1);
    CHECK(append_of(path, RP_LEDGER_STARTED, RECIPE, 0, &mark, &err) < 0 && err.code == RP_MALFORMED, "%s", err.msg);
    slurp(&is, path);
    CHECK(rp_buf_is(&is, note, sizeof note - 1) && access(aside, F_OK) < 0, "it was taken for a ledger");
    for (int hard = 0; hard < 2; hard++) {
        RP_BUF kept = {0};
        put(path, "{\"at\":\"20", 9);
        put(victim, "mine", 4);
        CHECK((hard ? link(victim, aside) : symlink("victim", aside)) == 0, "no link");
        CHECK(append_of(path, RP_LEDGER_STARTED, RECIPE, 0, &mark, &err) < 0 && err.code == RP_IO,
              "written through a link");
        slurp(&kept, victim);
        CHECK(rp_buf_is(&kept, "mine", 4), "%s", kept.data);
        unlink(aside);
    }
    append(path, RP_LEDGER_STARTED, 0);
    check_whole(path, 1);
}

/* Every digest is right, and the head that a bundle names is among them: what shows is that no run ends twice, or
 * before it began. */
static int read_forged(const char *path, const char *const *lines, int n, struct rp_err *err)
{
    struct rp_ledger_summary s;
    RP_BUF text = {0};
    char head[RP_SHA256_HEX] = RP_LEDGER_NOTHING;
    for (int i = 0; i < n; i++) {
        json_t *line = json_loads(lines[i], 0, NULL);
        CHECK(line, "%s", lines[i]);
        json_object_set_new(line, "at", json_string("2026-11-22T05:46:08Z"));
        json_object_set_new(line, "n", json_integer(i + 1));
        size_t at = text.size;
        forge(&text, line, head);
        RP_JSON *is = json_loads(rp_buf_text(&text) + at, 0, NULL);
        snprintf(head, sizeof head, "%s", json_string_value(json_object_get(is, "sha256")));
    }
    put(path, text.data, text.size);
    return read_it(path, &s, err);
}

TEST(a_run_ends_once_and_after_its_start)
{
#define START "{\"event\": \"started\", \"recipe\": \"" RECIPE "\"}"
#define END(event, run) "{\"event\": \"" event "\", \"recipe\": \"" RECIPE "\", \"run\": " run "}"
    static const struct {
        const char *line[5];
        int good;
    } cases[] = {
        {{START, END("failed", "1"), START, END("sealed", "3")}, 1},
        {{START, START, END("sealed", "2"), END("interrupted", "1")}, 1},
        {{START, "{\"event\": \"verified\", \"run\": 1}", "{\"event\": \"aborted\", \"run\": 7}", END("sealed", "1")},
         1},
        {{START, END("failed", "1"), START, END("sealed", "3"), END("sealed", "1")}, 0},
        {{START, END("sealed", "1"), END("sealed", "1")}, 0},
        {{END("sealed", "1")}, 0},
        {{START, END("sealed", "3"), START}, 0},
        {{START, END("sealed", "1"), END("failed", "2")}, 0},
        {{START, END("sealed", "0")}, 0},
        {{START, END("sealed", "-1")}, 0},
        {{START, END("sealed", "9223372036854775807")}, 0},
        {{START, END("sealed", "\"1\"")}, 0},
        {{START, "{\"event\": \"failed\"}"}, 0},
    };
    RP_FREE char *path = in_dir("ends.jsonl");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_err err;
        int n = 0;
        while (n < 5 && cases[i].line[n])
            n++;
        int failed = read_forged(path, cases[i].line, n, &err) < 0;
        if (cases[i].good)
            CHECK(!failed, "case %zu: %s", i, err.msg);
        else
            REFUSED(failed && err.code == RP_MISMATCH, err.msg);
    }
}

/* What reads as forged is never written: a ledger that was moved, cut or replaced while a run went on takes no end of
 * that run. */
TEST(an_end_is_written_only_to_the_ledger_of_its_start)
{
    RP_FREE char *path = in_dir("mine.jsonl"), *other = in_dir("replaced.jsonl"), *fresh = in_dir("fresh.jsonl");
    struct rp_ledger_ref mark, start = append(path, RP_LEDGER_STARTED, 0), later;
    struct rp_err err = {0};
    RP_BUF was = {0}, is = {0};
    append(other, RP_LEDGER_VERIFIED, 0);
    append(other, RP_LEDGER_STARTED, 0);
    later = append(other, RP_LEDGER_STARTED, 0);
    later.position = 2; /* the place of one run and the head of another */
    slurp(&was, other);
    const struct rp_ledger_ref wrong[] = {start, later, {.position = 7, .head = RECIPE}};
    for (size_t i = 0; i < 3; i++) {
        int failed = append_as(other, RP_LEDGER_SEALED, &wrong[i], json_object(), ledger_key("mine.pem"), &mark, &err);
        REFUSED(failed < 0 && err.code == RP_MISMATCH && mark.position == 0, err.msg);
    }
    slurp(&is, other);
    CHECK(rp_buf_is(&is, was.data, was.size), "it was changed");
    int failed = append_as(fresh, RP_LEDGER_SEALED, &start, json_object(), ledger_key("mine.pem"), &mark, &err);
    CHECK(failed < 0 && err.code == RP_MISMATCH, "a new file took it: %s", err.msg);
    failed = append_as(path, RP_LEDGER_INTERRUPTED, &start, json_object(), ledger_key("mine.pem"), &mark, &err);
    CHECK(failed == 0 && mark.position == 2, "%s", err.msg);
    failed = append_as(path, RP_LEDGER_SEALED, &start, json_object(), ledger_key("mine.pem"), &mark, &err);
    REFUSED(failed < 0 && err.code == RP_MISMATCH, err.msg);
    check_whole(path, 2);
}

/* Next to the key, whatever holds the data; by the fingerprint, so that each key has one. */
TEST(where_it_is)
{
    int named;
    struct rp_err err;
    setenv("REPRO_LEDGER", "/x/l.jsonl", 1);
    RP_FREE char *a = rp_ledger_path("/k/key.pem", "SHA256:0123456789abcdef0", &named), *own = rp_ledger_own_path(&err);
    CHECK_STR(a, "/x/l.jsonl");
    CHECK_STR(own, "/x/l.jsonl");
    CHECK(named, "named");
    unsetenv("REPRO_LEDGER");
    setenv("REPRO_STORE", "/y", 1);
    RP_FREE char *b = rp_ledger_path("/k/key.pem", "SHA256:0123456789abcdef0", &named);
    CHECK_STR(b, "/k/ledger-0123456789abcdef.jsonl");
    CHECK(!named, "not named");
    unsetenv("REPRO_STORE");
}

/* Without loading a key: the only ledger beside it, and no guess between several. */
TEST(which_is_meant)
{
    RP_FREE char *key = in_dir("keys/key.pem"), *dir = in_dir("keys"),
                 *one = in_dir("keys/ledger-0123456789abcdef.jsonl");
    RP_FREE char *two = in_dir("keys/ledger-1123456789abcdef.jsonl"), *no = in_dir("keys/ledger-x.jsonl");
    struct rp_err err;
    mkdir(dir, 0700);
    setenv("REPRO_KEY", key, 1);
    put(no, "", 0);
    RP_FREE char *none = rp_ledger_own_path(&err);
    CHECK(!none && err.code == RP_OK, "%s", none ? none : err.msg);
    put(one, "", 0);
    RP_FREE char *is = rp_ledger_own_path(&err);
    CHECK_STR(is ? is : err.msg, one);
    put(two, "", 0);
    RP_FREE char *both = rp_ledger_own_path(&err);
    REFUSED(!both && err.code == RP_USAGE, err.msg);
    unsetenv("REPRO_KEY");
}
