/* Writes a bundle of format 3 again in format 4: records, device samples, captures and recipe keep their bytes; what
 * run.json of format 3 had of facts becomes facts.json, and all figures are derived again. The result is signed by a
 * key of its own, not by the signer of the run. format3 DIRECTORY (the old bundle, unpacked and verified by the program
 * that made it) KEY.pem (secret) NEW.repro.tar.zst */
#include "base/json.h"
#include "base/text.h"
#include "bundle/bundle.h"
#include "run/derive.h"
#include "run/seal.h"
#include "sign/key.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *dir;
static struct rp_err err;

static void die(const char *what)
{
    fprintf(stderr, "format3: %s: %s\n", what, err.msg);
    exit(1);
}

static void load(struct rp_buf *out, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (rp_read_file(out, path, 512ul << 20, &err) < 0)
        die(name);
}

static int exists(const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, R_OK) == 0;
}

static json_t *load_json(const char *name)
{
    RP_BUF b = {0};
    load(&b, name);
    json_t *j = rp_json_parse(b.data, b.size, name, &err);
    if (!j)
        die(name);
    return j;
}

static void add(struct rp_bundle *b, const char *name, const void *data, size_t size)
{
    if (rp_bundle_add(b, name, data, size, &err) < 0)
        die(name);
}

static void add_file(struct rp_bundle *b, const char *name)
{
    RP_BUF data = {0};
    if (!exists(name))
        return;
    load(&data, name);
    add(b, name, data.data, data.size);
}

static void add_document(struct rp_bundle *b, const char *name, const json_t *j)
{
    RP_BUF data = {0};
    rp_json_write(&data, j);
    add(b, name, data.data, data.size);
}

/* What a worker's DONE has in this version. */
static json_t *done_of(const json_t *run, const json_t *rank)
{
    static const char *const own[] = {"peak_rss_bytes", "device_bytes"};
    json_t *done = json_object(), *phases = json_object(), *v;
    const char *key;
    for (size_t i = 0; i < 2; i++) {
        v = json_object_get(rank ? rank : run, own[i]);
        if (v)
            json_object_set(done, own[i], v);
    }
    json_object_foreach(json_object_get(run, "phases_s"), key, v)
        json_object_set(phases,
                        strcmp(key, "warm-up") == 0       ? "warm_up"
                        : strcmp(key, "state roots") == 0 ? "state_roots"
                                                          : key,
                        v);
    json_object_set_new(done, "phases_s", phases);
    json_object_set(done, "ceilings", json_object_get(run, "ceilings"));
    json_object_set(done, "tensor_roots", json_object_get(run, "tensor_roots"));
    if (json_object_get(run, "skipped_samples"))
        json_object_set(done, "skipped_samples", json_object_get(run, "skipped_samples"));
    return done;
}

static void seal_plan(struct rp_plan_facts *out, const json_t *plan)
{
    json_t *j = json_deep_copy(plan), *bytes = json_object(), *v;
    const char *key;
    json_object_foreach(json_object_get(plan, "bytes"), key, v) {
        char name[64];
        snprintf(name, sizeof name, "%s", key);
        for (char *p = name; *p; p++)
            *p = *p == ' ' ? '_' : *p;
        json_object_set(bytes, name, v);
    }
    json_object_set_new(j, "bytes", bytes);
    rp_object_read(out, &rp_type_plan_facts, j);
    json_decref(j);
}

