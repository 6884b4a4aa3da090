#include "recipe/yaml.h"

#include "base/buf.h"
#include "base/text.h"
#include "recipe/events.h"
#include "recipe/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 8, MAX_PATH = 128, MAX_SECTIONS = 64 };

struct yaml_reader {
    struct rp_events events;
    struct rp_settings *out;
    char path[MAX_PATH]; /* dotted name of the current mapping, "" at the top */
    struct rp_place name; /* of the current key */
    int depth;
    char *seen[MAX_SECTIONS]; /* sections that were opened: each once */
    int n_seen;
    struct rp_mistakes *mistakes; /* NULL: the first one ends the reading */
    int broken;               /* an event failed: what follows is unknown */
    int events_read, open;    /* events so far; mappings and lists that have not ended */
};

int rp_mistake(struct rp_mistakes *m, const struct rp_err *err, int line)
{
    /* A file that is not of the form of recipes, or cannot be read, ends the reading. */
    if (!m || err->code != RP_USAGE || m->n >= RP_MISTAKES_MAX)
        return 0;
    int i = m->n++;
    for (; i > 0 && m->line[i - 1] > line; i--) {
        m->item[i] = m->item[i - 1];
        m->line[i] = m->line[i - 1];
    }
    m->item[i] = *err;
    m->line[i] = line;
    return 1;
}

void rp_settings_fini(struct rp_settings *s)
{
    for (int i = 0; i < s->n; i++)
        free(s->item[i].text);
    free(s->item);
    *s = (struct rp_settings){0};
}

#define FAIL(r, e, code, ...) RP_EVENT_FAIL(&(r)->events, e, code, __VA_ARGS__)

static int next_event(struct yaml_reader *r, struct rp_event *e)
{
    if (rp_events_next(&r->events, e) < 0)
        return -(r->broken = 1);
    r->events_read++;
    r->open += e->type == YAML_MAPPING_START_EVENT || e->type == YAML_SEQUENCE_START_EVENT;
    r->open -= e->type == YAML_MAPPING_END_EVENT || e->type == YAML_SEQUENCE_END_EVENT;
    return 0;
}

/* Reads on to the end of a value that is wrong: `before` events came before it, in `open` mappings. */
static int skip_value(struct yaml_reader *r, int before, int open)
{
    while (r->events_read == before || r->open > open) {
        struct rp_event e;
        if (next_event(r, &e) < 0)
            return -1;
        rp_event_fini(&e);
    }
    return 0;
}

/* ---- names ---- */

/* enum rp_backend_id, "auto" excepted; -1: no such backend. */
static int backend_of(const char *name, size_t n)
{
    for (int i = RP_BACKEND_auto + 1; i < RP_BACKEND_COUNT; i++)
        if (strlen(rp_choice_name(RP_BACKENDS, i)) == n && memcmp(rp_choice_name(RP_BACKENDS, i), name, n) == 0)
            return i;
    return -1;
}

/* Splits "backend.cpu.measure.timed_steps" into *backend and the key's name; returns other names unchanged. NULL:
 * unknown backend. */
static const char *split_backend(const char *name, int *backend)
{
    *backend = -1;
    if (strncmp(name, "backend.", 8) != 0)
        return name;
    size_t n = strcspn(name + 8, ".");
    *backend = backend_of(name + 8, n);
    return *backend < 0 ? NULL : name + 8 + n + (name[8 + n] == '.');
}

static int is_section(const char *name)
{
    int backend;
    const char *key = split_backend(name, &backend);
    if (strcmp(name, "backend") == 0 || (key && !*key))
        return 1;
    size_t n = key ? strlen(key) : 0;
    for (int k = 0; key && k < RP_KEY_COUNT; k++)
        if (strncmp(rp_key_at(k)->name, key, n) == 0 && rp_key_at(k)->name[n] == '.')
            return 1;
    return 0;
}

static int unknown_name(struct yaml_reader *r, const struct rp_event *e, const char *name)
{
    int backend;
    const char *key = split_backend(name, &backend);
    if (!key) {
        char shown[72];
        rp_fail(r->events.err, RP_USAGE, "unknown backend '%s': expected one of %s", rp_excerpt(shown, name + 8),
                strchr(RP_CHOICES(RP_BACKENDS), '|') + 1);
    } else
        rp_key_unknown(key, r->events.err);
    return rp_at(r->events.file, e->line, e->col, r->events.err);
}

