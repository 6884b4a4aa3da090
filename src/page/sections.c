/* One bundle on a page: its sections in order, and what they share. */
#include "page/section.h"

#include "base/json.h"
#include "base/text.h"
#include "capture/value.h"
#include "report/escape.h"
#include "report/tables.h"

#include <string.h>

void rp_section_init(struct rp_section *s, struct rp_buf *out, int index, const struct rp_shown_bundle *b)
{
    const struct rp_member *statement = rp_bundle_find(&b->kept->bundle, "statement.dsse.json");
    *s = (struct rp_section){.out = out,
                             .index = index,
                             .b = b,
                             .run = rp_run_shown(b->v->run),
                             .facts = &b->v->run->facts,
                             .figures = &b->v->run->figures,
                             .before = b->kept->run.node[0].before,
                             .records = &b->kept->run.records,
                             .telemetry = &b->kept->run.telemetry,
                             .rank = b->kept->run.ranks.slowest};
    RP_BUG_IF(!statement);
    rp_member_sha256(s->digest, statement);
}

void rp_section_fill(struct rp_section *s, const char *html)
{
    rp_fill(s->out, RP_FILL_HTML, s->run, RP_RUN, html);
}

void rp_section_fill_slowest(struct rp_section *s, const char *html)
{
    RP_BUF text = {0};
    for (const char *end; (end = strchr(html, '~')); html = end + 1) {
        rp_buf_add(&text, html, (size_t)(end - html));
        rp_buf_printf(&text, "/rank/%d", s->rank);
    }
    rp_buf_puts(&text, html);
    rp_section_fill(s, rp_buf_text(&text));
}

void rp_section_table(struct rp_section *s, void (*table)(struct rp_doc *, struct rp_run_documents *))
{
    RP_DOC d = {.as = RP_FILL_HTML};
    table(&d, s->b->v->run);
    rp_doc_write(s->out, &d, RP_DOC_HTML);
}

int rp_section_has(const struct rp_section *s, const char *pointer)
{
    const int of_slowest = *pointer == '~';
    const json_t *of = of_slowest ? json_array_get(json_object_get(s->run, "rank"), (size_t)s->rank) : s->run;
    const json_t *v = rp_pointer(of, pointer + of_slowest);
    return json_is_string(v) ? *json_string_value(v) != 0 : v && !json_is_null(v);
}

int rp_before_figure(struct rp_section *s, const char *pointer, const char *form)
{
    return rp_figure(s->out, s->before, RP_OF_NODE(s->node, ".before.json"), pointer, form);
}

struct rp_section rp_section_of_node(const struct rp_section *s, int node)
{
    struct rp_section other = *s;
    other.node = node;
    other.before = s->b->kept->run.node[node].before;
    return other;
}

/* ---- the list ---- */

static const struct section {
    const char *id, *entry, *title;
    void (*write)(struct rp_section *s);
} sections[] = {
#define SECTION(id, entry, title) {#id, entry, title, rp_section_##id},
    RP_SECTIONS(SECTION)
#undef SECTION
};
#define SECTIONS (sizeof sections / sizeof *sections)

/* Sections that the bundle of a command has, of which this program trained nothing. */
static int is_of_command(const struct section *one)
{
    return one->write == rp_section_command || one->write == rp_section_device || one->write == rp_section_topology ||
           one->write == rp_section_environment || one->write == rp_section_attempts ||
           one->write == rp_section_signatures || one->write == rp_section_repeat;
}

static int is_there(const struct rp_section *s, const struct section *one)
{
    if (s->b->v->run->command ? !is_of_command(one) : one->write == rp_section_command)
        return 0;
    if (one->write == rp_section_signatures)
        return s->b->v->signatures && s->b->v->signatures->row_n > 0;
    if (one->write == rp_section_ranks)
        return s->facts->rank_n > 1;
    if (one->write == rp_section_agreement)
        return s->figures->agreement != NULL;
    if (s->b->v->run->command && one->write == rp_section_device)
        return s->b->v->run->command->device_n > 0;
    return one->write != rp_section_device || s->figures->telemetry || rp_without_telemetry(s->facts) >= 0;
}

