/* Renders verified bundles as one self-contained HTML file (no scripts, no network requests) or as Markdown, and checks such a file.
 *
 * What:    `repro report` and `repro verify --report`.
 * Flow:    verified bundles -> rp_page_html() -> bytes; bytes and a verified bundle -> rp_page_check() -> result.
 * Owner:   bundles are borrowed; the caller owns the buffers.
 * Extend:  a section is a row of section.h; figures go through report/figure.h, so that they name their source.
 *
 * A page is a body, which is a pure function of the bundles' bytes and of this program, and one box (box.h) with what depends on its
 * author: no clock, folder or locale. Plots are drawings, and the data of plots are downloads inside the page. Of a bundle that failed,
 * only the checks are shown, in the box.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "verify/verify.h"

#define RP_PAGE_FORMAT "repro-page/1"
#define RP_PAGE_BUNDLES 64        /* on one page */
#define RP_PAGE_MAX (16u << 20)   /* largest page that is checked; ROWS_MAX of steps.c keeps pages well below it */

struct rp_shown_bundle {
    const char *name; /* as given by the user: for the box and for messages */
    const struct rp_verification *v;
    const struct rp_verified *kept; /* NULL where v->verdict is FAILED */
};

/* The bundles of a report, each verified: heap, zeroed; rp_page_bundles_free() for cleanup. */
struct rp_page_bundles {
    struct rp_verification v[RP_PAGE_BUNDLES];
    struct rp_verified kept[RP_PAGE_BUNDLES];
    struct rp_shown_bundle b[RP_PAGE_BUNDLES];
    int n;
};
/* As rp_verify() with these options (all but `keep`); a bundle that fails is added too. */
int rp_page_bundles_add(struct rp_page_bundles *all, const char *path, struct rp_verify_opts o, struct rp_err *err) rp_must_check;
void rp_page_bundles_free(struct rp_page_bundles **all);

void rp_page_html(struct rp_buf *out, const struct rp_shown_bundle *b, int n);
void rp_page_markdown(struct rp_buf *out, const struct rp_shown_bundle *b, int n);

/* Is a page of either kind, except its box, byte for byte what this program makes of this bundle and of those of the n_others that it
 * shows? 0: yes, see r->state and r->text. RP_MISMATCH: no. RP_UNAVAILABLE: nothing wrong was found, but not everything could be compared,
 * because another version made the page, or it shows a bundle that is not at hand. */
int rp_page_check(struct rp_check_result *r, const struct rp_buf *page, const struct rp_shown_bundle *b,
                  const struct rp_shown_bundle *others, int n_others, struct rp_err *err) rp_must_check;
