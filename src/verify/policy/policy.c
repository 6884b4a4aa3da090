/* Reading a policy. What is wrong in one rule does not hide the rest: all of it is refused at once. Only where the
 * file is no YAML of this kind, what follows cannot be read. */
#include "verify/policy/policy.h"

#include "base/buf.h"
#include "base/embed.h"
#include "base/nearest.h"
#include "base/text.h"
#include "recipe/choices.h"
#include "recipe/events.h"
#include "sign/key.h"
#include "sign/trust.h"
#include "verify/levels.h"
#include "verify/verify.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_MAX 1000000000

static const struct rp_rule_text texts[] = {
#define RULE(id, of, type, example, meaning) {#id, example, meaning, #type[0], RP_BUNDLE_##of},
#include "verify/policy/policy.def"
#undef RULE
};

static const char *const states[] = {
    [RP_CHECK_PASSED] = "passed", [RP_CHECK_NOTE] = "note", [RP_CHECK_WARNING] = "warning"};

/* Checks that earlier programs had, and what to do without them. */
static const char *const removed[][2] = {
    {"report_file", "'repro report' makes a report from the bundle again"},
    {"report", "'repro report' makes the report from the bundle"},
    {"clock_resolution", "the clock and the spread of steps are in the report"},
    {"step_variation", "the clock and the spread of steps are in the report"},
};

_Static_assert(RP_CHECK_COUNT <= RP_POLICY_CHECKS, "a policy has a place for every check");

#define ERRORS_BYTES 440 /* of the messages in one of 512 */

struct policy_reader {
    struct rp_events events;
    struct rp_policy *out;
    struct rp_buf errors; /* so far: "file:3:1: ...; 5:3: ..." */
    int left_out;         /* those that do not fit */
};

#define FAIL(r, e, ...) RP_EVENT_FAIL(&(r)->events, e, RP_USAGE, __VA_ARGS__)
/* Notes the error; 0, to go on. */
#define NOTE(r, e, ...) (FAIL(r, e, __VA_ARGS__), note_error(r))

static int note_error(struct policy_reader *r)
{
    const char *msg = r->events.err->msg;
    const int first = !r->errors.size;
    r->events.file = ""; /* is named once */
    msg += !first && *msg == ':';
    if (first || r->errors.size + strlen(msg) < ERRORS_BYTES)
        rp_buf_printf(&r->errors, "%s%s", first ? "" : "; ", msg);
    else
        r->left_out++;
    return 0;
}

const struct rp_rule_text *rp_rule_text(int id)
{
    return &texts[id];
}

void rp_policy_fini(struct rp_policy *p)
{
    for (int i = 0; i < RP_RULE_COUNT; i++) {
        for (int k = 0; k < p->rule[i].n; k++)
            free(p->rule[i].word[k]);
        free(p->rule[i].word);
    }
    *p = (struct rp_policy){0};
}

/* A scalar over several lines could hide the rules between its ends. */
static int read_event(struct policy_reader *r, struct rp_event *e)
{
    if (rp_events_next(&r->events, e) < 0)
        return -1;
    if (e->type != YAML_SCALAR_EVENT || e->last_line == e->line)
        return 0;
    rp_event_fini(e);
    return FAIL(r, e,
                "a word continues in line %d: it must end in the line where it begins, so that it cannot hide a rule",
                e->last_line);
}

/* ---- names ---- */

static const char *rule_name(int i)
{
    return texts[i].id;
}

/* "" for checks that a policy cannot name: policy itself, and those that cannot fail. */
static const char *check_name(int i)
{
    return i < RP_CHECK_policy ? rp_check_name(i) : "";
}

/* The shortest name that has the word in it, as max_age_days has "age"; NULL: none. */
static const char *find_longer(const char *word, const char *(*name)(int), int n)
{
    const char *best = NULL;
    for (int i = 0; i < n && strlen(word) >= 3; i++)
        if (strstr(name(i), word) && (!best || strlen(name(i)) < strlen(best)))
            best = name(i);
    return best;
}

/* The nearest name, or NULL. */
static const char *find_nearest(const char *word, const char *(*name)(int), int n)
{
    struct rp_nearest nearest = {.word = word};
    for (int i = 0; i < n; i++)
        if (*name(i))
            rp_nearest_try(&nearest, name(i));
    if (!nearest.best || strstr(nearest.best, word))
        nearest.best = find_longer(word, name, n);
    return nearest.best;
}

