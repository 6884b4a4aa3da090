/* YAML as events, in the strict subset that this program reads: recipes, policies.
 *
 * What:    one pull parser for both. No anchors, aliases, tags, merge keys, directives, tabs or control characters, and
 *          nothing that turns the direction of text.
 * Flow:    bytes -> rp_events_next() -> events with their places, until the end of the stream.
 * Owner:   an event owns its text, rp_event_fini(); the bytes are borrowed until rp_events_close().
 * Extend:  another kind of file passes its name ("recipe", "policy") for messages and walks the events.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <yaml.h>

struct rp_event {
    yaml_event_type_t type;
    char *text; /* scalar */
    int plain, line, col, last_line;
};

struct rp_events {
    yaml_parser_t yaml;
    const char *file, *what; /* in messages: its name, and what it is */
    struct rp_err *err;
};

/* Also checks every byte: UTF-8 without control characters, so that every message about the file can be shown as it
 * is. */
int rp_events_open(struct rp_events *r, const char *data, size_t size, const char *file, const char *what,
                   struct rp_err *err) rp_must_check;
int rp_events_next(struct rp_events *r, struct rp_event *e) rp_must_check;
/* Reads up to the first key. RP_MALFORMED with `expected` if the document is not a mapping. */
int rp_events_begin(struct rp_events *r, const char *expected) rp_must_check;
int rp_events_end(struct rp_events *r) rp_must_check; /* after the mapping: nothing else may follow */
void rp_events_close(struct rp_events *r);
void rp_event_fini(struct rp_event *e);

/* -1 with "file:line:column: message" */
#define RP_EVENT_FAIL(r, e, code, ...)                                                                                 \
    (rp_fail((r)->err, code, __VA_ARGS__), rp_at((r)->file, (e)->line, (e)->col, (r)->err))
/* Put "file:line:column: " before the message; returns -1. */
int rp_at(const char *file, int line, int col, struct rp_err *err);
