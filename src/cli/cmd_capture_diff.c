/* `repro capture diff`: two machines, or one at two times, compared value by value. */
#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "bundle/bundle.h"
#include "bundle/schema.h"
#include "capture/compare.h"
#include "capture/fields.h"
#include "capture/value.h"
#include "cli/opts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DOCUMENT_MAX (4u << 20) /* a capture of eight GPUs has 300 KiB */
#define SHOWN 72                /* bytes of a value for people */

/* ---- reading ---- */

/* A capture of the documented form; takes nothing on trust. */
static json_t *parse(const char *data, size_t size, const char *what, struct rp_err *err)
{
    if (size > DOCUMENT_MAX)
        return rp_fail_null(err, RP_MALFORMED, "%s: has %zu bytes; a capture has at most %u", what, size, DOCUMENT_MAX);
    const struct rp_schema *schema = rp_schema_load("env", err);
    json_t *env = schema ? rp_json_parse(data, size, what, err) : NULL;
    if (env && rp_schema_check(schema, env, what, err) < 0)
        rp_json_decref(&env);
    return env;
}

/* The capture before the run. */
static json_t *of_bundle(const char *path, struct rp_err *err)
{
    const char *member = RP_OF_NODE(0, ".before.json");
    struct rp_bundle b = {0};
    RP_FD fd = rp_open_regular(path, err);
    if (fd < 0)
        return NULL;
    if (rp_bundle_scan(&b, fd, err) < 0) {
        rp_wrap(err, "bundle '%s'", path);
        return NULL;
    }
    const struct rp_member *m = rp_bundle_find(&b, member);
    json_t *env =
        m ? parse(rp_buf_text(&m->bytes), m->bytes.size, member, err) : rp_fail_null(err, RP_MALFORMED, "it has no member %s", member);
    rp_bundle_fini(&b);
    return env;
}

/* All of a file, a pipe or, for "-", standard input, up to a byte more than a capture has. */
static int read_all(struct rp_buf *out, const char *path, struct rp_err *err)
{
    char block[65536];
    int is_stdin = strcmp(path, "-") == 0;
    RP_FD file = is_stdin ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (!is_stdin && file < 0)
        return rp_fail(err, RP_IO, "cannot open '%s': %s", path, strerror(errno));
    while (out->size <= DOCUMENT_MAX) {
        ssize_t n = read(is_stdin ? STDIN_FILENO : file, block, sizeof block);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return rp_fail(err, RP_IO, "cannot read '%s': %s", path, strerror(errno));
        if (n == 0)
            break;
        rp_buf_add(out, block, (size_t)n);
    }
    return 0;
}

static int is_compressed(const struct rp_buf *text)
{
    static const unsigned char magic[4] = {0x28, 0xb5, 0x2f, 0xfd};
    return text->size >= sizeof magic && memcmp(text->data, magic, sizeof magic) == 0;
}

/* A document, or a bundle. */
static json_t *load(const char *path, struct rp_err *err)
{
    char shown[72];
    struct stat st;
    RP_BUF text = {0};
    if (read_all(&text, path, err) < 0)
        return NULL;
    rp_shown(shown, strcmp(path, "-") == 0 ? "standard input" : path);
    if (!is_compressed(&text))
        return parse(rp_buf_text(&text), text.size, shown, err);
    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
        return rp_fail_null(err, RP_USAGE, "%s is a bundle: give the file itself, not a pipe", shown);
    json_t *env = of_bundle(path, err);
    if (!env)
        rp_wrap(err, "%s", shown);
    return env;
}

/* ---- showing ---- */

static void show_words(struct rp_buf *out, const json_t *list)
{
    size_t i;
    json_t *word;
    if (json_array_size(list) == 0)
        rp_buf_puts(out, "(none)");
    json_array_foreach((json_t *)list, i, word)
        rp_buf_printf(out, "%s%s", i ? " " : "", json_is_string(word) ? json_string_value(word) : "?");
}

