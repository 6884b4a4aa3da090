#include "page/plot.h"

#include "report/figure.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BOX 1000.0 /* units of the drawing in x */
#define COLUMNS 500
#define HOVERS 60 /* columns with values below the pointer: some 6 kB a plot */
#define TICKS_MAX 16

struct axis {
    double lo, hi; /* of the logarithm where log is set */
    int log;
    double tick[TICKS_MAX];
    int n;
};

static double position_on(const struct axis *a, double v)
{
    return ((a->log ? log10(v) : v) - a->lo) / (a->hi - a->lo);
}

static int is_drawable(const struct axis *a, double v)
{
    return isfinite(v) && fabs(v) < 1e30 && (!a->log || v > 0);
}

/* 1, 2 or 5 times a power of ten, so that about `wanted` of them fit. */
static double nice_step(double range, int wanted)
{
    double raw = range / wanted, power = pow(10, floor(log10(raw))), f = raw / power;
    return (f <= 1 ? 1 : f <= 2 ? 2 : f <= 5 ? 5 : 10) * power;
}

static void place_ticks(struct axis *a, int wanted, int widen, int whole)
{
    if (a->log) {
        a->lo = floor(a->lo + 1e-9);
        a->hi = ceil(a->hi - 1e-9);
        double step = ceil((a->hi - a->lo) / 6);
        for (double t = a->lo; t <= a->hi && a->n < TICKS_MAX; t += step)
            a->tick[a->n++] = pow(10, t);
        return;
    }
    double step = nice_step(a->hi - a->lo, wanted);
    if (whole && step < 1)
        step = 1;
    if (widen) {
        a->lo = floor(a->lo / step + 1e-9) * step;
        a->hi = ceil(a->hi / step - 1e-9) * step;
    }
    for (double t = ceil(a->lo / step - 1e-9) * step; t <= a->hi + step * 1e-9 && a->n < TICKS_MAX; t += step)
        a->tick[a->n++] = fabs(t) < step * 1e-9 ? 0 : t;
}

/* The range of the data, never empty. */
static void set_range(struct axis *a, double lo, double hi, int from_zero)
{
    if (!(lo <= hi))
        lo = hi = a->log ? 1 : 0;
    if (from_zero)
        lo = fmin(lo, 0);
    a->lo = a->log ? log10(lo) : lo;
    a->hi = a->log ? log10(hi) : hi;
    if (a->hi - a->lo < 1e-12 * fmax(1, fabs(a->hi))) {
        double pad = a->hi != 0 && !a->log ? fabs(a->hi) * 0.05 : 0.5;
        a->lo -= from_zero && a->lo == 0 ? 0 : pad;
        a->hi += pad;
    }
}

static void set_axes(const struct rp_plot *p, struct axis *x, struct axis *y)
{
    double lo[2] = {DBL_MAX, DBL_MAX}, hi[2] = {-DBL_MAX, -DBL_MAX};
    *x = (struct axis){.log = p->log_x};
    *y = (struct axis){.log = p->log_y};
    for (size_t k = 0; k < p->n_series; k++) {
        const struct rp_series *s = &p->series[k];
        for (size_t i = 0; i < s->n + (s->kind == RP_BARS); i++)
            if (is_drawable(x, s->x[i]))
                lo[0] = fmin(lo[0], s->x[i]), hi[0] = fmax(hi[0], s->x[i]);
        for (size_t i = 0; i < s->n; i++)
            if (is_drawable(y, s->y[i]))
                lo[1] = fmin(lo[1], s->y[i]), hi[1] = fmax(hi[1], s->y[i]);
    }
    int given = p->x0 < p->x1, given_y = p->y0 < p->y1;
    set_range(x, given ? p->x0 : lo[0], given ? p->x1 : hi[0], 0);
    set_range(y, given_y ? p->y0 : lo[1], given_y ? p->y1 : hi[1], p->from_zero);
    place_ticks(x, 6, 0, p->x_label && strncmp(p->x_label, "step", 4) == 0 && strlen(p->x_label) == 4);
    place_ticks(y, p->height < 130 ? 3 : 5, !given_y, 0);
}

