/* Plots as SVG, drawn from raw data: lines, dots, bars and bands over two axes.
 *
 * What:    one figure: caption, drawing, and a sentence for screen readers.
 * Flow:    struct rp_plot (borrowed arrays) -> <figure>.
 * Extend:  another kind of series is a value of enum rp_series_kind and a function in plot.c.
 *
 * The drawing is stretched to the width of the page: shapes are in a box of 1000 units that is scaled in x only, with
 * strokes of constant width; labels are outside of the box, placed by percentages, in the size of the text. So it is
 * legible on a phone and on paper. A line of many points shows the minimum and maximum of each of 500 columns and is
 * not smoothed otherwise. A dot outside the given range of y is drawn in grey at the edge. On top lie up to 60
 * invisible columns, whose <title> shows the values under the pointer.
 */
#pragma once

#include "base/buf.h"

#include <stddef.h>

enum rp_series_kind { RP_LINE, RP_DOTS, RP_BARS }; /* bars: from x[i] to x[i + 1], n of them with n + 1 edges */

struct rp_series {
    enum rp_series_kind kind;
    const double *x, *y; /* values that are not finite are gaps */
    size_t n;
    const char *class, *name; /* of the style sheet; for the legend, in HTML, NULL: none */
};
struct rp_band { /* in the background, over the whole height */
    double from, to;
    const char *class;
};
struct rp_mark { /* a line across with a label: of a value of x, or of y */
    double at;
    int along_x; /* 1: at a value of x */
    const char *label;
};
struct rp_plot {
    const char *id, *title, *x_label, *y_label; /* texts of this program; id is unique on the page */
    const char *x_name;                         /* of a value of x below the pointer; NULL: x_label */
    const char *words;                          /* the same as a sentence, for screen readers */
    const struct rp_series *series;
    size_t n_series;
    const struct rp_band *band;
    size_t n_bands;
    const struct rp_mark *mark;
    size_t n_marks;
    int height;          /* CSS pixels */
    int from_zero;       /* y begins at 0 */
    int log_x, log_y;    /* decades; values must be above 0 */
    double x0, x1, y0, y1; /* 0 and 0: as the data */
};

void rp_plot(struct rp_buf *out, const struct rp_plot *p);
