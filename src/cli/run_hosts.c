#include "cli/run_hosts.h"

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/text.h"
#include "launch/hosts.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TIMEOUT_S = 120 };

/* Options that say the same in another way. */
static int check_options(const struct rp_run_opts *o, struct rp_err *err)
{
    const struct rp_joining_opts *j = &o->joining;
    const char *other = j->nodes                        ? "--nodes"
                        : j->node_rank                  ? "--node-rank"
                        : j->launcher                   ? "--launcher"
                        : j->rank_from || j->size_from  ? "--rank-from"
                        : o->ranks                      ? "--ranks"
                                                        : NULL;
    if (!other)
        return 0;
    return rp_fail(err, RP_USAGE,
                   "--hosts starts all processes itself: leave out %s (ranks of a host: NAME:N, or --ranks-per-node)",
                   other);
}

static int check_hosts(const struct rp_hosts *h, struct rp_err *err)
{
    const char *first = h->entry[0].name;
    if (h->here < 0)
        return rp_fail(err, RP_USAGE,
                       "--hosts: none of them is this machine, whose process leads and seals: add localhost to the "
                       "list, or run this command on %s ('ssh %s repro run ...')",
                       first, first);
    if (h->n < 2)
        return rp_fail(err, RP_USAGE, "--hosts: this machine is the only one: give --ranks");
    return 0;
}

/* Values that a model.config set: the file need not be on the other hosts. */
static json_t *config_of(const struct rp_recipe *r)
{
    RP_JSON *all = rp_recipe_to_json(r);
    json_t *config = json_object(), *entry;
    const char *key;
    json_object_foreach(all, key, entry)
        if (strcmp(rp_recorded(entry).origin, rp_origin_name(RP_FROM_CONFIG)) == 0)
            json_object_set(config, key, (json_t *)rp_recorded(entry).value);
    return config;
}

/* What all of them get. */
static json_t *make_order(const struct rp_run_opts *o, const struct rp_recipe *r, struct rp_err *err)
{
    const int embedded = strncmp(r->source_name, "embedded:", 9) == 0;
    RP_FREE char *path = embedded ? NULL : realpath(r->source_name, NULL), *here = realpath(".", NULL);
    json_t *set = json_array();
    int n;
    char **settings = rp_run_settings(o, &n);
    for (int i = 0; i < n; i++) {
        json_array_append_new(set, json_string(settings[i]));
        free(settings[i]);
    }
    free(settings);
    json_t *order =
        json_pack("{s:s?, s:{s:s, s:s, s:o}, s:o, s:s?, s:b, s:b, s:I}", "directory", here, "recipe", "name",
                  path ? path : r->source_name, "text", rp_buf_text(&r->source), "config", config_of(r), "set", set,
                  "store", o->store, "identify", o->identify, "different", o->other_programs, "timeout",
                  (json_int_t)(o->joining.timeout ? o->joining.timeout : TIMEOUT_S));
    return order ? order : rp_fail_null(err, RP_USAGE, "--hosts: a path or setting is not UTF-8");
}

static int64_t ranks_of(const struct rp_host_entry *e, const struct rp_run_opts *o)
{
    return e->ranks ? e->ranks : o->joining.ranks_per_node ? o->joining.ranks_per_node : 1;
}

static int publish_port(void *arg, const struct rp_meet_frame *where, struct rp_err *err)
{
    const struct rp_run_hosts *h = arg;
    RP_JSON *body = rp_object_json(where, &rp_type_meet_frame);
    return rp_ssh_tell(h->ssh, RP_FRAME_MEET, body, err);
}

static int check_processes(void *arg, struct rp_err *err)
{
    const struct rp_run_hosts *h = arg;
    return rp_ssh_check(h->ssh, err);
}

static int load_key(struct rp_job_key *key, const struct rp_joining_opts *o, struct rp_err *err)
{
    const int given = rp_job_key_load(key, &(struct rp_job_key_opts){.file = o->job_key, .fd = (int)o->key_fd}, err);
    return given ? given : rp_job_key_new(key, err);
}

static int start_others(struct rp_run_hosts *h, const struct rp_hosts *all, const json_t *order,
                        const struct rp_run_opts *o, struct rp_err *err)
{
    const size_t n = (size_t)all->n - 1;
    RP_FREE const char **host = rp_alloc(n * sizeof *host);
    RP_FREE json_t **body = rp_alloc(n * sizeof *body);
    char key[RP_JOB_KEY_HEX];
    const char *command = o->ssh ? o->ssh : getenv("REPRO_SSH");
    const long timeout = o->joining.timeout ? o->joining.timeout : TIMEOUT_S;
    rp_job_key_hex(key, &h->place.key);
    for (int i = 0, k = 0; i < all->n; i++) {
        if (i == all->here)
            continue;
        host[k] = all->entry[i].name;
        body[k] = json_deep_copy(order);
        json_object_set_new(body[k], "index", json_integer(k + 1));
        json_object_set_new(body[k], "size", json_integer(all->n));
        json_object_set_new(body[k], "ranks", json_integer(ranks_of(&all->entry[i], o)));
        json_object_set_new(body[k], "name", json_string(host[k]));
        json_object_set_new(body[k++], "key", json_string(key));
    }
    explicit_bzero(key, sizeof key);
    h->ssh = rp_ssh_start(&(struct rp_ssh_opts){.host = host,
                                                .order = body,
                                                .n = (int)n,
                                                .command = command && *command ? command : NULL,
                                                .keep = o->keep_program,
                                                .deadline = rp_now_ns() + (uint64_t)timeout * 1000000000u},
                          err);
    for (size_t i = 0; i < n; i++)
        json_decref(body[i]);
    return h->ssh ? 0 : -1;
}

int rp_run_hosts_start(struct rp_run_hosts *h, const struct rp_run_opts *o, const struct rp_recipe *r,
                       struct rp_progress *progress, struct rp_err *err)
{
    __attribute__((cleanup(rp_hosts_fini))) struct rp_hosts all;
    if (rp_hosts_parse(&all, o->hosts, err) < 0 || check_options(o, err) < 0 || check_hosts(&all, err) < 0)
        return -1;
    RP_JSON *order = make_order(o, r, err);
    if (!order || load_key(&h->place.key, &o->joining, err) < 0)
        return -1;
    h->failed = 1; /* until the run has ended otherwise */
    h->place.size = all.n;
    h->place.ranks = ranks_of(&all.entry[all.here], o);
    h->place.talk = (struct rp_rendezvous_talk){.arg = h, .publish = publish_port};
    h->place.check = check_processes;
    h->place.arg = h;
    rp_interrupt_catch();
    rp_progress_phase(progress, "starting", "on other hosts, over ssh");
    if (start_others(h, &all, order, o, err) < 0)
        return -1;
    rp_progress_note(progress, "the program runs on %d other host%s", all.n - 1, rp_s(all.n - 1));
    return 0;
}

void rp_run_hosts_expect_end(struct rp_run_hosts *h, int failed)
{
    h->failed = failed;
    rp_ssh_expect_end(h->ssh);
}

void rp_run_hosts_fini(struct rp_run_hosts *h)
{
    rp_ssh_end(h->ssh, h->failed);
    rp_job_key_fini(&h->place.key);
    h->ssh = NULL;
}
