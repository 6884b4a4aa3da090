/* Throughput, the time of every step, and the losses: from the raw records. */
#include "page/section.h"

#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 40000 /* of CSV in the page; more stay in the bundle: a page has RP_PAGE_MAX */
#define HISTOGRAM_MIN 8
#define BINS_MAX 60

/* The steps that have times, as columns. */
struct steps {
    size_t n, warm;
    double *number, *seconds, *loss, *norm;
};

static struct steps columns_of(const struct rp_records *rs)
{
    size_t size = ((size_t)rs->n + 1) * sizeof(double);
    struct steps c = {.number = rp_alloc(size), .seconds = rp_alloc(size), .loss = rp_alloc(size), .norm = rp_alloc(size)};
    for (int64_t i = 0; i < rs->n; i++) {
        const struct rp_record *r = &rs->r[i];
        if (r->step < 0)
            continue;
        c.number[c.n] = (double)r->step;
        c.seconds[c.n] = (double)(r->end_ns - r->start_ns) / 1e9;
        c.loss[c.n] = (double)r->loss;
        c.norm[c.n++] = (double)r->grad_norm;
        c.warm += !r->timed;
    }
    return c;
}

static void columns_fini(struct steps *c)
{
    free(c->number);
    free(c->seconds);
    free(c->loss);
    free(c->norm);
}

/* Decimal, and to the last bit. */
static void exact(struct rp_buf *out, float x)
{
    char hex[32];
    rp_float_hex(hex, x);
    rp_csv_number(out, (double)x);
    rp_buf_puts(out, ",");
    rp_csv_text(out, hex);
}

/* What records have in memory: times in seconds from the start of the first step, counters by their names. */
static void csv(struct rp_buf *out, const struct rp_records *rs)
{
    int64_t first = 0;
    while (first < rs->n && rs->r[first].step < 0)
        first++;
    rp_buf_puts(out, "rank,step,phase,repeat,start_s,seconds,device_s,samples,learning_rate,loss,loss_hex,grad_norm,grad_norm_hex");
    for (int c = 0; c < rs->counter.n; c++)
        rp_buf_printf(out, ",%s", rs->counter.name[c]);
    for (int64_t i = first; i < rs->n; i++) {
        const struct rp_record *r = &rs->r[i];
        rp_buf_printf(out, "\n%d,%d,%s,%d,%.9f,%.9f,", rs->rank, r->step, r->timed ? "timed" : "warm-up", r->repeat,
                      (double)(r->start_ns - rs->r[first].start_ns) / 1e9, (double)(r->end_ns - r->start_ns) / 1e9);
        if (r->device_ns >= 0)
            rp_buf_printf(out, "%.9f", (double)r->device_ns / 1e9);
        rp_buf_printf(out, ",%" PRIu32 ",", r->samples);
        rp_csv_number(out, r->learning_rate);
        rp_buf_puts(out, ",");
        exact(out, r->loss);
        rp_buf_puts(out, ",");
        exact(out, r->grad_norm);
        for (int c = 0; c < rs->counter.n; c++)
            rp_buf_printf(out, ",%" PRIu32, rp_record_counts(rs, r)[c]);
    }
    rp_buf_puts(out, "\n");
}

static void download(struct rp_buf *out, const struct rp_section *s)
{
    RP_BUF text = {0};
    char file[48];
    if (s->records->n > ROWS_MAX) {
        rp_buf_printf(out, "<p>The %" PRId64 " records are in the bundle: <code>repro inspect BUNDLE %s</code></p>", s->records->n,
                      RP_STEPS);
        return;
    }
    csv(&text, s->records);
    snprintf(file, sizeof file, "steps-%.12s.csv", s->digest);
    rp_buf_puts(out, "<p>");
    rp_html_download(out, &text, file, RP_STEPS, "every step as CSV");
    rp_buf_puts(out, "</p>");
}

static void series(struct rp_section *s, const struct steps *c)
{
    char id[32], says[400];
    struct rp_series line[] = {
        {.kind = c->n > 300 ? RP_LINE : RP_DOTS, .x = c->number, .y = c->seconds, .n = c->n, .class = "s1"},
    };
    struct rp_band band = {-0.5, (double)c->warm - 0.5, "warm"};
    double low = INFINITY, high = 0;
    size_t at = 0;
    for (size_t i = c->warm; i < c->n; i++) {
        low = fmin(low, c->seconds[i]);
        if (c->seconds[i] > high)
            high = c->seconds[i], at = i;
    }
    snprintf(id, sizeof id, "b%d-series", s->index);
    snprintf(says, sizeof says, "%zu steps, %zu of them warm-up. Timed steps took %.4g to %.4g s, step %.0f the longest.", c->n, c->warm,
             c->n > c->warm ? low : 0, high, c->n > c->warm ? c->number[at] : 0);
    RP_BUF foot = {0};
    if (c->warm)
        rp_buf_puts(&foot, "<p class=\"note\">Shaded: warm-up, which no figure counts.</p>");
    download(&foot, s);
    struct rp_plot p = {.id = id, .title = "Time of every step", .x_label = "step", .y_label = "seconds", .says = says, .series = line,
                        .n_series = 1, .band = &band, .n_bands = c->warm > 0, .height = 190, .from_zero = 1, .foot = &foot,
                        .x0 = -0.5, .x1 = c->n ? c->number[c->n - 1] + 0.5 : 0.5};
    rp_plot(s->out, &p);
}

