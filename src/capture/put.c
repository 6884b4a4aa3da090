/* Values of a capture and their states; the form of hidden ones; values that other processes and records send. */
#include "capture/probe.h"

#include "base/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const states[] = {"ok", "absent", "denied", "error"};

const char *rp_state_name(enum rp_state s)
{
    return states[s];
}

enum rp_state rp_state_named(const char *name)
{
    enum rp_state s = RP_STATE_OK;
    while (s < RP_STATE_ERROR && (!name || strcmp(name, states[s]) != 0))
        s++;
    return s;
}

/* ---- values ---- */

void rp_put(json_t *obj, const char *name, enum rp_state state, json_t *value, const char *source, const char *unit,
            const char *detail)
{
    json_t *v = json_pack("{s:s, s:s}", "state", rp_state_name(state), "source", source);
    json_object_set_new(v, "value", value ? value : json_null());
    if (unit)
        json_object_set_new(v, "unit", json_string(unit));
    if (detail)
        json_object_set_new(v, "detail", json_string(detail));
    json_object_set_new(obj, name, v);
}

void rp_put_str(json_t *obj, const char *name, const char *value, const char *source)
{
    size_t n = value ? strlen(value) : 0;
    json_t *v = value && n <= RP_LINE_MAX && rp_plain_size(value, n, 0) == n ? json_string(value) : NULL;
    if (v)
        rp_put(obj, name, RP_STATE_OK, v, source, NULL, NULL);
    else if (!value)
        rp_put_absent(obj, name, source);
    else
        rp_put(obj, name, RP_STATE_ERROR, NULL, source, NULL, n > RP_LINE_MAX ? "too long" : "not a line of text");
}

void rp_put_int(json_t *obj, const char *name, int64_t value, const char *source, const char *unit)
{
    rp_put(obj, name, RP_STATE_OK, json_integer(value), source, unit, NULL);
}

void rp_put_real(json_t *obj, const char *name, double value, const char *source, const char *unit)
{
    rp_put(obj, name, RP_STATE_OK, json_real(value), source, unit, NULL);
}

void rp_put_absent(json_t *obj, const char *name, const char *source)
{
    rp_put(obj, name, RP_STATE_ABSENT, NULL, source, NULL, NULL);
}

void rp_put_state(json_t *obj, const char *name, const struct rp_text *t)
{
    if (t->state == RP_STATE_OK)
        rp_put_absent(obj, name, t->path);
    else
        rp_put(obj, name, t->state, NULL, t->path, NULL, t->state == RP_STATE_ERROR ? t->detail : NULL);
}

void rp_put_invalid(json_t *obj, const char *name, const struct rp_text *t, const char *unit, const char *detail)
{
    if (t->state == RP_STATE_OK)
        rp_put(obj, name, RP_STATE_ERROR, NULL, t->path, unit, detail);
    else
        rp_put_state(obj, name, t);
}

void rp_put_found(json_t *obj, const char *name, const char *value, const struct rp_text *t)
{
    if (value)
        rp_put_str(obj, name, value, t->path);
    else
        rp_put_state(obj, name, t);
}

int rp_is_hidden(const char *value)
{
    return strncmp(value, "sha256:", 7) == 0 && strlen(value) == RP_HIDDEN - 1 &&
           strspn(value + 7, "0123456789abcdef") == 64;
}

void rp_hide_as(const struct rp_probe *p, const char *probe_and_name, const char *value, char out[RP_HIDDEN])
{
    RP_BUF text = {0};
    if (rp_is_hidden(value)) {
        memcpy(out, value, RP_HIDDEN);
        return;
    }
    rp_buf_printf(&text, "%s%c%s%c%s", p->salt, 0, probe_and_name, 0, value);
    memcpy(out, "sha256:", 7);
    rp_sha256_hex(out + 7, text.data, text.size);
}

void rp_hide(const struct rp_probe *p, const char *name, const char *value, char out[RP_HIDDEN])
{
    RP_FREE char *full = rp_asprintf("%s.%s", p->name, name);
    rp_hide_as(p, full, value, out);
}

/* Hidden unless o->identify; what is hidden already stays as it is. */
static void put_hidden(const struct rp_probe *p, json_t *obj, const char *name, const char *value, const char *source)
{
    char hidden[RP_HIDDEN];
    rp_hide(p, name, value, hidden);
    rp_put_str(obj, name, p->opts->identify ? value : hidden, source);
}

