#include "launch/rendezvous.h"

#include "base/buf.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"
#include "launch/hostlist.h"
#include "launch/prte.h"

#include <inttypes.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

int rp_rendezvous_port_of(int64_t number)
{
    return (int)(61440 + number % 4096);
}

static int64_t number_of(const char *text)
{
    return (int64_t)(rp_sha256_word(text, strlen(text)) >> 1);
}

/* What all processes of the job have and other jobs do not; as the id of the job it must not hold all characters. */
static void set_job(struct rp_rendezvous *r, const char *launcher, const char *text, int64_t number)
{
    char hex[RP_SHA256_HEX];
    rp_sha256_hex(hex, text, strlen(text));
    RP_FORMAT(r->job, "%s-%.16s", launcher, hex);
    r->port = rp_rendezvous_port_of(number);
}

static int add_host(struct rp_rendezvous *r, const char *source, const char *host)
{
    struct rp_err ignored;
    struct rp_address a;
    if (!host || !*host || r->hosts == RP_RENDEZVOUS_HOSTS || rp_address_parse(&a, host, &ignored) < 0)
        return 0;
    for (int i = 0; i < r->hosts; i++)
        if (strcmp(r->host[i].host, a.host) == 0)
            return 1;
    r->source = r->hosts ? r->source : source;
    r->host[r->hosts++] = a;
    return 1;
}

/* ---- what launchers offer ---- */

/* The hosts of "[jobid;]tcp://ip,ip:port[:masks];tcp6://[ip]:port". */
static void add_uri(struct rp_rendezvous *r, const char *source, const char *uri, int loopback_too)
{
    for (const char *at = uri; (at = strstr(at, "://"));) {
        at += 3;
        const size_t n = *at == '[' ? strcspn(at, "]") : strcspn(at, ":;");
        char *save = NULL;
        RP_FREE char *list = rp_asprintf("%.*s", (int)n, at);
        for (char *ip = strtok_r(list, ",[", &save); ip; ip = strtok_r(NULL, ",[", &save))
            if (loopback_too || (strncmp(ip, "127.", 4) != 0 && strcmp(ip, "::1") != 0))
                add_host(r, source, ip);
        at += n;
    }
}

static int first_of_nodes(struct rp_rendezvous *r, const char *variable, struct rp_err *err)
{
    char host[RP_HOST_MAX + 1];
    const char *list = getenv(variable);
    if (!list)
        return 0;
    if (rp_hostlist_at(host, list, 0, variable, err) < 0)
        return -1;
    add_host(r, variable, host);
    return 0;
}

/* With release 5 mpirun's host is this one, or that on the command line of this node's daemon, or the one in the name
 * of the job. */
static void add_prte(struct rp_rendezvous *r, const char *space)
{
    static const char *const uris[] = {"PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3", "PMIX_SERVER_URI21",
                                       "PMIX_SERVER_URI2"};
    for (size_t i = 0; i < sizeof uris / sizeof *uris; i++) {
        const char *uri = getenv(uris[i]);
        if (uri && rp_prte_daemon(uri) == 0) {
            add_uri(r, uris[i], uri, 1);
            return;
        }
    }
    RP_FREE char *head = rp_prte_option("/proc", getpid(), "prte_hnp_uri"), *name = rp_prte_host(space);
    if (head)
        add_uri(r, "prte_hnp_uri of prted", head, 0);
    else
        add_host(r, "PMIX_NAMESPACE", name);
}

/* Rank 0 runs on the first node of an allocation, else where mpirun was started, unless that was told otherwise:
 * rp_rendezvous_publish() notices. */
static int hint_openmpi(struct rp_rendezvous *r, const struct rp_launch *l, struct rp_err *err)
{
    const char *hnp = getenv("OMPI_MCA_orte_hnp_uri"), *space = getenv("PMIX_NAMESPACE");
    (void)l;
    if (hnp) {
        int64_t id = 0;
        RP_FREE char *number = rp_asprintf("%.*s", (int)strcspn(hnp, ".;"), hnp);
        if (rp_parse_count(number, &id) < 0)
            id = number_of(number);
        set_job(r, "openmpi", number, id / 65536);
    } else {
        set_job(r, "openmpi", space ? space : "", number_of(space ? space : ""));
    }
    if (first_of_nodes(r, "SLURM_JOB_NODELIST", err) < 0)
        return -1;
    if (hnp)
        add_uri(r, "OMPI_MCA_orte_hnp_uri", hnp, 0);
    else
        add_prte(r, space ? space : "");
    return 0;
}

