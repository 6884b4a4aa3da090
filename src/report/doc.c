#include "report/doc.h"

#include "base/text.h"
#include "report/escape.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Characters of a cell as text; the other formats have it in full. */
#define SHOWN 56
#define SHOWN_NARROW 24 /* where the table is wider than the terminal */
#define GAP 2           /* between columns */

struct rp_doc_block {
    enum rp_doc_part kind;
    char *text;
    struct cell {
        char *text, *ready; /* ready: for the one format that the document is filled for; NULL: text, to be escaped */
    } * cell;               /* of a table: names of columns, then its rows */
    size_t cells;
    int columns;
    char number[64]; /* by column */
};

/* ---- building ---- */

void rp_doc_fini(struct rp_doc *d)
{
    for (int i = 0; i < d->n; i++) {
        for (size_t k = 0; k < d->block[i].cells; k++)
            free(d->block[i].cell[k].text), free(d->block[i].cell[k].ready);
        free(d->block[i].cell);
        free(d->block[i].text);
    }
    free(d->block);
    *d = (struct rp_doc){0};
}

static struct rp_doc_block *add_block(struct rp_doc *d, enum rp_doc_part kind)
{
    d->block = rp_realloc(d->block, (size_t)(d->n + 1) * sizeof *d->block);
    d->block[d->n] = (struct rp_doc_block){.kind = kind};
    return &d->block[d->n++];
}

static struct cell *add_cell(struct rp_doc *d, char *text)
{
    struct rp_doc_block *b = &d->block[d->n - 1];
    RP_BUG_IF(b->kind != RP_DOC_TABLE);
    if ((b->cells & (b->cells - 1)) == 0)
        b->cell = rp_realloc(b->cell, (b->cells ? 2 * b->cells : 1) * sizeof *b->cell);
    b->cell[b->cells] = (struct cell){.text = text};
    return &b->cell[b->cells++];
}

void rp_doc_add(struct rp_doc *d, enum rp_doc_part part, const char *fmt, ...)
{
    char *text;
    RP_ASPRINTF_ARGS(text, fmt);
    rp_sanitize(text);
    if (part == RP_DOC_CELL)
        add_cell(d, text);
    else
        add_block(d, part)->text = text;
}

void rp_doc_begin_column(struct rp_doc *d, int number)
{
    struct rp_doc_block *b = &d->block[d->n - 1];
    RP_BUG_IF(b->cells != (size_t)b->columns || b->columns == (int)sizeof b->number);
    b->number[b->columns++] = (char)number;
}

void rp_doc_table(struct rp_doc *d, const char *columns)
{
    add_block(d, RP_DOC_TABLE);
    for (size_t n; columns; columns = columns[n] ? columns + n + 1 : NULL) {
        int number = *columns == '#' && columns[1] && columns[1] != '|'; /* a column may be named "#" */
        n = strcspn(columns, "|");
        rp_doc_column(d, number, "%.*s", (int)n - number, columns + number);
    }
}

void rp_doc_text(struct rp_doc *d, const char *text, const char *missing)
{
    rp_doc_cell(d, "%s", text && *text ? text : missing);
}

static void add_filled(struct rp_doc *d, const json_t *run, const char *template, const char *after)
{
    RP_BUF text = {0}, ready = {0};
    rp_fill(&text, RP_FILL_TEXT, run, "run.json", template);
    rp_buf_puts(&text, after);
    struct cell *c = add_cell(d, rp_buf_take(&text));
    if (d->as == RP_FILL_TEXT)
        return;
    rp_fill(&ready, d->as, run, "run.json", template);
    (d->as == RP_FILL_HTML ? rp_html_text : rp_buf_puts)(&ready, after);
    c->ready = rp_buf_take(&ready);
}

void rp_doc_fill(struct rp_doc *d, const json_t *run, const char *fmt, ...)
{
    RP_FREE char *template = NULL;
    RP_ASPRINTF_ARGS(template, fmt);
    add_filled(d, run, template, "");
}

void rp_doc_figure(struct rp_doc *d, const json_t *run, const char *pointer, const char *form, const char *after)
{
    RP_FREE char *template = rp_asprintf("{%s %s}", pointer, form), *clean = rp_strdup(after);
    rp_sanitize(clean);
    add_filled(d, run, template, clean);
}

