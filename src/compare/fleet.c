/* Outliers among results of the same settings and hardware: a node of a fleet that is slower than the others. */
#include "base/sort.h"
#include "base/text.h"
#include "compare/compare.h"
#include "compare/layout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FLEET_MIN 4 /* with three, the odd one decides the spread by itself */
/* Iglewicz and Hoaglin, 1993: an observation whose modified z-score exceeds 3.5 is an outlier. Of a normal
 * distribution, that is 1 of 2000 in a large sample, and more in a small one. Hence the least deviation: a node that is
 * 1 % slower is of no interest, however close the others are. */
#define FLEET_SCORE 3.5
#define FLEET_DEVIATION 0.01
#define SCORE_OF_MAD 0.6745 /* the median absolute deviation of a normal distribution, in standard deviations */

enum fleet_kind { WORK, SETTING, METHOD, MACHINE };

/* Properties that are the same in a fleet: those of MACHINE that a faulty node may change are not. */
static const struct {
    const char *key, *scope;
    enum fleet_kind kind;
} properties[] = {
#define CONFOUNDER(key, name, kind, scope, effect, why) {#key, #scope, kind},
#include "compare/confounders.def"
#undef CONFOUNDER
};
static const char *const hardware[] = {"device_model", "devices", "nodes", "threads", "rank_layout", "isa"};

/* The values of these properties; NULL: the result is in no fleet. Publishers' tables have one result of each kind. */
static char *kind_of(const struct rp_result *row)
{
    char value[RP_RESULT_TEXT_MAX + 1];
    RP_BUF out = {0};
    if (row->source.kind == RP_RESULT_PUBLISHED || isnan(row->throughput) || !row->unit)
        return NULL;
    for (size_t i = 0; i < sizeof properties / sizeof *properties; i++) {
        const char *key = properties[i].key;
        if (properties[i].kind == MACHINE && !RP_IS_IN(hardware, key, strlen(key)))
            continue;
        if (strcmp(properties[i].scope, "COLLECTIVES") == 0 && strcmp(row->unit, "GB/s") != 0)
            continue;
        rp_result_get(value, sizeof value, row, key);
        rp_buf_printf(&out, "%s\n", value);
    }
    rp_buf_puts(&out, row->unit);
    return rp_buf_take(&out);
}

/* The most frequent kind, the first of equals; *n: how many results are of it. */
static const char *largest(char **kind, int rows, int *n)
{
    const char *best = NULL;
    *n = 0;
    for (int i = 0; i < rows; i++) {
        int equal = 0;
        for (int k = i; kind[i] && k < rows; k++)
            equal += kind[k] && strcmp(kind[i], kind[k]) == 0;
        if (equal > *n) {
            *n = equal;
            best = kind[i];
        }
    }
    return best;
}

static double median_deviation(const double *x, int n, double median)
{
    RP_FREE double *away = rp_alloc((size_t)n * sizeof *away);
    for (int i = 0; i < n; i++)
        away[i] = fabs(x[i] - median);
    return rp_median(away, (size_t)n);
}

static void find_outliers(struct rp_fleet *f, const struct rp_rows *rows, char **kind, const char *best)
{
    RP_FREE double *x = rp_alloc((size_t)rows->n * sizeof *x);
    int n = 0;
    for (int i = 0; i < rows->n; i++)
        if (kind[i] && strcmp(kind[i], best) == 0)
            x[n++] = rows->row[i].throughput;
    f->results = n;
    f->median = rp_median(x, (size_t)n); /* sorts */
    f->lowest = x[0];
    f->highest = x[n - 1];
    f->spread = (f->highest - f->lowest) / f->median;
    const double usual = median_deviation(x, n, f->median);
    for (int i = 0; i < rows->n; i++) {
        const double away = rows->row[i].throughput - f->median;
        if (!kind[i] || strcmp(kind[i], best) != 0 || fabs(away) < FLEET_DEVIATION * f->median ||
            SCORE_OF_MAD * fabs(away) <= FLEET_SCORE * usual)
            continue;
        struct rp_outlier *o = rp_object_add(&f->outliers, &f->outliers_n, &rp_type_outlier);
        o->row = i;
        o->deviation = away / f->median;
    }
}

void rp_fleet(struct rp_comparison *out, const struct rp_rows *rows)
{
    int n;
    if (rows->n < FLEET_MIN)
        return;
    RP_FREE char **kind = rp_alloc((size_t)rows->n * sizeof *kind);
    for (int i = 0; i < rows->n; i++)
        kind[i] = kind_of(&rows->row[i]);
    const char *best = largest(kind, rows->n, &n);
    if (n >= FLEET_MIN) {
        out->fleet = rp_alloc(sizeof *out->fleet);
        rp_object_init(out->fleet, &rp_type_fleet);
        for (int i = 0; !out->fleet->unit; i++)
            if (kind[i] == best)
                out->fleet->unit = rp_strdup(rows->row[i].unit);
        find_outliers(out->fleet, rows, kind, best);
    }
    for (int i = 0; i < rows->n; i++)
        free(kind[i]);
}

/* The number of the first result of the fleet's unit with that throughput. */
static int number_of(const struct rp_rows *rows, const struct rp_fleet *f, double throughput)
{
    int i = 0;
    while (i + 1 < rows->n && !(rows->row[i].throughput == throughput && rows->row[i].unit &&
                                strcmp(rows->row[i].unit, f->unit) == 0))
        i++;
    return i + 1;
}

void rp_fleet_show(struct rp_doc *d, const struct rp_rows *rows, const struct rp_fleet *f, int by_digest)
{
    char figure[3][32];
    if (!f)
        return;
    rp_doc_line(d, "%lld results of the same settings and hardware: median %s %s, %s (%d) to %s (%d), spread %.1f %%%s",
                (long long)f->results, rp_result_figure(figure[0], f->median, 0), f->unit,
                rp_result_figure(figure[1], f->lowest, 0), number_of(rows, f, f->lowest),
                rp_result_figure(figure[2], f->highest, 0), number_of(rows, f, f->highest), 100 * f->spread,
                f->outliers_n ? "" : "; no outlier");
    for (int64_t i = 0; i < f->outliers_n; i++) {
        const struct rp_outlier *o = &f->outliers[i];
        const struct rp_result_source *source = &rows->row[o->row].source;
        const char *statement = source->statement ? source->statement : RP_UNKNOWN,
                   *file = source->file ? rp_base_name(source->file) : RP_UNKNOWN;
        RP_FREE char *name = by_digest ? rp_asprintf("statement %.16s", statement) : rp_strdup(file);
        rp_doc_line(d, "outlier: %lld (%s), %.1f %% %s the median", (long long)o->row + 1, name,
                    100 * fabs(o->deviation), o->deviation < 0 ? "below" : "above");
    }
}
