/* The device while it trained: clocks, power, temperature and what throttled it, over time; from the samples beside the run. */
#include "page/section.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REASONS_MAX 16
#define BANDS_MAX 400

/* Samples as columns of time since the first step. */
struct device {
    size_t n;
    double start_ns, *t;
    double step; /* seconds between two samples */
};

static double value(const struct rp_samples *s, size_t i, const char *key)
{
    const json_t *v = json_object_get(json_array_get(s->line, i), key);
    return v ? json_number_value(v) : NAN;
}

static struct device times_of(const struct rp_section *s)
{
    struct device d = {.n = (size_t)s->samples->n, .t = rp_alloc(((size_t)s->samples->n + 1) * sizeof(double))};
    d.start_ns = (double)rp_sample_ns(s->samples, 0);
    for (int64_t i = 0; i < s->records->n; i++)
        if (s->records->r[i].step >= 0) {
            d.start_ns = (double)s->records->r[i].start_ns;
            break;
        }
    for (size_t i = 0; i < d.n; i++)
        d.t[i] = ((double)rp_sample_ns(s->samples, (int64_t)i) - d.start_ns) / 1e9;
    d.step = RP_SAMPLE_PERIOD_NS / 1e9 * (double)(s->samples->every > 0 ? s->samples->every : 1);
    return d;
}

/* Idle clocks and clocks that somebody set are no throttling. */
static int harmless(const char *reason)
{
    return strcmp(reason, "gpu_idle") == 0 || strcmp(reason, "applications_clocks_setting") == 0;
}

/* Is sample i throttled, for this reason or, NULL, for any that harms? */
static int throttled(const struct rp_samples *s, size_t i, const char *reason)
{
    size_t k;
    json_t *word;
    json_array_foreach(json_object_get(json_array_get(s->line, i), "throttle"), k, word)
        if (reason ? strcmp(json_string_value(word), reason) == 0 : !harmless(json_string_value(word)))
            return 1;
    return 0;
}

static size_t bands_of(struct rp_band *band, const struct rp_section *s, const struct device *d, const char *reason)
{
    size_t n = 0;
    for (size_t i = 0; i < d->n && n < BANDS_MAX; i++) {
        if (!throttled(s->samples, i, reason))
            continue;
        double from = d->t[i];
        while (i + 1 < d->n && throttled(s->samples, i + 1, reason))
            i++;
        band[n++] = (struct rp_band){from, d->t[i] + d->step, "throttled"};
    }
    return n;
}

static void csv(struct rp_buf *out, const struct rp_section *s, const struct device *d)
{
    static const char *const keys[] = {"clock_sm_hz", "clock_memory_hz", "power_mw", "temperature_c", "utilization"};
    size_t k;
    json_t *word;
    rp_buf_puts(out, "seconds,clock_sm_hz,clock_memory_hz,power_mw,temperature_c,utilization,throttle\n");
    for (size_t i = 0; i < d->n; i++) {
        RP_BUF words = {0};
        rp_buf_printf(out, "%.9f", d->t[i]);
        for (k = 0; k < sizeof keys / sizeof *keys; k++) {
            rp_buf_puts(out, ",");
            rp_csv_number(out, value(s->samples, i, keys[k]));
        }
        json_array_foreach(json_object_get(json_array_get(s->samples->line, i), "throttle"), k, word)
            rp_buf_printf(&words, "%s%s", k ? " " : "", json_string_value(word));
        rp_buf_puts(out, ",");
        rp_csv_text(out, rp_buf_text(&words));
        rp_buf_puts(out, "\n");
    }
}

static void one(struct rp_section *s, const struct device *d, const struct rp_band *band, size_t n_bands, const char *key, double scale,
                const char *name, const char *title, const char *unit, const char *class, int last)
{
    char id[48], says[300];
    double low = INFINITY, high = -INFINITY, *y = rp_alloc((d->n + 1) * sizeof *y);
    for (size_t i = 0; i < d->n; i++) {
        y[i] = value(s->samples, i, key) * scale;
        if (isfinite(y[i]))
            low = fmin(low, y[i]), high = fmax(high, y[i]);
    }
    if (low <= high) {
        snprintf(id, sizeof id, "b%d-%s", s->index, name);
        snprintf(says, sizeof says, "Over %.1f s between %.6g and %.6g %s; %zu stretches with throttling are shaded.",
                 d->t[d->n - 1] - d->t[0], low, high, unit, n_bands);
        struct rp_series line = {.kind = RP_LINE, .x = d->t, .y = y, .n = d->n, .class = class};
        struct rp_plot p = {.id = id, .title = title, .x_label = last ? "seconds since the first step began" : NULL, .y_label = unit,
                            .says = says, .series = &line, .n_series = 1, .band = band, .n_bands = n_bands, .height = 110,
                            .from_zero = 1};
        rp_plot(s->out, &p);
    }
    free(y);
}

