/* What a file or a line of it says, as a value of a capture. */
#include "capture/record.h"

#include <stdlib.h>
#include <string.h>

void rp_put_field(json_t *obj, const char *name, const struct rp_text *t, const char *key, char separator)
{
    RP_FREE char *v = rp_text_field(t, key, separator);
    size_t n = v ? strlen(v) : 0;
    int quoted = n >= 2 && (v[0] == '"' || v[0] == '\'') && v[n - 1] == v[0];
    if (quoted)
        v[n - 1] = 0;
    rp_put_found(obj, name, (quoted ? n > 2 : n && v[0] != '"') ? v + quoted : NULL, t);
}

void rp_put_hidden_line(const struct rp_probe *p, json_t *obj, const char *name, const char *path)
{
    static const char one_line[] = "one hidden line";
    RP_TEXT t;
    rp_text_read_unrecorded(&t, p, path);
    if (t.state == RP_STATE_OK) {
        size_t n = strcspn(t.bytes.data, "\r\n");
        RP_FREE char *line = rp_trimmed(t.bytes.data, n);
        rp_buf_fini(&t.bytes);
        if (n > 256) {
            t.state = RP_STATE_ERROR;
            t.detail = "too long";
        } else if (line[0]) {
            char hidden[RP_HIDDEN];
            rp_hide(p, name, line, hidden);
            rp_put_str(obj, name, p->opts->identify ? line : hidden, path);
            rp_buf_printf(&t.bytes, "%s\n", hidden);
        } else {
            t.state = RP_STATE_ABSENT;
        }
    }
    if (t.state != RP_STATE_OK)
        rp_put_state(obj, name, &t);
    if (p->record)
        rp_record_text(p->record, &t, one_line);
}

/* One line of a file, without blanks around it; NULL (and the value put) when there is none. */
static char *one_line(const struct rp_probe *p, json_t *obj, const char *name, const char *path)
{
    RP_TEXT t;
    rp_text_read(&t, p, path);
    if (t.state != RP_STATE_OK) {
        rp_put_state(obj, name, &t);
        return NULL;
    }
    /* Texts of the device tree end with one. */
    const char *zero = memchr(t.bytes.data, 0, t.bytes.size);
    if (t.bytes.size > RP_LINE_MAX || (zero && zero != t.bytes.data + t.bytes.size - 1)) {
        rp_put(obj, name, RP_STATE_ERROR, NULL, path, NULL,
               t.bytes.size > RP_LINE_MAX ? "too long" : "not a line of text");
        return NULL;
    }
    return rp_trimmed(t.bytes.data, t.bytes.size);
}

void rp_put_line(const struct rp_probe *p, json_t *obj, const char *name, const char *path)
{
    RP_FREE char *line = one_line(p, obj, name, path);
    if (line)
        rp_put_str(obj, name, line, path);
}

void rp_put_number(const struct rp_probe *p, json_t *obj, const char *name, const char *path, int64_t scale,
                   const char *unit)
{
    int64_t n;
    RP_FREE char *line = one_line(p, obj, name, path);
    if (!line)
        return;
    if (rp_parse_count(line, &n) == 0 && n <= INT64_MAX / scale)
        rp_put_int(obj, name, n * scale, path, unit);
    else
        rp_put(obj, name, RP_STATE_ERROR, NULL, path, unit, "not a number");
}

void rp_put_cpus(const struct rp_probe *p, json_t *obj, const char *name, const char *path)
{
    RP_FREE char *line = one_line(p, obj, name, path);
    if (line && rp_parse_cpus(line, NULL, RP_MAX_CPUS) >= 0)
        rp_put_str(obj, name, line, path);
    else if (line)
        rp_put(obj, name, RP_STATE_ERROR, NULL, path, NULL, "not a list like 0-3,8");
}

void rp_put_selected(const struct rp_probe *p, json_t *obj, const char *name, const char *path)
{
    RP_FREE char *line = one_line(p, obj, name, path);
    char *open = line ? strchr(line, '[') : NULL, *close = open ? strchr(open, ']') : NULL;
    if (close) {
        *close = 0;
        rp_put_str(obj, name, open + 1, path);
    } else if (line)
        rp_put(obj, name, RP_STATE_ERROR, NULL, path, NULL, "nothing is selected with []");
}

int rp_parse_cpus(const char *text, int *out, int max)
{
    int n = 0;
    for (const char *p = text; *p && *p != '\n';) {
        char *end;
        long from = strtol(p, &end, 10), to = from;
        if (end == p || *p < '0' || *p > '9')
            return -1;
        if (*end == '-' && end[1] >= '0' && end[1] <= '9')
            to = strtol(end + 1, &end, 10);
        if (from > to || to >= RP_MAX_CPUS || n + (to - from + 1) > max)
            return -1;
        for (long c = from; c <= to; c++, n++)
            if (out)
                out[n] = (int)c;
        if (*end != ',' && *end != 0 && *end != '\n')
            return -1;
        p = end + (*end == ',');
    }
    return n;
}
