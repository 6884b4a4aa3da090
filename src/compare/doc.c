#include "compare/doc.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Characters of a cell in the format for people; the others have it in full. */
#define SHOWN 56
#define SHOWN_NARROW 24 /* where the table is wider than the terminal */
#define GAP 2           /* between columns */

enum kind { HEADING, LINE, TITLE, COMMAND, TABLE };

struct rp_doc_block {
    enum kind kind;
    char *text;
    char **cell; /* of a table: names of columns, then its rows */
    size_t cells;
    int columns;
    char number[64]; /* by column */
};

/* ---- building ---- */

void rp_doc_fini(struct rp_doc *d)
{
    for (int i = 0; i < d->n; i++) {
        for (size_t k = 0; k < d->block[i].cells; k++)
            free(d->block[i].cell[k]);
        free(d->block[i].cell);
        free(d->block[i].text);
    }
    free(d->block);
    *d = (struct rp_doc){0};
}

static char *cleaned(const char *fmt, va_list ap)
{
    char *text;
    RP_BUG_IF(vasprintf(&text, fmt, ap) < 0);
    rp_clean(text);
    return text;
}

static struct rp_doc_block *add(struct rp_doc *d, enum kind kind)
{
    d->block = rp_realloc(d->block, (size_t)(d->n + 1) * sizeof *d->block);
    d->block[d->n] = (struct rp_doc_block){.kind = kind};
    return &d->block[d->n++];
}

#define ADD_TEXT(kind)                     \
    do {                                   \
        va_list ap;                        \
        va_start(ap, fmt);                 \
        add(d, kind)->text = cleaned(fmt, ap); \
        va_end(ap);                        \
    } while (0)

void rp_doc_heading(struct rp_doc *d, const char *fmt, ...)
{
    ADD_TEXT(HEADING);
}

void rp_doc_line(struct rp_doc *d, const char *fmt, ...)
{
    ADD_TEXT(LINE);
}

void rp_doc_title(struct rp_doc *d, const char *fmt, ...)
{
    ADD_TEXT(TITLE);
}

void rp_doc_command(struct rp_doc *d, const char *fmt, ...)
{
    ADD_TEXT(COMMAND);
}

void rp_doc_table(struct rp_doc *d)
{
    add(d, TABLE);
}

static void put(struct rp_doc *d, char *text)
{
    struct rp_doc_block *b = &d->block[d->n - 1];
    RP_BUG_IF(b->kind != TABLE);
    if ((b->cells & (b->cells - 1)) == 0)
        b->cell = rp_realloc(b->cell, (b->cells ? 2 * b->cells : 1) * sizeof *b->cell);
    b->cell[b->cells++] = text;
}

void rp_doc_column(struct rp_doc *d, int number, const char *fmt, ...)
{
    va_list ap;
    struct rp_doc_block *b = &d->block[d->n - 1];
    RP_BUG_IF(b->cells != (size_t)b->columns || b->columns == (int)sizeof b->number);
    b->number[b->columns++] = (char)number;
    va_start(ap, fmt);
    put(d, cleaned(fmt, ap));
    va_end(ap);
}

void rp_doc_cell(struct rp_doc *d, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    put(d, cleaned(fmt, ap));
    va_end(ap);
}

void rp_doc_text(struct rp_doc *d, const char *text, const char *missing)
{
    rp_doc_cell(d, "%s", text && *text ? text : missing);
}

char *rp_doc_quoted(const char *text)
{
    RP_BUF out = {0};
    size_t plain = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,+@%-");
    if (*text && !text[plain] && *text != '-')
        return rp_strdup(text);
    rp_buf_puts(&out, "'");
    for (const char *p = text; *p; p++)
        rp_buf_printf(&out, *p == '\'' ? "'\\''" : "%c", *p);
    rp_buf_puts(&out, "'");
    return rp_buf_take(&out);
}

/* ---- text ---- */

