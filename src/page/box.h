/* The box "as verified by": everything on a page that depends on its author, their keys and their files. Inner header
 * of page/.
 *
 * What:    verdict and checks of each bundle, trust in keys, the results of --ledger and --original.
 * Flow:    verifications -> lines of the box.
 * Owner:   borrowed.
 * Extend:  a fact is a line in put_facts(); a new form of line is a row in html_lines or markdown_lines.
 */
#pragma once

#include "page/page.h"

void rp_box(struct rp_buf *out, const struct rp_shown_bundle *b, int n, int markdown);
