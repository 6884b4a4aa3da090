/* Throughput, the time of every step, and the losses: from the raw records. */
#include "page/section.h"

#include "base/json.h"
#include "base/text.h"
#include "report/tables.h"
#include "report/words.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 40000 /* rows of CSV in the page: some 12 MB, which a browser still opens */
#define HISTOGRAM_MIN 8
#define BINS_MAX 60

/* The steps that have times, as columns of one block: free(number). */
struct steps {
    size_t n, warm;
    double *number, *seconds, *loss, *norm;
};

static struct steps columns_of(const struct rp_records *rs)
{
    size_t size = (size_t)rs->n + 1;
    double *block = rp_alloc(4 * size * sizeof *block);
    struct steps c = {.number = block, .seconds = block + size, .loss = block + 2 * size, .norm = block + 3 * size};
    for (int64_t i = 0; i < rs->n; i++) {
        const struct rp_step_record *r = &rs->r[i];
        if (r->step < 0)
            continue;
        c.number[c.n] = (double)r->step;
        c.seconds[c.n] = (double)(r->end_ns - r->start_ns) / 1e9;
        c.loss[c.n] = (double)r->loss;
        c.norm[c.n++] = r->overflow ? NAN : (double)r->grad_norm;
        c.warm += !r->timed;
    }
    return c;
}

/* In decimal and as a hex float. */
static void put_exact(struct rp_buf *out, float x)
{
    char hex[32];
    rp_float_hex(hex, x);
    rp_csv_number(out, (double)x);
    rp_buf_printf(out, ",%s", hex);
}

/* The records as CSV: times in seconds from the start of the first step, counters by their names. */
static void put_csv(struct rp_buf *out, const struct rp_records *rs)
{
    int64_t first = 0;
    while (first < rs->n && rs->r[first].step < 0)
        first++;
    rp_buf_puts(out, "rank,step,phase,repeat,start_s,seconds,device_s,input_s,samples,learning_rate,loss,loss_hex,grad_"
                     "norm,grad_norm_hex");
    for (int c = 0; c < rs->counter.n; c++)
        rp_buf_printf(out, ",%s", rs->counter.name[c]);
    if (first < rs->n && rs->r[first].scale)
        rp_buf_puts(out, ",loss_scale,overflow");
    for (int64_t i = first; i < rs->n; i++) {
        const struct rp_step_record *r = &rs->r[i];
        rp_buf_printf(out, "\n%d,%d,%s,%d,%.9f,%.9f,", rs->rank, r->step, r->timed ? "timed" : "warm-up", r->repeat,
                      (double)(r->start_ns - rs->r[first].start_ns) / 1e9, (double)(r->end_ns - r->start_ns) / 1e9);
        const int64_t device_ns = rp_record_times(rs, r).device_ns;
        if (device_ns >= 0)
            rp_buf_printf(out, "%.9f", (double)device_ns / 1e9);
        rp_buf_printf(out, ",%.9f,%" PRIu32 ",", (double)r->input_ns / 1e9, r->samples);
        rp_csv_number(out, r->learning_rate);
        rp_buf_puts(out, ",");
        put_exact(out, r->loss);
        rp_buf_puts(out, ",");
        put_exact(out, r->grad_norm);
        for (int c = 0; c < rs->counter.n; c++)
            rp_buf_printf(out, ",%" PRIu32, rp_record_counts(rs, r)[c]);
        if (r->scale) {
            rp_buf_puts(out, ",");
            rp_csv_number(out, (double)rp_record_loss_scale(r));
            rp_buf_printf(out, ",%d", r->overflow);
        }
    }
    rp_buf_puts(out, "\n");
}

void rp_section_download(struct rp_section *s, const struct rp_buf *csv, const char *kind, const char *source)
{
    rp_buf_printf(
        s->out,
        "<p><a class=\"csv\" download=\"%ss-%.12s.csv\" data-src=\"%s\" href=\"data:text/csv;charset=utf-8;base64,",
        kind, s->digest, source);
    rp_base64(s->out, rp_buf_text(csv), csv->size);
    rp_buf_printf(s->out, "\">every %s as CSV</a></p>\n", kind);
}

static void put_download(struct rp_section *s)
{
    RP_BUF csv = {0};
    if (s->records->n > ROWS_MAX) {
        rp_buf_printf(s->out,
                      "<p>The %" PRId64 " records are in the bundle: <code>repro inspect BUNDLE %s</code></p>\n",
                      s->records->n, RP_OF_RANK(s->rank, ".jsonl"));
        return;
    }
    put_csv(&csv, s->records);
    rp_section_download(s, &csv, "step", RP_OF_RANK(s->rank, ".jsonl"));
}

