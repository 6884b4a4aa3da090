/* Lines of a log with JSON after a tag: `DLLL {...}`, `:::MLLOG {...}`, after any other text.
 *
 * What:    the object of one line; damaged ones (several processes write into each other) are counted and left out.
 * Flow:    line -> a struct of foreign.def or nothing; rp_tagged_end() at the end.
 * Owner:   the caller owns the struct.
 * Extend:  another tagged format calls this with its tag and its rows of foreign.def.
 */
#pragma once

#include "base/object.h"
#include "import/imported.h"
#include "import/lines.h"

#define RP_OBJECT_LIST "import/foreign.def"
#include "base/object_structs.inc.h"

struct rp_tagged {
    int64_t good, damaged, first_damaged;
};

/* Whether the line has an object, whose values go into *object, which the caller finishes. */
int rp_tagged(void *object, const struct rp_object_type *type, struct rp_tagged *t, const struct rp_lines *at,
              const char *line, const char *tag);
/* Notes how many were damaged; RP_MALFORMED when no line was good. */
int rp_tagged_end(const struct rp_tagged *t, const struct rp_lines *at, const char *tag, struct rp_imported *d,
                  struct rp_err *err) rp_must_check;

double rp_tagged_real(const json_t *v); /* of a number, or of a text that is one; NaN for anything else */
/* A fact from foreign JSON: a text or number as it is, for a COUNT only whole numbers. */
void rp_tagged_fact(struct rp_imported *d, const char *key, const json_t *v, int64_t line);
