/* `repro recipes`: the recipes inside this program, and the keys that a recipe may hold. */
#include "base/json.h"
#include "base/nearest.h"
#include "base/text.h"
#include "cli/cli.h"
#include "recipe/keys.h"
#include "recipe/recipe.h"

#include <stdio.h>
#include <string.h>

#define SECTIONS "[/sections:[/later:\n]{/model t}, {/precision t}\n[/recipes:  {/name t}\t{/title t}\n]]"

/* Begins a section of the list, unless the recipe before was of the same model and precision. */
static json_t *section_of(json_t *sections, const struct rp_recipe_name *r, const struct rp_recipe_name *before)
{
    const size_t n = json_array_size(sections);
    if (n && strcmp(r->model, before->model) == 0 && strcmp(r->precision, before->precision) == 0)
        return json_object_get(json_array_get(sections, n - 1), "recipes");
    json_t *recipes = json_array();
    json_array_append_new(sections, json_pack("{s:s, s:s, s:b, s:o}", "model", r->model, "precision", r->precision,
                                              "later", n > 0, "recipes", recipes));
    return recipes;
}

/* Those of a group, or all; with the number of recipes in each group, and what a list shows in sections. */
static json_t *recipes_json(const char *group)
{
    int n;
    const struct rp_recipe_name *r = rp_recipe_names(&n), *before = NULL;
    json_t *list = json_array(), *groups = json_object(), *sections = json_array();
    for (int i = 0; i < n; i++, r++) {
        if (group && (!r->group || strcmp(r->group, group) != 0))
            continue;
        json_t *one = json_pack("{s:s, s:s, s:s, s:s, s:s*}", "name", r->name, "title", r->title, "model", r->model,
                                "precision", r->precision, "group", r->group);
        json_array_append_new(list, one);
        if (group || !r->group) {
            json_array_append(section_of(sections, r, before), one);
            before = r;
        }
        if (r->group)
            json_object_set_new(groups, r->group,
                                json_integer(json_integer_value(json_object_get(groups, r->group)) + 1));
    }
    return json_pack("{s:o, s:o, s:o}", "recipes", list, "groups", groups, "sections", sections);
}

static int cmd_recipes(struct rp_cli *cli, struct rp_err *err)
{
    (void)err;
    rp_cli_return(cli, recipes_json(NULL),
                  SECTIONS "[/groups:\n{@ t}/...: { t} recipes, listed by 'repro recipes list {@ t}'\n]");
    return 0;
}

const struct rp_command rp_cmd_recipes = {
    .name = "recipes",
    .operands = "",
    .summary = "list the embedded recipes; explain the keys of a recipe",
    .details = "Any of these names works wherever a RECIPE is asked for, with no other file at hand. The recipes of a "
               "group, such as the cases of the GPT report of 2021, take one line here; 'recipes list' and --json "
               "name each.\n"
               "\n"
               "Examples:\n"
               "  repro recipes\n"
               "  repro run bert_fp32\n",
    .run = cmd_recipes,
};

static int cmd_recipes_list(struct rp_cli *cli, struct rp_err *err)
{
    const char *group;
    json_t *number;
    char shown[72];
    RP_BUF names = {0};
    if (!cli->argc)
        return cmd_recipes(cli, err);
    RP_JSON *all = recipes_json(NULL), *groups = json_incref(json_object_get(all, "groups"));
    json_object_foreach(groups, group, number)
        rp_buf_printf(&names, "%s%s", names.size ? ", " : "", group);
    if (!json_object_get(groups, cli->argv[0]))
        return rp_fail(err, RP_USAGE, "no group of recipes '%s': expected one of %s", rp_excerpt(shown, cli->argv[0]),
                       rp_buf_text(&names));
    rp_cli_return(cli, recipes_json(cli->argv[0]), SECTIONS);
    return 0;
}

