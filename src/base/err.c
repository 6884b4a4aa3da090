#include "base/err.h"

#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Messages quote untrusted file names and contents: control characters (which a terminal interprets) and invalid UTF-8
 * (which JSON refuses) are replaced here. */
int rp_fail(struct rp_err *err, enum rp_code code, const char *fmt, ...)
{
    char msg[sizeof err->msg];
    int sys = errno;
    RP_FORMAT_ARGS(msg, fmt); /* into a copy: arguments may point into err->msg */
    rp_sanitize(msg);
    err->code = code;
    err->sys = sys;
    memcpy(err->msg, msg, sizeof msg);
    return -1;
}

int rp_wrap(struct rp_err *err, const char *fmt, ...)
{
    char msg[2 * sizeof err->msg];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    size_t n = strlen(msg);
    snprintf(msg + n, sizeof msg - n, ": %s", err->msg);
    msg[sizeof err->msg - 1] = 0;
    rp_sanitize(msg);
    memcpy(err->msg, msg, sizeof err->msg);
    return -1;
}

static const struct {
    int status;
    const char *name, *meaning;
} codes[] = {
#define X(code, status, text) [code] = {status, #code, text},
    RP_CODES(X)
#undef X
};
#define CODE_COUNT (sizeof codes / sizeof *codes)

int rp_exit_status(enum rp_code code)
{
    return (unsigned)code < CODE_COUNT ? codes[code].status : codes[RP_BUG].status;
}

const char *rp_code_name(enum rp_code code)
{
    static char lower[CODE_COUNT][24];
    if ((unsigned)code >= CODE_COUNT)
        code = RP_BUG;
    const char *s = codes[code].name + strlen("RP_");
    char *out = lower[code];
    for (size_t i = 0; s[i] && i + 1 < sizeof lower[0]; i++)
        out[i] = (char)(s[i] >= 'A' && s[i] <= 'Z' ? s[i] | 0x20 : s[i]);
    return out;
}

const char *rp_code_meaning(enum rp_code code)
{
    return (unsigned)code < CODE_COUNT ? codes[code].meaning : codes[RP_BUG].meaning;
}

void rp_bug(const char *file, int line, const char *what)
{
    fprintf(stderr, "repro: bug at %s:%d: %s: please report it\n", file, line, what);
    _Exit(rp_exit_status(RP_BUG));
}
