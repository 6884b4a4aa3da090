/* Pieces of a page that is checked: inner header of page/.
 *
 * What:    searching for marks in arbitrary bytes.
 * Flow:    a buffer -> spans of it; .at NULL: not found.
 * Owner:   spans borrow.
 */
#pragma once

#include "base/buf.h"

struct rp_span {
    const char *at;
    size_t n;
};

struct rp_span rp_span_of(const struct rp_buf *b);
struct rp_span rp_span_find(struct rp_span in, const char *what); /* from the first `what` to the end */
struct rp_span rp_span_between(struct rp_span in, const char *from, const char *to); /* the first piece between the two */
struct rp_span rp_span_from(struct rp_span in, size_t n);                            /* without the first n bytes */
const char *rp_span_shown(char out[72], struct rp_span s); /* foreign bytes for a message */
