/* Time: monotonic nanoseconds for measuring, RFC 3339 UTC for people.
 *
 * Extend: do not mix the two clocks in one figure.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

uint64_t rp_now_ns(void);                         /* CLOCK_MONOTONIC */
uint64_t rp_raw_ns(void); /* CLOCK_MONOTONIC_RAW: as the oscillator runs, whatever adjtimex() sets */
/* How long this process did not run, as after Ctrl-Z, since the last call for *looked_ns, which is 0 at first; less
 * than two seconds count as none. */
uint64_t rp_stopped_ns(uint64_t *looked_ns, uint64_t now);
uint64_t rp_wall_ns(void);                        /* CLOCK_REALTIME since 1970 */
uint64_t rp_boottime_ns(void);                    /* CLOCK_BOOTTIME: monotonic, goes on while the machine sleeps */
/* Now by the wall clock as it was at started_ns, when CLOCK_BOOTTIME was boot_ns; least_ns if that is later. A clock
 * that is set meanwhile changes nothing. */
uint64_t rp_wall_since_ns(uint64_t started_ns, uint64_t boot_ns, uint64_t least_ns);
void rp_rfc3339(char out[32], uint64_t wall_ns);  /* 2026-11-21T06:27:54Z */
int rp_is_date(const char *text, size_t n);       /* are these bytes an existing day, like "2028-02-29"? */
int rp_is_rfc3339(const char *text);              /* exactly the form that rp_rfc3339() writes */
/* since 1970; -1 for a text of another form, a day that does not exist, or before 1970 */
int64_t rp_rfc3339_seconds(const char *text);