static int find_index(const char *word, const char *(*name)(int), int n)
{
    for (int i = 0; i < n; i++)
        if (*word && strcmp(name(i), word) == 0)
            return i;
    return -1;
}

/* The index of the rule or check, or -1 with an error noted. */
static int find_name(struct policy_reader *r, const struct rp_event *e, const char *kind, const char *(*name)(int),
                     int n)
{
    char shown[72];
    const int found = find_index(e->text, name, n);
    if (found >= 0)
        return found;
    for (size_t i = 0; name == check_name && i < sizeof removed / sizeof *removed; i++)
        if (strcmp(removed[i][0], e->text) == 0) {
            NOTE(r, e, "this program has no check '%s' any more: remove it from the policy; %s", removed[i][0],
                 removed[i][1]);
            return -1;
        }
    const char *near = find_nearest(e->text, name, n);
    if (name == rule_name && find_index(e->text, check_name, RP_CHECK_COUNT) >= 0)
        NOTE(r, e, "'%s' is a check, not a rule: write 'checks: {%s: passed}'%s%s%s", e->text, e->text,
             near ? ", or did you mean the rule '" : "", near ? near : "", near ? "'?" : "");
    else
        NOTE(r, e, "unknown %s '%s'%s%s%s", kind, rp_excerpt(shown, e->text), near ? ": did you mean '" : "",
             near ? near : "", near ? "'?" : "");
    return -1;
}

/* The rest of a value whose first event was read; -1: the file cannot be read. */
static int skip_rest(struct policy_reader *r, enum yaml_event_type_e type)
{
    int depth = type == YAML_SEQUENCE_START_EVENT || type == YAML_MAPPING_START_EVENT;
    while (depth > 0) {
        struct rp_event e;
        if (read_event(r, &e) < 0)
            return -1;
        depth += (e.type == YAML_SEQUENCE_START_EVENT || e.type == YAML_MAPPING_START_EVENT) -
                 (e.type == YAML_SEQUENCE_END_EVENT || e.type == YAML_MAPPING_END_EVENT);
        rp_event_fini(&e);
    }
    return 0;
}

static int skip_value(struct policy_reader *r)
{
    struct rp_event e;
    if (read_event(r, &e) < 0)
        return -1;
    rp_event_fini(&e);
    return skip_rest(r, e.type);
}

/* ---- values ---- */

static int fail_value(struct policy_reader *r, const struct rp_event *e, const struct rp_rule_text *t)
{
    if (t->type == 'B')
        return NOTE(r, e, "%s: expected true; without the rule nothing is required", t->id);
    return NOTE(r, e, "%s: expected %s like %s", t->id,
                t->type == 'L'   ? "a list of words"
                : t->type == 'E' ? "a list of levels"
                : t->type == 'D' ? "a list of SHA-256, 64 lower-case hex digits each as sha256sum "
                                   "prints them,"
                : t->type == 'W' ? "a list of whole numbers from 1 to 1000000000"
                : t->type == 'R' ? "a positive number and a unit per second,"
                : t->type == 'V' ? "a version, numbers with dots,"
                : t->type == 'I' ? "a whole number from 1 to 1000000000"
                : t->type == 'N' ? "a whole number from 0 to 1000000000"
                : t->type == 'P' ? "a probability from 0 to 1"
                                 : "a mapping of checks",
                t->example);
}

/* A zero before other digits: of another base in some YAML, or a number whose point is missing ("001"). */
static int has_zero_ahead(const char *number)
{
    return number[0] == '0' && number[1] >= '0' && number[1] <= '9';
}

static int read_number(struct policy_reader *r, const struct rp_event *e, const struct rp_rule_text *t,
                       struct rp_rule *rule)
{
    char *end;
    errno = 0;
    long long v = e->plain && *e->text >= '0' && *e->text <= '9' ? strtoll(e->text, &end, 10) : -1;
    if (v < (t->type == 'I') || errno || *end || v > NUMBER_MAX || has_zero_ahead(e->text))
        return fail_value(r, e, t);
    rule->number = v;
    return 0;
}

static void take_word(struct rp_rule *rule, const char *word)
{
    rule->word = rp_realloc(rule->word, (size_t)(rule->n + 1) * sizeof *rule->word);
    rule->word[rule->n++] = rp_strdup(word);
}