void rp_section_contents(struct rp_section *s)
{
    rp_buf_puts(s->out, "<nav aria-label=\"Sections\"><ul>");
    for (size_t i = 0; i < SECTIONS; i++)
        if (is_there(s, &sections[i]))
            rp_buf_printf(s->out, "<li><a href=\"#b%d-%s\">%s</a></li>", s->index, sections[i].id, sections[i].entry);
    rp_buf_puts(s->out, "</ul></nav>\n");
}

/* ---- above the sections ---- */

/* The machine in one row: of several nodes, node 0. */
static void put_system(struct rp_section *s)
{
    static const char *const parts[][3] = {
        {"machine", "/probes/host/product", ""},
        {"processor", "/probes/cpu/model_name", ""},
        {"sockets", "/probes/cpu/sockets", ""},
        {"cores", "/probes/cpu/cores", ""},
        {"threads", "/probes/cpu/threads", ""},
        {"memory", "/probes/memory/total", ""},
        {"GPUs", "/probes/gpu/count", "/probes/gpu/devices/gpu0/name"},
        {"driver", "/probes/nvidia/version", ""},
        {"kernel", "/probes/kernel/release", ""},
    };
    rp_buf_puts(s->out, "<dl class=\"system\">");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (rp_leaf(rp_pointer(s->before, parts[i][1])).kind != RP_LEAF_KNOWN)
            continue;
        rp_buf_printf(s->out, "<div><dt>%s</dt><dd>", parts[i][0]);
        rp_before_figure(s, parts[i][1], "u");
        if (*parts[i][2] && rp_leaf(rp_pointer(s->before, parts[i][2])).kind == RP_LEAF_KNOWN) {
            rp_buf_puts(s->out, " x ");
            rp_before_figure(s, parts[i][2], "u");
        }
        rp_buf_puts(s->out, "</dd></div>");
    }
    if (!s->b->v->run->command)
        rp_section_fill(s, "<div><dt>ranks, nodes</dt><dd>{/world/ranks d0}, {/world/nodes d0}</dd></div>");
    rp_buf_puts(s->out, "</dl>\n");
}

/* The headline of a command: the rate that its log has, and what this program observed. */
static void put_command_headline(struct rp_section *s)
{
    static const char *const cards[] = {
        "<div><dt>time of the command</dt><dd>{/wall_s d1} <span class=\"unit\">s</span></dd></div>\n",
        "<div><dt>peak memory of a process</dt><dd>{/peak_rss_bytes d0/1048576} <span "
        "class=\"unit\">MiB</span></dd></div>\n",
    };
    const struct rp_log_figures *log = s->b->v->run->observed->log;
    const size_t n = log ? json_array_size(log->result) : 0;
    const int is_time = n == 1 && rp_section_has(s, "/log/result/0/time_to_train_min"),
              is_rate = n == 1 && rp_section_has(s, "/log/result/0/throughput/value");
    rp_buf_printf(s->out, "<dl class=\"cards\"><div class=\"first\"><dt>%s, " RP_MEASURED_BY_LOG "</dt><dd>",
                  is_time && !is_rate ? "time to train" : "throughput");
    if (is_time && !is_rate)
        rp_section_fill(s, "{/log/result/0/time_to_train_min d3} <span class=\"unit\">minutes</span>");
    else if (is_rate)
        rp_section_fill(
            s, "{/log/result/0/throughput/value d3} <span class=\"unit\">{/log/result/0/throughput/unit t}</span>");
    else if (n)
        rp_buf_printf(s->out, "%zu result%s", n, rp_s((int64_t)n));
    else
        rp_buf_puts(s->out, "none");
    rp_buf_puts(s->out, "</dd></div>\n");
    for (size_t i = 0; i < sizeof cards / sizeof *cards; i++)
        rp_section_fill(s, cards[i]);
    if (rp_section_has(s, "/ledger/earlier"))
        rp_section_fill(s, "<div><dt>earlier attempts</dt><dd>{/ledger/earlier d0}</dd></div>\n");
    rp_buf_puts(s->out, "</dl>\n");
    put_system(s);
}

