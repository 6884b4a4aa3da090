/* Slurm's lists of hosts, and addresses. */
#include "base/buf.h"
#include "launch/address.h"
#include "launch/hostlist.h"
#include "tests/unit/tap.h"

#include <netinet/in.h>
#include <string.h>

static char *expand(const char *list)
{
    struct rp_err err = {0};
    RP_BUF all = {0};
    int64_t n = rp_hostlist_count(list, "LIST", &err);
    for (int64_t i = 0; i < n; i++) {
        char host[RP_HOST_MAX + 1];
        CHECK(rp_hostlist_at(host, list, i, "LIST", &err) == 0, "%s: %s", list, err.msg);
        rp_buf_printf(&all, "%s%s", i ? " " : "", host);
    }
    return n < 0 ? NULL : rp_strdup(rp_buf_text(&all));
}

TEST(hosts)
{
    static const char *const lists[][2] = {
        {"node1", "node1"}, {"a,b c\td", "a b c d"}, {"a[0-5,12,20-21]", "a0 a1 a2 a3 a4 a5 a12 a20 a21"},
        {"linux[0098-0101]", "linux0098 linux0099 linux0100 linux0101"}, {"n[8-11]", "n8 n9 n10 n11"},
        {"n[098-101]", "n098 n099 n100 n101"}, {"a[1-2]b-ib", "a1b-ib a2b-ib"},
        {"r[1-2]n[08-10]", "r1n08 r1n09 r1n10 r2n08 r2n09 r2n10"},
        {"r[1,3]n[1-2].example.org,login", "r1n1.example.org r1n2.example.org r3n1.example.org r3n2.example.org login"},
        {",,x,", "x"}, {"[1-2]", "1 2"}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        RP_FREE char *got = expand(lists[i][0]);
        CHECK(got && strcmp(got, lists[i][1]) == 0, "%s: %s", lists[i][0], got ? got : "refused");
    }
}

TEST(refused)
{
    static const char *const lists[] = {"", ",", "a[", "a[]", "a[1", "a[1-]", "a[2-1]", "a[1,]", "a[,1]", "a[x]", "a]",
                                        "a[1]]", "a[1-2-3]", "a b;c", "a[0-99999999999999999999]", "a[0-262144]",
                                        "a[0-999]b[0-999]", "a[1][1][1][1][1][1][1][1][1]", "a/b", "a\033"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        struct rp_err err = {0};
        REFUSED(rp_hostlist_count(lists[i], "LIST", &err) < 0 && err.code == RP_MALFORMED, err.msg);
    }
    struct rp_err err = {0};
    char host[RP_HOST_MAX + 1], name[400];
    REFUSED(rp_hostlist_at(host, "a[1-3]", 3, "LIST", &err) < 0, err.msg);
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    REFUSED(rp_hostlist_at(host, name, 0, "LIST", &err) < 0, err.msg);
    CHECK(rp_hostlist_count("a[0-262143]", "LIST", &err) == RP_HOSTLIST_MAX, "the largest list");
}

TEST(addresses)
{
    static const struct {
        const char *text, *host;
        int port;
    } good[] = {{"node1", "node1", 0}, {"node1:80", "node1", 80}, {"192.0.2.1:65535", "192.0.2.1", 65535},
                {"2001:db8::1", "2001:db8::1", 0}, {"[2001:db8::1]", "2001:db8::1", 0},
                {"[2001:db8::1]:7", "2001:db8::1", 7}, {"::1", "::1", 0}};
    static const char *const bad[] = {"",     ":80",    "a:",     "a:0", "a:65536", "a:x",
                                      "[::1", "[::1]x", "[::1]:", "a b", "a\n"};
    struct rp_address a;
    struct rp_err err = {0};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        CHECK(rp_address_parse(&a, good[i].text, &err) == 0 && strcmp(a.host, good[i].host) == 0 &&
                  a.port == good[i].port,
              "%s: %s %d", good[i].text, a.host, a.port);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(rp_address_parse(&a, bad[i], &err) < 0 && err.code == RP_USAGE, "'%s'", bad[i]);
    CHECK(rp_address_is_here("127.0.0.1") == 1 && rp_address_is_here("192.0.2.250") == 0, "this host");
    struct sockaddr_in6 mapped = {.sin6_family = AF_INET6, .sin6_port = htons(5)};
    memcpy(&mapped.sin6_addr, "\0\0\0\0\0\0\0\0\0\0\377\377\300\0\2\7", 16);
    struct sockaddr_storage s = {0};
    char text[RP_ADDRESS_TEXT];
    memcpy(&s, &mapped, sizeof mapped);
    rp_address_text(text, &s, 1);
    CHECK_STR(text, "192.0.2.7:5");
}
