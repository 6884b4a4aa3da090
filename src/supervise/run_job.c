#include "supervise/run_job.h"

#include "base/build.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "capture/capture.h"
#include "run/run.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum {
    TEND_MS = 200,
    CAPTURE_S = 120, /* time for the captures of other hosts */
    FAREWELL_MS = 5000,
    STEP_MS = 100
};

/* ---- joining ---- */

int rp_run_job_detect(struct rp_run_job *j, const struct rp_joining_opts *o, int ranks, struct rp_err *err)
{
    const struct rp_launch *l = &j->joining.launch;
    if (rp_joining_detect(&j->joining, o, err) < 0)
        return -1;
    const int64_t of_node = l->kind == RP_LAUNCH_NODES && l->ranks_per_node > 0 ? l->ranks_per_node : ranks;
    j->several = l->kind != RP_LAUNCH_ALONE && l->size != 1;
    j->ranks = of_node > 0 ? (int)of_node : 1;
    if (l->kind == RP_LAUNCH_ALONE && o->ranks_per_node)
        return rp_fail(
            err, RP_USAGE,
            "--ranks-per-node is for jobs with one process on each node; for ranks on this machine give --ranks %ld",
            o->ranks_per_node);
    if (l->kind == RP_LAUNCH_ALONE && j->joining.key.source && l->note)
        return rp_fail(err, RP_USAGE, "%s", l->note);
    if (l->kind == RP_LAUNCH_RANKS && o->ranks_per_node > 1)
        return rp_fail(err, RP_USAGE, "%s starts one process for each rank: leave --ranks-per-node out", l->name);
    if (!j->several)
        return 0;
    if (l->kind == RP_LAUNCH_RANKS && ranks > 1)
        return rp_fail(
            err, RP_USAGE,
            "%s started this process as one rank of several, and --ranks asks for %d more: leave one of them out",
            l->name, ranks);
    if (rp_join_check_key(l, &j->joining.key, err) < 0) /* before samples are unpacked */
        return -1;
    return 0;
}

/* The settings that affect the result: where to run may differ. Those that only name the recipe come last, since the
 * first that differs is reported. */
static void add_settings(json_t *facts, const struct rp_recipe *r)
{
    RP_JSON *all = rp_recipe_to_json(r);
    const char *key;
    json_t *entry;
    for (int names = 0; names < 2; names++)
        json_object_foreach(all, key, entry)
        {
            RP_FREE char *name = rp_asprintf("recipe key %s", key),
                         *value = rp_recipe_value_text(rp_recorded(entry).value);
            const int is_name = strcmp(key, "title") == 0 || strcmp(key, "follows") == 0;
            if (is_name == names && strncmp(key, "run.", 4) != 0)
                json_object_set_new(facts, name, json_string(value));
        }
}

/* This program, with the GPU worker in it. */
static void program_digest(char hex[RP_SHA256_HEX])
{
    struct rp_err ignored;
    if (rp_sha256_file(hex, "/proc/self/exe", NULL, &ignored) < 0)
        snprintf(hex, RP_SHA256_HEX, "unknown");
}

/* What decides the training comes after the arithmetic: the recipe and its transport, and the samples last, as the
 * settings name another recipe first. */
static void add_training(json_t *facts, const struct rp_run_job_opts *what)
{
    const int transport = what->recipe->run_transport;
    json_object_set_new(facts, "arithmetic", json_string(rp_numerics_of(what->recipe)));
    json_object_set_new(facts, "run.transport", json_string(rp_choice_name(RP_TRANSPORTS, transport)));
    if (transport != RP_TRANSPORT_sockets)
        json_object_set_new(facts, "backend (--set run.transport=sockets allows several)", json_string(what->backend));
    add_settings(facts, what->recipe); /* after the backend, whose section of the recipe may set some */
    json_object_set_new(facts, "samples", json_string(what->samples));
}

static json_t *facts_of(const struct rp_run_job_opts *what, const char *program)
{
    const struct rp_build *b = rp_build_record();
    json_t *facts = json_pack("{s:s, s:s, s:s}", "version of repro", b->version, "commit of repro", b->commit,
                              "state of its sources", b->dirty);
    if (what->recipe)
        add_training(facts, what);
    if (what->other_programs)
        json_object_set_new(facts, "--allow-different-programs", json_string("given"));
    else
        json_object_set_new(facts, "SHA-256 of the program (see --allow-different-programs)", json_string(program));
    return facts;
}

