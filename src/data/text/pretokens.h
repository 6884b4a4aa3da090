/* GPT-2's pre-tokens: the pieces of a text inside which its byte pair encoding merges.
 *
 * What:    the regular expression of GPT-2 as a function, and the classes of characters that it needs, of Unicode 16.0
 *          (unicode.def).
 * Flow:    UTF-8 text, which was checked -> length of its first pre-token; together they are the whole text.
 *
 *     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 */
#pragma once

#include <stddef.h>

enum rp_char_class { RP_CHAR_OTHER, RP_CHAR_LETTER, RP_CHAR_NUMBER, RP_CHAR_SPACE };
enum rp_char_class rp_char_class_of(unsigned c);

/* Bytes of the first pre-token; n > 0. */
size_t rp_pretoken(const char *p, size_t n);
