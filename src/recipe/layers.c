/* Layers of a recipe, in order: defaults, model.config, the recipe's keys, its backend section, the command line (where
 * a model.config named there comes before the other keys named there and after everything in the file). */
#include "recipe/recipe.h"

#include "base/hash.h"
#include "base/text.h"
#include "recipe/events.h"
#include "recipe/config.h"
#include "recipe/keys.h"
#include "recipe/yaml.h"

#include <stdlib.h>
#include <string.h>

void rp_recipe_fini(struct rp_recipe *r)
{
    for (int k = 0; k < RP_KEY_COUNT; k++) {
        char type = rp_key_at(k)->type;
        if (type == 'S' || type == 'L') {
            struct rp_value none = {0};
            rp_value_store(r, k, &none, RP_FROM_DEFAULT);
        }
    }
    rp_buf_fini(&r->source);
    free(r->source_name);
    free(r->ignored);
    *r = (struct rp_recipe){0};
}

void rp_recipe_defaults(struct rp_recipe *r)
{
    *r = (struct rp_recipe){0};
    for (int k = 0; k < RP_KEY_COUNT; k++) {
        struct rp_value v;
        struct rp_err err;
        RP_BUG_IF(rp_value_parse(&v, k, rp_key_at(k)->def, &err) < 0); /* a default that is out of its own range */
        rp_value_store(r, k, &v, RP_FROM_DEFAULT);
    }
}

void rp_recipe_model_defaults(struct rp_recipe *r)
{
    for (int k = 0; k < RP_KEY_COUNT; k++) {
        struct rp_value v;
        struct rp_err err;
        const char *def = rp_key_default(rp_key_at(k), r->workload);
        if (def == rp_key_at(k)->def)
            continue;
        RP_BUG_IF(rp_value_parse(&v, k, def, &err) < 0);
        rp_value_store(r, k, &v, RP_FROM_DEFAULT);
    }
}

static int set_key(struct rp_recipe *r, int key, const char *text, enum rp_origin origin, struct rp_err *err)
{
    struct rp_value v;
    if (rp_value_parse(&v, key, text, err) < 0)
        return -1;
    rp_value_store(r, key, &v, origin);
    return 0;
}

int rp_recipe_set(struct rp_recipe *r, const char *key, const char *value, enum rp_origin origin, struct rp_err *err)
{
    int k = rp_key_find(key);
    if (k < 0)
        return rp_key_unknown(key, err);
    return rp_key_refuse(r, k, err) < 0 ? -1 : set_key(r, k, value, origin, err);
}

/* Prefixes a message with "file:line:column: " of a key's value, or with the file's name; returns -1. */
static int blame_key(const struct rp_recipe *r, const char *key, struct rp_err *err)
{
    const struct rp_place *at = &r->place[rp_key_find(key)];
    if (!r->source_name)
        return -1;
    return at->line ? rp_at(r->source_name, at->line, at->col, err) : rp_wrap(err, "%.160s", r->source_name);
}

static void clear_key(struct rp_recipe *r, int key)
{
    struct rp_value none = {0};
    rp_value_store(r, key, &none, RP_FROM_COMMAND_LINE);
}

/* ---- the file ---- */

/* From a text of the file, whose place is recorded. */
static int set_from_file(struct rp_recipe *r, const struct rp_setting *s, enum rp_origin origin, struct rp_err *err)
{
    if (set_key(r, s->key, s->text, origin, err) < 0)
        return rp_at(r->source_name, s->value.line, s->value.col, err);
    r->place[s->key] = s->value;
    return 0;
}

/* A backend section shortens a run: its values are at most the recipe's. */
static int check_shorter(const struct rp_recipe *r, const struct rp_setting *s, struct rp_err *err)
{
    struct rp_value v;
    if (rp_value_parse(&v, s->key, s->text, err) < 0)
        return -1;
    int64_t limit = rp_key_int(r, s->key);
    if (s->key == RP_KEY_evidence_state_root_every || v.i <= limit)
        return 0;
    return rp_fail(err, RP_USAGE, "%s: %lld is more than the recipe's %lld; a backend section only shortens a run",
                   rp_key_at(s->key)->name, (long long)v.i, (long long)limit);
}

