/* For fuzz targets: changes to a JSON document as lines, so that mutations are changes of values and not of brackets.
 *
 * What:    "/plan/bytes/0 JSON" puts a value there (a text that is no JSON is a string), "/plan" alone takes what is
 *          there away.
 * Flow:    bytes of the fuzzer -> lines -> the document.
 * Owner:   the document is the caller's.
 * Extend:  nothing to extend.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>

/* What a line names is made on the way, where the place of a name is free. */
void patch_json(json_t *doc, const char *text, size_t size);
/* One line of n bytes, for targets with lines of their own. */
json_t *patch_value(const char *text, size_t n);
