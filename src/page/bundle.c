/* One bundle on a page: its sections in order, and what they share. */
#include "page/section.h"

#include "base/hash.h"
#include "base/json.h"

#include <string.h>

void rp_section_init(struct rp_section *s, struct rp_buf *out, int index, const struct rp_shown_bundle *b)
{
    const struct rp_member *statement = rp_bundle_find(&b->kept->bundle, "statement.dsse.json");
    *s = (struct rp_section){.out = out, .index = index, .b = b, .run = b->v->run, .before = b->kept->before, .records = &b->kept->records,
                             .samples = &b->kept->samples};
    RP_BUG_IF(!statement);
    rp_member_sha256(s->digest, statement);
}

void rp_section_open(struct rp_section *s, const char *id, const char *title)
{
    int level = s->index ? 3 : 2;
    rp_buf_printf(s->out, "<section aria-labelledby=\"b%d-%s\">\n<h%d id=\"b%d-%s\">%s</h%d>\n", s->index, id, level, s->index, id, title,
                  level);
}

void rp_section_close(struct rp_section *s)
{
    rp_buf_puts(s->out, "</section>\n");
}

void rp_table_open(struct rp_buf *out, const char *caption, const char *columns)
{
    int many = 0;
    for (const char *p = columns; *p; p++)
        many += *p == '|';
    if (many >= 3) /* in a narrow window it scrolls, and keys have to reach it */
        rp_buf_printf(out, "<div class=\"wide\" role=\"group\" tabindex=\"0\" aria-label=\"%s\">", caption);
    else
        rp_buf_puts(out, "<div class=\"wide\">");
    rp_buf_printf(out, "<table><caption>%s</caption><thead><tr>", caption);
    while (*columns) {
        size_t n = strcspn(columns, "|");
        int figure = *columns == '#';
        rp_buf_printf(out, "<th scope=\"col\"%s>%.*s</th>", figure ? " class=\"r\"" : "", (int)n - figure, columns + figure);
        columns += n + (columns[n] == '|');
    }
    rp_buf_puts(out, "</tr></thead><tbody>\n");
}

void rp_table_close(struct rp_buf *out)
{
    rp_buf_puts(out, "</tbody></table></div>\n");
}

int rp_run_figure(struct rp_section *s, const char *pointer, const char *form)
{
    return rp_figure(s->out, s->run, RP_RUN, pointer, form);
}

int rp_before_figure(struct rp_section *s, const char *pointer, const char *form)
{
    return rp_figure(s->out, s->before, RP_BEFORE, pointer, form);
}

void rp_run_row(struct rp_section *s, const char *name, const char *pointer, const char *form, const char *unit)
{
    const json_t *v = rp_pointer(s->run, pointer);
    if (!v || json_is_null(v))
        return;
    rp_buf_printf(s->out, "<tr><th scope=\"row\">%s</th><td>", name);
    rp_run_figure(s, pointer, form);
    rp_buf_puts(s->out, *unit ? " <span class=\"whole\">" : "");
    if (*unit == '/')
        rp_run_figure(s, unit, "t");
    else
        rp_buf_puts(s->out, unit);
    rp_buf_puts(s->out, *unit ? "</span></td></tr>\n" : "</td></tr>\n");
}

/* A percentile of too few steps is their longest under another name. */
int rp_section_has_steps_for(const struct rp_section *s, const char *pointer)
{
    json_int_t timed = json_integer_value(rp_pointer(s->run, "/results/steps/timed"));
    int least = strcmp(pointer, "/results/step_s/p99") == 0 ? RP_P99_STEPS : strcmp(pointer, "/results/step_s/p90") == 0 ? RP_P90_STEPS : 0;
    return timed >= least;
}

void rp_section_throughput(struct rp_section *s, int with_unit)
{
    rp_run_figure(s, "/results/throughput/value", "d3");
    if (!with_unit)
        return;
    rp_buf_puts(s->out, " <span class=\"unit\">");
    rp_run_figure(s, "/results/throughput/unit", "t");
    rp_buf_puts(s->out, "</span>");
}

void rp_section_interval(struct rp_section *s, const char *before)
{
    if (json_array_size(rp_pointer(s->run, "/results/throughput/interval")) != 2)
        return;
    rp_buf_puts(s->out, before);
    rp_run_figure(s, "/results/throughput/interval/0", "d3");
    rp_buf_puts(s->out, " to ");
    rp_run_figure(s, "/results/throughput/interval/1", "d3");
}

