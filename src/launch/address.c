#include "launch/address.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum { CONNECT_MS = 5000, BACKLOG = 1024 };

int rp_address_parse(struct rp_address *a, const char *text, struct rp_err *err)
{
    int64_t port = 0;
    const char *colon = strrchr(text, ':'), *bracket = *text == '[' ? strchr(text, ']') : NULL, *host = text;
    size_t n = strlen(text);
    char shown[72];
    if (bracket) {
        host = text + 1;
        n = (size_t)(bracket - host);
        colon = bracket[1] == ':' ? bracket + 1 : bracket[1] ? text : NULL;
    } else if (colon && strchr(text, ':') != colon) {
        colon = NULL; /* an IPv6 address */
    } else if (colon) {
        n = (size_t)(colon - text);
    }
    *a = (struct rp_address){.port = 0};
    if (n == 0 || n > RP_ADDRESS_HOST || (*text == '[' && !bracket) || rp_plain_size(host, n, 0) != n ||
        memchr(host, ' ', n) || colon == text ||
        (colon && (rp_parse_count(colon + 1, &port) < 0 || port < 1 || port > 65535)))
        return rp_fail(err, RP_USAGE, "'%s' is not an address: expected HOST, HOST:PORT or [IPv6]:PORT",
                       rp_excerpt(shown, text));
    memcpy(a->host, host, n);
    a->port = (int)port;
    return 0;
}

void rp_address_text(char out[RP_ADDRESS_TEXT], const struct sockaddr_storage *s, int with_port)
{
    char ip[INET6_ADDRSTRLEN] = "?";
    int port = 0, six = 0;
    if (s->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)s;
        inet_ntop(AF_INET, &in->sin_addr, ip, sizeof ip);
        port = ntohs(in->sin_port);
    } else if (s->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)s;
        if (IN6_IS_ADDR_V4MAPPED(&in->sin6_addr))
            inet_ntop(AF_INET, &in->sin6_addr.s6_addr[12], ip, sizeof ip);
        else
            six = inet_ntop(AF_INET6, &in->sin6_addr, ip, sizeof ip) != NULL;
        port = ntohs(in->sin6_port);
    }
    if (with_port)
        snprintf(out, RP_ADDRESS_TEXT, six ? "[%s]:%d" : "%s:%d", ip, port);
    else
        snprintf(out, RP_ADDRESS_TEXT, "%s", ip);
}

/* ---- connecting ---- */

/* A deadline for one attempt: a host that drops packets must not use up the time of its other addresses. */
static int wait_connected(int fd, uint64_t deadline)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    int failure = 0;
    socklen_t n = sizeof failure;
    uint64_t now = rp_now_ns(), left = deadline > now ? (deadline - now) / 1000000 : 0;
    if (RP_RETRY(poll(&p, 1, left < CONNECT_MS ? (int)left : CONNECT_MS)) < 1)
        return ETIMEDOUT;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &n) < 0 ? errno : failure;
}

static int connect_one(const struct addrinfo *a, uint64_t deadline)
{
    RP_FD fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int one = 1;
    if (fd < 0)
        return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, a->ai_addr, a->ai_addrlen) < 0) {
        int e = errno == EINPROGRESS ? wait_connected(fd, deadline) : errno;
        if (e) {
            errno = e;
            return -1;
        }
    }
    return rp_fd_take(&fd);
}

int rp_address_connect(const char *host, int port, uint64_t deadline, struct rp_err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *list = NULL;
    char number[16], shown[72];
    snprintf(number, sizeof number, "%d", port);
    int e = getaddrinfo(host, number, &hints, &list);
    if (e) {
        rp_fail(err, RP_UNAVAILABLE, "the name %s does not resolve: %s", rp_excerpt(shown, host), gai_strerror(e));
        err->sys = ENOENT;
        return -1;
    }
    int fd = -1, last = ETIMEDOUT;
    for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        fd = connect_one(a, deadline);
        last = fd < 0 ? errno : 0;
    }
    freeaddrinfo(list);
    if (fd < 0) {
        rp_fail(err, RP_UNAVAILABLE, "cannot connect to %s port %d: %s", rp_excerpt(shown, host), port, strerror(last));
        err->sys = last;
    }
    return fd;
}

