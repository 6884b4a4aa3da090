/* Clocks: clock source, resolution, synchronisation and time zone. */
#include "base/clock.h"
#include "base/json.h"
#include "capture/privacy/variables.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#define SOURCES "/sys/devices/system/clocksource/clocksource0"

/* {"monotonic", "realtime"}: nanoseconds between two values of each */
static json_t *ask_resolution(const struct rp_probe *p, const char *arg)
{
    struct timespec m, r;
    (void)p, (void)arg;
    if (clock_getres(CLOCK_MONOTONIC, &m) < 0 || clock_getres(CLOCK_REALTIME, &r) < 0)
        return NULL;
    return json_pack("{s:I, s:I}", "monotonic", (json_int_t)m.tv_sec * 1000000000 + m.tv_nsec, "realtime",
                     (json_int_t)r.tv_sec * 1000000000 + r.tv_nsec);
}

/* {"monotonic", "raw"}: now, by the clock of all measured times and by the clock whose rate cannot be set */
static json_t *ask_moment(const struct rp_probe *p, const char *arg)
{
    (void)p, (void)arg;
    const uint64_t monotonic = rp_now_ns(), raw = rp_raw_ns();
    return json_pack("{s:I, s:I}", "monotonic", (json_int_t)monotonic, "raw", (json_int_t)raw);
}

static void put_ns(struct rp_probe *p, const char *name, int64_t ns, const char *source)
{
    if (ns != RP_NO_INTEGER)
        rp_put_int(p->out, name, ns, source, "ns");
    else
        rp_put_absent(p->out, name, source);
}

static void put_times(struct rp_probe *p)
{
    RP_JSON *resolutions = rp_probe_query(p, "clock_resolution", NULL, ask_resolution),
            *now = rp_probe_query(p, "clock_moment", NULL, ask_moment);
    RP_READ(resolution_answer, resolution, resolutions);
    RP_READ(moment_answer, moment, now);
    put_ns(p, "resolution", resolution.monotonic, "clock_getres(2)");
    put_ns(p, "resolution_realtime", resolution.realtime, "clock_getres(2)");
    put_ns(p, "monotonic", moment.monotonic, "clock_gettime(2)");
    put_ns(p, "monotonic_raw", moment.raw, "clock_gettime(2)");
}

/* By how much the clock runs faster than its oscillator, in parts per million: the fine correction, and the coarse one
 * by the length of a tick in microseconds, which can be a tenth. */
static double rate_correction(const struct timex *t)
{
    const double usual = 1e6 / (double)sysconf(_SC_CLK_TCK), tick = t->tick > 0 ? (double)t->tick : usual;
    return (double)t->freq / 65536.0 + (tick - usual) / usual * 1e6;
}

/* The state of the kernel's clock discipline; {"denied": true} where a container may not read it. */
static json_t *ask_discipline(const struct rp_probe *p, const char *arg)
{
    struct timex t = {0};
    (void)p, (void)arg;
    int state = adjtimex(&t);
    if (state < 0)
        return errno == EPERM ? json_pack("{s:b}", "denied", 1) : NULL;
    double unit = t.status & STA_NANO ? 1e-9 : 1e-6;
    return json_pack("{s:b, s:f, s:f, s:f, s:f}", "synchronized", state != TIME_ERROR && !(t.status & STA_UNSYNC),
                     "offset", (double)t.offset * unit, "error_max", (double)t.maxerror * 1e-6, "error_estimated",
                     (double)t.esterror * 1e-6, "rate", rate_correction(&t));
}

static void put_discipline(struct rp_probe *p)
{
    static const char source[] = "adjtimex(2)";
    RP_JSON *json = rp_probe_query(p, "clock_discipline", NULL, ask_discipline);
    RP_READ(discipline_answer, answer, json);
    const struct {
        const char *name, *unit;
        double value;
    } numbers[] = {{"offset", "s", answer.offset},
                   {"error_max", "s", answer.error_max},
                   {"error_estimated", "s", answer.error_estimated},
                   {"rate_correction", "ppm", answer.rate}};
    const enum rp_state unknown = answer.denied ? RP_STATE_DENIED : RP_STATE_ABSENT;
    if (answer.synchronized >= 0)
        rp_put_str(p->out, "synchronized", answer.synchronized ? "yes" : "no", source);
    else
        rp_put(p->out, "synchronized", unknown, NULL, source, NULL, NULL);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!isnan(numbers[i].value))
            rp_put_real(p->out, numbers[i].name, numbers[i].value, source, numbers[i].unit);
        else
            rp_put(p->out, numbers[i].name, unknown, NULL, source, numbers[i].unit, NULL);
}

/* Time services, by their files in /run; a container sees those of the host only if it shares /run. */
static void put_keepers(struct rp_probe *p)
{
    static const char *const marks[][2] = {{"chrony", "/run/chrony/chronyd.pid"},
                                           {"chrony", "/run/chronyd.pid"},
                                           {"ntpd", "/run/ntpd.pid"},
                                           {"systemd-timesyncd", "/run/systemd/timesync/synchronized"},
                                           {"ptp4l", "/run/ptp4l"}};
    static const char source[] = "/run";
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (rp_probe_exists(p, marks[i][1]))
            json_array_append_new(list, json_string(marks[i][0]));
    if (json_array_size(list))
        rp_put(p->out, "kept_by", RP_STATE_OK, json_incref(list), source, NULL, NULL);
    else
        rp_put_absent(p->out, "kept_by", source);
    json_decref(list);
}

/* TZ, else the target of /etc/localtime below zoneinfo/, else /etc/timezone; and the rule, which is the last line of a
 * zone's file. */
static void put_zone(struct rp_probe *p)
{
    RP_TEXT variables, link, file;
    rp_environ_read(&variables, p);
    const char *tz = rp_environ_get(&variables, "TZ");
    rp_link_read(&link, p, "/etc/localtime");
    const char *name = link.state == RP_STATE_OK ? strstr(link.bytes.data, "zoneinfo/") : NULL;
    if (tz && *tz)
        rp_put_variable(p->out, "zone", tz, variables.path);
    else if (name)
        rp_put_str(p->out, "zone", name + 9, link.path);
    else
        rp_put_line(p, p->out, "zone", "/etc/timezone");

    rp_text_read(&file, p, "/etc/localtime");
    size_t n = file.state == RP_STATE_OK ? file.bytes.size : 0;
    char *end = n > 5 && memcmp(file.bytes.data, "TZif", 4) == 0 && file.bytes.data[n - 1] == '\n'
                    ? file.bytes.data + n - 1
                    : NULL;
    char *start = end ? memrchr(file.bytes.data, '\n', n - 1) : NULL;
    if (start) {
        *end = 0;
        rp_put_str(p->out, "zone_rule", start + 1, file.path);
    } else
        rp_put_invalid(p->out, "zone_rule", &file, NULL, "no file of a time zone");
}

void rp_probe_clock(struct rp_probe *p)
{
    rp_put_line(p, p->out, "source", SOURCES "/current_clocksource");
    rp_put_line(p, p->out, "sources", SOURCES "/available_clocksource");
    put_times(p);
    put_discipline(p);
    put_keepers(p);
    put_zone(p);
}
