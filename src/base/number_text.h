/* Floating-point numbers as text and back, bit for bit.
 *
 * What:    doubles as JSON has them, floats as C's hexadecimal texts, in which losses and norms travel.
 * Flow:    number -> text in a buffer of the caller; text -> number.
 */
#pragma once

#include <stddef.h>

/* The shortest text that is the same number, in jansson's form: "0.95", "1.0", "1e-7". */
#define RP_JSON_REAL 40
char *rp_json_real_text(char out[RP_JSON_REAL], double x);

/* floats travel as C hex floats ("0x1.8p+1"), exact: */
void rp_float_hex(char out[32], float x); /* "nan", "inf", "-inf" for those */
int rp_float_unhex(float *out, const char *text); /* 0 or -1 */
/* The same of a finite float in exactly the form that rp_float_hex() gives it; -1: another text. */
int rp_float_unhex_own(float *out, const char *text, size_t size);
/* The nearest double to the JSON number of `size` bytes, as strtod(), which takes ten times as long. The byte after the
 * number ends it too. */
double rp_json_real(const char *text, size_t size);