/* Every section is checked, whether it applies here or not. They are applied after all keys of the recipe, wherever
 * they are written. */
static int apply_sections(struct rp_recipe *r, const struct rp_settings *s, const char *backend, struct rp_mistakes *m,
                          struct rp_err *err)
{
    for (int i = 0; i < s->n; i++) {
        if (s->item[i].backend < 0 || check_shorter(r, &s->item[i], err) == 0)
            continue;
        (void)rp_at(r->source_name, s->item[i].value.line, s->item[i].value.col, err);
        if (!rp_mistake(m, err, s->item[i].value.line))
            return -1;
    }
    for (int i = 0; i < s->n; i++) {
        const struct rp_setting *it = &s->item[i];
        if (it->backend >= 0 && backend && strcmp(rp_choice_name(RP_BACKENDS, it->backend), backend) == 0 &&
            set_from_file(r, it, RP_FROM_BACKEND, err) < 0)
            return -1;
    }
    return 0;
}

/* `path`: as the recipe or the command line names it. */
static int apply_config(struct rp_recipe *r, const char *path, const struct rp_config_source *from, const char *skip,
                        struct rp_err *err)
{
    return from && from->recorded ? rp_recipe_config_recorded(r, from->recorded, skip, err)
                                  : rp_recipe_config(r, path, skip, err);
}

static int apply_keys(struct rp_recipe *r, const struct rp_settings *s, const struct rp_config_source *from,
                      struct rp_mistakes *m, struct rp_err *err)
{
    char in_file[RP_KEY_COUNT] = {0};
    const struct rp_setting *config = NULL;
    for (int i = 0; i < s->n; i++) {
        const struct rp_setting *it = &s->item[i];
        if (it->backend >= 0 || it->key == RP_KEY_workload) /* apply_model() */
            continue;
        if (set_from_file(r, it, RP_FROM_RECIPE, err) < 0 && !rp_mistake(m, err, it->value.line))
            return -1;
        in_file[it->key] = 1;
        if (it->key == RP_KEY_model_config && r->model_config)
            config = it;
    }
    if (!config)
        return 0;
    if (!(from && (from->dir_of || from->recorded))) {
        rp_fail(err, RP_USAGE,
                "model.config: only a recipe in a file of its own can name another file; write out the model.* keys");
        return blame_key(r, "model.config", err);
    }
    RP_FREE char *path = rp_path_next_to(from->dir_of ? from->dir_of : "", r->model_config);
    return apply_config(r, path, from, in_file, err) < 0 ? blame_key(r, "model.config", err) : 0;
}

/* ---- the command line ---- */

/* The key that has an option of its own of that name, or -1. */
static int key_of_flag(const char *flag)
{
    for (int k = 0; k < RP_KEY_COUNT; k++)
        if (*flag && strcmp(rp_key_at(k)->flag, flag) == 0)
            return k;
    return -1;
}

int rp_setting_is_of(const char *set, const char *key)
{
    char word[128];
    const size_t n = strcspn(set, "=");
    snprintf(word, sizeof word, "%.*s", (int)n, set);
    const int k = strncmp(word, "--", 2) == 0 ? key_of_flag(word + 2) : -1;
    return strcmp(k >= 0 ? rp_key_at(k)->name : word, key) == 0;
}

/* A list as a recipe writes it, "[a, b]" or "[]", or words with commas, as "a,b": free() it. Other texts stay what they
 * are, to be refused. */
static char *plain_list(const char *text)
{
    RP_BUF words = {0};
    const char *end = text + strlen(text);
    if (end - text >= 2 && *text == '[' && end[-1] == ']') {
        text++;
        end--;
    }
    while (text < end) {
        const char *next = memchr(text, ',', (size_t)(end - text)), *stop = next ? next : end;
        for (; text < stop && *text == ' '; text++)
            ;
        for (; stop > text && stop[-1] == ' '; stop--)
            ;
        rp_buf_add(&words, text, (size_t)(stop - text));
        rp_buf_puts(&words, next ? "," : "");
        text = next ? next + 1 : end;
    }
    return words.size ? rp_buf_take(&words) : rp_strdup("");
}