/* "570 sequences/s" */
static int read_rate(struct policy_reader *r, const struct rp_event *e, const struct rp_rule_text *t,
                     struct rp_rule *rule)
{
    char *unit = e->text;
    if (*e->text >= '0' && *e->text <= '9' && e->text[strspn(e->text, "0123456789.")] == ' ')
        rule->rate = strtod(e->text, &unit);
    const size_t letters = *unit == ' ' ? strspn(unit + 1, "abcdefghijklmnopqrstuvwxyz") : 0;
    if (!(rule->rate > 0) || has_zero_ahead(e->text) || rule->rate > 1e15 || !letters || letters > 20 ||
        strcmp(unit + 1 + letters, "/s") != 0)
        return fail_value(r, e, t);
    take_word(rule, unit + 1);
    return 0;
}

static int read_version(struct policy_reader *r, const struct rp_event *e, const struct rp_rule_text *t,
                        struct rp_rule *rule)
{
    const char *v = e->text;
    const size_t n = strlen(v);
    if (!n || n > 30 || strspn(v, "0123456789.") != n || v[0] == '.' || v[n - 1] == '.' || strstr(v, ".."))
        return fail_value(r, e, t);
    take_word(rule, v);
    return 0;
}

/* From 1, as printed: without zeros before it. */
static int is_count(const char *word)
{
    const size_t n = strlen(word);
    return n && n < 11 && strspn(word, "0123456789") == n && *word != '0' && strtoll(word, NULL, 10) <= NUMBER_MAX;
}

static int read_share(struct policy_reader *r, const struct rp_event *e, const struct rp_rule_text *t,
                      struct rp_rule *rule)
{
    const int is_number =
        e->plain && *e->text >= '0' && *e->text <= '9' && strspn(e->text, "0123456789.e-") == strlen(e->text);
    char *end = NULL;
    rule->share = is_number ? strtod(e->text, &end) : -1;
    return is_number && !*end && rule->share <= 1 && !has_zero_ahead(e->text) ? 0 : fail_value(r, e, t);
}

static int read_flag(struct policy_reader *r, const struct rp_event *e, const struct rp_rule_text *t,
                     struct rp_rule *rule)
{
    if (e->plain && strcmp(e->text, "false") == 0)
        return NOTE(r, e, "%s: false is not a rule; leave it out", t->id);
    if (!e->plain || strcmp(e->text, "true") != 0)
        return fail_value(r, e, t);
    rule->number = 1;
    return 0;
}

/* "" for the level that no policy can require. */
static const char *level_name(int i)
{
    static const char *const names[] = {
#define RP_LEVEL_NAME(name) #name,
        RP_LEVELS(RP_LEVEL_NAME)};
    return i == RP_LEVEL_claimed ? "" : names[i];
}

static const char *precision_name(int i)
{
    static const char *const names[] = {
#define RP_PRECISION_NAME(name) #name,
        RP_PRECISIONS(RP_PRECISION_NAME)};
    return names[i];
}
#define PRECISION(name) +1
#define PRECISIONS (0 RP_PRECISIONS(PRECISION))

/* Files of recipes without the folder and .yaml: "bert_fp32", "gpt/NAME"; "" for others. */
static const char *recipe_name(int i)
{
    static char name[128];
    const char *file = rp_embed_table[i].name, *folder = "recipes/";
    *name = 0;
    if (strncmp(file, folder, strlen(folder)) == 0 && rp_ends_with(file, ".yaml"))
        RP_FORMAT(name, "%.*s", (int)(strlen(file) - strlen(folder) - strlen(".yaml")), file + strlen(folder));
    return name;
}

static int count_embedded(void)
{
    int n = 0;
    while (rp_embed_table[n].name)
        n++;
    return n;
}

/* Nothing that this program knows by another spelling; a precision that it does not know may be one of a later
 * version. */