/* "22.9 GiB": sizes, clocks and speeds as people say them. */
static void in_words(char out[32], const json_t *side)
{
    static const char *const units[] = {"B", "Hz", "MHz", "bit/s"};
    const json_t *v = json_object_get(side, "value");
    const char *unit = json_string_value(json_object_get(side, "unit"));
    *out = 0;
    for (size_t i = 0; json_is_number(v) && unit && i < sizeof units / sizeof *units; i++)
        if (strcmp(unit, units[i]) == 0)
            rp_show_number(out, json_number_value(v), unit);
}

/* The cells of a row that differ: "GPU3 NV1, GPU4 NV2". */
static void show_cells(struct rp_buf *out, const json_t *cells, const char *side)
{
    size_t i;
    json_t *c;
    json_array_foreach((json_t *)cells, i, c)
        rp_buf_printf(out, "%s%s %s", i ? ", " : "", rp_json_text_at(c, "to"), rp_json_text_at(c, side));
}

/* One side of a difference on one line, of any length; the other one may need its every digit. */
static void show_side(struct rp_buf *out, const json_t *side, const json_t *other)
{
    char words[32], others[32];
    in_words(words, side);
    in_words(others, other);
    const json_t *v = json_object_get(side, "value"), *n = json_object_get(side, "values");
    const char *state = json_string_value(json_object_get(side, "state")), *unit = json_string_value(json_object_get(side, "unit"));
    if (*words && strcmp(words, others) != 0) {
        rp_buf_puts(out, words);
        return;
    }
    if (!side || json_is_null(side))
        rp_buf_puts(out, "(not there)");
    else if (n)
        rp_buf_printf(out, "(%lld values)", (long long)json_integer_value(n));
    else if (state && strcmp(state, "ok") != 0)
        rp_buf_printf(out, "(%s)", state);
    else if (json_is_array(v))
        show_words(out, v);
    else if (json_is_string(v))
        rp_buf_puts(out, *json_string_value(v) ? json_string_value(v) : "(empty)");
    else if (json_is_integer(v))
        rp_buf_printf(out, "%lld", (long long)json_integer_value(v));
    else
        rp_buf_printf(out, "%.9g", json_number_value(v));
    if (unit && v && json_is_number(v))
        rp_buf_printf(out, " %s", unit);
}

static void show_cut(struct rp_buf *out, struct rp_buf *text)
{
    char shown[SHOWN];
    rp_buf_puts(out, rp_shown(shown, rp_buf_text(text)));
}

