/* Clocks, power, temperature and throttling of the device during training, over time: from the telemetry of the run. */
#include "page/section.h"

#include "base/json.h"
#include "report/tables.h"
#include "report/words.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REASONS_MAX 16
#define BANDS_MAX 400

/* Samples as columns of time since the first step. */
struct device_columns {
    size_t n;
    double start_ns, *t;
    double step; /* seconds between two samples */
};

static struct device_columns times_of(const struct rp_section *s)
{
    struct device_columns d = {.n = (size_t)s->telemetry->n,
                               .t = rp_alloc(((size_t)s->telemetry->n + 1) * sizeof(double))};
    d.start_ns = (double)s->telemetry->sample->ns;
    for (int64_t i = 0; i < s->records->n; i++)
        if (s->records->r[i].step >= 0) {
            d.start_ns = (double)s->records->r[i].start_ns;
            break;
        }
    for (size_t i = 0; i < d.n; i++)
        d.t[i] = ((double)s->telemetry->sample[i].ns - d.start_ns) / 1e9;
    d.step = RP_TELEMETRY_PERIOD_NS / 1e9 * (double)(s->telemetry->every > 0 ? s->telemetry->every : 1);
    return d;
}

/* Is sample i throttled, for this reason or, NULL, for any that is not harmless? */
static int throttled(const struct rp_telemetry *s, size_t i, const char *reason)
{
    const struct rp_device_sample *one = &s->sample[i];
    for (int64_t k = 0; k < one->throttle_n; k++)
        if (reason ? strcmp(one->throttle[k], reason) == 0 : !rp_throttle_is_harmless(one->throttle[k]))
            return 1;
    return 0;
}

static size_t bands_of(struct rp_band *band, const struct rp_section *s, const struct device_columns *d,
                       const char *reason)
{
    size_t n = 0;
    for (size_t i = 0; i < d->n && n < BANDS_MAX; i++) {
        if (!throttled(s->telemetry, i, reason))
            continue;
        double from = d->t[i];
        while (i + 1 < d->n && throttled(s->telemetry, i + 1, reason))
            i++;
        band[n++] = (struct rp_band){from, d->t[i] + d->step, "throttled"};
    }
    return n;
}

static void put_csv(struct rp_buf *out, const struct rp_section *s, const struct device_columns *d)
{
    rp_buf_puts(out, "seconds");
    for (const struct rp_telemetry_value *v = rp_telemetry_values; v->key; v++)
        rp_buf_printf(out, ",%s", v->key);
    rp_buf_puts(out, ",throttle\n");
    for (size_t i = 0; i < d->n; i++) {
        const struct rp_device_sample *one = &s->telemetry->sample[i];
        RP_BUF words = {0};
        rp_buf_printf(out, "%.9f", d->t[i]);
        for (const struct rp_telemetry_value *v = rp_telemetry_values; v->key; v++) {
            rp_buf_puts(out, ",");
            rp_csv_number(out, rp_sample_value(one, v->key));
        }
        for (int64_t k = 0; k < one->throttle_n; k++)
            rp_buf_printf(&words, "%s%s", k ? " " : "", one->throttle[k]);
        rp_buf_puts(out, ",");
        rp_csv_text(out, rp_buf_text(&words));
        rp_buf_puts(out, "\n");
    }
}

struct quantity {
    const char *key, *name, *title, *unit, *class;
    double scale;
};

static void plot_quantity(struct rp_section *s, const struct device_columns *d, const struct rp_band *band,
                          size_t n_bands, const struct quantity *q, int last)
{
    char id[48], words[300];
    double low = INFINITY, high = -INFINITY, *y = rp_alloc((d->n + 1) * sizeof *y);
    for (size_t i = 0; i < d->n; i++) {
        y[i] = rp_sample_value(&s->telemetry->sample[i], q->key) * q->scale;
        if (isfinite(y[i]))
            low = fmin(low, y[i]), high = fmax(high, y[i]);
    }
    if (low <= high) {
        snprintf(id, sizeof id, "b%d-%s", s->index, q->name);
        snprintf(words, sizeof words, "Over %.1f s between %.6g and %.6g %s; %zu throttled periods are shaded.",
                 d->t[d->n - 1] - d->t[0], low, high, q->unit, n_bands);
        struct rp_series line = {.kind = RP_LINE, .x = d->t, .y = y, .n = d->n, .class = q->class};
        struct rp_plot p = {.id = id,
                            .title = q->title,
                            .x_label = last ? "seconds since the first step began" : NULL,
                            .x_name = "second",
                            .y_label = q->unit,
                            .words = words,
                            .series = &line,
                            .n_series = 1,
                            .band = band,
                            .n_bands = n_bands,
                            .height = 110,
                            .from_zero = 1};
        rp_plot(s->out, &p);
    }
    free(y);
}