/* A backend section shortens a run without changing its mathematics, except for the number of micro-batches. */
static int allowed_for_backend(int key)
{
    const char *name = rp_key_at(key)->name;
    return rp_key_at(key)->type == 'I' && (strncmp(name, "measure.", 8) == 0 || strncmp(name, "evidence.", 9) == 0 ||
                                          key == RP_KEY_train_accumulation_steps);
}

static int enter_section(struct yaml_reader *r, const struct rp_event *e, const char *name)
{
    if (r->depth >= MAX_DEPTH)
        return FAIL(r, e, RP_MALFORMED, "nested deeper than %d levels", MAX_DEPTH);
    for (int i = 0; i < r->n_seen; i++)
        if (strcmp(r->seen[i], name) == 0)
            return FAIL(r, e, RP_USAGE, "section '%s' is given twice", name);
    if (r->n_seen == MAX_SECTIONS)
        return FAIL(r, e, RP_MALFORMED, "more than %d sections", MAX_SECTIONS);
    r->seen[r->n_seen++] = rp_strdup(name);
    return 0;
}

/* ---- values ---- */

static int add_setting(struct yaml_reader *r, int key, int backend, char *text, const struct rp_event *at)
{
    struct rp_settings *s = r->out;
    for (int i = 0; i < s->n; i++)
        if (s->item[i].key == key && s->item[i].backend == backend) {
            free(text);
            return FAIL(r, at, RP_USAGE, "%s is given twice, first in line %d", rp_key_at(key)->name,
                        s->item[i].value.line);
        }
    s->item = rp_realloc(s->item, (size_t)(s->n + 1) * sizeof *s->item);
    s->item[s->n++] = (struct rp_setting){
        .key = key, .backend = backend, .text = text, .name = r->name, .value = {at->line, at->col}};
    return 0;
}

/* "KEY: expected FORM", then what was found: `text` between `before` and `after`. */
static int wrong_form(struct yaml_reader *r, const struct rp_event *e, int key, const char *before, const char *text,
                      const char *after)
{
    char form[RP_KEY_FORM], shown[72];
    return FAIL(r, e, RP_USAGE, "%s: expected %s%s%s%s", rp_key_at(key)->name, rp_key_form(form, key), before,
                rp_excerpt(shown, text), after);
}

/* A quoted word is a text; a plain word that YAML reads as null, a boolean or a number is not. */
static int read_scalar(struct yaml_reader *r, struct rp_event *e, int key, int backend)
{
    char type = rp_key_at(key)->type;
    if (type == 'L')
        return wrong_form(r, e, key, ", found '", e->text, "'");
    if (type == 'S' && e->plain && rp_text_is_typed(e->text))
        return wrong_form(r, e, key, ", found '", e->text, "', which YAML does not read as text: put it in quotes");
    if ((type == 'I' || type == 'F' || type == 'B') && !e->plain && rp_text_is_typed(e->text))
        return wrong_form(r, e, key, ", found the text \"", e->text, "\": leave out the quotes");
    char *text = e->text;
    e->text = NULL;
    return add_setting(r, key, backend, text, e);
}

static int read_list(struct yaml_reader *r, const struct rp_event *start, int key, int backend)
{
    RP_BUF words = {0};
    if (rp_key_at(key)->type != 'L')
        return wrong_form(r, start, key, ", found a list", "", "");
    for (int n = 0;; n++) {
        struct rp_event e;
        if (next_event(r, &e) < 0)
            return -1;
        if (e.type == YAML_SEQUENCE_END_EVENT)
            break;
        if (e.type != YAML_SCALAR_EVENT || n >= 64 || !*e.text || strchr(e.text, ',') ||
            (e.plain && rp_text_is_typed(e.text))) {
            rp_event_fini(&e);
            return wrong_form(r, &e, key, ", at most 64 of them", "", "");
        }
        rp_buf_printf(&words, "%s%s", n ? "," : "", e.text);
        rp_event_fini(&e);
    }
    return add_setting(r, key, backend, words.size ? rp_buf_take(&words) : rp_strdup(""), start);
}