/* "a  |  b"; of two lists what only one has, of rows of the matrix the cells that differ. */
static void show_sides(struct rp_buf *out, const json_t *d)
{
    const json_t *cells = json_object_get(d, "cells");
    int is_row = strncmp(rp_json_text_at(d, "field"), "topology.matrix.", 16) == 0;
    const json_t *side[] = {json_object_get(d, "a"), json_object_get(d, "b")};
    const json_t *list[] = {json_object_get(side[0], "value"), json_object_get(side[1], "value")};
    for (int i = 0; i < 2; i++) {
        RP_BUF text = {0};
        RP_JSON *rest = is_row ? NULL : rp_capture_only_here(list[i], list[1 - i]);
        if (cells) {
            show_cells(&text, cells, i ? "b" : "a");
        } else if (json_array_size(rest)) {
            rp_buf_puts(&text, "only here: ");
            show_words(&text, rest);
        } else if (rest)
            rp_buf_puts(&text, "(nothing of its own)");
        else
            show_side(&text, side[i], side[1 - i]);
        show_cut(out, &text);
        rp_buf_puts(out, i ? "\n" : "  |  ");
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

/* What the "*" of the row stands for in n fields: "gpu0, gpu1 and 6 more". */
static void show_things(struct rp_buf *out, const json_t *list, size_t at, size_t n)
{
    const char *pattern = rp_json_text_at(json_array_get(list, at), "pattern"), *star = strrchr(pattern, '*');
    size_t head = strcspn(pattern, "*"), tail = star ? strlen(star + 1) : 0, shown = out->size;
    rp_buf_puts(out, " (");
    for (size_t i = 0; i < n; i++) {
        char name[72];
        const char *f = rp_json_text_at(json_array_get(list, at + i), "field");
        RP_FREE char *part = rp_asprintf("%.*s", (int)(strlen(f) - head - tail), f + head);
        if (out->size - shown > 48 && i + 1 < n) {
            rp_buf_printf(out, " and %zu more", n - i);
            break;
        }
        rp_buf_printf(out, "%s%s", i ? ", " : "", rp_shown(name, part));
    }
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
        rp_buf_printf(out, "  %s", n > 1 ? f->pattern : rp_shown(shown, rp_json_text_at(d, "field")));
        if (n > 1)
            show_things(out, list, i, n);
        rp_buf_puts(out, "\n      ");
        show_sides(out, d);
        if (with_why && !(f && f == last))
            rp_buf_printf(out, "      %s\n",
                          f ? f->why : "this program does not know the field, so that nobody has said that it does no harm");
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
        rp_shown(shown, json_is_string(v) ? json_string_value(v) : rp_json_text_at(v, "field"));
        at += strlen(shown) + 2;
        if (at > 80) {
            rp_buf_puts(out, "\n  ");
            at = strlen(shown) + 4;
        }
        rp_buf_printf(out, "%s%s", shown, i + 1 < json_array_size(list) ? ", " : "");
    }
    rp_buf_puts(out, "\n");
}

struct chosen {
    json_t *d;
    const struct rp_field *row; /* NULL: not known, which comes last */
    size_t place;
};

static int by_row(const void *a, const void *b)
{
    const struct chosen *x = a, *y = b;
    if (x->row != y->row)
        return !x->row || (y->row && x->row > y->row) ? 1 : -1;
    return x->place < y->place ? -1 : 1;
}

/* Those of one impact, or of the moment, in the order of their rows, so that equal differences of several things stand together. */
static json_t *chosen(const json_t *list, const char *impact, int moment)
{
    RP_FREE struct chosen *c = rp_alloc((json_array_size(list) + 1) * sizeof *c);
    size_t i, n = 0;
    json_t *out = json_array(), *d;
    json_array_foreach((json_t *)list, i, d)
        if ((moment || strcmp(rp_json_text_at(d, "impact"), impact) == 0) && json_is_true(json_object_get(d, "moment")) == moment &&
            !json_object_get(d, "repeats")) {
            c[n] = (struct chosen){d, row_of(d), n};
            n++;
        }
    qsort(c, n, sizeof *c, by_row);
    for (i = 0; i < n; i++)
        json_array_append(out, c[i].d);
    return out;
}

static size_t count_of(const json_t *doc, const char *list)
{
    return json_array_size(json_object_get(doc, list));
}

static long long number(const json_t *doc, const char *name)
{
    return (long long)json_integer_value(json_object_get(doc, name));
}

/* That nothing important differs does not mean that the machines are the same: the last line says what was not held against each other. */
static void show_end(struct rp_buf *out, const json_t *doc)
{
    size_t untold = count_of(doc, "one_side") + count_of(doc, "not_comparable") + count_of(doc, "unknown");
    size_t probes = count_of(doc, "not_captured");
    long long repeats = number(doc, "repeated"), weighty = number(doc, "not_compared");
    if (repeats)
        rp_buf_printf(out, "\n%lld more say the same a second time; --json lists them\n", repeats);
    rp_buf_printf(out, "\n%lld equal, %lld absent on both sides", number(doc, "equal"), number(doc, "absent"));
    if (untold)
        rp_buf_printf(out, ", %zu could not be compared", untold);
    if (untold && weighty)
        rp_buf_printf(out, " (%lld of high or medium impact)", weighty);
    if (probes)
        rp_buf_printf(out, ", %zu %s on one side only", probes, probes == 1 ? "probe" : "probes");
    rp_buf_puts(out, "\n");
}

static void show_all(struct rp_buf *out, const struct rp_cli *cli, const json_t *doc)
{
    static const struct {
        const char *impact, *title;
    } grades[] = {
        {"high", "HIGH: moves throughput"}, {"medium", "MEDIUM: often moves throughput"}, {"low", "LOW: seldom moves throughput"}};
    const json_t *different = json_object_get(doc, "different");
    for (int i = 0; i < 2; i++) {
        char shown[72];
        rp_buf_printf(out, "%c  %s, captured %s\n", "AB"[i], rp_shown(shown, cli->argv[i]),
                      rp_json_text_at(json_object_get(doc, i ? "b" : "a"), "captured_at"));
    }
    for (int i = 0; i < 3; i++) {
        RP_JSON *list = chosen(different, grades[i].impact, 0);
        show_list(out, grades[i].title, list, 1);
    }
    RP_JSON *none = chosen(different, "none", 0), *moment = chosen(different, "", 1);
    show_names(out, "Different, without known influence:", none);
    show_list(out, "Of the moment of each capture:", moment, 0);
    show_list(out, "Known on one side only:", json_object_get(doc, "one_side"), 0);
    show_names(out, "Cannot be compared, hidden with different salts or on one side only:", json_object_get(doc, "not_comparable"));
    show_names(out, "Unknown on both sides, which does not mean equal:", json_object_get(doc, "unknown"));
    show_names(out, "Probes that ran on one side only:", json_object_get(doc, "not_captured"));
    show_end(out, doc);
}

/* ---- the command ---- */

/* Rows that say again what another says, where that one differs too. */
static const char *const retold[][2] = {{"gpu.devices.*.cpu_affinity", "topology.matrix.cpu_affinity"},
                                        {"gpu.devices.*.topology.*", "topology.matrix.rows.*"},
                                        {"nvidia.modules.nvidia", "gpu.driver_version"},
                                        {"nvidia.version", "gpu.driver_version"},
                                        {"topology.caches.*.size", "cpu.caches.*.size"},
                                        {"topology.cores", "cpu.cores"},
                                        {"topology.nodes.*", "memory.nodes.*"},
                                        {"topology.nodes.*.cpus", "memory.nodes.*.cpus"},
                                        {"topology.nodes.*.memory", "memory.nodes.*.total"},
                                        {"topology.numa_nodes", "memory.numa_nodes"},
                                        {"topology.packages", "cpu.sockets"},
                                        {"topology.threads", "cpu.threads"}};

/* What the difference repeats, or NULL. */
static const char *repeats(const json_t *different, const json_t *d)
{
    for (size_t i = 0; i < sizeof retold / sizeof *retold; i++) {
        if (strcmp(rp_json_text_at(d, "pattern"), retold[i][0]) != 0)
            continue;
        for (size_t k = 0; k < json_array_size(different); k++)
            if (strcmp(rp_json_text_at(json_array_get(different, k), "pattern"), retold[i][1]) == 0)
                return retold[i][1];
    }
    return NULL;
}

/* How many important settings differ. Added for those who read the document: why, what repeats another, how many important ones could
 * not be compared. */
static int weigh(json_t *doc)
{
    static const char *const lists[] = {"different", "one_side", "not_comparable"};
    const json_t *different = json_object_get(doc, "different"), *unknown = json_object_get(doc, "unknown");
    int important = 0, untold = 0, repeated = 0;
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < count_of(doc, lists[k]); i++) {
            json_t *d = json_array_get(json_object_get(doc, lists[k]), i);
            const struct rp_field *f = row_of(d);
            const char *again = k ? NULL : repeats(different, d);
            json_object_set_new(d, "why", json_string(f ? f->why : ""));
            if (again)
                json_object_set_new(d, "repeats", json_string(again));
            repeated += again != NULL;
            *(k ? &untold : &important) += !again && rp_capture_important(d);
        }
    for (size_t i = 0; i < json_array_size(unknown); i++) {
        const struct rp_field *f = rp_field_find(json_string_value(json_array_get(unknown, i)), '.');
        untold += f && !f->moment && f->impact >= RP_IMPACT_MEDIUM;
    }
    json_object_set_new(doc, "repeated", json_integer(repeated));
    json_object_set_new(doc, "not_compared", json_integer(untold));
    return important;
}