static int check_word(struct policy_reader *r, const struct rp_event *e, int rule)
{
    char shown[72];
    const char *const word = e->text;
    if (rule == RP_RULE_recipes && !rp_is_sha256(word) && find_index(word, recipe_name, count_embedded()) < 0) {
        struct rp_nearest nearest = {.word = word};
        char best[128] = "";
        for (int i = 0, n = count_embedded(); i < n; i++) {
            const char *name = recipe_name(i), *had = nearest.best;
            if (*name)
                rp_nearest_try(&nearest, name);
            if (nearest.best && nearest.best != had)
                nearest.best = RP_FORMAT(best, "%s", name);
        }
        return NOTE(r, e, "recipes: '%s' is neither a recipe of this program nor a SHA-256 of one%s%s%s",
                    rp_excerpt(shown, word), *best ? ": did you mean '" : "", best,
                    *best ? "'?" : "; 'repro recipes' lists them");
    }
    if (rule == RP_RULE_precisions && find_index(word, precision_name, PRECISIONS) < 0) {
        const char *near = find_nearest(word, precision_name, PRECISIONS);
        return near ? NOTE(r, e, "precisions: unknown precision '%s': did you mean '%s'?", rp_excerpt(shown, word),
                           near)
                    : 0;
    }
    if (rule == RP_RULE_levels && find_index(word, level_name, RP_LEVEL_COUNT) < 0) {
        const char *near = find_nearest(word, level_name, RP_LEVEL_COUNT);
        return NOTE(r, e, "levels: %s '%s'%s%s%s",
                    strcmp(word, "claimed") == 0 ? "nothing can require" : "unknown level", rp_excerpt(shown, word),
                    near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    return 0;
}

static int read_list(struct policy_reader *r, const struct rp_event *start, const struct rp_rule_text *t,
                     struct rp_rule *rule)
{
    const int id = (int)(t - texts);
    int good = 1;
    for (int n = 0;; n++) {
        struct rp_event e;
        if (read_event(r, &e) < 0)
            return -1;
        if (e.type == YAML_SEQUENCE_END_EVENT)
            return n ? 0 : NOTE(r, start, "%s: an empty list matches nothing; leave the rule out", t->id);
        if (e.type != YAML_SCALAR_EVENT || !*e.text || rule->n == RP_POLICY_WORDS ||
            (t->type == 'D' && !rp_is_sha256(e.text)) || (t->type == 'W' && !is_count(e.text))) {
            if (good) /* the first tells what the list takes */
                fail_value(r, &e, t);
            good = 0;
            rp_event_fini(&e);
            if (skip_rest(r, e.type) < 0)
                return -1;
            continue;
        }
        check_word(r, &e, id);
        rule->word = rp_realloc(rule->word, (size_t)(rule->n + 1) * sizeof *rule->word);
        rule->word[rule->n++] = e.text; /* ownership moves */
    }
}

/* "id: state" until the end of the mapping. */
static int read_checks(struct policy_reader *r, const struct rp_event *start)
{
    for (int n = 0;; n++) {
        struct rp_event key, value;
        if (read_event(r, &key) < 0)
            return -1;
        if (key.type == YAML_MAPPING_END_EVENT)
            return n ? 0 : NOTE(r, start, "checks: the mapping is empty; name a check or leave the rule out");
        if (!key.text)
            return FAIL(r, &key, "checks: expected the name of a check");
        int id = find_name(r, &key, "check", check_name, RP_CHECK_COUNT), state = 0;
        rp_event_fini(&key);
        if (id >= 0 && r->out->worst[id])
            NOTE(r, &key, "checks: %s is given twice", rp_check_name(id));
        if (read_event(r, &value) < 0)
            return -1;
        for (int i = RP_CHECK_PASSED; i <= RP_CHECK_WARNING && value.text; i++)
            if (strcmp(states[i], value.text) == 0)
                state = i;
        rp_event_fini(&value);
        if (id >= 0 && !state)
            NOTE(r, &value, "checks: %s: expected passed, note or warning: the worst that is allowed",
                 rp_check_name(id));
        if (skip_rest(r, value.type) < 0)
            return -1;
        if (id >= 0)
            r->out->worst[id] = state;
    }
}

static int read_rule(struct policy_reader *r, int id)
{
    const struct rp_rule_text *t = &texts[id];
    struct rp_rule *rule = &r->out->rule[id];
    struct rp_event e;
    int failed;
    if (read_event(r, &e) < 0)
        return -1;
    rule->line = e.line;
    rule->col = e.col;
    if (e.type == YAML_SCALAR_EVENT && strchr("INPB", t->type))
        failed = t->type == 'B'   ? read_flag(r, &e, t, rule)
                 : t->type == 'P' ? read_share(r, &e, t, rule)
                                  : read_number(r, &e, t, rule);
    else if (e.type == YAML_SCALAR_EVENT && strchr("RV", t->type))
        failed = (t->type == 'R' ? read_rate : read_version)(r, &e, t, rule);
    else if (e.type == YAML_SEQUENCE_START_EVENT && strchr("LDEW", t->type))
        failed = read_list(r, &e, t, rule);
    else if (e.type == YAML_MAPPING_START_EVENT && t->type == 'M')
        failed = read_checks(r, &e);
    else
        failed = fail_value(r, &e, t) < 0 ? -1 : skip_rest(r, e.type);
    rp_event_fini(&e);
    return failed;
}

static int read_rules(struct policy_reader *r)
{
    for (int n = 0;; n++) {
        struct rp_event e;
        if (read_event(r, &e) < 0)
            return -1;
        if (e.type == YAML_MAPPING_END_EVENT)
            return n ? 0 : FAIL(r, &e, "the policy has no rules: it would accept every bundle");
        if (!e.text)
            return FAIL(r, &e, "expected the name of a rule");
        int id = find_name(r, &e, "rule", rule_name, RP_RULE_COUNT);
        rp_event_fini(&e);
        const int twice = id >= 0 && r->out->rule[id].line;
        if (twice)
            NOTE(r, &e, "%s is given twice, first in line %d", texts[id].id, r->out->rule[id].line);
        if ((id < 0 || twice ? skip_value(r) : read_rule(r, id)) < 0)
            return -1;
    }
}

int rp_policy_parse(struct rp_policy *out, const char *data, size_t size, const char *file, struct rp_err *err)
{
    struct policy_reader r = {.out = out};
    *out = (struct rp_policy){0};
    if (size > RP_POLICY_MAX) {
        rp_fail(err, RP_MALFORMED, "%zu bytes: a policy has at most %u", size, RP_POLICY_MAX);
        return rp_at(file, 1, 1, err);
    }
    if (rp_events_open(&r.events, data, size, file, "policy", err) < 0)
        return -1;
    int failed = rp_events_begin(&r.events, "rules like 'min_steps: 100'") < 0 || read_rules(&r) < 0 ||
                 rp_events_end(&r.events) < 0;
    rp_events_close(&r.events);
    if (failed && r.errors.size) /* it ends here */
        note_error(&r);
    if (r.errors.size) {
        char more[40] = "";
        if (r.left_out)
            RP_FORMAT(more, "; and %d more", r.left_out);
        failed = rp_fail(err, RP_USAGE, "%s%s", r.errors.data, more) < 0;
    }
    rp_buf_fini(&r.errors);
    if (failed)
        rp_policy_fini(out);
    return failed ? -1 : 0;
}

/* A name that is in no trust store, or a key file that is not there, is not another signer: it matches nobody. One
 * that has expired is for the rule itself. */
static int check_signers(const struct rp_policy *p, const char *file, struct rp_err *err)
{
    static const int rules[] = {RP_RULE_signed_by, RP_RULE_countersigned_by};
    RP_BUF errors = {0};
    int left_out = 0;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        for (int k = 0; k < p->rule[rules[i]].n; k++) {
            char print[RP_FINGERPRINT_SIZE];
            struct rp_err why = {0};
            if (rp_trust_resolve(print, p->rule[rules[i]].word[k], &why) == 0 || why.code == RP_SIGNATURE)
                continue;
            if (errors.size && errors.size + strlen(why.msg) > ERRORS_BYTES)
                left_out++;
            else
                rp_buf_printf(&errors, "%s%d:%d: %s: %s", errors.size ? "; " : "", p->rule[rules[i]].line,
                              p->rule[rules[i]].col, texts[rules[i]].id, why.msg);
        }
    if (!errors.size)
        return 0;
    if (left_out)
        rp_buf_printf(&errors, "; and %d more", left_out);
    return rp_fail(err, RP_USAGE, "%s:%s", file, errors.data);
}

int rp_policy_load(struct rp_policy *out, const char *path, struct rp_err *err)
{
    RP_BUF bytes = {0};
    char safe[200];
    if (rp_read_file(&bytes, path, RP_POLICY_MAX + 1, err) < 0)
        return rp_wrap(err, "--policy");
    if (rp_policy_parse(out, rp_buf_text(&bytes), bytes.size, rp_ascii(safe, sizeof safe, path), err) < 0)
        return -1;
    if (check_signers(out, safe, err) == 0)
        return 0;
    rp_policy_fini(out);
    return -1;
}
