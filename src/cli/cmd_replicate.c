/* `repro replicate`: repeats the run of a bundle, in a bundle that cites it. */
#include "base/embed.h"
#include "base/json.h"
#include "base/term.h"
#include "base/text.h"
#include "cli/attempt.h"
#include "cli/run.h"
#include "run/agreement.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_MAX_CHARS 100

#define AT(field) offsetof(struct rp_run_opts, field)

/* Only keys for where and from which files it runs; all others are the original's. */
static const struct rp_opt opts[] = {
    RP_OPT_TRUST(trust),
    RP_OPTION_TEXT(data_path, "data", 0, "DIR",
                   "samples with the original's digest; needed if their archive is not here"),
    RP_OPTION_TEXT(run_init, "init", 0, "FILE", "the file or directory that the original started from"),
    RP_OPTION_TEXT(run_save, "save", 0, "FILE", "write parameters and optimizer state to FILE or a directory"),
    RP_OPTION_CHOICE(run_backend, "backend", 0, RP_CHOICES(RP_BACKENDS), "what trains; the bits do not depend on it"),
    RP_OPTION_TEXT(run_device, "device", 0, "N|UUID", "GPU that trains, a number from 0 or a UUID (GPU-...)"),
    RP_OPTION_CHOICE(run_isa, "isa", 0, RP_CHOICES(RP_ISAS),
                     "instruction set of the CPU backend; the bits do not depend on it"),
    RP_OPTION_TEXT(run_threads, "threads", 0, "N",
                   "threads of the CPU backend, 0: all CPUs; the bits do not depend on it"),
    RP_RUN_ROWS,
    {0},
};

static const char *recorded_text(const struct rp_original *first, const char *key)
{
    const char *text = json_string_value(rp_facts_setting(&first->v->run->facts, key));
    return text ? text : "";
}

static const struct rp_buf *recipe_bytes(const struct rp_original *first)
{
    return &rp_bundle_find(&first->kept->bundle, "recipe.yaml")->bytes;
}

/* The recipe's name becomes part of a file name: other characters are replaced. "embedded:" stays if this program has
 * the same recipe. */
static char *recipe_name(const struct rp_original *first)
{
    static const char prefix[] = "embedded:";
    const char *name = first->v->run->facts.recipe_name;
    int embedded = strncmp(name, prefix, sizeof prefix - 1) == 0;
    const struct rp_buf *yaml = recipe_bytes(first);
    name += embedded ? sizeof prefix - 1 : 0;
    RP_FREE char *path = rp_asprintf("recipes/%s.yaml", name);
    const struct rp_embed *e = embedded ? rp_embed_find(path) : NULL;
    if (e && e->size == yaml->size && memcmp(e->data, yaml->data, e->size) == 0)
        return rp_asprintf("%s%s", prefix, name);
    char *plain = rp_asprintf("%.*s%s", NAME_MAX_CHARS, name, embedded ? ".yaml" : "");
    for (char *p = plain; *p; p++)
        if (!isalnum((unsigned char)*p) && (p == plain || !strchr("._-", *p)))
            *p = '_';
    return plain;
}

struct set {
    char **item;
    int n;
};

static int is_set(const struct set *s, const char *key)
{
    for (int i = 0; i < s->n; i++)
        if (rp_setting_is_of(s->item[i], key))
            return 1;
    return 0;
}

static void set_add(struct set *s, char *item)
{
    s->item = rp_realloc(s->item, (size_t)(s->n + 1) * sizeof *s->item);
    s->item[s->n++] = item;
}

static void set_fini(struct set *s)
{
    for (int i = 0; i < s->n; i++)
        free(s->item[i]);
    free(s->item);
}

static int parse_recipe(struct rp_recipe *r, const struct rp_original *first, const char *backend,
                        const struct set *set, struct rp_err *err)
{
    RP_FREE char *name = recipe_name(first);
    const struct rp_buf *yaml = recipe_bytes(first);
    return rp_recipe_parse(r, rp_buf_text(yaml), yaml->size, name, backend, (const char *const *)set->item, set->n,
                           err);
}

/* The overrides of the original, except of free keys. */
static void take_overrides(struct set *set, const struct rp_original *first)
{
    const char *key;
    json_t *entry;
    json_object_foreach(first->v->run->facts.recipe, key, entry) {
        const struct rp_recorded is = rp_recorded(entry);
        RP_FREE char *value = rp_recipe_value_text(is.value);
        if (strcmp(is.origin, rp_origin_name(RP_FROM_COMMAND_LINE)) == 0 && !rp_agreement_free(key))
            set_add(set, rp_asprintf("%s=%s", key, value));
    }
}

/* Adds overrides until the settings are the original's: section of another backend, planned batch size. Files and
 * devices are never taken from the original. Returns how many were added. */
