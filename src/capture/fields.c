#include "capture/fields.h"

#include <string.h>

enum { LASTS, MOMENT, ROUGH };

const struct rp_field rp_fields[] = {
#define FIELD(pattern, impact, time, meaning, source, why) \
    {pattern, RP_IMPACT_##impact, time == MOMENT, time == ROUGH, meaning, source, why},
#include "capture/fields.def"
#undef FIELD
    {0},
};

const char *rp_impact_name(enum rp_impact i)
{
    static const char *const names[] = {"none", "low", "medium", "high"};
    return names[i];
}

/* As shells do it: at a mismatch the last star takes one character more. */
int rp_field_matches(const char *pattern, const char *path, char separator)
{
    const char *star = NULL, *taken = NULL;
    while (*path) {
        if (*pattern == '*') {
            star = pattern++;
            taken = path;
        } else if (*pattern && *path == (*pattern == '.' ? separator : *pattern)) {
            pattern++;
            path++;
        } else if (star && *taken && *taken != RP_FIELD_SEPARATOR) {
            pattern = star + 1;
            path = ++taken;
        } else
            return 0;
    }
    pattern += strspn(pattern, "*");
    return !*pattern;
}

/* How much of a pattern is not left open. */
static size_t letters(const char *pattern)
{
    size_t n = 0;
    for (; *pattern; pattern++)
        n += *pattern != '*';
    return n;
}

const struct rp_field *rp_field_find(const char *path, char separator)
{
    const struct rp_field *best = NULL;
    for (const struct rp_field *f = rp_fields; f->pattern; f++)
        if ((*f->pattern == *path || *f->pattern == '*') && rp_field_matches(f->pattern, path, separator) &&
            (!best || letters(f->pattern) > letters(best->pattern)))
            best = f;
    return best;
}
