/* A reader of plain JSON: what this program writes itself, and most of what others do.
 *
 * What:    jansson reads a byte at a time and copies every text twice, which was most of the time that `verify` of a small bundle took.
 * Flow:    text -> the very document that jansson would make of it, or NULL: not plain. rp_json_parse() then asks jansson, which knows
 *          better or says what is wrong.
 * Owner:   the document is the caller's.
 * Extend:  nothing: what is not plain is jansson's.
 *
 * Plain is a list or an object without escapes in its texts, with numbers of moderate length, no key twice, UTF-8, and nothing after it,
 * within the bounds of json.c: this recurses once per level.
 */
#ifndef RP_BASE_JSON_PLAIN_H
#define RP_BASE_JSON_PLAIN_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define RP_JSON_DEPTH_MAX 64 /* our documents need 6 */
#define RP_JSON_STRING_MAX (4ul << 20) /* jansson holds it three times; a document of a bundle is no larger */
#define RP_JSON_REALS (JSON_ENCODE_ANY | JSON_REAL_PRECISION(17))

/* values: at most so many. *own: whether the text is, byte for byte, what rp_json_write() makes of the document. */
json_t *rp_json_plain(const char *text, size_t size, int64_t values, int *own);

#endif