static int hint_torchrun(struct rp_rendezvous *r, const struct rp_launch *l, struct rp_err *err)
{
    const char *id = getenv("TORCHELASTIC_RUN_ID"), *restarts = getenv("TORCHELASTIC_RESTART_COUNT"),
               *port = getenv("MASTER_PORT");
    RP_FREE char *text = rp_asprintf("%s:%s:%s", id ? id : "", restarts ? restarts : "", port ? port : "");
    (void)l, (void)err;
    set_job(r, "torchrun", text, number_of(text));
    add_host(r, "MASTER_ADDR", getenv("MASTER_ADDR"));
    return 0;
}

static int hint_srun(struct rp_rendezvous *r, const struct rp_launch *l, struct rp_err *err)
{
    int64_t job = 0, step = 0;
    const char *job_text = getenv("SLURM_JOB_ID"), *step_text = getenv("SLURM_STEP_ID");
    (void)l;
    if (job_text && rp_parse_count(job_text, &job) < 0)
        job = 0;
    if (step_text && rp_parse_count(step_text, &step) < 0)
        step = 0;
    char text[64];
    RP_FORMAT(text, "%" PRId64 ".%" PRId64, job, step);
    set_job(r, "srun", text, job % 4096 + 257 * (step % 4096));
    return first_of_nodes(r, "SLURM_STEP_NODELIST", err);
}

static int hint_mpich(struct rp_rendezvous *r, const struct rp_launch *l, struct rp_err *err)
{
    (void)l, (void)err;
    set_job(r, "mpich", r->pmi.space, 0);
    r->port = 0;
    r->source = "PMI";
    return 0;
}

static int hint_pytorchjob(struct rp_rendezvous *r, const struct rp_launch *l, struct rp_err *err)
{
    (void)l, (void)err;
    /* the master's MASTER_ADDR may be localhost: nothing is in common */
    set_job(r, "pytorchjob", "pytorchjob", number_of("pytorchjob"));
    add_host(r, "MASTER_ADDR", getenv("MASTER_ADDR"));
    return 0;
}

static int hint_trainer(struct rp_rendezvous *r, const struct rp_launch *l, struct rp_err *err)
{
    (void)l, (void)err;
    set_job(r, "trainer", "trainer", number_of("trainer"));
    add_host(r, "PET_MASTER_ADDR", getenv("PET_MASTER_ADDR"));
    add_host(r, "MASTER_ADDR", getenv("MASTER_ADDR"));
    return 0;
}

/* "JOB-3" or "SET-job-1-3", and "JOB-3.SERVICE.namespace.svc..." by /etc/hosts: the same with the numbers 0. numbers:
 * how many there are.
 */
static void add_pod(struct rp_rendezvous *r, int numbers)
{
    struct utsname u;
    struct addrinfo hints = {.ai_flags = AI_CANONNAME, .ai_socktype = SOCK_STREAM}, *list = NULL;
    if (uname(&u) < 0 || getaddrinfo(u.nodename, NULL, &hints, &list) != 0)
        return;
    const size_t own = strcspn(u.nodename, ".");
    const char *full = list->ai_canonname ? list->ai_canonname : "", *service = strchr(full, '.');
    size_t n = own;
    for (int i = 0; i < numbers && n; i++) {
        size_t digits = 0;
        while (digits < n && u.nodename[n - 1 - digits] >= '0' && u.nodename[n - 1 - digits] <= '9')
            digits++;
        n = digits && digits < n && u.nodename[n - 1 - digits] == '-' ? n - 1 - digits : 0;
    }
    if (n && service && strncmp(full, u.nodename, own) == 0) {
        RP_FREE char *host = rp_asprintf("%.*s%s%s", (int)n, u.nodename, numbers == 2 ? "-0-0" : "-0", service);
        add_host(r, "the names of the pods", host);
    }
    freeaddrinfo(list);
}

static int hint_indexed(struct rp_rendezvous *r, const struct rp_launch *l, struct rp_err *err)
{
    (void)l, (void)err;
    set_job(r, "indexed", "indexed", number_of("indexed"));
    add_pod(r, 1);
    return 0;
}