/* ---- shapes ---- */

static double pixel_x(const struct axis *x, double v)
{
    return fmin(fmax(position_on(x, v), -0.001), 1.001) * BOX;
}

static double pixel_y(const struct rp_plot *p, const struct axis *y, double v)
{
    return (1 - fmin(fmax(position_on(y, v), -0.05), 1.05)) * p->height;
}

static void draw_point(struct rp_buf *out, const struct rp_plot *p, const struct axis *x, const struct axis *y,
                       double vx, double vy, int *pen)
{
    rp_buf_printf(out, "%c%.1f %.1f", *pen ? 'L' : 'M', pixel_x(x, vx), pixel_y(p, y, vy));
    *pen = 1;
}

/* Minimum and maximum of each column, in their order. */
static void draw_line_in_columns(struct rp_buf *out, const struct rp_plot *p, const struct rp_series *s,
                                 const struct axis *x, const struct axis *y)
{
    int pen = 0;
    for (size_t from = 0, to; from < s->n; from = to) {
        size_t low = SIZE_MAX, high = SIZE_MAX;
        int column = (int)(position_on(x, s->x[from]) * COLUMNS);
        for (to = from; to < s->n && (int)(position_on(x, s->x[to]) * COLUMNS) == column; to++) {
            if (!is_drawable(y, s->y[to]))
                continue;
            low = low == SIZE_MAX || s->y[to] < s->y[low] ? to : low;
            high = high == SIZE_MAX || s->y[to] > s->y[high] ? to : high;
        }
        if (low == SIZE_MAX) {
            pen = 0;
            continue;
        }
        size_t first = low < high ? low : high, second = low < high ? high : low;
        draw_point(out, p, x, y, s->x[first], s->y[first], &pen);
        if (second != first)
            draw_point(out, p, x, y, s->x[second], s->y[second], &pen);
    }
}

static void draw_line(struct rp_buf *out, const struct rp_plot *p, const struct rp_series *s, const struct axis *x,
                      const struct axis *y)
{
    int pen = 0;
    rp_buf_printf(out, "<path class=\"line %s\" d=\"", s->class);
    if (s->n > 2 * COLUMNS)
        draw_line_in_columns(out, p, s, x, y);
    else
        for (size_t i = 0; i < s->n; i++)
            if (is_drawable(x, s->x[i]) && is_drawable(y, s->y[i]))
                draw_point(out, p, x, y, s->x[i], s->y[i], &pen);
            else
                pen = 0;
    rp_buf_puts(out, "\"/>");
}

/* Strokes of no length with round ends; of several in the same place, one is drawn. */
static void draw_dots_of(struct rp_buf *out, const struct rp_plot *p, const struct rp_series *s, const struct axis *x,
                         const struct axis *y, int beyond)
{
    unsigned char *taken = rp_alloc((size_t)(COLUMNS + 1) * 256);
    RP_BUF path = {0};
    for (size_t i = 0; i < s->n; i++) {
        if (!is_drawable(x, s->x[i]) || !is_drawable(y, s->y[i]))
            continue;
        double u = position_on(x, s->x[i]), v = position_on(y, s->y[i]);
        if (u < 0 || u > 1 || (v < 0 || v > 1) != beyond)
            continue;
        v = fmin(fmax(v, 0), 1);
        unsigned char *cell = &taken[(size_t)(u * COLUMNS) * 256 + (size_t)(v * 255)];
        if (s->n <= COLUMNS || !*cell)
            rp_buf_printf(&path, "M%.1f %.1fh0", pixel_x(x, s->x[i]), (1 - v) * p->height);
        *cell = 1;
    }
    if (path.size || !beyond)
        rp_buf_printf(out, "<path class=\"dots %s\" d=\"%s\"/>", beyond ? "beyond" : s->class, rp_buf_text(&path));
    free(taken);
}

