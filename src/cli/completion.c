/* Completion for bash, zsh and fish, made from the table: one `case` over the command typed so far, in fish one line
 * for each option.
 *
 * The command's words ("key new") select a list of options; an option that takes a value selects its choices, the names
 * of the list that it takes, or file names; so do operands, by their names in the table.
 */
#include "cli/help.h"

#include "capture/fields.h"
#include "compare/published.h"
#include "estimate/estimate.h"
#include "recipe/recipe.h"

#include <string.h>

static const char *const probes[] = {
#define PROBE(name) #name,
#include "capture/probes.def"
#undef PROBE
};

static const char *const launchers[] = {
#define LAUNCHER(row, id, ...) id,
#include "launch/launchers.def"
#undef LAUNCHER
};

/* "a|b|c" -> "a b c" */
static void put_words(struct rp_buf *out, const char *choices)
{
    for (; *choices; choices++)
        rp_buf_add(out, *choices == '|' ? " " : choices, 1);
}

static void put_recipes(struct rp_buf *out)
{
    int n;
    const struct rp_recipe_name *r = rp_recipe_names(&n);
    for (int i = 0; i < n; i++)
        rp_buf_printf(out, " %s", r[i].name);
}

static void put_names(struct rp_buf *out, const char *const *name, size_t n)
{
    for (size_t i = 0; i < n; i++)
        rp_buf_printf(out, " %s", name[i]);
}
#define PUT_NAMES(out, list) put_names(out, list, sizeof list / sizeof *list)

static void put_keys(struct rp_buf *out)
{
    int n;
    const struct rp_key *k = rp_key_table(&n);
    for (int i = 0; i < n; i++)
        rp_buf_printf(out, " %s=", k[i].name);
}

/* Words of values that are names of a list. */
static void value_words(struct rp_buf *out, const struct rp_opt *o)
{
    if ((strcmp(o->name, "set") == 0 && strcmp(o->arg, "KEY=VALUE") == 0) || strcmp(o->name, "scan") == 0)
        put_keys(out);
    else if (strcmp(o->name, "recipe") == 0)
        put_recipes(out);
    else if (strcmp(o->name, "probe") == 0)
        PUT_NAMES(out, probes);
    else if (strcmp(o->name, "launcher") == 0)
        PUT_NAMES(out, launchers);
    else if (strcmp(o->name, "machine") == 0)
        for (int i = 0; rp_machine_id(i); i++)
            rp_buf_printf(out, " %s", rp_machine_id(i));
    else if (strcmp(o->name, "explain") == 0)
        for (const struct rp_field *f = rp_fields; f->pattern; f++)
            rp_buf_printf(out, " %s", f->pattern);
    else if (strcmp(o->name, "format") == 0 && o->type == RP_OPT_TEXT) {
        rp_buf_puts(out, " ");
        put_words(out, RP_CHOICES(RP_DATA_FORMATS));
    }
}

static void put_flags(struct rp_buf *out, const struct rp_opt *o)
{
    for (; o && o->name; o++)
        if (*o->name)
            rp_buf_printf(out, " --%s", o->name);
}

/* Words for an operand; *files: file names, too. */
static void operand_words(struct rp_buf *out, const struct rp_command *c, int *files)
{
    int n;
    *files = *c->operands != 0;
    for (const struct rp_command *const *s = rp_commands; *s; s++)
        if (rp_command_is_sub(*s, c))
            rp_buf_printf(out, " %s", strchr((*s)->name, ' ') + 1);
    if (strstr(c->operands, "RECIPE"))
        put_recipes(out);
    rp_help_operand_names(out, c);
    if (strcmp(c->operands, "KIND") == 0)
        *files = 0;
    if (strcmp(c->operands, "RESULT...") == 0)
        rp_published_names(out, " published:");
    if (strcmp(c->name, "schema") == 0)
        rp_schema_names(out);
    if (strstr(c->operands, "GROUP")) {
        const struct rp_recipe_name *r = rp_recipe_names(&n);
        *files = 0;
        for (int i = 0; i < n; i++)
            if (r[i].group && !(i && r[i - 1].group && strcmp(r[i].group, r[i - 1].group) == 0))
                rp_buf_printf(out, " %s", r[i].group);
    }
    if (strstr(c->operands, "MODEL")) {
        *files = 0;
        rp_buf_puts(out, " ");
        put_words(out, RP_CHOICES(RP_MODELS));
    }
    if (strstr(c->operands, "COMMAND")) {
        *files = 0;
        for (const struct rp_command *const *s = rp_commands; *s; s++)
            if (!rp_command_is_sub(*s, NULL))
                rp_buf_printf(out, " %s", (*s)->name);
    }
}

