/* Who is where: what each process reports about itself, and the numbers that follow from all reports. */
#include "base/buf.h"
#include "base/build.h"
#include "base/json.h"
#include "base/text.h"
#include "comm/secret.h"
#include "launch/join_link.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define RP_OBJECT_LIST "launch/join.def"
#include "base/object_tables.inc.h"

enum { RANKS_MAX = 4096, ID_SIZE = 17 };

/* ---- this process ---- */

/* The kernel that runs here: another number after every start. */
static void read_machine(char out[256], const struct utsname *u)
{
    struct rp_err ignored;
    RP_BUF text = {0};
    int known = rp_read_file(&text, "/proc/sys/kernel/random/boot_id", 255, &ignored) == 0 ||
                rp_read_file(&text, "/etc/machine-id", 255, &ignored) == 0;
    snprintf(out, 256, "%s", known ? rp_buf_text(&text) : u->nodename);
}

/* Keyed: somebody without the key learns nothing of the machine from it. */
static void machine_id(char out[ID_SIZE], const struct rp_job_key *key, const char *label, const char *text)
{
    unsigned char mac[RP_SECRET_SIZE];
    rp_secret_derive(mac, key->bytes, label, text, strlen(text));
    rp_hex(out, mac, (ID_SIZE - 1) / 2);
}

json_t *rp_join_describe(const struct rp_join_opts *o, const char *given)
{
    struct utsname u = {.nodename = "?"};
    char machine[256], host[ID_SIZE], place[ID_SIZE], network[64] = "", name[64];
    uname(&u);
    if (given)
        snprintf(machine, sizeof machine, "%s", given);
    else
        read_machine(machine, &u);
    /* Containers with a network of their own have devices of their own; those that tasks of srun share a network in see
     * all devices. */
    if (!given && readlink("/proc/self/ns/net", network, sizeof network - 1) < 0)
        *network = 0;
    RP_FREE char *both = rp_asprintf("%s\n%s", machine, network);
    machine_id(host, o->key, "repro host 1", machine);
    machine_id(place, o->key, "repro place 1", both);
    RP_JSON *facts = o->facts ? json_deep_copy(o->facts) : json_object();
    json_object_set_new(facts, "version of repro", json_string(rp_build_record()->version));
    json_t *j = json_pack("{s:i, s:I, s:I, s:i, s:s, s:s, s:s, s:o, s:O, s:O}", "protocol", RP_JOIN_PROTOCOL, "index",
                          (json_int_t)o->launch->rank, "size", (json_int_t)o->launch->size, "ranks", o->ranks, "host",
                          host, "place", place, "name", rp_ascii(name, sizeof name, u.nodename), "addresses",
                          rp_address_own(), "facts", facts, "about", o->about ? (json_t *)o->about : json_null());
    RP_BUG_IF(!j);
    return j;
}

int rp_join_check(struct rp_join_request *m, const json_t *join, int size, struct rp_err *err)
{
    int64_t protocol;
    rp_object_init(m, &rp_type_join_request);
    if (rp_json_int(join, "protocol", &protocol, "JOIN", err) < 0)
        return -1;
    if (protocol != RP_JOIN_PROTOCOL)
        return rp_fail(
            err, RP_MISMATCH,
            "a process joins with version %lld of the protocol, this program has %d: they are not the same build",
            (long long)protocol, RP_JOIN_PROTOCOL);
    if (rp_object_take(m, &rp_type_join_request, join, "JOIN", err) < 0)
        return -1;
    if (m->ranks < 1 || m->ranks > RANKS_MAX)
        return rp_fail(err, RP_USAGE, "process %lld brings %lld ranks, expected 1 to %d", (long long)m->index,
                       (long long)m->ranks, RANKS_MAX);
    if (m->size != size)
        return rp_fail(err, RP_USAGE, "process %lld is one of %lld, process 0 one of %d: they are not of one start",
                       (long long)m->index, (long long)m->size, size);
    if (m->index >= size)
        return rp_fail(err, RP_USAGE, "a process joins as number %lld, expected 1 to %d", (long long)m->index,
                       size - 1);
    return 0;
}

/* ---- all of them ---- */

void rp_join_make_world(struct rp_join *j, const struct rp_join_request *joins)
{
    const size_t n = (size_t)j->members;
    RP_FREE int *in_place = rp_alloc(n * sizeof *in_place); /* ranks, by number of the place */
    int hosts = 0, places = 0;
    j->world = 0;
    for (int i = 0; i < j->members; i++) {
        struct rp_job_member *m = &j->member[i];
        m->host = m->place = -1;
        for (int k = 0; k < i && m->place < 0; k++) { /* the numbers of the first process with the same ids */
            m->host = m->host < 0 && strcmp(joins[k].host, joins[i].host) == 0 ? j->member[k].host : m->host;
            m->place = strcmp(joins[k].place, joins[i].place) == 0 ? j->member[k].place : -1;
        }
        m->host = m->host < 0 ? hosts++ : m->host;
        m->place = m->place < 0 ? places++ : m->place;
        m->index = i;
        m->first_rank = j->world;
        m->ranks = (int)joins[i].ranks;
        m->local_rank = in_place[m->place];
        m->clock.error_ns = i ? -1 : 0;
        rp_ascii(m->name, sizeof m->name, joins[i].name);
        m->addresses = json_incref(joins[i].addresses);
        m->about = json_incref(joins[i].about);
        in_place[m->place] += m->ranks;
        j->world += m->ranks;
    }
}