/* Every reason that was reported, with its periods and its share. */
static void put_reasons(struct rp_section *s, const struct device_columns *d, struct rp_band *band)
{
    const struct rp_telemetry_figures *all = s->figures->telemetry;
    double t0 = d->t[0], t1 = d->t[d->n - 1] + d->step;
    if (!all->throttle_n) {
        rp_buf_puts(s->out, all->throttle_samples ? "<p>No device sample of the timed windows was throttled.</p>\n"
                                                  : "<p>It is unknown whether the device was throttled.</p>\n");
        return;
    }
    rp_buf_puts(s->out, "<div class=\"reasons\">");
    rp_html_table(s->out, "Reasons for throttling, over the time of the run",
                  "reason|#of the timed device samples, %|when");
    for (int64_t k = 0; k < all->throttle_n && k < REASONS_MAX; k++) {
        RP_FREE char *row = rp_asprintf("<tr><th scope=\"row\">{/telemetry/throttle/%lld/reason t}</th><td class=\"r\">"
                                        "{/telemetry/throttle/%lld/share d1*100}</td><td class=\"lane\">",
                                        (long long)k, (long long)k);
        rp_section_fill(s, row);
        rp_buf_puts(s->out, "<svg width=\"100%\" height=\"14\" viewBox=\"0 0 1000 14\" preserveAspectRatio=\"none\" "
                            "aria-hidden=\"true\"><rect class=\"lane\" width=\"1000\" height=\"14\"/>");
        size_t n = bands_of(band, s, d, all->throttle[k].reason);
        for (size_t i = 0; i < n; i++)
            rp_buf_printf(s->out, "<rect class=\"throttle\" x=\"%.1f\" width=\"%.1f\" height=\"14\"/>",
                          (band[i].from - t0) / (t1 - t0) * 1000,
                          fmax((band[i].to - band[i].from) / (t1 - t0) * 1000, 0.8));
        rp_buf_printf(s->out, "</svg><span class=\"hidden\">%zu periods</span></td></tr>\n", n);
    }
    rp_html_table_end(s->out);
    rp_buf_puts(s->out, "</div>");
}

/* The device of a command whose samples the run has. */
static int first_sampled(const struct rp_section *s)
{
    const struct rp_command_figures *f = s->b->v->run->observed;
    int i = 0;
    while (i + 1 < f->device_n && !f->device[i].telemetry)
        i++;
    return i;
}

void rp_section_device(struct rp_section *s)
{
    static const struct quantity plots[] = {
        {"utilization", "load", "Time in which kernels ran", "%", "s1", 1},
        {"clock_sm_hz", "clock", "Clock of the multiprocessors", "MHz", "s1", 1e-6},
        {"power_mw", "power", "Power", "W", "s2", 1e-3},
        {"temperature_c", "temperature", "Temperature", "degrees Celsius", "s3", 1},
    };
    RP_BUF text = {0};
    const int64_t without = rp_without_telemetry(s->facts);
    if (without >= 0) {
        RP_FREE char *why =
            rp_asprintf("<p>Rank %lld has no telemetry, or it ended early: {/rank/%lld/no_telemetry t}.</p>\n",
                        (long long)without, (long long)without);
        rp_section_fill(s, why);
    }
    const struct rp_command_facts *c = s->b->v->run->command;
    for (int64_t i = 0; c && i < c->device_n; i++) {
        RP_FREE char *why =
            rp_asprintf("<p>Device %lld has no telemetry, or it ended early: {/device/%lld/no_telemetry t}.</p>\n",
                        (long long)i, (long long)i);
        if (c->device[i].no_telemetry)
            rp_section_fill(s, why);
    }
    if (s->telemetry->n == 0 || !s->figures->telemetry) {
        if (!c)
            rp_section_fill(s, "<p>No drawing: rank {/world/slowest d0}, the slowest, has no telemetry.</p>\n");
        rp_section_table(s, rp_table_devices);
        return;
    }
    struct device_columns d = times_of(s);
    if (c && c->device_n > 1)
        rp_buf_printf(s->out, "<p>Drawn is device %d; the tables are of all.</p>\n", first_sampled(s));
    if (s->facts->rank_n > 1)
        rp_section_fill(
            s, "<p>Drawn is the device of rank {/world/slowest d0}, the slowest; the tables are of all ranks.</p>\n");
    struct rp_band *band = rp_alloc(BANDS_MAX * sizeof *band);
    size_t n = bands_of(band, s, &d, NULL);
    for (size_t i = 0; i < sizeof plots / sizeof *plots; i++)
        plot_quantity(s, &d, band, n, &plots[i], i + 1 == sizeof plots / sizeof *plots);
    if (n)
        rp_buf_puts(s->out, "<p class=\"note\">Shaded: the clocks were throttled, for a reason other than idleness or "
                            "a setting.</p>\n");
    put_reasons(s, &d, band);
    rp_section_table(s, rp_table_telemetry);
    rp_section_table(s, rp_table_devices);
    rp_section_fill(s, c ? "<p>Energy while the command ran: {/telemetry/energy_j d1} J, the sum of all devices.</p>\n"
                         : "<p>Energy of the timed windows: {/telemetry/energy_j d1} J, "
                           "{/telemetry/energy_per_sample_j d4} J per training sample (" RP_WORDS_ENERGY ").</p>\n");
    put_csv(&text, s, &d);
    rp_section_download(s, &text, "device-sample",
                        c ? RP_OF_DEVICE(first_sampled(s)) : RP_OF_RANK(s->rank, ".telemetry.jsonl"));
    free(band);
    free(d.t);
}
