/* Plots: the coordinates that follow from the data, by hand. */
#include "page/plot.h"
#include "tests/unit/tap.h"

#include <math.h>

static void drawn(struct rp_buf *out, const struct rp_plot *p)
{
    rp_buf_fini(out);
    rp_plot(out, p);
}

/* The path of a class is these commands. */
static void is_path(const struct rp_buf *plot, const char *class, const char *expected)
{
    RP_FREE char *begin = rp_asprintf("<path class=\"%s\" d=\"", class);
    const char *at = strstr(plot->data, begin), *end = at ? strchr(at + strlen(begin), '"') : NULL;
    RP_FREE char *is =
        end ? rp_asprintf("%.*s", (int)(end - at - (int)strlen(begin)), at + strlen(begin)) : rp_strdup("no such path");
    CHECK_STR(is, expected);
}

/* Texts of a class of labels, and where each is: "x,y text|...". */
static void are_labels(const struct rp_buf *plot, const char *svg, const char *place, const char *expected)
{
    RP_BUF all = {0};
    const char *from = strstr(plot->data, svg);
    RP_FREE char *begin = rp_asprintf("<text %s=\"", place);
    for (const char *at = from; at && (at = strstr(at, begin)); at++) {
        const char *value = at + strlen(begin), *text = strchr(at, '>') + 1;
        rp_buf_printf(&all, "%.*s %.*s|", (int)strcspn(value, "\""), value, (int)strcspn(text, "<"), text);
    }
    CHECK_STR(rp_buf_text(&all), expected);
}

static struct rp_plot plot_of(const struct rp_series *series, size_t n, int height)
{
    return (struct rp_plot){.id = "p", .title = "T", .x_label = "seconds", .y_label = "steps", .words = "w",
                            .series = series, .n_series = n, .height = height};
}

/* Bars from edge to edge, 0.8 units apart from it, over 1000 units and the height of the plot; a bar of nothing is
 * none. */
TEST(bars_stand_between_their_edges_as_high_as_their_counts)
{
    static const double edge[] = {10, 20, 30, 50}, count[] = {2, 0, 4};
    const struct rp_series bars[] = {{.kind = RP_BARS, .x = edge, .y = count, .n = 3, .class = "s1"}};
    struct rp_plot p = plot_of(bars, 1, 150);
    p.from_zero = 1;
    RP_BUF out = {0};
    drawn(&out, &p);
    is_path(&out, "bars s1", "M0.8 150V75.0H249.2V150M500.8 150V0.0H999.2V150");
    is_path(&out, "grid", "M0 150.0H1000M0 112.5H1000M0 75.0H1000M0 37.5H1000M0 0.0H1000");
    are_labels(&out, "class=\"area\"", "x", "0.0% 10|25.0% 20|50.0% 30|75.0% 40|100.0% 50|");
    are_labels(&out, "class=\"ticks\"", "x=\"44\" y", "168.0 0|130.5 1|93.0 2|55.5 3|18.0 4|");
}

TEST(lines_end_at_gaps_and_the_range_is_that_of_the_data)
{
    const double x[] = {0, 1, 2, 3, 4}, y[] = {1, 3, NAN, 5, 2};
    const struct rp_series line[] = {{.kind = RP_LINE, .x = x, .y = y, .n = 5, .class = "s2"},
                                     {.kind = RP_DOTS, .x = x, .y = y, .n = 5, .class = "s2"}};
    struct rp_plot p = plot_of(line, 2, 160);
    RP_BUF out = {0};
    drawn(&out, &p);
    is_path(&out, "line s2", "M0.0 160.0L250.0 80.0M750.0 0.0L1000.0 120.0");
    is_path(&out, "dots s2", "M0.0 160.0h0M250.0 80.0h0M750.0 0.0h0M1000.0 120.0h0");
    p.from_zero = 1; /* 0 to 5 */
    drawn(&out, &p);
    is_path(&out, "line s2", "M0.0 128.0L250.0 64.0M750.0 0.0L1000.0 96.0");
    p.x0 = -1, p.x1 = 9, p.y0 = 0, p.y1 = 10;
    drawn(&out, &p);
    is_path(&out, "line s2", "M100.0 144.0L200.0 112.0M400.0 80.0L500.0 128.0");
}

TEST(bands_and_marks_are_at_their_values)
{
    const double x[] = {0, 10}, y[] = {0, 4};
    const struct rp_series line[] = {{.kind = RP_LINE, .x = x, .y = y, .n = 2, .class = "s1"}};
    const struct rp_band band = {2.5, 5, "warm"};
    const struct rp_mark mark[] = {{7.5, 1, "p90"}, {1, 0, "mean"}};
    struct rp_plot p = plot_of(line, 1, 200);
    RP_BUF out = {0};
    p.band = &band;
    p.n_bands = 1;
    p.mark = mark;
    p.n_marks = 2;
    drawn(&out, &p);
    CHECK(strstr(out.data, "<rect class=\"band warm\" x=\"250.0\" y=\"0\" width=\"250.0\" height=\"200\"/>"), "%s",
          out.data);
    CHECK(strstr(out.data, "<path class=\"mark\" d=\"M750.0 0V200\"/><path class=\"mark\" d=\"M0 150.0H1000\"/>"), "%s",
          out.data);
    CHECK(strstr(out.data, "x=\"75.0%\" y=\"10\" text-anchor=\"middle\">p90<") &&
              strstr(out.data, "x=\"100%\" y=\"159.0\" text-anchor=\"end\">mean<"),
          "%s", out.data);
}

