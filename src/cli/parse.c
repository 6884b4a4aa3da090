#include "cli/parse.h"

#include "base/buf.h"
#include "base/nearest.h"
#include "recipe/keys.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 320 /* options of a command, with the keys of recipes that have none */

const struct rp_opt rp_opts_common[] = {
    {.name = "json", .type = RP_OPT_FLAG, .offset = offsetof(struct rp_cli, json),
     .help = "result and errors as one JSON document"},
    {.name = "quiet", .letter = 'q', .type = RP_OPT_FLAG, .offset = offsetof(struct rp_cli, quiet),
     .help = "no progress, no messages but errors"},
    {.name = "help", .letter = 'h', .type = RP_OPT_FLAG, .offset = offsetof(struct rp_cli, help),
     .help = "show this help"},
    {0},
};

static const struct rp_opt no_opts[] = {{0}};

struct parser {
    struct rp_cli *cli;
    const struct rp_opt *own;
    unsigned char seen[ROWS_MAX]; /* of the command's own rows */
};

static int takes_value(const struct rp_opt *o)
{
    return o->type != RP_OPT_FLAG;
}

/* A row by name (length n) or, with name NULL, by letter. *base becomes the struct that its offset counts from. */
static const struct rp_opt *find_option(const struct parser *p, const char *name, size_t n, char letter, void **base)
{
    const struct rp_opt *const tables[] = {p->own, rp_opts_common};
    for (int t = 0; t < 2; t++)
        for (const struct rp_opt *o = tables[t]; o->name; o++) {
            int hit = name ? n > 0 && strlen(o->name) == n && memcmp(o->name, name, n) == 0 : o->letter == letter;
            if (hit) {
                *base = t == 0 ? p->cli->opts : (void *)p->cli;
                return o;
            }
        }
    return NULL;
}

/* Of commands whose -s sets recipe keys: what other programs have as an option is often a key. */
static int unknown_or_key(const char *word, struct rp_err *err)
{
    char form[RP_KEY_FORM];
    RP_FREE char *key = rp_strdup(word + strspn(word, "-"));
    for (char *c = key; *c; c++)
        *c = *c == '-' ? '_' : *c;
    const int k = strlen(key) > 1 ? rp_key_nearest(key) : -1;
    const char *dot = k < 0 ? NULL : strrchr(rp_key_at(k)->name, '.');
    if (!dot || rp_edit_distance(key, dot + 1) > 1)
        return rp_fail(err, RP_USAGE,
                       "unknown option '%s'; --set KEY=VALUE sets any key of the recipe ('repro recipes keys')", word);
    return rp_fail(err, RP_USAGE, "unknown option '%s'; did you mean '--set %s=VALUE' (%s)?", word, rp_key_at(k)->name,
                   rp_key_form(form, k));
}

static int unknown_option(const struct parser *p, const char *arg, size_t n, struct rp_err *err)
{
    int sets = 0;
    const struct rp_opt *const tables[] = {p->own, rp_opts_common};
    RP_FREE char *word = rp_asprintf("%.*s", (int)n, arg);
    struct rp_nearest near = {.word = word + strspn(word, "-")};
    for (int t = 0; t < 2; t++)
        for (const struct rp_opt *o = tables[t]; o->name; o++)
            if (*o->name) {
                rp_nearest_try(&near, o->name);
                sets |= strcmp(o->name, "set") == 0 && o->letter == 's';
            }
    if (near.best)
        return rp_fail(err, RP_USAGE, "unknown option '%s'; did you mean '--%s'?", word, near.best);
    if (sets)
        return unknown_or_key(word, err);
    return rp_fail(err, RP_USAGE, "unknown option '%s'", word);
}

/* Is `value` one of the words of "a|b|c"? */
static int is_choice(const char *choices, const char *value)
{
    size_t n = strlen(value);
    for (const char *c = choices;; c++) {
        size_t len = strcspn(c, "|");
        if (len == n && memcmp(c, value, n) == 0)
            return 1;
        c += len;
        if (!*c)
            return 0;
    }
}

static int store_int(const struct rp_opt *o, long *out, const char *value, struct rp_err *err)
{
    char *end;
    errno = 0;
    long v = strtol(value, &end, 10);
    if (end == value || *end || errno || v < o->lo || v > o->hi || *value == ' ' || *value == '\t')
        return rp_fail(err, RP_USAGE, "option '--%s': '%s' is not a whole number from %ld to %ld", o->name, value,
                       o->lo, o->hi);
    *out = v;
    return 0;
}

