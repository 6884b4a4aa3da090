#include "capture/capture.h"

#include "base/clock.h"
#include "capture/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static const struct {
    const char *name;
    void (*run)(struct rp_probe *p);
} probes[] = {
#define PROBE(name) {#name, rp_probe_##name},
#include "capture/probes.def"
#undef PROBE
};

json_t *rp_capture(const struct rp_capture_opts *o, struct rp_err *err)
{
    unsigned char random[16];
    char salt[33], when[32];
    if (o->salt)
        memccpy(salt, o->salt, 0, sizeof salt);
    else if (getrandom(random, sizeof random, 0) != sizeof random)
        return rp_fail_null(err, RP_IO, "capture: no random bytes for the salt: %s", strerror(errno));
    else
        rp_hex(salt, random, sizeof random);
    salt[32] = 0;
    rp_rfc3339(when, rp_wall_ns());

    RP_FD root = open(o->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0 && strcmp(o->root, "/") != 0)
        return rp_fail_null(err, RP_IO, "capture: cannot open '%s': %s", o->root, strerror(errno));
    json_t *all = json_object();
    struct rp_probe p = {.opts = o, .root = root, .live = strcmp(o->root, "/") == 0, .salt = salt};
    for (size_t i = 0; i < sizeof probes / sizeof *probes; i++) {
        p.name = probes[i].name;
        p.out = json_object();
        json_object_set_new(all, p.name, p.out);
        probes[i].run(&p);
    }
    return json_pack("{s:s, s:s, s:s, s:b, s:o}", "schema", "repro-env/1", "captured_at", when, "salt", salt, "identified",
                     o->identify != 0, "probes", all);
}
