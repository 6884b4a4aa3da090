/* Renders verified bundles as one self-contained HTML file (no scripts, no network requests) or as Markdown.
 *
 * What:    `repro report`.
 * Flow:    verified bundles -> rp_page_html() or rp_page_markdown() -> bytes.
 * Owner:   bundles are borrowed; the caller owns the buffers.
 * Extend:  a section is a row of section.h; figures go through report/figure.h, so that they name their source.
 *
 * A page is a body, which is a pure function of the bundles' bytes and of this program, and one box (box.h) with what
 * depends on its author: no clock, folder or locale. Plots are drawings, and the data of plots are downloads inside the
 * page. Of a bundle that failed, only the checks are shown, in the box.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "verify/verify.h"

#define RP_PAGE_FORMAT "repro-page/1"
#define RP_PAGE_BUNDLES 64        /* on one page */

struct rp_shown_bundle {
    const char *name; /* as given by the user: for messages */
    const struct rp_verification *v;
    const struct rp_verified *kept; /* NULL unless rp_verdict_shows(v->verdict) */
};

/* The bundles of a report, each verified: heap, zeroed; rp_page_bundles_free() for cleanup. */
struct rp_page_bundles {
    struct rp_verification v[RP_PAGE_BUNDLES];
    struct rp_verified kept[RP_PAGE_BUNDLES];
    struct rp_shown_bundle b[RP_PAGE_BUNDLES];
    int n;
};
/* As rp_verify() with these options (all but `keep`); a bundle that fails is added too. */
int rp_page_bundles_add(struct rp_page_bundles *all, const char *path, struct rp_verify_opts o,
                        struct rp_err *err) rp_must_check;
void rp_page_bundles_free(struct rp_page_bundles **all);

void rp_page_html(struct rp_buf *out, const struct rp_shown_bundle *b, int n);
void rp_page_markdown(struct rp_buf *out, const struct rp_shown_bundle *b, int n);