static int complete_settings(struct set *set, const struct rp_recipe *r, const struct rp_original *first)
{
    static const char *const files[] = {"run.save", "run.init", "run.device", "data.path"};
    const struct rp_facts *f = &first->v->run->facts;
    RP_JSON *is = rp_recipe_to_json(r);
    json_t *entry;
    const char *key;
    int before = set->n;
    json_object_foreach(first->v->run->facts.recipe, key, entry) {
        if (rp_agreement_free(key) || is_set(set, key) || rp_agreement_same(key, f, is, -1))
            continue;
        RP_FREE char *value = strcmp(key, "train.batch_size") == 0
                                  ? rp_asprintf("%" PRId64, f->plan.batch)
                                  : rp_recipe_value_text(rp_recorded(entry).value);
        set_add(set, rp_asprintf("%s=%s", key, value));
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *here = json_string_value(rp_recorded(json_object_get(is, files[i])).value);
        if (here && *here && !is_set(set, files[i]))
            set_add(set, rp_asprintf("%s=", files[i]));
    }
    return set->n - before;
}

static int check_settings(const struct rp_recipe *r, const struct rp_original *first, struct rp_err *err)
{
    RP_JSON *is = rp_recipe_to_json(r);
    json_t *entry;
    const char *key;
    char shown[72];
    json_object_foreach(first->v->run->facts.recipe, key, entry)
        if (!rp_agreement_free(key) && !rp_agreement_same(key, &first->v->run->facts, is, -1))
            return rp_fail(err, RP_UNAVAILABLE, "this program cannot give %s the value of the original",
                           rp_excerpt(shown, key));
    return 0;
}

static int load_first(const struct rp_run_from *from, struct rp_recipe *r, const char *backend, const char *const *user,
                      int n, struct rp_err *err)
{
    struct set set = {0};
    take_overrides(&set, from->first);
    for (int i = 0; i < n; i++)
        set_add(&set, rp_strdup(user[i]));
    int failed = parse_recipe(r, from->first, backend, &set, err) < 0;
    if (!failed && complete_settings(&set, r, from->first)) {
        rp_recipe_fini(r);
        failed = parse_recipe(r, from->first, backend, &set, err) < 0;
    }
    if (failed)
        rp_wrap(err, "the recipe of the original");
    if (!failed && check_settings(r, from->first, err) < 0) {
        rp_recipe_fini(r);
        failed = 1;
    }
    set_fini(&set);
    return failed ? -1 : 0;
}

/* Files that are not in the bundle must be given. */
static int check_files(const struct rp_run_opts *o, const struct rp_original *first, struct rp_err *err)
{
    if (!first->v->run->facts.data.pinned && !o->data_path)
        return rp_fail(err, RP_UNAVAILABLE, "the original used its owner's samples: give them with --data");
    if (*recorded_text(first, "run.init") && !o->run_init)
        return rp_fail(err, RP_UNAVAILABLE, "the original started from a file of its owner: give it with --init");
    if (!*recorded_text(first, "run.init") && o->run_init)
        return rp_fail(err, RP_USAGE, "--init: the original started from a seed, not from a file");
    if (*recorded_text(first, "model.config"))
        return rp_fail(err, RP_UNAVAILABLE,
                       "the original took its model from a file (model.config) that is not in the bundle");
    return 0;
}

static int cmd_replicate(struct rp_cli *cli, struct rp_err *err)
{
    const struct rp_run_opts *o = cli->opts;
    RP_VERIFICATION v = {0};
    RP_VERIFIED kept = {0};
    struct rp_progress progress;
    const struct rp_verify_opts vo = {.trust = o->trust, .keep = &kept};
    const struct rp_original first = {.path = cli->argv[0], .v = &v, .kept = &kept};
    const struct rp_run_from from = {.load = load_first, .first = &first};
    rp_progress_init(&progress, STDERR_FILENO, cli->quiet);
    if (rp_verify(&v, cli->argv[0], &vo, err) < 0)
        return rp_wrap(err, "the original is not replicated");
    if (rp_verified_run(&kept, cli->argv[0], err) < 0)
        return -1;
    RP_BUF line = {0};
    rp_verification_line(&line, &v);
    rp_progress_note(&progress, "original, signed by %s: %s", v.fingerprint, rp_buf_text(&line));
    rp_progress_end(&progress);
    return check_files(o, &first, err) < 0 ? -1 : rp_run(cli, o, &from, err);
}

const struct rp_command rp_cmd_replicate = {
    .name = "replicate",
    .operands = "BUNDLE",
    .summary = "repeat the run of a bundle here, and seal the agreement of both",
    .details = "Verifies the bundle, trains its recipe with the same settings and data (compared by digest), and seals "
               "a bundle whose signed statement cites the original by digest. Its report has the agreement of both: "
               "bits, throughput ratio with an interval, differences of the machines. Only backend, device, "
               "instruction set and threads are free.\n"
               "\n"
               "repro verify NEW --original FIRST checks the agreement. Exit status 5: the bits differ; the bundle is "
               "sealed anyway. To repeat only the first steps, without a bundle: repro verify FIRST --replay K.\n"
               "\n"
               "Examples:\n"
               "  repro replicate theirs.repro.tar.zst --trust their-key.pem\n"
               "  repro replicate theirs.repro.tar.zst --data my-samples -o ours.repro.tar.zst\n",
    .opts = opts,
    .opts_size = sizeof(struct rp_run_opts),
    .run = cmd_replicate,
};
