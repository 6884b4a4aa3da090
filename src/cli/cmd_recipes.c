/* `repro recipes`: the recipes inside this program, and the keys that a recipe may hold. */
#include "base/json.h"
#include "base/text.h"
#include "cli/cli.h"
#include "recipe/recipe.h"

#include <stdio.h>
#include <string.h>

static void print_list(struct rp_cli *cli, const char *group)
{
    int n, width = 0;
    const struct rp_recipe_name *r = rp_recipe_names(&n);
    RP_JSON *list = json_array();
    for (int i = 0; i < n; i++)
        if (!group == !r[i].group && (int)strlen(r[i].name) > width)
            width = (int)strlen(r[i].name);
    for (int i = 0, in = 0; i < n; i += in) {
        for (in = 1; r[i].group && i + in < n && r[i + in].group && strcmp(r[i].group, r[i + in].group) == 0; in++)
            ;
        if (group && (!r[i].group || strcmp(r[i].group, group) != 0))
            continue;
        if (!cli->json && r[i].group && !group) {
            RP_FREE char *name = rp_asprintf("%s/...", r[i].group);
            printf("%-*s %d recipes, listed by 'repro recipes list %s'\n", width, name, in, r[i].group);
            continue;
        }
        for (int k = i; k < i + in; k++)
            if (cli->json)
                json_array_append_new(list, json_pack("{s:s, s:s, s:s*}", "name", r[k].name, "title", r[k].title, "group", r[k].group));
            else
                printf("%-*s %s\n", width, r[k].name, r[k].title);
    }
    if (cli->json)
        cli->result = json_pack("{s:O}", "recipes", list);
}

static int cmd_recipes(struct rp_cli *cli, struct rp_err *err)
{
    (void)err;
    print_list(cli, NULL);
    return 0;
}

const struct rp_command rp_cmd_recipes = {
    .name = "recipes",
    .operands = "",
    .summary = "list the embedded recipes; explain the keys of a recipe",
    .details = "Any of these names works wherever a RECIPE is asked for, with no other file at hand. The recipes of a group, such as the 18 "
               "cases of the GPT report of 2021, take one line here; 'recipes list' and --json name each.\n",
    .run = cmd_recipes,
};

static int cmd_recipes_list(struct rp_cli *cli, struct rp_err *err)
{
    int n;
    char shown[72];
    const struct rp_recipe_name *r = rp_recipe_names(&n);
    RP_BUF groups = {0};
    if (!cli->argc) {
        print_list(cli, NULL);
        return 0;
    }
    for (int i = 0; i < n; i++) {
        if (!r[i].group || (i && r[i - 1].group && strcmp(r[i - 1].group, r[i].group) == 0))
            continue;
        if (strcmp(r[i].group, cli->argv[0]) == 0) {
            print_list(cli, r[i].group);
            return 0;
        }
        rp_buf_printf(&groups, "%s%s", groups.size ? ", " : "", r[i].group);
    }
    return rp_fail(err, RP_USAGE, "no group of recipes '%s': expected one of %s", rp_excerpt(shown, cli->argv[0]), rp_buf_text(&groups));
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
    if (cli->json)
        cli->result = json_pack("{s:s, s:s, s:o}", "source", r.source_name, "sha256", r.sha256, "keys", rp_recipe_to_json(&r));
    else
        rp_cli_print(&r.source);
    rp_recipe_fini(&r);
    return 0;
}

const struct rp_command rp_cmd_recipes_show = {
    .name = "recipes show",
    .operands = "RECIPE",
    .summary = "print a recipe, byte for byte; with --json, every key with the origin of its value",
    .details = "Examples:\n"
               "  repro recipes show bert_fp32 > mine.yaml\n",
    .run = cmd_recipes_show,
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

static int cmd_recipes_keys(struct rp_cli *cli, struct rp_err *err)
{
    int n, shown = 0, model = cli->argc ? rp_model_parse(cli->argv[0], err) : 0;
    const struct rp_key *k = rp_key_table(&n);
    if (model < 0)
        return -1;
    unsigned wanted = cli->argc ? 1u << model : ~0u;
    RP_JSON *list = json_array();
    for (int i = 0; i < n; i++, k++) {
        char expected[128];
        describe_form(expected, sizeof expected, k);
        if (!(k->models & wanted))
            continue;
        RP_BUF def = {0};
        default_of(&def, k, cli->argc ? model : -1);
        if (cli->json) {
            json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:o, s:s*}", "key", k->name, "help", k->help, "expected", expected,
                                                  "default", rp_buf_text(&def), "models", models_of(k), "flag", *k->flag ? k->flag : NULL));
            continue;
        }
        RP_FREE char *models = rp_key_models(k);
        printf("%s%s\n    %s\n    %s; default %s\n    for %s\n", shown++ ? "\n" : "", k->name, k->help, expected,
               rp_buf_text(&def)[0] ? rp_buf_text(&def) : "none", models);
        if (*k->flag)
            printf("    option of 'repro run': --%s\n", k->flag);
    }
    if (cli->json)
        cli->result = json_pack("{s:O}", "keys", list);
    return 0;
}

const struct rp_command rp_cmd_recipes_keys = {
    .name = "recipes keys",
    .operands = "[MODEL]",
    .summary = "explain every key of a recipe: form, range, default, models, option",
    .details = "With MODEL, a value of the key 'workload', only the keys of that model; a recipe of it takes no others.\n"
               "Each can be set on the command line: repro run RECIPE --set KEY=VALUE. What was set is in the bundle.\n",
    .run = cmd_recipes_keys,
};
