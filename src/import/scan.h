/* What stands in a line of a log: marks, numbers, times of day.
 *
 * What:    bounded readers of NUL-terminated text; nothing is copied, nothing depends on a locale.
 * Flow:    line -> number or seconds.
 * Owner:   nobody owns anything.
 * Extend:  another way of writing a time is a branch of rp_scan_stamp().
 */
#ifndef RP_IMPORT_SCAN_H
#define RP_IMPORT_SCAN_H

#include <stddef.h>
#include <stdint.h>

const char *rp_scan_after(const char *line, const char *mark); /* behind the first `mark`, or NULL */
/* The decimal number at p, blanks before it skipped: its end, or NULL where there is none or it is not finite. */
const char *rp_scan_real(const char *p, double *out);
const char *rp_scan_count(const char *p, int64_t *out); /* digits only, at most 1e15 */
/* The first time in the line, in seconds: since 1970 for "2020-09-15 14:29:13.473765" (or 'T', or a comma before the fraction), since
 * midnight for "14:29:13.473765" (*of_day is then 1). The zone is not looked at. 0, or -1 where there is none. */
int rp_scan_stamp(const char *line, double *seconds, int *of_day);

#endif
