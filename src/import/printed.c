/* Steps in lines that programs print for people: finding them, and what follows from the log as a whole. */
#include "import/printed.h"

#include "base/text.h"
#include "import/scan.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The first step at or behind `from`. */
static char *find_step(char *from, const char *mark, const char *(*follows)(const char *p), int64_t *step, char **rest)
{
    for (char *at = from; (at = strstr(at, mark)); at++) {
        const char *end = rp_scan_count(at + strlen(mark), step);
        if (end && (end = follows(end))) {
            *rest = at + (end - at);
            return at;
        }
    }
    return NULL;
}

int rp_printed_next(struct rp_printed_part *p, char *line, const char *mark, const char *(*follows)(const char *p))
{
    int64_t ignored;
    char *rest;
    if (p->next)
        *p->next = p->kept;
    p->begin = p->text ? p->next : line;
    p->begin = p->begin ? find_step(p->begin, mark, follows, &p->step, &p->text) : NULL;
    if (!p->begin)
        return 0;
    p->next = find_step(p->text, mark, follows, &ignored, &rest);
    if (p->next) {
        p->kept = *p->next;
        *p->next = 0;
    }
    return 1;
}

double rp_printed_real(const char *text, const char *before, const char *after)
{
    double v;
    const char *at = rp_scan_after(text, before), *end = at ? rp_scan_real(at, &v) : NULL;
    return end && strncmp(end, after, strlen(after)) == 0 ? v : NAN;
}

int64_t rp_printed_whole(const char *text, const char *before, const char *after)
{
    int64_t v;
    const char *at = rp_scan_after(text, before), *end = at ? rp_scan_count(at, &v) : NULL;
    return end && strncmp(end, after, strlen(after)) == 0 ? v : -1;
}

double rp_printed_before(const char *text, const char *unit)
{
    double v;
    const char *at = strstr(text, unit), *start = at;
    if (!at || strstr(at + 1, unit))
        return NAN;
    while (start > text && strchr("0123456789.", start[-1]))
        start--;
    const char *end = start > text && strchr(" (", start[-1]) ? rp_scan_real(start, &v) : NULL;
    return end == at ? v : NAN;
}

void rp_printed_damaged(struct rp_printed *p, const struct rp_import_source *s)
{
    if (!p->damaged++)
        p->first_damaged = s->lines.number;
}

void rp_printed_header(struct rp_printed *p, struct rp_import_source *s)
{
    if (!s->window.steps_seen || s->window.closed)
        return;
    s->window.closed = 1;
    p->second = s->lines.number;
}

int rp_printed_step(struct rp_printed *p, struct rp_import_source *s, const struct rp_step *step, double stamp,
                    int *counts, struct rp_err *err)
{
    struct rp_log_window *w = &s->window;
    int64_t timed = w->timed, seen = w->steps_seen;
    if (rp_window_step(w, step, &s->lines, err) < 0)
        return -1;
    *counts = w->timed > timed;
    if (*counts && p->stamped_line && !isnan(stamp)) {
        p->between += stamp - p->stamp;
        p->durations += step->duration * (double)(w->mean ? w->gap : 1);
    }
    if (w->steps_seen > seen) {
        p->stamped_line = isnan(stamp) ? 0 : s->lines.number;
        p->stamp = stamp;
    }
    return 0;
}

int rp_printed_tokens(struct rp_import_source *s, int64_t tokens, int64_t line, struct rp_err *err)
{
    const int64_t length = rp_imported_get(&s->draft, "sequence_length");
    if (tokens < 1)
        return 0;
    if (length > 0 && tokens % length)
        return rp_fail(err, RP_MALFORMED,
                       "%s:%" PRId64 ": %" PRId64
                       " tokens of a step are not a multiple of the sequence length, %" PRId64
                       " tokens; give the length with --set sequence_length=N",
                       s->lines.name, line, tokens, length);
    if (length > 0)
        rp_imported_count(&s->draft, "global_batch", tokens / length, line);
    s->window.tokens = (double)tokens;
    return 0;
}

int rp_printed_end(const struct rp_printed *p, const struct rp_import_source *s, struct rp_err *err)
{
    if (p->durations > 1.05 * p->between + 2) /* times have whole seconds, and lines may be missing */
        return rp_fail(err, RP_MALFORMED,
                       "%s: the steps took %.6g s by the durations that the log prints, but %.6g s by the times "
                       "before its lines; choose steps where both agree with --from and --to",
                       s->lines.name, p->durations, p->between);
    return 0;
}

void rp_printed_notes(const struct rp_printed *p, struct rp_imported *d)
{
    if (p->damaged)
        rp_imported_note(d, "not counted: %" PRId64 " line%s of steps, cut off or damaged, the first is line %" PRId64,
                         p->damaged, rp_s(p->damaged), p->first_damaged);
    if (p->second)
        rp_imported_note(d, "a second run begins at line %" PRId64 " and does not count", p->second);
}
