/* Plots as SVG, made here from raw data: lines, dots, bars and bands over two axes.
 *
 * What:    one figure: caption, drawing, a sentence that says the same to somebody who does not see it.
 * Flow:    struct rp_plot (borrowed arrays) -> <figure>.
 * Owner:   nothing is kept.
 * Extend:  another kind of series is a value of enum rp_series_kind and a function in plot.c.
 *
 * The drawing is stretched to the width of the page: shapes live in a box of 1000 units that is scaled in x alone, with strokes that are
 * not; labels stand outside of it, at percentages, in the size of the text. So it is as legible on a telephone as on paper. Lines of more
 * points than the eye can tell apart are drawn by the least and the greatest of each of 500 columns; nothing else is smoothed away.
 */
#ifndef RP_PAGE_PLOT_H
#define RP_PAGE_PLOT_H

#include "base/buf.h"

#include <stddef.h>

enum rp_series_kind { RP_LINE, RP_DOTS, RP_BARS }; /* bars: from x[i] to x[i + 1], n of them with n + 1 edges */

struct rp_series {
    enum rp_series_kind kind;
    const double *x, *y; /* values that are not finite are gaps */
    size_t n;
    const char *class, *name; /* of the style sheet; for the legend, NULL: none */
};
struct rp_band { /* behind the data, over the whole height */
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

#endif
