/* The ceilings of the device, how close the run came to them, and how memory was used. */
#include "page/section.h"

#include "base/json.h"
#include "report/tables.h"

#include <math.h>
#include <stdio.h>

#define CLASSES_MAX 16

static double higher(const json_t *run, const char *name)
{
    char pointer[64];
    double best = NAN;
    static const char *const when[] = {"before", "after"};
    for (int i = 0; i < 2; i++) {
        snprintf(pointer, sizeof pointer, "ceilings/%s/%s", when[i], name);
        best = fmax(best, rp_json_number_at(run, pointer));
    }
    return best;
}

/* The minimum of bytes per step: parameters, gradients and optimizer state, each read once and written once. */
static double least_traffic(const json_t *run)
{
    return 2 * (rp_json_number_at(run, "plan/bytes/parameters") + rp_json_number_at(run, "plan/bytes/gradients") +
                rp_json_number_at(run, "plan/bytes/optimizer state"));
}

/* The run is a line, not a point, because its memory traffic was not measured. The line ends at the FLOPs per byte of the minimum traffic.
 */
static void plot_roofline(struct rp_section *s, double gemm, double copy)
{
    double run = rp_json_number_at(s->run, "results/flops_per_s"), ridge = gemm / copy;
    double work = rp_json_number_at(s->run, "plan/flops_per_sample") * rp_json_number_at(s->run, "results/samples_per_step");
    double most = work / least_traffic(s->run), left = ridge / 100, right = fmax(ridge * 100, isfinite(most) ? most * 3 : 0);
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
    rp_buf_puts(
        s->out,
        "<p class=\"note\">The run is a line because its memory traffic was not measured: it begins where memory would limit it and "
        "ends where a step moves parameters, gradients and optimizer state only once.</p>\n");
}

void rp_section_ceilings(struct rp_section *s)
{
    double gemm = higher(s->run, "gemm/flops_per_s"), copy = higher(s->run, "copy/bytes_per_s");
    if (!rp_section_has(s, "/ceilings")) {
        rp_buf_puts(s->out, "<p>No evidence: this run did not measure any ceilings.</p>\n");
        return;
    }
    if (isfinite(gemm) && isfinite(copy) && gemm > 0 && copy > 0)
        plot_roofline(s, gemm, copy);
    rp_section_table(s, rp_table_ceilings);
    if (rp_section_has(s, "/ceilings/achieved/gemm_share"))
        rp_section_fill(s, "<p>The run achieved <b>{/ceilings/achieved/gemm_share d1*100}&nbsp;%</b> of the GEMM ceiling "
                           "({/ceilings/achieved/formula t}).</p>\n");
    if (!rp_section_has(s, "/ceilings/achieved/exchange"))
        return;
    rp_section_table(s, rp_table_exchange);
    rp_section_fill(s, "<p>A rank sends {/ceilings/achieved/exchange/bytes_per_step d1*1e-6}&nbsp;MB a step to data-parallel ranks, which at "
                       "{/ceilings/achieved/exchange/bus_bytes_per_s d3*1e-9}&nbsp;GB/s takes at least <b>{/ceilings/achieved/exchange/least_s "
                       "d3*1e3}&nbsp;ms</b>; <b>{/ceilings/achieved/exchange/measured_s d3*1e3}&nbsp;ms</b> were measured "
                       "({/ceilings/achieved/exchange/formula t}).</p>\n<p class=\"note\">{/ceilings/formulas/exchange t}.</p>\n");
}

/* ---- memory ---- */