/* ---- listening ---- */

/* IPv6 takes IPv4 as well; without IPv6 in the kernel, IPv4 alone. */
static int bind_all(int *port, int loopback)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)*port)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = six.sin6_port};
    int one = 1, zero = 0, use_six = !loopback;
    four.sin_addr.s_addr = htonl(loopback ? INADDR_LOOPBACK : INADDR_ANY);
    RP_FD fd = use_six ? socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) : -1;
    if (fd >= 0 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero) < 0)
        rp_closep(&fd);
    if (fd < 0) {
        use_six = 0;
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    }
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    int failed =
        use_six ? bind(fd, (struct sockaddr *)&six, sizeof six) : bind(fd, (struct sockaddr *)&four, sizeof four);
    if (failed && use_six && errno == EADDRNOTAVAIL) { /* IPv6 is compiled in, and switched off */
        close(fd);
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
            return -1;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        failed = bind(fd, (struct sockaddr *)&four, sizeof four);
    }
    if (failed || listen(fd, BACKLOG) < 0)
        return -1;
    struct sockaddr_storage got = {0};
    socklen_t n = sizeof got;
    if (getsockname(fd, (struct sockaddr *)&got, &n) < 0)
        return -1;
    *port = ntohs(got.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&got)->sin6_port
                                            : ((struct sockaddr_in *)&got)->sin_port);
    return rp_fd_take(&fd);
}

int rp_address_listen(int *port, int loopback, struct rp_err *err)
{
    int fd = bind_all(port, loopback);
    if (fd >= 0)
        return fd;
    int e = errno;
    rp_fail(err, RP_UNAVAILABLE, "cannot listen on port %d: %s", *port, strerror(e));
    err->sys = e;
    return -1;
}

int rp_address_accept(int listener)
{
    int one = 1, fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

/* ---- this host ---- */

/* A host can bind its own addresses, also those that a list of interfaces does not show. */
static int is_bindable(const struct addrinfo *a)
{
    RP_FD fd = socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return fd >= 0 && bind(fd, a->ai_addr, a->ai_addrlen) == 0;
}

int rp_address_is_here(const char *host)
{
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *list = NULL;
    int here = 0;
    if (getaddrinfo(host, "0", &hints, &list) != 0)
        return -1;
    for (const struct addrinfo *a = list; a && !here; a = a->ai_next)
        here = is_bindable(a);
    freeaddrinfo(list);
    return here;
}

json_t *rp_address_own(void)
{
    enum { MOST = 64 };
    json_t *all = json_array();
    struct ifaddrs *list = NULL;
    if (getifaddrs(&list) < 0)
        return all;
    for (const struct ifaddrs *i = list; i && json_array_size(all) < MOST; i = i->ifa_next) {
        char text[RP_ADDRESS_TEXT];
        struct sockaddr_storage s = {0};
        if (!i->ifa_addr || !(i->ifa_flags & IFF_UP) || (i->ifa_flags & IFF_LOOPBACK))
            continue;
        if (i->ifa_addr->sa_family == AF_INET)
            memcpy(&s, i->ifa_addr, sizeof(struct sockaddr_in));
        else if (i->ifa_addr->sa_family == AF_INET6 &&
                 !IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)i->ifa_addr)->sin6_addr))
            memcpy(&s, i->ifa_addr, sizeof(struct sockaddr_in6));
        else
            continue;
        rp_address_text(text, &s, 0);
        json_array_append_new(all, json_string(text));
    }
    freeifaddrs(list);
    return all;
}