/* What times are shown in: thousandths of a second, where steps are short. */
struct time_unit {
    double per_second;
    const char *name;
};

static struct time_unit unit_of(const struct steps *c)
{
    double most = 0;
    for (size_t i = c->warm; i < c->n; i++)
        most = fmax(most, c->seconds[i]);
    return most > 0 && most < 0.5 ? (struct time_unit){1e3, "milliseconds"} : (struct time_unit){1, "seconds"};
}

/* The axis of times covers the timed steps alone, so that their spread is seen; a warm-up that took longer is at its
 * edge. */
static void plot_steps(struct rp_section *s, const struct steps *c)
{
    char id[32], words[400];
    const struct time_unit unit = unit_of(c);
    RP_FREE double *time = rp_alloc((c->n + 1) * sizeof *time);
    struct rp_series line[] = {
        {.kind = c->n > 300 ? RP_LINE : RP_DOTS, .x = c->number, .y = time, .n = c->n, .class = "s1"},
    };
    struct rp_band band = {-0.5, (double)c->warm - 0.5, "warm"};
    double low = INFINITY, high = 0;
    size_t at = 0;
    for (size_t i = 0; i < c->n; i++) {
        time[i] = c->seconds[i] * unit.per_second;
        if (i < c->warm)
            continue;
        low = fmin(low, c->seconds[i]);
        if (c->seconds[i] > high)
            high = c->seconds[i], at = i;
    }
    snprintf(id, sizeof id, "b%d-series", s->index);
    snprintf(words, sizeof words,
             "%zu step%s, %zu of them warm-up. Timed steps took %.4g to %.4g s, step %.0f the longest.", c->n,
             rp_s((int64_t)c->n), c->warm, c->n > c->warm ? low : 0, high, c->n > c->warm ? c->number[at] : 0);
    const double pad = fmax((high - low) * 0.08, high * 0.001);
    struct rp_plot p = {.id = id,
                        .title = "Time of every step",
                        .x_label = "step",
                        .y_label = unit.name,
                        .words = words,
                        .series = line,
                        .n_series = 1,
                        .band = &band,
                        .n_bands = c->warm > 0,
                        .height = 190,
                        .from_zero = low > high,
                        .x0 = -0.5,
                        .x1 = c->n ? c->number[c->n - 1] + 0.5 : 0.5};
    if (low <= high) {
        p.y0 = fmax(low - pad, 0) * unit.per_second;
        p.y1 = (high + pad) * unit.per_second;
    }
    rp_plot(s->out, &p);
    if (c->warm)
        rp_buf_puts(s->out, "<p class=\"note\">Shaded: warm-up, which is not part of any figure. The axis covers the "
                            "timed steps and does not begin at 0; a warm-up step outside of it is a grey dot at its "
                            "edge, or a line that leaves the plot.</p>\n");
    put_download(s);
}

static void plot_histogram(struct rp_section *s, const struct steps *c)
{
    const struct time_unit unit = unit_of(c);
    double edge[BINS_MAX + 1], count[BINS_MAX] = {0}, low = INFINITY, high = -INFINITY, most = 0;
    size_t n = c->n - c->warm, bins = (size_t)ceil(2 * cbrt((double)n));
    char id[32], words[400];
    if (n < HISTOGRAM_MIN) {
        rp_buf_printf(s->out, "<p class=\"note\">%zu timed steps are too few to draw their distribution.</p>\n", n);
        return;
    }
    bins = bins > BINS_MAX ? BINS_MAX : bins;
    for (size_t i = c->warm; i < c->n; i++)
        low = fmin(low, c->seconds[i]), high = fmax(high, c->seconds[i]);
    double width = high > low ? (high - low) / (double)bins : fmax(high, 1e-9) * 0.01;
    for (size_t i = 0; i <= bins; i++)
        edge[i] = (low + width * (double)i) * unit.per_second;
    for (size_t i = c->warm; i < c->n; i++) {
        size_t k = (size_t)((c->seconds[i] - low) / width);
        k = k < bins ? k : bins - 1;
        most = fmax(most, ++count[k]);
    }
    const struct rp_step_times *times = s->figures->results.step_s; /* there are timed steps */
    struct rp_mark marks[] = {{times->median * unit.per_second, 1, "median"},
                              {times->p90 * unit.per_second, 1, "p90"},
                              {times->p99 * unit.per_second, 1, "p99"}};
    struct rp_series bars = {.kind = RP_BARS, .x = edge, .y = count, .n = bins, .class = "s1"};
    snprintf(id, sizeof id, "b%d-histogram", s->index);
    snprintf(words, sizeof words,
             "Histogram of %zu timed steps in %zu bins from %.4g to %.4g s; the fullest has %.0f. Median %.4g s.", n,
             bins, low, high, most, times->median);
    if (n >= RP_P90_STEPS)
        snprintf(words + strlen(words), sizeof words - strlen(words), " 90th percentile %.4g s.", times->p90);
    struct rp_plot p = {.id = id,
                        .title = "Distribution of the timed steps",
                        .x_label = unit.name,
                        .y_label = "steps",
                        .words = words,
                        .series = &bars,
                        .n_series = 1,
                        .mark = marks,
                        .n_marks = n >= RP_P99_STEPS   ? 3
                                   : n >= RP_P90_STEPS ? 2
                                                       : 1,
                        .height = 150,
                        .from_zero = 1};
    rp_plot(s->out, &p);
}

