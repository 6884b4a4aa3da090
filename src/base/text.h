/* Untrusted text: file names, recipes, members, values of the machine.
 *
 * What:    one UTF-8 decoder, functions that make such text safe for a message, a terminal or a document, digits, and
 *          printing into arrays. Allocates nothing: messages rest on it.
 * Flow:    bytes -> code points, or text without anything that a terminal would interpret.
 * Extend:  another way to show text goes here, so that control characters are removed in one place.
 */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Bytes of the well-formed UTF-8 character at p (n > 0 left), its code point in *c; 0 when malformed. */
size_t rp_utf8(const char *p, size_t n, unsigned *c);
int rp_is_control(unsigned c); /* C0, DEL, C1: interpreted by terminals */
/* changes the writing direction of the text after it: refused in sealed text */
int rp_is_bidi_control(unsigned c);
/* that, or invisible, so that two texts could look the same: replaced when shown */
int rp_is_invisible(unsigned c);
/* Is the word of len bytes one of the n? RP_IS_IN() counts them itself. */
int rp_is_in(const char *const *list, size_t n, const char *word, size_t len);
#define RP_IS_IN(list, word, len) rp_is_in(list, sizeof list / sizeof *list, word, len)
int rp_same_text(const char *a, const char *b); /* both are there, and equal */
int rp_ends_with(const char *text, const char *end);
const char *rp_base_name(const char *path); /* without its folders */
/* Digits and nothing else, 0..INT64_MAX (may have spaces around); 0 or -1. */
int rp_parse_count(const char *text, int64_t *out);
const char *rp_s(int64_t n); /* the ending of a counted noun: "" for 1, else "s" */
/* "2, 5-7": the numbers below n for which `in` is set; cut with "..." */
void rp_list_numbers(char *out, size_t size, const char *in, int n);
/* By character: the value of a hex digit plus 1, plus 16 more in upper case; 0: another character. */
extern const unsigned char rp_hex_value[256];
/* The value of a lower-case hex digit, or of one in any case; -1: another character. Without branches, which random
 * digits mispredict. */
static inline int rp_hex_digit(char c)
{
    const int value = rp_hex_value[(unsigned char)c];
    return value - 1 < 16 ? value - 1 : -1;
}
static inline int rp_hex_digit_any(char c)
{
    const int value = rp_hex_value[(unsigned char)c];
    return value ? (value - 1) & 15 : -1;
}
int rp_is_sha256(const char *text); /* 64 lower-case hex digits and no more */

/* How many of the n bytes come before the first that is malformed, a control character (a tab is none of these where
 * `tabs`) or changes the writing direction. */
size_t rp_plain_size(const char *text, size_t n, int tabs);

/* In place and of the same length: malformed bytes, control characters and characters of rp_is_invisible() become '?',
 * line ends and tabs become blanks. */
void rp_sanitize(char *text);
/* Cut to size; anything but printable ASCII becomes '?'. */
const char *rp_ascii(char *out, size_t size, const char *text);
/* For a message: cleaned, at most 60 bytes, cut between characters, with "..." if something is missing. */
const char *rp_excerpt(char out[72], const char *text);

/* Prints into an array of char, cutting what does not fit; the value is the array. */
#define RP_FORMAT(array, ...) (snprintf(array, sizeof(array), __VA_ARGS__), (array))
/* Likewise, the arguments after `fmt` of the variadic function that it stands in. */
#define RP_FORMAT_ARGS(array, fmt)                                                                                     \
    do {                                                                                                               \
        va_list ap_;                                                                                                   \
        va_start(ap_, fmt);                                                                                            \
        vsnprintf(array, sizeof(array), fmt, ap_);                                                                     \
        va_end(ap_);                                                                                                   \
    } while (0)