const struct rp_command rp_cmd_recipes_list = {
    .name = "recipes list",
    .operands = "[GROUP]",
    .summary = "list the embedded recipes, or those of a group",
    .details = "Examples:\n"
               "  repro recipes list gpt\n"
               "  repro run gpt/DP_8x1x1_16_1536x16 --plan\n",
    .run = cmd_recipes_list,
};

static int cmd_recipes_show(struct rp_cli *cli, struct rp_err *err)
{
    struct rp_recipe r = {0};
    if (rp_recipe_load(&r, cli->argv[0], NULL, NULL, 0, err) < 0)
        return -1;
    cli->result =
        json_pack("{s:s, s:s, s:o}", "source", r.source_name, "sha256", r.sha256, "keys", rp_recipe_to_json(&r));
    int failed = rp_cli_write_output(cli, NULL, 0, &r.source, err) < 0;
    rp_recipe_fini(&r);
    return failed ? -1 : 0;
}

const struct rp_command rp_cmd_recipes_show = {
    .name = "recipes show",
    .operands = "RECIPE",
    .summary = "print a recipe, byte for byte; with --json, every key with the origin of its value",
    .details = "Examples:\n"
               "  repro recipes show bert_fp32 > mine.yaml\n",
    .run = cmd_recipes_show,
};

static int load_all(struct rp_recipe *r, struct rp_mistakes *m, const char *where, struct rp_err *err)
{
    RP_BUF text = {0};
    if (strcmp(where, "-") != 0)
        return rp_recipe_load_all(r, m, where, err);
    if (rp_cli_read_input(&text, RP_RECIPE_MAX, err) < 0)
        return rp_wrap(err, "recipe");
    return rp_recipe_parse_all(r, m, rp_buf_text(&text), text.size, RP_CLI_INPUT, err);
}

static int cmd_recipes_check(struct rp_cli *cli, struct rp_err *err)
{
    struct rp_recipe r = {0};
    struct rp_mistakes m = {.n = 0};
    json_t *list = json_array();
    const int failed = load_all(&r, &m, cli->argv[0], err) < 0;
    rp_recipe_fini(&r);
    for (int i = 0; i < m.n; i++)
        json_array_append_new(list, json_string(m.item[i].msg));
    rp_cli_return(cli, json_pack("{s:o}", "mistakes", list), "[/mistakes:{ t}\n]");
    if (failed && m.n && err->code == RP_USAGE)
        return rp_fail(err, RP_USAGE, "'%.200s' has %d mistake%s", cli->argv[0], m.n, rp_s(m.n));
    return failed ? -1 : 0;
}

const struct rp_command rp_cmd_recipes_check = {
    .name = "recipes check",
    .operands = "RECIPE",
    .summary = "list all mistakes of a recipe; nothing is trained",
    .details =
        "RECIPE is a file, with or without .yaml, the name of an embedded recipe, or - for standard input. Each "
        "mistake is one line with its place. Exit status 2: there are some. What depends on the machine, such as "
        "memory, 'repro run RECIPE --plan' shows.\n"
        "\n"
        "Examples:\n"
        "  repro recipes check mine.yaml\n",
    .run = cmd_recipes_check,
};

/* "whole number 1..512", "adamw|lamb" */
static void describe_form(char *out, size_t size, const struct rp_key *k)
{
    switch (k->type) {
    case 'I':
        if (*k->choices)
            snprintf(out, size, "%s, N %.0f..%.0f", k->choices, k->lo + 1, k->hi);
        else
            snprintf(out, size, "%.0f..%.0f", k->lo, k->hi);
        break;
    case 'F':
        snprintf(out, size, "real %.10g..%.10g", k->lo, k->hi);
        break;
    case 'B':
        snprintf(out, size, "true|false");
        break;
    case 'C':
        snprintf(out, size, "%s", k->choices);
        break;
    case 'L':
        snprintf(out, size, "list of words");
        break;
    default:
        snprintf(out, size, "text");
    }
}