static void histogram(struct rp_section *s, const struct steps *c)
{
    double edge[BINS_MAX + 1], count[BINS_MAX] = {0}, low = INFINITY, high = -INFINITY, most = 0;
    size_t n = c->n - c->warm, bins = (size_t)ceil(2 * cbrt((double)n));
    char id[32], says[400];
    if (n < HISTOGRAM_MIN) {
        rp_buf_printf(s->out, "<p class=\"note\">%zu timed steps are too few to draw their distribution.</p>\n", n);
        return;
    }
    bins = bins > BINS_MAX ? BINS_MAX : bins;
    for (size_t i = c->warm; i < c->n; i++)
        low = fmin(low, c->seconds[i]), high = fmax(high, c->seconds[i]);
    double width = high > low ? (high - low) / (double)bins : fmax(high, 1e-9) * 0.01;
    for (size_t i = 0; i <= bins; i++)
        edge[i] = low + width * (double)i;
    for (size_t i = c->warm; i < c->n; i++) {
        size_t k = (size_t)((c->seconds[i] - low) / width);
        k = k < bins ? k : bins - 1;
        most = fmax(most, ++count[k]);
    }
    double median = json_number_value(rp_pointer(s->run, "/results/step_s/median"));
    double p90 = json_number_value(rp_pointer(s->run, "/results/step_s/p90"));
    double p99 = json_number_value(rp_pointer(s->run, "/results/step_s/p99"));
    struct rp_mark marks[] = {{median, 1, "median"}, {p90, 1, "p90"}, {p99, 1, "p99"}};
    struct rp_series bars = {.kind = RP_BARS, .x = edge, .y = count, .n = bins, .class = "s1"};
    snprintf(id, sizeof id, "b%d-histogram", s->index);
    snprintf(says, sizeof says, "Histogram of %zu timed steps in %zu bins from %.4g to %.4g s; the fullest has %.0f. Median %.4g s.", n,
             bins, low, high, most, median);
    if (n >= RP_P90_STEPS)
        snprintf(says + strlen(says), sizeof says - strlen(says), " 90th percentile %.4g s.", p90);
    struct rp_plot p = {.id = id, .title = "Distribution of the timed steps", .x_label = "seconds", .y_label = "steps", .says = says,
                        .series = &bars, .n_series = 1, .mark = marks, .n_marks = n >= RP_P99_STEPS ? 3 : n >= RP_P90_STEPS ? 2 : 1,
                        .height = 150, .from_zero = 1};
    rp_plot(s->out, &p);
}

static void windows(struct rp_section *s)
{
    const json_t *list = rp_pointer(s->run, "/results/windows");
    char pointer[64];
    static const char *const cells[][2] = {{"repeat", "d0"}, {"steps", "d0"}, {"samples", "d0"}, {"seconds", "d3"},
                                           {"throughput", "d3"}};
    if (json_array_size(list) < 2)
        return;
    snprintf(pointer, sizeof pointer, "#repeat|#steps|#samples|#seconds|#%.20s", rp_json_text_at(s->run, "results/throughput/unit"));
    rp_table_open(s->out, "Timed windows", pointer);
    for (size_t i = 0; i < json_array_size(list) && i < 100; i++) {
        rp_buf_puts(s->out, "<tr>");
        for (size_t k = 0; k < sizeof cells / sizeof *cells; k++) {
            snprintf(pointer, sizeof pointer, "/results/windows/%zu/%s", i, cells[k][0]);
            rp_buf_puts(s->out, "<td class=\"r\">");
            rp_run_figure(s, pointer, cells[k][1]);
            rp_buf_puts(s->out, "</td>");
        }
        rp_buf_puts(s->out, "</tr>\n");
    }
    rp_table_close(s->out);
}

/* What the model counts, and which part of another counter it is. */
static void counters(struct rp_section *s)
{
    char pointer[64], unit[64], title[160];
    size_t i;
    json_t *c;
    json_array_foreach((json_t *)rp_pointer(s->run, "/results/counters"), i, c) {
        const char *name = rp_json_text_at(c, "name"), *of = rp_json_text_at(c, "of"); /* a model's names: verify has compared them */
        snprintf(pointer, sizeof pointer, "/results/counters/%zu/per_s", i);
        snprintf(unit, sizeof unit, "%.40s/s", name);
        rp_run_row(s, name, pointer, "d1", unit);
        snprintf(pointer, sizeof pointer, "/results/counters/%zu/share", i);
        snprintf(title, sizeof title, "%.60s, of %.60s", name, of);
        rp_run_row(s, title, pointer, "d2*100", "%");
    }
}

