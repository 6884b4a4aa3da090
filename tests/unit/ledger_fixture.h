/* Ledgers of tests: their key, their lines, and lines that were forged. */
#pragma once

#include "base/json.h"
#include "ledger/ledger.h"
#include "run/facts.h"
#include "tests/unit/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RECIPE "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define OTHER "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

/* In memory where that can be: a thousand lines are synced. */
static __attribute__((unused)) char *in_dir(const char *name)
{
    scratch_in = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : NULL;
    return rp_asprintf("%s/%s", scratch_dir(), name);
}

/* The line that started that run, as its writer was told of it. */
static __attribute__((unused)) struct rp_ledger_ref start_of(const char *path, int64_t run)
{
    struct rp_ledger_ref mark = {.position = run};
    char line[RP_LEDGER_LINE_MAX] = "";
    FILE *f = fopen(path, "r");
    for (int64_t n = 0; f && n < run && fgets(line, sizeof line, f); n++) {
    }
    if (f)
        fclose(f);
    RP_JSON *is = json_loads(line, 0, NULL);
    const char *head = json_string_value(json_object_get(is, "sha256"));
    CHECK(head, "%s has no line %lld", path, (long long)run);
    snprintf(mark.head, sizeof mark.head, "%s", head ? head : "");
    return mark;
}

/* A key that is made once. */
static __attribute__((unused)) const struct rp_key_pair *ledger_key(const char *name)
{
    static struct rp_key_pair *key[4];
    static char *made[4];
    struct rp_err err;
    int i = 0;
    while (i < 3 && made[i] && strcmp(made[i], name) != 0)
        i++;
    if (key[i])
        return key[i];
    RP_FREE char *file = in_dir(name);
    made[i] = rp_strdup(name);
    CHECK(rp_key_create(file, NULL, &err) == 0 && (key[i] = rp_key_load(file, -1, &err)), "%s", err.msg);
    return key[i];
}

/* By a process that ends at once: the run is not in progress afterwards. */
static __attribute__((unused)) int append_as(const char *path, enum rp_ledger_event e,
                                             const struct rp_ledger_ref *start, json_t *fields,
                                             const struct rp_key_pair *key, struct rp_ledger_ref *mark,
                                             struct rp_err *err)
{
    struct rp_ledger_writer w = {.path = path, .named = 1, .key = key, .running = -1};
    int failed = rp_ledger_append(&w, e, start, fields, mark, err);
    rp_closep(&w.running);
    return failed;
}

static __attribute__((unused)) int append_of(const char *path, enum rp_ledger_event e, const char *recipe, int64_t run,
                                             struct rp_ledger_ref *mark, struct rp_err *err)
{
    struct rp_ledger_ref start = {0};
    json_t *fields = json_pack("{s:s, s:s}", "recipe", recipe, "recipe_name", "tiny.yaml");
    if (run)
        start = start_of(path, run);
    *err = (struct rp_err){0};
    return append_as(path, e, run ? &start : NULL, fields, ledger_key("mine.pem"), mark, err);
}

static __attribute__((unused)) struct rp_ledger_ref append(const char *path, enum rp_ledger_event e, int64_t run)
{
    struct rp_ledger_ref mark;
    struct rp_err err;
    int failed = append_of(path, e, RECIPE, run, &mark, &err);
    CHECK(failed == 0, "append: %s", err.msg);
    return mark;
}

static __attribute__((unused)) void fill(const char *path)
{
    append(path, RP_LEDGER_STARTED, 0);
    append(path, RP_LEDGER_SEALED, 1);
    append(path, RP_LEDGER_STARTED, 0);
}

static __attribute__((unused)) int read_it(const char *path, struct rp_ledger_summary *s, struct rp_err *err)
{
    *err = (struct rp_err){0};
    return rp_ledger_read(path, NULL, NULL, s, err);
}

static __attribute__((unused)) void check_whole(const char *path, int64_t lines)
{
    struct rp_ledger_summary s;
    struct rp_err err;
    int failed = read_it(path, &s, &err);
    CHECK(failed == 0 && s.lines == lines, "%lld lines: %s", (long long)s.lines, err.msg);
}

static __attribute__((unused)) void slurp(struct rp_buf *out, const char *path)
{
    struct rp_err err;
    int failed = rp_read_file(out, path, 1 << 20, &err);
    CHECK(failed == 0, "%s", err.msg);
}

static __attribute__((unused)) void put(const char *path, const void *data, size_t size)
{
    struct rp_err err;
    CHECK(rp_write_file(path, data, size, 0600, &err) == 0, "%s", err.msg);
}

/* A line with all its digests, as somebody makes it who knows how; takes the reference. */
static __attribute__((unused)) void forge(struct rp_buf *out, json_t *line, const char *previous)
{
    char hex[RP_SHA256_HEX];
    RP_BUF bare = {0};
    json_object_set_new(line, "previous", json_string(previous));
    rp_json_write_line(&bare, line);
    rp_sha256_hex(hex, bare.data, bare.size);
    json_object_set_new(line, "sha256", json_string(hex));
    rp_json_write_line(out, line);
    json_decref(line);
}

/* What a run records of the line that started it; its texts are those of the line. */
static __attribute__((unused)) struct rp_facts facts_of(struct rp_ledger_ref *start)
{
    struct rp_facts f;
    rp_object_init(&f, &rp_type_facts);
    f.ledger.position = start->position;
    f.ledger.earlier = start->earlier;
    RP_FORMAT(f.ledger.head, "%s", start->head);
    f.ledger.at = *start->at ? start->at : NULL;
    f.ledger.begun = *start->begun ? start->begun : NULL;
    f.ledger.key_made = *start->made ? start->made : NULL;
    return f;
}
