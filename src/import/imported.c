#include "import/imported.h"

#include "base/json.h"
#include "base/nearest.h"
#include "base/text.h"
#include "import/scan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define TEXT_MAX 200
#define NOTE_MAX 460
#define COUNT_MAX 1000000000000000

const struct rp_fact rp_facts[] = {
#define FACT(kind, key, meaning) {#key, meaning, RP_FACT_##kind},
#include "import/facts.def"
#undef FACT
    {0},
};

static void init_draft(struct rp_imported *d)
{
    if (d->row)
        return;
    d->row = json_object();
    d->from = json_object();
}

void rp_imported_fini(struct rp_imported *d)
{
    json_decref(d->row);
    json_decref(d->from);
    json_decref(d->extra);
    rp_buf_fini(&d->note);
    free(d->same);
    free(d->file);
    *d = (struct rp_imported){0};
}

void rp_imported_note(struct rp_imported *d, const char *fmt, ...)
{
    char text[NOTE_MAX];
    RP_FORMAT_ARGS(text, fmt);
    rp_sanitize(text);
    if (d->note.size + strlen(text) + 8 > NOTE_MAX) {
        if (d->note.size < 3 || strcmp(d->note.data + d->note.size - 3, "...") != 0)
            rp_buf_puts(&d->note, "; ...");
        return;
    }
    rp_buf_printf(&d->note, "%s%s", d->note.size ? "; " : "", text);
}

static json_t *source_of(int64_t line)
{
    return line > 0 ? json_integer(line) : json_string(line == RP_DRAFT_NAMED ? "name of the file" : "command line");
}

/* Takes the reference of v. */
static void add_value(struct rp_imported *d, const char *key, json_t *v, int64_t line)
{
    init_draft(d);
    const json_t *was = json_object_get(d->row, key);
    if (!was) {
        json_object_set(d->row, key, v);
        json_object_set_new(d->from, key, source_of(line));
    } else if (!json_equal(was, v)) {
        RP_BUF kept = {0}, other = {0};
        char one[72], two[72];
        rp_json_write_line(&kept, was);
        rp_json_write_line(&other, v);
        kept.data[kept.size - 1] = other.data[other.size - 1] = 0;
        if (line > 0)
            rp_imported_note(d, "%s is %s, but line %" PRId64 " has %s", key, rp_excerpt(one, kept.data), line,
                             rp_excerpt(two, other.data));
        else
            rp_imported_note(d, "%s is %s, but the name of the file has %s", key, rp_excerpt(one, kept.data),
                             rp_excerpt(two, other.data));
    }
    json_decref(v);
}

void rp_imported_textn(struct rp_imported *d, const char *key, const char *text, size_t n, int64_t line)
{
    char clean[TEXT_MAX + 1];
    while (n && (*text == ' ' || *text == '\t'))
        text++, n--;
    while (n && (text[n - 1] == ' ' || text[n - 1] == '\t'))
        n--;
    n = n < TEXT_MAX ? n : TEXT_MAX;
    memcpy(clean, text, n);
    clean[n] = 0;
    rp_sanitize(clean);
    if (*clean)
        add_value(d, key, json_string(clean), line);
}

void rp_imported_text(struct rp_imported *d, const char *key, const char *text, int64_t line)
{
    rp_imported_textn(d, key, text, strlen(text), line);
}

void rp_imported_default(struct rp_imported *d, const char *key, const char *text, int64_t line)
{
    if (!json_object_get(d->row, key))
        rp_imported_text(d, key, text, line);
}

void rp_imported_count(struct rp_imported *d, const char *key, int64_t value, int64_t line)
{
    if (value >= 0 && value <= COUNT_MAX)
        add_value(d, key, json_integer(value), line);
}

static const struct rp_fact *fact_of(const char *key)
{
    const struct rp_fact *f = rp_facts;
    while (strcmp(f->key, key) != 0)
        f++;
    return f;
}

