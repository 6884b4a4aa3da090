/* What one lost byte could hide in a policy. YAML takes what stands behind '#' for nothing. One damaged byte, a line end or the first
 * letter of a rule, must not make a rule, or a word of a list, into a comment without anybody noticing: so comments have a form in which a
 * rule cannot hide. */
#include "verify/policy.h"

#include "recipe/events.h"
#include "verify/verify.h"

#include <string.h>

#define CHECK_BLANKS 2 /* in front of what stands below "checks:" */

struct scan {
    const char *file, *line; /* where the line begins */
    size_t n, left;          /* its bytes, and those from its beginning to the end of the file */
    int number, depth;       /* of brackets */
    int checks;              /* the last line that began in the first column was "checks:" */
    char quote;
};

static int hides(const struct scan *s, size_t at, struct rp_err *err, const char *why)
{
    rp_fail(err, RP_USAGE, "%s", why);
    return rp_at(s->file, s->number, (int)at + 1, err);
}

/* Where text holds `name` as the key of a mapping. */
static const char *key_in(const char *text, size_t n, const char *name)
{
    size_t size = strlen(name);
    for (const char *p = text; size && (p = memmem(p, n - (size_t)(p - text), name, size)); p++)
        if (p + size < text + n && p[size] == ':')
            return p;
    return NULL;
}

/* What stands behind "# " as it would stand without it was made a comment on purpose: its length. */
static size_t on_purpose(const char *text, size_t n, const char *(*name)(int), int count)
{
    size_t longest = 0;
    for (int i = 0; i < count; i++) {
        size_t size = strlen(name(i));
        if (size > longest && n > size + 1 && key_in(text + 1, size + 1, name(i)) == text + 1)
            longest = size;
    }
    return longest ? longest + 1 : 0;
}

/* A rule that is a comment stands in the first column, a check keeps the blanks before it: no single byte makes the one of the other. */
static int check_names(const struct scan *s, size_t at, const char *text, size_t n, struct rp_err *err)
{
    size_t skip = at == 0 ? on_purpose(text, n, rp_policy_rule, RP_RULE_COUNT)
                  : at == CHECK_BLANKS && s->checks && strspn(s->line, " ") == at ? on_purpose(text, n, rp_policy_check, RP_CHECK_COUNT)
                  : 0;
    for (int i = 0; i < RP_RULE_COUNT; i++)
        if (key_in(text + skip, n - skip, rp_policy_rule(i)))
            return hides(s, at, err, "a comment holds a rule with its ':', as if a line end were lost; write '# rule: value' in the first "
                                     "column, or other words");
    for (int i = 0; i < RP_CHECK_COUNT; i++)
        if (key_in(text + skip, n - skip, rp_policy_check(i)))
            return hides(s, at, err, "a comment holds a check with its ':', as if a line end were lost; write '  # check: state', or other "
                                     "words");
    return 0;
}

static int check_comment(const struct scan *s, size_t at, struct rp_err *err)
{
    const char *text = s->line + at + 1, *next = s->line + s->n;
    size_t n = s->n - at - 1, rest = s->left - s->n;
    for (; n && *text == '#'; n--)
        text++;
    if (s->depth > 0)
        return hides(s, at, err, "a comment inside brackets could hide a word: put it above");
    if (n && *text != ' ')
        return hides(s, at, err, "a comment begins with '# ': is this a rule whose first letter was lost?");
    if (strspn(text, " ") < n)
        return check_names(s, at, text, n, err);
    if (rest > 1 && strcspn(next + 1, "#\n") > strspn(next + 1, " "))
        return hides(s, at, err, "an empty comment above a rule could hide it: take it out");
    return 0;
}

static int check_line(struct scan *s, struct rp_err *err)
{
    size_t blanks = strspn(s->line, " ");
    int outside = !s->depth && !s->quote && blanks < s->n && !strchr("#\r", s->line[blanks]);
    if (s->number == 1 && strncmp(s->line, "---", 3) == 0 && strspn(s->line + 3, "\r") == s->n - 3)
        return 0; /* as many a file of YAML begins */
    if (outside && s->line[blanks] == '-')
        return hides(s, blanks, err, "a list is written [a, b], so that no word of it can become a comment");
    if (outside && blanks && !(blanks == CHECK_BLANKS && s->checks))
        return hides(s, blanks, err, "a rule begins in the first column, what stands below 'checks:' behind two blanks: only there a "
                                     "comment is seen for what it was");
    if (outside && !blanks)
        s->checks = strncmp(s->line, "checks:", 7) == 0;
    for (size_t i = 0; i < s->n; i++) {
        char c = s->line[i];
        int begins = i == 0 || strchr(" [{,:\"'", s->line[i - 1]) != NULL;
        if (s->quote) {
            i += c == '\\' && s->quote == '"';
            s->quote = c == s->quote ? 0 : s->quote;
        } else if (c == '#' && (begins || strchr("]}", s->line[i - 1]))) {
            return check_comment(s, i, err);
        } else if ((c == '"' || c == '\'') && begins) {
            s->quote = c;
        } else if (strchr("[{", c)) {
            s->depth++;
        } else if (strchr("]}", c)) {
            s->depth--;
        }
    }
    return 0;
}

int rp_policy_comments(const char *text, const char *file, struct rp_err *err)
{
    struct scan s = {.file = file, .line = text, .left = strlen(text), .number = 1};
    for (; s.left; s.number++) {
        s.n = strcspn(s.line, "\n");
        if (check_line(&s, err) < 0)
            return -1;
        size_t step = s.n + (s.n < s.left);
        s.line += step;
        s.left -= step;
    }
    return 0;
}
