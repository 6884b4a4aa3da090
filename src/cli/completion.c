/* Completion for bash and zsh: one `case` over the command typed so far, with its words, made from the table.
 *
 * Both scripts work alike: the command's words ("key new") select a list of options; an option that takes a value selects either
 * its choices or file names; operands complete to recipe names, commands or file names by the operand's name in the table.
 */
#include "cli/help.h"

#include "recipe/recipe.h"

#include <string.h>

/* "a|b|c" -> "a b c" */
static void put_words(struct rp_buf *out, const char *choices)
{
    for (; *choices; choices++)
        rp_buf_add(out, *choices == '|' ? " " : choices, 1);
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
    if (strstr(c->operands, "RECIPE")) {
        const struct rp_recipe_name *r = rp_recipe_names(&n);
        for (int i = 0; i < n; i++)
            rp_buf_printf(out, " %s", r[i].name);
    }
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

/* case COMMAND:OPTION in ... words=... */
static void value_cases(struct rp_buf *out, const struct rp_command *c, const struct rp_opt *o)
{
    for (; o && o->name; o++) {
        const char *choices = rp_opt_choices(o);
        if (!*o->name || o->type == RP_OPT_FLAG)
            continue;
        rp_buf_printf(out, "    \"%s:--%s\"", c->name, o->name);
        if (o->letter)
            rp_buf_printf(out, "|\"%s:-%c\"", c->name, o->letter);
        rp_buf_puts(out, ") value=1; list=\"");
        if (choices)
            put_words(out, choices);
        rp_buf_puts(out, "\";");
        const char *arg = rp_opt_arg(o);
        rp_buf_printf(out, " files=%d ;;\n", !choices && (strstr(arg, "FILE") || strstr(arg, "DIR")));
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
                     "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
                     "    w=${COMP_WORDS[i]}\n");
    find_command(out);
    rp_buf_puts(out, "  COMPREPLY=($(compgen -W \"$list\" -- \"$cur\"))\n"
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
