/* A recipe's YAML, read into a flat list of settings with their places.
 *
 * What:    the strict subset of YAML 1.2 a recipe may use: mappings, plain and quoted scalars, lists of words. No
 *          anchors, aliases, tags, merge keys, second documents, tabs or control characters; bounded in size, depth and
 *          number of settings.
 * Flow:    bytes -> settings in file order; names are checked against keys.def, values only for their kind (text or
 *          not, list or not).
 * Owner:   struct rp_settings owns its texts; rp_settings_fini() frees them.
 * Extend:  a section without keys of its own (like `backend`) is a case in is_section().
 *
 *     train:                     setting {train.batch_size, "32", name 2:3, value 2:15, backend -1}
 *       batch_size: 32
 *     backend:                   dotted and nested names are the same name
 *       cpu: {measure.timed_steps: 4}
 */
#pragma once

#include "base/err.h"
#include "recipe/recipe.h"

#include <stddef.h>

struct rp_setting {
    int key;     /* row of keys.def */
    int backend; /* enum rp_backend_id, or -1: not in a backend section */
    char *text;  /* scalar, or words joined with ',' */
    struct rp_place name, value;
};

struct rp_settings {
    struct rp_setting *item;
    int n;
};

void rp_settings_fini(struct rp_settings *s);
/* file: name in messages, which read "file:line:column: ...". With a list of mistakes, a key or value that is wrong is
 * added to it and left out. */
int rp_yaml_read(struct rp_settings *out, const char *data, size_t size, const char *file, struct rp_mistakes *m,
                 struct rp_err *err) rp_must_check;
/* Whether reading goes on after a failure in that line: with a list of mistakes it is added to that; m NULL: never. */
int rp_mistake(struct rp_mistakes *m, const struct rp_err *err, int line);
