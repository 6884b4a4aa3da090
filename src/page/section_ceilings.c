/* The ceilings of the device, how close the run came to them, and how memory was used. */
#include "page/section.h"

#include "base/json.h"
#include "base/text.h"
#include "report/tables.h"
#include "report/words.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The minimum of bytes per step: parameters, gradients and optimizer state, each read once and written once. */
static double least_traffic(const struct rp_class_bytes *b)
{
    return 2 * ((double)b->parameters + (double)b->gradients + (double)b->optimizer_state);
}

/* The run is a line, not a point, because its memory traffic was not measured. The line ends at the FLOPs per byte of
 * the minimum traffic.
 */
static void plot_roofline(struct rp_section *s, double gemm, double copy)
{
    double run = s->figures->results.flops_per_s, ridge = gemm / copy;
    double work = s->figures->model.flops_per_sample * (double)s->figures->results.samples_per_step;
    double most = work / least_traffic(&s->facts->plan.bytes), left = ridge / 100,
           right = fmax(ridge * 100, isfinite(most) ? most * 3 : 0);
    double x[] = {left, ridge, right}, y[] = {copy * left, gemm, gemm};
    double at[] = {fmin(fmax(run / copy, left), right), isfinite(most) ? most : right}, level[] = {run, run};
    char id[32], words[500];
    struct rp_series lines[] = {
        {.kind = RP_LINE, .x = x, .y = y, .n = 3, .class = "s1", .name = "ceiling of the device"},
        {.kind = RP_LINE, .x = at, .y = level, .n = 2, .class = "s2", .name = "this run"},
    };
    snprintf(id, sizeof id, "b%d-roofline", s->index);
    snprintf(words, sizeof words,
             "Roofline: memory of %.4g GB/s and GEMMs of %.4g GFLOP/s meet at %.4g FLOP per byte. The run "
             "reached %.4g GFLOP/s.",
             copy / 1e9, gemm / 1e9, ridge, run / 1e9);
    struct rp_plot p = {.id = id,
                        .title = "Roofline",
                        .x_label = "FLOP per byte of memory traffic",
                        .y_label = "FLOP/s",
                        .words = words,
                        .series = lines,
                        .n_series = isfinite(run) && run > 0 ? 2 : 1,
                        .height = 200,
                        .log_x = 1,
                        .log_y = 1};
    rp_plot(s->out, &p);
    rp_buf_puts(s->out, "<p class=\"note\">The run is a line because its memory traffic was not measured: it begins "
                        "where memory would limit it and ends where a step moves parameters, gradients and optimizer "
                        "state only once.</p>\n");
}

void rp_section_ceilings(struct rp_section *s)
{
    const struct rp_ceiling_figures *c = s->figures->ceilings;
    if (!c) {
        rp_buf_puts(s->out, "<p>No evidence: this run did not measure any ceilings.</p>\n");
        return;
    }
    const struct rp_ceiling_rates *sides[] = {c->before, c->after};
    double gemm = NAN, copy = NAN; /* the higher ones */
    for (int i = 0; i < 2; i++) {
        gemm = fmax(gemm, sides[i] ? sides[i]->gemm_flops_per_s : NAN);
        copy = fmax(copy, sides[i] ? sides[i]->copy_bytes_per_s : NAN);
    }
    if (gemm > 0 && copy > 0)
        plot_roofline(s, gemm, copy);
    rp_section_table(s, rp_table_ceilings);
    if (!isnan(c->gemm_share))
        rp_section_fill(s, "<p>The run achieved <b>{/ceilings/gemm_share d1*100}&nbsp;%</b> of the GEMM ceiling "
                           "(" RP_WORDS_ACHIEVED ").</p>\n");
    if (!c->exchange)
        return;
    rp_section_table(s, rp_table_exchange);
    rp_section_fill(
        s,
        "<p>A rank sends {/ceilings/exchange/bytes_per_step d1*1e-6}&nbsp;MB a step to data-parallel ranks, which at "
        "{/ceilings/exchange/bus_bytes_per_s d3*1e-9}&nbsp;GB/s takes at least <b>{/ceilings/exchange/least_s "
        "d3*1e3}&nbsp;ms</b>; <b>{/ceilings/exchange/measured_s d3*1e3}&nbsp;ms</b> were measured "
        "(" RP_WORDS_LEAST ").</p>\n<p class=\"note\">" RP_WORDS_EXCHANGE ".</p>\n");
}

/* ---- memory ---- */