static int set_from_text(struct rp_recipe *r, const char *set, char *given, struct rp_err *err)
{
    char word[128], shown[72];
    const int by_flag = strncmp(set, "--", 2) == 0;
    size_t n = strcspn(set, "=");
    if (set[n] != '=' || n == 0 || n >= sizeof word)
        return rp_fail(err, RP_USAGE, "--set %s: expected KEY=VALUE, like train.batch_size=8", rp_excerpt(shown, set));
    memcpy(word, set, n);
    word[n] = 0;
    int k = by_flag ? key_of_flag(word + 2) : rp_key_find(word);
    const char *name = by_flag && k >= 0 ? rp_key_at(k)->name : word;
    if (k >= 0 && given[k])
        return rp_fail(err, RP_USAGE, "%s is set twice on the command line", name);
    RP_FREE char *value = k >= 0 && rp_key_at(k)->type == 'L' ? plain_list(set + n + 1) : rp_strdup(set + n + 1);
    if (rp_recipe_set(r, name, value, RP_FROM_COMMAND_LINE, err) < 0)
        return by_flag ? rp_wrap(err, "%s", word) : rp_wrap(err, "--set %s", rp_excerpt(shown, set));
    given[k] = 1;
    r->place[k] = (struct rp_place){0};
    return 0;
}

static int apply_command_line(struct rp_recipe *r, const struct rp_config_source *from, const char *const *set,
                              int n_set, struct rp_err *err)
{
    char given[RP_KEY_COUNT] = {0};
    for (int i = 0; i < n_set; i++)
        if (set_from_text(r, set[i], given, err) < 0)
            return -1;
    if (given[RP_KEY_model_config] && r->model_config && apply_config(r, r->model_config, from, given, err) < 0)
        return rp_wrap(err, "--set model.config=%.100s", r->model_config);
    /* Data given on the command line replaces the recipe's, of either kind. */
    if (given[RP_KEY_data_path] && r->data_path && !given[RP_KEY_data_archive] && !given[RP_KEY_data_sha256]) {
        clear_key(r, RP_KEY_data_archive);
        clear_key(r, RP_KEY_data_sha256);
    }
    if (given[RP_KEY_data_archive] && r->data_archive && !given[RP_KEY_data_path])
        clear_key(r, RP_KEY_data_path);
    return 0;
}

/* ---- all of it ---- */

/* The model decides which keys exist, so it is applied first, wherever it is written. */
static int apply_model(struct rp_recipe *r, const struct rp_settings *s, const char *const *set, int n_set,
                       struct rp_mistakes *m, struct rp_err *err)
{
    char given[RP_KEY_COUNT] = {0};
    for (int i = 0; i < s->n; i++)
        if (s->item[i].key == RP_KEY_workload && set_from_file(r, &s->item[i], RP_FROM_RECIPE, err) < 0)
            return -1; /* which keys there are is unknown */
    for (int i = 0; i < n_set; i++)
        if (rp_setting_is_of(set[i], "workload") && set_from_text(r, set[i], given, err) < 0)
            return -1;
    rp_recipe_model_defaults(r);
    for (int i = 0; i < s->n; i++) {
        if (rp_key_refuse(r, s->item[i].key, err) == 0)
            continue;
        (void)rp_at(r->source_name, s->item[i].name.line, s->item[i].name.col, err);
        if (!rp_mistake(m, err, s->item[i].name.line))
            return -1;
    }
    return 0;
}

/* Keys that agree in themselves, against each other. */
static int check_agreement(struct rp_recipe *r, struct rp_mistakes *m, struct rp_err *err)
{
    int key = 0, state;
    for (int i = 0; (state = rp_recipe_check(r, i, &key, err)) <= 0; i++) {
        if (state == 0)
            continue;
        (void)blame_key(r, rp_key_at(key)->name, err);
        if (!rp_mistake(m, err, r->place[key].line))
            return -1;
    }
    return 0;
}