static int read_mapping(struct yaml_reader *r);

/* The value of the key or section `name`, written at *at. */
static int read_value(struct yaml_reader *r, const struct rp_event *at, const char *name)
{
    int backend, key = -1, failed;
    const char *key_name = split_backend(name, &backend);
    if (key_name)
        key = rp_key_find(key_name);
    if (key < 0 && !is_section(name))
        return unknown_name(r, at, name);
    if (key >= 0 && backend >= 0 && !allowed_for_backend(key))
        return FAIL(
            r, at, RP_USAGE,
            "%s is not allowed in a backend section, only measure.*, evidence.* and train.accumulation_steps are",
            key_name);
    r->name = (struct rp_place){at->line, at->col};
    struct rp_event e;
    if (next_event(r, &e) < 0)
        return -1;
    if (e.type == YAML_MAPPING_START_EVENT && key < 0) {
        size_t n = strlen(r->path);
        failed = enter_section(r, at, name);
        if (!failed) {
            snprintf(r->path, sizeof r->path, "%s", name);
            failed = read_mapping(r);
            r->path[n] = 0; /* name starts with the old path */
        }
    } else if (key < 0)
        failed = FAIL(r, &e, RP_USAGE, "'%s' is a section: expected keys under it", name);
    else if (e.type == YAML_SCALAR_EVENT)
        failed = read_scalar(r, &e, key, backend);
    else if (e.type == YAML_SEQUENCE_START_EVENT)
        failed = read_list(r, &e, key, backend);
    else
        failed = wrong_form(r, &e, key, ", found a mapping", "", "");
    rp_event_fini(&e);
    return failed;
}

static int read_mapping(struct yaml_reader *r) /* recursion is bounded by enter_section() */
{
    int failed = 0;
    r->depth++;
    while (!failed) {
        struct rp_event e;
        char shown[72];
        if (next_event(r, &e) < 0)
            return -1;
        if (e.type == YAML_MAPPING_END_EVENT)
            break;
        const int before = r->events_read, open = r->open;
        RP_FREE char *name = rp_asprintf("%s%s%s", r->path, *r->path ? "." : "", e.text ? e.text : "");
        if (!e.text) /* not a scalar */
            failed = FAIL(r, &e, RP_USAGE, "expected a key's name");
        else if (strcmp(e.text, "<<") == 0)
            failed = FAIL(r, &e, RP_MALFORMED, "a merge key (<<) does not belong in a recipe: write the values out");
        else if (strlen(name) >= MAX_PATH)
            failed = FAIL(r, &e, RP_USAGE, "unknown key '%s'", rp_excerpt(shown, e.text));
        else
            failed = read_value(r, &e, name);
        const int has_text = e.text != NULL;
        rp_event_fini(&e);
        if (failed && has_text && !r->broken && rp_mistake(r->mistakes, r->events.err, e.line))
            failed = skip_value(r, before, open);
    }
    r->depth--;
    return failed;
}

int rp_yaml_read(struct rp_settings *out, const char *data, size_t size, const char *file, struct rp_mistakes *m,
                 struct rp_err *err)
{
    struct yaml_reader r = {.out = out, .mistakes = m, .open = 1}; /* the outermost mapping */
    *out = (struct rp_settings){0};
    if (size > RP_RECIPE_MAX) {
        rp_fail(err, RP_MALFORMED, "%zu bytes: a recipe has at most %u", size, RP_RECIPE_MAX);
        return rp_at(file, 1, 1, err);
    }
    if (rp_events_open(&r.events, data, size, file, "recipe", err) < 0)
        return -1;
    int failed = rp_events_begin(&r.events, "keys like 'train:' and, under it, 'batch_size: 32'") < 0 ||
                 read_mapping(&r) < 0 || rp_events_end(&r.events) < 0;
    rp_events_close(&r.events);
    for (int i = 0; i < r.n_seen; i++)
        free(r.seen[i]);
    if (failed)
        rp_settings_fini(out);
    return failed ? -1 : 0;
}