static int takes_files(const struct rp_opt *o)
{
    const char *arg = o->type == RP_OPT_FLAG ? NULL : rp_opt_arg(o);
    return arg && (strstr(arg, "FILE") || strstr(arg, "DIR") || strstr(arg, "PATH") || strstr(arg, "BUNDLE"));
}

/* case COMMAND:OPTION in ... words=... */
static void value_cases(struct rp_buf *out, const struct rp_command *c, const struct rp_opt *o)
{
    for (; o && o->name; o++) {
        const char *choices = rp_opt_choices(o);
        RP_BUF words = {0};
        if (!*o->name || o->type == RP_OPT_FLAG)
            continue;
        value_words(&words, o);
        rp_buf_printf(out, "    \"%s:--%s\"", c->name, o->name);
        if (o->letter)
            rp_buf_printf(out, "|\"%s:-%c\"", c->name, o->letter);
        rp_buf_puts(out, ") value=1; list=\"");
        if (words.size)
            rp_buf_puts(out, rp_buf_text(&words) + 1);
        else if (choices)
            put_words(out, choices);
        rp_buf_printf(out, "\"; files=%d ;;\n", takes_files(o));
    }
}

/* case COMMAND in ... list=... opts=... */
static void list_case(struct rp_buf *out, const struct rp_command *c)
{
    RP_BUF words = {0};
    int files;
    operand_words(&words, c, &files);
    rp_buf_printf(out, "    \"%s\") list=\"%s\"; opts=\"", c->name, words.size ? words.data + 1 : "");
    put_flags(out, c->opts);
    put_flags(out, rp_opts_common);
    rp_buf_printf(out, "\"; files=%d ;;\n", files);
}

static void put_body(struct rp_buf *out)
{
    rp_buf_puts(out, "  case \"$cmd:$prev\" in\n");
    for (const struct rp_command *const *c = rp_commands; *c; c++)
        value_cases(out, *c, (*c)->opts);
    rp_buf_puts(out, "  esac\n  if [ \"$value\" = 0 ]; then\n    case \"$cmd\" in\n");
    rp_buf_puts(out, "    \"\") list=\"");
    for (const struct rp_command *const *c = rp_commands; *c; c++)
        if (!rp_command_is_sub(*c, NULL))
            rp_buf_printf(out, "%s ", (*c)->name);
    rp_buf_puts(out, "--help --version\" ;;\n");
    for (const struct rp_command *const *c = rp_commands; *c; c++)
        list_case(out, *c);
    rp_buf_puts(out, "    esac\n    case \"$cur\" in -*) list=\"$list $opts\"; files=0 ;; esac\n  fi\n");
}

/* A case pattern of the commands that have subcommands. */
static void put_groups(struct rp_buf *out)
{
    int n = 0;
    for (const struct rp_command *const *c = rp_commands; *c; c++)
        for (const struct rp_command *const *s = rp_commands; *s; s++)
            if (rp_command_is_sub(*s, *c)) {
                rp_buf_printf(out, "%s%s", n++ ? "|" : "", (*s)->name[0] ? "\"" : "");
                rp_buf_printf(out, "%s\"", (*s)->name);
            }
}

/* The body of the loop over the words before the cursor: which command they name. */
static void find_command(struct rp_buf *out)
{
    rp_buf_puts(out, "    case \"$w\" in -*) continue ;; esac\n"
                     "    if [ -z \"$cmd\" ]; then cmd=$w; continue; fi\n"
                     "    case \"$cmd $w\" in ");
    put_groups(out);
    rp_buf_puts(out, ") cmd=\"$cmd $w\" ;; esac\n"
                     "    break\n"
                     "  done\n");
    put_body(out);
}

void rp_completion_bash(struct rp_buf *out)
{
    rp_buf_puts(out, "# bash completion for repro; load with: . <(repro help --completion bash)\n"
                     "_repro() {\n"
                     "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                     "  local cmd=\"\" list=\"\" opts=\"\" files=0 value=0 i w\n"
                     "  if [ \"$cur\" = = ]; then cur=\"\"; # --opt=value arrives in three words\n"
                     "  elif [ \"$prev\" = = ]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
                     "  local colon=\"\" # so does published:NAME\n"
                     "  if [ \"$cur\" = : ]; then colon=$prev:; cur=$colon\n"
                     "  elif [ \"$prev\" = : ]; then colon=${COMP_WORDS[COMP_CWORD-2]}:; cur=$colon$cur; fi\n"
                     "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
                     "    w=${COMP_WORDS[i]}\n");
    find_command(out);
    rp_buf_puts(out, "  COMPREPLY=($(compgen -W \"$list\" -- \"$cur\"))\n"
                     "  COMPREPLY=(\"${COMPREPLY[@]#\"$colon\"}\")\n"
                     "  case \"${COMPREPLY[*]}\" in *[=:]) compopt -o nospace 2>/dev/null ;; esac\n"
                     "  if [ \"$files\" = 1 ]; then\n"
                     "    compopt -o filenames 2>/dev/null\n"
                     "    while IFS= read -r w; do COMPREPLY+=(\"$w\"); done < <(compgen -f -- \"$cur\")\n"
                     "  fi\n"
                     "}\n"
                     "complete -F _repro repro\n");
}

