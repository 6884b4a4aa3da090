#include "launch/hosts.h"

#include "base/buf.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/utsname.h>

#define ALPHANUMERIC "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

void rp_hosts_fini(struct rp_hosts *h)
{
    free(h->entry);
    *h = (struct rp_hosts){.here = -1};
}

static int refuse_name(const char *text, const char *why, struct rp_err *err)
{
    char shown[72];
    return rp_fail(err, RP_USAGE, "--hosts: '%s' %s: expected NAME, USER@NAME or [IPv6], with :N for N ranks",
                   rp_excerpt(shown, text), why);
}

static int is_made_of(const char *text, size_t n, const char *signs)
{
    char allowed[128];
    snprintf(allowed, sizeof allowed, ALPHANUMERIC "%s", signs);
    return n > 0 && *text != '-' && strspn(text, allowed) >= n;
}

/* "HOST", "HOST:4", "2001:db8::7", "[2001:db8::7]:4" without its user: where the host begins and how long it is, and
 * what follows it. */
static const char *find_host(const char *text, size_t *n, const char **rest)
{
    const char *colon = strchr(text, ':');
    if (*text == '[') {
        *n = strcspn(text + 1, "]");
        *rest = text[1 + *n] ? text + 2 + *n : NULL;
        return text + 1;
    }
    *n = colon && !strchr(colon + 1, ':') ? (size_t)(colon - text)
                                          : strlen(text); /* several colons: an address of IPv6 */
    *rest = text + *n;
    return text;
}

static int parse_ranks(struct rp_host_entry *e, const char *text, const char *rest, struct rp_err *err)
{
    int64_t ranks = 0;
    if (!*rest)
        return 0;
    if (*rest != ':' || !rest[1] || rest[1 + strspn(rest + 1, "0123456789")] || rp_parse_count(rest + 1, &ranks) < 0 ||
        ranks < 1 || ranks > RP_HOSTS_RANKS)
        return refuse_name(text, "has no number of ranks, 1 to 4096, after the colon", err);
    e->ranks = (int)ranks;
    return 0;
}

static int parse_host(struct rp_host_entry *e, const char *text, struct rp_err *err)
{
    const char *at = strrchr(text, '@'), *rest, *host;
    size_t user = at ? (size_t)(at - text) : 0, n;
    host = find_host(at ? at + 1 : text, &n, &rest);
    if (at && (user > RP_ADDRESS_HOST || !is_made_of(text, user, "._-+")))
        return refuse_name(text, "has characters in its user name that are refused", err);
    if (!rest || n > RP_ADDRESS_HOST || !is_made_of(host, n, memchr(host, ':', n) ? ".:%_-" : "._-"))
        return refuse_name(text, "is not a host name", err);
    snprintf(e->name, sizeof e->name, "%.*s%.*s", (int)(at ? user + 1 : 0), text, (int)n, host);
    e->host = e->name + (at ? user + 1 : 0);
    return parse_ranks(e, text, rest, err);
}

/* By its name, with or without the domain. */
static int is_own_name(const char *host)
{
    struct utsname u;
    if (strcasecmp(host, "localhost") == 0)
        return 1;
    if (uname(&u) < 0)
        return 0;
    const size_t own = strcspn(u.nodename, "."), n = strcspn(host, ".");
    const int cut = !u.nodename[own] || !host[n]; /* one of them lacks the domain */
    return strcasecmp(host, u.nodename) == 0 ||
           (cut && own == n && !strchr(host, ':') && strncasecmp(host, u.nodename, n) == 0);
}

static int is_own_address(const char *host)
{
    return rp_address_is_here(host) > 0;
}

/* Looks names up only if none is ours: without an answer that takes time. */
static int find_here(const struct rp_hosts *h)
{
    int (*const ways[])(const char *host) = {is_own_name, is_own_address};
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++)
        for (int i = 0; i < h->n; i++)
            if (ways[way](h->entry[i].host))
                return i;
    return -1;
}

static int add_entry(struct rp_hosts *h, const char *text, struct rp_err *err)
{
    struct rp_host_entry *e = &h->entry[h->n];
    if (parse_host(e, text, err) < 0)
        return -1;
    for (int i = 0; i < h->n; i++)
        if (strcasecmp(h->entry[i].host, e->host) == 0)
            return rp_fail(err, RP_USAGE, "--hosts: %s is there twice: give its ranks at once, as %s:2", e->host,
                           e->host);
    h->n++;
    return 0;
}

int rp_hosts_parse(struct rp_hosts *h, const char *text, struct rp_err *err)
{
    RP_FREE char *copy = rp_strdup(text);
    char *next = copy;
    *h = (struct rp_hosts){.here = -1, .entry = rp_alloc(RP_HOSTS_MAX * sizeof *h->entry)};
    for (char *one = next; one; one = next) {
        next = strchr(one, ',');
        if (next)
            *next++ = 0;
        if (h->n == RP_HOSTS_MAX) {
            rp_hosts_fini(h);
            return rp_fail(err, RP_USAGE, "--hosts: more than %d hosts", RP_HOSTS_MAX);
        }
        if (add_entry(h, one, err) < 0) {
            rp_hosts_fini(h);
            return -1;
        }
    }
    h->here = find_here(h);
    return 0;
}
