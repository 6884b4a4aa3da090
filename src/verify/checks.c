/* Names of checks, results and verdicts; the text of a result; the first difference of two documents. */
#include "base/json.h"
#include "base/text.h"
#include "verify/state.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define RP_OBJECT_LIST "verify/answer.def"
#include "base/object_tables.inc.h"

static const struct {
    const char *id, *proves, *how;
    enum rp_severity severity;
    enum rp_bundle_kind of;
} checks[] = {
#define VERIFY(id, of, severity, proves, how) {#id, proves, how, RP_SEVERITY_##severity, RP_BUNDLE_##of},
#include "verify/checks.def"
#undef VERIFY
};

static const char *const state_names[] = {"skipped", "not_applicable", "passed", "note", "warning", "failed"};
static const char *const severity_names[] = {"fatal", "fail", "warn", "info"};

static const struct {
    enum rp_code code;
    const char *name, *text;
} verdicts[] = {
#define X(id, code, name, text) {code, name, text},
    RP_VERDICTS(X)
#undef X
};

const char *rp_verdict_name(enum rp_verdict v)
{
    return verdicts[v].name;
}

const char *rp_verdict_text(enum rp_verdict v)
{
    return verdicts[v].text;
}

const char *rp_standing_name(enum rp_standing s)
{
    static const char *const names[] = {"unknown", "any", "trusted", "own"};
    return names[s];
}

int rp_verdict_accepts(const struct rp_verification *v, struct rp_err *err)
{
    const enum rp_code code = verdicts[v->verdict].code;
    const int unknown = v->standing == RP_STANDING_UNKNOWN;
    if (v->verdict == RP_VERDICT_UNKNOWN_KEY)
        return rp_fail(
            err, code,
            "the key that signed, %s, is unknown here: name it with --trust if you know that it is the signer's, or "
            "accept any with --any-key",
            v->fingerprint);
    if (v->verdict == RP_VERDICT_INCOMPLETE)
        return rp_fail(err, code, "the run is marked %s%s%s%s", v->run->facts.status,
                       unknown ? "; the key that signed, " : "", unknown ? v->fingerprint : "",
                       unknown ? ", is unknown here, too (--trust)" : "");
    return 0;
}

const char *rp_check_state_name(enum rp_check_state state)
{
    return state_names[state];
}

const char *rp_check_name(int id)
{
    return checks[id].id;
}

const char *rp_check_proves(int id)
{
    return checks[id].proves;
}

enum rp_severity rp_check_severity(int id)
{
    return checks[id].severity;
}

enum rp_bundle_kind rp_check_of(int id)
{
    return checks[id].of;
}

const char *rp_severity_name(enum rp_severity severity)
{
    return severity_names[severity];
}

struct rp_check_counts rp_check_counts(const struct rp_verification *v)
{
    struct rp_check_counts n = {0};
    for (int i = 0; i < RP_CHECK_COUNT; i++) {
        if (checks[i].severity == RP_SEVERITY_INFO || i == RP_CHECK_policy)
            continue;
        n.of[v->check[i].state]++;
        n.applicable += v->check[i].state >= RP_CHECK_PASSED;
    }
    return n;
}

json_t *rp_checks_json(void)
{
    json_t *list = json_array();
    for (int i = 0; i < RP_CHECK_COUNT; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "check", checks[i].id, "severity",
                                              severity_names[checks[i].severity], "proves", checks[i].proves, "how",
                                              checks[i].how));
    return json_pack("{s:o}", "checks", list);
}

int rp_check_text(struct rp_check_result *result, const char *fmt, ...)
{
    char text[sizeof result->text];
    RP_FORMAT_ARGS(text, fmt);
    rp_ascii(result->text, sizeof result->text, text);
    return 0;
}

static void format_value(char *out, size_t size, const json_t *j)
{
    RP_BUF text = {0};
    char safe[120];
    if (!j) {
        snprintf(out, size, "nothing");
        return;
    }
    rp_json_write_line(&text, j);
    text.data[text.size - 1] = 0;
    snprintf(out, size, "%.100s", rp_ascii(safe, sizeof safe, text.data));
}

/* The first difference below `path` that counts: 1 and its text, or 0. */
struct difference {
    char *text;
    size_t size;
    char path[200];
    int (*counts)(const char *path, int what);
    int what;
};

static int find_difference(struct difference *d, const json_t *is, const json_t *expected)
{
    char a[128], b[128], safe[64];
    const char *key;
    const json_t *part;
    const size_t end = strlen(d->path);
    size_t i;
    if (json_equal(is, expected))
        return 0;
    if (json_is_object(is) && json_is_object(expected)) {
        for (int turn = 0; turn < 2; turn++) /* keys of the document, then keys that it lacks */
            json_object_foreach((json_t *)(turn ? expected : is), key, part) {
                snprintf(d->path + end, sizeof d->path - end, "%s%s", end ? "/" : "", rp_ascii(safe, sizeof safe, key));
                if (find_difference(d, json_object_get(is, key), json_object_get(expected, key)))
                    return 1;
                d->path[end] = 0;
            }
        return 0;
    }
    if (json_is_array(is) && json_is_array(expected) && json_array_size(is) == json_array_size(expected)) {
        json_array_foreach((json_t *)is, i, part) {
            snprintf(d->path + end, sizeof d->path - end, "/%zu", i);
            if (find_difference(d, part, json_array_get(expected, i)))
                return 1;
            d->path[end] = 0;
        }
        return 0;
    }
    if (d->counts && !d->counts(d->path, d->what))
        return 0;
    format_value(a, sizeof a, is);
    format_value(b, sizeof b, expected);
    snprintf(d->text, d->size, "%s is %s, expected %s", *d->path ? d->path : "the document", a, b);
    return 1;
}

int rp_check_differ(char *text, size_t size, const json_t *is, const json_t *expected)
{
    struct difference d = {.text = text, .size = size};
    return find_difference(&d, is, expected);
}

int rp_check_differ_where(char *text, size_t size, const json_t *is, const json_t *expected,
                          int (*counts)(const char *path, int what), int what)
{
    struct difference d = {.text = text, .size = size, .counts = counts, .what = what};
    return find_difference(&d, is, expected);
}