static int apply_all(struct rp_recipe *r, const struct rp_config_source *from, const char *backend,
                     const char *const *set, int n_set, struct rp_mistakes *m, struct rp_err *err)
{
    struct rp_settings settings;
    if (rp_yaml_read(&settings, rp_buf_text(&r->source), r->source.size, r->source_name, m, err) < 0)
        return -1;
    int failed = apply_model(r, &settings, set, n_set, m, err) < 0 || apply_keys(r, &settings, from, m, err) < 0 ||
                 apply_sections(r, &settings, backend, m, err) < 0;
    rp_settings_fini(&settings);
    if (failed || apply_command_line(r, from, set, n_set, err) < 0)
        return -1;
    return check_agreement(r, m, err);
}

int rp_recipe_from_source(struct rp_recipe *r, struct rp_buf *source, const char *name,
                          const struct rp_config_source *config, const char *backend, const char *const *set, int n_set,
                          struct rp_mistakes *m, struct rp_err *err)
{
    rp_recipe_defaults(r);
    r->source = *source;
    *source = (struct rp_buf){0};
    r->source_name = rp_strdup(name);
    rp_sha256_hex(r->sha256, rp_buf_text(&r->source), r->source.size);
    const int failed = apply_all(r, config, backend, set, n_set, m, err) < 0;
    if (!failed && !(m && m->n))
        return 0;
    if (failed) /* the one that ended the reading, if it is a mistake of the recipe */
        (void)rp_mistake(m, err, 0);
    rp_recipe_fini(r);
    return -1;
}

int rp_recipe_parse(struct rp_recipe *r, const char *data, size_t size, const char *name, const char *backend,
                    const char *const *set, int n_set, struct rp_err *err)
{
    return rp_recipe_parse_again(r, data, size, name, NULL, backend, set, n_set, err);
}

int rp_recipe_parse_again(struct rp_recipe *r, const char *data, size_t size, const char *name, const json_t *config,
                          const char *backend, const char *const *set, int n_set, struct rp_err *err)
{
    struct rp_buf source = {0};
    struct rp_config_source from = {.recorded = config};
    *r = (struct rp_recipe){0};
    if (size > RP_RECIPE_MAX)
        return rp_fail(err, RP_MALFORMED, "%.160s: %zu bytes: a recipe has at most %u", name, size, RP_RECIPE_MAX);
    rp_buf_add(&source, data, size);
    return rp_recipe_from_source(r, &source, name, &from, backend, set, n_set, NULL, err);
}

int rp_recipe_parse_all(struct rp_recipe *r, struct rp_mistakes *m, const char *data, size_t size, const char *name,
                        struct rp_err *err)
{
    struct rp_buf source = {0};
    *r = (struct rp_recipe){0};
    if (size > RP_RECIPE_MAX)
        return rp_fail(err, RP_MALFORMED, "%.160s: %zu bytes: a recipe has at most %u", name, size, RP_RECIPE_MAX);
    rp_buf_add(&source, data, size);
    return rp_recipe_from_source(r, &source, name, NULL, NULL, NULL, 0, m, err);
}

enum rp_numerics rp_recipe_numerics(const struct rp_recipe *r)
{
    static const enum rp_numerics of[][4] = {
        /* by tensor cores */
        [RP_PRECISION_fp32] = {RP_NUMERICS_fp32_1, RP_NUMERICS_fp32_1, RP_NUMERICS_fp32_1, RP_NUMERICS_fp32_1},
        [RP_PRECISION_fp16] = {[RP_TENSOR_CORE_auto] = RP_NUMERICS_fp16_tc16_0,
                               [RP_TENSOR_CORE_tc4] = RP_NUMERICS_fp16_tc4_0,
                               [RP_TENSOR_CORE_tc8] = RP_NUMERICS_fp16_tc8_0,
                               [RP_TENSOR_CORE_tc16] = RP_NUMERICS_fp16_tc16_0},
        /* tc4 is refused: agree.c */
        [RP_PRECISION_bf16] = {[RP_TENSOR_CORE_auto] = RP_NUMERICS_bf16_tc16_0,
                               [RP_TENSOR_CORE_tc4] = RP_NUMERICS_bf16_tc8_0,
                               [RP_TENSOR_CORE_tc8] = RP_NUMERICS_bf16_tc8_0,
                               [RP_TENSOR_CORE_tc16] = RP_NUMERICS_bf16_tc16_0},
    };
    return of[r->train_precision][r->train_tensor_core];
}