/* ---- values from other processes and records ---- */

int rp_is_line(const json_t *j)
{
    size_t n = json_string_length(j);
    return json_is_string(j) && n <= RP_LINE_MAX && rp_plain_size(json_string_value(j), n, 0) == n;
}

static int is_name(const char *key)
{
    size_t n = strlen(key);
    return n > 0 && n <= 64 && strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789_.:-") == n;
}

static int is_value(const json_t *v)
{
    size_t i;
    json_t *item;
    if (json_is_array(v))
        json_array_foreach(v, i, item)
            if (!rp_is_line(item))
                return 0;
    return json_is_array(v) || json_is_number(v) || rp_is_line(v);
}

/* One value, taken apart and made again. */
static void put_value(const struct rp_probe *p, json_t *out, const char *name, const json_t *in,
                      const struct rp_sender *from_whom)
{
    const json_t *state = json_object_get(in, "state"), *source = json_object_get(in, "source"),
                 *unit = json_object_get(in, "unit"), *detail = json_object_get(in, "detail");
    json_t *value = json_object_get(in, "value");
    enum rp_state s = rp_state_named(json_string_value(state));
    const char *from = rp_is_line(source) && *json_string_value(source) ? json_string_value(source) : NULL;
    int known = strcmp(rp_state_name(s), json_string_value(state)) == 0;
    if (!known || !from ||
        (unit && (!rp_is_line(unit) || !json_string_length(unit) || json_string_length(unit) > 32)) ||
        (detail && (!rp_is_line(detail) || !json_string_length(detail))) ||
        (s == RP_STATE_OK ? !is_value(value) || detail : !json_is_null(value)) || (s == RP_STATE_ERROR && !detail))
        rp_put(out, name, RP_STATE_ERROR, NULL, from_whom->source, NULL, from_whom->complaint);
    else if (s == RP_STATE_OK && json_is_true(json_object_get(in, "hide")) && json_is_string(value))
        put_hidden(p, out, name, json_string_value(value), from);
    else
        rp_put(out, name, s, s == RP_STATE_OK ? json_incref(value) : NULL, from, json_string_value(unit),
               json_string_value(detail));
}

/* How much a sender may still send. */
struct allowance {
    int values;
    size_t bytes;
};

static size_t allowance_of(const json_t *v)
{
    size_t i, n = 64 + (json_is_string(v) ? json_string_length(v) : 0);
    json_t *item;
    json_array_foreach(v, i, item)
        n += 16 + json_string_length(item);
    return n;
}

/* 0: it is too much. */
static int take_allowance(struct allowance *a, const json_t *value)
{
    size_t n = allowance_of(json_object_get(value, "value")) + allowance_of(json_object_get(value, "source")) +
               allowance_of(json_object_get(value, "detail"));
    int enough = a->values > 0 && a->bytes >= n;
    a->values -= enough;
    a->bytes = enough ? a->bytes - n : 0;
    return enough;
}

static int has_state(const json_t *j)
{
    return json_is_string(json_object_get(j, "state"));
}

/* 1: not all of it. What is there already stays as it is, but groups grow. */
static int put_group(const struct rp_probe *p, json_t *out, const json_t *in, const struct rp_sender *s, int depth,
                     struct allowance *a)
{
    const char *name;
    json_t *j;
    json_object_foreach((json_t *)in, name, j) {
        json_t *there = json_object_get(out, name);
        if (!is_name(name))
            continue;
        if (!take_allowance(a, j))
            return 1;
        int is_group = json_is_object(j) && !has_state(j) && depth > 0;
        if (there && (!is_group || has_state(there)))
            continue;
        if (has_state(j))
            put_value(p, out, name, j, s);
        else if (!is_group)
            rp_put(out, name, RP_STATE_ERROR, NULL, s->source, NULL, s->complaint);
        else if (!there)
            json_object_set_new(out, name, there = json_object());
        if (is_group && put_group(p, there, j, s, depth - 1, a))
            return 1;
    }
    return 0;
}

int rp_put_foreign(const struct rp_probe *p, json_t *out, const json_t *in, const struct rp_sender *s)
{
    struct allowance a = {RP_FOREIGN_MAX, RP_FILE_MAX};
    return put_group(p, out, in, s, 6, &a);
}
