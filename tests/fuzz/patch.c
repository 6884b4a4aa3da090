#include "tests/fuzz/patch.h"

#include "base/buf.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *patch_value(const char *text, size_t n)
{
    RP_FREE char *safe = rp_asprintf("%.*s", (int)n, text);
    json_t *v = json_loads(safe, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    if (v)
        return v;
    rp_sanitize(safe); /* jansson takes no malformed UTF-8 */
    return json_string(safe);
}

static json_t *part(json_t *j, const char *name)
{
    return json_is_array(j) ? json_array_get(j, (size_t)strtoul(name, NULL, 10)) : json_object_get(j, name);
}

static void put(json_t *j, const char *name, json_t *value)
{
    size_t i = (size_t)strtoul(name, NULL, 10);
    if (json_is_array(j) && !value)
        json_array_remove(j, i);
    else if (json_is_array(j) && i < json_array_size(j))
        json_array_set(j, i, value);
    else if (json_is_array(j))
        json_array_append(j, value);
    else if (!value)
        json_object_del(j, name);
    else
        json_object_set(j, name, value);
    json_decref(value);
}

static void one(json_t *doc, const char *line, size_t n)
{
    char name[128];
    const char *space = memchr(line, ' ', n);
    size_t end = space ? (size_t)(space - line) : n, at = 0, len;
    json_t *value = space ? patch_value(space + 1, n - end - 1) : NULL;
    while (at < end) {
        at += line[at] == '/';
        for (len = 0; at + len < end && line[at + len] != '/'; len++)
            ;
        snprintf(name, sizeof name, "%.*s", (int)len, line + at);
        rp_sanitize(name);
        at += len;
        if (at >= end)
            break;
        if (!part(doc, name))
            put(doc, name, json_object());
        doc = part(doc, name);
    }
    put(doc, at ? name : "", value);
}

void patch_json(json_t *doc, const char *text, size_t size)
{
    const char *end;
    for (size_t i = 0, n; i < size; i += n + 1) {
        end = memchr(text + i, '\n', size - i);
        n = end ? (size_t)(end - text - (long)i) : size - i;
        if (n)
            one(doc, text + i, n);
    }
}