static void draw_dots(struct rp_buf *out, const struct rp_plot *p, const struct rp_series *s, const struct axis *x,
                      const struct axis *y)
{
    draw_dots_of(out, p, s, x, y, 0);
    draw_dots_of(out, p, s, x, y, 1);
}

static void draw_bars(struct rp_buf *out, const struct rp_plot *p, const struct rp_series *s, const struct axis *x,
                      const struct axis *y)
{
    rp_buf_printf(out, "<path class=\"bars %s\" d=\"", s->class);
    for (size_t i = 0; i < s->n; i++)
        if (s->y[i] > 0)
            rp_buf_printf(out, "M%.1f %dV%.1fH%.1fV%d", pixel_x(x, s->x[i]) + 0.8, p->height, pixel_y(p, y, s->y[i]),
                          pixel_x(x, s->x[i + 1]) - 0.8, p->height);
    rp_buf_puts(out, "\"/>");
}

/* ---- labels ---- */

/* A tick in as few characters as possible, with the same number of decimals along an axis. */
static void put_label(struct rp_buf *out, const struct axis *a, double v)
{
    static const char *const powers[] = {"", "k", "M", "G", "T", "P"};
    double top = a->n ? fmax(fabs(a->tick[0]), fabs(a->tick[a->n - 1])) : 0,
           step = a->n > 1 ? fabs(a->tick[1] - a->tick[0]) : top;
    int power = 0, decimals = 0;
    if (a->log)
        top = step = v;
    for (; top >= (a->log ? 1000 : 10000) && power < 5; top /= 1000, power++)
        step /= 1000, v /= 1000;
    for (; decimals < 6 && step > 0 && fabs(step * pow(10, decimals) - round(step * pow(10, decimals))) > 1e-6;
         decimals++)
        ;
    rp_buf_printf(out, "%.*f%s", decimals, v, powers[power]);
}

static const char *text_anchor(double share)
{
    return share < 0.04 ? "start" : share > 0.96 ? "end" : "middle";
}

static void draw_y_axis(struct rp_buf *out, const struct rp_plot *p, const struct axis *y)
{
    rp_buf_printf(out, "<svg class=\"ticks\" width=\"48\" height=\"%d\" aria-hidden=\"true\">", p->height + 36);
    for (int i = 0; i < y->n; i++) {
        rp_buf_printf(out, "<text x=\"44\" y=\"%.1f\" text-anchor=\"end\">", 14 + pixel_y(p, y, y->tick[i]) + 4);
        put_label(out, y, y->tick[i]);
        rp_buf_puts(out, "</text>");
    }
    rp_buf_puts(out, "</svg>");
}

static void draw_grid(struct rp_buf *out, const struct rp_plot *p, const struct axis *x, const struct axis *y)
{
    rp_buf_puts(out, "<path class=\"grid\" d=\"");
    for (int i = 0; i < y->n; i++)
        rp_buf_printf(out, "M0 %.1fH1000", pixel_y(p, y, y->tick[i]));
    for (int i = 0; p->log_x && i < x->n; i++)
        rp_buf_printf(out, "M%.1f 0V%d", pixel_x(x, x->tick[i]), p->height);
    rp_buf_puts(out, "\"/>");
}

/* ---- values below the pointer ---- */

static void put_value(struct rp_buf *out, double v)
{
    char text[40];
    snprintf(text, sizeof text, fabs(v) >= 1e5 && fabs(v) < 1e15 ? "%.0f" : "%.6g", v);
    rp_put_grouped(out, text);
}

static void put_range(struct rp_buf *out, double low, double high)
{
    put_value(out, low);
    if (high > low) {
        rp_buf_puts(out, " to ");
        put_value(out, high);
    }
}

/* The least and the most of a series from x = a up to b, and of x there. Returns how many values that are. */
static size_t find_extremes(const struct rp_series *s, double a, double b, double x[2], double y[2])
{
    size_t n = 0;
    y[0] = INFINITY, y[1] = -INFINITY;
    for (size_t i = 0; i < s->n; i++) {
        if (!(s->x[i] >= a && s->x[i] < b) || !isfinite(s->y[i]))
            continue;
        y[0] = fmin(y[0], s->y[i]), y[1] = fmax(y[1], s->y[i]);
        x[0] = fmin(x[0], s->x[i]), x[1] = fmax(x[1], s->x[i]);
        n++;
    }
    return n;
}