/* The figures that people look for first. */
static void headline(struct rp_section *s)
{
    static const struct {
        const char *name, *pointer, *form, *unit;
    } cards[] = {
        {"step, median", "/results/step_s/median", "d4", "s"},
        {"step, 90th percentile", "/results/step_s/p90", "d4", "s"},
        {"last loss", "/results/loss_last", "x", ""},
        {"matrix products", "/results/flops_per_s", "d1/1e9", "GFLOP/s"},
        {"of the device's own ceiling", "/ceilings/achieved/gemm_share", "d1*100", "%"},
        {"memory of the device", "/device_bytes/reserved", "d0/1048576", "MiB"},
        {"memory at most", "/peak_rss_bytes", "d0/1048576", "MiB"},
        {"attempts before it", "/ledger/earlier", "d0", ""},
    };
    rp_buf_puts(s->out, "<dl class=\"cards\"><div class=\"first\"><dt>throughput</dt><dd>");
    rp_section_throughput(s, 1);
    rp_buf_puts(s->out, "<span class=\"below\">");
    rp_section_interval(s, "95 % interval ");
    rp_buf_puts(s->out, "</span></dd></div>\n");
    for (size_t i = 0; i < sizeof cards / sizeof *cards; i++) {
        const json_t *v = rp_pointer(s->run, cards[i].pointer);
        if (!v || json_is_null(v) || !rp_section_has_steps_for(s, cards[i].pointer))
            continue;
        rp_buf_printf(s->out, "<div><dt>%s</dt><dd>", cards[i].name);
        rp_run_figure(s, cards[i].pointer, cards[i].form);
        rp_buf_printf(s->out, " <span class=\"unit\">%s</span></dd></div>\n", cards[i].unit);
    }
    rp_buf_puts(s->out, "</dl>\n");
}

static int has(const struct rp_section *s, const char *pointer)
{
    const json_t *v = rp_pointer(s->run, pointer);
    return json_is_string(v) ? *json_string_value(v) != 0 : v && !json_is_null(v);
}

void rp_section_hardware(struct rp_section *s)
{
    if (has(s, "/device/name"))
        rp_run_figure(s, "/device/name", "t");
    else
        rp_before_figure(s, "/probes/cpu/model_name", "u");
}

void rp_section_how(struct rp_section *s)
{
    rp_run_figure(s, "/backend", "t");
    if (has(s, "/device/isa")) {
        rp_buf_puts(s->out, ", ");
        rp_run_figure(s, "/device/isa", "t");
        rp_buf_puts(s->out, ", threads: ");
        rp_run_figure(s, "/device/threads", "d0");
    }
    if (has(s, "/device/compute_capability")) {
        rp_buf_puts(s->out, ", device ");
        rp_run_figure(s, "/device/index", "d0");
        rp_buf_puts(s->out, ", compute capability ");
        rp_run_figure(s, "/device/compute_capability", "t");
    }
}

/* Two sentences: what was done, and on what. */
static void about(struct rp_section *s)
{
    const char *status = json_string_value(json_object_get(s->run, "status"));
    if (status && strcmp(status, "complete") != 0) {
        rp_buf_puts(s->out, "<p class=\"warn\"><b>This run is marked ");
        rp_run_figure(s, "/status", "t");
        rp_buf_puts(s->out, "</b>: ");
        rp_run_figure(s, "/reason", "t");
        rp_buf_puts(s->out, ". The figures cover only the steps that were finished and are no result of the recipe.</p>\n");
    }
    rp_buf_puts(s->out, "<p>Recipe ");
    rp_run_figure(s, "/recipe_name", "t");
    rp_buf_puts(s->out, " on <b>");
    rp_section_hardware(s);
    rp_buf_puts(s->out, "</b> (");
    rp_section_how(s);
    rp_buf_puts(s->out, "): batch size ");
    rp_run_figure(s, "/plan/batch", "d0");
    if (has(s, "/recipe/task.seq_length/value")) {
        rp_buf_puts(s->out, ", sequence length ");
        rp_run_figure(s, "/recipe/task.seq_length/value", "d0");
    }
    rp_buf_puts(s->out, ", ");
    rp_run_figure(s, "/plan/parameters", "d0");
    rp_buf_puts(s->out, " parameters, in strict fp32 (");
    rp_run_figure(s, "/numerics", "t");
    rp_buf_puts(s->out, "). From ");
    rp_run_figure(s, "/started_at", "t");
    rp_buf_puts(s->out, " to ");
    rp_run_figure(s, "/ended_at", "t");
    rp_buf_printf(s->out, ". Signed by <code>%s</code>.</p>\n", s->b->v->fingerprint);
}

void rp_section_bundle(struct rp_section *s)
{
    rp_buf_printf(s->out, RP_HTML_MARK "%s\" id=\"b%d\" aria-labelledby=\"b%d-title\">\n", s->digest, s->index, s->index);
    if (s->index) {
        rp_buf_printf(s->out, "<h2 id=\"b%d-title\">", s->index);
        rp_run_figure(s, *rp_json_text_at(s->run, "recipe/title/value") ? "/recipe/title/value" : "/recipe_name", "t");
        rp_buf_puts(s->out, "</h2>\n");
    }
    about(s);
    headline(s);
    rp_section_agreement(s);
    rp_section_steps(s);
    rp_section_loss(s);
    rp_section_device(s);
    rp_section_ceilings(s);
    rp_section_memory(s);
    rp_section_baselines(s);
    rp_section_topology(s);
    rp_section_environment(s);
    rp_section_settings(s);
    rp_section_attempts(s);
    rp_section_signatures(s);
    rp_section_repeat(s);
    rp_buf_puts(s->out, "</section>\n");
}
