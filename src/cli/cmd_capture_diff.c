/* `repro capture diff`: two machines, or one at two times, compared value by value. */
#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "base/zstd_magic.h"
#include "bundle/bundle.h"
#include "bundle/source.h"
#include "bundle/schema.h"
#include "capture/capture.h"
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

/* The first bytes of a regular file, or all that comes over standard input for "-": a little more than a document may
 * have. */
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
    char shown[72];
    RP_BUF text = {0};
    rp_excerpt(shown, strcmp(path, "-") == 0 ? "standard input" : path);
    if (read_document(&text, path, shown, err) < 0)
        return NULL;
    if (!rp_is_zstd(text.data, text.size))
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
static void show_sides(struct rp_buf *out, const struct rp_difference *d)
{
    struct rp_buf side[2] = {{0}, {0}};
    char shown[SHOWN];
    rp_capture_show_sides(side, d);
    for (int i = 0; i < 2; i++) {
        rp_buf_printf(out, "%s%s", rp_excerpt(shown, rp_buf_text(&side[i])), i ? "\n" : "  |  ");
        rp_buf_fini(&side[i]);
    }
}

/* Differences in the order in which they are shown. */
struct shown_list {
    const struct rp_difference **of;
    int64_t n;
};

/* Different fields of one row with the same two sides, as those of eight GPUs, are one line. */
static int64_t run_length(const struct shown_list *list, int64_t at)
{
    const struct rp_difference *first = list->of[at];
    int64_t n = 1;
    for (; at + n < list->n; n++) {
        const struct rp_difference *next = list->of[at + n];
        if (!rp_same_text(first->pattern, next->pattern) || !json_equal(first->a, next->a) ||
            !json_equal(first->b, next->b))
            break;
    }
    return n;
}

/* The names for the "*" of the row in n fields: "gpu0, gpu1 and 6 more". */
static void show_things(struct rp_buf *out, const struct rp_difference *const *list, int64_t n)
{
    const char *pattern = list[0]->pattern, *star = strrchr(pattern, '*');
    size_t head = strcspn(pattern, "*"), tail = star ? strlen(star + 1) : 0, begin = out->size;
    int64_t i = 0;
    for (; i < n && out->size - begin <= 48; i++) {
        char name[72];
        const char *f = list[i]->field;
        RP_FREE char *part = rp_asprintf("%.*s", (int)(strlen(f) - head - tail), f + head);
        rp_buf_printf(out, "%s%s", i ? ", " : " (", rp_excerpt(name, part));
    }
    if (i < n)
        rp_buf_printf(out, " and %lld more", (long long)(n - i));
    rp_buf_puts(out, ")");
}

static void show_list(struct rp_buf *out, const char *title, const struct shown_list *list, int with_why)
{
    char shown[SHOWN];
    const char *last = NULL;
    if (list->n == 0)
        return;
    rp_buf_printf(out, "\n%s\n", title);
    for (int64_t i = 0, n; i < list->n; i += n) {
        const struct rp_difference *d = list->of[i];
        n = run_length(list, i);
        rp_buf_printf(out, "  %s", n > 1 ? d->pattern : rp_excerpt(shown, d->field));
        if (n > 1)
            show_things(out, &list->of[i], n);
        rp_buf_puts(out, "\n      ");
        show_sides(out, d);
        if (with_why && !rp_same_text(d->pattern, last))
            rp_buf_printf(out, "      %s\n", d->pattern ? d->why : "unknown field: it may matter");
        last = d->pattern;
    }
}

static void show_names(struct rp_buf *out, const char *title, char *const *name, int64_t n)
{
    char shown[SHOWN];
    size_t at = 80;
    if (n == 0)
        return;
    rp_buf_printf(out, "\n%s", title);
    for (int64_t i = 0; i < n; i++) {
        rp_excerpt(shown, name[i]);
        at += strlen(shown) + 2;
        if (at > 80) {
            rp_buf_puts(out, "\n  ");
            at = strlen(shown) + 4;
        }
        rp_buf_printf(out, "%s%s", shown, i + 1 < n ? ", " : "");
    }
    rp_buf_puts(out, "\n");
}