void rp_imported_fact(struct rp_imported *d, const char *key, const char *text, int64_t line)
{
    int64_t count;
    const char *end = rp_scan_count(text, &count);
    if (fact_of(key)->kind == RP_FACT_TEXT)
        rp_imported_text(d, key, text, line);
    else if (end && !*end)
        rp_imported_count(d, key, count, line);
}

void rp_imported_real(struct rp_imported *d, const char *key, double value, int64_t line)
{
    init_draft(d);
    if (rp_is_figure(value))
        add_value(d, key, json_real(value), line);
}

int64_t rp_imported_get(const struct rp_imported *d, const char *key)
{
    const json_t *v = json_object_get(d->row, key);
    return json_is_integer(v) ? json_integer_value(v) : -1;
}

const char *rp_imported_get_text(const struct rp_imported *d, const char *key)
{
    return json_string_value(json_object_get(d->row, key));
}

void rp_imported_throughput(struct rp_imported *d, double value, const char *unit, int64_t first_line,
                            int64_t last_line)
{
    init_draft(d);
    d->value = value;
    d->line = first_line;
    RP_FORMAT(d->unit, "%s", unit);
    json_object_set_new(d->row, "throughput", json_pack("{s:f, s:s}", "value", value, "unit", unit));
    json_object_set_new(d->from, "throughput", json_pack("[I, I]", (json_int_t)first_line, (json_int_t)last_line));
}

void rp_imported_beside(struct rp_imported *d, const char *key, json_t *v)
{
    if (!d->extra)
        d->extra = json_object();
    json_object_set_new(d->extra, key, v);
}

/* The product of two positive numbers, or -1. */
static int64_t multiply_counts(int64_t a, int64_t b)
{
    return a > 0 && b > 0 && a <= COUNT_MAX / b ? a * b : -1;
}

void rp_imported_infer(struct rp_imported *d)
{
    static const char how[] = "inferred";
    init_draft(d);
    int64_t devices = rp_imported_get(d, "devices"), batch = rp_imported_get(d, "batch_per_device"),
            micro = rp_imported_get(d, "accumulation"), degree = rp_imported_get(d, "data_parallel");
    if (devices < 0 &&
        (devices = multiply_counts(rp_imported_get(d, "nodes"), rp_imported_get(d, "gpus_per_node"))) > 0) {
        json_object_set_new(d->row, "devices", json_integer(devices));
        json_object_set_new(d->from, "devices", json_string(how));
    }
    int64_t all = multiply_counts(multiply_counts(batch, degree > 0 ? degree : devices), micro < 0 ? 1 : micro);
    if (rp_imported_get(d, "global_batch") < 0 && all > 0) {
        json_object_set_new(d->row, "global_batch", json_integer(all));
        json_object_set_new(d->from, "global_batch", json_string(how));
    } else if (all > 0 && rp_imported_get(d, "global_batch") != all) {
        rp_imported_note(d, "global_batch is %" PRId64 ", but batch per device, %s and accumulation make %" PRId64,
                         rp_imported_get(d, "global_batch"), degree > 0 ? "data-parallel degree" : "devices", all);
    }
}

static int mentions_word(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strcasestr(text, *words))
            return 1;
    return 0;
}

const char *rp_imported_unit(const struct rp_imported *d)
{
    static const char *const sequences[] = {"bert", "gpt", "llama", NULL};
    static const char *const images[] = {"resnet", "rn50", "vgg", "inception", "efficientnet", NULL};
    const char *model = rp_imported_get_text(d, "model");
    return model && mentions_word(model, sequences) ? "sequences/s"
           : model && mentions_word(model, images)  ? "images/s"
                                               : "samples/s";
}

