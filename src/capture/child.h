/* Isolated work: a child process with resource and time limits answers with one JSON value.
 *
 * What:    for libraries that read untrusted input (repositories, /sys, recorded topologies): a crash, an endless loop
 *          or excessive memory use stays in the child.
 * Flow:    work(arg) in the child -> JSON and perhaps other bytes -> pipe -> json_t and bytes here.
 * Owner:   the caller owns the answer.
 * Extend:  one function for all; another library passes another `work`.
 */
#pragma once

#include "base/buf.h"

#include <jansson.h>

/* Text added to `rest` is copied to the caller's `rest` (may be NULL): large texts are too expensive as JSON. `work`
 * may leak memory: its process ends with it. */
typedef json_t *rp_child_work(const void *arg, struct rp_buf *rest);
/* NULL if the child could not be started, gave no valid answer, or exceeded its time; *why is then the reason, for a
 * value's detail. */
json_t *rp_in_child(rp_child_work *work, const void *arg, int patience_ms, size_t max_answer, struct rp_buf *rest,
                    const char **why);
