/* Where the time of a run went: its phases in their order, and the load and the clocks of its machine. */
#include "page/section.h"

#include "capture/value.h"

#include <math.h>

/* In the order in which a worker goes through them. */
static const struct phase {
    const char *name, *text;
    size_t offset;
} phases[] = {
#define PHASE(name, text)                                                                                              \
    {                                                                                                                  \
#name, text, offsetof(struct rp_phases, name)                                                                  \
    }
    PHASE(initialising, "initialising weights"),
    PHASE(ceilings, "measuring ceilings, before and after"),
    PHASE(warm_up, "warm-up steps"),
    PHASE(timed, "timed steps"),
    PHASE(state_roots, "hashing the state"),
    PHASE(saving, "saving weights"),
#undef PHASE
};
#define PHASES ((int)(sizeof phases / sizeof *phases))

static double seconds_of(const struct rp_phases *p, int k)
{
    const double x = *(const double *)((const char *)p + phases[k].offset);
    return isfinite(x) && x > 0 ? x : 0;
}

static void put_segment(struct rp_buf *out, const char *class, double from, double to, double scale, const char *text)
{
    if (to <= from)
        return;
    rp_buf_printf(out, "<rect class=\"%s\" x=\"%.2f\" width=\"%.2f\" height=\"26\"><title>%s: ", class, from * scale,
                  fmax((to - from) * scale, 0.8), text);
    rp_buf_printf(out, "%.4g s, %.1f %%</title></rect>", to - from, (to - from) * scale / 10);
}

/* One bar, as long as the run: what is not a phase of the worker stands first. */
static void plot_phases(struct rp_section *s, const struct rp_phases *p, double elapsed, double rest)
{
    const double scale = 1000 / elapsed;
    double at = rest;
    char class[4];
    rp_buf_printf(
        s->out,
        "<figure id=\"b%d-timeline\"><figcaption><b>Phases in their order</b> <span class=\"unit\">over %.1f "
        "s</span></figcaption><div class=\"bar\" role=\"img\" aria-label=\"Phases of the run in their order: the "
        "table below has the seconds.\"><svg width=\"100%%\" height=\"26\" viewBox=\"0 0 1000 26\" "
        "preserveAspectRatio=\"none\" aria-hidden=\"true\">",
        s->index, elapsed);
    put_segment(s->out, "lane", 0, rest, scale, "captures, data, start and seal");
    for (int k = 0; k < PHASES; at += seconds_of(p, k++))
        put_segment(s->out, RP_FORMAT(class, "c%d", k), at, at + seconds_of(p, k), scale, phases[k].text);
    rp_buf_puts(s->out, "</svg></div></figure>\n");
}

static void put_row(struct rp_section *s, const char *class, const char *text)
{
    rp_buf_printf(
        s->out,
        "<tr><th scope=\"row\"><svg class=\"key\" width=\"12\" height=\"12\" aria-hidden=\"true\"><rect class=\"%s\" "
        "width=\"12\" height=\"12\"/></svg> %s</th><td class=\"r\">",
        class, text);
}

static void put_phases(struct rp_section *s, const struct rp_phases *p)
{
    const double elapsed = s->facts->elapsed_s;
    double rest = elapsed;
    char class[4];
    for (int k = 0; k < PHASES; k++)
        rest -= seconds_of(p, k);
    if (elapsed > 0 && rest >= 0)
        plot_phases(s, p, elapsed, rest);
    rp_html_table(s->out, s->facts->rank_n > 1 ? "Phases of the slowest rank" : "Phases of the run",
                  "phase|#seconds|#share");
    if (rest >= 0) {
        put_row(s, "lane", "captures, data, start and seal");
        rp_buf_printf(s->out, "%.3f</td><td class=\"r\">%.1f %%</td></tr>\n", rest, rest / elapsed * 100);
    }
    for (int k = 0; k < PHASES; k++) {
        RP_FREE char *pointer = rp_asprintf("~/phases_s/%s", phases[k].name), *figure = rp_asprintf("{%s d3}", pointer);
        if (!rp_section_has(s, pointer))
            continue;
        put_row(s, RP_FORMAT(class, "c%d", k), phases[k].text);
        rp_section_fill_slowest(s, figure);
        rp_buf_printf(s->out, "</td><td class=\"r\">%.1f %%</td></tr>\n", seconds_of(p, k) / elapsed * 100);
    }
    rp_html_table_end(s->out);
}

static const char *const states[][2] = {
    {"load average, 1 minute", "/probes/kernel/load_1min"},
    {"waiting for a processor, last 10 s", "/probes/kernel/pressure/cpu"},
    {"slowest processor clock", "/probes/cpu/clock_min"},
    {"median processor clock", "/probes/cpu/clock_median"},
    {"fastest processor clock", "/probes/cpu/clock_max"},
    {"processor throttles", "/probes/frequency/core_throttles"},
    {"available memory", "/probes/memory/available"},
    {"multiprocessor clock, first GPU", "/probes/gpu/devices/gpu0/clock_sm"},
    {"temperature, first GPU", "/probes/gpu/devices/gpu0/temperature"},
};

static int is_known(const json_t *capture, const char *pointer)
{
    return rp_leaf(rp_pointer(capture, pointer)).kind == RP_LEAF_KNOWN;
}

/* What a machine did before and after the run, which a run on processors does not sample in between. */
static void put_states(struct rp_section *s)
{
    const json_t *before = s->before, *after = s->b->kept->run.node[s->node].after;
    size_t known = 0;
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        known += (size_t)(is_known(before, states[i][1]) || is_known(after, states[i][1]));
    if (!known)
        return;
    rp_html_table(s->out, s->b->kept->run.nodes > 1 ? "Load and clocks of node 0" : "Load and clocks of the machine",
                  "quantity|#before the run|#after it");
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        const char *pointer = states[i][1];
        if (!is_known(before, pointer) && !is_known(after, pointer))
            continue;
        rp_buf_printf(s->out, "<tr><th scope=\"row\">%s</th><td class=\"r\">", states[i][0]);
        rp_before_figure(s, pointer, "u");
        rp_buf_puts(s->out, "</td><td class=\"r\">");
        rp_figure(s->out, after, RP_OF_NODE(s->node, ".after.json"), pointer, "u");
        rp_buf_puts(s->out, "</td></tr>\n");
    }
    rp_html_table_end(s->out);
    if (s->telemetry->n)
        rp_buf_printf(
            s->out,
            "<p class=\"note\">Load and clock of the GPU over the run: <a href=\"#b%d-device\">The device during "
            "training</a>.</p>\n",
            s->index);
}

void rp_section_phases(struct rp_section *s)
{
    const struct rp_phases *p = s->facts->rank_n ? s->facts->rank[s->rank].phases_s : NULL;
    if (p)
        put_phases(s, p);
    else
        rp_buf_puts(s->out, "<p>No evidence: the worker did not end, so the time of its phases is unknown.</p>\n");
    put_states(s);
}
