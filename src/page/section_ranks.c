/* The ranks of a run of several: steps and exchanges of each, how far they are apart, where they ran, and how these
 * nodes differ. */
#include "page/section.h"

#include "base/json.h"
#include "base/sort.h"
#include "base/text.h"
#include "capture/env_diff.h"
#include "capture/env_show.h"
#include "report/tables.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES_MAX 8    /* ranks with a line each; of more the least, the median and the most */
#define DIFFERENCES_MAX 40 /* in the table of nodes that differ */
#define ROWS_MAX 40000 /* rows of CSV in the page: some 12 MB, which a browser still opens */

/* One quantity of all ranks by step: free(x) and free(y[0]). */
struct rank_lines {
    size_t n, lines;
    double *x, *y[LINES_MAX];
};

static const char *const line_class[LINES_MAX] = {"r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7"};

/* A line per rank, or the least, the median and the most of all at each step. Gaps: not known. */
static struct rank_lines lines_of(const struct rp_all_ranks *a, enum rp_rank_time what)
{
    struct rank_lines l = {.n = (size_t)a->steps, .lines = a->ranks <= LINES_MAX ? (size_t)a->ranks : 3};
    double *block = rp_alloc((l.n + 1) * l.lines * sizeof *block);
    RP_FREE double *at = rp_alloc((size_t)a->ranks * sizeof *at);
    l.x = rp_alloc((l.n + 1) * sizeof *l.x);
    for (size_t k = 0; k < l.lines; k++)
        l.y[k] = block + k * (l.n + 1);
    for (size_t i = 0; i < l.n; i++) {
        l.x[i] = (double)i;
        for (int r = 0; r < a->ranks; r++)
            at[r] = (double)rp_rank_seconds(a, r, what)[i];
        if (a->ranks > LINES_MAX) {
            rp_sort_double(at, (size_t)a->ranks);
            l.y[0][i] = at[0];
            l.y[1][i] = rp_median(at, (size_t)a->ranks);
            l.y[2][i] = at[a->ranks - 1];
        }
        for (size_t k = 0; a->ranks <= LINES_MAX && k < l.lines; k++)
            l.y[k][i] = at[k];
    }
    return l;
}

static void plot_lines(struct rp_section *s, const struct rp_all_ranks *a, enum rp_rank_time what, const char *name,
                       const char *title)
{
    static const char *const spread[] = {"least of all ranks", "median", "most"};
    struct rp_series line[LINES_MAX];
    char id[48], words[300], names[LINES_MAX][24];
    double most = 0;
    struct rank_lines l = lines_of(a, what);
    for (size_t k = 0; k < l.lines; k++) {
        RP_FORMAT(names[k], "rank %zu", k);
        line[k] = (struct rp_series){.kind = l.n > 1 ? RP_LINE : RP_DOTS,
                                     .x = l.x,
                                     .y = l.y[k],
                                     .n = l.n,
                                     .class = line_class[k],
                                     .name = a->ranks > LINES_MAX ? spread[k] : names[k]};
        for (size_t i = 0; i < l.n; i++)
            most = fmax(most, l.y[k][i]);
    }
    RP_FORMAT(id, "b%d-%s", s->index, name);
    RP_FORMAT(words, "%zu steps of %d ranks, at most %.4g s%s.", l.n, a->ranks, most,
              a->ranks > LINES_MAX ? "; drawn are the least, the median and the most of all ranks" : "");
    struct rp_plot p = {.id = id, .title = title, .x_label = "step", .y_label = "seconds", .words = words,
                        .series = line, .n_series = l.lines, .height = 170, .from_zero = 1};
    rp_plot(s->out, &p);
    free(l.y[0]);
    free(l.x);
}

/* How far the ranks are apart in a step: the longest of them against the shortest. */
static void put_skew(struct rp_section *s, const struct rp_all_ranks *a)
{
    RP_FREE double *skew = rp_alloc((size_t)(a->steps + 1) * sizeof *skew);
    int64_t worst = 0;
    for (int64_t i = 0; i < a->steps; i++) {
        double low = INFINITY, high = 0;
        for (int r = 0; r < a->ranks; r++) {
            const double one = (double)rp_rank_seconds(a, r, RP_RANK_STEP)[i];
            low = fmin(low, one);
            high = fmax(high, one);
        }
        skew[i] = high - low;
        worst = skew[i] > skew[worst] ? i : worst;
    }
    const double most = skew[worst];
    rp_buf_printf(
        s->out,
        "<p>Skew, the longest time of a step among all ranks less the shortest: %.4g s in the median of %" PRId64
        " steps, at most %.4g s, at step %" PRId64 ".</p>\n",
        rp_median(skew, (size_t)a->steps), a->steps, most, worst);
}

static void put_csv(struct rp_section *s, const struct rp_all_ranks *a)
{
    RP_BUF csv = {0};
    if (a->steps * a->ranks > ROWS_MAX)
        return;
    rp_buf_puts(&csv, "rank,step,seconds,exchange_s,wait_s");
    for (int r = 0; r < a->ranks; r++)
        for (int64_t i = 0; i < a->steps; i++) {
            rp_buf_printf(&csv, "\n%d,%" PRId64, r, i);
            for (int k = 0; k < RP_RANK_TIMES; k++) {
                const float x = rp_rank_seconds(a, r, (enum rp_rank_time)k)[i];
                rp_buf_puts(&csv, ",");
                if (isfinite(x))
                    rp_buf_printf(&csv, "%.9g", (double)x);
            }
        }
    rp_buf_puts(&csv, "\n");
    rp_section_download(s, &csv, "rank-step", "steps/");
}

