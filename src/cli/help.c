#include "cli/help.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define WIDTH 80        /* of filled text */
#define COMMAND_COLUMN 18
#define OPTION_COLUMN 30
#define SCREEN_OPTIONS 20 /* of a screen of 25 lines with an empty one before them */
#define SCREEN_COLUMN 26 /* of --help, which has one line for each option */

const char *rp_opt_arg(const struct rp_opt *o)
{
    if (o->type == RP_OPT_FLAG)
        return NULL;
    return o->arg ? o->arg : o->choices ? o->choices : o->type == RP_OPT_INT ? "N" : "VALUE";
}

const char *rp_opt_choices(const struct rp_opt *o)
{
    if (o->choices)
        return o->choices;
    /* "a|b", but not "KEY|FILE" */
    return o->arg && strchr(o->arg, '|') && islower((unsigned char)o->arg[0]) ? o->arg : NULL;
}

int rp_command_is_sub(const struct rp_command *c, const struct rp_command *group)
{
    const char *space = strchr(c->name, ' ');
    if (!group)
        return space != NULL;
    size_t n = strlen(group->name);
    return space && (size_t)(space - c->name) == n && memcmp(c->name, group->name, n) == 0;
}

/* Words of `text` (length n) from column `at` on, continued at `indent`; ends with a newline. */
static void put_filled(struct rp_buf *out, int at, int indent, const char *text, size_t n)
{
    const char *end = text + n;
    int first = 1;
    while (text < end) {
        while (text < end && isspace((unsigned char)*text))
            text++;
        const char *word = text;
        while (text < end && !isspace((unsigned char)*text))
            text++;
        int length = (int)(text - word);
        if (length == 0)
            break;
        if (!first && at + 1 + length >= WIDTH) {
            rp_buf_printf(out, "\n%*s", indent, "");
            at = indent;
            first = 1;
        }
        rp_buf_printf(out, "%s%.*s", first ? "" : " ", length, word);
        at += length + !first;
        first = 0;
    }
    rp_buf_puts(out, "\n");
}

/* "  left      right, filled": right moves to its own line when left is too long. */
static void put_row(struct rp_buf *out, int column, const char *left, const char *right)
{
    int at = 2 + (int)strlen(left);
    rp_buf_printf(out, "  %s", left);
    if (at + 2 > column)
        rp_buf_printf(out, "\n%*s", column, "");
    else
        rp_buf_printf(out, "%*s", column - at, "");
    put_filled(out, column, column, right, strlen(right));
}

static int is_item(const char *line)
{
    return line[0] == '-' && line[1] == ' ';
}

/* Paragraphs and items ("- ...") are filled, indented lines are kept. */
static void put_details(struct rp_buf *out, const char *text)
{
    while (*text) {
        const char *line = text;
        size_t n = strcspn(text, "\n");
        if (n == 0) {
            rp_buf_puts(out, "\n");
            text++;
            continue;
        }
        if (*line == ' ') {
            rp_buf_printf(out, "%.*s\n", (int)n, line);
        } else { /* up to an empty or an indented line, or an item */
            while (text[n] && text[n + 1] && text[n + 1] != '\n' && text[n + 1] != ' ' && !is_item(text + n + 1))
                n += 1 + strcspn(text + n + 1, "\n");
            put_filled(out, 0, is_item(line) ? 2 : 0, line, n);
        }
        text = line + n + (line[n] == '\n');
    }
}

/* "-o, --output FILE" */
static char *option_name(const struct rp_opt *o)
{
    const char *arg = rp_opt_arg(o);
    const char letter[] = {'-', o->letter, ',', ' ', 0};
    return rp_asprintf("%s--%s%s%s", o->letter ? letter : "    ", o->name, arg ? " " : "", arg ? arg : "");
}

static void put_option_rows(struct rp_buf *out, const struct rp_opt *o)
{
    for (; o && o->name; o++) {
        if (!*o->name)
            continue;
        RP_FREE char *name = option_name(o);
        put_row(out, OPTION_COLUMN, name, o->help);
    }
}

static void put_sentence(struct rp_buf *out, const char *s)
{
    RP_FREE char *text = rp_asprintf("%c%s.", toupper((unsigned char)s[0]), s + 1);
    put_filled(out, 0, 0, text, strlen(text));
}

static void put_usage(struct rp_buf *out, const struct rp_command *c)
{
    const int last = strncmp(c->operands, "-- ", 3) == 0; /* nothing after it is an option */
    rp_buf_printf(out, "Usage: repro %s%s%s%s%s%s\n", c->name, last ? " [options]" : "", c->run ? "" : " COMMAND",
                  *c->operands ? " " : "", c->operands, last ? "" : " [options]");
}

/* group NULL: the commands that are not subcommands. */
static int is_listed(const struct rp_command *c, const struct rp_command *group)
{
    return group ? rp_command_is_sub(c, group) : !rp_command_is_sub(c, NULL);
}

/* titles: of all commands, where they are listed under them; or NULL. */
static void put_command_lines(struct rp_buf *out, const struct rp_command *group,
                              const struct rp_command_section *titles)
{
    size_t column = COMMAND_COLUMN - 2;
    for (const struct rp_command *const *c = rp_commands; *c; c++)
        if (is_listed(*c, group) && strlen((*c)->name) + 2 > column)
            column = strlen((*c)->name) + 2;
    for (const struct rp_command *const *c = rp_commands; *c; c++) {
        if (titles && *c == titles->first)
            rp_buf_printf(out, "%s%s:\n", *c == *rp_commands ? "" : "\n", titles++->title);
        if (is_listed(*c, group))
            rp_buf_printf(out, "  %-*s%s\n", (int)column, (*c)->name, (*c)->summary);
    }
}