static int hint_jobset(struct rp_rendezvous *r, const struct rp_launch *l, struct rp_err *err)
{
    (void)l, (void)err;
    set_job(r, "jobset", "jobset", number_of("jobset"));
    add_pod(r, 2);
    return 0;
}

/* These name the job at most, and no host. */
static int hint_named(struct rp_rendezvous *r, const struct rp_launch *l, struct rp_err *err)
{
    static const char *const names[][2] = {{"flux", "FLUX_JOB_ID"}, {"jsrun", "LSB_JOBID"}, {"pals", "PALS_APID"}};
    const char *id = NULL;
    (void)err;
    for (size_t i = 0; i < sizeof names / sizeof *names && !id; i++)
        id = strcmp(l->launcher, names[i][0]) == 0 ? getenv(names[i][1]) : NULL;
    id = id ? id : l->launcher;
    set_job(r, l->launcher, id, number_of(id));
    if (l->nodes == 1)
        r->loopback = add_host(r, "this host", "127.0.0.1");
    return 0;
}

typedef int hint_function(struct rp_rendezvous *r, const struct rp_launch *l, struct rp_err *err);
static hint_function *const hints_of[] = {
#define LAUNCHER(row, ...) hint_##row,
#include "launch/launchers.def"
#undef LAUNCHER
};

/* ---- all of it ---- */

static int take_options(struct rp_rendezvous *r, const struct rp_rendezvous_opts *o, struct rp_err *err)
{
    struct rp_address a;
    if (o && o->join) {
        if (rp_address_parse(&a, o->join, err) < 0)
            return rp_wrap(err, "--join");
        if (o->port && a.port && o->port != a.port)
            return rp_fail(err, RP_USAGE, "--join has port %d, --port is %" PRId64, a.port, o->port);
        r->hosts = 1;
        r->host[0] = a;
        r->source = "--join";
        r->given = 1;
        r->loopback = 0;
        r->port = a.port ? a.port : r->port || r->talk ? r->port : rp_rendezvous_port_of(number_of("options"));
    }
    if (o && o->port)
        r->port = (int)o->port;
    return 0;
}

int rp_rendezvous_find(struct rp_rendezvous *r, struct rp_launch *l, const struct rp_rendezvous_opts *o,
                       uint64_t deadline, struct rp_err *err)
{
    *r = (struct rp_rendezvous){.pmi = {.fd = -1}, .keep_pmi = o && o->keep_pmi, .talk = o ? o->talk : NULL};
    const int hydra = l->launcher && strcmp(l->launcher, "mpich") == 0;
    if (hydra && (l->size == 0 || !o || !o->join)) {
        if (rp_pmi_open(&r->pmi, deadline, err) < 0)
            return rp_wrap(err, "no way to find rank 0 but --join HOST:PORT");
        l->size = l->size ? l->size : r->pmi.size;
        if (l->rank != r->pmi.rank || l->size != r->pmi.size)
            return rp_fail(err, RP_USAGE,
                           "mpiexec's process manager has this as process %" PRId64 " of %" PRId64
                           ", the variables as %" PRId64 " of %" PRId64,
                           r->pmi.rank, r->pmi.size, l->rank, l->size);
    }
    if (l->row < 0)
        set_job(r, "options", "options", number_of("options"));
    else if (hints_of[l->row](r, l, err) < 0)
        return -1;
    if (r->talk) {
        r->port = 0;
        r->source = "--hosts";
    }
    if (l->local_size == l->size && l->size > 0) { /* all are here, whatever the names lead to */
        r->hosts = 0;
        r->loopback = 1;
        add_host(r, "this host", "127.0.0.1");
    }
    if (take_options(r, o, err) < 0)
        return -1;
    if (!r->hosts && r->pmi.fd < 0 && !r->talk)
        return rp_fail(err, RP_USAGE, "the address of rank 0 is unknown (%s): give every process --join HOST:PORT",
                       l->name ? l->name : "no launcher");
    return 0;
}

