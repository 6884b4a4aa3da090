/* Errors: one struct, one code list, one exit status per code.
 *
 * What:    every function that can fail takes `struct rp_err *err` last and returns 0/-1 or pointer/NULL.
 * Flow:    the place that fails calls rp_fail(); callers add context with rp_wrap(); only main.c and cli/ print.
 * Owner:   the caller owns the struct, usually on its stack; no memory is attached to it.
 * Extend:  a new code is one row of RP_CODES; the exit status table of `--help` and the man page follow.
 */
#pragma once

/* code, process exit status, what it means to a user */
#define RP_CODES(X)                                                                                                    \
    X(RP_OK, 0, "fine")                                                                                                \
    X(RP_USAGE, 2, "the command line or a recipe key is wrong")                                                        \
    X(RP_IO, 3, "a file, recipe or device is missing, or could not be read or written")                                \
    X(RP_MALFORMED, 4, "a file does not conform to its format")                                                        \
    X(RP_MISMATCH, 5, "something recomputed, replayed, hashed or compared differs, or a run's numbers are not finite") \
    X(RP_SIGNATURE, 6, "a signature is missing, wrong, or not by the expected key")                                   \
    X(RP_UNAVAILABLE, 7, "not possible on this machine: memory, instruction set, device, or a worker killed")          \
    X(RP_UNKNOWN_KEY, 8, "verify: nothing failed, but the signing key is neither trusted here nor given")              \
    X(RP_POLICY, 9, "verify: nothing failed, but the bundle breaks rules of your policy")                              \
    X(RP_INCOMPLETE, 10, "verify: nothing failed, but the run failed or ended early")                                  \
    X(RP_VERSION, 11, "a file was written by another version of repro, which this one does not read")                  \
    X(RP_BUG, 70, "a defect in repro: please report it")                                                               \
    X(RP_INTERRUPTED, 130, "interrupted; what was measured is sealed and marked incomplete")

enum rp_code {
#define X(code, status, text) code,
    RP_CODES(X)
#undef X
};

struct rp_err {
    enum rp_code code;
    int sys;       /* errno where there was one, else 0 */
    char msg[512]; /* one line, no newline, no trailing full stop */
};

#define rp_must_check __attribute__((warn_unused_result))

/* Fill *err and return -1, so that `return rp_fail(err, RP_IO, "...")` is one statement. Keeps errno in err->sys. */
int rp_fail(struct rp_err *err, enum rp_code code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The same for functions that return a pointer. */
#define rp_fail_null(...) ((void)rp_fail(__VA_ARGS__), (void *)0)
/* Put "context: " before the message that is there; returns -1. */
int rp_wrap(struct rp_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#ifdef __clang_analyzer__ /* which sees one file at a time, and not that these never return 0 */
#define rp_fail(...) (rp_fail(__VA_ARGS__), -1)
#define rp_wrap(...) (rp_wrap(__VA_ARGS__), -1)
#endif

int rp_exit_status(enum rp_code code);
const char *rp_code_name(enum rp_code code);    /* "RP_IO" -> "io": lower case, for --json */
const char *rp_code_meaning(enum rp_code code); /* the third column */

/* For a state that only a defect in this program can reach. */
void rp_bug(const char *file, int line, const char *what) __attribute__((noreturn));
#define RP_BUG_IF(cond)                                                                                                \
    do {                                                                                                               \
        if (cond)                                                                                                      \
            rp_bug(__FILE__, __LINE__, #cond);                                                                         \
    } while (0)