static json_t *clock_json(const struct rp_clock_offset *c)
{
    return json_pack("{s:I, s:I, s:I}", "wall_ns", (json_int_t)c->wall_ns, "monotonic_ns", (json_int_t)c->monotonic_ns,
                     "error_ns", (json_int_t)c->error_ns);
}

json_t *rp_join_to_json(const struct rp_join *j)
{
    json_t *all = json_array();
    for (int i = 0; i < j->members; i++) {
        const struct rp_job_member *m = &j->member[i];
        const char *program = rp_json_text_at(m->about, "program");
        json_array_append_new(all, json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:o, s:s*}", "index", m->index,
                                             "first_rank", m->first_rank, "ranks", m->ranks, "host", m->host,
                                             "network_namespace", m->place, "local_rank", m->local_rank, "clock",
                                             clock_json(&m->clock), "program", rp_is_sha256(program) ? program : NULL));
    }
    return all;
}

json_t *rp_join_world_json(const struct rp_join *j)
{
    json_t *all = rp_join_to_json(j);
    for (int i = 0; i < j->members; i++) {
        const struct rp_job_member *m = &j->member[i];
        json_t *one = json_array_get(all, (size_t)i);
        json_object_set_new(one, "name", json_string(m->name));
        json_object_set_new(one, "address", json_string(m->address));
        json_object_set(one, "addresses", m->addresses);
        json_object_set(one, "about", m->about);
    }
    return json_pack("{s:o}", "members", all);
}

static int take_member(struct rp_job_member *m, const struct rp_join_member *one, int i, int world, struct rp_err *err)
{
    if (one->index != i || one->first_rank != world || one->ranks < 1 || one->ranks > RANKS_MAX)
        return rp_fail(err, RP_MALFORMED, "WORLD: the ranks of process %d are not those after process %d", i, i - 1);
    m->index = i;
    m->first_rank = world;
    m->ranks = (int)one->ranks;
    m->host = (int)one->host;
    m->place = (int)one->network_namespace;
    m->local_rank = (int)one->local_rank;
    rp_ascii(m->name, sizeof m->name, one->name);
    rp_ascii(m->address, sizeof m->address, one->address);
    m->addresses = json_incref(one->addresses);
    m->about = json_incref(one->about);
    m->clock = (struct rp_clock_offset){one->clock.wall_ns, one->clock.monotonic_ns, one->clock.error_ns};
    return 0;
}

static int take_members(struct rp_join *j, const struct rp_join_world *w, struct rp_err *err)
{
    if (w->members_n != j->members)
        return rp_fail(err, RP_MALFORMED, "WORLD has %lld processes, expected %d", (long long)w->members_n, j->members);
    j->world = 0;
    for (int i = 0; i < j->members; i++) {
        if (take_member(&j->member[i], &w->members[i], i, j->world, err) < 0)
            return -1;
        j->world += j->member[i].ranks;
    }
    return 0;
}

int rp_join_parse_world(struct rp_join *j, const json_t *world, struct rp_err *err)
{
    struct rp_join_world w;
    const int failed = rp_object_take(&w, &rp_type_join_world, world, "WORLD", err) < 0 || take_members(j, &w, err) < 0;
    rp_object_fini(&w, &rp_type_join_world);
    return failed ? -1 : 0;
}

/* ---- texts ---- */

json_t *rp_join_reason(const struct rp_err *reason)
{
    RP_FREE char *text = rp_strdup(reason->msg);
    rp_sanitize(text);
    return json_pack("{s:i, s:s}", "code", (int)reason->code, "message", text);
}

int rp_join_read_reason(const json_t *body, struct rp_err *err)
{
    struct rp_join_reason r;
    rp_object_read(&r, &rp_type_join_reason, body);
    RP_FREE char *text = rp_strdup(r.message ? r.message : "the job was ended without a reason");
    const enum rp_code code = r.code > RP_OK && r.code <= RP_INTERRUPTED ? (enum rp_code)r.code : RP_UNAVAILABLE;
    rp_object_fini(&r, &rp_type_join_reason);
    rp_sanitize(text);
    return rp_fail(err, code, "%s", text);
}

const char *rp_join_ranks(const struct rp_job_member *m, char out[48])
{
    if (m->ranks > 1)
        snprintf(out, 48, "ranks %d to %d", m->first_rank, m->first_rank + m->ranks - 1);
    else
        snprintf(out, 48, "rank %d", m->first_rank);
    return out;
}

const char *rp_join_who(const struct rp_join *j, int member, char out[200])
{
    const struct rp_job_member *m = &j->member[member];
    char ranks[48];
    snprintf(out, 200, "%s (%s%s%s)", rp_join_ranks(m, ranks), m->name, *m->name && *m->address ? ", " : "",
             m->address);
    return out;
}
