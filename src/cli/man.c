/* The man page, in the man(7) macros. */
#include "cli/help.h"

#include <ctype.h>
#include <string.h>

/* Text between macros: a leading dot or quote would be a macro, a dash a hyphen, a backslash an escape. */
static void put_escaped(struct rp_buf *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int line_start = i == 0 || text[i - 1] == '\n';
        if (line_start && (text[i] == '.' || text[i] == '\''))
            rp_buf_puts(out, "\\&");
        if (text[i] == '\\')
            rp_buf_puts(out, "\\e");
        else if (text[i] == '-')
            rp_buf_puts(out, "\\-");
        else if (text[i] == '`')
            rp_buf_puts(out, "\\(cq");
        else
            rp_buf_add(out, text + i, 1);
    }
}

static void puts_escaped(struct rp_buf *out, const char *text)
{
    put_escaped(out, text, strlen(text));
}

static void put_options(struct rp_buf *out, const struct rp_opt *o)
{
    for (; o && o->name; o++) {
        if (!*o->name)
            continue;
        const char *arg = rp_opt_arg(o);
        rp_buf_puts(out, ".TP\n");
        if (o->letter)
            rp_buf_printf(out, "\\fB\\-%c\\fR, ", o->letter);
        rp_buf_puts(out, "\\fB\\-\\-");
        puts_escaped(out, o->name);
        rp_buf_puts(out, "\\fR");
        if (arg) {
            rp_buf_puts(out, " \\fI");
            puts_escaped(out, arg);
            rp_buf_puts(out, "\\fR");
        }
        rp_buf_puts(out, "\n");
        puts_escaped(out, o->help);
        rp_buf_puts(out, "\n");
    }
}

/* Paragraphs and items ("- ..."), with indented lines as literal blocks. */
static void put_details(struct rp_buf *out, const char *text)
{
    int literal = 0;
    rp_buf_puts(out, ".PP\n");
    for (size_t n; *text; text += n + (text[n] == '\n')) {
        n = strcspn(text, "\n");
        int want = *text == ' ';
        if (want != literal)
            rp_buf_puts(out, want ? ".nf\n" : ".fi\n.PP\n");
        if (n == 0 && !literal)
            rp_buf_puts(out, ".PP");
        literal = want;
        if (text[0] == '-' && text[1] == ' ') {
            rp_buf_puts(out, ".IP \\(bu 2\n");
            put_escaped(out, text + 2, n - 2);
        } else {
            put_escaped(out, text, n);
        }
        rp_buf_puts(out, "\n");
    }
    if (literal)
        rp_buf_puts(out, ".fi\n");
}

static void put_command(struct rp_buf *out, const struct rp_command *c)
{
    rp_buf_puts(out, ".SS repro ");
    puts_escaped(out, c->name);
    rp_buf_printf(out, "%s%s", c->run ? "" : " COMMAND", *c->operands ? " " : "");
    puts_escaped(out, c->operands);
    rp_buf_puts(out, "\n");
    char first = (char)toupper((unsigned char)c->summary[0]);
    put_escaped(out, &first, 1);
    puts_escaped(out, c->summary + 1);
    rp_buf_puts(out, ".\n");
    if (c->details && *c->details)
        put_details(out, c->details);
    put_options(out, c->opts);
}

/* ---- sections that every page has ---- */

static void put_row(struct rp_buf *out, const char *name, const char *text)
{
    rp_buf_puts(out, ".TP\n\\fB");
    puts_escaped(out, name);
    rp_buf_puts(out, "\\fR\n");
    puts_escaped(out, text);
    rp_buf_puts(out, "\n");
}

static void put_ends(struct rp_buf *out)
{
    rp_buf_puts(out, ".SH EXIT STATUS\n");
#define X(code, status, text) rp_buf_printf(out, ".TP\n\\fB%d\\fR\n%s\n", status, text);
    RP_CODES(X)
#undef X
    rp_buf_puts(out, ".SH FILES\n");
#define X(name, text) put_row(out, name, text);
    RP_FILES(X)
    rp_buf_puts(out, ".SH ENVIRONMENT\n");
    RP_ENVIRONMENT(X)
#undef X
}

/* ---- pages ---- */

void rp_man_page(struct rp_buf *out)
{
    rp_buf_puts(out, ".TH REPRO 1 \"\" \"repro\" \"User Commands\"\n.SH NAME\nrepro \\- " RP_TAGLINE "\n"
                     ".SH SYNOPSIS\n.B repro\n\\fICOMMAND\\fR [\\fIoptions\\fR] [\\fIoperands\\fR]\n.SH COMMANDS\n");
    for (const struct rp_command *const *c = rp_commands; *c; c++)
        put_command(out, *c);
    rp_buf_puts(out, ".SH OPTIONS OF EVERY COMMAND\n");
    put_options(out, rp_opts_common);
    rp_buf_puts(out, ".SH EXAMPLES\n");
    put_details(out, RP_FIRST_STEPS);
    put_ends(out);
}

/* The sections of a command, and of the subcommands of a group. Its examples, the last part of `details`, are a section
 * of their own. */
static void put_sections(struct rp_buf *out, const struct rp_command *c)
{
    static const char begin[] = "Examples:\n";
    const char *details = c->details ? c->details : "", *examples = strstr(details, begin);
    RP_FREE char *text = rp_asprintf("%.*s", (int)(examples ? (size_t)(examples - details) : strlen(details)), details);
    rp_buf_puts(out, ".SH DESCRIPTION\n");
    puts_escaped(out, c->summary);
    rp_buf_puts(out, ".\n");
    if (*text)
        put_details(out, text);
    for (const struct rp_command *const *s = rp_commands; *s; s++)
        if (rp_command_is_sub(*s, c))
            put_command(out, *s);
    rp_buf_puts(out, ".SH OPTIONS\n");
    put_options(out, c->opts);
    put_options(out, rp_opts_common);
    if (!examples)
        return;
    rp_buf_puts(out, ".SH EXAMPLES\n");
    put_details(out, examples + strlen(begin));
}

void rp_man_command(struct rp_buf *out, const struct rp_command *c)
{
    RP_FREE char *name = rp_asprintf("repro-%s", c->name);
    for (char *p = name; *p; p++)
        *p = *p == ' ' ? '-' : *p;
    rp_buf_puts(out, ".TH ");
    for (const char *p = name; *p; p++)
        rp_buf_printf(out, "%c", toupper((unsigned char)*p));
    rp_buf_puts(out, " 1 \"\" \"repro\" \"User Commands\"\n.SH NAME\n");
    puts_escaped(out, name);
    rp_buf_puts(out, " \\- ");
    puts_escaped(out, c->summary);
    rp_buf_printf(out, "\n.SH SYNOPSIS\n.B repro %s\n", c->name);
    puts_escaped(out, c->operands);
    rp_buf_puts(out, " [\\fIoptions\\fR]\n");
    put_sections(out, c);
    put_ends(out);
    rp_buf_puts(out, ".SH SEE ALSO\nrepro(1)\n");
}