/* Do the others look for it here? */
static int check_hosts(const struct rp_rendezvous *r, struct rp_err *err)
{
    int known = 0;
    for (int i = 0; i < r->hosts; i++) {
        int here = rp_address_is_here(r->host[i].host);
        known |= here >= 0;
        if (here > 0)
            return 0;
    }
    if (!known) /* names of Kubernetes resolve late */
        return 0;
    return rp_fail(err, RP_USAGE,
                   "rank 0 is not on host %s, where %s leads the other processes: give every process --join HOST:PORT "
                   "with the host of rank 0",
                   r->host[0].host, r->source);
}

/* To those that process 0 has started: an address that a user gave, else all of this machine. Hosts that are this
 * machine as well, as when several are tried on one, may share nothing but loopback. */
static int publish_by_talk(const struct rp_rendezvous *r, int port, struct rp_err *err)
{
    struct rp_meet_frame where = {.port = port, .given = r->given};
    RP_JSON *own = r->given ? json_pack("[s]", r->host[0].host) : rp_address_own();
    for (size_t i = 0; i < json_array_size(own); i++)
        rp_texts_add(&where.addresses, &where.addresses_n, rp_strdup(json_string_value(json_array_get(own, i))));
    if (!r->given)
        rp_texts_add(&where.addresses, &where.addresses_n, rp_strdup("127.0.0.1"));
    const int failed = r->talk->publish(r->talk->arg, &where, err);
    rp_object_fini(&where, &rp_type_meet_frame);
    return failed;
}

static int learn_by_talk(struct rp_rendezvous *r, uint64_t deadline, struct rp_err *err)
{
    struct rp_meet_frame where;
    if (r->talk->learn(r->talk->arg, &where, deadline, err) < 0)
        return -1;
    r->port = where.port > 0 && where.port < 65536 ? (int)where.port : 0;
    r->hosts = 0;
    for (int64_t i = 0; i < where.addresses_n; i++)
        add_host(r, "--hosts", where.addresses[i]);
    rp_object_fini(&where, &rp_type_meet_frame);
    return r->hosts && r->port ? 0 : rp_fail(err, RP_MALFORMED, "process 0 has sent no address");
}

int rp_rendezvous_publish(struct rp_rendezvous *r, int port, uint64_t deadline, struct rp_err *err)
{
    if (r->talk)
        return publish_by_talk(r, port, err);
    if (r->pmi.fd < 0)
        return r->given || r->loopback ? 0 : check_hosts(r, err);
    RP_JSON *own = rp_address_own();
    RP_BUF value = {0};
    for (size_t i = 0; i < json_array_size(own) && !r->loopback; i++) {
        const char *ip = json_string_value(json_array_get(own, i));
        if (value.size + strlen(ip) + 16 < RP_PMI_VALUE)
            rp_buf_printf(&value, "%s,", ip);
    }
    rp_buf_printf(&value, "127.0.0.1/%d", port);
    if (rp_pmi_put(&r->pmi, "repro_join", value.data, deadline, err) < 0 || rp_pmi_barrier(&r->pmi, deadline, err) < 0)
        return -1;
    if (!r->keep_pmi)
        rp_pmi_close(&r->pmi);
    return 0;
}

int rp_rendezvous_learn(struct rp_rendezvous *r, uint64_t deadline, struct rp_err *err)
{
    char value[RP_PMI_VALUE], *save = NULL;
    int64_t port;
    if (r->talk)
        return learn_by_talk(r, deadline, err);
    if (r->pmi.fd < 0)
        return 0;
    if (rp_pmi_barrier(&r->pmi, deadline, err) < 0 || rp_pmi_get(&r->pmi, "repro_join", value, deadline, err) < 0)
        return -1;
    if (!r->keep_pmi)
        rp_pmi_close(&r->pmi);
    char *slash = strchr(value, '/');
    if (!slash || rp_parse_count(slash + 1, &port) < 0 || port < 1 || port > 65535)
        return rp_fail(err, RP_MALFORMED, "rank 0 published no address through mpiexec");
    *slash = 0;
    if (r->given)
        return 0;
    r->port = (int)port;
    r->hosts = 0;
    for (char *ip = strtok_r(value, ",", &save); ip; ip = strtok_r(NULL, ",", &save))
        add_host(r, "PMI", ip);
    return 0;
}

void rp_rendezvous_fini(struct rp_rendezvous *r)
{
    rp_pmi_close(&r->pmi);
}