/* The options from here on are only in `repro help COMMAND`. */
static int is_first_of_more(const struct rp_command *c, const struct rp_opt *o)
{
    return c->more && strcmp(o->name, c->more) == 0;
}

static int count_options(const struct rp_command *c)
{
    int n = 0;
    for (const struct rp_opt *o = c->opts; o && o->name && !is_first_of_more(c, o); o++)
        n += *o->name != 0;
    return n;
}

/* "FORMAT: dlperf dllogger ..." */
static void put_operand_names(struct rp_buf *out, const struct rp_command *c)
{
    RP_BUF names = {0};
    rp_help_operand_names(&names, c);
    if (!names.size)
        return;
    const int n = (int)strcspn(c->operands, " "), indent = n + 2;
    rp_buf_printf(out, "%.*s: ", n, c->operands);
    put_filled(out, indent, indent, rp_buf_text(&names), names.size);
}

void rp_help_screen(struct rp_buf *out, const struct rp_command *c)
{
    put_usage(out, c);
    put_sentence(out, c->summary);
    put_operand_names(out, c);
    RP_BUF subcommands = {0};
    const int n = count_options(c);
    put_command_lines(&subcommands, c, NULL);
    rp_buf_puts(out, n <= SCREEN_OPTIONS && (n || subcommands.size) ? "\n" : "");
    for (const struct rp_opt *o = c->opts; o && o->name && !is_first_of_more(c, o); o++) {
        if (!*o->name)
            continue;
        RP_FREE char *name = option_name(o);
        const char *end = strstr(o->help, "; ");
        rp_buf_printf(out, "  %-*s  %.*s\n", SCREEN_COLUMN - 4, name, end ? (int)(end - o->help) : (int)strlen(o->help),
                      o->help);
    }
    rp_buf_puts(out, rp_buf_text(&subcommands));
    if (c->more_are)
        rp_buf_printf(out, "\nAlso --json, -q/--quiet, -h/--help, and %s: repro help %s\n", c->more_are, c->name);
    else
        rp_buf_printf(out, "\nAlso --json, -q/--quiet, -h/--help. Explanation and examples: repro help %s\n", c->name);
}

void rp_help_command(struct rp_buf *out, const struct rp_command *c)
{
    RP_BUF subcommands = {0};
    put_usage(out, c);
    rp_buf_puts(out, "\n");
    put_sentence(out, c->summary);
    if (c->details && *c->details) {
        rp_buf_puts(out, "\n");
        put_details(out, c->details);
    }
    put_command_lines(&subcommands, c, NULL);
    if (subcommands.size)
        rp_buf_printf(out, "\nCommands:\n%s", rp_buf_text(&subcommands));
    rp_buf_puts(out, "\nOptions:\n");
    put_option_rows(out, c->opts);
    put_option_rows(out, rp_opts_common);
}

void rp_help_top_screen(struct rp_buf *out)
{
    rp_buf_puts(out, "Usage: repro COMMAND [options]   " RP_TAGLINE "\n");
    put_command_lines(out, NULL, NULL); /* the last one is help, where to go on */
}

void rp_help_top(struct rp_buf *out)
{
    rp_buf_puts(out, "Usage: repro COMMAND [options]\n\nrepro " RP_TAGLINE ".\n\n");
    put_command_lines(out, NULL, rp_command_sections);
    rp_buf_puts(out, "\nOptions of every command:\n");
    put_option_rows(out, rp_opts_common);
    rp_buf_puts(out, "\nExit status:\n");
#define X(code, status, text) put_row(out, 8, #status, text);
    RP_CODES(X)
#undef X
    rp_buf_puts(out, "\nEnvironment:\n");
#define X(name, text) put_row(out, 20, name, text);
    RP_ENVIRONMENT(X)
#undef X
    rp_buf_puts(out, "\n" RP_FIRST_STEPS);
}

static json_t *options_json(const struct rp_opt *o)
{
    json_t *list = json_array();
    for (; o && o->name; o++)
        if (*o->name) {
            char letter[2] = {o->letter, 0};
            json_array_append_new(list, json_pack("{s:s, s:s*, s:s*, s:s, s:b}", "name", o->name, "letter",
                                                  o->letter ? letter : NULL, "argument", rp_opt_arg(o), "help", o->help,
                                                  "repeatable", o->type == RP_OPT_LIST));
        }
    return list;
}

json_t *rp_help_json(const struct rp_command *only)
{
    json_t *commands = json_array(), *codes = json_object();
    for (const struct rp_command *const *c = rp_commands; *c; c++)
        if (!only || *c == only || rp_command_is_sub(*c, only))
            json_array_append_new(commands, json_pack("{s:s, s:s, s:s, s:o, s:s*}", "name", (*c)->name, "operands",
                                                      (*c)->operands, "summary", (*c)->summary, "options",
                                                      options_json((*c)->opts), "more_from", (*c)->more));
    for (int code = 0; code <= RP_INTERRUPTED; code++) {
        char number[16];
        snprintf(number, sizeof number, "%d", rp_exit_status((enum rp_code)code));
        json_object_set_new(codes, number, json_pack("{s:s, s:s}", "name", rp_code_name((enum rp_code)code), "meaning",
                                                     rp_code_meaning((enum rp_code)code)));
    }
    return json_pack("{s:o, s:o, s:o}", "commands", commands, "common_options", options_json(rp_opts_common),
                     "exit_status", codes);
}
