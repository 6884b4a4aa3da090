/* What the device does at best, how near the run came to it, and what memory went to. */
#include "page/section.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define CLASSES_MAX 16

static double number(const json_t *run, const char *pointer)
{
    const json_t *v = rp_pointer(run, pointer);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

static double higher(const json_t *run, const char *name)
{
    char pointer[64];
    double best = NAN;
    static const char *const when[] = {"before", "after"};
    for (int i = 0; i < 2; i++) {
        snprintf(pointer, sizeof pointer, "/ceilings/%s/%s", when[i], name);
        best = fmax(best, number(run, pointer));
    }
    return best;
}

/* The bytes that a step cannot avoid: parameters, gradients and optimizer state, each read once and written once. */
static double least_traffic(const json_t *run)
{
    return 2 * (number(run, "/plan/bytes/parameters") + number(run, "/plan/bytes/gradients") + number(run, "/plan/bytes/optimizer state"));
}

/* The run is a line, not a point: what it moved through memory was not measured. It ends where its FLOPs for each byte that had to be moved
 * put it at most. */
static void roofline(struct rp_section *s, double gemm, double copy)
{
    double run = number(s->run, "/results/flops_per_s"), ridge = gemm / copy;
    double work = number(s->run, "/plan/flops_per_sample") * number(s->run, "/results/samples_per_step");
    double most = work / least_traffic(s->run), left = ridge / 100, right = fmax(ridge * 100, isfinite(most) ? most * 3 : 0);
    double x[] = {left, ridge, right}, y[] = {copy * left, gemm, gemm};
    double at[] = {fmin(fmax(run / copy, left), right), isfinite(most) ? most : right}, level[] = {run, run};
    char id[32], says[500];
    struct rp_series lines[] = {
        {.kind = RP_LINE, .x = x, .y = y, .n = 3, .class = "s1", .name = "what the device did at best"},
        {.kind = RP_LINE, .x = at, .y = level, .n = 2, .class = "s2", .name = "this run"},
    };
    snprintf(id, sizeof id, "b%d-roofline", s->index);
    snprintf(says, sizeof says, "Roofline: memory of %.4g GB/s and matrix products of %.4g GFLOP/s meet at %.4g FLOP per byte. The run "
                                "reached %.4g GFLOP/s.",
             copy / 1e9, gemm / 1e9, ridge, run / 1e9);
    struct rp_plot p = {.id = id, .title = "Roofline", .x_label = "FLOP per byte of memory traffic", .y_label = "FLOP/s", .says = says,
                        .series = lines, .n_series = isfinite(run) && run > 0 ? 2 : 1, .height = 200, .log_x = 1, .log_y = 1};
    rp_plot(s->out, &p);
    rp_buf_puts(s->out, "<p class=\"note\">The run is a line because its traffic was not measured: from the left, where it could be no "
                        "faster than memory, to what it would be if a step moved parameters, gradients and optimizer state only "
                        "once.</p>\n");
}

static void ceiling_row(struct rp_section *s, const char *name, const char *key, const char *form, const char *unit)
{
    static const char *const when[] = {"before", "after"};
    char pointer[64];
    if (!isfinite(higher(s->run, key)))
        return;
    rp_buf_printf(s->out, "<tr><th scope=\"row\">%s</th>", name);
    for (int i = 0; i < 2; i++) {
        snprintf(pointer, sizeof pointer, "/ceilings/%s/%s", when[i], key);
        rp_buf_puts(s->out, "<td class=\"r\">");
        rp_run_figure(s, pointer, form);
        rp_buf_puts(s->out, "</td>");
    }
    rp_buf_printf(s->out, "<td class=\"whole\">%s</td></tr>\n", unit);
}

void rp_section_ceilings(struct rp_section *s)
{
    double gemm = higher(s->run, "gemm/flops_per_s"), copy = higher(s->run, "copy/bytes_per_s");
    rp_section_open(s, "ceilings", "What the device does at best");
    if (!json_object_get(s->run, "ceilings")) {
        rp_buf_puts(s->out, "<p>No evidence: this run measured no ceilings.</p>\n");
        rp_section_close(s);
        return;
    }
    if (isfinite(gemm) && isfinite(copy) && gemm > 0 && copy > 0)
        roofline(s, gemm, copy);
    rp_table_open(s->out, "Measured with the run's own operations, outside of its windows", "operation|#before the run|#after it|unit");
    ceiling_row(s, "matrix product", "gemm/flops_per_s", "d1/1e9", "GFLOP/s");
    ceiling_row(s, "copy between two blocks of its memory", "copy/bytes_per_s", "d2/1e9", "GB/s");
    ceiling_row(s, "copy from the host's memory", "host_to_device/bytes_per_s", "d2/1e9", "GB/s");
    rp_table_close(s->out);
    if (rp_pointer(s->run, "/ceilings/achieved/gemm_share")) {
        rp_buf_puts(s->out, "<p>The run achieved <b>");
        rp_run_figure(s, "/ceilings/achieved/gemm_share", "d1*100");
        rp_buf_puts(s->out, "&nbsp;%</b> of the matrix product (");
        rp_run_figure(s, "/ceilings/achieved/formula", "t");
        rp_buf_puts(s->out, ").</p>\n");
    }
    rp_section_close(s);
}

/* ---- memory ---- */

/* One bar of the plan, each class with its share; the peak as a line across. */
static void memory_bar(struct rp_section *s, const json_t *classes, double total, double peak)
{
    const char *name;
    json_t *bytes;
    double scale = 1000 / fmax(total, isfinite(peak) ? peak : 0), x = 0;
    int k = 0;
    rp_buf_printf(s->out, "<figure id=\"b%d-memory-bar\"><figcaption><b>Memory planned</b> <span class=\"unit\">by what it "
                          "holds</span></figcaption><div class=\"bar\" role=\"img\" aria-label=\"Planned memory by class: the table below "
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
                      json_object_get(s->run, "device_bytes") ? "what was reserved on the device" : "what the process used at most");
}

void rp_section_memory(struct rp_section *s)
{
    const json_t *classes = rp_pointer(s->run, "/plan/bytes");
    const char *name;
    json_t *bytes;
    double total = 0, peak = number(s->run, json_object_get(s->run, "device_bytes") ? "/device_bytes/reserved" : "/peak_rss_bytes");
    int k = 0;
    rp_section_open(s, "memory", "Memory");
    json_object_foreach((json_t *)classes, name, bytes)
        total += fmax(json_number_value(bytes), 0);
    if (total > 0)
        memory_bar(s, classes, total, peak);
    rp_table_open(s->out, "Memory in MiB", "what|#MiB");
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
        rp_run_figure(s, rp_buf_text(&pointer), "d1/1048576");
        rp_buf_puts(s->out, "</td></tr>\n");
    }
    static const char *const rows[][2] = {{"planned: of the host besides", "/plan/host_bytes"}, {"planned in all", "/plan/total_bytes"},
                                          {"reserved on the device", "/device_bytes/reserved"},
                                          {"less free on the device than before", "/device_bytes/taken"},
                                          {"of the process at most", "/peak_rss_bytes"}, {"available before", "/plan/available_bytes"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const json_t *v = rp_pointer(s->run, rows[i][1]);
        if (!json_is_number(v))
            continue;
        rp_buf_printf(s->out, "<tr><th scope=\"row\">%s</th><td class=\"r\">", rows[i][0]);
        rp_run_figure(s, rows[i][1], "d1/1048576");
        rp_buf_puts(s->out, "</td></tr>\n");
    }
    rp_table_close(s->out);
    rp_section_close(s);
}