static void show_fields(struct rp_buf *out, const char *title, const struct shown_list *list)
{
    RP_FREE char **name = rp_alloc((size_t)(list->n + 1) * sizeof *name);
    for (int64_t i = 0; i < list->n; i++)
        name[i] = list->of[i]->field;
    show_names(out, title, name, list->n);
}

static int of_row(const struct rp_difference *d, const char *pattern)
{
    return pattern ? rp_same_text(d->pattern, pattern) : !d->pattern;
}

/* Those of one impact, or the volatile ones (impact NULL), in the order of their rows, so that equal differences of
 * several things are next to each other; those without a row last. Without `sorted` all of them, as they are. */
static struct shown_list select_differences(const struct rp_difference *list, int64_t n, int sorted, const char *impact)
{
    struct shown_list out = {.of = rp_alloc((size_t)(n + 1) * sizeof *out.of)};
    const struct rp_field *f = rp_fields;
    for (int64_t i = 0; i < n && !sorted; i++)
        out.of[out.n++] = &list[i];
    for (int last = !sorted; !last; f++) {
        last = !f->pattern;
        for (int64_t i = 0; i < n; i++)
            if (of_row(&list[i], f->pattern) && list[i].varies == !impact &&
                (!impact || strcmp(list[i].impact, impact) == 0))
                out.of[out.n++] = &list[i];
    }
    return out;
}

/* The last line counts what was not compared: that nothing important differs does not mean that the machines are the
 * same. */
static const char end_text[] =
    "\n{/equal t} equal, {/absent t} absent on both sides[/undecided:, {/undecided t} could not be compared"
    "[/not_compared: ({/not_compared t} of high or medium impact)]]"
    "[/probes:, {/probes t} probe{/probes s} on one side only]\n";

static void show_all(struct rp_buf *out, const struct rp_capture_comparison *c, const json_t *doc)
{
    static const struct {
        const char *impact, *title;
    } grades[] = {{"high", "HIGH: moves throughput"},
                  {"medium", "MEDIUM: often moves throughput"},
                  {"low", "LOW: seldom moves throughput"},
                  {"none", "Different, without known influence:"},
                  {NULL, "Of the moment of each capture:"}};
    rp_show(out, RP_FILL_TEXT, doc,
            "A  {/a/name t}, captured {/a/captured_at t}\nB  {/b/name t}, captured {/b/captured_at t}\n");
    for (int i = 0; i < 5; i++) {
        struct shown_list list = select_differences(c->different, c->different_n, 1, grades[i].impact);
        if (i == 3)
            show_fields(out, grades[i].title, &list);
        else
            show_list(out, grades[i].title, &list, i < 3);
        free(list.of);
    }
    struct shown_list one = select_differences(c->one_side, c->one_side_n, 0, NULL);
    struct shown_list hidden = select_differences(c->not_comparable, c->not_comparable_n, 0, NULL);
    show_list(out, "Known on one side only:", &one, 0);
    show_fields(out, "Cannot be compared, hidden with different salts or on one side only:", &hidden);
    free(one.of);
    free(hidden.of);
    show_names(out, "Unknown on both sides, which does not mean equal:", c->unknown, c->unknown_n);
    show_names(out, "Probes that ran on one side only:", c->not_captured, c->not_captured_n);
    rp_show(out, RP_FILL_TEXT, doc, end_text);
}

/* ---- the command ---- */

/* How many important settings of a list differ. */
static int count_important(const struct rp_difference *list, int64_t n)
{
    int important = 0;
    for (int64_t i = 0; i < n; i++)
        important += rp_capture_important(&list[i]);
    return important;
}

/* How many values of high or medium impact were not compared. */
static int count_not_compared(const struct rp_capture_comparison *c)
{
    int n = count_important(c->one_side, c->one_side_n) + count_important(c->not_comparable, c->not_comparable_n);
    for (int64_t i = 0; i < c->unknown_n; i++) {
        const struct rp_field *f = rp_field_find(c->unknown[i], '.');
        n += f && !f->moment && f->impact >= RP_IMPACT_MEDIUM;
    }
    return n;
}

