#include "base/term.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define LINE_MAX_BYTES 512
#define REDRAW_NS 100000000u

/* A terminal that understands cursor movement and colour. */
static int capable(int fd)
{
    const char *term = getenv("TERM");
    return isatty(fd) && term && *term && strcmp(term, "dumb") != 0;
}

int rp_use_colour(int fd)
{
    const char *no = getenv("NO_COLOR");
    return !(no && *no) && capable(fd);
}

int rp_columns(int fd)
{
    const char *text = getenv("COLUMNS");
    char *end;
    long n = text ? strtol(text, &end, 10) : 0;
    struct winsize w;
    if (n >= 20 && n <= 10000 && *end == 0)
        return (int)n;
    if (ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_col >= 20)
        return w.ws_col;
    return 80;
}

void rp_progress_init(struct rp_progress *m, int fd, int quiet)
{
    *m = (struct rp_progress){.fd = fd, .quiet = quiet, .every = 10, .tty = capable(fd), .colour = rp_use_colour(fd)};
    m->width = rp_columns(fd);
    m->start_ns = rp_now_ns();
}

/* Progress is a courtesy: a closed or full stderr must not end a run. */
static void put_text(const struct rp_progress *m, const char *text)
{
    if (rp_write_all(m->fd, text, strlen(text)) < 0)
        return;
}

/* Show `line` in place of the one on the screen, cut to the width so that it never wraps. */
static void rewrite_line(struct rp_progress *m, const char *line)
{
    char out[LINE_MAX_BYTES + 32];
    m->width = rp_columns(m->fd); /* the window may have been resized */
    put_text(m, RP_FORMAT(out, "\r\033[K%s%.*s%s", m->colour ? "\033[36m" : "", m->width - 1, line,
                          m->colour ? "\033[0m" : ""));
    m->open = 1;
}

static void full_line(struct rp_progress *m, const char *line)
{
    char out[LINE_MAX_BYTES + 32];
    snprintf(out, sizeof out, "%s%s\n", m->open ? "\r\033[K" : "", line);
    m->open = 0;
    put_text(m, out);
}

/* One line of JSON, which takes `event`. */
static void put_event(const struct rp_progress *m, json_t *event)
{
    RP_BUF line = {0};
    rp_json_write_line(&line, event);
    put_text(m, rp_buf_text(&line));
    json_decref(event);
}

static json_t *number_or_null(double x, int known)
{
    return known && isfinite(x) ? json_real(x) : json_null();
}

void rp_progress_phase(struct rp_progress *m, const char *phase, const char *detail)
{
    char line[LINE_MAX_BYTES];
    snprintf(m->phase, sizeof m->phase, "%s", phase ? phase : "");
    m->start_ns = rp_now_ns();
    m->last_ns = 0;
    if (m->quiet)
        return;
    if (m->json) {
        put_event(m, json_pack("{s:s, s:s, s:s*}", "event", "phase", "phase", m->phase, "detail", detail));
        return;
    }
    rp_sanitize(RP_FORMAT(line, "%s%s%s", m->phase, detail ? " " : "", detail ? detail : ""));
    if (m->tty)
        rewrite_line(m, line);
    else
        full_line(m, line);
}

static void time_left(char *out, size_t size, double s)
{
    *out = 0;
    if (!(s >= 0) || s > 1e9)
        return;
    long n = (long)(s + 0.5);
    if (n >= 3600)
        snprintf(out, size, "  %ld:%02ld:%02ld left", n / 3600, n / 60 % 60, n % 60);
    else
        snprintf(out, size, "  %ld:%02ld left", n / 60, n % 60);
}

void rp_progress_step(struct rp_progress *m, const struct rp_progress_at *at)
{
    char line[LINE_MAX_BYTES], left[48], speed[64] = "", loss[32] = "";
    const int is_last = at->step >= at->total;
    uint64_t now = rp_now_ns();
    if (m->quiet)
        return;
    if (m->tty || m->json ? !is_last && now - m->last_ns < REDRAW_NS
                          : at->step < 1 || (at->step != 1 && at->step != at->total && at->step % m->every != 0))
        return;
    m->last_ns = now;
    if (m->json) {
        put_event(m, json_pack("{s:s, s:s, s:i, s:i, s:o, s:o, s:s, s:o}", "event", "step", "phase", m->phase, "step",
                               at->step, "steps", at->total, "loss",
                               number_or_null((double)at->loss, at->loss == at->loss), "rate",
                               number_or_null(at->rate, at->rate > 0), "unit", RP_FORMAT(speed, "%s/s", at->unit),
                               "left_s", number_or_null(at->left_s, at->left_s >= 0 && !is_last)));
        return;
    }
    if (at->rate > 0)
        snprintf(speed, sizeof speed, "  %.*f %s/s", at->rate < 100 ? 2 : 0, at->rate, at->unit);
    if (at->loss == at->loss)
        snprintf(loss, sizeof loss, "  loss %.4f", (double)at->loss);
    time_left(left, sizeof left, is_last ? -1 : at->left_s);
    snprintf(line, sizeof line, "%s  %s %d/%d%s%s%s", m->phase, at->what, at->step, at->total, loss, speed, left);
    if (m->tty)
        rewrite_line(m, line);
    else
        full_line(m, line);
}

void rp_progress_note(struct rp_progress *m, const char *fmt, ...)
{
    char line[LINE_MAX_BYTES];
    RP_FORMAT_ARGS(line, fmt);
    rp_sanitize(line);
    if (m->json && !m->quiet)
        put_event(m, json_pack("{s:s, s:s}", "event", "note", "text", line));
    else if (!m->quiet)
        full_line(m, line);
}

void rp_progress_end(struct rp_progress *m)
{
    if (m->open)
        put_text(m, "\n");
    m->open = 0;
}
