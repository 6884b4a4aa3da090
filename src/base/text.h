/* Text that strangers wrote: file names, recipes, members, values of the machine.
 *
 * What:    one UTF-8 decoder, and what makes foreign text fit for a message, a terminal or a document.
 * Flow:    bytes -> code points, or text in which nothing is left that a terminal would obey.
 * Owner:   the caller's buffers.
 * Extend:  another form of showing text goes here, so that control characters are kept out in one place.
 */
#ifndef RP_BASE_TEXT_H
#define RP_BASE_TEXT_H

#include <stddef.h>

/* Bytes of the well-formed UTF-8 character at p (n > 0 left), its code point in *c; 0 when malformed. */
size_t rp_utf8(const char *p, size_t n, unsigned *c);
int rp_is_control(unsigned c); /* C0, DEL, C1: what a terminal obeys */
int rp_turns(unsigned c);      /* what turns the direction of the text after it: refused where text is sealed */
int rp_hides(unsigned c);      /* that, and what nobody sees, so that two texts look the same: shown as something else */
/* Is the word of len bytes one of the n? RP_IS_IN() counts them itself. */
int rp_is_in(const char *const *list, size_t n, const char *word, size_t len);
#define RP_IS_IN(list, word, len) rp_is_in(list, sizeof list / sizeof *list, word, len)
int rp_is_sha256(const char *text); /* 64 lower-case hex digits and no more */

/* In place and of the same length: malformed bytes, control characters, those that turn the direction of writing and those that nobody
 * sees become '?', but line ends and tabs blanks. */
void rp_clean(char *text);
/* Cleaned and between quotes, which end nowhere before the last: those inside, and \\, have a \\ before them; free() it. */
char *rp_quoted(const char *text);
/* Cut to size; anything but printable ASCII becomes '?'. */
const char *rp_safe(char *out, size_t size, const char *text);
/* For a message: at most 60 bytes, cut between characters, with "..." where something is missing; what rp_clean() replaces as '?'. */
const char *rp_shown(char out[72], const char *text);

#endif
