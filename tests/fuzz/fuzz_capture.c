/* Two captures, as documents or as values, compared and shown: what a document says of itself is no difference, both
 * directions find as many, and no page has a character that a terminal obeys.
 *
 *   "{...}" NUL "{...}"              two documents; one alone stands for both
 *   "a gpu.devices.gpu0.name VALUE"  lines: a, b or c (both), a field with '.' between its names, and its value in JSON
 *                                    (a text that is no JSON is a string); an object is a value with its state,
 *                                    anything else is known */
#include "base/json.h"
#include "base/text.h"
#include "bundle/schema.h"
#include "capture/capture.h"
#include "capture/env_diff.h"
#include "capture/doctor/doctor.h"
#include "report/template.h"
#include "tests/fuzz/patch.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern const int fuzz_is_slow; /* replay.c */
const int fuzz_is_slow = 1;

static void printable(const struct rp_buf *b)
{
    for (size_t i = 0, n; i < b->size; i += n) {
        unsigned c = 0;
        n = rp_utf8(b->data + i, b->size - i, &c);
        /* tabs: the matrix of nvidia-smi */
        must(n && ((!rp_is_control(c) && !rp_is_bidi_control(c)) || c == '\n' || c == '\t'));
    }
}

/* ---- documents of lines ---- */

static json_t *empty(void)
{
    return json_pack("{s:s, s:s, s:s, s:b, s:{}}", "schema", "repro-env/1", "captured_at", "2026-11-21T00:00:00Z",
                     "salt", "00112233445566778899aabbccddeeff", "identified", 0, "probes");
}

static void put(json_t *doc, const char *field, size_t n, json_t *value)
{
    char name[64];
    json_t *at = json_object_get(doc, "probes");
    while (1) {
        const char *dot = memchr(field, '.', n);
        size_t len = dot ? (size_t)(dot - field) : n;
        snprintf(name, sizeof name, "%.*s", (int)len, field);
        rp_sanitize(name);
        if (!dot)
            break;
        if (!json_is_object(json_object_get(at, name)))
            json_object_set_new(at, name, json_object());
        at = json_object_get(at, name);
        field += len + 1;
        n -= len + 1;
    }
    if (json_is_object(value))
        json_object_set(at, name, value);
    else
        json_object_set_new(at, name, json_pack("{s:s, s:O, s:s}", "state", "ok", "value", value, "source", "/x"));
}

static void line(json_t *a, json_t *b, const char *text, size_t n)
{
    const char *space = n > 2 ? memchr(text + 2, ' ', n - 2) : NULL;
    if (!space)
        return;
    RP_JSON *value = patch_value(space + 1, n - (size_t)(space + 1 - text));
    if (*text != 'b')
        put(a, text + 2, (size_t)(space - text) - 2, value);
    if (*text != 'a')
        put(b, text + 2, (size_t)(space - text) - 2, value);
}

static void of_lines(json_t **a, json_t **b, const char *text, size_t size)
{
    const char *end;
    *a = empty();
    *b = empty();
    for (size_t i = 0, n; i < size; i += n + 1) {
        end = memchr(text + i, '\n', size - i);
        n = end ? (size_t)(end - text) - i : size - i;
        line(*a, *b, text + i, n);
    }
}

static void of_documents(json_t **a, json_t **b, const char *text, size_t size)
{
    struct rp_err err = {0};
    const char *nul = memchr(text, 0, size);
    size_t n = nul ? (size_t)(nul - text) : size;
    *a = rp_json_parse(text, n, "a", &err);
    *b = nul ? rp_json_parse(nul + 1, size - n - 1, "b", &err) : json_incref(*a);
    must((*a && *b) || (err.code == RP_MALFORMED && *err.msg && !strchr(err.msg, '\n')));
}

/* ---- what becomes of them ---- */

static int is_capture(const json_t *doc)
{
    static const struct rp_schema *schema; /* read once */
    struct rp_err err = {0};
    if (!schema)
        must((schema = rp_schema_load("env", &err)) != NULL);
    if (rp_schema_check(schema, doc, "capture", &err) == 0)
        return 1;
    must(err.code == RP_MALFORMED && *err.msg && !strchr(err.msg, '\n'));
    return 0;
}

static void show(const json_t *doc)
{
    RP_BUF page = {0}, text = {0};
    RP_FINDINGS found;
    rp_doctor(&found, doc);
    rp_capture_summary(&page, doc);
    RP_JSON *document = rp_object_json(&found, &rp_type_findings);
    rp_show(&text, RP_FILL_TEXT, document, RP_DOCTOR_TEXT);
    printable(&page);
    printable(&text);
}

static void compare(const json_t *a, const json_t *b)
{
    struct rp_err err = {0}, other = {0};
    RP_CAPTURE_COMPARISON there = {0}, back = {0}, same = {0}, changes = {0}, none = {0};
    const int failed = rp_capture_compare(&there, a, b, &err) < 0;
    must(failed == (rp_capture_compare(&back, b, a, &other) < 0) && (!failed || err.code == RP_MALFORMED));
    must(failed || (there.different_n == back.different_n && there.one_side_n == back.one_side_n &&
                    there.not_comparable_n == back.not_comparable_n && there.unknown_n == back.unknown_n &&
                    there.not_captured_n == back.not_captured_n));
    if (rp_capture_compare(&same, a, a, &err) == 0)
        must(!same.different_n && !same.one_side_n && !same.not_comparable_n && !same.not_captured_n);
    if (rp_capture_changes(&none, a, a, &err) == 0)
        must(!none.different_n);
    if (rp_capture_changes(&changes, a, b, &err) == 0)
        must(!changes.different_n || !json_equal(a, b));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    RP_JSON *a = NULL, *b = NULL;
    (size && *data == '{' ? of_documents : of_lines)(&a, &b, (const char *)data, size);
    if (!a || !b || !is_capture(a) || !is_capture(b))
        return 0;
    show(a);
    show(b);
    compare(a, b);
    return 0;
}
