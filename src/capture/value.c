#include "capture/value.h"

#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const json_t *rp_value_at(const json_t *group, const char *path)
{
    while (*path && group) {
        size_t n = strcspn(path, ".");
        group = json_object_getn(group, path, n);
        path += n + (path[n] == '.');
    }
    return group;
}

static const char *text_of(const json_t *value, const char *key)
{
    const char *text = json_string_value(json_object_get(value, key));
    return text ? text : "";
}

struct rp_leaf rp_leaf(const json_t *value)
{
    struct rp_leaf leaf = {.state = text_of(value, "state"),
                           .unit = "",
                           .source = text_of(value, "source"),
                           .detail = text_of(value, "detail")};
    if (!*leaf.state) {
        leaf.kind = value ? RP_LEAF_GROUP : RP_LEAF_MISSING;
        leaf.values = json_integer_value(json_object_get(value, "values"));
    } else if (strcmp(leaf.state, "ok") == 0) {
        leaf.kind = RP_LEAF_KNOWN;
        leaf.value = json_object_get(value, "value");
        leaf.unit = text_of(value, "unit");
    } else {
        leaf.kind = strcmp(leaf.state, "absent") == 0 ? RP_LEAF_ABSENT : RP_LEAF_UNKNOWN;
    }
    return leaf;
}

const json_t *rp_group(const json_t *group, const char *path)
{
    const json_t *at = rp_value_at(group, path);
    return json_is_object(at) && rp_leaf(at).kind == RP_LEAF_GROUP ? at : NULL;
}

const char *rp_state_at(const json_t *group, const char *path)
{
    const char *state = rp_leaf(rp_value_at(group, path)).state;
    return *state ? state : "absent";
}

const char *rp_detail_at(const json_t *group, const char *path)
{
    return rp_leaf(rp_value_at(group, path)).detail;
}

const json_t *rp_known(const json_t *group, const char *path)
{
    return rp_leaf(rp_value_at(group, path)).value;
}

const char *rp_known_text(const json_t *group, const char *path)
{
    return json_string_value(rp_known(group, path));
}

int rp_known_number(const json_t *group, const char *path, double *out)
{
    const json_t *v = rp_known(group, path);
    *out = json_number_value(v);
    return json_is_number(v) ? 0 : -1;
}

int rp_known_is(const json_t *group, const char *path, const char *text)
{
    const char *s = rp_known_text(group, path);
    return s && strcmp(s, text) == 0;
}

int rp_known_over(const json_t *group, const char *path, double limit)
{
    double n;
    return rp_known_number(group, path, &n) == 0 && n > limit;
}

int rp_known_has(const json_t *group, const char *path, const char *word)
{
    const json_t *list = rp_known(group, path);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *s = json_string_value(json_array_get(list, i));
        if (s && strcmp(s, word) == 0)
            return 1;
    }
    return 0;
}

const char *rp_known_lacks(const json_t *group, const char *path, const char *const *words)
{
    if (!json_is_array(rp_known(group, path)))
        return NULL;
    while (*words && rp_known_has(group, path, *words))
        words++;
    return *words;
}

void rp_show_number(char out[32], double number, const char *unit)
{
    static const char *const binary[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    static const char *const decimal[] = {"", "k", "M", "G", "T"};
    int i = 0;
    unit = unit ? unit : "";
    if (strcmp(unit, "B") == 0) {
        for (; number >= 1024 && i < 5; i++)
            number /= 1024;
        snprintf(out, 32, i && number < 1000 && number != (int)number ? "%.1f %s" : "%.0f %s", number, binary[i]);
    } else if (strcmp(unit, "Hz") == 0 || strcmp(unit, "MHz") == 0) {
        number *= unit[0] == 'M' ? 1e6 : 1;
        snprintf(out, 32, number < 1e9 ? "%.0f MHz" : "%.2f GHz", number < 1e9 ? number * 1e-6 : number * 1e-9);
    } else if (strcmp(unit, "bit/s") == 0) {
        for (; number >= 1000 && i < 4; i++)
            number /= 1000;
        snprintf(out, 32, "%g %s%s", number, decimal[i], unit);
    } else {
        int whole = number >= 100 || number <= -100 || number == (int)number;
        snprintf(out, 32, whole ? "%.0f%s%s" : "%.2f%s%s", number, *unit ? " " : "", unit);
    }
}

int rp_compare_versions(const char *a, const char *b)
{
    for (;;) {
        a += strcspn(a, "0123456789");
        b += strcspn(b, "0123456789");
        if (!*a || !*b)
            return (*a != 0) - (*b != 0);
        char *end_a, *end_b;
        unsigned long x = strtoul(a, &end_a, 10), y = strtoul(b, &end_b, 10);
        if (x != y)
            return x < y ? -1 : 1;
        a = end_a;
        b = end_b;
    }
}