void rp_completion_zsh(struct rp_buf *out)
{
    rp_buf_puts(out, "#compdef repro\n"
                     "# zsh completion for repro; store as _repro in a directory of $fpath\n"
                     "_repro() {\n"
                     "  local cur=$words[CURRENT] prev=$words[CURRENT-1]\n"
                     "  local cmd=\"\" list=\"\" opts=\"\" files=0 value=0 i w\n"
                     "  case \"$cur\" in --*=*) prev=${cur%%=*}; compset -P '*='; cur=$PREFIX ;; esac\n"
                     "  for ((i = 2; i < CURRENT; i++)); do\n"
                     "    w=$words[i]\n");
    find_command(out);
    rp_buf_puts(out, "  compadd -- ${=list}\n"
                     "  if [ \"$files\" = 1 ]; then _files; fi\n"
                     "}\n"
                     "if [ \"$funcstack[1]\" = _repro ]; then _repro \"$@\"; else compdef _repro repro; fi\n");
}

/* ---- fish ---- */

/* In single quotes. */
static void put_quoted(struct rp_buf *out, const char *text, size_t n)
{
    rp_buf_puts(out, "'");
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\'' || text[i] == '\\')
            rp_buf_puts(out, "\\");
        rp_buf_add(out, text + i, 1);
    }
    rp_buf_puts(out, "'");
}

static void fish_options(struct rp_buf *out, const struct rp_command *c, const struct rp_opt *o)
{
    for (; o && o->name; o++) {
        RP_BUF words = {0};
        if (!*o->name)
            continue;
        rp_buf_printf(out, "complete -c repro -n '__repro_is %s' -l %s", c->name, o->name);
        if (o->letter)
            rp_buf_printf(out, " -s %c", o->letter);
        if (o->type != RP_OPT_FLAG) {
            value_words(&words, o);
            rp_buf_puts(out, takes_files(o) ? " -r -F" : " -x");
            if (!words.size && rp_opt_choices(o))
                put_words(&words, rp_opt_choices(o));
        }
        if (words.size) {
            rp_buf_puts(out, " -a ");
            put_quoted(out, rp_buf_text(&words), words.size);
        }
        rp_buf_puts(out, " -d ");
        put_quoted(out, o->help, strcspn(o->help, ";"));
        rp_buf_puts(out, "\n");
    }
}

static void fish_command(struct rp_buf *out, const struct rp_command *c)
{
    RP_BUF words = {0};
    int files;
    operand_words(&words, c, &files);
    if (!rp_command_is_sub(c, NULL)) {
        rp_buf_printf(out, "complete -c repro -n '__repro_is' -a %s -d ", c->name);
        put_quoted(out, c->summary, strlen(c->summary));
        rp_buf_puts(out, "\n");
    }
    if (words.size) {
        rp_buf_printf(out, "complete -c repro -n '__repro_is %s' -a ", c->name);
        put_quoted(out, rp_buf_text(&words), words.size);
        rp_buf_puts(out, "\n");
    }
    if (files)
        rp_buf_printf(out, "complete -c repro -n '__repro_is %s' -F\n", c->name);
    fish_options(out, c, c->opts);
    fish_options(out, c, rp_opts_common);
}

void rp_completion_fish(struct rp_buf *out)
{
    rp_buf_puts(out, "# fish completion for repro; store as ~/.config/fish/completions/repro.fish\n"
                     "function __repro_is -d 'the command typed so far is this one'\n"
                     "    set -l cmd\n"
                     "    for w in (commandline -opc)[2..]\n"
                     "        string match -q -- '-*' $w; and continue\n"
                     "        if test -z \"$cmd\"\n"
                     "            set cmd $w\n"
                     "            continue\n"
                     "        end\n"
                     "        contains -- \"$cmd $w\"");
    for (const struct rp_command *const *s = rp_commands; *s; s++)
        if (rp_command_is_sub(*s, NULL))
            rp_buf_printf(out, " '%s'", (*s)->name);
    rp_buf_puts(out, "; and set cmd \"$cmd $w\"\n"
                     "        break\n"
                     "    end\n"
                     "    test \"$cmd\" = \"$argv\"\n"
                     "end\n"
                     "complete -c repro -f\n");
    for (const struct rp_command *const *c = rp_commands; *c; c++)
        fish_command(out, *c);
}
