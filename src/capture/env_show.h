/* The two values of a difference between captures, in words.
 *
 * What:    "495 GiB", "(absent)", "only here: nvidia_peermem"; of rows of the topology's matrix the cells that differ.
 * Flow:    a difference of rp_capture_compare() -> two texts of one line each.
 * Owner:   the caller owns the texts.
 * Extend:  a unit that is scaled for people is a word in show_side().
 */
#pragma once

#include "base/buf.h"
#include "capture/env_diff.h"

/* text: two buffers whose content is replaced, of "a" and of "b". Of two lists only what one of them has. */
void rp_capture_show_sides(struct rp_buf text[2], const struct rp_difference *d);
