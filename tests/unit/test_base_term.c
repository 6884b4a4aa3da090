/* The line of progress: plain lines into a pipe, one rewriting line on a terminal, and what the environment can say
 * about it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pseudo terminals */
#endif
#include "base/buf.h"
#include "base/term.h"
#include "base/nearest.h"
#include "tests/unit/tap.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* What a run of 25 steps prints to fd; the other end is read from `from`. */
static void show(int fd, int from, int quiet, struct rp_buf *out)
{
    struct rp_progress m;
    char bytes[8192];
    rp_progress_init(&m, fd, quiet);
    rp_progress_phase(&m, "warm-up", NULL);
    rp_progress_phase(&m, "timed", "now");
    for (int i = 1; i <= 25; i++)
        rp_progress_step(&m, &(struct rp_progress_at){"step", i, 25, 7.25f, 3.5, "sequences", 3725 - i});
    rp_progress_note(&m, "a note");
    rp_progress_end(&m);
    fcntl(from, F_SETFL, O_NONBLOCK);
    for (ssize_t n; (n = read(from, bytes, sizeof bytes)) > 0;)
        rp_buf_add(out, bytes, (size_t)n);
    rp_buf_add(out, "", 0);
}

static void through_pipe(int quiet, struct rp_buf *out)
{
    int p[2];
    CHECK(pipe(p) == 0, "pipe");
    show(p[1], p[0], quiet, out);
    close(p[0]);
    close(p[1]);
}

/* 0 where this machine has no pseudo terminals */
static int through_terminal(int columns, struct rp_buf *out)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 && access("/dev/ptmx", F_OK) < 0)
        return 0;
    CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0, "no pseudo terminal");
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    struct winsize w = {.ws_row = 24, .ws_col = (unsigned short)columns};
    CHECK(slave >= 0, "cannot open the pseudo terminal");
    ioctl(slave, TIOCSWINSZ, &w);
    show(slave, master, 0, out);
    close(slave);
    close(master);
    return 1;
}

static void environment(const char *term, const char *no_color, const char *columns)
{
    setenv("TERM", term, 1);
    no_color ? setenv("NO_COLOR", no_color, 1) : unsetenv("NO_COLOR");
    columns ? setenv("COLUMNS", columns, 1) : unsetenv("COLUMNS");
}

TEST(plain_lines)
{
    RP_BUF out = {0}, none = {0};
    environment("xterm", NULL, NULL);
    through_pipe(0, &out);
    CHECK(strcmp(out.data, "warm-up\n"
                           "timed now\n"
                           "timed  step 1/25  loss 7.2500  3.50 sequences/s  1:02:04 left\n"
                           "timed  step 10/25  loss 7.2500  3.50 sequences/s  1:01:55 left\n"
                           "timed  step 20/25  loss 7.2500  3.50 sequences/s  1:01:45 left\n"
                           "timed  step 25/25  loss 7.2500  3.50 sequences/s\n"
                           "a note\n") == 0,
          "%s", out.data);
    through_pipe(1, &none);
    CHECK(none.size == 0, "quiet: '%s'", none.data);
}

TEST(unknown_is_not_shown)
{
    struct rp_progress m;
    char bytes[256] = {0};
    int p[2];
    CHECK(pipe(p) == 0, "pipe");
    rp_progress_init(&m, p[1], 0);
    rp_progress_step(&m, &(struct rp_progress_at){"step", 0, 2, NAN, 0, "", -1});
    rp_progress_step(&m, &(struct rp_progress_at){"step", 1, 2, NAN, 0, "", -1});
    rp_progress_end(&m);
    CHECK(read(p[0], bytes, sizeof bytes - 1) > 0, "nothing was printed");
    CHECK_STR(bytes, "  step 1/2\n");
    close(p[0]);
    close(p[1]);
}

