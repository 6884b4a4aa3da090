/* A strict reader of the HTML that pages are made of: mistake() is where a text leaves it, or NULL. */
#pragma once

#include <string.h>

static const char *const elements[] = {
    "html",   "aside",   "head",    "title",  "style", "body",   "a",          "header", "div",   "svg",
    "circle", "path",    "h1",      "h2",     "h3",    "p",      "code",       "bdi",    "table", "caption",
    "thead",  "tbody",   "tr",      "th",     "td",    "nav",    "ul",         "li",     "main",  "section",
    "data",   "dl",      "dt",      "dd",     "span",  "figure", "figcaption", "b",      "rect",  "text",
    "pre",    "details", "summary", "footer", "meta",  "br"};
static const char *const attributes[] = {"lang", "charset", "http-equiv", "content", "name", "class", "href", "id",
                                         "width", "height", "viewBox", "aria-hidden", "cx", "cy", "r", "d", "open",
                                         "scope", "aria-label", "aria-labelledby", "data-bundle", "value", "data-src",
                                         "data-form", "role", "x", "y", "text-anchor", "preserveAspectRatio",
                                         "download", "tabindex", "rx", "stroke-width", "transform", "colspan"};

/* One tag at p: name and attributes known, values quoted; the end, or NULL. */
static const char *tag(const char *p, char name[32], int *closing)
{
    char word[64];
    size_t n;
    *closing = p[1] == '/';
    p += 1 + *closing;
    n = strcspn(p, " >/\n");
    if (n >= 32 || !RP_IS_IN(elements, p, n))
        return NULL;
    snprintf(name, 32, "%.*s", (int)n, p);
    for (p += n; *p == ' ';) {
        n = strcspn(++p, "=> /");
        snprintf(word, sizeof word, "%.*s", (int)n, p);
        if (!RP_IS_IN(attributes, word, strlen(word)))
            return NULL;
        p += n;
        if (*p != '=')
            continue;
        if (p[1] != '"' || !(p = strchr(p + 2, '"')))
            return NULL;
        p++;
    }
    return *p == '/' && p[1] == '>' ? p + 1 : *p == '>' ? p : NULL;
}

/* Everything is an element of the list with attributes of the list, nested as it should be. The place of the first
 * mistake, or NULL. */
static const char *mistake(const char *html)
{
    char open[64][32], name[32];
    int depth = 0, closing;
    const char *p = html + strlen("<!doctype html>");
    for (; (p = strchr(p, '<')); p++) {
        const char *at = p;
        if (!(p = tag(p, name, &closing)))
            return at;
        if (closing && (depth == 0 || strcmp(open[--depth], name) != 0))
            return at;
        if (closing || p[-1] == '/' || strcmp(name, "meta") == 0 || strcmp(name, "br") == 0)
            continue;
        if (depth == 64)
            return at;
        strcpy(open[depth++], name);
        if (strcmp(name, "style") == 0)
            p = strstr(p, "</style>") - 1;
    }
    return depth ? html : NULL;
}