/* ---- text ---- */

/* Characters, not bytes; the text is well-formed. */
static size_t measure_width(const char *s)
{
    size_t n = 0;
    for (; *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

/* At most `most` characters, the last three of them dots where something is missing; returns whether it was cut. */
static int show_text(struct rp_buf *out, const char *s, size_t most)
{
    size_t keep = measure_width(s) > most ? most - 3 : most, n = 0;
    for (; *s && n < keep + (((unsigned char)*s & 0xc0) == 0x80); s++) {
        n += ((unsigned char)*s & 0xc0) != 0x80;
        rp_buf_add(out, s, 1);
    }
    if (*s)
        rp_buf_puts(out, "...");
    return *s != 0;
}

static void put_blanks(struct rp_buf *out, size_t n)
{
    while (n--)
        rp_buf_puts(out, " ");
}

/* Columns next to each other; every part begins with the first one, which names the row. */
struct doc_layout {
    size_t wide[sizeof((struct rp_doc_block *)0)->number], full[sizeof((struct rp_doc_block *)0)->number];
    int columns;
};

/* As wide as their cells; in a narrow terminal the widest texts are cut first, figures never. */
static void lay_columns(struct doc_layout *l, const struct rp_doc_block *b, int most)
{
    size_t sum = 0;
    *l = (struct doc_layout){.columns = b->columns};
    for (size_t i = 0; i < b->cells; i++) {
        size_t *full = &l->full[i % (size_t)b->columns], n = measure_width(b->cell[i].text);
        n = n > SHOWN && (i + 1) % (size_t)b->columns ? SHOWN : n; /* nothing follows the last column */
        *full = n > *full ? n : *full;
    }
    for (int c = 0; c < b->columns; c++)
        sum += (l->wide[c] = l->full[c]) + (c ? GAP : 0);
    while (most > 0 && sum > (size_t)most) {
        int widest = -1;
        for (int c = 0; c < b->columns; c++)
            if (!b->number[c] && l->wide[c] > SHOWN_NARROW && (widest < 0 || l->wide[c] > l->wide[widest]))
                widest = c;
        if (widest < 0)
            return;
        l->wide[widest]--;
        sum--;
    }
}

/* Returns the end of the columns from `from` on that fit next to the first one; they share what is left of the line. */
static int lay_part(struct doc_layout *l, int from, int most)
{
    size_t sum = l->wide[0], room = most > 0 ? (size_t)most : SIZE_MAX;
    int end = from;
    for (; end < l->columns && (end == from || sum + GAP + l->wide[end] <= room); end++)
        sum += GAP + l->wide[end];
    for (int c = from; c < end; c++)
        for (; l->wide[c] < l->full[c] && sum < room; sum++)
            l->wide[c]++;
    return end;
}

static int text_cell(struct rp_buf *out, const struct rp_doc_block *b, const struct doc_layout *l, size_t i,
                     int is_last)
{
    size_t column = i % (size_t)b->columns, n = measure_width(b->cell[i].text);
    size_t gap = n < l->wide[column] ? l->wide[column] - n : 0;
    if (b->number[column])
        put_blanks(out, gap);
    int cut = show_text(out, b->cell[i].text, l->wide[column]);
    if (!b->number[column] && !is_last)
        put_blanks(out, gap);
    rp_buf_puts(out, is_last ? "\n" : "  ");
    return cut;
}

/* In several parts where it is wider than the terminal; returns how many cells were cut. */
static int text_table(struct rp_buf *out, const struct rp_doc_block *b, int most)
{
    struct doc_layout l;
    int cut = 0, from = 1;
    if (!b->cells)
        return 0;
    lay_columns(&l, b, most);
    do {
        int end = lay_part(&l, from, most);
        rp_buf_puts(out, from > 1 ? "\n" : "");
        for (size_t row = 0; row < b->cells; row += (size_t)b->columns) {
            cut += text_cell(out, b, &l, row, from >= end);
            for (int c = from; c < end; c++)
                cut += text_cell(out, b, &l, row + (size_t)c, c + 1 == end);
        }
        from = end;
    } while (from < b->columns);
    return cut;
}

/* ---- Markdown ---- */

static void md_table(struct rp_buf *out, const struct rp_doc_block *b)
{
    for (size_t i = 0; i < b->cells; i++) {
        int is_head = i < (size_t)b->columns, is_last = (i + 1) % (size_t)b->columns == 0;
        rp_buf_puts(out, is_head && !*b->cell[i].text ? "|" : "| ");
        if (b->cell[i].ready)
            rp_buf_puts(out, b->cell[i].ready);
        else
            rp_md_text(out, b->cell[i].text);
        rp_buf_puts(out, is_last ? " |\n" : " ");
        for (int c = 0; is_head && is_last && c < b->columns; c++)
            rp_buf_printf(out, "|%s%s", b->number[c] ? "---:" : "---", c + 1 < b->columns ? "" : "|\n");
    }
}

/* A paragraph must not begin a list, a quotation or a heading. */
static void md_line(struct rp_buf *out, const char *s)
{
    size_t digits = strspn(s, "0123456789");
    if (*s == '-' || *s == '+' || *s == '=')
        rp_buf_puts(out, "\\");
    else if (digits && (s[digits] == '.' || s[digits] == ')')) {
        rp_buf_add(out, s, digits);
        rp_buf_puts(out, "\\");
        s += digits;
    }
    rp_md_text(out, s);
    rp_buf_puts(out, "\n");
}

static void md_block(struct rp_buf *out, const struct rp_doc_block *b, int is_first)
{
    if (b->kind == RP_DOC_TABLE) {
        md_table(out, b);
    } else if (b->kind == RP_DOC_COMMAND) {
        rp_buf_printf(out, "    %s\n", b->text); /* indented code: nothing in it is markup */
    } else {
        rp_buf_puts(out, b->kind != RP_DOC_HEADING ? "" : is_first ? "# " : "## ");
        md_line(out, b->text);
    }
}

/* ---- HTML ---- */

void rp_html_table(struct rp_buf *out, const char *caption, const char *columns)
{
    int many = 0;
    for (const char *p = columns; *p; p++)
        many += *p == '|';
    if (many >= 3) /* in a narrow window it scrolls, and the keyboard has to reach it */
        rp_buf_printf(out, "<div class=\"wide\" role=\"group\" tabindex=\"0\" aria-label=\"%s\">", caption);
    else
        rp_buf_puts(out, "<div class=\"wide\">");
    rp_buf_printf(out, "<table><caption>%s</caption><thead><tr>", caption);
    while (*columns) {
        size_t n = strcspn(columns, "|");
        int figure = *columns == '#';
        rp_buf_printf(out, "<th scope=\"col\"%s>%.*s</th>", figure ? " class=\"r\"" : "", (int)n - figure,
                      columns + figure);
        columns += n + (columns[n] == '|');
    }
    rp_buf_puts(out, "</tr></thead><tbody>\n");
}

void rp_html_table_end(struct rp_buf *out)
{
    rp_buf_puts(out, "</tbody></table></div>\n");
}

static void html_block(struct rp_buf *out, const struct rp_doc_block *b, const char *caption)
{
    RP_BUF columns = {0}, title = {0};
    if (b->kind == RP_DOC_LINE) {
        rp_buf_puts(out, "<p>");
        rp_html(out, b->text, strlen(b->text), 0);
        rp_buf_puts(out, "</p>\n");
    }
    if (b->kind != RP_DOC_TABLE)
        return;
    for (int c = 0; c < b->columns; c++) {
        rp_buf_puts(&columns, c ? "|" : "");
        rp_buf_puts(&columns, b->number[c] ? "#" : "");
        rp_html_text(&columns, b->cell[c].text);
    }
    if (*caption)
        rp_html_text(&title, caption); /* it may have words of a signer */
    rp_html_table(out, rp_buf_text(&title), rp_buf_text(&columns));
    for (size_t i = (size_t)b->columns; i < b->cells; i++) {
        size_t c = i % (size_t)b->columns;
        rp_buf_puts(out, !c ? "<tr><th scope=\"row\">" : b->number[c] ? "<td class=\"r\">" : "<td>");
        if (b->cell[i].ready)
            rp_buf_puts(out, b->cell[i].ready);
        else
            rp_html_text(out, b->cell[i].text);
        rp_buf_puts(out, !c ? "</th>" : c + 1 == (size_t)b->columns ? "</td></tr>\n" : "</td>");
    }
    rp_html_table_end(out);
}

/* ---- CSV ---- */

/* Heading and title of a table, for its first columns; both NULL: the document has no headings. */
struct doc_place {
    const char *section, *title;
};

static void csv_table(struct rp_buf *out, const struct rp_doc_block *b, const struct doc_place *where)
{
    for (size_t i = 0; i < b->cells; i++) {
        if (where->section && i % (size_t)b->columns == 0) {
            rp_csv_text(out, i ? where->section : "section");
            rp_buf_puts(out, ",");
            rp_csv_text(out, i ? where->title : "table");
            rp_buf_puts(out, ",");
        }
        rp_csv_text(out, b->cell[i].text);
        rp_buf_puts(out, (i + 1) % (size_t)b->columns ? "," : "\n");
    }
}

/* ---- all of it ---- */

/* A title belongs to the next table only. */
static void csv_block(struct rp_buf *out, const struct rp_doc_block *b, struct doc_place *where, int *tables)
{
    if (b->kind == RP_DOC_HEADING)
        *where = (struct doc_place){b->text, ""};
    else if (b->kind == RP_DOC_TITLE && where->section)
        where->title = b->text;
    if (b->kind != RP_DOC_TABLE)
        return;
    rp_buf_puts(out, (*tables)++ ? "\n" : "");
    csv_table(out, b, where);
    where->title = "";
}

/* Returns how many cells were cut. */
static int text_block(struct rp_buf *out, const struct rp_doc_block *b, int most)
{
    if (b->kind == RP_DOC_TABLE)
        return text_table(out, b, most);
    if (b->kind == RP_DOC_COMMAND)
        rp_buf_printf(out, "    %s\n", b->text);
    else
        rp_buf_printf(out, "%s\n", b->text); /* terminals wrap */
    return 0;
}

void rp_doc_write(struct rp_buf *out, const struct rp_doc *d, enum rp_doc_format format)
{
    int tables = 0, cells_cut = 0;
    struct doc_place where = {0};
    for (int i = 0; i < d->n; i++) {
        const struct rp_doc_block *b = &d->block[i];
        int joined = i && b->kind == RP_DOC_COMMAND && d->block[i - 1].kind == RP_DOC_COMMAND; /* of one block */
        if (format == RP_DOC_CSV) {
            csv_block(out, b, &where, &tables);
            continue;
        }
        if (format == RP_DOC_HTML) {
            html_block(out, b, i && d->block[i - 1].kind == RP_DOC_TITLE ? d->block[i - 1].text : "");
            continue;
        }
        rp_buf_puts(out, i && !joined ? "\n" : "");
        if (format == RP_DOC_TEXT)
            cells_cut += text_block(out, b, d->width);
        else
            md_block(out, b, i == 0);
    }
    if (cells_cut)
        rp_buf_printf(out, "\ncells cut: %d; --format md has all\n", cells_cut);
}

static json_t *table_json(const struct rp_doc_block *b)
{
    json_t *columns = json_array(), *rows = json_array(), *row = columns;
    for (size_t i = 0; i < b->cells; i++) {
        if (i && i % (size_t)b->columns == 0)
            json_array_append_new(rows, row = json_array());
        json_array_append_new(row, json_string(b->cell[i].text));
    }
    return json_pack("{s:o, s:o}", "columns", columns, "rows", rows);
}

json_t *rp_doc_json(const struct rp_doc *d)
{
    static const char *const names[] = {"heading", "text", "text", "command"};
    json_t *out = json_array();
    for (int i = 0; i < d->n; i++) {
        const struct rp_doc_block *b = &d->block[i];
        const int is_table = b->kind == RP_DOC_TABLE;
        json_array_append_new(out, is_table ? table_json(b) : json_pack("{s:s}", names[b->kind], b->text));
    }
    return out;
}