TEST(rewriting_line)
{
    RP_BUF out = {0}, bare = {0}, dumb = {0}, narrow = {0};
    environment("xterm", NULL, NULL);
    if (!through_terminal(100, &out))
        SKIP("no pseudo terminals here");
    CHECK(strstr(out.data, "\r\033[K") && strstr(out.data, "\033[36m"), "cursor and colour");
    CHECK(strstr(out.data, "step 25/25"), "the last step is always shown");
    CHECK(strcmp(out.data + out.size - 8, "a note\r\n") == 0, "ends on a fresh line");
    environment("xterm", "1", NULL);
    through_terminal(100, &bare);
    CHECK(strstr(bare.data, "\r\033[K") && !strstr(bare.data, "\033[36m"), "NO_COLOR");
    environment("dumb", NULL, NULL);
    through_terminal(100, &dumb);
    CHECK(!strchr(dumb.data, '\033') && strstr(dumb.data, "step 10/25"), "TERM=dumb gives plain lines");
    environment("xterm", "1", "30");
    through_terminal(100, &narrow);
    CHECK(strstr(narrow.data, "timed  step 25/25  loss 7.250\r"), "cut to 29 columns: %s", narrow.data);
}

TEST(columns)
{
    environment("xterm", NULL, "132");
    CHECK(rp_columns(-1) == 132, "%d", rp_columns(-1));
    environment("xterm", NULL, "wide");
    CHECK(rp_columns(-1) == 80, "%d", rp_columns(-1));
    environment("xterm", NULL, "-5");
    CHECK(rp_columns(-1) == 80, "%d", rp_columns(-1));
    CHECK(!rp_use_colour(-1), "no colour into nothing");
}

TEST(a_note_has_nothing_that_a_terminal_obeys)
{
    int p[2];
    char out[256] = "";
    struct rp_progress m;
    CHECK(pipe(p) == 0, "pipe");
    rp_progress_init(&m, p[1], 0);
    rp_progress_note(&m, "%s", "\033]0;title\a caf\xc3\xa9 \xc2\x9b" "31m \xc2\xa0 \x7f.yaml\r");
    rp_progress_phase(&m, "reading", "\033[2J");
    CHECK(read(p[0], out, sizeof out - 1) > 0, "nothing came");
    CHECK(strcmp(out, "?]0;title? caf\xc3\xa9 ??31m \xc2\xa0 ?.yaml?\nreading ?[2J\n") == 0, "%s", out);
    close(p[0]);
    close(p[1]);
}

TEST(closed_stderr_is_survived)
{
    struct rp_progress m;
    rp_progress_init(&m, -1, 0);
    rp_progress_phase(&m, "timed", NULL);
    rp_progress_step(&m, &(struct rp_progress_at){"step", 1, 1, 1, 0, "sequences", -1});
    rp_progress_end(&m);
    CHECK(!m.open, "no line is open");
}

TEST(edit_distance)
{
    static const struct {
        const char *a, *b;
        int d;
    } cases[] = {{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"verify", "verify", 0}, {"vrify", "verify", 1},
                 {"veirfy", "verify", 1}, {"kitten", "sitting", 3}, {"VERIFY", "verify", 0}, {"ab", "ba", 1},
                 {"a", "b", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK(rp_edit_distance(cases[i].a, cases[i].b) == cases[i].d, "%s, %s: %d", cases[i].a, cases[i].b,
              rp_edit_distance(cases[i].a, cases[i].b));
}

static const char *nearest(const char *word)
{
    static const char *const names[] = {"run",  "verify", "inspect",  "capture", "recipes",
                                        "data", "key",    "selftest", "version"};
    struct rp_nearest n = {.word = word};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        rp_nearest_try(&n, names[i]);
    return n.best ? n.best : "";
}

TEST(nearest_name)
{
    static const char *const cases[][2] = {{"vrify", "verify"}, {"recipe", "recipes"}, {"captrue", "capture"},
                                           {"insp", "inspect"}, {"frobnicate", ""}, {"x", ""}, {"", ""}, {"rnu", "run"},
                                           {"dta", "data"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK(strcmp(nearest(cases[i][0]), cases[i][1]) == 0, "'%s' gives '%s'", cases[i][0], nearest(cases[i][0]));
    RP_FREE char *word = rp_asprintf("%0500d", 0);
    CHECK(strcmp(nearest(word), "") == 0, "a word of 500 letters");
}