static void figures(struct rp_section *s)
{
    static const char *const rows[][4] = {
        {"step, median", "/results/step_s/median", "d4", "s"},
        {"step, 90th percentile", "/results/step_s/p90", "d4", "s"},
        {"step, 99th percentile", "/results/step_s/p99", "d4", "s"},
        {"shortest step", "/results/step_s/min", "d4", "s"},
        {"longest step", "/results/step_s/max", "d4", "s"},
        {"timed steps", "/results/steps/timed", "d0", ""},
        {"samples per step", "/results/samples_per_step", "d0", "/model/sample_unit"},
        {"matrix products", "/results/flops_per_s", "d2/1e9", "GFLOP/s"},
        {"device at work", "/results/device_share", "d2*100", "% of the windows"},
    };
    rp_table_open(s->out, "Figures of the timed windows", "figure|value");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rp_section_has_steps_for(s, rows[i][1]))
            rp_run_row(s, rows[i][0], rows[i][1], rows[i][2], rows[i][3]);
    counters(s);
    rp_table_close(s->out);
    if (!rp_section_has_steps_for(s, "/results/step_s/p99"))
        rp_buf_printf(s->out, "<p class=\"note\">The 90th percentile is shown from %d timed steps on, the 99th from %d: of fewer they are "
                              "the longest step.</p>\n",
                      RP_P90_STEPS, RP_P99_STEPS);
}

static void method(struct rp_section *s)
{
    rp_buf_puts(s->out, "<p class=\"note\">Throughput is the ");
    rp_run_figure(s, "/results/estimator", "t");
    rp_buf_puts(s->out, "; the window is the ");
    rp_run_figure(s, "/results/window", "t");
    rp_buf_puts(s->out, ". Interval: ");
    rp_run_figure(s, "/results/bootstrap/method", "t");
    rp_buf_puts(s->out, ".</p>\n");
}

void rp_section_steps(struct rp_section *s)
{
    struct steps c = columns_of(s->records);
    rp_section_open(s, "steps", "Throughput and steps");
    if (c.n) {
        series(s, &c);
        histogram(s, &c);
    } else {
        rp_buf_puts(s->out, "<p>No step was finished.</p>\n");
    }
    rp_buf_puts(s->out, "<div class=\"pair\">");
    windows(s);
    figures(s);
    rp_buf_puts(s->out, "</div>");
    method(s);
    rp_section_close(s);
    columns_fini(&c);
}

static void curve(struct rp_section *s, const struct steps *c, const double *y, const char *name, const char *title, const char *class)
{
    char id[48], says[300];
    double low = INFINITY, high = -INFINITY;
    size_t gaps = 0;
    for (size_t i = 0; i < c->n; i++)
        if (isfinite(y[i]))
            low = fmin(low, y[i]), high = fmax(high, y[i]);
        else
            gaps++;
    snprintf(id, sizeof id, "b%d-%s", s->index, name);
    snprintf(says, sizeof says, "%.6g at the first step, %.6g at the last, between %.6g and %.6g over %zu steps%s", y[0], y[c->n - 1], low,
             high, c->n, gaps ? "; gaps are values that are not finite." : ".");
    struct rp_series line[] = {{.kind = RP_LINE, .x = c->number, .y = y, .n = c->n, .class = class},
                               {.kind = RP_DOTS, .x = c->number, .y = y, .n = c->n <= 100 ? c->n : 0, .class = class}};
    struct rp_plot p = {.id = id, .title = title, .x_label = "step", .y_label = "", .says = says, .series = line, .n_series = 2,
                        .height = 160};
    rp_plot(s->out, &p);
}

void rp_section_loss(struct rp_section *s)
{
    struct steps c = columns_of(s->records);
    rp_section_open(s, "loss", "Loss");
    if (c.n) {
        rp_buf_puts(s->out, "<div class=\"pair\">");
        curve(s, &c, c.loss, "losses", "Loss of every step", "s2");
        curve(s, &c, c.norm, "norms", "Norm of the gradients", "s3");
        rp_buf_puts(s->out, "</div>");
    }
    rp_table_open(s->out, "To the last bit", "value|decimal|exact");
    static const char *const rows[][2] = {{"first loss", "/results/loss_first"}, {"last loss", "/results/loss_last"},
                                          {"first norm of the gradients", "/results/grad_norm_first"},
                                          {"last norm of the gradients", "/results/grad_norm_last"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rp_buf_printf(s->out, "<tr><th scope=\"row\">%s</th><td>", rows[i][0]);
        rp_run_figure(s, rows[i][1], "x");
        rp_buf_puts(s->out, "</td><td><code>");
        rp_run_figure(s, rows[i][1], "t");
        rp_buf_puts(s->out, "</code></td></tr>\n");
    }
    rp_table_close(s->out);
    rp_section_close(s);
    columns_fini(&c);
}
