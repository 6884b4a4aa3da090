/* Environment variables of the captured process, by an allow-list, without credentials and identities.
 *
 * What:    rp_environ_read() (probe.h) gives the text, these look into it and make values of it.
 * Flow:    environ(7), or /proc/self/environ of another root -> NAME=value, each with its NUL -> {"state", "value",
 *          "source"}.
 * Owner:   texts are borrowed from the struct rp_text.
 * Extend:  an allowed name is a row in environ.c, or in job_variables.c when a launcher sets it; secrets.h recognises
 *          credentials.
 */
#pragma once

#include "capture/probe.h"

/* "NAME=value" after `last`; begins and ends with NULL */
const char *rp_environ_next(const struct rp_text *t, const char *last);
const char *rp_environ_get(const struct rp_text *t, const char *name);  /* NULL: not set, or not on the list */
/* value: as the text has it */
void rp_put_variable(json_t *obj, const char *field, const char *value, const char *source);

/* May a variable be read, and is its value hidden whatever it is? */
enum rp_variable { RP_VARIABLE_NO, RP_VARIABLE_CLEAR, RP_VARIABLE_HIDDEN };
enum rp_variable rp_environment_allows(const char *name, size_t n); /* of one that no launcher sets */

extern const char rp_too_long[]; /* replaces a value; rp_put_variable() makes it an error */
