/* For tests of keys: a key in a file of its own, and a program that must not read OpenSSL's configuration. */
#pragma once

#include "tests/unit/bundle_fixture.h"

/* OpenSSL would read its configuration from a pipe that nobody writes: a reader hangs, and the alarm ends the
 * program. */
__attribute__((constructor)) static void no_configuration(void)
{
    RP_FREE char *pipe_path = fx_path("openssl.cnf");
    if (mkfifo(pipe_path, 0600) < 0)
        abort();
    setenv("OPENSSL_CONF", pipe_path, 1);
    alarm(120);
}

static __attribute__((unused)) char *private_file(const char *name, const char *text, mode_t mode)
{
    struct rp_err err;
    char *path = fx_path(name);
    CHECK(rp_write_file(path, text, strlen(text), 0600, &err) == 0 && chmod(path, mode) == 0, "%s", path);
    return path;
}