void rp_section_steps(struct rp_section *s)
{
    struct steps c = columns_of(s->records);
    if (c.n) {
        plot_steps(s, &c);
        plot_histogram(s, &c);
    } else {
        rp_buf_puts(s->out, "<p>No step was finished.</p>\n");
    }
    rp_section_table(s, rp_table_windows);
    rp_section_table(s, rp_table_figures);
    if (!rp_table_has_steps_for(s->figures, "/p99"))
        rp_buf_printf(
            s->out,
            "<p class=\"note\">The 90th percentile needs %d timed steps, the 99th %d: with fewer steps they equal the "
            "longest step.</p>\n",
            RP_P90_STEPS, RP_P99_STEPS);
    if (!isnan(s->figures->results.device_share))
        rp_section_fill(s, "<p>The device was busy for {/results/device_s d3} s, {/results/device_share d2*100} % of "
                           "the timed windows: " RP_WORDS_DEVICE_SHARE ".</p>\n");
    rp_section_fill(s, "<p class=\"note\">Throughput is the " RP_WORDS_ESTIMATOR "; the window is the " RP_WORDS_WINDOW
                       ". Interval: " RP_WORDS_BOOTSTRAP " ({/results/throughput/resamples d0} resamples).</p>\n");
    free(c.number);
}

static void plot_curve(struct rp_section *s, const struct steps *c, const double *y, const char *name,
                       const char *title, const char *class)
{
    char id[48], words[300];
    double low = INFINITY, high = -INFINITY;
    size_t first = c->n, last = 0, gaps = 0;
    for (size_t i = 0; i < c->n; i++)
        if (isfinite(y[i])) {
            low = fmin(low, y[i]), high = fmax(high, y[i]);
            first = first < i ? first : i;
            last = i;
        } else
            gaps++;
    if (first == c->n) {
        rp_section_fill(s, "<p>The gradient overflowed in every step, and no weight changed.</p>\n");
        return;
    }
    snprintf(id, sizeof id, "b%d-%s", s->index, name);
    snprintf(words, sizeof words, "%.6g at %s step, %.6g at the last, between %.6g and %.6g over %zu step%s%s",
             y[first], first ? "the first such" : "the first", y[last], low, high, c->n - gaps,
             rp_s((int64_t)(c->n - gaps)),
             gaps ? "; gaps are steps whose gradient overflowed, which changed no weight." : ".");
    struct rp_series line[] = {{.kind = RP_LINE, .x = c->number, .y = y, .n = c->n, .class = class},
                               {.kind = RP_DOTS, .x = c->number, .y = y, .n = c->n <= 100 ? c->n : 0, .class = class}};
    struct rp_plot p = {.id = id,
                        .title = title,
                        .x_label = "step",
                        .y_label = "",
                        .words = words,
                        .series = line,
                        .n_series = 2,
                        .height = 160};
    rp_plot(s->out, &p);
}

void rp_section_loss(struct rp_section *s)
{
    struct steps c = columns_of(s->records);
    if (c.n) {
        rp_buf_puts(s->out, "<div class=\"pair\">");
        plot_curve(s, &c, c.loss, "losses", "Loss of every step", "s2");
        plot_curve(s, &c, c.norm, "norms", "Norm of the gradients", "s3");
        rp_buf_puts(s->out, "</div>\n");
    }
    rp_section_fill(s, "<p>First loss {/results/loss_first x}, exactly <code>{/results/loss_first/hex t}</code>; last "
                       "loss {/results/loss_last x}, exactly <code>{/results/loss_last/hex t}</code>.</p>\n");
    free(c.number);
}
