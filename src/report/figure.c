/* Figures: JSON pointers, and values in their forms. */
#include "report/figure.h"

#include "base/json.h"
#include "base/text.h"
#include "capture/value.h"
#include "report/escape.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- pointers ---- */

const json_t *rp_pointer(const json_t *document, const char *pointer)
{
    while (document && *pointer) {
        size_t n = strcspn(pointer + 1, "/");
        RP_FREE char *name = rp_asprintf("%.*s", (int)n, pointer + 1);
        char *to = name;
        for (const char *p = name; *p; p++)
            *to++ = *p != '~' || !p[1] ? *p : *++p == '0' ? '~' : '/';
        *to = 0;
        if (*pointer != '/')
            return NULL;
        if (json_is_array(document))
            document = *name >= '0' && *name <= '9' ? json_array_get(document, strtoul(name, NULL, 10)) : NULL;
        else
            document = json_object_get(document, name);
        pointer += 1 + n;
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

static int put_plain(struct rp_buf *out, const json_t *v)
{
    size_t i;
    json_t *word;
    if (json_is_string(v))
        rp_buf_puts(out, json_string_value(v));
    else if (json_is_integer(v))
        rp_buf_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    else if (json_is_real(v))
        rp_csv_number(out, json_real_value(v));
    else if (json_is_boolean(v))
        rp_buf_puts(out, json_is_true(v) ? "true" : "false");
    else if (json_is_array(v) && json_array_size(v))
        json_array_foreach((json_t *)v, i, word) {
            rp_buf_puts(out, i ? " " : "");
            rp_buf_puts(out, json_is_string(word) ? json_string_value(word) : "?");
        }
    else
        return -1;
    return 0;
}

/* "3", "1/1048576" or "2*100": the decimals, and what the number is divided or multiplied by */
static int scale_number(double *x, long *decimals, const json_t *v, const char *form)
{
    char *end = NULL;
    *decimals = strtol(form, &end, 10);
    const double scale = *end ? strtod(end + 1, NULL) : 1;
    *x = *end == '*' ? json_number_value(v) * scale : json_number_value(v) / scale;
    return json_is_number(v) && *decimals >= 0 && *decimals <= 12 && isfinite(*x) && fabs(*x) < 1e18 ? 0 : -1;
}

static int put_decimal(struct rp_buf *out, const json_t *v, const char *form)
{
    long decimals;
    double x;
    if (scale_number(&x, &decimals, v, form) < 0)
        return -1;
    rp_buf_printf(out, "%.*f", (int)decimals, x);
    return 0;
}

/* "12.3 - 45.6", or one number if both are the same in these digits */
static int put_interval(struct rp_buf *out, const json_t *v, const char *form)
{
    long decimals;
    double low, high;
    char first[40], second[40];
    if (scale_number(&low, &decimals, json_array_get(v, 0), form) < 0 ||
        scale_number(&high, &decimals, json_array_get(v, 1), form) < 0)
        return -1;
    if (*form < '0' || *form > '9')
        decimals = high < 10 ? 2 : high < 1000 ? 1 : 0;
    snprintf(first, sizeof first, "%.*f", (int)decimals, low);
    snprintf(second, sizeof second, "%.*f", (int)decimals, high);
    rp_buf_printf(out, strcmp(first, second) == 0 ? "%s" : "%s - %s", first, second);
    return 0;
}

/* At most `most` bytes; 0: all. */
static int put_shortened(struct rp_buf *out, const json_t *v, size_t most)
{
    RP_BUF text = {0};
    if (put_plain(&text, v) < 0)
        return -1;
    rp_buf_printf(out, most && text.size > most ? "%.*s..." : "%.*s", most ? (int)most : (int)text.size,
                  rp_buf_text(&text));
    return 0;
}

static int put_bytes(struct rp_buf *out, const json_t *v)
{
    char text[32];
    if (!json_is_number(v))
        return -1;
    rp_show_number(text, json_number_value(v), "B");
    rp_buf_puts(out, text);
    return 0;
}

/* {"value", "hex"}, which only finite ones are; with_hex: "0.1 = 0x1.99999ap-4" */
static int hex_float(struct rp_buf *out, const json_t *v, int with_hex)
{
    const char *hex = rp_json_text_at(v, "hex");
    float x;
    if (strlen(hex) >= 32 || rp_float_unhex(&x, hex) < 0 || !isfinite(x))
        return -1;
    rp_buf_printf(out, with_hex ? "%.6g = %s" : "%.6g", (double)x, hex);
    return 0;
}

/* {"state": "ok", "value", "unit"} of a capture, the number scaled to a handy unit. */
static int put_captured(struct rp_buf *out, const json_t *leaf)
{
    const struct rp_leaf is = rp_leaf(leaf);
    char text[32];
    if (!json_is_number(is.value) || !*is.unit)
        return put_plain(out, is.value);
    rp_show_number(text, json_number_value(is.value), is.unit);
    rp_buf_puts(out, text);
    return 0;
}

/* The same in the unit of the capture; the state where nothing is known. */
static int captured_raw(struct rp_buf *out, const json_t *leaf)
{
    const struct rp_leaf is = rp_leaf(leaf);
    const json_t *v = is.value;
    if (json_is_real(v))
        rp_buf_printf(out, "%.9g", json_real_value(v));
    else if (json_is_boolean(v))
        rp_buf_puts(out, json_is_true(v) ? "yes" : "no");
    else if (json_is_array(v) && !json_array_size(v))
        rp_buf_puts(out, "none");
    else if (put_plain(out, v) < 0) {
        rp_buf_puts(out, is.state);
        return *is.state ? 0 : -1;
    }
    if (*is.unit && !json_is_array(v))
        rp_buf_printf(out, " %.16s%s", is.unit, strlen(is.unit) > 16 ? "..." : "");
    return 0;
}

static int show_equal(struct rp_buf *out, const json_t *v)
{
    if (!json_is_boolean(v) && !json_is_null(v))
        return -1;
    rp_buf_puts(out, json_is_true(v) ? "equal" : json_is_false(v) ? "NOT EQUAL" : "not compared");
    return 0;
}

static int show_quoted(struct rp_buf *out, const json_t *v)
{
    if (!json_is_string(v))
        return -1;
    RP_FREE char *text = rp_quote(json_string_value(v));
    rp_buf_puts(out, text);
    return 0;
}

static int show_date(struct rp_buf *out, const json_t *v)
{
    if (!json_is_string(v))
        return -1;
    rp_buf_printf(out, "%.10s", json_string_value(v));
    return 0;
}

/* A failure stands out in a table, and "n/a" fits its column. */
static int show_state(struct rp_buf *out, const json_t *v)
{
    const char *word = json_string_value(v);
    if (!word)
        return -1;
    rp_buf_puts(out, strcmp(word, "failed") == 0           ? "FAILED"
                     : strcmp(word, "not_applicable") == 0 ? "n/a"
                                                           : word);
    return 0;
}

int rp_form(struct rp_buf *out, const json_t *value, const char *form)
{
    switch (*form) {
    case 't':
        return put_shortened(out, value, strtoul(form + 1, NULL, 10));
    case 'p':
    case 'l':
        return put_plain(out, value);
    case 'd':
        return put_decimal(out, value, form + 1);
    case 'i':
        return put_interval(out, value, form + 1);
    case 'b':
        return put_bytes(out, value);
    case 's':
        return rp_buf_puts(out, rp_s(json_integer_value(value))), 0;
    case 'x':
    case 'h':
        return hex_float(out, value, *form == 'h');
    case 'u':
        return put_captured(out, value);
    case 'r':
        return captured_raw(out, value);
    case 'e':
        return show_equal(out, value);
    case 'q':
        return show_quoted(out, value);
    case 'a':
        return show_date(out, value);
    case 'c':
        return show_state(out, value);
    }
    return -1;
}

/* The member that has the value: rp_run_shown() merges two. */
static const char *member_with(const json_t *document, const char *member, const char *pointer)
{
    const json_t *figures = json_object_get(document, "run.json");
    return !figures ? member : rp_pointer(figures, pointer) ? "run.json" : "facts.json";
}

/* What a form shows: all of its digits. */
static const json_t *exact_value(const json_t *v, const char *form)
{
    return *form == 'u' ? rp_leaf(v).value : *form == 'x' || *form == 'h' ? json_object_get(v, "hex") : v;
}

/* A word that is a decimal number, with commas in its whole part; any other as it is. */
static void put_word(struct rp_buf *out, const char *word, size_t n)
{
    const size_t sign = n && (*word == '-' || *word == '+'), whole = strspn(word + sign, "0123456789");
    const size_t end = sign + whole, point = end < n && word[end] == '.';
    const size_t rest = end + point + (point ? strspn(word + end + 1, "0123456789") : 0);
    for (size_t i = 0; i < n; i++) {
        if (rest == n && i > sign && i < end && (end - i) % 3 == 0)
            rp_buf_puts(out, ",");
        rp_buf_add(out, word + i, 1);
    }
}

void rp_put_grouped(struct rp_buf *out, const char *text)
{
    for (size_t n; *text; text += n) {
        n = strcspn(text, " ");
        put_word(out, text, n);
        for (; text[n] == ' '; n++)
            rp_buf_puts(out, " ");
    }
}

/* Is it a quantity for a reader, rather than a name, a version or a digest? */
static int is_quantity(const json_t *v, const char *form)
{
    return *form == 'd' || *form == 'i' || ((*form == 'u' || *form == 'r') && json_is_number(rp_leaf(v).value));
}

int rp_figure(struct rp_buf *out, const json_t *document, const char *member, const char *pointer, const char *form)
{
    RP_BUF text = {0}, grouped = {0}, exact = {0};
    const json_t *v = rp_pointer(document, pointer);
    int rc = rp_form(&text, v, form);
    if (is_quantity(v, form))
        rp_put_grouped(&grouped, rp_buf_text(&text));
    else
        rp_buf_add(&grouped, text.data, text.size);
    (void)!put_plain(&exact, exact_value(v, form)); /* nothing where it is not a plain value */
    rp_buf_puts(out, rc < 0 ? "<data class=\"none\" value=\"" : "<data value=\"");
    rp_html_text(out, rp_buf_text(&exact));
    rp_buf_printf(out, "\" data-src=\"%s#", member_with(document, member, pointer));
    rp_html(out, pointer, strlen(pointer), 0);
    rp_buf_printf(out, "\" data-form=\"%s\">", form);
    rp_html_text(out, rc < 0 ? "unknown" : rp_buf_text(&grouped));
    rp_buf_puts(out, "</data>");
    return rc;
}
