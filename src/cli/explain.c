#include "cli/explain.h"

#include "base/json.h"
#include "base/nearest.h"
#include "base/text.h"
#include "capture/fields.h"

#include <string.h>

/* "clock_sm" of "gpu.devices.*.clock_sm" */
static const char *last_name(const char *pattern)
{
    const char *dot = strrchr(pattern, '.');
    return dot ? dot + 1 : pattern;
}

/* The row has rows below it. */
static int has_fields(const struct rp_field *f)
{
    size_t n = strlen(f->pattern);
    for (const struct rp_field *below = rp_fields; below->pattern; below++)
        if (strncmp(below->pattern, f->pattern, n) == 0 && below->pattern[n] == '.')
            return 1;
    return 0;
}

/* The row of a field as users write it. Names may contain dots (cuda-13.0), except below a field that has rows for its
 * parts, which would match any unknown field. */
static const struct rp_field *row_of(const char *field)
{
    RP_FREE char *path = rp_strdup(field);
    for (char *p = path; *p; p++)
        *p = *p == '.' ? RP_FIELD_SEPARATOR : *p;
    const struct rp_field *f = rp_field_find(path, RP_FIELD_SEPARATOR);
    if (!f)
        f = rp_field_find(field, '.');
    return f && (!has_fields(f) || rp_field_matches(f->pattern, path, RP_FIELD_SEPARATOR)) ? f : NULL;
}

/* The field is below the name, matches its stars, or has it as its last name. */
static int matches_name(const struct rp_field *f, const char *field)
{
    size_t n = strlen(field);
    return (strncmp(f->pattern, field, n) == 0 && f->pattern[n] == '.') || rp_field_matches(field, f->pattern, '.') ||
           strcmp(last_name(f->pattern), field) == 0;
}

static json_t *as_json(const struct rp_field *f, int is_exact)
{
    return json_pack("{s:s, s:b, s:s, s:b, s:s, s:s, s:s}", "field", f->pattern, "exact", is_exact, "impact",
                     rp_impact_name(f->impact), "varies", f->moment, "meaning", f->meaning, "source", f->source,
                     "why", f->why);
}

static const char text[] =
    "[/fields:[/exact:{/field t}\n"
    "  meaning  {/meaning p}\n"
    "  source   {/source p}\n"
    "  impact   {/impact t}[/varies:, differs between any two moments]\n"
    "[/why:  why      {/why p}\n]]]"
    "[/others:\n]"
    "[/fields:[!/exact:{/field t}\t{/impact t}\t{/meaning p}\n]]";

static int unknown_field(const char *field, struct rp_err *err)
{
    static const char *const probes[] = {
#define PROBE(name) #name,
#include "capture/probes.def"
#undef PROBE
    };
    char shown[72];
    struct rp_nearest near = {.word = field}, last = {.word = last_name(field)};
    for (size_t i = 0; i < sizeof probes / sizeof *probes; i++)
        rp_nearest_try(&near, probes[i]);
    for (const struct rp_field *f = rp_fields; f->pattern; f++) {
        rp_nearest_try(&near, f->pattern);
        rp_nearest_try(&last, last_name(f->pattern));
    }
    if (!near.best && last.best) /* only the last name is close: its first field */
        for (const struct rp_field *f = rp_fields; f->pattern && !near.best; f++)
            near.best = strcmp(last_name(f->pattern), last.best) == 0 ? f->pattern : NULL;
    if (near.best)
        return rp_fail(err, RP_USAGE, "unknown field '%s'; did you mean '%s'?", rp_excerpt(shown, field), near.best);
    return rp_fail(err, RP_USAGE, "unknown field '%s'; a probe's name lists its fields, as in --explain gpu",
                   rp_excerpt(shown, field));
}

int rp_explain(struct rp_cli *cli, const char *field, struct rp_err *err)
{
    const struct rp_field *exact = row_of(field), *only = NULL;
    RP_JSON *list = json_array();
    int n = 0;
    for (const struct rp_field *f = rp_fields; f->pattern && !exact; f++)
        if (matches_name(f, field)) {
            only = f;
            n++;
        }
    exact = n == 1 ? only : exact; /* a name alone that only one field has */
    if (exact)
        json_array_append_new(list, as_json(exact, 1));
    for (const struct rp_field *f = rp_fields; f->pattern; f++)
        if (f != exact && matches_name(f, field))
            json_array_append_new(list, as_json(f, 0));
    if (json_array_size(list) == 0)
        return unknown_field(field, err);
    rp_cli_return(cli, json_pack("{s:O, s:b}", "fields", list, "others", exact && json_array_size(list) > 1), text);
    return 0;
}
