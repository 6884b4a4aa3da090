/* The distribution, from os-release(5): NAME=value or NAME="value"; and the C library that
 * programs here are linked to. */
#include "base/json.h"
#include "capture/host/device.h"
#include "capture/host/elf.h"

#include <string.h>

/* {"path", "version", "package"} of the first C library found. */
static json_t *ask_libc(const struct rp_probe *p, const char *arg)
{
    static const char *const glibc[] = {"/lib/x86_64-linux-gnu/libc.so.6",
                                        "/lib/aarch64-linux-gnu/libc.so.6",
                                        "/lib64/libc.so.6",
                                        "/usr/lib64/libc.so.6",
                                        "/usr/lib/libc.so.6",
                                        "/lib/libc.so.6"};
    static const char *const musl[] = {"/lib/ld-musl-x86_64.so.1", "/lib/ld-musl-aarch64.so.1"};
    (void)arg;
    for (size_t i = 0; i < sizeof glibc / sizeof *glibc; i++) {
        enum rp_state state;
        const char *detail;
        char package[80], version[24];
        RP_FD fd = rp_probe_open(p, glibc[i], &state, &detail);
        if (fd < 0 || rp_elf_find(fd, "stable release version ", " \n", version, sizeof version) < 0)
            continue;
        size_t n = strlen(version);
        version[n - (n && version[n - 1] == '.')] = 0;
        json_t *answer = json_pack("{s:s, s:o}", "path", glibc[i], "version", json_sprintf("glibc %s", version));
        if (rp_elf_find(fd, "GNU C Library (", ")", package, sizeof package) == 0)
            json_object_set_new(answer, "package", json_string(package));
        return answer;
    }
    for (size_t i = 0; i < sizeof musl / sizeof *musl; i++)
        if (rp_probe_exists(p, musl[i]))
            return json_pack("{s:s, s:s}", "path", musl[i], "version", "musl");
    return NULL;
}

static void put_libc(struct rp_probe *p)
{
    RP_JSON *json = rp_probe_query_files(p, "libc", ask_libc);
    RP_READ(libc_answer, answer, json);
    const int known = answer.path && *answer.path;
    rp_put_str(p->out, "libc", known ? answer.version : NULL, known ? answer.path : "libc.so.6");
    rp_put_str(p->out, "libc_package", known ? answer.package : NULL, known ? answer.path : "libc.so.6");
}

void rp_probe_distribution(struct rp_probe *p)
{
    RP_TEXT t;
    rp_text_read(&t, p, "/etc/os-release");
    if (t.state == RP_STATE_ABSENT) {
        rp_text_fini(&t);
        rp_text_read(&t, p, "/usr/lib/os-release");
    }
    rp_put_field(p->out, "id", &t, "ID", '=');
    rp_put_field(p->out, "version_id", &t, "VERSION_ID", '=');
    rp_put_field(p->out, "codename", &t, "VERSION_CODENAME", '=');
    rp_put_field(p->out, "name", &t, "PRETTY_NAME", '=');
    put_libc(p);
}
