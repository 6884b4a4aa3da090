#include "recipe/keys.h"

#include "base/json.h"
#include "base/nearest.h"
#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct rp_key table[] = {
#define KEY(name_, field, type_, models_, def_, lo_, hi_, choices_, flag_, help_)                                      \
    {.name = name_, .flag = flag_, .choices = choices_, .help = help_, .def = def_, .type = #type_[0],                 \
     .models = models_, .lo = lo_, .hi = hi_},
#include "recipe/keys.def"
#undef KEY
};

static const size_t offsets[] = {
#define KEY(name, field, type, models, def, lo, hi, choices, flag, help) offsetof(struct rp_recipe, field),
#include "recipe/keys.def"
#undef KEY
};

_Static_assert(RP_KEY_COUNT <= RP_KEYS_MAX, "origin[] and place[] hold every key");

const struct rp_key *rp_key_table(int *n)
{
    *n = RP_KEY_COUNT;
    return table;
}

const struct rp_key *rp_key_at(int key)
{
    return &table[key];
}

const char *rp_key_default(const struct rp_key *k, int model)
{
    static const struct {
        int model, key;
        const char *value;
    } rows[] = {
#define KEY(...)
#define DEFAULT(model, field, value) {RP_MODEL_##model, RP_KEY_##field, value},
#include "recipe/keys.def"
#undef KEY
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].model == model && &table[rows[i].key] == k)
            return rows[i].value;
    return k->def;
}

int rp_key_is_later(const struct rp_recipe *r, int key)
{
    static const struct {
        unsigned models;
        int key;
    } later[] = {
#define KEY(...)
#define LATER(models, field) {models, RP_KEY_##field},
#include "recipe/keys.def"
#undef KEY
    };
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (later[i].key == key && later[i].models >> r->workload & 1u)
            return 1;
    return 0;
}

int64_t rp_key_int(const struct rp_recipe *r, int key)
{
    RP_BUG_IF(table[key].type != 'I');
    return *(const rp_key_I *)((const char *)r + offsets[key]);
}

int rp_key_find(const char *name)
{
    for (int k = 0; k < RP_KEY_COUNT; k++)
        if (strcmp(table[k].name, name) == 0)
            return k;
    return -1;
}

int rp_key_applies(const struct rp_recipe *r, int key)
{
    return (table[key].models >> r->workload & 1u) != 0;
}

/* "bert, gpt" (free it) */
static char *name_models(const struct rp_key *k)
{
    RP_BUF names = {0};
    for (int m = 0; m < RP_MODEL_COUNT; m++)
        if (k->models >> m & 1u)
            rp_buf_printf(&names, "%s%s", names.size ? ", " : "", rp_choice_name(RP_MODELS, m));
    return rp_buf_take(&names);
}

int rp_key_refuse(const struct rp_recipe *r, int key, struct rp_err *err)
{
    if (rp_key_applies(r, key))
        return 0;
    RP_FREE char *models = name_models(&table[key]);
    return rp_fail(err, RP_USAGE, "%s is a key of %s; this recipe trains %s: remove it", table[key].name, models,
                   rp_choice_name(RP_MODELS, r->workload));
}

int rp_model_parse(const char *name, struct rp_err *err)
{
    struct rp_value v;
    return rp_value_parse(&v, RP_KEY_workload, name, err) < 0 ? -1 : (int)v.i;
}

const char *rp_origin_name(enum rp_origin o)
{
    static const char *const names[] = {"default",         "recipe",       "model.config",
                                        "backend section", "command line", "challenge"};
    return names[o];
}

/* ---- "did you mean" ---- */