const char *rp_unit_of(const char *word)
{
    static const char *const tokens[] = {"token", "tok/", "tks", NULL}, *const images[] = {"img", "image", "ips", NULL};
    static const char *const sequences[] = {"seq", "sentence", NULL}, *const samples[] = {"sample", "example", NULL};
    return mentions_word(word, tokens)      ? "tokens/s"
           : mentions_word(word, sequences) ? "sequences/s"
           : mentions_word(word, images)    ? "images/s"
           : mentions_word(word, samples)   ? "samples/s"
                                       : NULL;
}

int rp_rate_rank(const char *name)
{
    static const char *const before[] = {"training", "train", "average", "avg", "mean"};
    static const char *const names[] = {
        "sequences_per_second", "sequences_per_sec", "sequences/s", "sequences/sec", "seq/s", "seqs_per_sec",
        "throughput", "throughput_train", "total_ips", "compute_ips", "ips", "samples_per_second", "samples_per_sec",
        "samples/s", "samples/sec", "samples_per_s", "examples_per_second", "examples_per_sec", "examples/s",
        "examples/sec", "images_per_second", "images_per_sec", "images/s", "images/sec", "imgs_per_sec", "imgs/s",
        "img/s", "img/sec", "tokens_per_second", "tokens_per_sec", "tokens/s", "tokens/sec", "tok/s",
    };
    int of_training = 0;
    for (size_t i = 0; i < sizeof before / sizeof *before;) {
        size_t n = strlen(before[i]);
        if (strncasecmp(name, before[i], n) == 0 && name[n] && strchr("._/ ", name[n])) {
            name += n + 1;
            of_training |= i < 2;
            i = 0;
        } else {
            i++;
        }
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(names[i], name) == 0)
            return 2 * (int)i + !of_training;
    return -1;
}

void rp_imported_units(const struct rp_imported *d, const char *given, const char *rate_unit, const char **unit,
                       const char **of_rate)
{
    *unit = given ? given : rp_imported_unit(d);
    *of_rate = !rate_unit || strcmp(rate_unit, "samples/s") == 0 ? *unit : rate_unit;
    if (!given && strcmp(*unit, "samples/s") == 0 && strcmp(*of_rate, "tokens/s") != 0)
        *unit = *of_rate;
}

int rp_imported_set(struct rp_imported *d, const char *assignment, struct rp_err *err)
{
    char shown[72];
    const char *equals = strchr(assignment, '=');
    const size_t n = equals ? (size_t)(equals - assignment) : 0;
    if (!n || !equals[1])
        return rp_fail(err, RP_USAGE, "--set '%s': expected KEY=VALUE", rp_excerpt(shown, assignment));
    RP_FREE char *key = rp_asprintf("%.*s", (int)n, assignment);
    struct rp_nearest near = {.word = key};
    for (const struct rp_fact *f = rp_facts; f->key; f++) {
        int64_t count;
        rp_nearest_try(&near, f->key);
        if (strcmp(f->key, key) != 0)
            continue;
        if (json_object_get(d->row, key))
            return rp_fail(err, RP_USAGE, "--set %s is given twice", key);
        if (f->kind == RP_FACT_TEXT) {
            rp_imported_text(d, key, equals + 1, RP_DRAFT_GIVEN);
            return 0;
        }
        /* a machine may have no GPU; other counts start at 1 */
        const int64_t least = strcmp(key, "gpus_per_node") != 0;
        const char *end = rp_scan_count(equals + 1, &count);
        if (!end || *end || count < least || equals[1] < '0' || equals[1] > '9') /* it skips blanks */
            return rp_fail(err, RP_USAGE, "--set %s: '%s' is not a whole number %s 0", key,
                           rp_excerpt(shown, equals + 1), least ? "above" : "from");
        rp_imported_count(d, key, count, RP_DRAFT_GIVEN);
        return 0;
    }
    return rp_fail(err, RP_USAGE, "--set: unknown key '%s'%s%s%s; 'repro help import' lists the keys",
                   rp_excerpt(shown, key), near.best ? ", did you mean '" : "", near.best ? near.best : "",
                   near.best ? "'" : "");
}