int rp_run_job_join(struct rp_run_job *j, const struct rp_joining_opts *o, const struct rp_run_job_opts *what,
                    struct rp_progress *progress, struct rp_err *err)
{
    char program[RP_SHA256_HEX];
    program_digest(program);
    RP_FREE char *cpus = rp_world_cpu_list();
    RP_JSON *facts = facts_of(what, program),
            *about = json_pack("{s:s, s:s*, s:s*}", "program", program, "backend", what->backend, "cpus", cpus);
    json_object_update(about, (json_t *)what->about);
    if (rp_joining_open(&j->joining, o, j->ranks, facts, about, progress, err) < 0)
        return -1;
    const struct rp_join *join = &j->joining.join;
    char ranks[48];
    rp_progress_note(progress, "process %d of %d, %s of %d", join->own, join->members,
                     rp_join_ranks(&join->member[join->own], ranks), join->world);
    return 0;
}

void rp_run_job_fini(struct rp_run_job *j)
{
    rp_run_job_untend(j);
    rp_joining_fini(&j->joining);
    *j = (struct rp_run_job){.joining = {.where = {.pmi = {.fd = -1}}}};
}

/* ---- the thread ---- */

static void *tend_members(void *arg)
{
    struct rp_run_job *j = arg;
    while (!__atomic_load_n(&j->stop, __ATOMIC_ACQUIRE))
        rp_join_tend(&j->joining.join, TEND_MS);
    return NULL;
}

