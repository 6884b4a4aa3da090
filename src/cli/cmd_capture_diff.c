/* `repro capture diff`: two machines, or one at two times, compared value by value. */
#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "bundle/bundle.h"
#include "bundle/schema.h"
#include "capture/env_diff.h"
#include "capture/env_show.h"
#include "capture/fields.h"
#include "capture/value.h"
#include "cli/opts.h"
#include "report/template.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DOCUMENT_MAX (4u << 20) /* a capture of eight GPUs has 300 KiB */
#define SHOWN 72                /* bytes of a value for people */

/* ---- reading ---- */

/* A capture of the documented form; takes nothing on trust. */
static json_t *parse_capture(const char *data, size_t size, const char *what, struct rp_err *err)
{
    if (size > DOCUMENT_MAX)
        return rp_fail_null(err, RP_MALFORMED, "%s: has %zu bytes; a capture has at most %u", what, size, DOCUMENT_MAX);
    return rp_schema_parse("env", data, size, what, err);
}

/* The capture before the run. */
static json_t *load_from_bundle(const char *path, struct rp_err *err)
{
    const char *member = RP_OF_NODE(0, ".before.json");
    RP_BUNDLE b = {0};
    if (rp_bundle_skim(&b, path, err) < 0)
        return NULL;
    const struct rp_member *m = rp_bundle_find(&b, member);
    return m ? parse_capture(rp_buf_text(&m->bytes), m->bytes.size, member, err)
             : rp_fail_null(err, RP_MALFORMED, "it has no member %s", member);
}

/* The first bytes of a regular file, or all that comes over standard input for "-": a little more than a document may have. */
static int read_document(struct rp_buf *text, const char *path, const char *shown, struct rp_err *err)
{
    const int piped = strcmp(path, "-") == 0;
    RP_FD fd = piped ? -1 : rp_open_regular(path, err);
    char block[65536];
    ssize_t n = 1;
    if (!piped && fd < 0)
        return -1;
    while (n > 0 && text->size <= DOCUMENT_MAX) {
        n = RP_RETRY(read(piped ? STDIN_FILENO : fd, block, sizeof block));
        if (n > 0)
            rp_buf_add(text, block, (size_t)n);
    }
    return n < 0 ? rp_fail(err, RP_IO, "cannot read %s: %s", shown, strerror(errno)) : 0;
}

/* A document or a bundle in a file, or a document on standard input. */
static json_t *load_capture(const char *path, struct rp_err *err)
{
    static const char zstd_magic[] = "\x28\xb5\x2f\xfd";
    char shown[72];
    RP_BUF text = {0};
    rp_excerpt(shown, strcmp(path, "-") == 0 ? "standard input" : path);
    if (read_document(&text, path, shown, err) < 0)
        return NULL;
    if (text.size < 4 || memcmp(text.data, zstd_magic, 4) != 0)
        return parse_capture(rp_buf_text(&text), text.size, shown, err);
    if (strcmp(path, "-") == 0)
        return rp_fail_null(err, RP_USAGE, "%s is a bundle: give the file itself, not a pipe", shown);
    json_t *env = load_from_bundle(path, err);
    if (!env)
        rp_wrap(err, "%s", shown);
    return env;
}

/* ---- showing ---- */

/* "a  |  b" */
static void show_sides(struct rp_buf *out, const json_t *d)
{
    struct rp_buf side[2] = {{0}, {0}};
    char shown[SHOWN];
    rp_capture_show_sides(side, d);
    for (int i = 0; i < 2; i++) {
        rp_buf_printf(out, "%s%s", rp_excerpt(shown, rp_buf_text(&side[i])), i ? "\n" : "  |  ");
        rp_buf_fini(&side[i]);
    }
}

/* Different fields of one row with the same two sides, as those of eight GPUs, are one line. */
static size_t run_length(const json_t *list, size_t at)
{
    const json_t *first = json_array_get(list, at), *pattern = json_object_get(first, "pattern");
    size_t n = 1;
    for (; json_is_string(pattern) && at + n < json_array_size(list); n++) {
        const json_t *next = json_array_get(list, at + n);
        if (!json_equal(pattern, json_object_get(next, "pattern")) ||
            !json_equal(json_object_get(first, "a"), json_object_get(next, "a")) ||
            !json_equal(json_object_get(first, "b"), json_object_get(next, "b")))
            break;
    }
    return n;
}

/* The names for the "*" of the row in n fields: "gpu0, gpu1 and 6 more". */
static void show_things(struct rp_buf *out, const json_t *list, size_t at, size_t n)
{
    const char *pattern = rp_json_text_at(json_array_get(list, at), "pattern"), *star = strrchr(pattern, '*');
    size_t head = strcspn(pattern, "*"), tail = star ? strlen(star + 1) : 0, i = 0, begin = out->size;
    for (; i < n && out->size - begin <= 48; i++) {
        char name[72];
        const char *f = rp_json_text_at(json_array_get(list, at + i), "field");
        RP_FREE char *part = rp_asprintf("%.*s", (int)(strlen(f) - head - tail), f + head);
        rp_buf_printf(out, "%s%s", i ? ", " : " (", rp_excerpt(name, part));
    }
    if (i < n)
        rp_buf_printf(out, " and %zu more", n - i);
    rp_buf_puts(out, ")");
}