/* The figures that people look for first. */
void rp_section_headline(struct rp_section *s)
{
    static const struct {
        const char *name, *pointer, *form, *unit;
    } cards[] = {
        {"step, median", "/results/step_s/median", "d4", "s"},
        {"step, 90th percentile", "/results/step_s/p90", "d4", "s"},
        {"last loss", "/results/loss_last", "x", ""},
        {"timed steps that changed no weight", "/results/loss_scaling/skipped_share", "d1*100", "%"},
        {"GEMM", "/results/flops_per_s", "d1/1e9", "GFLOP/s"},
        {"GEMM, recomputation included", "/results/hardware_flops_per_s", "d1/1e9", "GFLOP/s"},
        {"of the device's own ceiling", "/ceilings/gemm_share", "d1*100", "%"},
        {"device memory", "~/device_bytes/reserved", "d0/1048576", "MiB"},
        {"peak memory", "/peak_rss_bytes", "d0/1048576", "MiB"},
        {"earlier attempts", "/ledger/earlier", "d0", ""},
    };
    if (s->b->v->run->command) {
        put_command_headline(s);
        return;
    }
    rp_section_fill(s, "<dl class=\"cards\"><div class=\"first\"><dt>throughput</dt><dd>{/results/throughput/value d3} "
                       "<span class=\"unit\">"
                       "{/results/throughput/unit t}</span><span class=\"below\">");
    if (rp_section_has(s, "/results/throughput/interval/1"))
        rp_section_fill(s, "95 % interval {/results/throughput/interval/0 d3} to {/results/throughput/interval/1 d3}");
    rp_buf_puts(s->out, "</span></dd></div>\n");
    if (rp_figures_tokens(s->figures) > 0)
        rp_section_fill(
            s,
            "<div><dt>tokens</dt><dd>{/results/counters/0/per_s d1} <span class=\"unit\">tokens/s</span></dd></div>\n");
    for (size_t i = 0; i < sizeof cards / sizeof *cards; i++) {
        const char *pointer = cards[i].pointer, *of = "";
        if (*pointer == '~' && s->facts->rank_n > 1)
            of = " of the slowest rank";
        else if (s->facts->rank_n > 1 && rp_ends_with(cards[i].name, " memory"))
            of = ", the most of any rank";
        if (!rp_section_has(s, pointer) || !rp_table_has_steps_for(s->figures, pointer))
            continue;
        RP_FREE char *card = rp_asprintf("<div><dt>%s%s</dt><dd>{%s %s} <span class=\"unit\">%s</span></dd></div>\n",
                                         cards[i].name, of, pointer, cards[i].form, cards[i].unit);
        rp_section_fill_slowest(s, card);
    }
    rp_buf_puts(s->out, "</dl>\n");
    put_system(s);
}

/* What trained: its name where it has one. */
static void put_hardware(struct rp_section *s)
{
    if (rp_section_has(s, "~/device/name"))
        rp_section_fill_slowest(s, "{~/device/name t}");
    else
        rp_before_figure(s, "/probes/cpu/model_name", "u");
}

/* How it trained: its instruction set and threads, or its compute capability. */
static void put_how(struct rp_section *s)
{
    rp_section_fill(s, "{/backend t}");
    if (rp_section_has(s, "~/device/isa"))
        rp_section_fill_slowest(s, ", {~/device/isa t}, threads: {~/device/threads d0}");
    if (rp_section_has(s, "~/device/compute_capability"))
        rp_section_fill_slowest(s, ", device {~/device/index d0}, compute capability {~/device/compute_capability t}");
}

/* With several ranks, `how` is that of the slowest. */
static void put_place(struct rp_section *s)
{
    rp_section_fill(s, "ranks: {/world/ranks d0}, nodes: {/world/nodes d0}");
}

static void put_command_summary(struct rp_section *s)
{
    char machine[RP_PLACE_TEXT];
    if (!rp_facts_complete(s->facts))
        rp_section_fill(s, "<p class=\"warn\"><b>This command is marked {/status t}</b>: {/reason t}.</p>\n");
    rp_section_fill(s, "<p>Command {/name t} on a machine with <b>");
    rp_html_text(s->out, rp_run_machine_text(machine, &s->b->kept->run));
    rp_section_fill(
        s, "</b>, of which the command may have used a part. From {/started_at t} to {/ended_at t}. Signed by <code>");
    rp_buf_printf(s->out, "%s</code>.</p>\n", s->b->v->fingerprint);
}