static void put_hover_line(struct rp_buf *out, const struct rp_plot *p, const struct rp_series *s, const double y[2])
{
    rp_buf_printf(out, "%s%s", s->name ? s->name : "", s->name ? ": " : "");
    put_range(out, y[0], y[1]);
    rp_buf_printf(out, "%s%s\n", *p->y_label ? " " : "", p->y_label);
}

static void put_hover_column(struct rp_buf *out, const struct rp_plot *p, const struct axis *x, double a, double b)
{
    RP_BUF lines = {0};
    double xs[2] = {INFINITY, -INFINITY}, y[2];
    for (size_t k = 0; k < p->n_series; k++) {
        const struct rp_series *s = &p->series[k];
        if ((k && s->y == p->series[k - 1].y) || s->kind == RP_BARS) /* a line and its dots; bars have their own */
            continue;
        if (find_extremes(s, a, b, xs, y))
            put_hover_line(&lines, p, s, y);
    }
    if (!lines.size)
        return;
    const double from = pixel_x(x, fmax(a, x->log ? pow(10, x->lo) : x->lo)),
                 to = pixel_x(x, fmin(b, x->log ? pow(10, x->hi) : x->hi));
    rp_buf_printf(out, "<rect class=\"hover\" x=\"%.1f\" y=\"0\" width=\"%.1f\" height=\"%d\"><title>%s ", from,
                  to - from, p->height,
                  p->x_name    ? p->x_name
                  : p->x_label ? p->x_label
                               : "");
    put_range(out, xs[0], xs[1]);
    rp_buf_printf(out, "\n%.*s</title></rect>", (int)lines.size - 1, lines.data);
}

static void put_hover_bars(struct rp_buf *out, const struct rp_plot *p, const struct rp_series *s, const struct axis *x)
{
    for (size_t i = 0; i < s->n && i < COLUMNS; i++) {
        const double from = pixel_x(x, s->x[i]);
        rp_buf_printf(out, "<rect class=\"hover\" x=\"%.1f\" y=\"0\" width=\"%.1f\" height=\"%d\"><title>", from,
                      pixel_x(x, s->x[i + 1]) - from, p->height);
        put_range(out, s->x[i], s->x[i + 1]);
        rp_buf_printf(out, " %s: ", p->x_label ? p->x_label : "");
        put_value(out, s->y[i]);
        rp_buf_printf(out, "%s%s</title></rect>", *p->y_label ? " " : "", p->y_label);
    }
}

/* A column for every point of the longest series, or columns of equal width. */
static void put_hover(struct rp_buf *out, const struct rp_plot *p, const struct axis *x)
{
    const struct rp_series *longest = NULL;
    for (size_t k = 0; k < p->n_series; k++) {
        if (p->series[k].kind == RP_BARS)
            put_hover_bars(out, p, &p->series[k], x);
        else if (!longest || p->series[k].n > longest->n)
            longest = &p->series[k];
    }
    if (!longest || !longest->n)
        return;
    const size_t n = longest->n <= HOVERS ? longest->n : HOVERS;
    double from = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        double share = x->lo + (x->hi - x->lo) * (double)(i + 1) / (double)n;
        double to = i + 1 == n            ? INFINITY
                    : longest->n > HOVERS ? (x->log ? pow(10, share) : share)
                                          : (longest->x[i] + longest->x[i + 1]) / 2;
        if (to > from)
            put_hover_column(out, p, x, from, to);
        from = fmax(from, to);
    }
}