static void replace(char **text, const json_t *run, const char *path)
{
    free(*text);
    *text = rp_text_copy(json_string_value(rp_json_at(run, path)));
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    dir = argv[1];
    RP_JSON *old = load_json("run.json");
    if (strcmp(rp_json_text_at(old, "schema"), "repro-run/3") != 0 || rp_json_integer_at(old, "world/ranks") != 1)
        die("not format 3, or of several ranks");
    struct rp_run_documents *d = rp_alloc(sizeof *d);
    struct rp_run run = {.facts = &d->facts, .nodes = 1, .node = rp_alloc(sizeof *run.node)};
    struct rp_plan plan = {0};
    RP_BUF steps = {0}, yaml = {0}, samples = {0};
    d->references = 1;
    if (rp_recipe_from_json(&run.recipe, json_object_get(old, "recipe"), &err) < 0)
        die("recipe");
    if (run.recipe.train_batch_size == RP_BATCH_MAX)
        run.recipe.train_batch_size = rp_json_integer_at(old, "plan/batch");
    RP_JSON *hello = json_pack("{s:O}", "device", json_object_get(old, "device"));
    RP_JSON *done = done_of(old, NULL);
    const json_t *hellos[] = {hello}, *dones[] = {done};
    const char *no_telemetry[] = {json_string_value(rp_json_at(old, "telemetry/reason"))};
    rp_facts_seal(&d->facts, &(struct rp_seal){.status = rp_json_text_at(old, "status"),
                                               .reason = json_string_value(json_object_get(old, "reason")),
                                               .recipe = &run.recipe,
                                               .identified = 1,
                                               .backend = rp_json_text_at(old, "backend"),
                                               .data = json_object_get(old, "data"),
                                               .init = json_object_get(old, "init"),
                                               .plan = &plan,
                                               .degrees = {1, 1, 1},
                                               .hello = hellos,
                                               .done = dones,
                                               .no_telemetry = no_telemetry,
                                               .ledger = json_object_get(old, "ledger"),
                                               .challenge = json_object_get(old, "challenge"),
                                               .replicates = json_object_get(old, "replicates")});
    struct rp_facts *f = &d->facts;
    replace(&f->started_at, old, "started_at");
    replace(&f->ended_at, old, "ended_at");
    f->elapsed_s = rp_json_number_at(old, "elapsed_s");
    replace(&f->tool.version, old, "tool/version");
    replace(&f->tool.commit, old, "tool/commit");
    replace(&f->tool.dirty, old, "tool/dirty");
    replace(&f->tool.compiler, old, "tool/compiler");
    replace(&f->tool.flags, old, "tool/flags");
    replace(&f->recipe_name, old, "recipe_name");
    json_decref(f->recipe);
    f->recipe = json_deep_copy(json_object_get(old, "recipe"));
    seal_plan(&f->plan, json_object_get(old, "plan"));
    load(&steps, "steps/rank0.jsonl");
    load(&yaml, "recipe.yaml");
    rp_sha256_hex(run.recipe_sha256, yaml.data, yaml.size);
    run.node[0] = (struct rp_captures){load_json("env/node0.before.json"), load_json("env/node0.after.json")};
    struct rp_records one;
    rp_all_ranks_init(&run.ranks, (struct rp_degrees){1, 1, 1});
    if (rp_records_parse_rank(&one, 0, steps.data, steps.size, &err) < 0 ||
        rp_all_ranks_add(&run.ranks, &run.records, &one, &err) < 0 || rp_derive(&d->figures, &run, &err) < 0)
        die("records");
    if (exists("steps/rank0.telemetry.jsonl")) {
        load(&samples, "steps/rank0.telemetry.jsonl");
        struct rp_telemetry t;
        if (rp_telemetry_parse(&t, 0, 1, samples.data, samples.size, &err) < 0)
            die("telemetry");
        rp_derive_telemetry(&d->figures, 0, &t, &run.ranks.share[0]);
    }
    rp_derive_telemetry_of_all(&d->figures, f, &run.records);
    rp_run_documents_write(d);
    static const char *const kept[] = {"recipe.yaml",         "env/node0.before.json", "env/node0.after.json",
                                       "env/node0.hwloc.xml", "steps/rank0.jsonl",     "steps/rank0.telemetry.jsonl"};
    struct rp_bundle b = {0};
    struct rp_buf file = {0};
    struct rp_key_pair *key = rp_key_load(argv[2], -1, &err);
    add_document(&b, "facts.json", d->facts_json);
    add_document(&b, "run.json", d->figures_json);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        add_file(&b, kept[i]);
    if (!key || rp_bundle_seal(&b, key, &file, &err) < 0 ||
        rp_write_file(argv[3], file.data, file.size, 0644, &err) < 0)
        die("sealing");
    return 0;
}
