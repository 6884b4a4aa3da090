/* `repro capture --explain FIELD`: a row of fields.def, or all below a name, for people and as JSON.
 *
 * What:    what a field of a capture means, where it comes from and why it matters.
 * Flow:    a field, a pattern or a prefix -> rows of fields.def -> text or {"fields": [...]}.
 * Owner:   cli->result.
 * Extend:  a row in capture/fields.def.
 */
#pragma once

#include "cli/cli.h"

int rp_explain(struct rp_cli *cli, const char *field, struct rp_err *err) rp_must_check;