/* Characters, not bytes; the text is well-formed. */
static size_t width(const char *s)
{
    size_t n = 0;
    for (; *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

/* At most `most` characters, the last three of them dots where something is missing; was it cut? */
static int shown(struct rp_buf *out, const char *s, size_t most)
{
    size_t keep = width(s) > most ? most - 3 : most, n = 0;
    for (; *s && n < keep + (((unsigned char)*s & 0xc0) == 0x80); s++) {
        n += ((unsigned char)*s & 0xc0) != 0x80;
        rp_buf_add(out, s, 1);
    }
    if (*s)
        rp_buf_puts(out, "...");
    return *s != 0;
}

static void blanks(struct rp_buf *out, size_t n)
{
    while (n--)
        rp_buf_puts(out, " ");
}

/* Columns that stand beside each other; the first one stands before every part, as it says of which row the rest is. */
struct layout {
    size_t wide[sizeof ((struct rp_doc_block *)0)->number], full[sizeof ((struct rp_doc_block *)0)->number];
    int columns;
};

/* As wide as their cells; in a narrow terminal the widest texts give way first, figures never. */
static void lay_columns(struct layout *l, const struct rp_doc_block *b, int most)
{
    size_t sum = 0;
    *l = (struct layout){.columns = b->columns};
    for (size_t i = 0; i < b->cells; i++) {
        size_t *full = &l->full[i % (size_t)b->columns], n = width(b->cell[i]);
        n = n > SHOWN && (i + 1) % (size_t)b->columns ? SHOWN : n; /* nothing stands behind the last column */
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

/* The column after the last one that has its place beside the first and those from `from` on; what is left of the line they take back. */
static int lay_part(struct layout *l, int from, int most)
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

static int text_cell(struct rp_buf *out, const struct rp_doc_block *b, const struct layout *l, size_t i, int is_last)
{
    size_t column = i % (size_t)b->columns, n = width(b->cell[i]), gap = n < l->wide[column] ? l->wide[column] - n : 0;
    if (b->number[column])
        blanks(out, gap);
    int cut = shown(out, b->cell[i], l->wide[column]);
    if (!b->number[column] && !is_last)
        blanks(out, gap);
    rp_buf_puts(out, is_last ? "\n" : "  ");
    return cut;
}

/* In parts below each other where it is wider than the terminal; how many cells were cut. */
static int text_table(struct rp_buf *out, const struct rp_doc_block *b, int most)
{
    struct layout l;
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

/* Nothing left that Markdown or HTML would act on; an address is no link. */
static void md(struct rp_buf *out, const char *s)
{
    for (const char *p = s; *p; p++) {
        if (*p == '<' || *p == '&')
            rp_buf_puts(out, *p == '<' ? "&lt;" : "&amp;");
        else if (strchr("\\`*_|>[]#~!$^@", *p) || (*p == ':' && p[1] == '/') ||
                 (*p == '.' && p - s >= 3 && strncasecmp(p - 3, "www", 3) == 0))
            rp_buf_printf(out, "\\%c", *p);
        else
            rp_buf_add(out, p, 1);
    }
}

static void md_table(struct rp_buf *out, const struct rp_doc_block *b)
{
    for (size_t i = 0; i < b->cells; i++) {
        rp_buf_puts(out, "| ");
        md(out, b->cell[i]);
        int is_last = (i + 1) % (size_t)b->columns == 0;
        rp_buf_puts(out, is_last ? " |\n" : " ");
        for (int c = 0; i + 1 == (size_t)b->columns && c < b->columns; c++)
            rp_buf_printf(out, "|%s%s", b->number[c] ? "---:" : "---", c + 1 < b->columns ? "" : "|\n");
    }
}

/* A paragraph may not begin a list, a quotation or a heading. */
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
    md(out, s);
    rp_buf_puts(out, "\n");
}

/* ---- CSV ---- */

/* Quoted where it must be; what a spreadsheet would compute gets an apostrophe in front, unless it is a number. */
static void csv(struct rp_buf *out, const char *s)
{
    char *end;
    int formula = *s && strchr("=+-@", *s) && (strtod(s, &end), *end);
    int quoted = formula || s[strcspn(s, ",\"\n\r;")] || *s == ' ' || (*s && s[strlen(s) - 1] == ' ');
    rp_buf_puts(out, quoted ? "\"" : "");
    rp_buf_puts(out, formula ? "'" : "");
    for (; *s; s++)
        rp_buf_printf(out, *s == '"' ? "\"\"" : "%c", *s);
    rp_buf_puts(out, quoted ? "\"" : "");
}

/* Where a table stands, for its first columns; both NULL: the document has no headings. */
struct place {
    const char *section, *title;
};

static void csv_table(struct rp_buf *out, const struct rp_doc_block *b, const struct place *where)
{
    for (size_t i = 0; i < b->cells; i++) {
        if (where->section && i % (size_t)b->columns == 0) {
            csv(out, i ? where->section : "section");
            rp_buf_puts(out, ",");
            csv(out, i ? where->title : "table");
            rp_buf_puts(out, ",");
        }
        csv(out, b->cell[i]);
        rp_buf_puts(out, (i + 1) % (size_t)b->columns ? "," : "\n");
    }
}

/* ---- all of it ---- */

/* A title is that of the next table only. */
static void csv_block(struct rp_buf *out, const struct rp_doc_block *b, struct place *where, int *tables)
{
    if (b->kind == HEADING)
        *where = (struct place){b->text, ""};
    else if (b->kind == TITLE && where->section)
        where->title = b->text;
    if (b->kind != TABLE)
        return;
    rp_buf_puts(out, (*tables)++ ? "\n" : "");
    csv_table(out, b, where);
    where->title = "";
}

/* How many cells were cut. */
static int write_text(struct rp_buf *out, const struct rp_doc_block *b, int most)
{
    if (b->kind == TABLE)
        return text_table(out, b, most);
    if (b->kind == COMMAND)
        rp_buf_printf(out, "    %s\n", b->text);
    else
        rp_buf_printf(out, "%s\n", b->text); /* terminals wrap */
    return 0;
}

static void write_md(struct rp_buf *out, const struct rp_doc_block *b, int is_first)
{
    if (b->kind == TABLE) {
        md_table(out, b);
    } else if (b->kind == COMMAND) {
        rp_buf_printf(out, "    %s\n", b->text); /* indented code: nothing in it is markup */
    } else {
        rp_buf_puts(out, b->kind != HEADING ? "" : is_first ? "# " : "## ");
        md_line(out, b->text);
    }
}

void rp_doc_write(struct rp_buf *out, const struct rp_doc *d, enum rp_doc_format format)
{
    int tables = 0, cut = 0;
    struct place where = {0};
    for (int i = 0; i < d->n; i++) {
        const struct rp_doc_block *b = &d->block[i];
        int joined = i && b->kind == COMMAND && d->block[i - 1].kind == COMMAND; /* commands in a row are one block */
        if (format == RP_DOC_CSV) {
            csv_block(out, b, &where, &tables);
            continue;
        }
        rp_buf_puts(out, i && !joined ? "\n" : "");
        if (format == RP_DOC_MD)
            write_md(out, b, i == 0);
        else
            cut += write_text(out, b, d->width);
    }
    if (cut)
        rp_buf_printf(out, "\ncells cut: %d; --format md has all\n", cut);
}

static json_t *table_json(const struct rp_doc_block *b)
{
    json_t *columns = json_array(), *rows = json_array(), *row = columns;
    for (size_t i = 0; i < b->cells; i++) {
        if (i && i % (size_t)b->columns == 0)
            json_array_append_new(rows, row = json_array());
        json_array_append_new(row, json_string(b->cell[i]));
    }
    return json_pack("{s:o, s:o}", "columns", columns, "rows", rows);
}

json_t *rp_doc_json(const struct rp_doc *d)
{
    static const char *const names[] = {"heading", "text", "text", "command"};
    json_t *out = json_array();
    for (int i = 0; i < d->n; i++) {
        const struct rp_doc_block *b = &d->block[i];
        json_array_append_new(out, b->kind == TABLE ? table_json(b) : json_pack("{s:s}", names[b->kind], b->text));
    }
    return out;
}
