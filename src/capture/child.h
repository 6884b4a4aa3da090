/* Work that must not hurt: a child process with limits and a time limit looks, and answers with one JSON value.
 *
 * What:    for libraries that read what others made (repositories, /sys, recorded topologies): a crash, an endless loop or a flood of
 *          memory stays in the child.
 * Flow:    work(arg) in the child -> JSON -> pipe -> json_t here.
 * Owner:   the caller owns the answer.
 * Extend:  one function for all; another library passes another `work`.
 */
#ifndef RP_CAPTURE_CHILD_H
#define RP_CAPTURE_CHILD_H

#include <jansson.h>
#include <stddef.h>

/* NULL when the child could not be started, said nothing sensible, or was late; *why then says which, for a value's detail.
 * `work` may leak: its process ends with it. */
json_t *rp_in_child(json_t *(*work)(const void *arg), const void *arg, int patience_ms, size_t max_answer, const char **why);

#endif
