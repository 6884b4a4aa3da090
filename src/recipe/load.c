/* Finding a recipe: a file, with or without its ending, or an embedded recipe. */
#include "base/embed.h"
#include "base/nearest.h"
#include "base/text.h"
#include "recipe/keys.h"
#include "recipe/recipe.h"
#include "recipe/yaml.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_EMBEDDED = 128 };

/* Length of the bare name in "recipes/bert_fp32.yaml" or "recipes/gpt/CASE.yaml", where it is "gpt/CASE". */
static size_t bare_name(const char *member, const char **start)
{
    static const char dir[] = "recipes/";
    if (strncmp(member, "./", 2) == 0)
        member += 2;
    *start = strncmp(member, dir, sizeof dir - 1) == 0 ? member + sizeof dir - 1 : member;
    size_t n = strlen(*start);
    return n > 5 && strcmp(*start + n - 5, ".yaml") == 0 ? n - 5 : n;
}

static char *first_comment(const char *data, size_t size)
{
    size_t n = 0, start = 0;
    while (start < size && (data[start] == '#' || data[start] == ' '))
        start++;
    while (start + n < size && data[start + n] != '\n')
        n++;
    return size && data[0] == '#' ? rp_asprintf("%.*s", (int)n, data + start) : rp_strdup("");
}

/* The value of a key of an embedded recipe, which writes it on a line of its own: "\nworkload: bert\n". free() it. */
static char *written_value(const char *data, size_t size, const char *key)
{
    const char *at = memmem(data, size, key, strlen(key));
    size_t n = 0;
    if (!at)
        return rp_strdup("");
    for (at += strlen(key); at + n < data + size && at[n] > ' ';)
        n++;
    return rp_asprintf("%.*s", (int)n, at);
}

/* By model and precision, fp32 first; in the order of the table otherwise, which is that of names. */
static int compare_names(const void *a, const void *b)
{
    const struct rp_recipe_name *x = a, *y = b;
    int order = (x->group != NULL) - (y->group != NULL);
    order = order ? order : strcmp(x->model, y->model);
    order = order ? order : (strcmp(y->precision, "fp32") == 0) - (strcmp(x->precision, "fp32") == 0);
    order = order ? order : strcmp(y->precision, x->precision);
    return order ? order : strcmp(x->name, y->name);
}

static int is_recipe(const struct rp_embed *e)
{
    size_t n = strlen(e->name);
    return n > 5 && strcmp(e->name + n - 5, ".yaml") == 0;
}

const struct rp_recipe_name *rp_recipe_names(int *n)
{
    static struct rp_recipe_name names[MAX_EMBEDDED]; /* filled once; texts live as long as the process */
    static int count = -1;
    const char *start;
    if (count < 0) {
        count = 0;
        for (const struct rp_embed *e = rp_embed_table; e->name && count < MAX_EMBEDDED; e++) {
            size_t bare = bare_name(e->name, &start);
            if (!is_recipe(e))
                continue;
            const char *slash = memchr(start, '/', bare), *data = (const char *)e->data;
            names[count++] = (struct rp_recipe_name){
                .name = rp_asprintf("%.*s", (int)bare, start),
                .group = slash ? rp_asprintf("%.*s", (int)(slash - start), start) : NULL,
                .title = first_comment(data, e->size),
                .model = written_value(data, e->size, "\nworkload: "),
                .precision = written_value(data, e->size, "\n  precision: ")};
        }
        qsort(names, (size_t)count, sizeof *names, compare_names);
    }
    *n = count;
    return names;
}

static const struct rp_embed *find_embedded(const char *where)
{
    const char *want, *have;
    size_t n = bare_name(where, &want);
    for (const struct rp_embed *e = rp_embed_table; e->name; e++) {
        size_t m = bare_name(e->name, &have);
        if (is_recipe(e) && m == n && memcmp(want, have, n) == 0)
            return e;
    }
    return NULL;
}

static struct rp_nearest nearest_name(const char *word)
{
    int n;
    const struct rp_recipe_name *r = rp_recipe_names(&n);
    struct rp_nearest near = {.word = word};
    for (int i = 0; i < n; i++)
        rp_nearest_try(&near, r[i].name);
    return near;
}

/* The name that was probably meant: a misspelt one, or else that of the
 * model with which `word` begins, as "bert-base". */
static const char *meant_name(const char *word)
{
    enum { MISSPELT = 2 };
    RP_FREE char *begin = rp_asprintf("%.*s", (int)strcspn(word, "_-."), word);
    const struct rp_nearest whole = nearest_name(word);
    if (whole.best && whole.distance <= MISSPELT)
        return whole.best;
    const struct rp_nearest model = nearest_name(begin);
    return model.best ? model.best : whole.best;
}

static int not_found(const char *where, struct rp_err *err)
{
    const char *start;
    char shown[72];
    bare_name(where, &start);
    const char *meant = meant_name(start);
    return rp_fail(
        err, RP_IO,
        "no recipe '%s': not a file, with or without .yaml, and not embedded ('repro recipes' lists the embedded "
        "ones)%s%s%s",
        rp_excerpt(shown, where), meant ? "; did you mean '" : "", meant ? meant : "", meant ? "'?" : "");
}

/* 1: `path` exists and is not a directory, 0: it is not a file, -1: unknown. */
static int is_file(const char *path, struct rp_err *err)
{
    struct stat st;
    if (stat(path, &st) == 0)
        return !S_ISDIR(st.st_mode);
    if (errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG)
        return 0;
    return rp_fail(err, RP_IO, "cannot read recipe '%.200s': %s", path, strerror(errno));
}

static int load_recipe(struct rp_recipe *r, const char *where, const char *backend, const char *const *set, int n_set,
                       struct rp_mistakes *m, struct rp_err *err)
{
    struct rp_buf source = {0};
    *r = (struct rp_recipe){0};
    RP_FREE char *with_ending = rp_asprintf("%s.yaml", where);
    const char *path = where;
    int found = is_file(path, err);
    if (found == 0)
        found = is_file(path = with_ending, err);
    if (found < 0)
        return -1;
    if (found) {
        if (rp_read_file(&source, path, RP_RECIPE_MAX, err) < 0) {
            rp_buf_fini(&source);
            return rp_wrap(err, "recipe");
        }
        return rp_recipe_from_source(r, &source, path, &(struct rp_config_source){.dir_of = path}, backend, set, n_set,
                                     m, err);
    }
    const struct rp_embed *e = find_embedded(where);
    if (!e)
        return not_found(where, err);
    const char *start;
    size_t n = bare_name(e->name, &start);
    RP_FREE char *name = rp_asprintf("embedded:%.*s", (int)n, start);
    rp_buf_add(&source, e->data, e->size);
    return rp_recipe_from_source(r, &source, name, NULL, backend, set, n_set, m, err);
}

int rp_recipe_load(struct rp_recipe *r, const char *where, const char *backend, const char *const *set, int n_set,
                   struct rp_err *err)
{
    return load_recipe(r, where, backend, set, n_set, NULL, err);
}

int rp_recipe_load_all(struct rp_recipe *r, struct rp_mistakes *m, const char *where, struct rp_err *err)
{
    return load_recipe(r, where, NULL, NULL, 0, m, err);
}
