/* What a page says of the verification that its maker did: inner header of page/.
 *
 * What:    the parts of a page that depend on its maker, their keys, their ledger, their replay, read back from it.
 * Flow:    page and what is found here -> struct rp_verification, from which the same program makes the same page again; then the two are
 *          held against each other. Read wrongly, the page that is made of it is another one, and that is found.
 * Owner:   *said borrows from what is found here, but for its signatures: rp_said_fini().
 * Extend:  another part that depends on the maker is read, bounded and told apart by one function each in said.c.
 */
#ifndef RP_PAGE_SAID_H
#define RP_PAGE_SAID_H

#include "page/span.h"
#include "verify/verify.h"

/* Of a section: the ledger, the first run and the keys that stood behind it. RP_MISMATCH: it says what nothing here says. */
int rp_said_section(struct rp_verification *said, const struct rp_verification *here, struct rp_span section,
                    struct rp_err *err) rp_must_check;
/* Of a page of one bundle, on top of that: verdict, signer, checks; of the row in the table of several: the verdict. -1: there is none. */
int rp_said_header(struct rp_verification *said, struct rp_span page) rp_must_check;
int rp_said_row(struct rp_verification *said, struct rp_span row) rp_must_check;
/* Of a Markdown file, of what stands above the report; its verdict is tried by the caller. */
int rp_said_head(struct rp_verification *said, const struct rp_verification *here, struct rp_span head, struct rp_err *err) rp_must_check;
/* RP_MISMATCH: it says more than is found here, or what this program says to nobody; RP_UNAVAILABLE: what cannot be told from here.
 * kept: of what is found here; NULL where the page has no checks: one of several, Markdown. */
int rp_said_no_better(const struct rp_verification *said, const struct rp_verification *here, const struct rp_verified *kept,
                      struct rp_err *err) rp_must_check;
#define RP_SAID_ROOM 380 /* bytes of differences in the text of a check: more is told by names */
/* What of the page is not ours, each by its name at least; nothing where all is the same. At most 400 bytes. */
void rp_said_differences(struct rp_buf *out, const struct rp_verification *said, const struct rp_verification *here, int checks);
void rp_said_fini(struct rp_verification *said);

#endif
