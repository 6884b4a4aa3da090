#include "recipe/events.h"

#include "base/buf.h"
#include "base/text.h"
#include "base/zstd_magic.h"

#include <stdlib.h>
#include <string.h>

int rp_at(const char *file, int line, int col, struct rp_err *err)
{
    size_t n = strlen(file);
    const char *cut = n > 160 ? "..." : "";
    return rp_wrap(err, "%s%s:%d:%d", cut, file + (n > 160 ? n - 157 : 0), line, col);
}

static int check_bytes(const char *data, size_t size, const char *file, const char *what, struct rp_err *err)
{
    int line = 1, col = 1;
    if (rp_is_zstd(data, size))
        return rp_fail(err, RP_MALFORMED, "'%s' is compressed with zstd, as bundles are; expected a %s in YAML", file,
                       what);
    for (size_t i = 0, len; i < size; i += len) {
        unsigned c = 0;
        len = rp_utf8(data + i, size - i, &c);
        int fine = len && (!rp_is_control(c) || c == '\n' || (c == '\r' && i + 1 < size && data[i + 1] == '\n')) &&
                   !rp_is_bidi_control(c) && c != 0xfeff;
        if (!fine) {
            if (c == '\t')
                rp_fail(err, RP_MALFORMED, "a tab; indent and separate with spaces");
            else if (len)
                rp_fail(err, RP_MALFORMED, "character U+%04X does not belong in a %s", c, what);
            else
                rp_fail(err, RP_MALFORMED, "byte 0x%02x is not UTF-8", (unsigned char)data[i]);
            return rp_at(file, line, col, err);
        }
        col++;
        if (c == '\n') {
            line++;
            col = 1;
        }
    }
    return 0;
}

int rp_events_open(struct rp_events *r, const char *data, size_t size, const char *file, const char *what,
                   struct rp_err *err)
{
    *r = (struct rp_events){.file = file, .what = what, .err = err};
    if (check_bytes(data, size, file, what, err) < 0)
        return -1;
    if (!yaml_parser_initialize(&r->yaml))
        return rp_fail(err, RP_UNAVAILABLE, "%s: out of memory", file);
    yaml_parser_set_encoding(&r->yaml, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r->yaml, (const unsigned char *)data, size);
    return 0;
}

void rp_events_close(struct rp_events *r)
{
    yaml_parser_delete(&r->yaml);
}

void rp_event_fini(struct rp_event *e)
{
    free(e->text);
    e->text = NULL;
}

int rp_events_next(struct rp_events *r, struct rp_event *e)
{
    yaml_event_t y;
    *e = (struct rp_event){0};
    if (!yaml_parser_parse(&r->yaml, &y)) {
        const yaml_mark_t *m = &r->yaml.problem_mark;
        rp_fail(r->err, RP_MALFORMED, "not YAML: %s%s%s", r->yaml.problem ? r->yaml.problem : "unreadable",
                r->yaml.context ? ", " : "", r->yaml.context ? r->yaml.context : "");
        return rp_at(r->file, (int)m->line + 1, (int)m->column + 1, r->err);
    }
    e->type = y.type;
    e->line = (int)y.start_mark.line + 1;
    e->col = (int)y.start_mark.column + 1;
    e->last_line = (int)y.end_mark.line + 1;
    int anchor = 0, tag = 0, nul = 0, version = 0;
    if (y.type == YAML_SCALAR_EVENT) {
        anchor = y.data.scalar.anchor != NULL;
        tag = y.data.scalar.tag != NULL;
        nul = memchr(y.data.scalar.value, 0, y.data.scalar.length) != NULL; /* "\0" in double quotes */
        e->plain = y.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        e->text = rp_strdup((const char *)y.data.scalar.value);
    } else if (y.type == YAML_MAPPING_START_EVENT) {
        anchor = y.data.mapping_start.anchor != NULL;
        tag = y.data.mapping_start.tag != NULL;
    } else if (y.type == YAML_SEQUENCE_START_EVENT) {
        anchor = y.data.sequence_start.anchor != NULL;
        tag = y.data.sequence_start.tag != NULL;
    } else if (y.type == YAML_DOCUMENT_START_EVENT)
        version = y.data.document_start.version_directive ||
                  y.data.document_start.tag_directives.start != y.data.document_start.tag_directives.end;
    yaml_event_delete(&y);
    const char *what = e->type == YAML_ALIAS_EVENT ? "an alias (*name)"
                       : anchor                    ? "an anchor (&name)"
                       : tag                       ? "a tag (!name)"
                       : version                   ? "a % directive"
                       : nul                       ? "a NUL character"
                                                   : NULL;
    if (!what)
        return 0;
    rp_event_fini(e);
    return RP_EVENT_FAIL(r, e, RP_MALFORMED, "%s does not belong in a %s: write the value out", what, r->what);
}

int rp_events_begin(struct rp_events *r, const char *expected)
{
    static const yaml_event_type_t order[] = {YAML_STREAM_START_EVENT, YAML_DOCUMENT_START_EVENT,
                                              YAML_MAPPING_START_EVENT};
    struct rp_event e;
    for (int i = 0; i < 3; i++) {
        if (rp_events_next(r, &e) < 0)
            return -1;
        rp_event_fini(&e);
        if (e.type == YAML_STREAM_END_EVENT)
            return RP_EVENT_FAIL(r, &e, RP_MALFORMED, "the %s is empty: expected %s", r->what, expected);
        if (e.type != order[i])
            return RP_EVENT_FAIL(r, &e, RP_MALFORMED, "expected %s", expected);
    }
    return 0;
}

int rp_events_end(struct rp_events *r)
{
    struct rp_event e;
    if (rp_events_next(r, &e) < 0) /* end of the document */
        return -1;
    rp_event_fini(&e);
    if (rp_events_next(r, &e) < 0)
        return -1;
    rp_event_fini(&e);
    return e.type == YAML_STREAM_END_EVENT
               ? 0
               : RP_EVENT_FAIL(r, &e, RP_MALFORMED, "a second document: a file holds one %s", r->what);
}
