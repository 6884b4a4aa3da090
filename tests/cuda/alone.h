/* A test in a process of its own: the environment of the tests' driver is read when it starts. */
#pragma once

#include "tests/cuda/gpu.h"
#include "tests/unit/tap.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* defer: "0" work of streams is done at once, "1" as late as a driver may, "2" at random moments between
 * (tests/shim/stream.c) */
static void alone(void (*body)(void), const char *defer)
{
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("SHIM_DEFER", defer, 1);
        body();
        fflush(stdout);
        exit(tap_failures != 0);
    }
    waitpid(pid, &status, 0);
    CHECK(status == 0, "status %d", status);
}