/* What was run, and on what. */
static void put_summary(struct rp_section *s)
{
    if (s->b->v->run->command) {
        put_command_summary(s);
        return;
    }
    if (!rp_facts_complete(s->facts))
        rp_section_fill(s, "<p class=\"warn\"><b>This run is marked {/status t}</b>: {/reason t}. The figures cover "
                           "only the steps that were finished and are not a result of the recipe.</p>\n");
    if (rp_facts_parallel(s->facts) > s->facts->rank_n)
        rp_section_fill(
            s,
            "<p>This run has the arithmetic of {/recipe/parallel.data/value d0} x {/recipe/parallel.tensor/value d0} "
            "x {/recipe/parallel.pipeline/value d0} ranks (data x tensor x pipeline), computed by {/world/ranks d0}: "
            "the same bits, at the speed of {/world/ranks d0}.</p>\n");
    rp_section_fill(s, "<p>Recipe {/recipe_name t} on <b>");
    put_hardware(s);
    rp_buf_puts(s->out, "</b> (");
    put_how(s);
    rp_buf_puts(s->out, "), ");
    put_place(s);
    rp_section_fill(s, ": batch size {/plan/batch d0}");
    if (rp_section_has(s, "/recipe/task.seq_length/value"))
        rp_section_fill(s, ", sequence length {/recipe/task.seq_length/value d0}");
    char precision[RP_PRECISION_TEXT], tensor_cores[RP_TENSOR_CORES_TEXT];
    rp_section_fill(s, ", {/model/parameters d0} parameters, in ");
    rp_html_text(s->out, *rp_figures_precision(precision, s->figures) ? precision : "strict fp32");
    rp_section_fill(s, " ({/numerics t}");
    if (*rp_tensor_cores_text(tensor_cores, s->facts, s->figures)) {
        rp_buf_puts(s->out, "; ");
        rp_html_text(s->out, tensor_cores);
    }
    rp_section_fill(s, "). From {/started_at t} to {/ended_at t}. Signed by <code>");
    rp_buf_printf(s->out, "%s</code>.</p>\n", s->b->v->fingerprint);
}

const char *rp_page_title(const struct rp_facts *f)
{
    const char *text = json_string_value(rp_facts_setting(f, "title"));
    return text && *text && strcmp(rp_facts_origin(f, "title"), "recipe") == 0 ? text : NULL;
}

const char *rp_page_recipe(const struct rp_facts *f)
{
    static const char embedded[] = "embedded:";
    return f->recipe_name + (strncmp(f->recipe_name, embedded, strlen(embedded)) == 0 ? strlen(embedded) : 0);
}

void rp_section_bundle(struct rp_section *s)
{
    int level = s->index ? 3 : 2;
    rp_buf_printf(s->out, "<section class=\"bundle\" data-bundle=\"%s\" id=\"b%d\" aria-labelledby=\"b%d-title\">\n",
                  s->digest, s->index, s->index);
    if (s->index) {
        rp_buf_printf(s->out, "<h2 id=\"b%d-title\">%d. ", s->index, s->index);
        rp_section_fill(s, s->b->v->run->command     ? "{/name t}</h2>\n"
                           : rp_page_title(s->facts) ? "{/recipe/title/value t}</h2>\n"
                                                     : "{/recipe_name t}</h2>\n");
        rp_section_headline(s); /* a bundle alone has it at the top of the page */
    }
    put_summary(s);
    for (size_t i = 0; i < SECTIONS; i++) {
        if (!is_there(s, &sections[i]))
            continue;
        rp_buf_printf(s->out, "<section aria-labelledby=\"b%d-%s\">\n<h%d id=\"b%d-%s\">%s</h%d>\n", s->index,
                      sections[i].id, level, s->index, sections[i].id, sections[i].title, level);
        sections[i].write(s);
        rp_buf_puts(s->out, "</section>\n");
    }
    rp_buf_puts(s->out, "</section>\n");
}
