/* Documents in exactly the form that rp_json_write() gives them. */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* The document where the text is what rp_json_write() makes of it, within the limits of rp_json_parse() and of at most
 * that many values; else NULL. */
json_t *rp_json_read_own(const char *data, size_t size, int64_t values);
