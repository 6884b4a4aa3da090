#include "report/escape.h"

#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- HTML ---- */

static const struct {
    unsigned c;
    const char *entity;
} entities[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}, {'`', "&#96;"}};
#define ENTITIES (sizeof entities / sizeof *entities)

static const char *entity_of(unsigned c)
{
    for (size_t i = 0; i < ENTITIES; i++)
        if (entities[i].c == c)
            return entities[i].entity;
    return NULL;
}

static int is_line(unsigned c)
{
    return c == '\n' || c == '\t';
}

static void html_escape(struct rp_buf *out, const char *text, size_t size, size_t limit, int lines)
{
    size_t shown = 0;
    for (size_t i = 0, len; i < size; i += len) {
        unsigned c = 0;
        len = rp_utf8(text + i, size - i, &c);
        if (limit && shown++ == limit) {
            rp_buf_puts(out, "...");
            return;
        }
        if (!len || (rp_is_control(c) && !is_line(c)) || rp_is_invisible(c)) {
            rp_buf_puts(out, "\xef\xbf\xbd");
            len = len ? len : 1;
        } else if (is_line(c)) {
            rp_buf_puts(out, !lines ? " " : c == '\n' ? "\n" : "    ");
        } else if (entity_of(c)) {
            rp_buf_puts(out, entity_of(c));
        } else {
            rp_buf_add(out, text + i, len);
        }
    }
}

void rp_html(struct rp_buf *out, const char *text, size_t size, size_t limit)
{
    html_escape(out, text, size, limit, 0);
}

void rp_html_text(struct rp_buf *out, const char *text)
{
    html_escape(out, text, strlen(text), RP_HTML_LIMIT, 0);
}

void rp_html_lines(struct rp_buf *out, const char *text, size_t size)
{
    html_escape(out, text, size, 0, 1);
}

/* ---- Markdown ---- */

void rp_md_text(struct rp_buf *out, const char *text)
{
    for (const char *p = text; *p; p++) {
        const int address =
            (*p == ':' && p[1] == '/') || (*p == '.' && p - text >= 3 && strncasecmp(p - 3, "www", 3) == 0);
        if (*p == '<' || *p == '&') {
            rp_buf_puts(out, entity_of((unsigned char)*p));
            continue;
        }
        if (strchr("\\`*_|>[]#~!$^@", *p) || address)
            rp_buf_puts(out, "\\");
        rp_buf_add(out, p, 1);
    }
}

void rp_md_code(struct rp_buf *out, const char *text)
{
    char safe[RP_HTML_LIMIT];
    rp_ascii(safe, sizeof safe, *text ? text : "unknown");
    for (char *p = safe; (p = strpbrk(p, "`<"));)
        *p = '?';
    rp_buf_puts(out, safe);
}

/* ---- CSV ---- */

/* Characters that some spreadsheets read as = + - @ at the beginning of a cell: those of full width, small ones,
 * superscripts, subscripts and the sign of minus. All that compatibility normalisation (NFKC) maps to one of the
 * four. */
static const char *const formula_signs[] = {
    "\xef\xbc\x9d", "\xef\xbc\x8b", "\xef\xbc\x8d", "\xef\xbc\xa0", "\xef\xb9\xa6",
    "\xef\xb9\xa2", "\xef\xb9\xa3", "\xef\xb9\xab", "\xe2\x81\xba", "\xe2\x81\xbb",
    "\xe2\x81\xbc", "\xe2\x82\x8a", "\xe2\x82\x8b", "\xe2\x82\x8c", "\xe2\x88\x92",
};
/* That some of them skip before it: blanks, without and of full width; zero-width ones and marks of the byte order. */
static const char *const blanks[] = {" ", "\xc2\xa0", "\xe3\x80\x80", "\xe2\x80\x8b", "\xe2\x81\xa0", "\xef\xbb\xbf"};

static size_t prefix_of(const char *text, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strncmp(text, list[i], strlen(list[i])) == 0)
            return strlen(list[i]);
    return 0;
}

static int begins_formula(const char *text)
{
    const char *at = text;
    char *end;
    for (size_t n; (n = prefix_of(at, blanks, sizeof blanks / sizeof *blanks)); at += n) {
    }
    if (prefix_of(at, formula_signs, sizeof formula_signs / sizeof *formula_signs))
        return 1;
    return *at && strchr("=+-@\t\r\n", *at) && (at > text || (strtod(at, &end), *end));
}

void rp_csv_text(struct rp_buf *out, const char *text)
{
    RP_FREE char *clean = rp_strdup(text);
    rp_sanitize(clean);
    int formula = begins_formula(text);
    int quoted =
        formula || clean[strcspn(clean, ",\";")] || *clean == ' ' || (*clean && clean[strlen(clean) - 1] == ' ');
    rp_buf_puts(out, formula ? "\"'" : quoted ? "\"" : "");
    for (const char *p = clean; *p; p++)
        rp_buf_add(out, *p == '"' ? "\"\"" : p, *p == '"' ? 2 : 1);
    rp_buf_puts(out, quoted ? "\"" : "");
}

void rp_csv_number(struct rp_buf *out, double x)
{
    char text[40];
    for (int digits = 15; digits <= 17 && isfinite(x); digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (strtod(text, NULL) == x || digits == 17) {
            rp_buf_puts(out, text);
            return;
        }
    }
}

/* ---- shell ---- */

#define PLAIN_IN_SHELL "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,+@%-"

static void add_quoted(struct rp_buf *out, const char *text)
{
    rp_buf_puts(out, "'");
    for (const char *p = text; *p; p++)
        rp_buf_printf(out, *p == '\'' ? "'\\''" : "%c", *p);
    rp_buf_puts(out, "'");
}

char *rp_shell_word(const char *text)
{
    RP_BUF out = {0};
    size_t plain = strspn(text, PLAIN_IN_SHELL);
    if (*text && !text[plain] && *text != '-')
        return rp_strdup(text);
    add_quoted(&out, text);
    return rp_buf_take(&out);
}

/* One word from *at on without its quotes; -1: a quote is not closed. */
static int next_word(struct rp_buf *word, const char **at)
{
    const char *p = *at;
    word->size = 0;
    rp_buf_puts(word, "");
    for (int quoted = 0; *p && (quoted || *p != ' '); p++) {
        if (*p == '\'')
            quoted = !quoted;
        else if (!quoted && *p == '\\' && p[1])
            rp_buf_add(word, ++p, 1);
        else
            rp_buf_add(word, p, 1);
        if (quoted && !p[1])
            return -1;
    }
    *at = p + strspn(p, " ");
    return 0;
}

char *rp_shell_words(const char *text, const char *begin)
{
    RP_BUF out = {0}, word = {0};
    size_t n = strlen(begin);
    const char *at = text + strspn(text, " ");
    while (*at) {
        if (next_word(&word, &at) < 0)
            return NULL;
        const char *w = rp_buf_text(&word);
        rp_buf_puts(&out, out.size ? " " : "");
        if (*w && !w[strspn(w, PLAIN_IN_SHELL)])
            rp_buf_puts(&out, w);
        else
            add_quoted(&out, w);
    }
    const char *is = rp_buf_text(&out);
    return strncmp(is, begin, n) == 0 && (!is[n] || is[n] == ' ') ? rp_strdup(is) : NULL;
}
