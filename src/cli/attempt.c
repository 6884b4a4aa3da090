#include "cli/attempt.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NAME_MAX_SHOWN 200

/* A file's name without its folders, as printable ASCII. */
static json_t *name_json(const char *path)
{
    char safe[NAME_MAX_SHOWN];
    return json_string(rp_ascii(safe, sizeof safe, rp_base_name(path)));
}

static json_t *bundle_json(const char *path, const char *statement)
{
    return json_pack("{s:o, s:s*}", "name", name_json(path), "statement", statement && *statement ? statement : NULL);
}

/* Problems of the ledger are progress messages and never fail the command. */
static void append_entry(struct rp_ledger_writer *w, enum rp_ledger_event e, const struct rp_ledger_ref *start,
                         json_t *fields, struct rp_ledger_ref *mark, struct rp_progress *progress)
{
    struct rp_err why = {0};
    if (rp_ledger_append(w, e, start, fields, mark, &why) < 0)
        rp_progress_note(progress, "%s: %s",
                         e == RP_LEDGER_VERIFIED ? "this verification is not recorded" : "not in the ledger", why.msg);
    if (mark->torn)
        rp_progress_note(progress,
                         "the ledger ended in %" PRIu64
                         " bytes of a torn line, as after a crash: kept in '%s" RP_LEDGER_ASIDE "'",
                         mark->torn, w->path);
}

/* When the key was made: now, or as old as its file is. */
static uint64_t made_at(const struct rp_attempt_key *key)
{
    struct stat st;
    if (key->created)
        return rp_wall_ns();
    return stat(key->file, &st) < 0 || st.st_mtim.tv_sec <= 0
               ? 0 : (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
}

static void note_new_ledger(const struct rp_attempt *a, struct rp_progress *progress)
{
    RP_FREE char *old = a->writer.named ? NULL : rp_ledger_old_path();
    rp_progress_note(progress, "this run begins a new ledger, '%s'", a->path);
    if (old)
        rp_progress_note(progress,
                         "an older version of this program kept its ledger in '%s': it is not continued, but 'repro "
                         "ledger list FILE' reads it",
                         old);
}

void rp_attempt_start(struct rp_attempt *a, int off, const struct rp_attempt_key *key, const char *recipe_sha256,
                      const char *recipe_name, const char *replicates, struct rp_progress *progress)
{
    char print[RP_FINGERPRINT_SIZE];
    *a = (struct rp_attempt){.off = off, .recipe = rp_strdup(recipe_sha256), .recipe_name = rp_strdup(recipe_name)};
    rp_key_fingerprint(key->pair, print);
    a->writer =
        (struct rp_ledger_writer){.key = key->pair, .made_ns = made_at(key), .by_file = !key->created, .running = -1};
    a->writer.path = a->path = rp_ledger_path(key->file, print, &a->writer.named);
    if (off)
        return;
    append_entry(&a->writer, RP_LEDGER_STARTED, NULL,
                 json_pack("{s:s, s:o, s:s*}", "recipe", recipe_sha256, "recipe_name", name_json(recipe_name),
                           "replicates", replicates),
                 &a->mark, progress);
    if (a->mark.position == 1)
        note_new_ledger(a, progress);
    if (a->mark.overlapping > 0)
        rp_progress_note(progress,
                         "%" PRId64
                         " other %s in progress with this key: this machine may be shared; the bundle records it",
                         a->mark.overlapping, a->mark.overlapping == 1 ? "run is" : "runs are");
    a->on_layer = a->mark.position && rp_ledger_is_on_layer(a->path);
    if (a->on_layer)
        rp_progress_note(
            progress,
            "attempts are recorded in '%s', on this container's own layer, and are lost with it: mount a volume there",
            a->path);
}

json_t *rp_attempt_json(const struct rp_attempt *a)
{
    const struct rp_ledger_ref *m = &a->mark;
    if (a->off)
        return json_pack("{s:s}", "reason", "turned off with --no-ledger");
    if (m->position == 0)
        return json_pack("{s:s}", "reason", m->reason);
    json_t *is = json_pack("{s:I, s:s, s:I, s:s, s:s}", "position", (json_int_t)m->position, "head", m->head, "earlier",
                           (json_int_t)m->earlier, "at", m->at, "begun", m->begun);
    if (*m->made) {
        json_object_set_new(is, "key_made", json_string(m->made));
        json_object_set_new(is, "key_made_known_from", json_string(m->by_file ? "file" : "creation"));
    }
    if (m->overlapping >= 0)
        json_object_set_new(is, "overlapping", json_integer((json_int_t)m->overlapping));
    if (a->on_layer)
        json_object_set_new(is, "container_layer", json_true());
    return is;
}

void rp_attempt_end(struct rp_attempt *a, enum rp_ledger_event e, const char *bundle, const char *statement,
                    int exit_status, struct rp_progress *progress)
{
    struct rp_ledger_ref mark;
    if (a->off || a->mark.position == 0) /* no entry for the start */
        return;
    json_t *fields = json_pack("{s:s, s:o, s:i, s:o*}", "recipe", a->recipe, "recipe_name", name_json(a->recipe_name),
                               "exit", exit_status, "bundle", bundle ? bundle_json(bundle, statement) : NULL);
    append_entry(&a->writer, e, &a->mark, fields, &mark, progress);
}

void rp_attempt_fini(struct rp_attempt *a)
{
    if (a->path)
        rp_closep(&a->writer.running);
    free(a->path);
    free(a->recipe);
    free(a->recipe_name);
    *a = (struct rp_attempt){0};
}

void rp_attempt_verified(const char *bundle, const struct rp_verification *v, int exit_status,
                         struct rp_progress *progress)
{
    struct rp_ledger_ref mark;
    struct rp_err why = {0};
    int failed = 0;
    while (failed < RP_CHECK_COUNT && v->check[failed].state != RP_CHECK_FAILED)
        failed++;
    RP_FREE char *path = rp_ledger_verified_path(&why);
    struct rp_ledger_writer w = {.path = path, .running = -1};
    json_t *fields =
        json_pack("{s:o, s:s, s:s*, s:s*, s:i, s:s*, s:o*}", "bundle", bundle_json(bundle, v->statement), "verdict",
                  rp_verdict_name(v->verdict), "check", failed < RP_CHECK_COUNT ? v->check[failed].name : NULL,
                  "recipe", v->run ? v->run->figures.recipe_sha256 : NULL, "exit", exit_status, "signer",
                  v->run ? v->fingerprint : NULL, "ledger", rp_ledger_claim(v->run ? &v->run->facts : NULL));
    if (path) {
        append_entry(&w, RP_LEDGER_VERIFIED, NULL, fields, &mark, progress);
    } else {
        rp_progress_note(progress, "this verification is not recorded: %s", why.msg);
        json_decref(fields);
    }
}