static const struct rp_field *row_of(const json_t *d)
{
    const struct rp_field *f = rp_fields;
    const char *pattern = rp_json_text_at(d, "pattern");
    while (f->pattern && strcmp(f->pattern, pattern) != 0)
        f++;
    return f->pattern ? f : NULL;
}

static void show_list(struct rp_buf *out, const char *title, const json_t *list, int with_why)
{
    char shown[SHOWN];
    const struct rp_field *last = NULL;
    if (json_array_size(list) == 0)
        return;
    rp_buf_printf(out, "\n%s\n", title);
    for (size_t i = 0, n; i < json_array_size(list); i += n) {
        const json_t *d = json_array_get(list, i);
        const struct rp_field *f = row_of(d);
        n = run_length(list, i);
        rp_buf_printf(out, "  %s", n > 1 ? f->pattern : rp_excerpt(shown, rp_json_text_at(d, "field")));
        if (n > 1)
            show_things(out, list, i, n);
        rp_buf_puts(out, "\n      ");
        show_sides(out, d);
        if (with_why && !(f && f == last))
            rp_buf_printf(out, "      %s\n",
                          f ? f->why : "unknown field: it may matter");
        last = f;
    }
}

static void show_names(struct rp_buf *out, const char *title, const json_t *list)
{
    char shown[SHOWN];
    size_t i, at = 80;
    json_t *v;
    if (json_array_size(list) == 0)
        return;
    rp_buf_printf(out, "\n%s", title);
    json_array_foreach((json_t *)list, i, v) {
        rp_excerpt(shown, json_is_string(v) ? json_string_value(v) : rp_json_text_at(v, "field"));
        at += strlen(shown) + 2;
        if (at > 80) {
            rp_buf_puts(out, "\n  ");
            at = strlen(shown) + 4;
        }
        rp_buf_printf(out, "%s%s", shown, i + 1 < json_array_size(list) ? ", " : "");
    }
    rp_buf_puts(out, "\n");
}

/* The differences of one impact, or the volatile ones, in the order of their rows, so that equal differences of several things are next
 * to each other; those without a row last. */
static json_t *select_differences(const json_t *list, const char *impact, int moment)
{
    size_t i;
    json_t *out = json_array(), *d, *rows = json_object();
    json_array_foreach((json_t *)list, i, d) {
        const char *pattern = rp_json_text_at(d, "pattern");
        if ((!moment && strcmp(rp_json_text_at(d, "impact"), impact) != 0) || json_is_true(json_object_get(d, "volatile")) != moment)
            continue;
        if (!json_object_get(rows, pattern))
            json_object_set_new(rows, pattern, json_array());
        json_array_append(json_object_get(rows, pattern), d);
    }
    for (const struct rp_field *f = rp_fields; f->pattern; f++)
        json_array_extend(out, json_object_get(rows, f->pattern));
    json_array_extend(out, json_object_get(rows, ""));
    json_decref(rows);
    return out;
}

static size_t count_of(const json_t *doc, const char *list)
{
    return json_array_size(json_object_get(doc, list));
}

/* The last line counts what was not compared: that nothing important differs does not mean that the machines are the
 * same. */
static const char end_text[] =
    "\n{/equal t} equal, {/absent t} absent on both sides[/undecided:, {/undecided t} could not be compared"
    "[/not_compared: ({/not_compared t} of high or medium impact)]]"
    "[/probes:, {/probes t} probe{/probes s} on one side only]\n";

static void show_all(struct rp_buf *out, const json_t *doc)
{
    static const struct {
        const char *impact, *title;
    } grades[] = {
        {"high", "HIGH: moves throughput"}, {"medium", "MEDIUM: often moves throughput"}, {"low", "LOW: seldom moves throughput"}};
    const json_t *different = json_object_get(doc, "different");
    rp_show(out, RP_FILL_TEXT, doc,
            "A  {/a/name t}, captured {/a/captured_at t}\nB  {/b/name t}, captured {/b/captured_at t}\n");
    for (int i = 0; i < 3; i++) {
        RP_JSON *list = select_differences(different, grades[i].impact, 0);
        show_list(out, grades[i].title, list, 1);
    }
    RP_JSON *none = select_differences(different, "none", 0), *moment = select_differences(different, "", 1);
    show_names(out, "Different, without known influence:", none);
    show_list(out, "Of the moment of each capture:", moment, 0);
    show_list(out, "Known on one side only:", json_object_get(doc, "one_side"), 0);
    show_names(out, "Cannot be compared, hidden with different salts or on one side only:", json_object_get(doc, "not_comparable"));
    show_names(out, "Unknown on both sides, which does not mean equal:", json_object_get(doc, "unknown"));
    show_names(out, "Probes that ran on one side only:", json_object_get(doc, "not_captured"));
    rp_show(out, RP_FILL_TEXT, doc, end_text);
}

/* ---- the command ---- */

/* How many important settings differ. Adds to the document: the reasons, and the numbers of values that could not be
 * compared, of important ones among them, and of probes that ran on one side only. */
