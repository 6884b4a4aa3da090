/* Lists of hosts, and the words with which ssh is started. What happens then is tested by tests/cli/ranks/over_ssh.sh
 * and sshd.sh. */
#include "base/buf.h"
#include "launch/hosts.h"
#include "launch/ssh.h"
#include "tests/unit/tap.h"

#include <string.h>

static const struct {
    const char *list, *expected; /* "NAME HOST RANKS;" of each, and the number of this machine; NULL: refused */
} lists[] = {
    {"localhost,a", "localhost localhost 0;a a 0;here 0"},
    {"a-1.example:4,LOCALHOST:12", "a-1.example a-1.example 4;LOCALHOST LOCALHOST 12;here 1"},
    {"me@a_b,localhost", "me@a_b a_b 0;localhost localhost 0;here 1"},
    {"127.0.0.1,me.x-y+z@[2001:db8::7]:3", "127.0.0.1 127.0.0.1 0;me.x-y+z@2001:db8::7 2001:db8::7 3;here 0"},
    {"localhost,2001:db8::7", "localhost localhost 0;2001:db8::7 2001:db8::7 0;here 0"},
    {"localhost,[fe80::1%eth0]", "localhost localhost 0;fe80::1%eth0 fe80::1%eth0 0;here 0"},
    {"localhost,10.0.0.1:4096", "localhost localhost 0;10.0.0.1 10.0.0.1 4096;here 0"},
    {"[::1],b", "::1 ::1 0;b b 0;here 0"},
    {"", NULL},
    {",", NULL},
    {"localhost,", NULL},
    {"localhost,-a", NULL},
    {"localhost,-oProxyCommand=x", NULL},
    {"localhost,me@-a", NULL},
    {"localhost,-me@a", NULL},
    {"localhost,@a", NULL},
    {"localhost,a@b@c", NULL},
    {"localhost,[-a]", NULL},
    {"localhost,[::1", NULL},
    {"localhost,[]", NULL},
    {"localhost,[a]b", NULL},
    {"localhost,a:", NULL},
    {"localhost,a:0", NULL},
    {"localhost,a:-1", NULL},
    {"localhost,a:+1", NULL},
    {"localhost,a: 1", NULL},
    {"localhost,a:4097", NULL},
    {"localhost,a:99999999999999999999", NULL},
    {"localhost,a:1x", NULL},
    {"localhost,a b", NULL},
    {"localhost,a\nb", NULL},
    {"localhost,a'b", NULL},
    {"localhost,a\"b", NULL},
    {"localhost,a$b", NULL},
    {"localhost,a`b`", NULL},
    {"localhost,a;b", NULL},
    {"localhost,a\\b", NULL},
    {"localhost,a/b", NULL},
    {"localhost,a*", NULL},
    {"localhost,\xc3\xa4", NULL},
    {"localhost,a,A", NULL},
    {"localhost,a,me@a:2", NULL},
    {"localhost,[a],a", NULL},
};

TEST(lists_of_hosts)
{
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        struct rp_hosts h;
        struct rp_err err = {0};
        RP_BUF got = {0};
        int failed = rp_hosts_parse(&h, lists[i].list, &err) < 0;
        CHECK(failed == !lists[i].expected, "'%s': %s", lists[i].list, failed ? err.msg : "not refused");
        if (failed) {
            CHECK(err.code == RP_USAGE && strstr(err.msg, "--hosts"), "'%s': %s", lists[i].list, err.msg);
            continue;
        }
        for (int k = 0; k < h.n; k++)
            rp_buf_printf(&got, "%s %s %d;", h.entry[k].name, h.entry[k].host, h.entry[k].ranks);
        rp_buf_printf(&got, "here %d", h.here);
        CHECK(!lists[i].expected || strcmp(rp_buf_text(&got), lists[i].expected) == 0, "'%s': %s", lists[i].list,
              got.data);
        rp_hosts_fini(&h);
    }
}

TEST(longest_lists)
{
    struct rp_hosts h;
    struct rp_err err;
    RP_BUF most = {0};
    for (int i = 0; i <= RP_HOSTS_MAX; i++) {
        rp_buf_printf(&most, "%s127.0.%d.%d", i ? "," : "", i / 200, i % 200 + 1);
        int failed = rp_hosts_parse(&h, most.data, &err) < 0;
        CHECK(failed == (i == RP_HOSTS_MAX), "%d hosts", i + 1);
        rp_hosts_fini(&h);
    }
    RP_BUF name = {0};
    while (name.size < RP_ADDRESS_HOST)
        rp_buf_puts(&name, "a");
    RP_FREE char *fits = rp_asprintf("localhost,%s@%s", name.data, name.data),
                 *over = rp_asprintf("localhost,%sa", name.data), *user = rp_asprintf("localhost,%sa@b", name.data);
    CHECK(rp_hosts_parse(&h, fits, &err) == 0 && strlen(h.entry[1].name) == 2 * RP_ADDRESS_HOST + 1,
          "the longest name");
    rp_hosts_fini(&h);
    CHECK(rp_hosts_parse(&h, over, &err) < 0 && rp_hosts_parse(&h, user, &err) < 0, "names that are too long");
}

/* The host and the command follow the end of the options; nothing of the command depends on the job. */
TEST(words_of_ssh)
{
    char *words[RP_SSH_WORDS], command[] = " ssh -p  2222\t-F none ", blank[] = " \t", many[200] = "";
    struct rp_err err;
    int n = 0;
    CHECK(rp_ssh_words(words, command, "me@a", &err) == 0, "%s", err.msg);
    while (words[n])
        n++;
    CHECK(n > 8 && strcmp(words[0], "ssh") == 0 && strcmp(words[2], "2222") == 0 && strcmp(words[4], "none") == 0,
          "the command's own words");
    CHECK(strcmp(words[n - 3], "--") == 0 && strcmp(words[n - 2], "me@a") == 0 &&
              strcmp(words[n - 1], RP_SSH_COMMAND) == 0,
          "the last words");
    int batch = 0;
    for (int i = 0; i < n; i++)
        batch |= strcmp(words[i], "BatchMode=yes") == 0;
    CHECK(batch, "ssh may ask questions");
    CHECK(!strpbrk(RP_SSH_COMMAND, "!\n"), "csh takes these signs for something else, in quotes too");
    CHECK(rp_ssh_words(words, blank, "a", &err) < 0 && err.code == RP_USAGE, "no word");
    for (size_t i = 0; i + 1 < sizeof many; i++)
        many[i] = i % 2 ? ' ' : 'x';
    CHECK(rp_ssh_words(words, many, "a", &err) < 0 && err.code == RP_USAGE, "too many words");
}
