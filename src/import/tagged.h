/* Lines of a log with JSON after a tag: `DLLL {...}`, `:::MLLOG {...}`, after any other text.
 *
 * What:    the object of one line; damaged ones (several processes write into each other) are counted and left out.
 * Flow:    line -> json_t or nothing; rp_tagged_note() at the end.
 * Owner:   the caller owns the json_t.
 * Extend:  another tagged format calls this with its tag.
 */
#pragma once

#include "import/imported.h"
#include "import/lines.h"

struct rp_tagged {
    int64_t good, damaged, first_damaged;
};

json_t *rp_tagged(struct rp_tagged *t, const struct rp_lines *at, const char *line, const char *tag); /* NULL: none, or damaged */
/* Notes how many were damaged; RP_MALFORMED when no line was good. */
int rp_tagged_end(const struct rp_tagged *t, const struct rp_lines *at, const char *tag, struct rp_imported *d,
                  struct rp_err *err) rp_must_check;

double rp_tagged_real(const json_t *v); /* of a number, or of a text that is one; NaN for anything else */
/* A fact from foreign JSON: a text or number as it is, for a COUNT only whole numbers. */
void rp_tagged_fact(struct rp_imported *d, const char *key, const json_t *v, int64_t line);
