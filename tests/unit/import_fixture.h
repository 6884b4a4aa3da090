/* Logs in memory as a document, and what stands in it. */
#pragma once

#include "base/json.h"
#include "import/import.h"
#include "tests/unit/tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct rp_err err __attribute__((unused));

struct file {
    const char *path, *text;
};

static inline json_t *import_with(const char *format, const struct file *f, int n, const struct rp_import_opts *o)
{
    struct rp_import im = {.importer = rp_importer_find(format, &err)};
    err = (struct rp_err){0};
    int failed = 0;
    for (int i = 0; i < n && !failed; i++)
        failed = rp_import_memory(&im, f[i].path, f[i].text, strlen(f[i].text), o, &err) < 0;
    failed = failed || rp_import_finish(&im, &err) < 0;
    json_t *doc = failed ? NULL : rp_import_document(&im, o, "2026-11-21T00:00:00Z");
    rp_import_fini(&im);
    return doc;
}

static const struct rp_import_opts plain __attribute__((unused)) = {.from = -1, .to = -1};

static inline json_t *import_one(const char *format, const char *path, const char *text)
{
    return import_with(format, &(struct file){path, text}, 1, &plain);
}

static inline json_t *row(const json_t *doc, size_t i)
{
    return json_array_get(json_object_get(doc, "rows"), i);
}

static inline double value(const json_t *doc, size_t i)
{
    const json_t *v = json_object_get(json_object_get(row(doc, i), "throughput"), "value");
    return v ? json_number_value(v) : NAN;
}

static inline const char *unit(const json_t *doc, size_t i)
{
    return json_string_value(json_object_get(json_object_get(row(doc, i), "throughput"), "unit"));
}

static inline const char *text(const json_t *doc, size_t i, const char *key)
{
    return json_string_value(json_object_get(row(doc, i), key));
}

static inline int64_t count(const json_t *doc, size_t i, const char *key)
{
    const json_t *v = json_object_get(row(doc, i), key);
    return v ? json_integer_value(v) : -1;
}

static inline const char *note(const json_t *doc, size_t i)
{
    const char *t = json_string_value(json_object_get(json_object_get(row(doc, i), "source"), "note"));
    return t ? t : "";
}

/* Which line a value stands on: its number, or what the document says in its place. */
static inline const char *from(const json_t *doc, size_t i, const char *key)
{
    static char out[64];
    const json_t *figure = json_array_get(json_object_get(json_object_get(doc, "provenance"), "figures"), i);
    const json_t *v = json_object_get(json_object_get(figure, "from"), key);
    char *t = v ? json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    snprintf(out, sizeof out, "%s", t ? t : "");
    free(t);
    return out;
}

#define NEAR(got, expected) is_near(got, expected, __LINE__)
static inline void is_near(double got, double expected, int line)
{
    CHECK(fabs(got - expected) <= 1e-9 * fabs(expected), "line %d: %.12g, expected %.12g", line, got, expected);
}
