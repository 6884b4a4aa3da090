/* Templates: fills them from a document, and aligns their cells. */
#include "report/template.h"

#include "base/json.h"
#include "base/text.h"
#include "report/escape.h"
#include "report/figure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- filling ---- */

/* At most `limit` bytes, and no part of a character. */
static void cut_text(char *text, size_t limit)
{
    size_t n = strlen(text);
    if (n <= limit)
        return;
    while (((unsigned char)text[limit] & 0xc0) == 0x80)
        limit++;
    if (n > limit + 3)
        memcpy(text + limit, "...", 4);
}

static size_t count_characters(const char *s, size_t n)
{
    size_t count = 0;
    for (const char *end = s + n; s < end; s++)
        if (*s == '\033')
            s += strcspn(s, "m");
        else
            count += ((unsigned char)*s & 0xc0) != 0x80;
    return count;
}

/* The colour that the form "c:WORD=31,WORD=33" gives to the word, as SGR has it; 0: none. */
static long find_colour(const char *form, const char *word)
{
    const size_t n = strlen(word);
    while ((form = strpbrk(form, ":,")))
        if (strncmp(++form, word, n) == 0 && form[n] == '=')
            return strtol(form + n + 1, NULL, 10);
    return 0;
}

static void fill_text(struct rp_buf *out, enum rp_fill as, const json_t *value, const char *form, int width)
{
    RP_BUF text = {0};
    if (rp_form(&text, value, form) < 0)
        rp_buf_puts(&text, "-");
    rp_buf_puts(&text, "");
    for (char *p = text.data; *p && *form != 'l'; p++)
        *p = (unsigned char)*p < ' ' || *p == 127 ? ' ' : *p;
    if (*form != 'l')
        rp_sanitize(text.data);
    if (*form != 'p' && *form != 'l')
        cut_text(text.data, *form == 'u' || *form == 'r' ? 100 : 400);
    if (as == RP_FILL_MD) {
        rp_md_text(out, text.data);
        return;
    }
    const long colour = as == RP_FILL_COLOURED && *form == 'c' ? find_colour(form, text.data) : 0;
    const int blanks = abs(width) - (int)count_characters(text.data, strlen(text.data));
    if (colour)
        rp_buf_printf(out, "\033[%ldm", colour);
    rp_buf_printf(out, "%*s%s%*s", width > 0 && blanks > 0 ? blanks : 0, "", text.data,
                  width < 0 && blanks > 0 ? blanks : 0, "");
    rp_buf_puts(out, colour ? "\033[0m" : "");
}

/* What a template is filled from: a document, or an element of a list in it. out NULL: nothing is added. */
struct filling {
    struct rp_buf *out;
    enum rp_fill as;
    const json_t *document;
    const char *member, *name;
    size_t number;
};

static json_t *filling_value(const struct filling *f, const char *pointer)
{
    if (*pointer == '#')
        return json_integer((json_int_t)f->number);
    return *pointer == '@' ? json_string(f->name) : json_incref((json_t *)rp_pointer(f->document, pointer));
}

/* Fills "POINTER FORM}..."; returns what follows it. */
static const char *fill_figure(const struct filling *f, const char *t)
{
    const char *space = strchr(t, ' '), *close = strchr(t, '}');
    RP_BUG_IF(!close || !space || space > close);
    RP_FREE char *pointer = rp_asprintf("%.*s", (int)(space - t), t);
    RP_FREE char *form = rp_asprintf("%.*s", (int)(close - space) - 1, space + 1);
    char *width = strchr(form, ' ');
    if (width)
        *width = 0;
    RP_JSON *value = filling_value(f, pointer);
    if (f->out && f->as == RP_FILL_HTML)
        rp_figure(f->out, f->document, f->member, pointer, form);
    else if (f->out)
        fill_text(f->out, f->as, value, form, width ? (int)strtol(width + 1, NULL, 10) : 0);
    return close + 1;
}

static int is_there(const json_t *v)
{
    return json_is_true(v) || json_integer_value(v) || fabs(json_real_value(v)) > 0 || json_string_length(v) ||
           json_array_size(v) || json_object_size(v);
}

static const char *fill_template(const struct filling *f, const char *t);