static int weigh_differences(json_t *doc)
{
    static const char *const lists[] = {"different", "one_side", "not_comparable"};
    const json_t *unknown = json_object_get(doc, "unknown");
    int important = 0, unknown_important = 0;
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < count_of(doc, lists[k]); i++) {
            json_t *d = json_array_get(json_object_get(doc, lists[k]), i);
            const struct rp_field *f = row_of(d);
            json_object_set_new(d, "why", json_string(f ? f->why : ""));
            *(k ? &unknown_important : &important) += rp_capture_important(d);
        }
    for (size_t i = 0; i < json_array_size(unknown); i++) {
        const struct rp_field *f = rp_field_find(json_string_value(json_array_get(unknown, i)), '.');
        unknown_important += f && !f->moment && f->impact >= RP_IMPACT_MEDIUM;
    }
    const size_t undecided = count_of(doc, "one_side") + count_of(doc, "not_comparable") + json_array_size(unknown);
    json_object_update_new(doc, json_pack("{s:i, s:I, s:I}", "not_compared", unknown_important, "undecided",
                                          (json_int_t)undecided, "probes", (json_int_t)count_of(doc, "not_captured")));
    return important;
}

struct diff_opts {
    int strict;
};
#define AT(field) offsetof(struct diff_opts, field)
static const struct rp_opt opts[] = {
    RP_OPTION_FLAG(strict, "strict", 0,
                   "exit status 5 also if an important value could not be compared; of high or medium impact or a probe"),
    {0},
};

static json_t *head_json(const char *path, const json_t *env)
{
    char shown[72];
    return json_pack("{s:s, s:O}", "name", rp_excerpt(shown, path), "captured_at", json_object_get(env, "captured_at"));
}

static int cmd_capture_diff(struct rp_cli *cli, struct rp_err *err)
{
    const struct diff_opts *o = cli->opts;
    if (strcmp(cli->argv[0], "-") == 0 && strcmp(cli->argv[1], "-") == 0)
        return rp_fail(err, RP_USAGE, "standard input can be only one of the two");
    RP_JSON *a = load_capture(cli->argv[0], err), *b = a ? load_capture(cli->argv[1], err) : NULL;
    RP_JSON *doc = b ? rp_capture_compare(a, b, err) : NULL;
    RP_BUF text = {0};
    if (!doc)
        return -1;
    if (count_of(doc, "not_captured") == json_object_size(json_object_get(a, "probes")) + json_object_size(json_object_get(b, "probes")))
        return rp_fail(err, RP_USAGE, "the two captures have no probe in common: nothing can be compared");
    json_object_set_new(doc, "a", head_json(cli->argv[0], a));
    json_object_set_new(doc, "b", head_json(cli->argv[1], b));
    int important = weigh_differences(doc);
    if (cli->json) {
        cli->result = json_incref(doc);
    } else {
        show_all(&text, doc);
        rp_cli_print(&text);
    }
    if (important)
        return rp_fail(err, RP_MISMATCH, "%d %s of high or medium impact %s", important, important == 1 ? "value" : "values",
                       important == 1 ? "differs" : "differ");
    const long long values = rp_json_integer_at(doc, "not_compared"), probes = rp_json_integer_at(doc, "probes");
    if (o->strict && (values || probes))
        return rp_fail(err, RP_MISMATCH,
                       "--strict: %lld value%s of high or medium impact and %lld probe%s could not be compared", values,
                       rp_s(values), probes, rp_s(probes));
    return 0;
}

const struct rp_command rp_cmd_capture_diff = {
    .name = "capture diff",
    .operands = "A B",
    .summary = "compare two captures, graded by what moves throughput",
    .details =
        "A and B are documents of 'repro capture -o', or bundles (their capture before the run; the bundle is not verified). A document "
        "may also come over standard input, named -. Differences are grouped by their likely impact on throughput, with the reason; see "
        "also 'repro capture --explain FIELD'. Lists are compared as sets, rows of the topology matrix cell by cell; sizes of memory "
        "within 1 % are equal, because the kernel reserves a varying part. Volatile values (load, temperatures, free memory), values that "
        "are known on one side or on neither, and hidden values are listed separately. Names and serial numbers are salted hashes: they "
        "can be compared only within one run, whose two captures share the salt, or between captures made with --identify.\n"
        "\n"
        "The exit status is 5 if a value of high or medium impact differs, except for volatile ones. 0 means that no difference was "
        "found, not that the machines are the same: the last line counts the values that could not be compared; with --strict these also "
        "give 5. Captures without a common probe are a usage error (2).\n"
        "\n"
        "Examples:\n"
        "  repro capture diff monday.json friday.json\n"
        "  repro capture diff theirs.repro.tar.zst ours.repro.tar.zst\n"
        "  repro capture --json | repro capture diff a.json -\n"
        "  repro capture diff --strict a.json b.json && echo same environment\n"
        "  repro capture diff a.json b.json --json | jq -r '.different[].field'\n",
    .opts = opts,
    .opts_size = sizeof(struct diff_opts),
    .run = cmd_capture_diff,
};
