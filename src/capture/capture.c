#include "capture/capture.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/nearest.h"
#include "capture/privacy/interface_names.h"
#include "capture/record.h"

#include <errno.h>
#include <stddef.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>

static const struct {
    const char *name;
    void (*run)(struct rp_probe *p);
} probes[] = {
#define PROBE(name) {#name, rp_probe_##name},
#include "capture/probes.def"
#undef PROBE
};
enum { PROBES = sizeof probes / sizeof *probes };

/* The probe that was probably meant, or all of them. */
static int no_such_probe(const char *list, const char *word, const char *near, struct rp_err *err)
{
    RP_BUF known = {0};
    for (size_t k = 0; k < PROBES; k++)
        rp_buf_printf(&known, "%s%s", k ? ", " : "", probes[k].name);
    if (!*word)
        return rp_fail(err, RP_USAGE, "--probe: there is an empty name in '%.100s': the probes are %s", list,
                       known.data);
    return rp_fail(err, RP_USAGE,
                   near ? "unknown probe '%s'; did you mean '%s'?" : "unknown probe '%s'; the probes are %s", word,
                   near ? near : known.data);
}

int rp_capture_select(struct rp_capture_opts *o, const char *list, struct rp_err *err)
{
    o->probes = 0;
    for (const char *p = list;; p++) {
        size_t n = strcspn(p, ","), i = 0;
        RP_FREE char *word = rp_asprintf("%.*s", n < 64 ? (int)n : 64, p);
        struct rp_nearest near = {.word = word};
        for (; i < PROBES && strcmp(word, probes[i].name) != 0; i++)
            rp_nearest_try(&near, probes[i].name);
        if (i == PROBES)
            return no_such_probe(list, word, near.best, err);
        o->probes |= (uint64_t)1 << i;
        p += n;
        if (!*p)
            return 0;
    }
}

#define RP_OBJECT_LIST "capture/documents.def"
#include "base/object_tables.inc.h"

/* The salt of the document: the given one, else the record's, else random. */
static int find_salt(char salt[33], const struct rp_capture_opts *o, const json_t *recorded, struct rp_err *err)
{
    unsigned char random[16];
    RP_READ(capture_document, record, recorded);
    const char *given = o->salt ? o->salt : record.salt;
    if (given && strlen(given) == 32 && strspn(given, "0123456789abcdef") == 32) {
        memcpy(salt, given, 33);
        return 0;
    }
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return rp_fail(err, RP_IO, "capture: no random bytes for the salt: %s", strerror(errno));
    rp_hex(salt, random, sizeof random);
    return 0;
}

/* A record is of the moment at which it was made. */
static void find_time(char when[32], const struct rp_capture_opts *o, const json_t *recorded)
{
    static const char form[] = "0000-00-00T00:00:00Z";
    RP_READ(capture_document, record, recorded);
    const char *then = record.captured_at;
    size_t same = 0;
    while (then && form[same] &&
           (form[same] == '0' ? then[same] >= '0' && then[same] <= '9' : then[same] == form[same]))
        same++;
    if (then && !form[same] && !then[same])
        memcpy(when, then, sizeof form);
    else
        rp_rfc3339(when, o->wall_ns ? o->wall_ns : rp_wall_ns());
}

static json_t *run_all(struct rp_probe *p)
{
    json_t *all = json_object();
    p->all = all;
    for (size_t i = 0; i < PROBES; i++) {
        if (p->opts->probes && !(p->opts->probes >> i & 1))
            continue;
        p->name = probes[i].name;
        p->out = json_object();
        json_object_set_new(all, p->name, p->out);
        probes[i].run(p);
        rp_hide_interfaces_in_sources(p, p->out);
    }
    rp_mark_unseen(p, all);
    return all;
}

json_t *rp_capture(const struct rp_capture_opts *o, struct rp_err *err)
{
    char salt[33], when[32];
    _Static_assert(PROBES <= 64, "rp_capture_opts.probes has a bit for each");
    RP_FD root = open(o->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct rp_probe p = {.opts = o, .root = root, .live = strcmp(o->root, "/") == 0, .salt = salt};
    if (root < 0 && !p.live)
        return rp_fail_null(err, RP_IO, "capture: cannot open '%s': %s", o->root, strerror(errno));
    RP_JSON *recorded = p.live ? NULL : rp_record_load(root, o->root, err);
    if (!recorded && !p.live && err->code != RP_OK)
        return NULL;
    p.recorded = recorded;
    find_time(when, o, recorded);
    if (find_salt(salt, o, recorded, err) < 0 ||
        (o->record && !(p.record = rp_record_new(o->record, root, salt, when, err))))
        return NULL;
    json_t *all = run_all(&p);
    int rc = p.record ? rp_record_finish(p.record, err) : 0;
    rp_record_free(p.record);
    if (rc < 0) {
        json_decref(all);
        return NULL;
    }
    return json_pack("{s:s, s:s, s:s, s:b, s:o}", "schema", "repro-env/1", "captured_at", when, "salt", salt,
                     "identified", o->identify != 0, "probes", all);
}