static void draw_shapes(struct rp_buf *out, const struct rp_plot *p, const struct axis *x, const struct axis *y)
{
    rp_buf_printf(
        out,
        "<svg x=\"0\" y=\"14\" width=\"100%%\" height=\"%d\" viewBox=\"0 0 1000 %d\" preserveAspectRatio=\"none\">",
        p->height, p->height);
    for (size_t i = 0; i < p->n_bands; i++)
        rp_buf_printf(out, "<rect class=\"band %s\" x=\"%.1f\" y=\"0\" width=\"%.1f\" height=\"%d\"/>",
                      p->band[i].class, pixel_x(x, p->band[i].from),
                      fmax(pixel_x(x, p->band[i].to) - pixel_x(x, p->band[i].from), 0.8), p->height);
    draw_grid(out, p, x, y);
    for (size_t i = 0; i < p->n_series; i++) {
        static void (*const draw[])(struct rp_buf *, const struct rp_plot *, const struct rp_series *,
                                    const struct axis *, const struct axis *) = {draw_line, draw_dots, draw_bars};
        draw[p->series[i].kind](out, p, &p->series[i], x, y);
    }
    for (size_t i = 0; i < p->n_marks; i++)
        if (p->mark[i].along_x)
            rp_buf_printf(out, "<path class=\"mark\" d=\"M%.1f 0V%d\"/>", pixel_x(x, p->mark[i].at), p->height);
        else
            rp_buf_printf(out, "<path class=\"mark\" d=\"M0 %.1fH1000\"/>", pixel_y(p, y, p->mark[i].at));
    put_hover(out, p, x);
    rp_buf_puts(out, "</svg>");
}

static void put_labels(struct rp_buf *out, const struct rp_plot *p, const struct axis *x, const struct axis *y)
{
    for (int i = 0; i < x->n; i++) {
        double share = position_on(x, x->tick[i]);
        rp_buf_printf(out, "<text x=\"%.1f%%\" y=\"%d\" text-anchor=\"%s\">", share * 100, p->height + 31,
                      text_anchor(share));
        put_label(out, x, x->tick[i]);
        rp_buf_puts(out, "</text>");
    }
    for (size_t i = 0; i < p->n_marks; i++) {
        const struct rp_mark *m = &p->mark[i];
        if (m->along_x)
            rp_buf_printf(out, "<text class=\"said\" x=\"%.1f%%\" y=\"10\" text-anchor=\"%s\">%s</text>",
                          position_on(x, m->at) * 100, text_anchor(position_on(x, m->at)), m->label);
        else
            rp_buf_printf(out, "<text class=\"said\" x=\"100%%\" y=\"%.1f\" text-anchor=\"end\">%s</text>",
                          14 + pixel_y(p, y, m->at) - 5, m->label);
    }
}

static void put_legend(struct rp_buf *out, const struct rp_plot *p)
{
    int any = 0;
    for (size_t i = 0; i < p->n_series; i++)
        if (p->series[i].name)
            rp_buf_printf(out, "%s<li class=\"%s\">%s</li>", any++ ? "" : "<ul class=\"legend\">", p->series[i].class,
                          p->series[i].name);
    if (any)
        rp_buf_puts(out, "</ul>");
}

void rp_plot(struct rp_buf *out, const struct rp_plot *p)
{
    struct axis x, y;
    set_axes(p, &x, &y);
    rp_buf_printf(out, "<figure id=\"%s\"><figcaption><b>%s</b> <span class=\"unit\">%s</span></figcaption>", p->id,
                  p->title, p->y_label);
    put_legend(out, p);
    rp_buf_printf(out, "<div class=\"plot\" role=\"img\" aria-label=\"%s. %s\">", p->title, p->words);
    draw_y_axis(out, p, &y);
    rp_buf_printf(out, "<svg class=\"area\" width=\"100%%\" height=\"%d\" aria-hidden=\"true\">", p->height + 36);
    draw_shapes(out, p, &x, &y);
    put_labels(out, p, &x, &y);
    rp_buf_puts(out, "</svg></div>");
    if (p->x_label)
        rp_buf_printf(out, "<p class=\"axis\">%s</p>", p->x_label);
    rp_buf_puts(out, "</figure>\n");
}
