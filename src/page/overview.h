/* Several bundles next to each other: throughput, losses, a fleet's outliers, scaling. Inner header of page/.
 *
 * What:    the head of a page of several bundles.
 * Flow:    verified bundles, none of which failed -> HTML. They are numbered as on the page, from 1.
 * Owner:   borrowed.
 * Extend:  what compares bundles is a function in overview.c; whether they may be compared is the question of compare/.
 */
#pragma once

#include "compare/compare.h"
#include "page/page.h"
#include "report/doc.h"

/* A row for each bundle, in their order, for fleets and scaling: that of a command has no throughput, which its log
 * alone has. */
void rp_overview_row(struct rp_rows *rows, const struct rp_shown_bundle *b);
void rp_overview(struct rp_buf *out, const struct rp_shown_bundle *b, int n);
/* Median, spread and outliers of bundles of one kind; nothing where there are too few. */
void rp_overview_fleet(struct rp_buf *out, const struct rp_rows *rows, enum rp_doc_format format);
