/* Pieces of a page that is checked: inner header of page/.
 *
 * What:    looking for marks in bytes that may hold anything.
 * Flow:    a buffer -> spans of it; .at NULL: there is none.
 * Owner:   spans borrow.
 * Extend:  what reads pages goes through these, never through functions that stop at a NUL.
 */
#ifndef RP_PAGE_SPAN_H
#define RP_PAGE_SPAN_H

#include "base/buf.h"

struct rp_span {
    const char *at;
    size_t n;
};

struct rp_span rp_span_of(const struct rp_buf *b);
struct rp_span rp_span_find(struct rp_span in, const char *what); /* from the first `what` to the end */
struct rp_span rp_span_between(struct rp_span in, const char *from, const char *to); /* the first piece between the two */
struct rp_span rp_span_behind(struct rp_span in, struct rp_span part); /* what is left after a part of it */
void rp_unescape(struct rp_buf *out, struct rp_span s); /* text as it was before rp_html() */
const char *rp_span_shown(char out[72], struct rp_span s); /* foreign bytes for a message */

#endif
