#include "import/tagged.h"

#include "base/json.h"
#include "base/text.h"
#include "import/scan.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define RP_OBJECT_LIST "import/foreign.def"
#include "base/object_tables.inc.h"

int rp_tagged(void *object, const struct rp_object_type *type, struct rp_tagged *t, const struct rp_lines *at,
              const char *line, const char *tag)
{
    struct rp_err ignored;
    const char *json = rp_scan_after(line, tag);
    if (!json)
        return 0;
    RP_JSON *j = rp_json_parse(json, strlen(json), "line", &ignored);
    if (!json_is_object(j)) {
        if (!t->damaged++)
            t->first_damaged = at->number;
        return 0;
    }
    rp_object_read(object, type, j);
    t->good++;
    return 1;
}

int rp_tagged_end(const struct rp_tagged *t, const struct rp_lines *at, const char *tag, struct rp_imported *d,
                  struct rp_err *err)
{
    if (!t->good && t->damaged)
        return rp_fail(err, RP_MALFORMED, "%s:%" PRId64 ": the text after '%s' is not a JSON object", at->name,
                       t->first_damaged, tag);
    if (!t->good)
        return rp_fail(err, RP_MALFORMED, "%s: no line has '%s'; is this the right format?", at->name, tag);
    if (t->damaged)
        rp_imported_note(d, "left out: %" PRId64 " damaged line%s, the first is line %" PRId64, t->damaged,
                         rp_s(t->damaged), t->first_damaged);
    return 0;
}

double rp_tagged_real(const json_t *v)
{
    double x;
    if (json_is_number(v))
        return json_number_value(v);
    const char *text = json_string_value(v), *end = text ? rp_scan_real(text, &x) : NULL;
    return end && !*end ? x : NAN;
}

void rp_tagged_fact(struct rp_imported *d, const char *key, const json_t *v, int64_t line)
{
    char text[40];
    double x = rp_tagged_real(v);
    if (!json_is_string(v) && isfinite(x))
        snprintf(text, sizeof text, "%.15g", x);
    if (json_is_string(v) || isfinite(x))
        rp_imported_fact(d, key, json_is_string(v) ? json_string_value(v) : text, line);
}