/* One bar of the plan, divided by class; the peak as a line across. */
static void plot_memory(struct rp_section *s, const json_t *classes, double total, double peak)
{
    const char *name;
    json_t *bytes;
    double scale = 1000 / fmax(total, isfinite(peak) ? peak : 0), x = 0;
    int k = 0;
    rp_buf_printf(s->out,
                  "<figure id=\"b%d-memory-bar\"><figcaption><b>Memory planned</b> <span class=\"unit\">by "
                  "class</span></figcaption><div class=\"bar\" role=\"img\" aria-label=\"Planned memory by class: the table below "
                  "has the figures.\"><svg width=\"100%%\" height=\"34\" viewBox=\"0 0 1000 34\" preserveAspectRatio=\"none\" "
                  "aria-hidden=\"true\">",
                  s->index);
    rp_buf_puts(s->out, "<rect class=\"lane\" y=\"4\" width=\"1000\" height=\"26\"/>");
    json_object_foreach((json_t *)classes, name, bytes) {
        double w = fmax(json_number_value(bytes), 0) * scale;
        if (k == CLASSES_MAX)
            break;
        rp_buf_printf(s->out, "<rect class=\"c%d\" x=\"%.2f\" y=\"4\" width=\"%.2f\" height=\"26\"/>", k++ % 8, x, w);
        x += w;
    }
    if (isfinite(peak))
        rp_buf_printf(s->out, "<path class=\"mark\" d=\"M%.1f 0V34\"/>", fmin(peak * scale, 999));
    rp_buf_puts(s->out, "</svg></div></figure>\n");
    if (isfinite(peak))
        rp_buf_printf(s->out, "<p class=\"note\">The line: %s.</p>\n",
                      json_object_get(s->run, "device_bytes") ? "memory reserved on the device" : "peak memory of the process");
}

void rp_section_memory(struct rp_section *s)
{
    const json_t *classes = rp_pointer(s->run, "/plan/bytes");
    const char *name;
    json_t *bytes;
    double total = 0,
           peak = rp_json_number_at(s->run, json_object_get(s->run, "device_bytes") ? "device_bytes/reserved" : "peak_rss_bytes");
    int k = 0;
    json_object_foreach((json_t *)classes, name, bytes)
        total += fmax(json_number_value(bytes), 0);
    if (total > 0)
        plot_memory(s, classes, total, peak);
    rp_html_table(s->out, "Memory in MiB", "quantity|#MiB");
    json_object_foreach((json_t *)classes, name, bytes) {
        RP_BUF pointer = {0};
        if (k == CLASSES_MAX)
            break;
        rp_buf_puts(&pointer, "/plan/bytes");
        rp_pointer_add(&pointer, name);
        rp_buf_printf(s->out, "<tr><th scope=\"row\"><svg class=\"key\" width=\"12\" height=\"12\" aria-hidden=\"true\"><rect "
                              "class=\"c%d\" width=\"12\" height=\"12\"/></svg> planned: ",
                      k++ % 8);
        rp_html_text(s->out, name);
        rp_buf_puts(s->out, "</th><td class=\"r\">");
        rp_figure(s->out, s->run, RP_RUN, rp_buf_text(&pointer), "d1/1048576");
        rp_buf_puts(s->out, "</td></tr>\n");
    }
    static const char *const rows[][2] = {
        {"planned: on the host", "/plan/host_bytes"},
        {"planned: image decoders", "/plan/decoder_bytes"},
        {"planned: connections of ranks", "/plan/connection_bytes"},
        {"planned in total", "/plan/total_bytes"},
        {"reserved on the device", "/device_bytes/reserved"},
        {"decrease of free memory on the device", "/device_bytes/used"},
        {"peak of the process", "/peak_rss_bytes"},
        {"available before", "/plan/available_bytes"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!rp_section_has(s, rows[i][1]) || (i == 1 && json_integer_value(rp_pointer(s->run, rows[i][1])) == 0))
            continue;
        RP_FREE char *row = rp_asprintf("<tr><th scope=\"row\">%s</th><td class=\"r\">{%s d1/1048576}</td></tr>\n", rows[i][0], rows[i][1]);
        rp_section_fill(s, row);
    }
    rp_html_table_end(s->out);
}
