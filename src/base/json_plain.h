/* A reader of plain JSON: what this program writes itself, and most of what others do.
 *
 * What:    jansson reads a byte at a time and copies every text twice, which was most of the time that `verify` of a small bundle took.
 * Flow:    text -> the very document that jansson would make of it, or NULL: not plain. rp_json_parse() then asks jansson, which knows
 *          better or says what is wrong.
 * Owner:   the document is the caller's.
 * Extend:  nothing: what is not plain is jansson's.
 *
 * Plain is a list or an object without escapes in its texts, with numbers of moderate length, no key twice, UTF-8, and nothing after it.
 * Depth and number of values were bounded by the caller: this recurses once per level.
 */
#ifndef RP_BASE_JSON_PLAIN_H
#define RP_BASE_JSON_PLAIN_H

#include <jansson.h>
#include <stddef.h>

json_t *rp_json_plain(const char *text, size_t size);

#endif
