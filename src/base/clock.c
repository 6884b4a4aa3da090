#include "base/clock.h"

#include <string.h>
#include <time.h>

static uint64_t read_clock(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t rp_now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t rp_raw_ns(void)
{
    return read_clock(CLOCK_MONOTONIC_RAW);
}

uint64_t rp_stopped_ns(uint64_t *looked_ns, uint64_t now)
{
    const uint64_t since = *looked_ns ? now - *looked_ns : 0;
    *looked_ns = now;
    return since < 2000000000u ? 0 : since;
}

uint64_t rp_wall_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

uint64_t rp_boottime_ns(void)
{
    return read_clock(CLOCK_BOOTTIME);
}

uint64_t rp_wall_since_ns(uint64_t started_ns, uint64_t boot_ns, uint64_t least_ns)
{
    const uint64_t now = started_ns + (rp_boottime_ns() - boot_ns);
    return now > least_ns ? now : least_ns;
}

void rp_rfc3339(char out[32], uint64_t wall_ns)
{
    time_t s = (time_t)(wall_ns / 1000000000u);
    struct tm t;
    gmtime_r(&s, &t);
    strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &t);
}

/* Does the text match the shape, in which '0' is any digit? */
static int has_shape(const char *text, size_t n, const char *shape)
{
    for (size_t i = 0; i < n; i++)
        if (shape[i] == '0' ? text[i] < '0' || text[i] > '9' : text[i] != shape[i])
            return 0;
    return n == strlen(shape);
}

/* The number of two digits, which has_shape() has seen. */
static int two_digits(const char *digits)
{
    return (digits[0] - '0') * 10 + digits[1] - '0';
}

int rp_is_date(const char *text, size_t n)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (!has_shape(text, n, "0000-00-00"))
        return 0;
    int year = two_digits(text) * 100 + two_digits(text + 2), month = two_digits(text + 5), day = two_digits(text + 8);
    int leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return month >= 1 && month <= 12 && day >= 1 && day <= days[month - 1] + (month == 2 && leap);
}

int rp_is_rfc3339(const char *text)
{
    return has_shape(text, strlen(text), "0000-00-00T00:00:00Z") && rp_is_date(text, 10) &&
           two_digits(text + 11) < 24 && two_digits(text + 14) < 60 && two_digits(text + 17) <= 60;
}

int64_t rp_rfc3339_seconds(const char *text)
{
    struct tm t = {0};
    if (!rp_is_rfc3339(text) || two_digits(text + 17) > 59 || two_digits(text) * 100 + two_digits(text + 2) < 1970)
        return -1;
    t.tm_year = two_digits(text) * 100 + two_digits(text + 2) - 1900;
    t.tm_mon = two_digits(text + 5) - 1;
    t.tm_mday = two_digits(text + 8);
    t.tm_hour = two_digits(text + 11);
    t.tm_min = two_digits(text + 14);
    t.tm_sec = two_digits(text + 17);
    return (int64_t)timegm(&t);
}
