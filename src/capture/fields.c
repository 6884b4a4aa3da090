#include "capture/fields.h"

#include <string.h>

const struct rp_field rp_fields[] = {
#define STATIC(pattern, impact, ...) {pattern, RP_IMPACT_##impact, 0, 0, __VA_ARGS__},
#define VOLATILE(pattern, impact, ...) {pattern, RP_IMPACT_##impact, 1, 0, __VA_ARGS__},
#define APPROX(pattern, impact, ...) {pattern, RP_IMPACT_##impact, 0, 1, __VA_ARGS__},
#include "capture/fields.def"
#undef STATIC
#undef VOLATILE
#undef APPROX
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

/* Patterns of more names go first, then those with more letters besides the stars. */
static size_t field_rank(const char *pattern)
{
    size_t n = 0;
    for (; *pattern; pattern++)
        n += *pattern == '.' ? 1000 : *pattern != '*';
    return n;
}

const struct rp_field *rp_field_find(const char *path, char separator)
{
    const struct rp_field *best = NULL;
    for (const struct rp_field *f = rp_fields; f->pattern; f++)
        if ((*f->pattern == *path || *f->pattern == '*') && rp_field_matches(f->pattern, path, separator) &&
            (!best || field_rank(f->pattern) > field_rank(best->pattern)))
            best = f;
    return best;
}