static json_t *models_of(const struct rp_key *k)
{
    json_t *models = json_array();
    for (int m = 0; m < RP_MODEL_COUNT; m++)
        if (k->models >> m & 1u)
            json_array_append_new(models, json_string(rp_choice_name(RP_MODELS, m)));
    return models;
}

/* model -1: all; "30522, gpt: 50257" */
static void default_of(struct rp_buf *out, const struct rp_key *k, int model)
{
    rp_buf_puts(out, model < 0 ? k->def : rp_key_default(k, model));
    for (int m = 0; model < 0 && m < RP_MODEL_COUNT; m++)
        if (strcmp(rp_key_default(k, m), k->def) != 0)
            rp_buf_printf(out, ", %s: %s", rp_choice_name(RP_MODELS, m), rp_key_default(k, m));
}

static int is_of_section(const struct rp_key *k, const char *section)
{
    const size_t n = strlen(section);
    return strncmp(k->name, section, n) == 0 && k->name[n] == '.';
}

static int fail_unknown(const char *word, struct rp_err *err)
{
    char shown[72];
    struct rp_nearest near = {.word = word};
    for (int m = 0; m < RP_MODEL_COUNT; m++)
        rp_nearest_try(&near, rp_choice_name(RP_MODELS, m));
    if (near.best)
        return rp_fail(err, RP_USAGE, "no model, section or key '%s'; did you mean '%s'?", rp_excerpt(shown, word),
                       near.best);
    return rp_key_unknown(word, err);
}

static int cmd_recipes_keys(struct rp_cli *cli, struct rp_err *err)
{
    const char *word = cli->argc ? cli->argv[0] : NULL;
    struct rp_err ignored;
    const int key = word ? rp_key_find(word) : -1, model = word && key < 0 ? rp_model_parse(word, &ignored) : -1;
    int n;
    const struct rp_key *k = rp_key_table(&n);
    json_t *list = json_array();
    for (int i = 0; i < n; i++, k++) {
        char expected[128];
        RP_BUF def = {0};
        if (model >= 0 ? !(k->models >> model & 1u) : word && i != key && !is_of_section(k, word))
            continue;
        describe_form(expected, sizeof expected, k);
        default_of(&def, k, model);
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:o, s:s*}", "key", k->name, "help", k->help,
                                              "expected", expected, "default", rp_buf_text(&def), "models",
                                              models_of(k), "flag", *k->flag ? k->flag : NULL));
    }
    if (!json_array_size(list)) {
        json_decref(list);
        return fail_unknown(word, err);
    }
    rp_cli_return(cli, json_pack("{s:o}", "keys", list),
                  "[/keys:[#:\n]{/key t}\n"
                  "    {/help t}\n"
                  "    {/expected t}; default [/default:{/default t}][!/default:none]\n"
                  "    for [/models:[#:, ]{ t}]\n"
                  "[/flag:    option of 'repro run': --{/flag t}\n]]");
    return 0;
}

const struct rp_command rp_cmd_recipes_keys = {
    .name = "recipes keys",
    .operands = "[MODEL|SECTION|KEY]",
    .summary = "explain every key of a recipe: form, range, default, models, option",
    .details =
        "With MODEL, a value of the key 'workload', only the keys of that model; a recipe of it takes no others. With "
        "SECTION, such as train, only the keys that begin with it; with KEY, only that key.\n"
        "\n"
        "Each can be set on the command line: repro run RECIPE --set KEY=VALUE. What was set is in the bundle.\n"
        "\n"
        "Examples:\n"
        "  repro recipes keys\n"
        "  repro recipes keys gpt\n"
        "  repro recipes keys optimizer\n"
        "  repro recipes keys run.hang_seconds\n"
        "  repro run gpt2_124m_fp32 --set train.batch_size=2\n",
    .run = cmd_recipes_keys,
};
