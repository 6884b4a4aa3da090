/* Pages: what a bundle shows, as one HTML file that asks nobody for anything, or as Markdown; and the check of such a file.
 *
 * What:    `repro report` and `repro verify --report`.
 * Flow:    verified bundles -> rp_page_html() -> bytes; bytes and a verified bundle -> rp_page_check() -> what is wrong with them.
 * Owner:   what is shown is borrowed; the caller owns the buffers.
 * Extend:  a section is a function of section.h, called in bundle.c; figures go through rp_figure(), so that they are checked.
 *
 * A page is made from the bundle's bytes and name, the verification and this program alone: no clock, no folder, no locale. It has no
 * script at all, and its policy allows none; plots are drawings, and the data behind them are links to bytes in the page. Nothing of a
 * bundle that failed is shown but the checks.
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
    const char *name; /* as the user called it: for its commands, and for failed bundles, which say nothing that could be believed */
    const struct rp_verification *v;
    const struct rp_verified *kept; /* NULL where v->verdict is FAILED */
    const char *why;                /* the first failed check's message, or NULL */
};

void rp_page_html(struct rp_buf *out, const struct rp_shown_bundle *b, int n);
void rp_page_markdown(struct rp_buf *out, const struct rp_shown_bundle *b, int n);

/* Does a page of either kind say what this bundle says? r: PASSED or NOTE with its text; with -1 and *err FAILED, or SKIPPED
 * (RP_UNAVAILABLE) where nothing wrong was found but not all could be compared: a page of another version, or of several bundles that are
 * not all among the n_others. */
int rp_page_check(struct rp_check_result *r, const struct rp_buf *page, const struct rp_shown_bundle *b,
                  const struct rp_shown_bundle *others, int n_others, struct rp_err *err) rp_must_check;

#endif