static double bytes_of_class(const struct rp_section *s, int k)
{
    return (double)*(const int64_t *)((const char *)&s->facts->plan.bytes + rp_type_class_bytes.field[k].offset);
}

/* One bar of the plan, divided by class; the peak as a line across. */
static void plot_memory(struct rp_section *s, double total, double peak)
{
    double scale = 1000 / fmax(total, isfinite(peak) ? peak : 0), x = 0;
    rp_buf_printf(
        s->out,
        "<figure id=\"b%d-memory-bar\"><figcaption><b>Memory planned</b> <span class=\"unit\">by "
        "class</span></figcaption><div class=\"bar\" role=\"img\" aria-label=\"Planned memory by class: the table "
        "below has the figures.\"><svg width=\"100%%\" height=\"34\" viewBox=\"0 0 1000 34\" "
        "preserveAspectRatio=\"none\" aria-hidden=\"true\">",
        s->index);
    rp_buf_puts(s->out, "<rect class=\"lane\" y=\"4\" width=\"1000\" height=\"26\"/>");
    for (int k = 0; k < rp_type_class_bytes.n; k++) {
        const double w = bytes_of_class(s, k) * scale;
        rp_buf_printf(s->out, "<rect class=\"c%d\" x=\"%.2f\" y=\"4\" width=\"%.2f\" height=\"26\"/>", k % 8, x, w);
        x += w;
    }
    if (isfinite(peak))
        rp_buf_printf(s->out, "<path class=\"mark\" d=\"M%.1f 0V34\"/>", fmin(peak * scale, 999));
    rp_buf_puts(s->out, "</svg></div></figure>\n");
    if (isfinite(peak))
        rp_buf_printf(s->out, "<p class=\"note\">The line: %s.</p>\n",
                      s->facts->rank[s->rank].device_bytes ? "memory reserved on the device"
                                                           : "peak memory of the process");
}

static void put_class(struct rp_section *s, int k)
{
    const char *name = rp_type_class_bytes.field[k].name;
    RP_FREE char *pointer = rp_asprintf("/plan/bytes/%s", name), *words = rp_strdup(name);
    for (char *p = words; (p = strchr(p, '_'));)
        *p = ' ';
    rp_buf_printf(s->out,
                  "<tr><th scope=\"row\"><svg class=\"key\" width=\"12\" height=\"12\" aria-hidden=\"true\"><rect "
                  "class=\"c%d\" width=\"12\" height=\"12\"/></svg> planned: %s</th><td class=\"r\">",
                  k % 8, words);
    rp_figure(s->out, s->run, RP_RUN, pointer, "d1/1048576");
    rp_buf_puts(s->out, "</td></tr>\n");
}

static double known(int64_t bytes)
{
    return bytes == RP_NO_INTEGER ? NAN : (double)bytes;
}

void rp_section_memory(struct rp_section *s)
{
    static const char *const rows[][2] = {{"planned: on the host", "/plan/host_bytes"},
                                          {"planned: reading data", "/plan/decoder_bytes"},
                                          {"planned: connections of ranks", "/plan/connection_bytes"},
                                          {"planned in total", "/plan/total_bytes"},
                                          {"reserved on the device", "~/device_bytes/reserved"},
                                          {"decrease of free memory on the device", "~/device_bytes/used"},
                                          {"peak of the process", "/peak_rss_bytes"},
                                          {"available before", "/plan/available_bytes"}};
    const struct rp_device_bytes *on_device = s->facts->rank[s->rank].device_bytes;
    const double peak = known(on_device ? on_device->reserved : s->figures->peak_rss_bytes);
    double total = 0;
    for (int k = 0; k < rp_type_class_bytes.n; k++)
        total += bytes_of_class(s, k);
    if (total > 0)
        plot_memory(s, total, peak);
    rp_html_table(s->out, "Memory in MiB", "quantity|#MiB");
    for (int k = 0; k < rp_type_class_bytes.n; k++)
        put_class(s, k);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!rp_section_has(s, rows[i][1]) || (i == 1 && s->facts->plan.decoder_bytes == 0))
            continue;
        RP_FREE char *row = rp_asprintf("<tr><th scope=\"row\">%s</th><td class=\"r\">{%s d1/1048576}</td></tr>\n",
                                        rows[i][0], rows[i][1]);
        rp_section_fill_slowest(s, row);
    }
    rp_html_table_end(s->out);
    if (s->facts->rank_n > 1)
        rp_buf_puts(s->out, "<p class=\"note\">The plan is that of rank 0, the device that of the slowest rank, and "
                            "the peak of the process the most of any rank.</p>\n");
}
