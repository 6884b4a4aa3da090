#include "base/clock.h"

#include <stdio.h>
#include <time.h>

static uint64_t now(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t rp_now_ns(void)
{
    return now(CLOCK_MONOTONIC);
}

uint64_t rp_wall_ns(void)
{
    return now(CLOCK_REALTIME);
}

void rp_rfc3339(char out[32], uint64_t wall_ns)
{
    time_t s = (time_t)(wall_ns / 1000000000u);
    struct tm t;
    gmtime_r(&s, &t);
    strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &t);
}
