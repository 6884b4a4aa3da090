/* The box "as verified by": what depends on who made a page, their keys and their files. Inner header of page/.
 *
 * What:    verdict and checks of each bundle, trust in keys, what --ledger and --original added. `verify --report` does not compare it.
 * Flow:    verifications -> lines of the box; foreign bytes -> whether they are nothing but such lines.
 * Owner:   borrowed.
 * Extend:  a fact is a line in facts(); a new form of line is a row in html_lines or markdown_lines, which writer and check share.
 */
#ifndef RP_PAGE_BOX_H
#define RP_PAGE_BOX_H

#include "page/page.h"
#include "page/span.h"

extern const char *const rp_box_open[2], *const rp_box_close[2]; /* [markdown]; no line of a box holds them */

void rp_box(struct rp_buf *out, const struct rp_shown_bundle *b, int n, int markdown);
/* Is what stands between the two only escaped text in lines that rp_box() writes? RP_MISMATCH: it could hide or imitate the body. */
int rp_box_check(struct rp_span inside, int markdown, struct rp_err *err) rp_must_check;

#endif
