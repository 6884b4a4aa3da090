#include "page/html.h"

#include "base/json.h"
#include "base/text.h"
#include "capture/value.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *entity(unsigned c)
{
    switch (c) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    case '`': return "&#96;";
    }
    return NULL;
}

static int is_line(unsigned c)
{
    return c == '\n' || c == '\t';
}

static void escape(struct rp_buf *out, const char *text, size_t size, size_t limit, int lines)
{
    size_t shown = 0;
    for (size_t i = 0, len; i < size; i += len) {
        unsigned c = 0;
        len = rp_utf8(text + i, size - i, &c);
        if (limit && shown++ == limit) {
            rp_buf_puts(out, "...");
            return;
        }
        if (!len || (rp_is_control(c) && !is_line(c)) || rp_hides(c)) {
            rp_buf_puts(out, "\xef\xbf\xbd");
            len = len ? len : 1;
        } else if (is_line(c)) {
            rp_buf_puts(out, !lines ? " " : c == '\n' ? "\n" : "    ");
        } else if (entity(c)) {
            rp_buf_puts(out, entity(c));
        } else {
            rp_buf_add(out, text + i, len);
        }
    }
}

void rp_html(struct rp_buf *out, const char *text, size_t size, size_t limit)
{
    escape(out, text, size, limit, 0);
}

void rp_html_text(struct rp_buf *out, const char *text)
{
    escape(out, text, strlen(text), RP_HTML_LIMIT, 0);
}

void rp_html_lines(struct rp_buf *out, const char *text, size_t size)
{
    escape(out, text, size, 0, 1);
}

/* ---- pointers ---- */

/* The next name of a pointer without its escapes; the rest, or NULL: too long or malformed. */
static const char *next_name(char *name, size_t size, const char *p)
{
    size_t n = 0;
    for (p++; *p && *p != '/'; p++) {
        char c = *p;
        if (c == '~') {
            if (p[1] != '0' && p[1] != '1')
                return NULL;
            c = *++p == '0' ? '~' : '/';
        }
        if (n + 1 >= size)
            return NULL;
        name[n++] = c;
    }
    name[n] = 0;
    return p;
}

const json_t *rp_pointer(const json_t *document, const char *pointer)
{
    char name[512];
    while (document && *pointer) {
        if (*pointer != '/' || !(pointer = next_name(name, sizeof name, pointer)))
            return NULL;
        if (json_is_array(document)) {
            char *end;
            unsigned long i = strtoul(name, &end, 10);
            document = *name >= '0' && *name <= '9' && !*end ? json_array_get(document, i) : NULL;
        } else {
            document = json_object_get(document, name);
        }
    }
    return document;
}

void rp_pointer_add(struct rp_buf *out, const char *name)
{
    rp_buf_puts(out, "/");
    for (; *name; name++)
        if (*name == '~' || *name == '/')
            rp_buf_puts(out, *name == '~' ? "~0" : "~1");
        else
            rp_buf_add(out, name, 1);
}

/* ---- figures ---- */

/* In as few digits as read back the same. */
static void shortest(struct rp_buf *out, double x)
{
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (strtod(text, NULL) == x)
            break;
    }
    rp_buf_puts(out, text);
}

static int plain(struct rp_buf *out, const json_t *v)
{
    size_t i;
    json_t *word;
    if (json_is_string(v))
        rp_buf_puts(out, json_string_value(v));
    else if (json_is_integer(v))
        rp_buf_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    else if (json_is_real(v))
        shortest(out, json_real_value(v));
    else if (json_is_boolean(v))
        rp_buf_puts(out, json_is_true(v) ? "true" : "false");
    else if (json_is_array(v) && json_array_size(v))
        json_array_foreach((json_t *)v, i, word)
        {
            rp_buf_puts(out, i ? " " : "");
            rp_buf_puts(out, json_is_string(word) ? json_string_value(word) : "?");
        }
    else
        return -1;
    return 0;
}

static int decimal(struct rp_buf *out, const json_t *v, const char *form)
{
    char *end = NULL;
    long decimals = strtol(form, &end, 10);
    double x = json_number_value(v), scale = *end ? strtod(end + 1, NULL) : 1;
    if (!json_is_number(v) || decimals < 0 || decimals > 12)
        return -1;
    x = *end == '*' ? x * scale : x / scale;
    if (!isfinite(x) || fabs(x) >= 1e18)
        return -1;
    rp_buf_printf(out, "%.*f", (int)decimals, x);
    return 0;
}