static int store_value(struct parser *p, const struct rp_opt *o, void *base, const char *value, struct rp_err *err)
{
    void *field = (char *)base + o->offset;
    RP_BUG_IF(base == p->cli->opts && o - p->own >= ROWS_MAX);
    if (base == p->cli->opts && o->type != RP_OPT_FLAG && o->type != RP_OPT_LIST && p->seen[o - p->own]++)
        return rp_fail(err, RP_USAGE, "option '--%s' is given twice", o->name);
    struct rp_opt_list *list = field;
    switch (o->type) {
    case RP_OPT_FLAG:
        *(int *)field = 1;
        return 0;
    case RP_OPT_INT:
        return store_int(o, field, value, err);
    case RP_OPT_LIST:
        list->item = rp_realloc(list->item, ((size_t)list->n + 1) * sizeof *list->item);
        list->item[list->n++] = value;
        return 0;
    case RP_OPT_CHOICE:
        if (!is_choice(o->choices, value))
            return rp_fail(err, RP_USAGE, "option '--%s': '%s' is not one of %s", o->name, value, o->choices);
        /* fall through */
    case RP_OPT_TEXT:
        *(const char **)field = o->standard && strcmp(value, "-") == 0 ? NULL : value;
        return 0;
    }
    return rp_fail(err, RP_BUG, "option '--%s' has no type", o->name);
}

/* The value that follows in its own argument. One that looks like a long option is far more often a forgotten value. */
static int next_value(const struct rp_opt *o, char **argv, int *i, int argc, const char **value, struct rp_err *err)
{
    if (*i + 1 >= argc || strncmp(argv[*i + 1], "--", 2) == 0)
        return rp_fail(err, RP_USAGE, "option '--%s' needs a value: --%s=%s", o->name, o->name,
                       o->arg ? o->arg : "VALUE");
    *value = argv[++*i];
    return 0;
}

static int parse_long_option(struct parser *p, char **argv, int *i, int argc, struct rp_err *err)
{
    const char *arg = argv[*i], *name = arg + 2, *value = NULL;
    size_t n = strcspn(name, "=");
    void *base;
    const struct rp_opt *o = find_option(p, name, n, 0, &base);
    if (!o)
        return unknown_option(p, arg, n + 2, err);
    if (name[n] == '=')
        value = name + n + 1;
    if (!takes_value(o) && value)
        return rp_fail(err, RP_USAGE, "option '--%s' takes no value", o->name);
    if (takes_value(o) && !value && next_value(o, argv, i, argc, &value, err) < 0)
        return -1;
    return store_value(p, o, base, value ? value : "", err);
}

static int parse_short_options(struct parser *p, char **argv, int *i, int argc, struct rp_err *err)
{
    for (const char *c = argv[*i] + 1; *c; c++) {
        const char *value = "";
        void *base;
        const struct rp_opt *o = find_option(p, NULL, 0, *c, &base);
        if (!o && c == argv[*i] + 1 && c[1]) /* "-steps" was meant as a long option */
            return unknown_option(p, argv[*i], strcspn(argv[*i], "="), err);
        if (!o)
            return rp_fail(err, RP_USAGE, "unknown option '-%c'", *c);
        if (!takes_value(o)) {
            if (store_value(p, o, base, "", err) < 0)
                return -1;
            continue;
        }
        if (c[1])
            value = c + 1;
        else if (next_value(o, argv, i, argc, &value, err) < 0)
            return -1;
        return store_value(p, o, base, value, err);
    }
    return 0;
}

/* How many operands: "A [B]" 1 to 2, "A B..." 2 or more, "A [B...]" and "-- A [B...]" 1 or more, "A | --option" 0 or
 * 1. */
static void count_operands(const char *operands, int *least, int *most)
{
    *least = *most = 0;
    for (const char *p = operands; *p && *p != '|'; p += strspn(p, " ")) {
        size_t n = strcspn(p, " ");
        if (n == 2 && strncmp(p, "--", 2) == 0) { /* after which nothing is an option */
            p += n;
            continue;
        }
        *least += *p != '[' && !strchr(p, '|');
        *most = memmem(p, n, "...", 3) ? INT_MAX : *most + 1;
        p += n;
    }
}

/* Whether its recipe is an option, where other commands have an operand. */
static int names_recipe(const struct rp_command *c)
{
    for (const struct rp_opt *o = c->opts; o && o->name; o++)
        if (strcmp(o->name, "recipe") == 0)
            return 1;
    return 0;
}

static int check_operands(const struct rp_cli *cli, struct rp_err *err)
{
    const struct rp_command *c = cli->command;
    int least, most;
    count_operands(c->operands, &least, &most);
    if (cli->argc < least)
        return rp_fail(err, RP_USAGE, "missing operand: repro %s %s", c->name, c->operands);
    if (cli->argc > most)
        return rp_fail(err, RP_USAGE, "unexpected operand '%s': repro %s%s%s%s", cli->argv[most], c->name,
                       *c->operands ? " " : "", c->operands, names_recipe(c) ? " --recipe RECIPE" : "");
    return 0;
}

