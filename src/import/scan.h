/* Parts of a line of a log: marks, numbers, times of day, fields.
 *
 * What:    bounded readers of NUL-terminated text, independent of the locale.
 * Flow:    line -> number, seconds or text.
 * Extend:  another format of a time is a branch of rp_scan_stamp().
 */
#pragma once

#include <stdint.h>

const char *rp_scan_after(const char *line, const char *mark); /* after the first `mark`, or NULL */
/* The decimal number at p, after blanks: its end, or NULL where there is none or it is not finite. */
const char *rp_scan_real(const char *p, double *out);
const char *rp_scan_count(const char *p, int64_t *out); /* digits only, at most 1e15 */
const char *rp_scan_grouped(const char *p, int64_t *out); /* the same, or with commas between groups of three: 5,498 */
/* The first time in the line, in seconds: since 1970 for "2020-09-15 14:29:13.473765" (or 'T', or a comma before the
 * fraction), since midnight for "14:29:13.473765" (*of_day is then 1). The zone is ignored. 0, or -1 where there is
 * none. */
int rp_scan_stamp(const char *line, double *seconds, int *of_day);
/* The field of CSV at *p, unquoted in place; *p moves past its separator, NULL at the end of the line. NULL: a quote is
 * not closed, or text follows it. */
char *rp_scan_field(char **p, char separator);