/* Every reason that was named, with its stretches and its share. */
static void reasons(struct rp_section *s, const struct device *d, struct rp_band *band)
{
    const json_t *shares = rp_pointer(s->run, "/samples/throttle");
    const char *reason;
    json_t *share;
    int shown = 0;
    double t0 = d->t[0], t1 = d->t[d->n - 1] + d->step;
    if (!json_object_size(shares)) {
        rp_buf_puts(s->out, json_is_object(shares) ? "<p>No sample of the timed windows was throttled.</p>\n"
                                                   : "<p>Whether the device was throttled is not known.</p>\n");
        return;
    }
    rp_buf_puts(s->out, "<div class=\"reasons\">");
    rp_table_open(s->out, "What held the clocks back, over the time of the run", "reason|#of the timed samples, %|when");
    json_object_foreach((json_t *)shares, reason, share) {
        RP_BUF pointer = {0};
        if (shown++ == REASONS_MAX)
            break;
        rp_buf_puts(&pointer, "/samples/throttle");
        rp_pointer_add(&pointer, reason);
        rp_buf_puts(s->out, "<tr><th scope=\"row\">");
        rp_html_text(s->out, reason);
        rp_buf_puts(s->out, "</th><td class=\"r\">");
        rp_run_figure(s, rp_buf_text(&pointer), "d1*100");
        rp_buf_puts(s->out, "</td><td class=\"lane\"><svg width=\"100%\" height=\"14\" viewBox=\"0 0 1000 14\" "
                            "preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect class=\"lane\" width=\"1000\" height=\"14\"/>");
        size_t n = bands_of(band, s, d, reason);
        for (size_t i = 0; i < n; i++)
            rp_buf_printf(s->out, "<rect class=\"throttle\" x=\"%.1f\" width=\"%.1f\" height=\"14\"/>",
                          (band[i].from - t0) / (t1 - t0) * 1000, fmax((band[i].to - band[i].from) / (t1 - t0) * 1000, 0.8));
        rp_buf_printf(s->out, "</svg><span class=\"hidden\">%zu stretches</span></td></tr>\n", n);
    }
    rp_table_close(s->out);
    rp_buf_puts(s->out, "</div>");
}

static void spreads(struct rp_section *s)
{
    static const struct {
        const char *name, *key, *form, *unit;
    } rows[] = {
        {"clock of the multiprocessors", "clock_sm_hz", "d0/1e6", "MHz"}, {"clock of the memory", "clock_memory_hz", "d0/1e6", "MHz"},
        {"power", "power_w", "d1", "W"},                                  {"temperature", "temperature_c", "d0", "&deg;C"},
        {"utilization", "utilization", "d0", "%"},
    };
    static const char *const columns[] = {"min", "median", "mean", "max"};
    char pointer[64];
    rp_table_open(s->out, "Within the timed windows", "value|#min|#median|#mean|#max");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rp_buf_printf(s->out, "<tr><th scope=\"row\">%s <span class=\"unit\">%s</span></th>", rows[i].name, rows[i].unit);
        for (size_t k = 0; k < 4; k++) {
            snprintf(pointer, sizeof pointer, "/samples/%s/%s", rows[i].key, columns[k]);
            rp_buf_puts(s->out, "<td class=\"r\">");
            rp_run_figure(s, pointer, rows[i].form);
            rp_buf_puts(s->out, "</td>");
        }
        rp_buf_puts(s->out, "</tr>\n");
    }
    rp_table_close(s->out);
    rp_buf_puts(s->out, "<p>Energy of the timed windows: ");
    rp_run_figure(s, "/samples/energy_j", "d1");
    rp_buf_puts(s->out, " J, ");
    rp_run_figure(s, "/samples/energy_per_sample_j", "d4");
    rp_buf_puts(s->out, " J per sample (");
    rp_run_figure(s, "/samples/energy_formula", "t");
    rp_buf_puts(s->out, ").</p>\n");
}

void rp_section_device(struct rp_section *s)
{
    static const struct {
        const char *key, *name, *title, *unit, *class;
        double scale;
    } plots[] = {
        {"clock_sm_hz", "clock", "Clock of the multiprocessors", "MHz", "s1", 1e-6},
        {"power_mw", "power", "Power", "W", "s2", 1e-3},
        {"temperature_c", "temperature", "Temperature", "degrees Celsius", "s3", 1},
    };
    if (!json_object_get(s->run, "samples"))
        return;
    rp_section_open(s, "device", "The device while it trained");
    if (s->samples->n == 0) {
        rp_buf_puts(s->out, "<p>It was not sampled: ");
        rp_run_figure(s, "/samples/reason", "t");
        rp_buf_puts(s->out, ".</p>\n");
        rp_section_close(s);
        return;
    }
    struct device d = times_of(s);
    struct rp_band *band = rp_alloc(BANDS_MAX * sizeof *band);
    size_t n = bands_of(band, s, &d, NULL);
    for (size_t i = 0; i < sizeof plots / sizeof *plots; i++)
        one(s, &d, band, n, plots[i].key, plots[i].scale, plots[i].name, plots[i].title, plots[i].unit, plots[i].class,
            i + 1 == sizeof plots / sizeof *plots);
    if (n)
        rp_buf_puts(s->out, "<p class=\"note\">Shaded: something other than idleness or a setting held the clocks back.</p>\n");
    reasons(s, &d, band);
    spreads(s);
    RP_BUF text = {0};
    char file[48];
    csv(&text, s, &d);
    snprintf(file, sizeof file, "samples-%.12s.csv", s->digest);
    rp_buf_puts(s->out, "<p>");
    rp_html_download(s->out, &text, file, RP_SAMPLES, "every sample as CSV");
    rp_buf_puts(s->out, "</p>\n");
    free(band);
    free(d.t);
    rp_section_close(s);
}