/* Everything after the command's words. */
static int parse_rest(struct rp_cli *cli, int argc, char **argv, struct rp_err *err)
{
    struct parser p = {.cli = cli, .own = cli->command->opts ? cli->command->opts : no_opts};
    int operands_only = 0;
    cli->opts = rp_alloc(cli->command->opts_size);
    cli->argv = rp_alloc(((size_t)argc + 1) * sizeof *cli->argv);
    for (int i = 0; i < argc && !cli->help; i++) {
        int failed = 0;
        if (!operands_only && strcmp(argv[i], "--") == 0)
            operands_only = 1;
        else if (!operands_only && strncmp(argv[i], "--", 2) == 0)
            failed = parse_long_option(&p, argv, &i, argc, err) < 0;
        else if (!operands_only && argv[i][0] == '-' && argv[i][1])
            failed = parse_short_options(&p, argv, &i, argc, err) < 0;
        else
            cli->argv[cli->argc++] = argv[i];
        if (failed)
            return -1;
    }
    return cli->help || !cli->command->run ? 0 : check_operands(cli, err);
}

static const struct rp_command *find_exact(const char *name)
{
    for (const struct rp_command *const *c = rp_commands; *c; c++)
        if (strcmp((*c)->name, name) == 0)
            return *c;
    return NULL;
}

/* `prefix` is "" for commands, "key " for the subcommands of key. */
static const struct rp_command *unknown_command(const char *prefix, const char *word, struct rp_err *err)
{
    RP_FREE char *name = rp_asprintf("%s%s", prefix, word);
    struct rp_nearest near = {.word = name};
    for (const struct rp_command *const *c = rp_commands; *c; c++)
        if (strncmp((*c)->name, prefix, strlen(prefix)) == 0 && (*prefix || !strchr((*c)->name, ' ')))
            rp_nearest_try(&near, (*c)->name);
    if (near.best)
        return rp_fail_null(err, RP_USAGE, "unknown command '%s'; did you mean '%s'?", name, near.best);
    return rp_fail_null(err, RP_USAGE, "unknown command '%s'", name);
}

static int has_subcommands(const char *prefix)
{
    for (const struct rp_command *const *c = rp_commands; *c; c++)
        if (strncmp((*c)->name, prefix, strlen(prefix)) == 0)
            return 1;
    return 0;
}

const struct rp_command *rp_cli_find(const char *const *words, int n, int *used, struct rp_err *err)
{
    const struct rp_command *c = find_exact(words[0]);
    *used = 1;
    if (!c || strchr(words[0], ' '))
        return unknown_command("", words[0], err);
    if (n < 2)
        return c;
    RP_FREE char *prefix = rp_asprintf("%s ", words[0]), *name = rp_asprintf("%s%s", prefix, words[1]);
    const struct rp_command *sub = find_exact(name);
    if (!sub && has_subcommands(prefix) && !*c->operands)
        return unknown_command(prefix, words[1], err);
    *used = sub ? 2 : 1;
    return sub ? sub : c;
}

/* Before the command only flags that every command has, and --version. */
static int parse_leading_option(struct rp_cli *cli, char *arg, int *version, struct rp_err *err)
{
    struct parser p = {.cli = cli, .own = no_opts};
    int i = 0;
    if (strcmp(arg, "--version") == 0 || strcmp(arg, "-V") == 0) {
        *version = 1;
        return 0;
    }
    return strncmp(arg, "--", 2) == 0 ? parse_long_option(&p, &arg, &i, 1, err)
                                      : parse_short_options(&p, &arg, &i, 1, err);
}

int rp_cli_parse(struct rp_cli *cli, int argc, char **argv, struct rp_err *err)
{
    const char *words[2];
    int i = 1, n = 0, used, version = 0;
    for (; i < argc && argv[i][0] == '-'; i++)
        if (parse_leading_option(cli, argv[i], &version, err) < 0)
            return -1;
    if (version)
        words[n++] = "version";
    for (int k = i; k < argc && n < 2 && argv[k][0] != '-'; k++)
        words[n++] = argv[k];
    if (n == 0)
        return cli->help ? 0 : rp_fail(err, RP_USAGE, "no command given");
    cli->command = rp_cli_find(words, version ? 1 : n, &used, err);
    if (!cli->command) {
        cli->command = find_exact(words[0]); /* of an unknown subcommand: its help lists the others */
        return -1;
    }
    i += version ? 0 : used;
    return parse_rest(cli, argc - i, argv + i, err);
}

void rp_cli_fini(struct rp_cli *cli)
{
    for (const struct rp_opt *o = cli->command ? cli->command->opts : NULL; o && o->name && cli->opts; o++)
        if (o->type == RP_OPT_LIST)
            free(((struct rp_opt_list *)(void *)((char *)cli->opts + o->offset))->item);
    free(cli->opts);
    free(cli->argv);
    json_decref(cli->result);
    *cli = (struct rp_cli){0};
}