/* Fills "POINTER:TEXT]..." or "!POINTER:TEXT]..."; returns what follows it. */
static const char *fill_section(const struct filling *f, const char *t)
{
    const int inverted = *t == '!';
    const char *colon = strchr(t += inverted, ':'), *key;
    RP_BUG_IF(!colon);
    RP_FREE char *pointer = rp_asprintf("%.*s", (int)(colon - t), t);
    RP_JSON *v = filling_value(f, pointer);
    json_t *element, *list = f->out && !inverted && (json_is_array(v) || json_is_object(v)) ? v : NULL;
    struct filling inside = *f, of = *f;
    size_t i;
    inside.out = list || is_there(v) == inverted ? NULL : f->out;
    const char *end = fill_template(&inside, colon + 1);
    json_array_foreach(list, i, element) {
        of.document = element, of.number = i;
        fill_template(&of, colon + 1);
    }
    json_object_foreach(list, key, element) {
        of.document = element, of.name = key, of.number = i++;
        fill_template(&of, colon + 1);
    }
    RP_BUG_IF(*end != ']' || (list && f->as == RP_FILL_HTML)); /* the pointers of an element do not name their source */
    return end + 1;
}

/* Returns the end of the template, or of the section that it is the text of. */
static const char *fill_template(const struct filling *f, const char *t)
{
    for (;;) {
        size_t n = strcspn(t, "{[]");
        if (f->out)
            rp_buf_add(f->out, t, n);
        t += n;
        if (!*t || *t == ']')
            return t;
        t = (*t == '{' ? fill_figure : fill_section)(f, t + 1);
    }
}

void rp_fill(struct rp_buf *out, enum rp_fill as, const json_t *document, const char *member, const char *template)
{
    const struct filling f = {out, as, document, member, "", 0};
    RP_BUG_IF(*fill_template(&f, template));
}

/* ---- columns ---- */

#define COLUMNS_MAX 16
#define GAP 2     /* between columns; an empty one has none */
#define WIDEST 80 /* a longer cell pushes the rest of its line to the right, not that of every line */

/* The words of the last cell of a line, which begins in that column, below each other within the width. */
static void wrap_cell(struct rp_buf *out, const char *text, size_t size, size_t column, size_t width)
{
    const size_t indent = !column ? 2 : column <= width / 2 ? column : 4;
    const char *end = text + size;
    for (size_t at = column, first = 1; text < end; first = 0) {
        const size_t n = strcspn(text, " \t\r\n"), bytes = n < (size_t)(end - text) ? n : (size_t)(end - text);
        const size_t word = count_characters(text, bytes);
        if (!first && at + 1 + word > width) {
            rp_buf_printf(out, "\n%*s", (int)indent, "");
            at = indent;
        } else if (!first) {
            rp_buf_puts(out, " ");
            at++;
        }
        rp_buf_add(out, text, bytes);
        at += word;
        text += bytes + (text + bytes < end);
    }
}

/* One line: measures its cells, or adds them to `out`, the last one wrapped to `width` unless that is 0. Returns the
 * next line. */
static const char *lay_line(struct rp_buf *out, size_t wide[COLUMNS_MAX], size_t line_width, const char *at)
{
    int owed = 0; /* blanks, which are added if anything follows */
    size_t column = 0;
    for (int i = 0; i == 0 || *at == '\t' || *at == '\r'; i++) {
        RP_BUG_IF(i == COLUMNS_MAX);
        const int right = *at == '\r';
        at += i || right;
        const size_t n = strcspn(at, "\t\r\n"), width = count_characters(at, n);
        if (!out && width > wide[i] && width <= WIDEST)
            wide[i] = width;
        const int gap = width < wide[i] ? (int)(wide[i] - width) : 0;
        owed += right ? gap : 0;
        if (out && n) {
            rp_buf_printf(out, "%*s", owed, "");
            column += (size_t)owed;
            if (line_width && at[n] != '\t' && at[n] != '\r' && column + width > line_width)
                wrap_cell(out, at, n, column, line_width);
            else
                rp_buf_add(out, at, n);
            column += width;
            owed = 0;
        }
        owed += (right ? 0 : gap) + (wide[i] ? GAP : 0);
        at += n;
    }
    if (out && *at)
        rp_buf_puts(out, "\n");
    return at + (*at == '\n');
}

static int has_cells(const char *line)
{
    const char end = line[strcspn(line, "\t\r\n")];
    return end == '\t' || end == '\r';
}

void rp_show(struct rp_buf *out, enum rp_fill as, const json_t *document, const char *template)
{
    rp_show_wrapped(out, as, document, template, 0);
}

void rp_show_wrapped(struct rp_buf *out, enum rp_fill as, const json_t *document, const char *template, int width)
{
    RP_BUF text = {0};
    rp_fill(&text, as, document, "", template);
    for (const char *line = rp_buf_text(&text), *end; *line;) {
        size_t wide[COLUMNS_MAX] = {0};
        for (end = line; has_cells(end);)
            end = lay_line(NULL, wide, 0, end);
        if (end == line)
            line = lay_line(out, wide, (size_t)width, line);
        while (line < end)
            line = lay_line(out, wide, (size_t)width, line);
    }
}