static int knows_waits(const struct rp_all_ranks *a)
{
    for (int r = 0; r < a->ranks; r++)
        if (a->share[r].wait_ns < 0)
            return 0;
    return 1;
}

/* ---- nodes that differ ---- */

/* A setting in which nodes differ from node 0, all in the same way. */
struct node_difference {
    char *field, *here, *there; /* here: on node 0 */
    char impact[16];
    char *in; /* [nodes] */
};

struct node_differences {
    struct node_difference one[DIFFERENCES_MAX];
    int n, left_out;
};

static void add_difference(struct node_differences *all, const struct rp_difference *d, int node, int nodes)
{
    struct rp_buf side[2] = {{0}, {0}};
    const char *field = d->field;
    int i = 0;
    rp_capture_show_sides(side, d);
    while (i < all->n &&
           (strcmp(all->one[i].field, field) != 0 || strcmp(all->one[i].there, rp_buf_text(&side[1])) != 0))
        i++;
    if (i < DIFFERENCES_MAX) {
        struct node_difference *one = &all->one[i];
        if (i == all->n) {
            *one = (struct node_difference){.field = rp_strdup(field), .here = rp_strdup(rp_buf_text(&side[0])),
                                            .there = rp_strdup(rp_buf_text(&side[1])), .in = rp_alloc((size_t)nodes)};
            RP_FORMAT(one->impact, "%s", d->impact);
            all->n++;
        }
        one->in[node] = 1;
    } else {
        all->left_out++;
    }
    rp_buf_fini(&side[0]);
    rp_buf_fini(&side[1]);
}

static void find_differences(struct node_differences *all, const struct rp_verified *kept)
{
    struct rp_err ignored;
    for (int node = 1; node < kept->run.nodes; node++) {
        RP_CAPTURE_COMPARISON c = {0};
        if (!kept->run.node[node].before ||
            rp_capture_compare(&c, kept->run.node[0].before, kept->run.node[node].before, &ignored) < 0)
            continue;
        for (int64_t i = 0; i < c.different_n + c.one_side_n; i++) {
            const struct rp_difference *one = i < c.different_n ? &c.different[i] : &c.one_side[i - c.different_n];
            if (rp_capture_important(one))
                add_difference(all, one, node, kept->run.nodes);
        }
    }
}

/* Unlike nodes are the first explanation of a slow rank. */
static void put_differences(struct rp_section *s)
{
    const struct rp_verified *kept = s->b->kept;
    struct node_differences *all = rp_alloc(sizeof *all);
    RP_DOC d = {.as = RP_FILL_HTML};
    char list[64], shown[72];
    find_differences(all, kept);
    if (all->n) {
        rp_doc_title(&d, "Settings in which nodes differ from node 0 before the run");
        rp_doc_table(&d, "field|impact|node 0|nodes|there");
    } else if (kept->run.nodes > 1) {
        rp_doc_line(&d, "No node differs from node 0 in a setting that is likely to change the throughput.");
    }
    for (int i = 0; i < all->n; i++) {
        struct node_difference *one = &all->one[i];
        rp_list_numbers(list, sizeof list, one->in, kept->run.nodes);
        rp_doc_text(&d, one->field, "-");
        rp_doc_text(&d, one->impact, "-");
        rp_doc_text(&d, rp_excerpt(shown, one->here), "-");
        rp_doc_text(&d, list, "-");
        rp_doc_text(&d, rp_excerpt(shown, one->there), "-");
        free(one->field);
        free(one->here);
        free(one->there);
        free(one->in);
    }
    if (all->left_out)
        rp_doc_line(&d, "Differences that are left out here: %d.", all->left_out);
    rp_doc_write(s->out, &d, RP_DOC_HTML);
    free(all);
}

void rp_section_ranks(struct rp_section *s)
{
    const struct rp_all_ranks *a = &s->b->kept->run.ranks;
    rp_section_fill_slowest(
        s, "<p>{/world/ranks d0} ranks, number of nodes {/world/nodes d0}: {/layout/data d0} x {/layout/tensor d0} x "
           "{/layout/pipeline d0} (data x tensor x pipeline). The slowest is <b>rank {/world/slowest d0}</b>, on node "
           "{~/node d0}: times of the run are its.</p>\n");
    if (a->steps > 0) {
        put_skew(s, a);
        plot_lines(s, a, RP_RANK_STEP, "rank-steps", "Time of every step by rank");
        plot_lines(s, a, RP_RANK_EXCHANGE, "rank-exchange", "Of that in exchanges with other ranks");
        if (knows_waits(a))
            plot_lines(s, a, RP_RANK_WAIT, "rank-wait", "Of that waiting for other ranks");
        else
            rp_buf_puts(s->out, "<p class=\"note\">How long ranks waited for each other is unknown: their transport "
                                "does not tell.</p>\n");
        put_csv(s, a);
    } else {
        rp_buf_puts(
            s->out,
            "<p>No plot: no step was finished, or there are too many; <code>repro inspect</code> prints the records of "
            "each rank.</p>\n");
    }
    rp_section_table(s, rp_table_ranks);
    rp_section_table(s, rp_table_places);
    put_differences(s);
}
