/* Pages: what a bundle shows, as one HTML file that asks nobody for anything, or as Markdown; and the check of such a file.
 *
 * What:    `repro report` and `repro verify --report`.
 * Flow:    verified bundles -> rp_page_html() -> bytes; bytes and a verified bundle -> rp_page_check() -> what is wrong with them.
 * Owner:   what is shown is borrowed; the caller owns the buffers.
 * Extend:  a section is a function of section.h, called in bundle.c; figures go through rp_figure(), so that they are checked.
 *
 * A page is a body, which is a function of the bundles' bytes and this program alone, and one box (box.h) with what depends on its maker:
 * no clock, no folder, no locale. It has no script at all, and its policy allows none; plots are drawings, and the data behind them are
 * links to bytes in the page. Nothing of a bundle that failed is shown but the checks, in the box.
 */
#ifndef RP_PAGE_PAGE_H
#define RP_PAGE_PAGE_H

#include "base/buf.h"
#include "base/err.h"
#include "verify/verify.h"

#define RP_PAGE_FORMAT "repro-page/1"
#define RP_PAGE_BUNDLES 64        /* on one page */
#define RP_PAGE_MAX (16u << 20)   /* bytes of a page that is checked; with ROWS_MAX of steps.c records it is well below */

struct rp_shown_bundle {
    const char *name; /* as the user called it: for the box and for messages */
    const struct rp_verification *v;
    const struct rp_verified *kept; /* NULL where v->verdict is FAILED */
};

void rp_page_html(struct rp_buf *out, const struct rp_shown_bundle *b, int n);
void rp_page_markdown(struct rp_buf *out, const struct rp_shown_bundle *b, int n);

/* Is a page of either kind, but for its box, byte for byte what this program makes of this bundle and those of the n_others that it shows?
 * 0: r->state and r->text say so. RP_MISMATCH: it is not; RP_UNAVAILABLE: nothing wrong was found but not all could be compared, because
 * another version made the page, or it shows a bundle that is not at hand. */
int rp_page_check(struct rp_check_result *r, const struct rp_buf *page, const struct rp_shown_bundle *b,
                  const struct rp_shown_bundle *others, int n_others, struct rp_err *err) rp_must_check;

#endif