TEST(decades_are_as_wide_as_each_other)
{
    const double x[] = {1, 10, 1000}, y[] = {2, 0, 3e4}; /* 0 has no logarithm */
    const struct rp_series line[] = {{.kind = RP_DOTS, .x = x, .y = y, .n = 3, .class = "s1"}};
    struct rp_plot p = plot_of(line, 1, 100);
    RP_BUF out = {0};
    p.log_x = p.log_y = 1;
    drawn(&out, &p); /* 1 to 1e5: 2 is 0.30103 of a decade, 3e4 4.47712 */
    is_path(&out, "dots s1", "M0.0 94.0h0M1000.0 10.5h0");
    are_labels(&out, "class=\"area\"", "x", "0.0% 1|33.3% 10|66.7% 100|100.0% 1k|");
}

/* Each column of two units keeps its least and its largest point of many, in their order. */
TEST(lines_of_many_points_keep_both_extremes_of_a_column)
{
    enum { N = 5001 };
    static double x[N], y[N];
    for (int i = 0; i < N; i++) {
        x[i] = i;
        y[i] = i == 2502 ? 10 : i == 2507 ? -10 : 0;
    }
    const struct rp_series line[] = {{.kind = RP_LINE, .x = x, .y = y, .n = N, .class = "s1"}};
    struct rp_plot p = plot_of(line, 1, 100);
    RP_BUF out = {0};
    drawn(&out, &p);
    CHECK(strstr(out.data, "L500.4 0.0L501.4 100.0L502.0 50.0"), "%.4000s", out.data + 8000);
}

/* Every point, or a sixtieth of the axis, has its values as <title>; a line and the dots on it have them once. */
TEST(values_below_the_pointer_are_those_of_every_series)
{
    enum { N = 600 };
    static double x[N], y[N];
    const double few[] = {0, 1, 4}, a[] = {1.5, 2, 1234567}, b[] = {7, NAN, 9};
    const struct rp_series line[] = {{.kind = RP_LINE, .x = few, .y = a, .n = 3, .class = "s1", .name = "rank 0"},
                                     {.kind = RP_DOTS, .x = few, .y = a, .n = 3, .class = "s1"},
                                     {.kind = RP_LINE, .x = few, .y = b, .n = 3, .class = "s2", .name = "rank 1"}};
    static const char *const expected[] = {
        "<rect class=\"hover\" x=\"0.0\" y=\"0\" width=\"125.0\" height=\"100\"><title>step 0\nrank 0: 1.5 s\nrank 1: "
        "7 s</title></rect>",
        "x=\"125.0\" y=\"0\" width=\"500.0\" height=\"100\"><title>step 1\nrank 0: 2 s</title>",
        "x=\"625.0\" y=\"0\" width=\"375.0\" height=\"100\"><title>step 4\nrank 0: 1,234,567 s\nrank 1: 9 s</title>"};
    struct rp_plot p = plot_of(line, 3, 100);
    RP_BUF out = {0};
    p.x_label = "step", p.y_label = "s";
    drawn(&out, &p);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        CHECK(strstr(out.data, expected[i]), "%s is not in %s", expected[i], out.data);
    for (int i = 0; i < N; i++)
        x[i] = i, y[i] = i % 10;
    const struct rp_series many[] = {{.kind = RP_LINE, .x = x, .y = y, .n = N, .class = "s1"}};
    p.series = many, p.n_series = 1;
    drawn(&out, &p);
    int titles = 0;
    for (const char *at = out.data; (at = strstr(at, "<title>")); at++)
        titles++;
    CHECK(titles == 60 && strstr(out.data, "<title>step 0 to 9\n0 to 9 s</title>"), "%d titles", titles);
    const double edge[] = {1, 2, 4}, count[] = {3, 1};
    const struct rp_series bars[] = {{.kind = RP_BARS, .x = edge, .y = count, .n = 2, .class = "s1"}};
    p = plot_of(bars, 1, 100);
    drawn(&out, &p);
    CHECK(strstr(out.data, "<title>1 to 2 seconds: 3 steps</title>") &&
              strstr(out.data, "<title>2 to 4 seconds: 1 steps</title>"),
          "%s", out.data);
}

/* What a given range leaves out is not lost: it is at the edge, in another colour. */
TEST(dots_outside_of_the_range_are_at_its_edge)
{
    const double x[] = {0, 1, 2, 3}, y[] = {50, 2, 4, -7};
    const struct rp_series dots[] = {{.kind = RP_DOTS, .x = x, .y = y, .n = 4, .class = "s1"}};
    struct rp_plot p = plot_of(dots, 1, 100);
    RP_BUF out = {0};
    p.x1 = 4, p.y0 = 0, p.y1 = 4;
    drawn(&out, &p);
    is_path(&out, "dots s1", "M250.0 50.0h0M500.0 0.0h0");
    is_path(&out, "dots beyond", "M0.0 0.0h0M750.0 100.0h0");
    p.y0 = p.y1 = 0;
    drawn(&out, &p);
    CHECK(!strstr(out.data, "beyond"), "a dot outside of the range of the data");
}