void rp_run_job_tend(struct rp_run_job *j)
{
    sigset_t all, before;
    if (!j->several || j->tended)
        return;
    j->stop = 0;
    sigfillset(&all); /* signals are for the main thread */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    j->tended = pthread_create(&j->thread, NULL, tend_members, j) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void rp_run_job_untend(struct rp_run_job *j)
{
    if (!j->tended)
        return;
    __atomic_store_n(&j->stop, 1, __ATOMIC_RELEASE);
    pthread_join(j->thread, NULL);
    j->tended = 0;
}

/* ---- process 0 ---- */

int rp_run_job_hosts(const struct rp_run_job *j)
{
    int n = 1;
    for (int i = 0; j->several && i < j->joining.join.members; i++)
        n = j->joining.join.member[i].host >= n ? j->joining.join.member[i].host + 1 : n;
    return n;
}

int *rp_run_job_rank_hosts(const struct rp_run_job *j)
{
    const struct rp_join *all = &j->joining.join;
    int *host = rp_alloc((size_t)all->world * sizeof *host);
    for (int i = 0; i < all->members; i++)
        for (int k = 0; k < all->member[i].ranks; k++)
            host[all->member[i].first_rank + k] = all->member[i].host;
    return host;
}

struct rp_cpu_sharers rp_run_job_cpu_sharers(const struct rp_run_job *j)
{
    const struct rp_join *all = &j->joining.join;
    struct rp_cpu_sharers s = {0};
    for (int i = 0; i < all->members; i++)
        s.ranks += rp_job_member_cpu_set(all, i) == 0 ? all->member[i].ranks : 0;
    return s;
}

int rp_run_job_gpus(const struct rp_run_job *j)
{
    const struct rp_join *all = &j->joining.join;
    int n = 0;
    for (int i = 0; i < all->members; i++)
        n += rp_job_member_has_gpus(&all->member[i]) ? all->member[i].ranks : 0;
    return n;
}

/* Whether this process captures its host: the first one of each does. */
static int captures_host(const struct rp_join *j, int member)
{
    for (int i = 0; i < member; i++)
        if (j->member[i].host == j->member[member].host)
            return 0;
    return 1;
}

int rp_run_job_ask_captures(struct rp_run_job *j, const char *salt, int identify, struct rp_err *err)
{
    struct rp_join *all = &j->joining.join;
    RP_JSON *body = json_pack("{s:s, s:b}", "salt", salt, "identify", identify);
    for (int i = 1; j->several && i < all->members; i++)
        if (captures_host(all, i) && rp_join_send(all, i, RP_FRAME_CAPTURE, body, err) < 0)
            return -1;
    return 0;
}

static int missing_captures(const struct rp_run_job *j, json_t *const *document)
{
    int n = 0;
    for (int h = 1; h < rp_run_job_hosts(j); h++)
        n += !document[h];
    return n;
}

int rp_run_job_take_captures(struct rp_run_job *j, json_t **document, struct rp_buf *xml, struct rp_err *err)
{
    struct rp_join *all = &j->joining.join;
    const uint64_t until = rp_now_ns() + CAPTURE_S * 1000000000ull;
    while (j->several && missing_captures(j, document)) {
        enum rp_frame type;
        RP_JSON *body = NULL;
        int member, got = rp_join_next(all, STEP_MS, &member, &type, &body, err);
        if (got < 0)
            return -1;
        if (rp_interrupted())
            return rp_fail(err, RP_INTERRUPTED, "interrupted");
        if (rp_now_ns() > until)
            return rp_fail(err, RP_UNAVAILABLE, "%d host%s not captured within %d s", missing_captures(j, document),
                           missing_captures(j, document) == 1 ? " was" : "s were", CAPTURE_S);
        const int host = got ? all->member[member].host : 0;
        if (!got || type != RP_FRAME_CAPTURE || host == 0 || document[host])
            continue;
        RP_READ(captured_frame, one, body);
        if (!json_is_object(one.capture))
            continue;
        document[host] = json_incref(one.capture);
        if (xml && one.hwloc)
            rp_buf_puts(&xml[host], one.hwloc);
    }
    return 0;
}

void rp_run_job_end(struct rp_run_job *j, const struct rp_err *reason)
{
    struct rp_err ignored; /* the run is sealed: what happens to the others now changes nothing */
    rp_run_job_untend(j);
    if (!j->several || !j->joining.join.members)
        return;
    if (reason)
        rp_join_abort(&j->joining.join, reason);
    else
        (void)!rp_join_close(&j->joining.join, FAREWELL_MS, &ignored);
}

/* ---- the others ---- */

int rp_run_job_send_capture(struct rp_run_job *j, const json_t *asked, struct rp_err *err)
{
    struct rp_buf xml = {0};
    RP_READ(capture_frame, question, asked);
    const struct rp_capture_opts c = {
        .root = "/", .identify = question.identify, .hwloc_xml = &xml, .salt = question.salt};
    rp_run_job_tend(j);
    json_t *capture = rp_capture(&c, err);
    rp_run_job_untend(j);
    RP_JSON *body =
        capture ? json_pack("{s:o, s:s*}", "capture", capture, "hwloc", xml.size ? rp_buf_text(&xml) : NULL) : NULL;
    rp_buf_fini(&xml);
    return body ? rp_join_send(&j->joining.join, 0, RP_FRAME_CAPTURE, body, err) : -1;
}

struct following {
    struct rp_run_job *j;
    const struct rp_follow_opts *o;
    struct rp_group_of_workers *group; /* NULL: not started */
    struct rp_job job;                 /* decoded, with this process's own places */
    int stop_sent, over;
};

/* The settings of process 0, except for those of this machine. */
static int start_ranks(struct following *f, const json_t *body, struct rp_err *err)
{
    const struct rp_backend *const backends[] = {f->o->backend, NULL};
    const json_t *job = json_object_get(body, "job");
    const struct rp_job_member *own = &f->j->joining.join.member[f->j->joining.join.own];
    if (f->group)
        return rp_fail(err, RP_MALFORMED, "process 0 sent a second job");
    RP_JSON *here = json_deep_copy(job);
    json_object_set_new(here, "backend", json_string(f->o->backend->name));
    json_object_set_new(here, "data", json_string(f->o->data));
    json_t *recipe = json_object_get(here, "recipe");
    RP_JSON *mine = rp_recipe_to_json(f->o->recipe);
    /* run.transport is the same everywhere */
    static const char *const places[] = {"run.isa", "run.threads", "run.device", "run.backend"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        json_object_set(recipe, places[i], json_object_get(mine, places[i]));
    if (rp_job_decode(&f->job, here, backends, err) < 0)
        return -1;
    if (!f->job.rank)
        return rp_fail(err, RP_MALFORMED, "process 0 sent a job without ranks");
    const struct rp_degrees d = f->job.rank->degrees;
    RP_FREE char *layout = rp_asprintf("%dx%dx%d", d.data, d.tensor, d.pipeline);
    if (f->o->layout && strcmp(f->o->layout, layout) != 0)
        return rp_fail(
            err, RP_MISMATCH,
            "the processes of the job differ in --layout: process %d has %.40s, and process 0, or the number of ranks, "
            "makes it %s",
            f->j->joining.join.own, f->o->layout, layout);
    struct rp_own_ranks ranks = {.of = *f->job.rank, .first = own->first_rank, .count = own->ranks};
    memcpy(ranks.of.key, f->j->joining.key.bytes, sizeof ranks.of.key);
    f->group = rp_workers_start_own(&f->job, &ranks, err);
    explicit_bzero(ranks.of.key, sizeof ranks.of.key);
    return f->group ? 0 : -1;
}

/* Process 0 does not know by which of its addresses the others reach it, and those next to it may have reached it by
 * loopback. */
static void tell_peers(const struct following *f, const json_t *body)
{
    const struct rp_join *join = &f->j->joining.join;
    const struct rp_job_member *lead = &join->member[0];
    RP_JSON *here = json_deep_copy(body);
    json_t *peers = json_object_get(here, "peers");
    for (int k = 0; k < join->members; k++) {
        const struct rp_job_member *m = &join->member[k];
        for (int i = 0; m->place == lead->place && i < m->ranks; i++)
            json_object_set_new(json_array_get(peers, (size_t)(m->first_rank + i)), "address",
                                json_string(lead->address));
    }
    rp_workers_tell(f->group, RP_FRAME_PEERS, here);
}

static void stop_ranks(struct following *f, const json_t *body)
{
    RP_READ(stop_frame, stop, body);
    if (!stop.kill) {
        rp_workers_stop(f->group);
        return;
    }
    rp_workers_end(f->group);
    f->group = NULL;
}

static int take_message(struct following *f, enum rp_frame type, const json_t *body, struct rp_err *err)
{
    switch (type) {
    case RP_FRAME_CAPTURE:
        return rp_run_job_send_capture(f->j, body, err);
    case RP_FRAME_JOB:
        return start_ranks(f, body, err);
    case RP_FRAME_PEERS:
        if (f->group)
            tell_peers(f, body);
        return 0;
    case RP_FRAME_STOP:
        if (f->group)
            stop_ranks(f, body);
        return 0;
    case RP_FRAME_BYE:
        f->over = 1;
        return 0;
    default:
        return 0;
    }
}

static int pass_on(struct following *f, int rank, enum rp_frame type, json_t *body, struct rp_err *err)
{
    RP_JSON *message = json_pack("{s:i, s:i, s:O}", "rank", rank, "frame", (int)type, "body", body);
    return rp_join_send(&f->j->joining.join, 0, RP_FRAME_RELAY, message, err);
}

/* A worker of this process that is gone without a word: process 0 gets the reason in its place. */
static int report_failures(struct following *f, struct rp_err *err)
{
    struct rp_err reason;
    int rank, ended;
    while (f->group && rp_workers_take_gone(f->group, &rank, &ended, &reason)) {
        RP_JSON *body = json_pack("{s:i, s:s, s:i, s:i}", "code", (int)reason.code, "message", reason.msg, "step", -1,
                                  "ended", ended);
        if (pass_on(f, rank, RP_FRAME_FAILED, body, err) < 0)
            return -1;
    }
    return 0;
}

static int follow_once(struct following *f, struct rp_err *err)
{
    struct rp_join *all = &f->j->joining.join;
    enum rp_frame type;
    RP_JSON *body = NULL, *frame = NULL;
    int member, rank, got = rp_join_next(all, f->group ? 0 : STEP_MS, &member, &type, &body, err);
    if (got < 0 || (got > 0 && take_message(f, type, body, err) < 0))
        return -1;
    for (int n = 0; f->group && n < 256 && rp_workers_next(f->group, n ? 0 : STEP_MS / 2, &rank, &type, &frame) > 0;
         n++) {
        int failed = pass_on(f, rank, type, frame, err) < 0;
        json_decref(frame);
        frame = NULL;
        if (failed)
            return -1;
    }
    if (report_failures(f, err) < 0 || (f->o->check && f->o->check(f->o->check_arg, err) < 0))
        return -1;
    if (!rp_interrupted() || f->stop_sent)
        return 0;
    RP_JSON *nothing = json_object(); /* process 0 stops the run, and seals what was measured */
    f->stop_sent = 1;
    rp_interrupt_settle();
    return rp_join_send(all, 0, RP_FRAME_STOP, nothing, err);
}

int rp_run_job_follow(struct rp_run_job *j, const struct rp_follow_opts *o, struct rp_err *err)
{
    struct following f = {.j = j, .o = o};
    int failed = 0;
    rp_interrupt_catch();
    while (!f.over && !failed)
        failed = follow_once(&f, err) < 0;
    if (failed && err->code != RP_OK)
        rp_join_abort(&j->joining.join, err);
    if (f.group)
        rp_workers_end(f.group);
    rp_job_fini(&f.job);
    if (!failed) {
        struct rp_err ignored;
        (void)!rp_join_close(&j->joining.join, FAREWELL_MS, &ignored);
    }
    return failed ? -1 : 0;
}
