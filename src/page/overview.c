/* The head of a page of several bundles: bars in order of throughput, the losses of all in one plot, and tables. */
#include "page/overview.h"

#include "base/json.h"
#include "page/section.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES_MAX 8 /* losses in one plot: as many colours as there are */
#define SHOWN_SETTINGS 3

/* ---- what tells the bundles apart ---- */

static const struct rp_facts *facts_of(const struct rp_shown_bundle *b)
{
    return &b->v->run->facts;
}

/* A command has no throughput, losses and settings here: the figures of its log are in a table of their own. */
static int is_command(const struct rp_shown_bundle *b)
{
    return b->v->run->command != NULL;
}

static int one_recipe(const struct rp_shown_bundle *b, int n)
{
    for (int i = 1; i < n; i++)
        if (strcmp(facts_of(&b[i])->recipe_name, facts_of(b)->recipe_name) != 0)
            return 0;
    return 1;
}

static int differs(const struct rp_shown_bundle *b, int n, const char *key)
{
    for (int i = 1; i < n; i++)
        if (!json_equal(rp_facts_setting(facts_of(&b[i]), key), rp_facts_setting(facts_of(b), key)))
            return 1;
    return 0;
}

/* The settings in which runs of one recipe differ, such as those of --scan. */
struct differing {
    const char *key[SHOWN_SETTINGS];
    int n;
};

static struct differing settings_that_differ(const struct rp_shown_bundle *b, int n)
{
    struct differing d = {.n = 0};
    const char *key;
    json_t *setting;
    if (!one_recipe(b, n))
        return d;
    json_object_foreach((json_t *)rp_pointer(rp_run_shown(b->v->run), "/recipe"), key, setting)
        if (d.n < SHOWN_SETTINGS && strcmp(key, "title") != 0 && strncmp(key, "seed", 4) != 0 && differs(b, n, key))
            d.key[d.n++] = key;
    return d;
}

/* Every such setting of a bundle: "train.batch_size 8". */
static void put_settings(struct rp_section *s, const struct differing *d)
{
    for (int i = 0; i < d->n; i++) {
        RP_BUF pointer = {0};
        rp_buf_puts(&pointer, "/recipe");
        rp_pointer_add(&pointer, d->key[i]);
        rp_buf_puts(&pointer, "/value");
        rp_buf_puts(s->out, i ? ", " : "");
        rp_html_text(s->out, d->key[i]);
        rp_buf_puts(s->out, " ");
        rp_figure(s->out, s->run, RP_RUN, rp_buf_text(&pointer), "t");
    }
}

/* ---- throughput ---- */

static double throughput_of(const struct rp_shown_bundle *b)
{
    const double x = b->v->run->figures.results.throughput.value;
    return isfinite(x) ? x : 0;
}

static const char *unit_of(const struct rp_shown_bundle *b)
{
    return b->v->run->figures.results.throughput.unit;
}

