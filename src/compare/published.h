/* The names of the published tables inside this program.
 *
 * What:    a list for messages and completion; operands.c loads the tables.
 * Flow:    base/embed.h -> text.
 * Extend:  a table is a file of results/published/.
 */
#pragma once

#include "base/buf.h"

/* Each after that text: "published:dlperf_v100". */
void rp_published_names(struct rp_buf *out, const char *before);
