/* Work that must not hurt: a child process with limits and a time limit looks, and answers with one JSON value.
 *
 * What:    for libraries that read what others made (repositories, /sys, recorded topologies): a crash, an endless loop or a flood of
 *          memory stays in the child.
 * Flow:    work(arg) in the child -> JSON and perhaps other bytes -> pipe -> json_t and bytes here.
 * Owner:   the caller owns the answer.
 * Extend:  one function for all; another library passes another `work`.
 */
#ifndef RP_CAPTURE_CHILD_H
#define RP_CAPTURE_CHILD_H

#include "base/buf.h"

#include <jansson.h>

/* Text added to `rest` arrives in the caller's (NULL: there is none): a large one costs too much as JSON. `work` may leak: its process
 * ends with it. */
typedef json_t *rp_child_work(const void *arg, struct rp_buf *rest);
/* NULL when the child could not be started, said nothing sensible, or was late; *why then says which, for a value's detail. */
json_t *rp_in_child(rp_child_work *work, const void *arg, int patience_ms, size_t max_answer, struct rp_buf *rest, const char **why);

#endif