struct diff_opts {
    int strict;
};
#define AT(field) offsetof(struct diff_opts, field)
static const struct rp_opt opts[] = {
    RP_ROW_FLAG(strict, "strict", 0, "exit status 5 also if an important value could not be compared; of high or medium impact or a probe"),
    {0},
};

static json_t *head(const char *path, const json_t *env)
{
    char shown[72];
    return json_pack("{s:s, s:O}", "name", rp_shown(shown, path), "captured_at", json_object_get(env, "captured_at"));
}

/* Were they asked for anything in common? */
static int have_nothing_common(const json_t *a, const json_t *b)
{
    const char *name;
    json_t *probe;
    const json_t *others = json_object_get(b, "probes");
    json_object_foreach(json_object_get(a, "probes"), name, probe)
        if (json_object_get(others, name))
            return 0;
    return 1;
}

static int cmd_capture_diff(struct rp_cli *cli, struct rp_err *err)
{
    const struct diff_opts *o = cli->opts;
    if (strcmp(cli->argv[0], "-") == 0 && strcmp(cli->argv[1], "-") == 0)
        return rp_fail(err, RP_USAGE, "standard input can be only one of the two");
    RP_JSON *a = load(cli->argv[0], err), *b = a ? load(cli->argv[1], err) : NULL;
    RP_JSON *doc = b ? rp_capture_compare(a, b, err) : NULL;
    RP_BUF text = {0};
    if (!doc)
        return -1;
    if (have_nothing_common(a, b))
        return rp_fail(err, RP_USAGE, "the two captures have no probe in common: nothing can be compared");
    json_object_set_new(doc, "a", head(cli->argv[0], a));
    json_object_set_new(doc, "b", head(cli->argv[1], b));
    int important = weigh(doc);
    if (cli->json) {
        cli->result = json_incref(doc);
    } else {
        show_all(&text, cli, doc);
        rp_cli_print(&text);
    }
    if (important)
        return rp_fail(err, RP_MISMATCH, "%d %s of high or medium impact %s", important, important == 1 ? "value" : "values",
                       important == 1 ? "differs" : "differ");
    size_t probes = count_of(doc, "not_captured");
    if (o->strict && (number(doc, "not_compared") || probes))
        return rp_fail(err, RP_MISMATCH, "--strict: %lld values of high or medium impact and %zu probes could not be compared",
                       number(doc, "not_compared"), probes);
    return 0;
}

const struct rp_command rp_cmd_capture_diff = {
    .name = "capture diff",
    .operands = "A B",
    .min_operands = 2,
    .max_operands = 2,
    .summary = "compare two captures, graded by what moves throughput",
    .details =
        "A and B are documents of 'repro capture -o' or bundles, of which the capture before the run counts; bundles are not verified "
        "here. A document may also come through a pipe, or for - from standard input. Values that differ are listed by their likely "
        "impact, with the reason; 'repro capture --explain FIELD' says more. "
        "Lists are compared as sets, rows of the topology's matrix cell by cell. Sizes of memory within 1 % are equal: the kernel keeps "
        "a little, not always the same. Load, temperatures, free memory and the like differ between any two moments and stand apart. "
        "So do values that only one side knows, those that neither knows, and hidden ones: names and serial numbers are hashed with a "
        "salt, so that they can be compared only within one run, whose two captures share it, or if both were made with --identify.\n"
        "\n"
        "The exit status is 5 when a value of high or medium impact differs, not counting those of the moment. 0 means that none was seen "
        "to differ, not that the machines are the same: the last line counts what could not be compared, and with --strict that is a 5 "
        "too. Captures without a common probe are a mistake (2).\n"
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