/* The numbers of the bundles of a unit, the fastest first; equal ones keep their order. */
static int order_of(int order[RP_PAGE_BUNDLES], const struct rp_shown_bundle *b, int n, const char *unit)
{
    int m = 0;
    for (int i = 0; i < n; i++) {
        if (strcmp(unit_of(&b[i]), unit) != 0)
            continue;
        int k = m++;
        for (; k && throughput_of(&b[order[k - 1]]) < throughput_of(&b[i]); k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    return m;
}

static int seen_before(const struct rp_shown_bundle *b, int i, const char *(*word)(const struct rp_shown_bundle *))
{
    for (int k = 0; k < i; k++)
        if (strcmp(word(&b[k]), word(&b[i])) == 0)
            return 1;
    return 0;
}

/* The bar, and its interval as a line with ends. */
static void put_bar(struct rp_section *s, double most)
{
    const struct rp_throughput_figures *t = &s->figures->results.throughput;
    rp_buf_puts(
        s->out,
        "<td class=\"lane\"><svg width=\"100%\" height=\"18\" viewBox=\"0 0 1000 18\" preserveAspectRatio=\"none\" "
        "aria-hidden=\"true\"><title>");
    char text[120];
    rp_put_grouped(s->out, RP_FORMAT(text, "%.6g", t->value));
    rp_buf_puts(s->out, isfinite(t->interval[0]) ? ", 95 % interval " : ", no interval");
    if (isfinite(t->interval[0]))
        rp_put_grouped(s->out, RP_FORMAT(text, "%.6g to %.6g", t->interval[0], t->interval[1]));
    rp_buf_printf(s->out, "</title><rect class=\"c1\" y=\"3\" width=\"%.1f\" height=\"12\"/>",
                  fmax(throughput_of(s->b) / most * 1000, 1));
    if (isfinite(t->interval[0])) {
        const double low = t->interval[0] / most * 1000, high = t->interval[1] / most * 1000;
        rp_buf_printf(s->out, "<path class=\"whisker\" d=\"M%.1f 9H%.1fM%.1f 4V14M%.1f 4V14\"/>", low, high, low, high);
    }
    rp_buf_puts(s->out, "</svg></td>");
}

static void put_row(struct rp_section *s, const struct differing *d, double most)
{
    char place[RP_PLACE_TEXT];
    rp_buf_printf(s->out, "<tr data-bundle=\"%s\"><th scope=\"row\"><a href=\"#b%d\">%d. ", s->digest, s->index,
                  s->index);
    rp_html_text(s->out, rp_page_recipe(s->facts));
    rp_buf_puts(s->out, "</a>");
    if (d->n) {
        rp_buf_puts(s->out, "<span class=\"below said\">");
        put_settings(s, d);
        rp_buf_puts(s->out, "</span>");
    }
    rp_buf_puts(s->out, "<span class=\"below\">");
    rp_html_text(s->out, rp_run_place_text(place, &s->b->kept->run));
    rp_section_fill(s, "</span><span class=\"below when\">{/started_at t}</span>");
    if (!rp_facts_complete(s->facts))
        rp_section_fill(s, "<span class=\"below\"><b>{/status t}</b></span>");
    rp_buf_puts(s->out, "</th>");
    put_bar(s, most);
    rp_section_fill(s, "<td class=\"r\">{/results/throughput/value d3}<span class=\"below\">");
    if (rp_section_has(s, "/results/throughput/interval/1"))
        rp_section_fill(s, "{/results/throughput/interval/0 d3} to {/results/throughput/interval/1 d3}, of "
                           "{/results/steps/timed d0} steps");
    rp_section_fill(s, "</span></td><td class=\"r\">{/results/step_s/median d4}</td><td "
                       "class=\"r\">{/results/loss_last x}</td></tr>\n");
}

static void put_throughput(struct rp_buf *out, const struct rp_shown_bundle *b, int n, const struct differing *d,
                           const char *unit)
{
    int order[RP_PAGE_BUNDLES];
    const int m = order_of(order, b, n, unit);
    double most = 0;
    for (int i = 0; i < m; i++) {
        const double *interval = b[order[i]].v->run->figures.results.throughput.interval;
        most = fmax(most, fmax(throughput_of(&b[order[i]]), isfinite(interval[1]) ? interval[1] : 0));
    }
    RP_BUF caption = {0};
    rp_buf_puts(&caption, "Throughput in ");
    rp_html_text(&caption, unit);
    rp_buf_puts(&caption, " with 95 % intervals, the highest first");
    rp_html_table(out, rp_buf_text(&caption), "run|from 0|#throughput|#step, s|#last loss");
    for (int i = 0; i < m; i++) {
        struct rp_section s;
        rp_section_init(&s, out, order[i] + 1, &b[order[i]]);
        put_row(&s, d, most > 0 ? most : 1);
    }
    rp_html_table_end(out);
}

/* ---- losses ---- */

static const char *model_of(const struct rp_shown_bundle *b)
{
    return b->v->run->figures.model.name;
}

/* The loss of every step: free(x). */
struct losses {
    size_t n;
    double *x, *y;
};

static struct losses losses_of(const struct rp_records *rs)
{
    const size_t size = (size_t)rs->n + 1;
    struct losses l = {.x = rp_alloc(2 * size * sizeof(double))};
    l.y = l.x + size;
    for (int64_t i = 0; i < rs->n; i++)
        if (rs->r[i].step >= 0) {
            l.x[l.n] = (double)rs->r[i].step;
            l.y[l.n++] = (double)rs->r[i].loss;
        }
    return l;
}

/* An earlier line with the same bits, or -1: the later one is drawn over it. */
static int same_line(const struct losses *l, int i)
{
    for (int k = 0; k < i; k++)
        if (l[k].n == l[i].n && memcmp(l[k].y, l[i].y, l[i].n * sizeof *l[i].y) == 0)
            return k;
    return -1;
}

static void put_losses(struct rp_buf *out, const struct rp_shown_bundle *b, int n, int first)
{
    static const char *const class[LINES_MAX] = {"r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7"};
    struct losses l[LINES_MAX];
    struct rp_series line[LINES_MAX];
    int number[LINES_MAX], m = 0, more = 0;
    char names[LINES_MAX][64], id[32], words[160];
    for (int i = first; i < n; i++) {
        if (strcmp(model_of(&b[i]), model_of(&b[first])) != 0)
            continue;
        if (m == LINES_MAX) {
            more++;
            continue;
        }
        l[m] = losses_of(&b[i].kept->run.records);
        number[m] = i + 1;
        const int same = same_line(l, m);
        if (same >= 0)
            RP_FORMAT(names[m], "run %d, the same as run %d", number[m], number[same]);
        else
            RP_FORMAT(names[m], "run %d", number[m]);
        line[m] = (struct rp_series){.kind = l[m].n > 1 ? RP_LINE : RP_DOTS,
                                     .x = l[m].x,
                                     .y = l[m].y,
                                     .n = l[m].n,
                                     .class = class[m],
                                     .name = names[m]};
        m++;
    }
    RP_FORMAT(id, "losses-%d", first + 1);
    RP_FORMAT(words, "Losses of %d runs of one model, step by step; the sections of the runs have each alone.", m);
    struct rp_plot p = {.id = id,
                        .title = "Losses",
                        .x_label = "step",
                        .y_label = "",
                        .words = words,
                        .series = line,
                        .n_series = (size_t)m,
                        .height = 200};
    if (m > 1)
        rp_plot(out, &p);
    if (more)
        rp_buf_printf(
            out, "<p class=\"note\">Drawn are the first %d runs of this model; %d more have their losses below.</p>\n",
            m, more);
    for (int i = 0; i < m; i++)
        free(l[i].x);
}

/* ---- fleets and scaling ---- */

void rp_overview_fleet(struct rp_buf *out, const struct rp_rows *rows, enum rp_doc_format format)
{
    RP_DOC d = {.as = format == RP_DOC_HTML ? RP_FILL_HTML : RP_FILL_TEXT};
    RP_COMPARISON c = {0};
    rp_fleet(&c, rows);
    rp_fleet_show(&d, rows, c.fleet, 1);
    rp_doc_write(out, &d, format);
}

/* Bundles of one work on different numbers of devices. The numbers of results are those of the bundles on the page. */
static void put_scaling(struct rp_buf *out, const struct rp_rows *rows)
{
    RP_DOC table = {.as = RP_FILL_HTML};
    RP_COMPARISON c = {0};
    rp_scaling(&c, rows);
    if (!c.scaling_n)
        return;
    rp_doc_title(&table, "Speed-up and efficiency against the fewest devices");
    rp_scaling_table(&table, rows, c.scaling, c.scaling_n);
    for (int64_t i = 0; i < c.notes_n; i++)
        rp_doc_line(&table, "%s", c.notes[i]);
    rp_doc_write(out, &table, RP_DOC_HTML);
}

void rp_overview_row(struct rp_rows *rows, const struct rp_shown_bundle *b)
{
    struct rp_result *row = rp_rows_add_verified(rows, b->v, b->kept);
    if (is_command(b))
        row->throughput = NAN;
}

/* What is not in the bars, because this program did not measure it. */
static void put_commands(struct rp_buf *out, const struct rp_shown_bundle *b, int n)
{
    int any = 0;
    for (int i = 0; i < n; i++)
        any |= is_command(&b[i]);
    if (!any)
        return;
    rp_html_table(out, "Commands, each " RP_MEASURED_BY_LOG, "#bundle|command|#figure|unit");
    for (int i = 0; i < n; i++) {
        struct rp_section s;
        if (!is_command(&b[i]))
            continue;
        rp_section_init(&s, out, i + 1, &b[i]);
        rp_buf_printf(out, "<tr><td class=\"r\">%d</td><th scope=\"row\">", i + 1);
        rp_section_fill(&s, "{/name t}</th><td class=\"r\">");
        const struct rp_log_figures *log = b[i].v->run->observed->log;
        const int is_one = json_array_size(log ? log->result : NULL) == 1;
        if (is_one && !rp_section_has(&s, "/log/result/0/throughput/value") && !isnan(rp_run_minutes(b[i].v->run)))
            rp_section_fill(&s, "{/log/result/0/time_to_train_min d3}</td><td>minutes to train</td></tr>\n");
        else if (is_one)
            rp_section_fill(
                &s, "{/log/result/0/throughput/value d3}</td><td>{/log/result/0/throughput/unit t}</td></tr>\n");
        else
            rp_buf_printf(out, "%s</td><td></td></tr>\n", log && json_array_size(log->result) ? "several" : "none");
    }
    rp_html_table_end(out);
}

void rp_overview(struct rp_buf *out, const struct rp_shown_bundle *b, int n)
{
    const struct differing d = settings_that_differ(b, n);
    RP_ROWS rows = {0};
    for (int i = 0; i < n; i++)
        rp_overview_row(&rows, &b[i]);
    rp_buf_puts(out, "<div class=\"overview\">");
    for (int i = 0; i < n; i++)
        if (!is_command(&b[i]) && !seen_before(b, i, unit_of))
            put_throughput(out, b, n, &d, unit_of(&b[i]));
    put_commands(out, b, n);
    rp_overview_fleet(out, &rows, RP_DOC_HTML);
    rp_buf_puts(
        out,
        "<p class=\"note\">The bundles are listed next to each other, not compared: <code>repro compare</code> reports "
        "whether they are comparable.</p>\n");
    for (int i = 0; i < n; i++)
        if (!is_command(&b[i]) && !seen_before(b, i, model_of))
            put_losses(out, b, n, i);
    put_scaling(out, &rows);
    rp_buf_puts(out, "</div>\n");
}