struct diff_opts {
    int strict;
};
#define AT(field) offsetof(struct diff_opts, field)
static const struct rp_opt opts[] = {
    RP_OPTION_FLAG(
        strict, "strict", 0,
        "exit status 5 also if an important value could not be compared; of high or medium impact or a probe"),
    {0},
};

static json_t *head_json(const char *path, const json_t *env)
{
    char shown[72];
    RP_READ(capture_document, head, env);
    return json_pack("{s:s, s:s}", "name", rp_excerpt(shown, path), "captured_at", rp_text_or_empty(head.captured_at));
}

static int cmd_capture_diff(struct rp_cli *cli, struct rp_err *err)
{
    const struct diff_opts *o = cli->opts;
    RP_CAPTURE_COMPARISON c = {0};
    RP_BUF text = {0};
    if (strcmp(cli->argv[0], "-") == 0 && strcmp(cli->argv[1], "-") == 0)
        return rp_fail(err, RP_USAGE, "standard input can be only one of the two");
    RP_JSON *a = load_capture(cli->argv[0], err), *b = a ? load_capture(cli->argv[1], err) : NULL;
    if (!b || rp_capture_compare(&c, a, b, err) < 0)
        return -1;
    if ((size_t)c.not_captured_n ==
        json_object_size(rp_json_at(a, "probes")) + json_object_size(rp_json_at(b, "probes")))
        return rp_fail(err, RP_USAGE, "the two captures have no probe in common: nothing can be compared");
    const int important = count_important(c.different, c.different_n), values = count_not_compared(&c);
    RP_JSON *doc = rp_object_json(&c, &rp_type_capture_comparison);
    json_object_update_new(doc, json_pack("{s:o, s:o, s:i, s:I, s:I}", "a", head_json(cli->argv[0], a), "b",
                                          head_json(cli->argv[1], b), "not_compared", values, "undecided",
                                          (json_int_t)(c.one_side_n + c.not_comparable_n + c.unknown_n), "probes",
                                          (json_int_t)c.not_captured_n));
    if (cli->json) {
        cli->result = json_incref(doc);
    } else {
        show_all(&text, &c, doc);
        rp_cli_print(&text);
    }
    if (important)
        return rp_fail(err, RP_MISMATCH, "%d %s of high or medium impact %s", important,
                       important == 1 ? "value" : "values", important == 1 ? "differs" : "differ");
    if (o->strict && (values || c.not_captured_n))
        return rp_fail(err, RP_MISMATCH,
                       "--strict: %d value%s of high or medium impact and %lld probe%s could not be compared", values,
                       rp_s(values), (long long)c.not_captured_n, rp_s(c.not_captured_n));
    return 0;
}

const struct rp_command rp_cmd_capture_diff = {
    .name = "capture diff", .operands = "A B", .summary = "compare two captures, graded by what moves throughput",
    .details = "A and B are documents of 'repro capture -o', or bundles (their capture before the run; the bundle is "
               "not verified). A document may also come over standard input, named -. Differences are grouped by their "
               "likely impact on throughput, with the reason; see also 'repro capture --explain FIELD'. Lists are "
               "compared as sets, rows of the topology matrix cell by cell; sizes of memory within 1 % are equal, "
               "because the kernel reserves a varying part. Volatile values (load, temperatures, free memory), values "
               "that are known on one side or on neither, and hidden values are listed separately. Names and serial "
               "numbers are salted hashes: they can be compared only within one run, whose two captures share the "
               "salt, or between captures made with --identify.\n"
               "\n"
               "The exit status is 5 if a value of high or medium impact differs, except for volatile ones. 0 means "
               "that no difference was found, not that the machines are the same: the last line counts the values that "
               "could not be compared; with --strict these also give 5. Captures without a common probe are a usage "
               "error (2).\n"
               "\n"
               "Examples:\n"
               "  repro capture diff monday.json friday.json\n"
               "  repro capture diff theirs.repro.tar.zst ours.repro.tar.zst\n"
               "  repro capture --json | repro capture diff a.json -\n"
               "  repro capture diff --strict a.json b.json && echo same environment\n"
               "  repro capture diff a.json b.json --json | jq -r '.different[].field'\n",
    .opts = opts, .opts_size = sizeof(struct diff_opts), .run = cmd_capture_diff,
};