static int hex_float(struct rp_buf *out, const json_t *v)
{
    float x;
    if (!json_is_string(v) || json_string_length(v) >= 32 || rp_float_unhex(&x, json_string_value(v)) < 0 || !isfinite(x))
        return -1;
    rp_buf_printf(out, "%.6g", (double)x);
    return 0;
}

/* {"state": "ok", "value", "unit"} of a capture. */
static int captured(struct rp_buf *out, const json_t *leaf)
{
    const json_t *v = json_object_get(leaf, "value");
    const char *state = json_string_value(json_object_get(leaf, "state")), *unit = json_string_value(json_object_get(leaf, "unit"));
    char text[32];
    if (!state || strcmp(state, "ok") != 0)
        return -1;
    if (!json_is_number(v) || !unit)
        return plain(out, v);
    rp_show_number(text, json_number_value(v), unit);
    rp_buf_puts(out, text);
    return 0;
}

/* A third state: nothing was on both sides. */
static int equal(struct rp_buf *out, const json_t *v)
{
    if (!json_is_boolean(v) && !json_is_null(v))
        return -1;
    rp_buf_puts(out, json_is_true(v) ? "equal" : json_is_false(v) ? "NOT EQUAL" : "not compared");
    return 0;
}

static int quoted(struct rp_buf *out, const json_t *v)
{
    if (!json_is_string(v))
        return -1;
    RP_FREE char *text = rp_quoted(json_string_value(v));
    rp_buf_puts(out, text);
    return 0;
}

int rp_form(struct rp_buf *out, const json_t *value, const char *form)
{
    int rc = -1;
    if (*form == 't')
        rc = plain(out, value);
    else if (*form == 'd')
        rc = decimal(out, value, form + 1);
    else if (*form == 'x')
        rc = hex_float(out, value);
    else if (*form == 'u')
        rc = captured(out, value);
    else if (*form == 'e')
        rc = equal(out, value);
    else if (*form == 'q')
        rc = quoted(out, value);
    if (rc < 0)
        rp_buf_puts(out, "unknown");
    return rc;
}

int rp_figure(struct rp_buf *out, const json_t *document, const char *member, const char *pointer, const char *form)
{
    RP_BUF text = {0}, exact = {0};
    const json_t *v = rp_pointer(document, pointer);
    int rc = rp_form(&text, v, form);
    if (plain(&exact, *form == 'u' ? json_object_get(v, "value") : v) < 0)
        rp_buf_puts(&exact, "");
    rp_buf_puts(out, rc < 0 ? "<data class=\"none\" value=\"" : "<data value=\"");
    rp_html_text(out, rp_buf_text(&exact));
    rp_buf_printf(out, "\" data-src=\"%s#", member);
    rp_html(out, pointer, strlen(pointer), 0);
    rp_buf_printf(out, "\" data-form=\"%s\">", form);
    rp_html_text(out, rp_buf_text(&text));
    rp_buf_puts(out, "</data>");
    return rc;
}

/* ---- CSV ---- */

void rp_csv_text(struct rp_buf *out, const char *text)
{
    size_t size = strlen(text);
    rp_buf_puts(out, *text && strchr("=+-@\t\r", *text) ? "\"'" : "\"");
    for (size_t i = 0, len; i < size; i += len) {
        unsigned c = 0;
        len = rp_utf8(text + i, size - i, &c);
        if (!len || rp_is_control(c) || rp_hides(c))
            rp_buf_puts(out, "?");
        else if (c == '"')
            rp_buf_puts(out, "\"\"");
        else
            rp_buf_add(out, text + i, len);
        len = len ? len : 1;
    }
    rp_buf_puts(out, "\"");
}

void rp_csv_number(struct rp_buf *out, double x)
{
    if (isfinite(x))
        shortest(out, x);
}

void rp_html_download(struct rp_buf *out, const struct rp_buf *csv, const char *file, const char *source, const char *text)
{
    rp_buf_printf(out, "<a class=\"csv\" download=\"%s\" data-src=\"%s\" href=\"data:text/csv;charset=utf-8;base64,", file, source);
    rp_base64(out, rp_buf_text(csv), csv->size);
    rp_buf_printf(out, "\">%s</a>", text);
}
