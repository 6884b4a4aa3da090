/* The box "as verified by": everything on a page that depends on its author, their keys and their files. Inner header of page/.
 *
 * What:    verdict and checks of each bundle, trust in keys, the results of --ledger and --original. `verify --report` does not compare it.
 * Flow:    verifications -> lines of the box; foreign bytes -> whether they consist of such lines only.
 * Owner:   borrowed.
 * Extend:  a fact is a line in put_facts(); a new form of line is a row in html_lines or markdown_lines, which writer and check share.
 */
#pragma once

#include "page/page.h"
#include "page/span.h"

extern const char *const rp_box_open[2], *const rp_box_close[2]; /* [markdown]; no line of a box contains them */

void rp_box(struct rp_buf *out, const struct rp_shown_bundle *b, int n, int markdown);
/* Does the inside of a box consist only of lines that rp_box() can write? RP_MISMATCH: it could hide or imitate the body. */
int rp_box_check(struct rp_span inside, int markdown, struct rp_err *err) rp_must_check;
