/* Slurm's compressed lists of hosts: "a[0-5,12]b,login".
 *
 * What:    one element by its number, or how many there are; nothing is expanded.
 * Flow:    SLURM_STEP_NODELIST, --hosts -> the host of a node.
 * Owner:   texts are borrowed, results are copied.
 * Extend:  they are untrusted: a new form gets cases in tests/unit/test_launch_hosts.c and inputs in
 *          tests/fuzz/corpus/hostlist.
 *
 * Hosts are separated by commas or blanks. A bracket holds numbers and ranges of them, and a name may have several
 * brackets, of which the last one varies fastest: r[1-2]n[08-10] is r1n08 r1n09 r1n10 r2n08 r2n09 r2n10. The width of a
 * range is that of its first number.
 */
#pragma once

#include "base/err.h"

#include <stdint.h>

#define RP_HOST_MAX 254             /* bytes of a name */
#define RP_HOSTLIST_MAX (256 << 10) /* elements, as in Slurm */

/* How many; -1 and RP_MALFORMED. what: the list in messages, e.g. the name of the variable. */
int64_t rp_hostlist_count(const char *list, const char *what, struct rp_err *err) rp_must_check;
/* Host number i from 0. RP_MALFORMED: the list is wrong, or shorter. */
int rp_hostlist_at(char out[RP_HOST_MAX + 1], const char *list, int64_t i, const char *what,
                   struct rp_err *err) rp_must_check;