static const char *last_part(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* Few letters differ, and some are the same. */
static int is_close(int distance, size_t length)
{
    return distance <= (length < 6 ? 1 : length < 12 ? 2 : 4) && distance < (int)length;
}

int rp_key_nearest(const char *name)
{
    int best = 0, least = 1000;
    for (int k = 0; k < RP_KEY_COUNT; k++) {
        int whole = 2 * rp_edit_distance(name, table[k].name);
        /* the right word in the wrong section */
        int tail = 2 * rp_edit_distance(last_part(name), last_part(table[k].name)) + 1;
        int d = whole < tail ? whole : tail;
        if (d < least) {
            least = d;
            best = k;
        }
    }
    return is_close(least / 2, strlen(last_part(name))) ? best : -1;
}

/* The first row of the section with nearly this name, or -1. */
static int nearest_section(const char *name)
{
    for (int k = 0; k < RP_KEY_COUNT; k++) {
        RP_FREE char *section = rp_asprintf("%.*s", (int)strcspn(table[k].name, "."), table[k].name);
        if (strchr(table[k].name, '.') && is_close(rp_edit_distance(name, section), strlen(name)))
            return k;
    }
    return -1;
}

int rp_key_unknown(const char *name, struct rp_err *err)
{
    char shown[72], form[RP_KEY_FORM];
    int k = rp_key_nearest(name), in = k < 0 ? nearest_section(name) : -1;
    rp_excerpt(shown, name);
    if (k >= 0)
        return rp_fail(err, RP_USAGE, "unknown key '%s': did you mean '%s' (%s)?", shown, table[k].name,
                       rp_key_form(form, k));
    if (in >= 0)
        return rp_fail(err, RP_USAGE, "unknown key '%s': did you mean one of the section '%.*s', like '%s'?", shown,
                       (int)strcspn(table[in].name, "."), table[in].name, table[in].name);
    return rp_fail(err, RP_USAGE, "unknown key '%s'; 'repro recipes keys' lists all keys", shown);
}

/* ---- one value ---- */

void rp_value_fini(struct rp_value *v)
{
    free(v->s);
    *v = (struct rp_value){0};
}

void rp_value_store(struct rp_recipe *r, int key, struct rp_value *v, enum rp_origin origin)
{
    void *at = (char *)r + offsets[key];
    switch (table[key].type) {
    case 'I':
        *(rp_key_I *)at = v->i;
        break;
    case 'F':
        *(rp_key_F *)at = v->f;
        break;
    case 'B':
    case 'C':
        *(int *)at = (int)v->i;
        break;
    default:
        free(*(char **)at);
        *(char **)at = v->s;
        v->s = NULL;
    }
    r->origin[key] = origin;
}

/* The word for the value lo of an I row ("max"), or NULL. */
static const char *word_of(const struct rp_key *k)
{
    return k->type == 'I' && strncmp(k->choices, "N|", 2) == 0 ? k->choices + 2 : NULL;
}

static void choices_in_words(const char *choices, char *out, size_t size)
{
    size_t o = 0;
    for (const char *p = choices; *p && o + 1 < size;) {
        size_t n = strcspn(p, "|");
        const char *sep = p == choices ? "" : strchr(p, '|') ? ", " : " or ";
        o += (size_t)snprintf(out + o, size - o, "%s%.*s", sep, (int)n, p);
        p += n + (p[n] == '|');
    }
}

const char *rp_key_form(char out[RP_KEY_FORM], int key)
{
    const struct rp_key *k = &table[key];
    const char *word = word_of(k);
    switch (k->type) {
    case 'I':
        snprintf(out, RP_KEY_FORM, "a whole number from %.0f to %.0f%s%s", k->lo + (word ? 1 : 0), k->hi,
                 word ? ", or " : "", word ? word : "");
        break;
    case 'F':
        snprintf(out, RP_KEY_FORM, "a number from %g to %.9g", k->lo, k->hi);
        break;
    case 'B':
        snprintf(out, RP_KEY_FORM, "true or false");
        break;
    case 'C':
        choices_in_words(k->choices, out, RP_KEY_FORM);
        break;
    case 'L':
        snprintf(out, RP_KEY_FORM, "a list of words like [LayerNorm, bias]");
        break;
    default:
        snprintf(out, RP_KEY_FORM, "one line of text, at most %.0f bytes", k->hi);
    }
    return out;
}

static int mistyped(int key, const char *found, struct rp_err *err)
{
    char form[RP_KEY_FORM], shown[72];
    return rp_fail(err, RP_USAGE, "%s: expected %s, found '%s'", table[key].name, rp_key_form(form, key),
                   rp_excerpt(shown, found));
}

/* YAML 1.2 core: [-+]? (0 | [1-9][0-9]*); a leading zero is refused because YAML 1.1 read it as octal. */
static size_t digits(const char *p)
{
    return strspn(p, "0123456789");
}

static int is_integer(const char *p)
{
    p += *p == '-' || *p == '+';
    size_t n = digits(p);
    return n && p[n] == 0 && (n == 1 || p[0] != '0');
}

/* [-+]? ( \.[0-9]+ | int ( \.[0-9]* )? ) ( [eE] [-+]? [0-9]+ )? */
static int is_real(const char *p)
{
    p += *p == '-' || *p == '+';
    size_t n = digits(p);
    if (n > 1 && p[0] == '0')
        return 0;
    p += n;
    if (*p == '.') {
        size_t frac = digits(++p);
        if (n + frac == 0)
            return 0;
        p += frac;
    } else if (n == 0)
        return 0;
    if (*p == 'e' || *p == 'E') {
        p++;
        p += *p == '-' || *p == '+';
        size_t e = digits(p);
        if (e == 0)
            return 0;
        p += e;
    }
    return *p == 0;
}

int rp_text_is_typed(const char *t)
{
    static const char *const words[] = {"",     "~",     "null",  "Null",  "NULL", "true",  "True",
                                        "TRUE", "false", "False", "FALSE", ".inf", "-.inf", "+.inf",
                                        ".Inf", ".INF",  ".nan",  ".NaN",  ".NAN"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(t, words[i]) == 0)
            return 1;
    return is_integer(t) || is_real(t);
}

static int in_range(int key, double x)
{
    return x >= table[key].lo + (word_of(&table[key]) ? 1 : 0) && x <= table[key].hi;
}

static int out_of_range(int key, const char *found, struct rp_err *err)
{
    char form[RP_KEY_FORM], shown[72];
    return rp_fail(err, RP_USAGE, "%s: %s is out of range: expected %s", table[key].name, rp_excerpt(shown, found),
                   rp_key_form(form, key));
}

static int parse_choice(struct rp_value *v, int key, const char *text, struct rp_err *err)
{
    char words[120], form[RP_KEY_FORM], shown[72], *rest;
    struct rp_nearest near = {.word = strcmp(text, "gpu") == 0 ? "cuda" : text}; /* not cpu, which has its letters */
    int index = 0;
    snprintf(words, sizeof words, "%s", table[key].choices);
    for (char *word = strtok_r(words, "|", &rest); word; word = strtok_r(NULL, "|", &rest), index++) {
        if (strcmp(word, text) == 0) {
            v->i = index;
            return 0;
        }
        rp_nearest_try(&near, word);
    }
    return rp_fail(err, RP_USAGE, "%s: expected %s, found '%s'%s%s%s", table[key].name, rp_key_form(form, key),
                   rp_excerpt(shown, text), near.best ? "; did you mean '" : "", near.best ? near.best : "",
                   near.best ? "'?" : "");
}

static int parse_text(struct rp_value *v, int key, const char *text, struct rp_err *err)
{
    size_t n = strlen(text);
    if ((double)n > table[key].hi)
        return rp_fail(err, RP_USAGE, "%s: expected at most %.0f bytes, found %zu", table[key].name, table[key].hi, n);
    for (size_t i = 0, len; i < n; i += len) {
        unsigned c;
        len = rp_utf8(text + i, n - i, &c);
        if (!len || rp_is_control(c))
            return rp_fail(err, RP_USAGE, "%s: expected one line of UTF-8 text, found byte 0x%02x at offset %zu",
                           table[key].name, (unsigned char)text[i], i);
    }
    v->s = n ? rp_strdup(text) : NULL;
    return 0;
}

#define MAX_WORDS 64

/* "a,b,c": letters, digits and . _ / - in every word, so that ',' can join them */
static int parse_list(struct rp_value *v, int key, const char *text, struct rp_err *err)
{
    int words = 1;
    if (!*text)
        return 0;
    for (const char *p = text;; p++) {
        size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-");
        p += n;
        if (n == 0 || n > 64 || (*p && *p != ',') || words > MAX_WORDS)
            return mistyped(key, text, err);
        if (!*p)
            break;
        words++;
    }
    v->s = rp_strdup(text);
    return 0;
}

int rp_value_parse(struct rp_value *v, int key, const char *text, struct rp_err *err)
{
    const char *word = word_of(&table[key]);
    *v = (struct rp_value){0};
    switch (table[key].type) {
    case 'I':
        if (word && strcmp(word, text) == 0) {
            v->i = (int64_t)table[key].lo;
            return 0;
        }
        if (!is_integer(text))
            return mistyped(key, text, err);
        errno = 0;
        v->i = strtoll(text, NULL, 10);
        return errno || !in_range(key, (double)v->i) ? out_of_range(key, text, err) : 0;
    case 'F':
        if (!is_real(text))
            return mistyped(key, text, err);
        v->f = strtod(text, NULL); /* without setlocale(), the decimal point is '.' */
        return isfinite(v->f) && in_range(key, v->f) ? 0 : out_of_range(key, text, err);
    case 'B':
        v->i = strcmp(text, "true") == 0 || strcmp(text, "True") == 0 || strcmp(text, "TRUE") == 0;
        if (!v->i && strcmp(text, "false") != 0 && strcmp(text, "False") != 0 && strcmp(text, "FALSE") != 0)
            return mistyped(key, text, err);
        return 0;
    case 'C':
        return parse_choice(v, key, text, err);
    case 'L':
        return parse_list(v, key, text, err);
    default:
        return parse_text(v, key, text, err);
    }
}

/* ---- JSON ---- */

json_t *rp_value_to_json(const struct rp_recipe *r, int key)
{
    const void *at = (const char *)r + offsets[key];
    const struct rp_key *k = &table[key];
    const char *p, *word = word_of(k);
    json_t *list;
    switch (k->type) {
    case 'I':
        if (word && *(const rp_key_I *)at == (int64_t)k->lo)
            return json_string(word);
        return json_integer((json_int_t) * (const rp_key_I *)at);
    case 'F':
        return json_real(*(const rp_key_F *)at);
    case 'B':
        return json_boolean(*(const int *)at);
    case 'C':
        p = k->choices;
        for (int i = *(const int *)at; i > 0; i--)
            p += strcspn(p, "|") + 1;
        return json_stringn(p, strcspn(p, "|"));
    case 'L':
        list = json_array();
        for (p = *(char *const *)at; p && *p;) {
            size_t n = strcspn(p, ",");
            json_array_append_new(list, json_stringn(p, n));
            p += n + (p[n] == ',');
        }
        return list;
    default:
        p = *(char *const *)at;
        return p ? json_string(p) : json_null();
    }
}

/* Words that ',' can join. */
static int is_word_list(const json_t *j)
{
    for (size_t i = 0; i < json_array_size(j); i++) {
        const char *s = json_string_value(json_array_get(j, i));
        if (!s || !*s || strchr(s, ','))
            return 0;
    }
    return json_is_array(j);
}

int rp_value_from_json(struct rp_value *v, int key, const json_t *j, struct rp_err *err)
{
    const char *word = word_of(&table[key]), *s = json_string_value(j);
    char type = table[key].type;
    *v = (struct rp_value){0};
    if (type == 'S' && json_is_null(j))
        return 0;
    if (s && strlen(s) != json_string_length(j))
        return mistyped(key, "a text with a NUL byte", err);
    int fits = type == 'I'   ? json_is_integer(j) || (word && s && strcmp(word, s) == 0)
               : type == 'F' ? json_is_number(j)
               : type == 'B' ? json_is_boolean(j)
               : type == 'L' ? is_word_list(j)
                             : s != NULL;
    RP_FREE char *text = rp_recipe_value_text(j); /* reals survive it bit for bit */
    return fits ? rp_value_parse(v, key, text, err) : mistyped(key, s ? s : "another type", err);
}

char *rp_recipe_value_text(const json_t *v)
{
    RP_BUF text = {0};
    size_t i;
    const json_t *word;
    rp_buf_puts(&text, "");
    if (!json_is_array(v) && v && !json_is_null(v))
        rp_json_write_plain(&text, v);
    json_array_foreach((json_t *)v, i, word)
        rp_buf_printf(&text, "%s%s", i ? "," : "", json_is_string(word) ? json_string_value(word) : "");
    return rp_buf_take(&text);
}
